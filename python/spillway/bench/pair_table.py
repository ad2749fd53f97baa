"""The table of writes in pairs: the speed of one backend over others, by processor time on a shared core."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spillway.bench.failures import outcome_words
from spillway.bench.plan import Cell
from spillway.bench.ratios import told
from spillway.bench.summary import Setting
from spillway.bench.tables import effect_text, ratio_text, setting_title
from spillway.harness.report.table import Entry, Table
from spillway.harness.statistics import paired_ratio

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spillway.bench.summary import RunSummary
    from spillway.harness.statistics import Ratio

__all__ = ["PAIR_LEGEND", "pair_ratios", "pair_table"]

PAIR_LEGEND = (
    "*In pairs on one core*: two writers begin at the same moment and take turns on one core, so that both "
    "meet the same speed of the machine. The ratio is that of their processor time, of all threads, and "
    "leaves out waits for the disk. Each has the caches of the core to itself for some milliseconds only. "
    "`~` as above. *Pairs* counts those of which neither failed."
)
"""The meaning of `pair_table`."""

_SIDES = ("processor_seconds", "base_processor_seconds")


def pair_table(run: RunSummary, setting: Setting) -> Table | None:
    """The ratios of a setting, in which no memory was limited; None where no pair was written."""
    pairs = _pairs_of(run, setting)
    if not pairs:
        return None
    found = pair_ratios(run, setting)
    marks = dict(zip(found, told(list(found.values())), strict=True))
    rows = [
        [Entry(backend), *_entries(taken, found.get(backend), is_told=marks.get(backend, False))]
        for backend, taken in pairs.items()
    ]
    base = run.pairs[0]["base"]
    title = f"Speed of {base} over others, in pairs on one core: {setting_title(setting, with_limit=False)}"
    return Table(title, ("backend", "ratio", "pairs", "least effect"), rows, [])


def pair_ratios(run: RunSummary, setting: Setting) -> dict[str, Ratio]:
    """The speed of the base over that of each other backend, by their pairs of a setting."""
    return {
        backend: paired_ratio(*({each["block"]: each[side] for each in measured} for side in _SIDES))
        for backend, taken in _pairs_of(run, setting).items()
        if (measured := [each for each in taken if all(each[side] for side in _SIDES)])
    }


def _pairs_of(run: RunSummary, setting: Setting) -> dict[str, list[dict[str, Any]]]:
    """The pairs of each backend whose samples of a setting were right, failed pairs too."""
    pairs: dict[str, list[dict[str, Any]]] = {}
    right = {each.cell.backend for each in run.of(setting) if each.is_right}
    for each in run.pairs:
        cell = Cell(**each["cell"])
        if {cell.backend, each["base"]} <= right and Setting.of(cell) == setting:
            pairs.setdefault(cell.backend, []).append(each)
    return pairs


def _entries(taken: Sequence[Mapping[str, Any]], found: Ratio | None, *, is_told: bool) -> list[Entry]:
    if found is None:
        return [Entry(_failure(taken)), Entry(f"0 of {len(taken)}"), Entry("")]
    count = f"{found.n}" if found.n == len(taken) else f"{found.n} of {len(taken)}"
    return [
        Entry(ratio_text(found) if is_told else "~"),
        Entry(count),
        Entry(effect_text(found.least_effect)),
    ]


def _failure(taken: Sequence[Mapping[str, Any]]) -> str:
    """The outcome of the first that failed, and whose it is where the base failed."""
    first = taken[0]
    if first["outcome"] != "ok":
        return outcome_words(first["outcome"])
    return f"{first['base']}: {outcome_words(first['base_outcome'])}"
