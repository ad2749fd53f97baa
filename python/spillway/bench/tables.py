"""The tables of a run, as cells of text: who is how fast, throughput by rows, and all other measures."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import TYPE_CHECKING

from spillway._wording import counted
from spillway.bench.failures import failure_notes, outcome_words
from spillway.bench.jvm_notes import jvm_notes
from spillway.bench.plan import Options
from spillway.bench.process_settings import process_setting
from spillway.bench.ranking import indistinct, rankings, ratio
from spillway.bench.summary import cpu_seconds, file_bytes, growth, speed
from spillway.harness.report.table import Entry, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spillway.bench.ranking import Ranking
    from spillway.bench.summary import CellSummary, Metric, RunSummary, Setting
    from spillway.harness.statistics import Estimate

_MEGABYTE = 1e6
_REASON_CHARACTERS = 160

LEGEND = (
    "* the best of its column, or not to be told from it by these samples; in brackets the interval; x best: "
    "speed over that of the fastest, ~ if they cannot be told apart; peak MB: growth of resident memory"
)
"""The meaning of the columns and marks of `short_tables` on a terminal."""

__all__ = [
    "LEGEND",
    "contract",
    "effect_text",
    "file_megabytes",
    "measures_table",
    "megabytes",
    "metric_column",
    "ranking_table",
    "ratio_text",
    "setting_title",
    "short_tables",
    "speed_text",
    "throughput_table",
]


_WHAT = {
    "batches": "record batches one at a time",
    "batches-retained": "record batches one at a time, which may be kept",
    "table": "one table",
    "rows": "dicts, a list for each chunk",
    "rows-json": "dicts fresh from json.loads, a list for each chunk",
    "ndjson": "NDJSON, a chunk at a time",
}


def setting_title(setting: Setting, *, with_limit: bool = True) -> str:
    """The title of a table: the setting of its cells, with the memory limit or without."""
    codec = setting.codec if setting.level is None else f"{setting.codec} level {setting.level}"
    memory = setting.memory_bytes
    limit = "no memory limit, " if memory is None else f"{memory / 1e6:,.0f} MB ({setting.limit_kind}), "
    usual = setting.chunk_rows in Options.chunk_rows
    batches = "" if usual else f"{counted(setting.chunk_rows, 'row')} a batch, "
    words = process_setting(setting.arm).words
    process = f"{words}, " if words else ""
    python = f"environment {setting.python}, " if setting.python else ""
    return (
        f"{setting.dataset}, {_WHAT[setting.mode]}, {codec}, {counted(setting.threads, 'core')}, "
        f"{limit if with_limit else ''}{python}{process}{batches}"
        f"row groups of at most {counted(setting.row_group_rows, 'row')}"
    )


def contract(setting: Setting) -> str:
    """The contract between producer and writer, which decides who has to copy; nothing for other modes."""
    return _CONTRACTS.get(setting.mode, "")


_CONTRACTS = {
    "batches": (
        "A batch is its producer's again once a call has taken it: pyarrow-buffered, "
        "pyarrow-streaming-tuned and polars, which keep batches, copy them."
    ),
    "batches-retained": (
        "A writer may keep references to batches, as most programs allow: none copies. The batches that are "
        "kept lie in the mapped input, and are in no figure of memory."
    ),
    "table": "The table is there before the write, in the mapped input: it is in no figure of memory.",
}


def short_tables(run: RunSummary) -> list[Table]:
    """A ranking for each setting at its most rows, with reasons of failures cut short."""
    return [
        ranking_table(run, rankings(run, setting)[0], reason_characters=_REASON_CHARACTERS, is_short=True)
        for setting in run.settings
    ]


def ranking_table(
    run: RunSummary, ranking: Ranking, *, reason_characters: int | None = None, is_short: bool = False
) -> Table:
    """The writers of one setting at one number of rows, the fastest first.

    In short they have six columns, for a terminal; else also the intervals of ratios and the least effects.

    Notes say why writers failed in this setting, at any number of rows.
    """
    cells = ranking.cells
    fastest = indistinct(cells, speed, 1)
    times = ("x best",) if is_short else ("x best", "least effect")
    growths = metric_column(cells, growth, megabytes, -1)
    sizes = metric_column(cells, file_bytes, file_megabytes, -1)
    rows = [
        [
            Entry(each.cell.backend),
            _marked(speed_text(each.rows_per_second), fastest[place]),
            *_times_the_best(ranking, each, is_marked=fastest[place], is_short=is_short),
            growths[place],
            sizes[place],
            Entry(outcome_words(each.outcome)),
        ]
        for place, each in enumerate(cells)
    ]
    return Table(
        f"At {counted(ranking.rows, 'row')}: {setting_title(ranking.setting)}",
        ("backend", "rows/s", *times, "peak MB", "file MB", "outcome"),
        [*rows, *_absent_rows(run, len(times) + 4)],
        [
            *([] if is_short or not contract(ranking.setting) else [contract(ranking.setting)]),
            *failure_notes(run.of(ranking.setting), reason_characters),
            *_absent_notes(run),
            *jvm_notes(cells),
        ],
        ends_in_words=True,
    )


def throughput_table(run: RunSummary, setting: Setting) -> Table:
    """Backends down, row counts across: median rows per second with its interval."""
    cells = {(each.cell.backend, each.cell.rows): each for each in run.of(setting)}
    counts = sorted({rows for _, rows in cells})
    backends = list(dict.fromkeys(backend for backend, _ in cells))
    columns = [_speed_column([cells.get((backend, count)) for backend in backends]) for count in counts]
    rows = [
        [Entry(backend), *(column[place] for column in columns)] for place, backend in enumerate(backends)
    ]
    return Table(
        f"Rows per second: {setting_title(setting)}",
        ("backend", *(f"{count:,}" for count in counts)),
        [*rows, *_absent_rows(run, len(counts))],
        [],
    )


def measures_table(run: RunSummary, setting: Setting) -> Table:
    """All measures beside speed, memory and size, of a setting at its most rows."""
    ranking = rankings(run, setting)[0]
    cells = [each for each in ranking.cells if each.good]
    columns = [metric_column(cells, metric, written, best) for _, metric, written, best in _MEASURES]
    columns += [_probed_column(cells, probe, field, written) for _, probe, field, written in _PROBED]
    rows = [
        [Entry(each.cell.backend), *(column[place] for column in columns)] for place, each in enumerate(cells)
    ]
    return Table(
        f"More measures at {counted(ranking.rows, 'row')}: {setting_title(setting)}",
        ("backend", *(name for name, *_ in (*_MEASURES, *_PROBED))),
        rows,
        [],
    )


def megabytes(value: float) -> str:
    """Bytes of memory in MB, in three digits."""
    return _three_digits(value / 1e6) if abs(value) >= _MEGABYTE else f"{value / 1e6:.2g}"


def file_megabytes(value: float) -> str:
    """Bytes of a file in MB: a size does not vary, so that every digit counts."""
    return f"{value / 1e6:,.2f}" if value >= _MEGABYTE else f"{value / 1e6:.3g}"


def _milliseconds(value: float) -> str:
    return f"{value * 1e3:,.1f}"


_Written = Callable[[float], str]
_Measure = tuple[str, "Metric", "_Written", int]
_MEASURES: tuple[_Measure, ...] = (
    # name, value of a sample, how it is written, and what is best: 1 the largest, -1 the smallest, 0 neither
    ("MB/s", lambda s: s["throughput"]["megabytes_per_second"], lambda v: f"{v:,.0f}", 1),
    ("wall s", lambda s: s["use"]["wall_seconds"], lambda v: f"{v:.2f}", -1),
    ("CPU s", cpu_seconds, lambda v: f"{v:.2f}", -1),
    ("row groups", lambda s: s["output"]["row_groups"], lambda v: f"{v:,.0f}", 0),
    ("pool MB", lambda s: s["pyarrow_pool"] and s["pyarrow_pool"]["allocated_bytes"], megabytes, 0),
    ("own account MB", lambda s: s["account"][0]["bytes"] if s["account"] else None, megabytes, 0),
    ("fsync ms", lambda s: s["fsync_seconds"], _milliseconds, 0),
)
_PROBED: tuple[tuple[str, str, str, _Written], ...] = (
    # name, probe, field of its reading, how it is written
    ("GC runs", "gc", "runs", lambda v: f"{v:,.0f}"),
    ("GC ms", "gc", "pause_seconds", _milliseconds),
    ("GIL gap ms", "gil", "longest_gap_seconds", _milliseconds),
)


def metric_column(
    cells: Sequence[CellSummary], metric: Metric, written: Callable[[float], str], direction: int
) -> list[Entry]:
    """A metric's medians; marked are the best, and those that the samples cannot tell from it."""
    marks = indistinct(cells, metric, direction) if direction else [False] * len(cells)
    found = [cell.estimate(metric) for cell in cells]
    return [
        Entry("-") if each is None else _marked(written(each.median), mark)
        for each, mark in zip(found, marks, strict=True)
    ]


def _probed_column(cells: Sequence[CellSummary], probe: str, field: str, written: _Written) -> list[Entry]:
    """The medians of a probe's readings, of passes of their own: no interval tells them apart."""
    found = [[float(reading[field]) for reading in each.readings(probe)] for each in cells]
    return [Entry(written(median(values)) if values else "-") for values in found]


def _marked(text: str, best: bool) -> Entry:  # noqa: FBT001 - of an entry
    """An entry that is marked as one of the best, unless it shows nothing but zeros."""
    return Entry(text, best=best and any(digit in text for digit in "123456789"))


def _speed_column(cells: Sequence[CellSummary | None]) -> list[Entry]:
    present = [each for each in cells if each is not None]
    marks = dict(zip(map(id, present), indistinct(present, speed, 1), strict=True))
    return [
        Entry("") if each is None else _marked(_speed_or_outcome(each), marks[id(each)]) for each in cells
    ]


def _speed_or_outcome(cell: CellSummary) -> str:
    found, outcome = cell.rows_per_second, outcome_words(cell.outcome)
    if found is None:
        return outcome
    failed = "" if cell.is_right else f" ({outcome})"
    return f"{speed_text(found)}{failed}"


def _times_the_best(ranking: Ranking, cell: CellSummary, *, is_marked: bool, is_short: bool) -> list[Entry]:
    """The speed of a cell over that of the fastest, `~` if they cannot be told apart; the least effect."""
    best = ranking.best
    found = None if best is None else ratio(cell, best, speed)
    if found is None:
        texts = ["-", "-"]
    elif cell is best:
        texts = ["1", "-"]
    else:
        text = "~" if is_marked else f"{found.median:.2f}" if is_short else ratio_text(found)
        texts = [text, effect_text(found.least_effect)]
    return [Entry(text) for text in texts[: 1 if is_short else 2]]


def speed_text(found: Estimate | None) -> str:
    """Rows per second in three digits, in a unit said once: "1.43M [1.42, 1.47]"."""
    if found is None:
        return "-"
    scale, unit = _unit_of(found.median)
    middle = f"{_three_digits(found.median / scale)}{unit}"
    return middle if found.n == 1 else f"{middle} [{_end(found.low, scale)}, {_end(found.high, scale)}]"


def _end(value: float, scale: float) -> str:
    """An end of an interval in the median's unit, or with a unit of its own where it is far away."""
    if _NEAR[0] <= value / scale < _NEAR[1]:
        return _three_digits(value / scale)
    scale, unit = _unit_of(value)
    return f"{_three_digits(value / scale)}{unit}"


def _unit_of(value: float) -> tuple[float, str]:
    return next((pair for pair in _UNITS if value >= pair[0]), (1.0, ""))


def _three_digits(value: float) -> str:
    """A number in three significant digits, zeros behind the point included: 970, 33.8, 1.02."""
    rounded = float(f"{value:.{_DIGITS}g}")
    whole = len(f"{abs(rounded):.0f}")
    return f"{rounded:,.{max(0, _DIGITS - whole)}f}"


def ratio_text(found: Estimate) -> str:
    """A ratio with its interval: "1.66 [1.60, 1.71]"; three digits behind the point next to 1."""
    ends = (found.median, found.low, found.high)
    digits = _DIGITS if any(f"{end:.2f}" == "1.00" for end in ends) else 2
    middle, low, high = (f"{end:.{digits}f}" for end in ends)
    return middle if found.n == 1 else f"{middle} [{low}, {high}]"


def effect_text(share: float) -> str:
    """A least effect in per cent, in two digits: "3.1 %"."""
    return f"{share * 100:.2g} %" if share < 1 else "-"


_UNITS = ((1e6, "M"), (1e3, "K"))
_DIGITS = 3
_NEAR = (0.01, 999.5)


def _absent_rows(run: RunSummary, width: int) -> list[list[Entry]]:
    """A line for each backend that could not run here."""
    return [
        [Entry(absent["backend"]), *([Entry("-")] * (width - 1)), Entry("absent")]
        for absent in run.environment["absent_backends"]
    ]


def _absent_notes(run: RunSummary) -> list[str]:
    """The reason why each of them is absent, with what to do."""
    return [f"{absent['backend']}: {absent['reason']}" for absent in run.environment["absent_backends"]]
