"""The forms of data that one call writes beside Arrow's: queries, datasets, batches, rows, columns.

`write_all` gives them to a writer, whose schema is known. `opened` opens them before a table is made of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Protocol

from spillway import _native
from spillway.errors import MissingExtraError, SchemaError

if TYPE_CHECKING:
    from spillway.delta.append import Append
    from spillway.delta.table import Table
    from spillway.types import ArrowArray, ArrowSchema, ArrowStream, Data

__all__ = ["opened", "write_all"]


class RowWriter(Protocol):
    """A writer of batches and of rows."""

    def write(self, data: ArrowStream | ArrowArray) -> None:
        """Write Arrow data."""

    def write_rows(self, rows: Iterable[dict[str, Any]]) -> int:
        """Write dicts; return how many."""


def write_all(
    data: Any,
    writer: RowWriter,
    schema: ArrowSchema | None,
    write_last: Callable[[Any], None] | None = None,
) -> None:
    """Write data of any form that `write_parquet` takes, all that there is.

    Args:
        data: As `write_parquet`.
        writer: An open writer.
        schema: The schema that columns get their types from; without it, they get what their values ask for.
        write_last: Writes Arrow data that come in one piece, where the writer gains by knowing that.

    Raises:
        SchemaError: Columns do not fit the schema or each other.
        SpillwayError: As the methods of `writer`.
        MissingExtraError: The data are columns, and pyarrow is not installed.
    """
    form = streamed(data)
    if isinstance(form, Mapping):
        form = of_columns(form, schema)
    if isinstance(form, Iterator) and not is_arrow(form):
        write_items(form, writer)
    else:
        (write_last or writer.write)(form)


def streamed(data: Any) -> Any:
    """Open what has rows when it is asked for them: Arrow data, a mapping of columns or an iterator of items.

    Other data is returned unchanged: a writer refuses it by name.
    """
    if is_arrow(data) or isinstance(data, Mapping):
        return data
    if hasattr(data, "collect_batches"):
        return frames(data)
    if hasattr(data, "scanner"):
        return data.scanner().to_reader()
    if hasattr(data, "to_reader"):
        return data.to_reader()
    if isinstance(data, Iterable) and not isinstance(data, str | bytes | bytearray | memoryview):
        return _items(data) if hasattr(data, "dtype") else iter(data)
    return data


def _items(column: Iterable[Any]) -> Any:
    """The rows or batches in an array; an array of values is unchanged, so it and not a value is refused."""
    items = iter(column)
    for first in items:
        return chain([first], items) if isinstance(first, dict) or is_arrow(first) else column
    return items


def is_arrow(data: object) -> bool:
    return hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")


def of_columns(columns: Mapping[str, Any], schema: ArrowSchema | None) -> ArrowStream:
    """Make a table of columns, each a sequence of values or an Arrow array; a schema has all of them."""
    pa = _pyarrow()
    if schema is None:
        return _table(pa, columns, {}, None)
    wanted = pa.schema(schema)
    check_names(columns, wanted.names)
    return _table(pa, columns, _types(wanted), wanted)


def of_some_columns(columns: Mapping[str, Any], schema: ArrowSchema) -> ArrowStream:
    """Make a table of columns likewise, which may be fewer or others than those of the schema."""
    pa = _pyarrow()
    return _table(pa, columns, _types(pa.schema(schema)), None)


def _pyarrow() -> Any:
    try:
        import pyarrow as pa  # noqa: PLC0415  # the base install goes without
    except ImportError as error:
        raise MissingExtraError("pyarrow", "bench", "write a dict of columns") from error
    return pa


def _types(schema: Any) -> dict[str, Any]:
    return {field.name: field.type for field in schema}


def _table(pa: Any, columns: Mapping[str, Any], types: Mapping[str, Any], schema: Any) -> ArrowStream:
    arrays: dict[str, Any] = {}
    for name, values in columns.items():
        if not isinstance(name, str | bytes):
            raise SchemaError(
                f"a column is named {name!r}, which is {type(name).__name__}, and names of columns are text: "
                f"use {str(name)!r}"
            )
        kind = types.get(name)
        if isinstance(values, Mapping | AbstractSet | str | bytes | bytearray):
            raise SchemaError(
                f"column {name!r} is {type(values).__name__}, which is no sequence of values: give a list or "
                "an array",
                name,
            )
        try:
            arrays[name] = _column(pa, os.fsdecode(name), values, kind)
        except SchemaError:
            raise
        except (pa.ArrowException, TypeError, ValueError, OverflowError, NotImplementedError) as error:
            raise SchemaError(
                f"the values of column {name!r} cannot be converted to an Arrow array: {error}", name
            ) from error
    try:
        return pa.table(arrays, schema=schema)  # type: ignore[no-any-return]  # a table of pyarrow
    except (pa.ArrowException, TypeError) as error:
        raise SchemaError(f"the columns do not form a table: {error}") from error


def _column(pa: Any, name: str, values: Any, kind: Any) -> Any:
    """Make an Arrow array of type `kind`, and refuse values that this would change; without one, infer it."""
    listed = _objects(values)
    if listed is None:
        return _of_array(pa, name, values, kind)
    if kind is not None:
        return _of_objects(pa, name, listed, kind)
    made = pa.array(listed)
    if not _may_change(pa, made.type) or any(isinstance(each, pa.Scalar) for each in listed):
        return made
    try:
        _of_objects(pa, name, listed, made.type)
    except SchemaError:
        # Values of several types: pyarrow took the rest for what the first ones are.
        return _of_objects(pa, name, listed, None)
    return made


def _objects(values: Any) -> Sequence[Any] | None:
    """The values as Python objects, if each has its own type; None for an array, whose values share one."""
    if is_arrow(values):
        return None
    dtype = getattr(values, "dtype", None)
    if dtype is None:
        return values if isinstance(values, Sequence) else list(values)
    if str(dtype) != "object":
        return None
    # NaN is a missing value in a column of pandas.
    kept = values.where(values.notna(), None) if hasattr(values, "notna") else values
    return kept.tolist()  # type: ignore[no-any-return]  # of numpy and pandas


def _of_objects(pa: Any, name: str, values: Sequence[Any], kind: Any) -> Any:
    """Convert Python objects as `write_rows` does: pyarrow would cut 1.5 to an integer, and drop zones."""
    column = name if kind is None else pa.schema([pa.field(name, kind)])
    made = pa.table(CapsuleStream(_native.column_stream(column, values)))[0]
    return made if kind is None or made.type == kind else made.cast(kind)


def _of_array(pa: Any, name: str, values: Any, kind: Any) -> Any:
    if is_arrow(values):
        # A stream may be there once.
        found = (pa.chunked_array if hasattr(values, "__arrow_c_stream__") else pa.array)(values)
        try:
            made = found if kind is None or found.type == kind else found.cast(kind)
        except pa.ArrowNotImplementedError:
            # Such as from views to a dictionary.
            return _of_objects(pa, name, found.to_pylist(), kind)
    else:
        made = found = pa.array(values, type=kind)
        if kind is not None and _may_change(pa, kind):
            found = pa.array(values)
    return _of_objects(pa, name, found.to_pylist(), kind) if _loses(pa, found, made) else made


def _may_change(pa: Any, kind: Any) -> bool:
    """Return True for a type to which pyarrow converts values of others with a loss, and no error."""
    types = pa.types
    return bool(
        types.is_integer(kind) or types.is_temporal(kind) or types.is_float32(kind) or types.is_float16(kind)
    )


def _loses(pa: Any, found: Any, made: Any) -> bool:
    """Return True if a conversion by pyarrow lost a zone, a time of day or a number beyond ``float32``."""
    import pyarrow.compute as pc  # noqa: PLC0415 - the base install goes without

    before, after = found.type, made.type
    if before == after:
        return False
    if pa.types.is_timestamp(before) and pa.types.is_timestamp(after):
        return bool((before.tz is None) != (after.tz is None))
    if pa.types.is_timestamp(before) and pa.types.is_date(after):
        return not bool(made.cast(before).equals(found))
    if pa.types.is_floating(before) and pa.types.is_floating(after):
        infinite = [pc.sum(pc.is_inf(each.cast("float64"))) for each in (found, made)]
        return bool(infinite[0] != infinite[1])
    return False


class CapsuleStream:
    """A stream in a PyCapsule, for any Arrow library, once."""

    def __init__(self, capsule: object) -> None:
        self._capsule = capsule

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._capsule


def check_names(columns: Mapping[str, Any], wanted: Sequence[str]) -> None:
    """Refuse columns that the schema lacks, and a schema that has more, or one name for several columns."""
    repeated = next((name for name in columns if list(wanted).count(name) > 1), None)
    if repeated is not None:
        message = (
            f"the schema has the column {repeated!r} more than once, and dicts can hold it "
            f"only once: rename one"
        )
        raise SchemaError(message, repeated)
    for name in columns:
        if name not in wanted:
            raise SchemaError(f"column {name!r} is not in the schema, which has {', '.join(wanted)}", name)
    for name in wanted:
        if name not in columns:
            message = f"the schema has a column {name!r}, which the data lacks: add it, with nulls if need be"
            raise SchemaError(message, name)


def frames(query: Any) -> Iterator[ArrowStream]:
    """The frames of a lazy frame of polars as they are computed, one at least."""
    empty = True
    for frame in query.collect_batches():
        yield frame
        empty = False
    if empty:
        # No frame came, and the names and types of the columns are needed.
        yield query.head(0).collect()


def write_items(items: Iterator[Any], writer: RowWriter) -> None:
    """Write rows or batches, whichever the first item is."""
    for first in items:
        if isinstance(first, dict):
            writer.write_rows(chain([first], items))
            return
        writer.write(first)


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


@dataclass
class _Rows:
    """Dicts whose first rows have been read."""

    head: list[Any]
    others: Iterator[Any]
    is_inferred: bool = False

    def schema(self) -> ArrowSchema:
        self.is_inferred = True
        return _native.DeltaSchema.of_rows(self.head)

    def write(self, append: Append, table: Table) -> None:  # noqa: ARG002 - the append knows its schema
        if self.is_inferred:
            append._native.infer_types()  # noqa: SLF001 - later rows are not converted to types of the first
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
