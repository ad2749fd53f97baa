"""The blame for failures: why samples ended as they did, whose output is wrong, and a run's exit status."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spillway._wording import and_joined, counted, shortened
from spillway.backends import OWN_LIBRARY, library

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spillway.bench.summary import CellSummary, RunSummary

__all__ = ["FAILED", "failure_notes", "outcome_words", "reason", "status_of", "wrong_outputs"]

FAILED = 1
"""The exit status of a run in which Spillway's own writer failed, or nobody wrote what it should."""

_BY_THE_LIMIT = {"oom_killed", "memory_error"}


def outcome_words(outcome: str) -> str:
    """An outcome of the samples' file in words: "wrong output"."""
    return outcome.replace("_", " ")


def reason(sample: Mapping[str, Any], most: int | None = None) -> str:
    """The reason why a sample failed, whole or within so many characters."""
    error, cell = sample["error"], sample["cell"]
    if error is not None:
        return shortened(f"{error['type']}: {error['message']}", most)
    where = f" in phase {sample['died_in']}" if sample["died_in"] else ""
    if sample["outcome"] == "oom_killed":
        return f"killed at the memory limit of {cell['memory_bytes'] / 1e6:,.0f} MB{where}"
    if sample["outcome"] == "timeout":
        return f"not done when its time was up{where}"
    how = (
        f"died by {sample['signal']}{where}"
        if sample["signal"]
        else f"exit status {sample['exit_status']}{where}"
    )
    last = sample["stderr"].strip().splitlines()[-1:]
    return shortened(": ".join([how, *last]), most)


def failure_notes(cells: Sequence[CellSummary], most: int | None = None) -> list[str]:
    """A note for each way in which samples of a setting failed: the backend, the rows, the reason.

    Args:
        cells: The cells of the setting.
        most: Characters of each reason, all by default.
    """
    rows: dict[tuple[str, str, str], set[int]] = defaultdict(set)
    for each in cells:
        for sample in each.samples:
            if sample["outcome"] != "ok":
                key = (each.cell.backend, sample["outcome"], reason(sample, most))
                rows[key].add(each.cell.rows)
    return [
        f"{backend}, {_rows_words(found)}: {outcome_words(outcome)}: {why}"
        for (backend, outcome, why), found in rows.items()
    ]


@dataclass(frozen=True)
class WrongOutput:
    """A content that readers found wrong, and who wrote it.

    Attributes:
        backends: The backends that wrote it.
        modes: The modes in which they did.
        rows: The rows it should hold.
        readers: The readers that found it wrong.
        message: What is wrong, in the words of the first of them.
        files: The names of the files.
    """

    backends: Sequence[str]
    modes: Sequence[str]
    rows: int
    readers: Sequence[str]
    message: str
    files: Sequence[str]

    def __str__(self) -> str:
        """Say it in one sentence."""
        return (
            f"{and_joined(self.backends)} ({and_joined(self.modes)}, {counted(self.rows, 'row')}), read by "
            f"{and_joined(self.readers)}: {self.message} [{', '.join(self.files)}]"
        )


def wrong_outputs(run: RunSummary) -> list[WrongOutput]:
    """The contents that readers found wrong, those that are wrong in the same way together."""
    found: dict[tuple[int, str], list[dict[str, Any]]] = defaultdict(list)
    for verdict in run.verdicts:
        if verdict["outcome"] == "wrong_output":
            mismatch = verdict["mismatch"]
            message = "refused" if mismatch is None else mismatch["message"]
            found[verdict["rows"], message].append(verdict)
    return [_wrong_output(run, rows, message, verdicts) for (rows, message), verdicts in found.items()]


def _wrong_output(run: RunSummary, rows: int, message: str, verdicts: list[dict[str, Any]]) -> WrongOutput:
    contents = {verdict["content_hash"] for verdict in verdicts}
    writers = [each.cell for each in run.cells if any(_hash(sample) in contents for sample in each.samples)]
    return WrongOutput(
        backends=list(dict.fromkeys(cell.backend for cell in writers)),
        modes=list(dict.fromkeys(cell.mode for cell in writers)),
        rows=rows,
        readers=list(dict.fromkeys(verdict["engine"] for verdict in verdicts)),
        message=message,
        files=list(dict.fromkeys(verdict["file"] for verdict in verdicts)),
    )


def _hash(sample: dict[str, Any]) -> str | None:
    return None if sample["output"] is None else str(sample["output"]["content_hash"])


def status_of(run: RunSummary) -> int:
    """0 for a run that measured what it should, whatever became of peers; else `FAILED`.

    A writer of Spillway's that the memory limit ended is a finding too: the limit is the user's.
    """
    of_all, of_own = set(), set()
    for each in run.cells:
        ended = {each.outcome_of(sample) for sample in each.samples}
        of_all |= ended
        if library(each.cell.backend) == OWN_LIBRARY:
            of_own |= ended
    return FAILED if of_own - {"ok"} - _BY_THE_LIMIT or "ok" not in of_all else 0


def _rows_words(counts: set[int]) -> str:
    return f"{and_joined([f'{count:,}' for count in sorted(counts)])} row{'' if counts == {1} else 's'}"
