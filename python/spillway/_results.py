"""What a write's result gives to others: pyarrow's object of the footer, and a table for notebooks."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from spillway._wording import counted
from spillway.errors import MissingExtraError

if TYPE_CHECKING:
    from pyarrow.parquet import FileMetaData

    from spillway.dataset_writer import DatasetFile, DatasetResult
    from spillway.writer import ColumnResult, StageSeconds, WriteResult

__all__ = ["dataset_html", "file_metadata", "result_html"]

_MAGIC = b"PAR1"


def file_metadata(footer: bytes) -> FileMetaData:
    """Make pyarrow's object of a footer.

    Args:
        footer: ``FileMetaData`` in Thrift, its length and the magic.

    Raises:
        MissingExtraError: pyarrow is not installed.
        ValueError: There is no footer, as of an encrypted file.
    """
    if not footer:
        raise ValueError("the file is encrypted: read its metadata from the file, with its keys")
    try:
        import pyarrow as pa  # noqa: PLC0415  # the base install goes without
        import pyarrow.parquet as pq  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError("pyarrow", "bench", "return metadata as a pyarrow object") from error
    return pq.read_metadata(pa.BufferReader(_MAGIC + footer))


#: Columns or files that are shown; a notebook with thousands of rows is of no use.
MOST_COLUMNS = MOST_FILES = 100
_FILE_HEADS = ("file", "partition", "rows", "bytes", "row groups")
_HEADS = ("column", "type", "encodings", "codec", "values", "nulls", "bytes", "share", "reason")


def result_html(result: WriteResult) -> str:
    """Show a file's sizes, and those of its columns, the largest first."""
    total = sum(column.compressed_bytes for column in result.columns)
    largest = sorted(result.columns, key=lambda column: -column.compressed_bytes)
    rows = [_row(column, total) for column in largest[:MOST_COLUMNS]]
    left_out = len(largest) - len(rows)
    if left_out:
        rows.append(f'<tr><td colspan="{len(_HEADS)}">{left_out:,} smaller columns</td></tr>')
    name = "" if result.path is None else f"<b>{escape(result.path)}</b>: "
    groups = counted(result.row_groups, "row group")
    caption = f"{name}{result.rows:,} rows, {result.bytes:,} bytes, {groups}; {_times(result.seconds)}"
    heads = "".join(f"<th>{head}</th>" for head in _HEADS)
    return f"<table><caption>{caption}</caption><tr>{heads}</tr>{''.join(rows)}</table>"


def dataset_html(result: DatasetResult) -> str:
    """Show a dataset's sizes, and those of its files in their order."""
    shown = result.files[:MOST_FILES]
    rows = [_file(file) for file in shown]
    left_out = len(result.files) - len(rows)
    if left_out:
        rows.append(f'<tr><td colspan="{len(_FILE_HEADS)}">{left_out:,} more files</td></tr>')
    caption = f"{result.rows:,} rows, {result.bytes:,} bytes, {counted(len(result.files), 'file')}"
    heads = "".join(f"<th>{head}</th>" for head in _FILE_HEADS)
    return f"<table><caption>{caption}</caption><tr>{heads}</tr>{''.join(rows)}</table>"


def _file(file: DatasetFile) -> str:
    values = file.partition.items()
    partition = ", ".join(f"{name}={'null' if value is None else value}" for name, value in values)
    cells = (
        escape(str(file.path)),
        escape(partition),
        f"{file.result.rows:,}",
        f"{file.result.bytes:,}",
        f"{file.result.row_groups:,}",
    )
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _times(seconds: StageSeconds) -> str:
    stages = (("encode", seconds.encode), ("compress", seconds.compress), ("write", seconds.write))
    return ", ".join(f"{name} {time:.3f} s" for name, time in (*stages, ("wait", seconds.wait)))


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
        escape(column.reason),
    )
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"
