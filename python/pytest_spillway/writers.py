"""The writers of a test: functions and backends of the bench, under the names that people read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spillway import backends
from spillway.backends.function import describe
from spillway.bench.plan import MODES
from spillway.bench.summary import outcome_words, reason
from spillway.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from spillway.backends import Mode
    from spillway.bench.record import Sample

_OF_FUNCTIONS: Mode = "batches-retained"
_PREFERRED: tuple[Mode, ...] = (_OF_FUNCTIONS, "batches")


@dataclass(frozen=True)
class Writer:
    """A writer.

    Attributes:
        label: Its name for people: a backend's, or a function's qualified name.
        backend: Its name in the bench.
        mode: The form in which it gets the rows.
        is_own: It is Spillway's own writer.
        is_probed: It runs in the measured process, where probes see it: no JVM and no program does.
    """

    label: str
    backend: str
    mode: Mode
    is_own: bool = False
    is_probed: bool = True

    def failure(self, sample: Sample, number: int) -> str:
        """Say how a sample failed, with what the process printed last: the traceback."""
        what = f"{self.label}, round {number + 1}: {outcome_words(sample['outcome'])}: {reason(sample)}"
        phase = f" (in phase {sample['died_in']})" if sample["died_in"] and sample["error"] else ""
        printed = sample["stderr"]
        return f"{what}{phase}\n\nThe measured process printed:\n{printed}" if printed else f"{what}{phase}"


def writer_of(writer: Callable[[Any, Path], object] | str, mode: str | None, folder: Path) -> Writer:
    """The writer that an argument names.

    Args:
        writer: A function, or the name of a backend.
        mode: The form in which a backend gets the rows; None for the one that functions get them in.
        folder: A folder for the description of a function.

    Raises:
        OptionError: There is no such backend, it lacks the mode or its library, or the function cannot be
            imported by another process.
    """
    if isinstance(writer, str):
        return _backend(writer, mode)
    if mode not in {None, _OF_FUNCTIONS}:
        raise OptionError(f"mode={mode!r} is for backends; a function gets a stream: leave it out")
    if not callable(writer):
        raise OptionError(f"{writer!r} is neither a function nor the name of a backend")
    file = folder / f"writer-{len(list(folder.iterdir()))}.json"
    name = describe(writer, file)
    return Writer(writer.__qualname__, name, _OF_FUNCTIONS)


def _backend(name: str, mode: str | None) -> Writer:
    if mode is not None and mode not in MODES:
        raise OptionError(f"mode={mode!r}: choose from {', '.join(MODES)}")
    reason = backends.missing(name)
    if reason is not None:
        raise OptionError(f"backend {name!r} cannot run: {reason}")
    offered = backends.modes(name)
    wanted = _PREFERRED if mode is None else (mode,)
    chosen = next((each for each in (*wanted, *(MODES if mode is None else ())) if each in offered), None)
    if chosen is None:
        raise OptionError(f"backend {name!r} has no mode {mode!r}; it has {', '.join(sorted(offered))}")
    library = backends.library(name)
    return Writer(
        name,
        name,
        chosen,
        is_own=library == backends.OWN_LIBRARY,
        is_probed=library != backends.SPARK_LIBRARY and not backends.is_external(name),
    )
