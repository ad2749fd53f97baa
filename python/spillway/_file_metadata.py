"""The footer of a file as pyarrow has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spillway.errors import MissingExtraError

if TYPE_CHECKING:
    from pyarrow.parquet import FileMetaData

__all__ = ["file_metadata"]

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
