"""The rows of a race. Each names its append, so that a lost or doubled one is noticed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from spillway.race.plan import Cell

__all__ = ["KEYS", "MESSAGE", "PARTITION_COLUMN", "message", "partition", "properties", "rows", "schema"]

PARTITION_COLUMN = "partition"
MESSAGE = "message"
KEYS = ("writer", "number", "row")


def schema() -> pa.Schema:
    """The columns of the table."""
    import pyarrow as pa

    fields: list[pa.Field[Any]] = [pa.field(PARTITION_COLUMN, pa.string())]
    fields += [pa.field(name, pa.int64()) for name in KEYS]
    return pa.schema([*fields, pa.field(MESSAGE, pa.string())])


def properties(cell: Cell) -> dict[str, str]:
    """The table's properties."""
    return {} if cell.merges else {"delta.appendOnly": "true"}


def partition(cell: Cell, writer: int) -> str:
    """The partition that a writer writes to."""
    return f"w{writer}" if cell.partitions == "own" else "all"


def message(writer: int, number: int, row: int) -> str:
    """The message of a row."""
    return f"writer {writer} says {row} in append {number}"


def rows(cell: Cell, writer: int, number: int) -> pa.Table:
    """The rows of one append."""
    import pyarrow as pa

    count = cell.rows
    return pa.table(
        {
            PARTITION_COLUMN: [partition(cell, writer)] * count,
            "writer": [writer] * count,
            "number": [number] * count,
            "row": list(range(count)),
            MESSAGE: [message(writer, number, row) for row in range(count)],
        },
        schema=schema(),
    )
