"""Each new content is read back by an engine that did not write it."""

from __future__ import annotations

from contextlib import ExitStack
from importlib.util import find_spec
from typing import TYPE_CHECKING, Self

from spillway._wording import counted
from spillway.validation import Source, Validator

if TYPE_CHECKING:
    from pathlib import Path

    from spillway.bench.record import OutputFile
    from spillway.datasets import PreparedInput
    from spillway.validation import Verdict

# How files name the library that wrote them, in `created_by`.
_WRITTEN_BY = {"pyarrow": "parquet-cpp-arrow", "duckdb": "duckdb", "polars": "polars"}


class ReadingBack:
    """Compares files with the rows that they should hold.

    Args:
        prepared: The rows.

    Attributes:
        engines: The engines that found files right.
    """

    def __init__(self, prepared: PreparedInput) -> None:
        self._source = Source(prepared.path, prepared.rows)
        self._validators: dict[str, Validator] = {}
        self._known: set[str] = set()
        self._stack = ExitStack()
        self.engines: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stack.close()

    def check(self, file: Path, output: OutputFile) -> str | None:
        """Read a file back unless its content is known; what is wrong with it, or None."""
        if output["content_hash"] in self._known:
            return None
        for engine in _engines(output["created_by"] or ""):
            verdict = self._verdict(engine, file)
            if verdict.failed:
                wrong = "it differs" if verdict.mismatch is None else verdict.mismatch.message
                rows = counted(self._source.rows or 0, "row")
                return f"{engine} reads other rows than the {rows} that were given: {wrong}"
            if verdict.ok:
                self.engines.add(engine)
                break
            # An engine is excused where it cannot read pyarrow's file of the same rows either.
        self._known.add(output["content_hash"])
        return None

    def _verdict(self, engine: str, file: Path) -> Verdict:
        if engine not in self._validators:
            self._validators[engine] = self._stack.enter_context(Validator([engine]))
        (verdict,) = self._validators[engine].validate([(file, self._source)])
        return verdict


def _engines(created_by: str) -> list[str]:
    """The engines that are installed; the one that wrote the file comes last."""
    installed = [engine for engine in _WRITTEN_BY if find_spec(engine) is not None]
    return sorted(installed, key=lambda engine: _WRITTEN_BY[engine] in created_by.lower())
