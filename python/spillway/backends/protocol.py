"""The protocol of a backend. Every measured process imports it, so it needs only the standard library."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

Mode = Literal["batches", "batches-retained", "table", "rows", "rows-json", "ndjson"]
Codec = Literal["zstd", "snappy", "lz4", "gzip", "brotli", "uncompressed"]

FUNCTION_PREFIX = "function:"
"""The prefix of the name of a backend that is a function; the rest is the path of its description."""

BATCHES_AND_TABLE: frozenset[Mode] = frozenset({"batches", "batches-retained", "table"})
"""The modes of a backend that takes Arrow data."""

CODECS: dict[str, range | None] = {
    "zstd": range(1, 23),
    "gzip": range(1, 10),
    "brotli": range(12),
    "snappy": None,
    "lz4": None,
    "uncompressed": None,
}
"""Parquet's codecs, and the levels that each accepts; None for a codec without levels."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings that a cell fixes for all backends; everything else stays at the library's default.

    Attributes:
        codec: Parquet's own name in lower case, a key of `CODECS`.
        level: The codec's level, or None if the codec has none.
        row_group_rows: Maximum rows of a row group.
        threads: Number of threads that the library may use.
        dataset: The name of the dataset, for backends with hand-tuned settings for it.
        may_retain: True if batches stay valid until `close`, so a sink may keep references to them.
    """

    codec: str
    level: int | None
    row_group_rows: int
    threads: int
    dataset: str = "file"
    may_retain: bool = False


class Sink(Protocol):
    """One file being written."""

    def write(self, data: Any, /) -> None:
        """Write the rows that the mode delivers.

        In the modes "batches" and "batches-retained", `data` is a `pyarrow.RecordBatch`; in the mode "table",
        the only `pyarrow.Table`; in the modes "rows" and "rows-json", a list of dicts; in the mode "ndjson",
        the bytes of whole lines.

        In the mode "batches", the caller may reuse a batch once this method returns, so a sink that keeps
        rows has to copy them. In the mode "batches-retained", it may keep a reference instead
        (`Settings.may_retain`). A table stays valid until `close`.
        """

    def close(self) -> None:
        """Finish the file; when this method returns, the file is complete at its path."""


@runtime_checkable
class Backend(Protocol):
    """A Parquet writer under test.

    A backend may also have ``peak_account() -> dict[str, int]``, which returns the library's own memory
    accounting in bytes after a sink is closed, and ``threads_in_force() -> dict[str, int]``, which returns
    the sizes of thread pools that only the backend can read. A backend that writes in a JVM is a
    `JvmBackend`.
    """

    name: str
    modes: frozenset[Mode]

    def version(self) -> str:
        """The library's version."""

    def open(self, path: Path, schema: pa.Schema, settings: Settings, /) -> Sink:
        """Open a file. The measured phase begins with this call."""


class JvmBackend(Backend, Protocol):
    """A Parquet writer that runs in a JVM, which is a child of the measured process.

    Attributes:
        warm_up_rows: Number of rows that it writes before the measured write, so that the JVM compiles its
            code.
    """

    warm_up_rows: int

    @property
    def gateway(self) -> Any:
        """py4j's gateway to the JVM, with its process as ``proc``; available once a file was opened."""

    @property
    def hand_over_seconds(self) -> float:
        """Seconds that moving the rows of the last file from Python to the JVM took."""
