from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import spillway

from ..counts import SOAK
from . import strategies
from .engines import WAYS
from .writing import write

if TYPE_CHECKING:
    from pathlib import Path

    from .readers import Checker

FEEDS = st.sampled_from(("batches", "tables", "stream", "whole"))


# Ten thousand tables take some twenty minutes; shrinking a failure may take as long again.
@pytest.mark.timeout(7200 if SOAK else 900)
@given(st.data())
def test_every_engine_reads_back_what_was_written(checker: Checker, data: st.DataObject) -> None:
    recipe = data.draw(strategies.recipes())
    options = data.draw(strategies.options(recipe.schema))
    cuts, feed = data.draw(strategies.cuts(recipe.rows)), data.draw(FEEDS)

    def writing(table: pa.Table, path: Path) -> None:
        write(table, path, cuts=cuts, feed=feed, **fitting(options, table.schema))

    checker.check(
        recipe.table(),
        writing,
        microseconds=options.get("timestamps") == "us",
        engines=[data.draw(st.sampled_from(ways)) for ways in WAYS.values()],
    )


def test_every_option_of_the_writer_is_drawn() -> None:
    drawn = set(strategies.option_choices(pa.schema([("c", pa.int64())]), split=True))
    codec = {"compression", "compression_level"}
    # Sorting wants an order or makes one: tests/writer/test_sorting.py compares what comes of it.
    order = {"sorting_columns", "sorting"}
    # Other types come back, other bytes, or an error: test_stored_form.py and test_encryption.py have these.
    apart = {"store_schema", "timestamp_loss", "encryption"}
    assert (drawn - {"codec"}) | codec | order | apart == {
        field.name for field in fields(spillway.WriterOptions)
    }


def fitting(options: dict[str, Any], schema: pa.Schema) -> dict[str, Any]:
    """The options without rules for columns that the schema has not."""
    rules = {
        name: {path: wanted for path, wanted in rule.items() if path[0] in schema.names}
        for name in ("compression", "dictionary", "encoding", "field_ids", "statistics")
        if isinstance(rule := options.get(name), dict)
    }
    return options | rules
