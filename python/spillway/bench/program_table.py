"""The figures that external programs printed of themselves, by number of rows."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from spillway.bench.tables import megabytes, setting_title
from spillway.harness.report.table import Entry, Table

if TYPE_CHECKING:
    from spillway.bench.summary import CellSummary, RunSummary, Setting

__all__ = ["program_medians", "program_table"]


def program_table(run: RunSummary, setting: Setting) -> Table | None:
    """The medians of all figures of the setting's programs; None where it has no program."""
    found = [(each, medians) for each in run.of(setting) if (medians := program_medians(each))]
    names = list(dict.fromkeys(name for _, medians in found for name in medians))
    if not names:
        return None
    found.sort(key=lambda each: (each[0].cell.rows, each[0].cell.backend))
    rows = [
        [
            Entry(each.cell.backend),
            Entry(f"{each.cell.rows:,}"),
            *(Entry(_written(name, medians[name]) if name in medians else "-") for name in names),
        ]
        for each, medians in found
    ]
    return Table(
        f"Programs of themselves: {setting_title(setting)}",
        ("backend", "rows", *map(_title, names)),
        rows,
        [],
    )


def program_medians(cell: CellSummary) -> dict[str, float]:
    """The medians of the figures that a cell's program printed of itself, by name; none of a library."""
    values: dict[str, list[float]] = {}
    for sample in cell.good:
        for figure in sample.get("program") or ():
            values.setdefault(figure["name"], []).append(figure["value"])
    return {name: median(each) for name, each in values.items()}


def _title(name: str) -> str:
    """A figure's name with its unit: bytes are shown as MB, seconds as milliseconds."""
    for suffix, unit in (("_bytes", "MB"), ("_seconds", "ms")):
        if name.endswith(suffix):
            return f"{name.removesuffix(suffix).replace('_', ' ')} {unit}"
    return name.replace("_", " ")


def _written(name: str, value: float) -> str:
    if name.endswith("_bytes"):
        return megabytes(value)
    return f"{value * 1e3:,.1f}" if name.endswith("_seconds") else f"{value:,.0f}"
