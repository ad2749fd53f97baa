"""Notes below a table for writers that run in a JVM: its memory, its collections, and how warm it was."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

from spillway._wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spillway.bench.summary import CellSummary

__all__ = ["jvm_notes"]

_MEGABYTE = 1e6


def jvm_notes(cells: Sequence[CellSummary]) -> list[str]:
    """A note for each cell that was written in a JVM, and before them a word on what its row leaves out."""
    notes = [_note(each.cell.backend, found) for each in cells if (found := _readings(each))]
    return [_WHY, *notes] if notes else []


_WHY = (
    "Without peak MB are writers in a JVM: its heap has grown before the write that is measured, so that "
    "growth would say nothing. What is resident of it is no growth, and compares with no other row. CPU s "
    "and faults are those of the JVM and of Python."
)


def _readings(cell: CellSummary) -> list[dict[str, Any]]:
    return [sample["jvm"] for sample in cell.good if sample.get("jvm")]


def _note(backend: str, found: Sequence[dict[str, Any]]) -> str:
    """Medians of the readings of one cell."""

    def middle(of: Callable[[dict[str, Any]], float]) -> float:
        return median(map(of, found))

    def megabytes(of: Callable[[dict[str, Any]], float]) -> str:
        return f"{middle(of) / _MEGABYTE:,.0f} MB"

    runs = round(middle(lambda each: sum(one["runs"] for one in each["collectors"])))
    pause = middle(lambda each: sum(one["seconds"] for one in each["collectors"]))
    collectors = ", ".join(one["name"] for one in found[0]["collectors"])
    return (
        f"{backend}, medians: the JVM and Python had {megabytes(lambda each: each['both_peak_bytes'])} "
        f"resident at most; of a heap of {megabytes(lambda each: each['heap']['limit_bytes'])} at most "
        f"{megabytes(lambda each: each['heap']['peak_bytes'])} in use, "
        f"{megabytes(lambda each: each['heap']['live_after_bytes'])} live after the write; "
        f"{counted(runs, 'collection')} in {pause * 1e3:,.0f} ms ({collectors}); compiler "
        f"{middle(lambda each: each['compilation_seconds']):.2f} s; rows to the JVM "
        f"{middle(lambda each: each['hand_over_seconds']):.2f} s. {_warmth(found)}"
    )


def _warmth(found: Sequence[dict[str, Any]]) -> str:
    """The writes before the measured one, which no figure counts."""
    warm = found[0]["warm_up"]
    first = median(each["warm_up"]["seconds"][0] for each in found)
    last = median(each["warm_up"]["seconds"][-1] for each in found)
    writes = counted(len(warm["seconds"]), "write")
    return (
        f"Not counted: {writes} of {counted(warm['rows'], 'row')} before it, {first:.2f} s to {last:.2f} s."
    )
