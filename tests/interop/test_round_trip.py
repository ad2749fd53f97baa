from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from . import strategies
from .writing import write

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from .readers import Checker

FEEDS = st.sampled_from(("batches", "tables", "stream"))


# Shrinking a failure may take as long again.
@pytest.mark.timeout(900)
@given(st.data())
def test_every_engine_reads_back_what_was_written(checker: Checker, data: st.DataObject) -> None:
    recipe = data.draw(strategies.recipes())
    options = data.draw(strategies.options(recipe.schema))
    cuts, feed = data.draw(strategies.cuts(recipe.rows)), data.draw(FEEDS)

    def writing(table: pa.Table, path: Path) -> None:
        write(table, path, cuts=cuts, feed=feed, **fitting(options, table.schema))

    checker.check(recipe.table(), writing, microseconds=options.get("timestamps") == "us")


def fitting(options: dict[str, Any], schema: pa.Schema) -> dict[str, Any]:
    """The options without dictionary rules for columns that the schema has not."""
    rule = options.get("dictionary")
    if not isinstance(rule, dict):
        return options
    return options | {
        "dictionary": {path: wanted for path, wanted in rule.items() if path[0] in schema.names}
    }
