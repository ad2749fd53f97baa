"""The rows of a race. Each names its writer, so that a lost or doubled one is noticed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

    from spillway.race.plan import Cell
    from spillway.types import Condition

__all__ = [
    "KEYS",
    "MESSAGE",
    "PARTITION_COLUMN",
    "Row",
    "first_rows",
    "first_table",
    "message",
    "own_conditions",
    "own_rows",
    "partition",
    "predicate",
    "properties",
    "rows",
    "schema",
    "table_of",
]

PARTITION_COLUMN = "partition"
MESSAGE = "message"
KEYS = ("writer", "number", "row")

Row = tuple[int, int, int, str]
"""A row: the values of `KEYS`, and the message. The partition follows from the writer."""

# In the place of the number of an append: the rows that are in the table before the race.
_FIRST = -1


def schema() -> pa.Schema:
    """The columns of the table."""
    import pyarrow as pa

    fields: list[pa.Field[Any]] = [pa.field(PARTITION_COLUMN, pa.string())]
    fields += [pa.field(name, pa.int64()) for name in KEYS]
    return pa.schema([*fields, pa.field(MESSAGE, pa.string())])


def properties(cell: Cell) -> dict[str, str]:
    """The table's properties."""
    return {"delta.appendOnly": "true"} if cell.only_appends and not cell.merges else {}


def partition(cell: Cell, writer: int) -> str:
    """The partition that a writer writes to."""
    return f"w{writer}" if cell.partitions == "own" else "all"


def message(writer: int, number: int, row: int) -> str:
    """The message of a row."""
    return f"writer {writer} says {row} in append {number}"


def rows(cell: Cell, writer: int, number: int) -> pa.Table:
    """The rows of one append."""
    return table_of(cell, ((writer, number, row, message(writer, number, row)) for row in range(cell.rows)))


def first_rows(cell: Cell) -> Iterator[Row]:
    """The rows that are in the table before the race. They belong to the writers in turns."""
    for place in range(cell.file_rows):
        row, writer = divmod(place, cell.writers)
        yield _first_row(writer, row)


def first_table(cell: Cell) -> pa.Table:
    """The same, to be written."""
    return table_of(cell, first_rows(cell))


def own_rows(cell: Cell, writer: int, number: int) -> list[Row]:
    """Rows among the first ones that only this operation of this writer changes."""
    return [_first_row(writer, row) for row in _share(cell, number)]


def own_conditions(cell: Cell, writer: int, number: int) -> list[Condition]:
    """The conditions that hold for these and for no other rows."""
    share = _share(cell, number)
    return [
        (PARTITION_COLUMN, "=", partition(cell, writer)),
        ("writer", "=", writer),
        ("row", ">=", share.start),
        ("row", "<", share.stop),
    ]


def predicate(conditions: Sequence[Condition]) -> str:
    """Conditions in SQL."""
    return " and ".join(
        f'"{column}" {operator} {value!r}'  # Python quotes these texts as SQL does.
        for column, operator, value in conditions
    )


def _share(cell: Cell, number: int) -> range:
    return range(number * cell.rows, (number + 1) * cell.rows)


def _first_row(writer: int, row: int) -> Row:
    return writer, _FIRST, row, f"row {row} of writer {writer}"


def table_of(cell: Cell, given: Iterable[Row]) -> pa.Table:
    """Rows, to be written."""
    import pyarrow as pa

    writers, numbers, places, messages = zip(*given, strict=True)
    values = {
        PARTITION_COLUMN: [partition(cell, writer) for writer in writers],
        "writer": writers,
        "number": numbers,
        "row": places,
        MESSAGE: messages,
    }
    return pa.table(values, schema=schema())
