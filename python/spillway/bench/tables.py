"""The tables of a run, as cells of text: who is fastest, throughput by rows, and all other measures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import TYPE_CHECKING, Any

from spillway._wording import counted
from spillway.backends import OWN_LIBRARY, library
from spillway.bench.plan import Options, process_setting
from spillway.bench.summary import cpu_seconds, failure_notes, file_bytes, growth, outcome_words, speed
from spillway.harness.report import Entry, Table
from spillway.harness.statistics import exceeds, paired_ratio

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spillway.bench.summary import CellSummary, Metric, RunSummary, Setting
    from spillway.harness.statistics import Estimate, Ratio

_FEWEST_FOR_WINNER = 2


@dataclass(frozen=True)
class Ranking:
    """The cells of one setting at one number of rows.

    Attributes:
        setting: The setting.
        rows: The number of rows.
        cells: All cells: those that wrote the right rows by speed, then the others by speed, then those
            without one.
    """

    setting: Setting
    rows: int
    cells: Sequence[CellSummary]

    @cached_property
    def right(self) -> list[CellSummary]:
        """The cells that compete: every sample ended well and no reader found a file wrong."""
        return [each for each in self.cells if each.is_right]

    @property
    def best(self) -> CellSummary | None:
        """The fastest of them by its median, which need not be a winner."""
        return self.right[0] if self.right else None

    @property
    def others(self) -> list[CellSummary]:
        """The other competitors, the next fastest first."""
        return self.right[1:]

    @cached_property
    def rivals(self) -> list[CellSummary]:
        """The competitors from other libraries than the fastest one's; with only one library, all others."""
        return [each for each in self.others if not self._is_of(self.best, each)] or self.others

    @cached_property
    def siblings(self) -> list[CellSummary]:
        """The other settings of the fastest one's library, if other libraries also compete."""
        return [each for each in self.others if each not in self.rivals]

    @property
    def reference(self) -> CellSummary | None:
        """The fastest writer of another library than Spillway, or than the fastest if Spillway is absent.

        If there is only one library, the second.
        """
        own = [each for each in self.right if library(each.cell.backend) == OWN_LIBRARY]
        base = own[0] if own else self.best
        peers = [each for each in self.right if not self._is_of(base, each)]
        return next(iter([*peers, *self.others]), None)

    @staticmethod
    def _is_of(one: CellSummary | None, other: CellSummary) -> bool:
        return one is not None and library(one.cell.backend) == library(other.cell.backend)

    @cached_property
    def level(self) -> list[CellSummary]:
        """The competitors that do not differ significantly from the fastest, by their 95 % intervals."""
        marks = indistinct(self.right, speed, 1)
        return [each for each, marked in zip(self.others, marks[1:], strict=True) if marked]

    @property
    def has_winner(self) -> bool:
        """True if the fastest differs significantly from all rivals: never with one sample."""
        if self.best is None or not self.others or any(each in self.rivals for each in self.level):
            return False
        return len(self.best.good) >= _FEWEST_FOR_WINNER

    def over(self, other: CellSummary, metric: Metric = speed) -> Ratio | None:
        """The ratio of the fastest to another by a metric, block by block."""
        return None if self.best is None else ratio(self.best, other, metric)


def rankings(run: RunSummary, setting: Setting) -> list[Ranking]:
    """The rankings of a setting, with the largest number of rows first."""
    cells = run.of(setting)
    counts = sorted({each.cell.rows for each in cells}, reverse=True)
    return [
        Ranking(setting, rows, sorted((each for each in cells if each.cell.rows == rows), key=_place))
        for rows in counts
    ]


def _place(cell: CellSummary) -> tuple[bool, bool, float]:
    found = cell.rows_per_second
    return (not cell.is_right, found is None, 0.0 if found is None else -found.median)


def ratio(above: CellSummary, below: CellSummary, metric: Metric) -> Ratio | None:
    """The ratio of two cells by a metric, block by block; None if no block has positive ones of both."""
    over, under = (
        {block: value for block, value in each.by_block(metric).items() if value > 0}
        for each in (above, below)
    )
    return paired_ratio(over, under) if over.keys() & under.keys() else None


def indistinct(cells: Sequence[CellSummary], metric: Metric, direction: int) -> list[bool]:
    """Marks for the best cell by a metric and for all ties with it; none with a single sample.

    Args:
        cells: The cells that are compared.
        metric: The metric.
        direction: 1 if more of it is better, -1 if less is.
    """
    values = {place: each.by_block(metric) for place, each in enumerate(cells) if each.is_right}
    known = {place: blocks for place, blocks in values.items() if blocks}
    best = max(known, key=lambda place: direction * median(known[place].values()), default=None)
    if best is None or len(known[best]) < _FEWEST_FOR_WINNER:
        return [False] * len(cells)
    return [
        place == best or (place in known and not _is_better(known[best], known[place], direction))
        for place in range(len(cells))
    ]


def _is_better(one: dict[int, float], other: dict[int, float], direction: int) -> bool:
    return exceeds(one, other) if direction > 0 else exceeds(other, one)


def jvm_notes(cells: Sequence[CellSummary]) -> list[str]:
    """A note for each cell that was written in a JVM, and before them a word on what its row leaves out."""
    notes = [_note(each.cell.backend, found) for each in cells if (found := _readings(each))]
    return [_WHY, *notes] if notes else []


_WHY = (
    "Without peak MB are writers in a JVM: its heap has grown before the write that is measured, so that "
    "growth would say nothing. Its resident memory is not growth, so it cannot be compared with other rows. "
    "CPU s and faults are those of the JVM and of Python."
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


_MEGABYTE = 1e6
_REASON_CHARACTERS = 160

LEGEND = (
    "* the best of its column, or not to be told from it by these samples; in brackets the interval; x best: "
    "speed over that of the fastest, ~ if they cannot be told apart; peak MB: growth of resident memory"
)
"""The meaning of the columns and marks of `short_tables` on a terminal."""


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
    """A ranking for each setting at its largest number of rows, with shortened reasons for failures."""
    return [
        ranking_table(run, rankings(run, setting)[0], reason_characters=_REASON_CHARACTERS, is_short=True)
        for setting in run.settings
    ]


def ranking_table(
    run: RunSummary, ranking: Ranking, *, reason_characters: int | None = None, is_short: bool = False
) -> Table:
    """The writers of one setting at one number of rows, the fastest first.

    Short tables have six columns, for a terminal; others also have the intervals of ratios and the least
    effects.

    Notes say why writers failed in this setting, at any number of rows.
    """
    cells = ranking.cells
    fastest = indistinct(cells, speed, 1)
    times = ("x best",) if is_short else ("x best", "detectable")
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
    """All measures other than speed, memory and size, for a setting at its largest number of rows."""
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


def three_digits(value: float) -> str:
    """A number in three significant digits, zeros behind the point included: 970, 33.8, 1.02, 0.0456."""
    rounded, _, exponent = f"{value:.{_DIGITS - 1}e}".partition("e")
    return f"{float(f'{rounded}e{exponent}'):,.{max(0, _DIGITS - 1 - int(exponent))}f}" if value else "0"


def megabytes(value: float) -> str:
    """Bytes of memory in MB, in three digits."""
    return three_digits(value / 1e6)


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
    ("wall s", lambda s: s["use"]["wall_seconds"], three_digits, -1),
    ("CPU s", cpu_seconds, three_digits, -1),
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
    """A metric's medians, with marks for the best and for ties with it."""
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
    """The speed of a cell over that of the fastest, `~` if they tie; the detectable difference."""
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
    middle = f"{three_digits(found.median / scale)}{unit}"
    return middle if found.n == 1 else f"{middle} [{_end(found.low, scale)}, {_end(found.high, scale)}]"


def _end(value: float, scale: float) -> str:
    """An end of an interval in the median's unit, or with a unit of its own where it is far away."""
    if _NEAR[0] <= value / scale < _NEAR[1]:
        return three_digits(value / scale)
    scale, unit = _unit_of(value)
    return f"{three_digits(value / scale)}{unit}"


def _unit_of(value: float) -> tuple[float, str]:
    return next((pair for pair in _UNITS if value >= pair[0]), (1.0, ""))


def ratio_text(found: Estimate) -> str:
    """A ratio with its interval: "1.66 [1.60, 1.71]"; three decimals close to 1."""
    ends = (found.median, found.low, found.high)
    digits = _DIGITS if any(f"{end:.2f}" == "1.00" for end in ends) else 2
    middle, low, high = (f"{end:.{digits}f}" for end in ends)
    return middle if found.n == 1 else f"{middle} [{low}, {high}]"


def effect_text(share: float) -> str:
    """A detectable difference in per cent, with two digits: "3.1 %"."""
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


def bytes_of(cell: CellSummary) -> int:
    """Bytes of a cell's file; of several sizes the largest."""
    found = cell.exact("bytes")
    return 0 if found is None else found[0]
