"""A version of a table as a polars LazyFrame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from spillway.errors import MissingExtraError, OptionError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl
    import pyarrow as pa

    from spillway import _native

__all__ = ["lazy_frame"]

#: The least rows of a frame but the last: batches of a scan are smaller.
_FRAME_ROWS = 65_536


def lazy_frame(table: _native.DeltaTable, version: int) -> pl.LazyFrame:
    """Make a frame whose query decides which columns and files are read.

    Raises:
        MissingExtraError: polars or pyarrow is not installed.
    """
    try:
        import pyarrow as pa  # noqa: PLC0415 - loaded only if asked for
        from polars.io.plugins import register_io_source  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError("polars", "bench", "make a LazyFrame") from error
    from spillway.delta._polars_conditions import where_of  # noqa: PLC0415

    rows: Any = table.scan(None, [], version)
    empty = _frame(pa.schema(rows).empty_table())
    schema = empty.schema

    def read(
        with_columns: list[str] | None,
        predicate: pl.Expr | None,
        n_rows: int | None,
        batch_size: int | None,  # noqa: ARG001 - a hint
    ) -> Iterator[pl.DataFrame]:
        wanted = list(schema) if with_columns is None else with_columns
        named = [] if predicate is None else predicate.meta.root_names()
        # A batch without columns has no rows for polars.
        needed = list(dict.fromkeys([*wanted, *named])) or [next(iter(schema))]
        # `n_rows` counts rows before the predicate, so the scan must not filter.
        condition = "" if predicate is None or n_rows is not None else where_of(predicate, schema)
        left = n_rows
        for frame in _frames(_scanned(table, needed, condition, version)):
            first = frame if left is None else frame.head(left)
            # The condition may let more rows through than the predicate.
            kept = first if predicate is None else first.filter(predicate)
            yield kept.select(wanted) if wanted else kept
            if left is not None:
                left -= first.height
                if not left:
                    return

    return register_io_source(read, schema=schema, is_pure=True)


def _scanned(table: _native.DeltaTable, columns: list[str], condition: str, version: int) -> object:
    try:
        return table.scan(columns, condition or [], version)
    except OptionError:
        # A scan does not compare some columns, such as those of type char(n): polars filters alone.
        return table.scan(columns, [], version)


def _frames(rows: Any) -> Iterator[pl.DataFrame]:
    """The rows of a stream in frames of many batches each; one empty frame if it has no rows."""
    import pyarrow as pa  # noqa: PLC0415

    reader = pa.RecordBatchReader.from_stream(rows)
    batches: list[pa.RecordBatch] = []
    count, is_first = 0, True
    for batch in reader:
        batches.append(batch)
        count += batch.num_rows
        if count >= _FRAME_ROWS:
            yield _frame(pa.Table.from_batches(batches))
            batches, count, is_first = [], 0, False
    if batches or is_first:
        yield _frame(pa.Table.from_batches(batches, reader.schema))


def _frame(rows: pa.Table) -> pl.DataFrame:
    import polars as pl  # noqa: PLC0415

    return cast("pl.DataFrame", pl.from_arrow(rows))
