"""A table's verdict says what was compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import spillway.delta

from . import delta_tables

if TYPE_CHECKING:
    from pathlib import Path


def unread(path: Path) -> pa.Table:
    raise OSError(path)


@pytest.mark.parametrize("reads", [True, False], ids=["read", "unread"])
def test_rows_that_no_peer_reads_are_not_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, reads: bool
) -> None:
    table = spillway.delta.create(tmp_path / "t", pa.schema({"id": pa.int64()}))
    with table.append() as append:
        append.write(pa.table({"id": [1, 2]}))
    if not reads:
        monkeypatch.setattr(delta_tables, "rows_by_polars", unread)
        monkeypatch.setattr(delta_tables, "rows_by_delta_rs", unread)
    verdict = delta_tables.judged(tmp_path / "t", None, compare_rows=True)
    assert verdict.word == ("equal" if reads else "equal, rows not compared"), verdict.detail
