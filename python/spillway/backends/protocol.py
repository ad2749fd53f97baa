"""The protocol of a backend. Standard library only: every measured process imports it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

Mode = Literal["batches", "batches-retained", "table", "rows", "rows-json", "ndjson"]
Codec = Literal["zstd", "snappy", "lz4", "gzip", "brotli", "uncompressed"]

FUNCTION_PREFIX = "function:"
"""The start of a backend's name that is one function; the rest is the path of the file that describes it."""

BATCHES_AND_TABLE: frozenset[Mode] = frozenset({"batches", "batches-retained", "table"})
"""The modes of a backend that takes Arrow."""

CODECS: dict[str, range | None] = {
    "zstd": range(1, 23),
    "gzip": range(1, 10),
    "brotli": range(12),
    "snappy": None,
    "lz4": None,
    "uncompressed": None,
}
"""Parquet's codecs and the levels each accepts; None where a codec has no level."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings that a cell fixes for every backend alike; all else stays at the library's default.

    Attributes:
        codec: Parquet's own name in lower case, a key of `CODECS`.
        level: The codec's level, or None where it has none.
        row_group_rows: Most rows of one row group.
        threads: Threads the library may use.
        dataset: The dataset's name, for backends that are tuned by hand for it.
        may_retain: Batches stay valid until `close`, so that a sink may keep references to them.
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
        """Take what the mode says.

        In modes "batches" and "batches-retained" that is a `pyarrow.RecordBatch`, in mode "table" the one
        `pyarrow.Table`, in modes "rows" and "rows-json" a list of dicts, in mode "ndjson" the bytes of whole
        lines.

        In mode "batches" a batch is the caller's again once this returns: a sink that keeps rows for later
        copies them, as any writer must that outlives its producer's buffers. In mode "batches-retained" it
        may keep a reference in place of a copy (`Settings.may_retain`). The table stays valid until `close`.
        """

    def close(self) -> None:
        """Finish the file; when this returns it is complete at its path."""


@runtime_checkable
class Backend(Protocol):
    """A Parquet writer under test.

    A backend may also have ``peak_account() -> dict[str, int]``, its library's own account of memory in bytes
    once a sink is closed, and ``threads_in_force() -> dict[str, int]``, pools that only it can read back. One
    that writes in a JVM is a `JvmBackend`.
    """

    name: str
    modes: frozenset[Mode]

    def version(self) -> str:
        """The library's version."""

    def open(self, path: Path, schema: pa.Schema, settings: Settings, /) -> Sink:
        """Start a file. The measured phase begins with this call."""


class JvmBackend(Backend, Protocol):
    """A Parquet writer that runs in a JVM of its own, a child of the measured process.

    Attributes:
        warm_up_rows: Rows that it writes before the measured write, in which the JVM compiles its code.
    """

    warm_up_rows: int

    @property
    def gateway(self) -> Any:
        """py4j's way to the JVM, with its process as ``proc``; there once a file was opened."""

    @property
    def hand_over_seconds(self) -> float:
        """Seconds in which the rows of the last file went from Python to the JVM."""
