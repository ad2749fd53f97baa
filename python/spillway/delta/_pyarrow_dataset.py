"""A version of a table as a pyarrow dataset."""

from __future__ import annotations

import datetime as dt
import functools
import operator
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from spillway.errors import MissingExtraError, OptionError, UnsupportedTableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

    from spillway.delta.scan import Scan
    from spillway.delta.types import TableFile
    from spillway.types import ArrowFileSystem, FsspecFileSystem

__all__ = ["dataset_of"]

#: Writers truncate the bounds of times to milliseconds.
_CUT_TIME = dt.timedelta(milliseconds=1)
#: delta-spark 3.2 and 3.3 truncate zone offsets to minutes.
_CUT_OFFSET = dt.timedelta(seconds=59)


def dataset_of(
    scan: Scan, root: str, filesystem: ArrowFileSystem | FsspecFileSystem | None
) -> ds.FileSystemDataset:
    """Make a dataset of the files of a scan.

    Dates and times are those of the files: those before 1582-10-15 that Spark 2 wrote, in its hybrid
    calendar, are off by days.

    Args:
        scan: A scan of all columns and rows.
        root: The table's folder or URL.
        filesystem: A file system whose root is the table; None for a local folder.

    Raises:
        MissingExtraError: pyarrow is not installed.
        OptionError: The table is in an object store, and there is no file system.
        UnsupportedTableError: The files alone do not tell the rows, or pyarrow cannot represent a
            partition value.
    """
    try:
        import pyarrow as pa  # noqa: PLC0415 - loaded only if asked for
        import pyarrow.dataset as ds  # noqa: PLC0415
        from pyarrow import fs  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError("pyarrow", "bench", "make a dataset") from error

    files = scan.files
    _check(scan, files)
    if filesystem is None:
        if "://" in root:
            message = (
                f"{root} is in an object store: give filesystem, one of pyarrow or fsspec whose root is the "
                'table, such as pyarrow.fs.SubTreeFileSystem("bucket/table", pyarrow.fs.S3FileSystem())'
            )
            raise OptionError(message, "filesystem")
        filesystem = fs.SubTreeFileSystem(root, fs.LocalFileSystem())
    # pyarrow accepts these types, and its stubs do not.
    given: Any = scan
    place: Any = filesystem
    schema = pa.schema(given)
    # Nanoseconds, the default for INT96, do not reach as far as the timestamps of a table.
    form = ds.ParquetFileFormat(coerce_int96_timestamp_unit="us")
    fragments: list[Any] = [
        form.make_fragment(
            unquote(file.path), place, partition_expression=_guarantee(file, schema), file_size=file.size
        )
        for file in files
    ]
    return ds.FileSystemDataset(fragments, schema, form, fragments[0].filesystem if fragments else None)


def _check(scan: Scan, files: list[TableFile]) -> None:
    instead = "use scan(), which is an Arrow stream of the rows"
    if scan._native.maps_columns:  # noqa: SLF001 - one package
        raise UnsupportedTableError(
            "the table has column mapping (delta.columnMapping.mode), and a pyarrow dataset finds "
            f"columns by their names in the files: {instead}"
        )
    marked = [file for file in files if file.deleted_rows]
    if marked:
        raise UnsupportedTableError(
            f"deletion vectors mark rows as deleted in {len(marked)} of {len(files)} files of version "
            f"{scan.version}, and a pyarrow dataset would return these rows: {instead}, or purge() the "
            "table first"
        )


def _guarantee(file: TableFile, schema: pa.Schema) -> pc.Expression:
    """What is true for every row of a file: the values of its partition, and the bounds of its statistics."""
    import pyarrow.compute as pc  # noqa: PLC0415

    facts = [*_partition(file, schema)]
    if file.stats is not None:
        facts += _bounds(file.stats, schema, file.partition_values)
    return functools.reduce(operator.and_, facts) if facts else pc.scalar(True)  # noqa: FBT003 - a literal


def _partition(file: TableFile, schema: pa.Schema) -> Iterator[pc.Expression]:
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    for name, text in file.partition_values.items():
        kind = schema.field(name).type
        try:
            value = _partition_value(text, kind)
        except (ValueError, OverflowError, pa.ArrowException) as error:
            raise UnsupportedTableError(
                f"{file.path}: {text!r} of the partition column {name!r} is no {kind} for pyarrow: {error}"
            ) from error
        field = pc.field(name)
        yield field == value if value.is_valid else field.is_null()


def _partition_value(text: str | None, kind: pa.DataType) -> pa.Scalar[Any]:
    """The value that a text stands for, by "Partition Value Serialization" of Delta's PROTOCOL.md."""
    import pyarrow as pa  # noqa: PLC0415

    has_empty = pa.types.is_string(kind) or pa.types.is_binary(kind)
    value: pa.Scalar[Any]
    if text is None or (text == "" and not has_empty):
        value = pa.scalar(None, kind)
    elif pa.types.is_binary(kind):
        value = pa.scalar(text.encode(), kind)
    elif pa.types.is_timestamp(kind):
        value = pa.scalar(_moment(text, kind), kind)
    else:
        value = pa.scalar(text).cast(kind)
    return value


def _moment(text: str, kind: Any) -> dt.datetime:
    """A timestamp, in UTC where its text has no zone and its type has one."""
    time = dt.datetime.fromisoformat(text)
    if kind.tz is not None and time.tzinfo is None:
        return time.replace(tzinfo=dt.UTC)
    return time


def _bounds(
    stats: Mapping[str, Any], schema: pa.Schema, partition: Mapping[str, str | None]
) -> Iterator[pc.Expression]:
    import pyarrow.compute as pc  # noqa: PLC0415

    least, greatest, nulls = (stats.get(key) or {} for key in ("minValues", "maxValues", "nullCount"))
    rows = stats.get("numRecords")
    for column in schema:
        if column.name in partition:
            continue
        field, count = pc.field(column.name), nulls.get(column.name)
        if rows and count == rows:
            yield field.is_null()
            continue
        # pyarrow skips files by `comparison | is_null`, but not by `(comparison & comparison) | is_null`.
        for fact in _within(field, column.type, least.get(column.name), greatest.get(column.name)):
            yield fact if count == 0 else fact | field.is_null()


def _within(field: pc.Expression, kind: pa.DataType, least: Any, greatest: Any) -> list[pc.Expression]:
    """Both bounds of a column; empty unless the log holds both exactly.

    JSON has no exact decimals, and some writers leave NaN out of bounds.
    """
    import pyarrow as pa  # noqa: PLC0415

    if least is None or greatest is None:
        return []
    bounds: tuple[Any, Any]
    try:
        if pa.types.is_timestamp(kind):
            first = _moment(least, kind) - _cut(least)
            last = _moment(greatest, kind) + _CUT_TIME + _cut(greatest)
            bounds = pa.scalar(first, kind), pa.scalar(last, kind)
        elif pa.types.is_date(kind):
            bounds = pa.scalar(least).cast(kind), pa.scalar(greatest).cast(kind)
        elif pa.types.is_integer(kind) or pa.types.is_string(kind):
            bounds = pa.scalar(least, kind), pa.scalar(greatest, kind)
        else:
            return []
    except (ValueError, TypeError, OverflowError, pa.ArrowException):
        # A bound that Python cannot represent, as in the year 10000, rules out nothing.
        return []
    return [field >= bounds[0], field <= bounds[1]]


def _cut(bound: str) -> dt.timedelta:
    """How far a truncated zone offset may shift a bound: not at all for ``Z`` and without a zone."""
    is_whole = bound.endswith("Z") or dt.datetime.fromisoformat(bound).tzinfo is None
    return dt.timedelta() if is_whole else _CUT_OFFSET
