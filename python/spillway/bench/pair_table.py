"""The table of writes in pairs: the speed of one backend over others, by processor time on a shared core."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spillway.bench.plan import Cell
from spillway.bench.ratios import told
from spillway.bench.summary import Setting
from spillway.bench.tables import effect_text, ratio_text, setting_title
from spillway.harness.report.table import Entry, Table
from spillway.harness.statistics import paired_ratio

if TYPE_CHECKING:
    from spillway.bench.summary import RunSummary
    from spillway.harness.statistics import Ratio

__all__ = ["PAIR_LEGEND", "pair_ratios", "pair_table"]

PAIR_LEGEND = (
    "*In pairs on one core*: two writers begin at the same moment and take turns on one core, so that both "
    "meet the same speed of the machine. The ratio is that of their processor time, of all threads, and "
    "leaves out waits for the disk. Each has the caches of the core to itself for some milliseconds only. "
    "`~` as above."
)
"""The meaning of `pair_table`."""


def pair_table(run: RunSummary, setting: Setting) -> Table | None:
    """The ratios of a setting, in which no memory was limited; None where no pair was written."""
    found = pair_ratios(run, setting)
    if not found:
        return None
    marks = told(list(found.values()))
    rows = [
        [
            Entry(text)
            for text in (
                backend,
                ratio_text(each) if mark else "~",
                f"{each.n}",
                effect_text(each.least_effect),
            )
        ]
        for (backend, each), mark in zip(found.items(), marks, strict=True)
    ]
    base = next(each["base"] for each in run.pairs)
    title = f"Speed of {base} over others, in pairs on one core: {setting_title(setting, with_limit=False)}"
    return Table(title, ("backend", "ratio", "pairs", "least effect"), rows, [])


def pair_ratios(run: RunSummary, setting: Setting) -> dict[str, Ratio]:
    """The speed of the base over that of each other backend, by their pairs of a setting."""
    times: dict[str, dict[int, tuple[float, float]]] = {}
    right = {each.cell.backend for each in run.of(setting) if each.is_right}
    for each in run.pairs:
        cell = Cell(**each["cell"])
        is_right = {cell.backend, each["base"]} <= right and Setting.of(cell) == setting
        if is_right and each["processor_seconds"] and each["base_processor_seconds"]:
            both = (each["processor_seconds"], each["base_processor_seconds"])
            times.setdefault(cell.backend, {})[each["block"]] = both
    return {
        backend: paired_ratio(*({block: both[side] for block, both in blocks.items()} for side in (0, 1)))
        for backend, blocks in times.items()
    }
