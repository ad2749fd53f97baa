"""The table of memory and disk: resident memory, that of the cgroup, allocations and writes, side by side.

Each sees what the others do not. Resident memory has neither page cache nor what was spilled to a file; that
of the control group has both, by the page; a tracer sees what was allocated, touched or not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spillway._wording import and_joined, counted
from spillway.bench.ranking import indistinct, rankings
from spillway.bench.summary import file_bytes, growth
from spillway.bench.tables import file_megabytes, megabytes, metric_column, setting_title
from spillway.harness.report.table import Entry, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spillway.bench.summary import CellSummary, Metric, RunSummary, Setting

__all__ = ["MEMORY_LEGEND", "allocated", "cgroup_growth", "memory_table", "written"]

MEMORY_LEGEND = (
    "*RSS* is the growth of resident memory: its peak during the write over what was resident before. "
    "*cgroup* is the same of the memory of its control group, page cache and kernel memory included: a "
    "spilled page counts until the kernel drops it. *allocated* is the peak of one write under memray, where "
    "malloc is pyarrow's pool. *whole RSS* and *whole cgroup* are peaks of the process, imports included: a "
    "limit bites on the latter. *huge* is anonymous memory in huge pages at the end of the write. *written* "
    "is what calls handed to the kernel (`wchar`), spilled pages too. *faults* count pages of 4 KB and of 2 "
    "MB alike, so none is best."
)
"""The meaning of the columns of `memory_table`."""


def memory_table(run: RunSummary, setting: Setting) -> Table:
    """Memory and disk of a setting at its most rows; the notes say who takes least by each measure."""
    ranking = rankings(run, setting)[0]
    cells = [each for each in ranking.cells if each.good]
    columns = [metric_column(cells, metric, megabytes, best) for _, metric, best in _MEMORY]
    columns.insert(2, [Entry(_allocated_text(each)) for each in cells])
    columns.append(metric_column(cells, file_bytes, file_megabytes, 0))
    columns.append(metric_column(cells, _faults, lambda value: f"{value:,.0f}", 0))
    names = [name for name, *_ in _MEMORY]
    names.insert(2, "allocated")
    return Table(
        f"Memory and disk in MB at {counted(ranking.rows, 'row')}: {setting_title(setting)}",
        ("backend", *names, "file", "faults"),
        [[Entry(each.cell.backend), *(column[at] for column in columns)] for at, each in enumerate(cells)],
        [note for note in [_least(cells), *_of_jvms(cells)] if note],
    )


def cgroup_growth(sample: dict[str, Any]) -> float | None:
    """Bytes of the control group at the peak of the write, over those before it; as `growth`."""
    group = sample.get("group")
    if group is None or group["write_peak_bytes"] is None or sample.get("jvm"):
        return None
    return float(group["write_peak_bytes"] - group["before_bytes"])


def written(sample: dict[str, Any]) -> float | None:
    """Bytes handed to the kernel; None of an external program, which does not say them."""
    return None if sample.get("program") is not None else float(sample["use"]["bytes_written"])


def allocated(cell: CellSummary) -> float | None:
    """The peak of the cell's traced write, in bytes; None without one."""
    traced = cell.allocations
    return None if traced is None or traced["curve"] is None else float(traced["curve"]["peak_bytes"])


def _whole_cgroup(sample: dict[str, Any]) -> float | None:
    group = sample.get("group")
    return None if group is None else float(group["peak_bytes"])


def _whole_rss(sample: dict[str, Any]) -> float:
    jvm = sample.get("jvm")
    return float(jvm["both_peak_bytes"] if jvm else sample["memory"]["after"]["high_water"])


def _huge(sample: dict[str, Any]) -> float | None:
    if sample.get("jvm"):  # the reading is of Python alone
        return None
    found = sample["memory"]["rollup_after"].get("huge")
    return None if found is None else float(found)


def _faults(sample: dict[str, Any]) -> float | None:
    if sample.get("program") is not None:  # the counters are of no process that wrote
        return None
    return float(sample["use"]["minor_faults"] + sample["use"]["major_faults"])


_MEMORY: tuple[tuple[str, Metric, int], ...] = (
    ("RSS", growth, -1),
    ("cgroup", cgroup_growth, -1),
    ("whole RSS", _whole_rss, -1),
    ("whole cgroup", _whole_cgroup, -1),
    ("huge", _huge, 0),
    ("written", written, 0),
)


def _allocated_text(cell: CellSummary) -> str:
    """The peak of the traced write; "n/a" where a tracer cannot see it, "-" where nothing was traced."""
    value = allocated(cell)
    if value is not None:
        return megabytes(value)
    return "-" if cell.allocations is None else "n/a"


def _least(cells: Sequence[CellSummary]) -> str:
    """The backends that take least by each of three measures; nothing for fewer than two."""
    right = [each for each in cells if each.is_right]
    if len(right) < 2:  # noqa: PLR2004 - to compare
        return ""
    said = [
        f"by {name}, {and_joined(found)}"
        for name, found in (
            ("RSS", _marked(right, growth)),
            ("cgroup memory", _marked(right, cgroup_growth)),
            ("allocations", _least_allocated(right)),
        )
        if found
    ]
    return f"Least: {'; '.join(said)}." if said else ""


def _of_jvms(cells: Sequence[CellSummary]) -> list[str]:
    """A word on what the rows of writers in a JVM have in them."""
    names = [each.cell.backend for each in cells if any(sample.get("jvm") for sample in each.good)]
    if not names:
        return []
    said = "whole RSS adds the peaks of the JVM and of Python, and whole cgroup is of both"
    return [f"{and_joined(names)}: {said}; a heap that has grown before the write shows no growth."]


def _marked(cells: Sequence[CellSummary], metric: Metric) -> list[str]:
    marks = indistinct(cells, metric, -1)
    return [each.cell.backend for each, mark in zip(cells, marks, strict=True) if mark]


def _least_allocated(cells: Sequence[CellSummary]) -> list[str]:
    key: Callable[[CellSummary], float] = lambda each: allocated(each) or 0.0  # noqa: E731 - a key
    traced = [each for each in cells if allocated(each) is not None]
    return [min(traced, key=key).cell.backend] if len(traced) > 1 else []
