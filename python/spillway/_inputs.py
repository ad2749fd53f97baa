"""The forms of data that `write_parquet` takes beside Arrow's: queries, datasets, batches, rows, columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any

from spillway.errors import MissingExtraError, SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spillway.types import ArrowSchema, ArrowStream
    from spillway.writer import ParquetWriter


def write_all(data: Any, writer: ParquetWriter, schema: ArrowSchema | None) -> None:
    """Write data of any form that `write_parquet` takes, all that the file gets.

    Args:
        data: As `write_parquet`.
        writer: An open writer; it may be closed afterwards.
        schema: The schema that columns get their types from; without it, they get what their values ask for.

    Raises:
        SchemaError: Columns do not fit the schema or each other.
        SpillwayError: As the methods of `ParquetWriter`.
        MissingExtraError: The data are columns, and pyarrow is not installed.
    """
    if is_arrow(data):
        writer._write_last(data)  # noqa: SLF001 - one package
    elif isinstance(data, Mapping):
        writer._write_last(of_columns(data, schema))  # noqa: SLF001 - one package
    elif hasattr(data, "collect_batches"):
        write_query(data, writer)
    elif hasattr(data, "scanner"):
        writer.write(data.scanner().to_reader())
    elif hasattr(data, "to_reader"):
        writer.write(data.to_reader())
    elif isinstance(data, Iterable) and not isinstance(data, str | bytes | bytearray | memoryview):
        write_items(iter(data), writer)
    else:
        writer.write(data)


def is_arrow(data: object) -> bool:
    return hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")


def of_columns(columns: Mapping[str, Any], schema: ArrowSchema | None) -> ArrowStream:
    """Make a table of columns, each a sequence of values or an Arrow array."""
    try:
        import pyarrow as pa  # noqa: PLC0415  # the base install goes without
    except ImportError as error:
        raise MissingExtraError("pyarrow", "bench", "write a dict of columns") from error
    fields: Any = schema
    wanted = None if schema is None else pa.schema(fields)
    if wanted is not None:
        check_names(columns, wanted.names)
    arrays: dict[str, Any] = {}
    for name, values in columns.items():
        kind = None if wanted is None else wanted.field(name).type
        try:
            if hasattr(values, "__arrow_c_stream__"):
                arrays[name] = pa.chunked_array(values, type=kind)
            else:
                arrays[name] = pa.array(values, type=kind)
        except (pa.ArrowException, TypeError, OverflowError) as error:
            raise SchemaError(f"the values of column {name!r} make no Arrow array: {error}", name) from error
    try:
        return pa.table(arrays, schema=wanted)
    except (pa.ArrowException, TypeError) as error:
        raise SchemaError(f"the columns make no table: {error}") from error


def check_names(columns: Mapping[str, Any], wanted: Sequence[str]) -> None:
    """Refuse columns that the schema lacks, and a schema that has more."""
    for name in columns:
        if name not in wanted:
            raise SchemaError(f"column {name!r} is not in the schema, which has {', '.join(wanted)}", name)
    for name in wanted:
        if name not in columns:
            message = f"the schema has a column {name!r}, which the data lacks: give it, as nulls if need be"
            raise SchemaError(message, name)


def write_query(query: Any, writer: ParquetWriter) -> None:
    """Write the frames of a lazy frame of polars as they are computed."""
    empty = True
    for frame in query.collect_batches():
        writer.write(frame)
        empty = False
    if empty:
        # No frame came, and the file needs the names and types of its columns.
        writer.write(query.head(0).collect())


def write_items(items: Iterator[Any], writer: ParquetWriter) -> None:
    """Write rows or batches, whichever the first item is."""
    for first in items:
        if isinstance(first, dict):
            writer.write_rows(chain([first], items))
            return
        writer.write(first)
