"""The tables of a run, as cells of text: throughput by rows, and all measures at the largest size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spillway.harness.text_table import Entry, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from spillway.harness.statistics import Estimate
    from spillway.harness.summary import CellSummary, RunSummary, Setting

_IN_THOUSANDS_FROM = 10_000

__all__ = ["detail_table", "setting_title", "throughput_table"]


_WHAT = {
    "batches": "record batches one at a time",
    "table": "one table",
    "rows": "dicts, a list for each chunk",
    "rows-json": "dicts fresh from json.loads, a list for each chunk",
    "ndjson": "NDJSON, a chunk at a time",
}


def setting_title(setting: Setting) -> str:
    """What a table's cells have in common."""
    codec = setting.codec if setting.level is None else f"{setting.codec} level {setting.level}"
    cores = f"{setting.threads} core{'s' if setting.threads > 1 else ''}"
    memory = setting.memory_bytes
    limit = "no memory limit" if memory is None else f"{memory / 1e6:,.0f} MB ({setting.limit_kind})"
    return (
        f"{setting.dataset}, {_WHAT[setting.mode]}, {codec}, {cores}, {limit}, "
        f"row groups of at most {setting.row_group_rows:,} rows"
    )


def throughput_table(run: RunSummary, setting: Setting) -> Table:
    """Backends down, row counts across: median rows per second with its interval."""
    cells = {(each.cell.backend, each.cell.rows): each for each in run.of(setting)}
    counts = sorted({rows for _, rows in cells})
    backends = list(dict.fromkeys(backend for backend, _ in cells))
    best = {
        rows: _best([cells[backend, rows] for backend in backends if (backend, rows) in cells])
        for rows in counts
    }
    rows = [
        [
            Entry(backend),
            *(_speed_entry(cells.get((backend, count)), best[count]) for count in counts),
        ]
        for backend in backends
    ]
    return Table(
        f"Rows per second: {setting_title(setting)}",
        ("backend", *(f"{count:,}" for count in counts)),
        [*rows, *_absent_rows(run, len(counts))],
        _absent_notes(run),
    )


def detail_table(run: RunSummary, setting: Setting) -> Table:
    """All measures of one setting at its largest row count."""
    cells = run.of(setting)
    most = max(each.cell.rows for each in cells)
    largest = [each for each in cells if each.cell.rows == most]
    columns = [_column(largest, *spec) for spec in _DETAILS]
    rows = [
        [Entry(each.cell.backend), *(column[place] for column in columns), Entry(each.outcome)]
        for place, each in enumerate(largest)
    ]
    return Table(
        f"At {most:,} rows: {setting_title(setting)}",
        ("backend", *(name for name, *_ in _DETAILS), "outcome"),
        [*rows, *_absent_rows(run, len(_DETAILS) + 1)],
        _absent_notes(run),
    )


def _thousands(value: float) -> str:
    return f"{value / 1e3:,.0f}K" if value >= _IN_THOUSANDS_FROM else f"{value:,.0f}"


def _megabytes(value: float) -> str:
    return f"{value / 1e6:,.1f}"


def _milliseconds(value: float) -> str:
    return f"{value * 1e3:,.1f}"


def _cpu(sample: dict[str, Any]) -> float:
    use = sample["use"]
    return float(use["user_seconds"] + use["system_seconds"])


_Metric = tuple[str, "Callable[[dict[str, Any]], float | None]", "Callable[[float], str]", int]
_DETAILS: tuple[_Metric, ...] = (
    # name, value of a sample, how it is written, and what is best: 1 the largest, -1 the smallest, 0 neither
    ("rows/s", lambda s: s["throughput"]["rows_per_second"], _thousands, 1),
    ("MB/s", lambda s: s["throughput"]["megabytes_per_second"], lambda v: f"{v:,.0f}", 1),
    ("wall s", lambda s: s["use"]["wall_seconds"], lambda v: f"{v:.2f}", -1),
    ("CPU s", _cpu, lambda v: f"{v:.2f}", -1),
    ("RSS growth MB", lambda s: s["memory"]["growth_bytes"], _megabytes, -1),
    ("file MB", lambda s: s["output"]["bytes"], lambda v: f"{v / 1e6:,.2f}", -1),
    ("row groups", lambda s: s["output"]["row_groups"], lambda v: f"{v:,.0f}", 0),
    ("pool MB", lambda s: s["pyarrow_pool"] and s["pyarrow_pool"]["allocated_bytes"], _megabytes, 0),
    ("own account MB", lambda s: s["account"][0]["bytes"] if s["account"] else None, _megabytes, 0),
    ("faults", lambda s: s["use"]["minor_faults"] + s["use"]["major_faults"], lambda v: f"{v:,.0f}", -1),
    ("GC runs", lambda s: s["gc"]["runs"], lambda v: f"{v:,.0f}", 0),
    ("GC ms", lambda s: s["gc"]["pause_seconds"], _milliseconds, 0),
    ("GIL gap ms", lambda s: s["gil"]["longest_gap_seconds"], _milliseconds, -1),
    ("fsync ms", lambda s: s["fsync_seconds"], _milliseconds, 0),
)


def _column(
    cells: Sequence[CellSummary],
    _name: str,
    metric: Callable[[dict[str, Any]], float | None],
    written: Callable[[float], str],
    direction: int,
) -> list[Entry]:
    medians = [None if (each := cell.estimate(metric)) is None else each.median for cell in cells]
    present = [median for median in medians if median is not None]
    best = max(present, key=lambda value: direction * value) if present and direction else None
    return [
        Entry("-") if median is None else Entry(written(median), best=median == best) for median in medians
    ]


def _best(cells: Sequence[CellSummary]) -> float | None:
    medians = [speed.median for cell in cells if (speed := cell.rows_per_second) is not None]
    return max(medians) if medians else None


def _speed_entry(cell: CellSummary | None, best: float | None) -> Entry:
    if cell is None:
        return Entry("")
    speed = cell.rows_per_second
    if speed is None:
        return Entry(cell.outcome)
    failed = "" if cell.outcome == "ok" else f" ({cell.outcome})"
    return Entry(f"{_thousands(speed.median)} {_interval(speed)}{failed}".rstrip(), best=speed.median == best)


def _interval(speed: Estimate) -> str:
    if speed.n == 1:
        return ""
    return f"[{_thousands(speed.low)}, {_thousands(speed.high)}]"


def _absent_rows(run: RunSummary, width: int) -> list[list[Entry]]:
    """A line for each backend that could not run here."""
    return [
        [Entry(absent["backend"]), *([Entry("-")] * (width - 1)), Entry("absent")]
        for absent in run.environment["absent_backends"]
    ]


def _absent_notes(run: RunSummary) -> list[str]:
    """Why each of them is absent, with what to do."""
    return [f"{absent['backend']}: {absent['reason']}" for absent in run.environment["absent_backends"]]
