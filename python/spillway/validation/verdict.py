"""Verdicts of a validation: one per reader, with the mismatch where there is one."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["ENGINES", "READERS", "Kind", "Mismatch", "Source", "Verdict", "summary"]

ENGINES = ("spark", "pyarrow", "polars", "duckdb")
"""The engines that can be asked for; Spark brings two readers."""

READERS = {
    "spark": ("spark-vectorized", "spark-row"),
    "pyarrow": ("pyarrow",),
    "polars": ("polars",),
    "duckdb": ("duckdb",),
}
"""The readers of each engine: each gives a verdict of its own."""

Kind = Literal["unreadable", "schema", "row_count", "values", "row_order", "unstable"]


@dataclass(frozen=True)
class Source:
    """The source of a file: the first ``rows`` rows of an Arrow IPC or Parquet file, or all of them."""

    path: Path
    rows: int | None = None


@dataclass(frozen=True)
class Mismatch:
    """A difference between a reader's rows and the source.

    Attributes:
        kind: ``unreadable``: the reader failed. ``schema``: names, order or logical types differ.
            ``row_count``: there are more or fewer rows. ``values``: a row differs. ``row_order``: the same
            rows stand in another order. ``unstable``: the digests differ, and a second reading agrees.
        column: The first column that differs, where one does.
        row: The first row that differs, from 0, where one does.
        expected: The source's value there, as text.
        actual: The reader's value there, as text.
        message: All of it in one sentence.
    """

    kind: Kind
    column: str | None
    row: int | None
    expected: str | None
    actual: str | None
    message: str


@dataclass(frozen=True)
class Verdict:
    """One reader's answer for one file.

    Attributes:
        file: The file that was read.
        engine: The reader: ``spark-vectorized``, ``spark-row``, ``pyarrow``, ``polars`` or ``duckdb``.
        ok: The reader saw the source's rows, in their order.
        excused: It did not, but only in columns in which it fails alike on pyarrow's file of the same table:
            the reader's limit, not the file's fault. An excused verdict is never ``ok``.
        mismatch: The difference from the source, unless ``ok``.
        seconds: Time it took; a share of the whole where files were read together.
    """

    file: Path
    engine: str
    ok: bool
    excused: bool
    mismatch: Mismatch | None
    seconds: float

    @property
    def failed(self) -> bool:
        """True if the file is at fault: neither good nor excused."""
        return not (self.ok or self.excused)

    def as_json(self) -> dict[str, Any]:
        """The verdict as JSON values."""
        return {**asdict(self), "file": str(self.file)}


def summary(verdicts: Sequence[Verdict]) -> list[str]:
    """One line per engine, as in ``validated by spark: 44 of 45 (1 excused)``.

    A file counts when every reader of the engine found it good.
    """
    lines = []
    for engine, readers in READERS.items():
        by_file: dict[Path, list[Verdict]] = defaultdict(list)
        for verdict in verdicts:
            if verdict.engine in readers:
                by_file[verdict.file].append(verdict)
        if not by_file:
            continue
        good = sum(all(v.ok for v in each) for each in by_file.values())
        failed = sum(any(v.failed for v in each) for each in by_file.values())
        excused = len(by_file) - good - failed
        notes = [f"{count} {word}" for count, word in ((failed, "failed"), (excused, "excused")) if count]
        lines.append(
            f"validated by {engine}: {good} of {len(by_file)}" + (f" ({', '.join(notes)})" if notes else "")
        )
    return lines
