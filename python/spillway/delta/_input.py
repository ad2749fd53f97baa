"""Data of any form that `write` takes, opened before there is a table for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Protocol

from spillway import _native
from spillway._inputs import is_arrow, of_columns, of_some_columns, streamed
from spillway.errors import SchemaError

if TYPE_CHECKING:
    from spillway.delta.append import Append
    from spillway.delta.table import Table
    from spillway.types import ArrowSchema, Data

__all__ = ["Input", "opened"]

#: Rows that a schema is inferred from, as many as a `ParquetWriter` looks at.
_SAMPLE_ROWS = 1000


class Input(Protocol):
    """Data that are written once."""

    def schema(self) -> ArrowSchema:
        """The schema of a table that is made for them."""

    def write(self, append: Append, table: Table) -> None:
        """Write all of them, by an append to the table."""


def opened(data: Data) -> Input:
    """Open data, and read as much of them as tells their form and their schema.

    Raises:
        NotArrowError: The data has none of the forms.
    """
    form = streamed(data)
    if isinstance(form, Mapping):
        return _Columns(form)
    if is_arrow(form) or not isinstance(form, Iterator):
        return _Batches(_native.RowSource(form), iter(()))
    for first in form:
        if isinstance(first, dict):
            return _Rows([first, *islice(form, _SAMPLE_ROWS - 1)], form)
        return _Batches(_native.RowSource(first), form)
    return _Nothing()


@dataclass(frozen=True)
class _Batches:
    """Arrow data whose first batches are open."""

    first: _native.RowSource
    others: Iterator[Any]

    def schema(self) -> ArrowSchema:
        return self.first

    def write(self, append: Append, table: Table) -> None:  # noqa: ARG002 - they have a schema
        append._native.write(self.first)  # noqa: SLF001 - the rows as they were opened
        for batch in self.others:
            append.write(batch)


@dataclass(frozen=True)
class _Rows:
    """Dicts whose first rows have been read."""

    head: list[Any]
    others: Iterator[Any]

    def schema(self) -> ArrowSchema:
        return _native.DeltaSchema.of_rows(self.head)

    def write(self, append: Append, table: Table) -> None:  # noqa: ARG002 - the append knows its schema
        append.write_rows(chain(self.head, self.others))


@dataclass
class _Columns:
    """Sequences of values by column, which may be there once."""

    columns: Mapping[str, Any]
    #: The table of them, once a schema was asked for.
    made: Any = None

    def schema(self) -> ArrowSchema:
        self.made = of_columns(self.columns, None)
        return self.made.schema  # type: ignore[no-any-return]  # one of pyarrow

    def write(self, append: Append, table: Table) -> None:
        append.write(of_some_columns(self.columns, table.schema) if self.made is None else self.made)


class _Nothing:
    """An iterable of nothing."""

    def schema(self) -> ArrowSchema:
        message = "the table does not exist, and there are no rows to infer a schema from: call create()"
        raise SchemaError(message)

    def write(self, append: Append, table: Table) -> None:
        """Write nothing."""
