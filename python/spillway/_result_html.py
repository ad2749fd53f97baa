"""A finished file as a table for notebooks."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spillway.writer import ColumnResult, WriteResult

__all__ = ["result_html"]

#: Columns that are shown; a notebook with thousands of rows is of no use.
MOST_COLUMNS = 100
_HEADS = ("column", "type", "encodings", "codec", "values", "nulls", "bytes", "share")


def result_html(result: WriteResult) -> str:
    """Show a file's sizes, and those of its columns, the largest first."""
    total = sum(column.compressed_bytes for column in result.columns)
    largest = sorted(result.columns, key=lambda column: -column.compressed_bytes)
    rows = [_row(column, total) for column in largest[:MOST_COLUMNS]]
    left_out = len(largest) - len(rows)
    if left_out:
        rows.append(f'<tr><td colspan="{len(_HEADS)}">{left_out:,} smaller columns</td></tr>')
    name = "" if result.path is None else f"<b>{escape(result.path)}</b>: "
    groups = "1 row group" if result.row_groups == 1 else f"{result.row_groups:,} row groups"
    caption = f"{name}{result.rows:,} rows, {result.bytes:,} bytes, {groups}"
    heads = "".join(f"<th>{head}</th>" for head in _HEADS)
    return f"<table><caption>{caption}</caption><tr>{heads}</tr>{''.join(rows)}</table>"


def _row(column: ColumnResult, total: int) -> str:
    share = column.compressed_bytes / total if total else 0
    cells = (
        escape(column.path),
        escape(column.physical_type),
        escape(", ".join(column.encodings)),
        escape(column.compression),
        f"{column.values:,}",
        f"{column.nulls:,}",
        f"{column.compressed_bytes:,}",
        f"{share:.1%}",
    )
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"
