"""The tables of a run of races, as cells of text: all settings, targets, and published figures."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from spillway.harness.report import Entry, Table
from spillway.race import committers
from spillway.race.model import FILE_ROWS, Cell

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spillway.race.record import CellSummary, RunSummary, Setting

_WHOLE_FROM = 100


def run_tables(run: RunSummary) -> list[Table]:
    """For each setting: operations per second by number of writers, if it varies, and all measures."""
    tables = []
    for setting in run.settings:
        cells = run.of(setting)
        if (
            len({each.cell.writers for each in cells}) > 1
            and len({each.cell.committer for each in cells}) > 1
        ):
            tables.append(speed_table(run, setting))
        tables.append(detail_table(run, setting))
    return tables


def speed_table(run: RunSummary, setting: Setting) -> Table:
    """Committers down, writers across: operations per second."""
    cells = {(each.cell.committer, each.cell.writers): each for each in run.of(setting)}
    counts = sorted({writers for _, writers in cells})
    names = list(dict.fromkeys(committer for committer, _ in cells))
    best = {
        count: max((cells[name, count].speed or 0 for name in names if (name, count) in cells), default=0)
        for count in counts
    }
    rows = [
        [Entry(name), *(_speed_entry(cells.get((name, count)), best[count]) for count in counts)]
        for name in names
    ]
    return Table(
        f"{setting.kind.noun.capitalize()}s per second, by writers: {setting.words}",
        ("committer", *(f"{count:,}" for count in counts)),
        rows,
        [],
    )


def _speed_entry(cell: CellSummary | None, best: float) -> Entry:
    if cell is None:
        return Entry("")
    if cell.speed is None:
        return Entry(cell.outcome)
    word = "" if cell.outcome == "ok" else f" ({cell.outcome})"
    return Entry(f"{speed(cell.speed)}{word}", best=cell.speed == best)


def speed(value: float) -> str:
    """A speed: whole from a hundred up."""
    return f"{value:,.0f}" if value >= _WHOLE_FROM else f"{value:,.1f}"


def seconds(value: float) -> str:
    """A time: whole from a hundred seconds up, milliseconds below one."""
    return f"{value:,.0f}" if value >= _WHOLE_FROM else f"{value:,.2f}" if value >= 1 else f"{value:.3f}"


_Column = tuple[str, "Callable[[CellSummary], str | None]"]


def _of(metric: Callable[[dict[str, Any]], float | None], written: Callable[[float], str]) -> Any:
    def text(cell: CellSummary) -> str | None:
        value = cell.median(metric)
        return None if value is None else written(value)

    return text


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _committed(cell: CellSummary) -> str:
    present = min(race["table"]["present"] for race in cell.races)
    return f"{present:,}" if cell.cell.expected is None else f"{present:,} of {cell.cell.expected:,}"


def _most(name: str) -> Callable[[CellSummary], str | None]:
    def text(cell: CellSummary) -> str | None:
        return _count(max(race["table"][name] for race in cell.races))

    return text


def _attempts(race: dict[str, Any]) -> float | None:
    if race["attempts"] is None or not race["acknowledged"]:
        return None
    return float(race["attempts"] / race["acknowledged"])


def _most_lost(cell: CellSummary) -> str | None:
    most = cell.most(lambda race: race["most_lost"])
    return None if most is None else str(most)


def _wait(percent: int) -> Callable[[CellSummary], str | None]:
    return _cut(lambda cell: cell.wait(percent), percent, _cut_waits)


def _response(percent: int) -> Callable[[CellSummary], str | None]:
    return _cut(lambda cell: cell.response(percent), percent, _cut_responses)


def _cut(
    of: Callable[[CellSummary], float | None], percent: int, share: Callable[[dict[str, Any]], float]
) -> Callable[[CellSummary], str | None]:
    """A percentile, with a sign where waits that the end of a race cut short are among those beyond it."""

    def text(cell: CellSummary) -> str | None:
        value = of(cell)
        if value is None:
            return None
        is_cut = any(share(race) > 1 - percent / 100 for race in cell.races)
        return f"> {seconds(value)}" if is_cut else seconds(value)

    return text


def _cut_waits(race: dict[str, Any]) -> float:
    """The share of waits that were cut short."""
    cut = race["still_waiting"]
    return cut / (race["acknowledged"] + cut) if cut else 0.0


def _cut_responses(race: dict[str, Any]) -> float:
    """The share of response times that were cut short."""
    loop = race.get("open_loop")
    return loop.get("unacknowledged", race["still_waiting"]) / loop["arrivals"] if loop else 0.0


def _open(name: str) -> Callable[[dict[str, Any]], float | None]:
    return lambda race: (race.get("open_loop") or {}).get(name)


def _conflicts(cell: CellSummary) -> str:
    return _count(max(sum(each["count"] for each in race.get("conflicts", [])) for race in cell.races))


def _compactions(name: str) -> Callable[[CellSummary], str | None]:
    """The fewest calls of the optimiser that finished, or the most that failed."""
    pick = min if name == "finished" else max

    def text(cell: CellSummary) -> str | None:
        counts = [each[name] for race in cell.races if (each := race.get("compactions")) is not None]
        return _count(pick(counts)) if counts else None

    return text


def _rows_left(cell: CellSummary) -> str | None:
    rows = {found for race in cell.races for found in race["table"]["rows"].values()}
    return " to ".join(_count(each) for each in sorted({min(rows), max(rows)})) if rows else None


def _least_in_a_second(cell: CellSummary) -> str | None:
    counts = [count for race in cell.races for count in race.get("each_second") or ()]
    return _count(min(counts)) if counts else None


def _columns(setting: Setting) -> list[_Column]:
    changes: list[_Column] = [("conflicts", _conflicts), ("rows left", _rows_left)]
    optimiser: list[_Column] = [
        ("compactions", _compactions("finished")),
        ("failed compactions", _compactions("failed")),
    ]
    answered = ("all answered s", _of(lambda race: race.get("answered_seconds"), seconds))
    open_loop: list[_Column] = [
        ("offered/s", _of(_open("offered_per_second"), speed)),
        ("achieved/s", _of(_open("achieved_per_second"), speed)),
        ("sustained", lambda cell: "no" if cell.is_overloaded else "yes"),
        ("response p50 s", _response(50)),
        ("response p99 s", _response(99)),
        ("longest response s", _response(100)),
    ]
    least: list[_Column] = [("least in 1 s", _least_in_a_second)]
    return [
        ("committed", _committed),
        *(changes if setting.work != "append" else []),
        *(optimiser if setting.kind.optimizes else []),
        ("lost", _most("lost")),
        ("doubled", _most("doubled")),
        *(open_loop if setting.rate is not None else []),
        (f"{setting.kind.noun}s/s", _of(lambda race: race["appends_per_second"], speed)),
        *(least if setting.seconds is not None else []),
        ("rows/s", _of(lambda race: race["rows_per_second"], speed)),
        ("service p50 s", _wait(50)),
        ("longest service s", _wait(100)),
        ("in all s", _of(lambda race: race["seconds"], seconds)),
        *([answered] if setting.work != "append" else []),
        ("versions", _of(lambda race: race["table"]["versions"], _count)),
        (f"attempts {setting.kind.one_operation}", _of(_attempts, lambda value: f"{value:,.2f}")),
        ("most races lost", _most_lost),
    ]


def detail_table(run: RunSummary, setting: Setting) -> Table:
    """All measures of one setting, a line for each cell."""
    cells = run.of(setting)
    columns = _columns(setting)
    rows = [
        [
            Entry(each.cell.committer),
            Entry(f"{each.cell.writers:,}"),
            *(Entry(column(each) or "-") for _, column in columns),
            Entry(each.outcome),
        ]
        for each in cells
    ]
    return Table(
        f"All measures: {setting.words}",
        ("committer", "writers", *(name for name, _ in columns), "outcome"),
        rows,
        [*_conflict_notes(cells), *_errors(cells)],
    )


def _conflict_notes(cells: Sequence[CellSummary]) -> list[str]:
    """The conflicts of each cell, by kind."""
    notes = []
    for each in cells:
        counts: Counter[str] = Counter()
        for race in each.races:
            for one in race.get("conflicts", []):
                counts[f"{one['operation']} with {one['conflict']}"] += one["count"]
        if counts:
            found = ", ".join(f"{number:,} x {words}" for words, number in counts.most_common())
            notes.append(f"{each.cell.words}: {found}")
    return notes


def _errors(cells: Sequence[CellSummary]) -> list[str]:
    """Errors of operations that were not acknowledged, of compactions, and of processes that died."""
    notes = []
    for each in cells:
        for race in each.races:
            if race["problem"] is not None:
                notes.append(f"{each.cell.words}: {race['problem']}")
            notes += [
                f"{each.cell.words}: {error['count']:,} x {error['error']}" for error in race["errors"][:1]
            ]
            notes += [
                f"{each.cell.words}: {error['count']:,} x compaction with {error['error']}"
                for error in (race.get("compactions") or {"errors": []})["errors"][:1]
            ]
    return list(dict.fromkeys(notes))


_HEADER = ("system", "writers", "committed", "appends/s", "longest wait s", "in all s")
_ROWS = (
    ("published tester (delta-rs, up to 10 retries), own partitions", "10", "all", "20", "-", "0.5"),
    ("the same", "100", "all", "7.3", "-", "13.7"),
    ("the same", "1,000", "all", "1.5", "about 350", "about 670"),
    ("the same", "2,000", "never finished", "-", "-", "-"),
    ("the same, append-only without schema merge", "50", "-", "3.6", "-", "-"),
    (
        "delta-rs 1.6 with back-off, S3 server",
        "10 / 50 / 100",
        "all",
        "21.8 / 13.8 / 4.6",
        "0.3 / 3.3 / 21.5",
        "-",
    ),
)
_NOTE = (
    "Not of this run: the tester's figures are as published; those of delta-rs 1.6 were measured earlier, "
    "with 10 rows an append, on two cores."
)


def published_table() -> Table:
    """Figures that were published before."""
    rows = [[Entry(text) for text in row] for row in _ROWS]
    return Table("Published and earlier figures, for comparison", _HEADER, rows, [_NOTE])


_MOST_LOST = 2


@dataclass(frozen=True)
class Target:
    """A target for the committer of `spillway.delta`.

    Attributes:
        what: The race, in words.
        asked: The target, for people.
        cell: The race.
        bound: The required number.
        measure: The measured number, and its description; the number must be at most `bound`.
        at_least: True if the number must be at least `bound`.
        peer: The committer to compare with: the number is then the speed-up, which must reach `bound`.
        beside: A committer that also races, and is shown but not judged.
        only_on: "local disk" or "S3".
    """

    what: str
    asked: str
    cell: Cell
    bound: float
    measure: Callable[[CellSummary], float | None] | None = None
    at_least: bool = False
    peer: str | None = None
    beside: str | None = None
    only_on: str = "local disk"

    @property
    def cells(self) -> list[Cell]:
        """The races that it needs."""
        others = (replace(self.cell, committer=name) for name in (self.peer, self.beside) if name is not None)
        return [self.cell, *others]


def _seconds(cell: CellSummary) -> float | None:
    return cell.median(lambda race: race["seconds"])


def _longest(cell: CellSummary) -> float | None:
    return cell.wait(100)


def _most_races_lost(cell: CellSummary) -> float | None:
    return cell.most(lambda race: race["most_lost"])


def _versions(cell: CellSummary) -> float | None:
    return cell.most(lambda race: race["table"]["versions"])


def _committed_appends(cell: CellSummary) -> float | None:
    return min((race["acknowledged"] for race in cell.races), default=None)


def _finished_compactions(cell: CellSummary) -> float | None:
    return min((race["compactions"]["finished"] for race in cell.races), default=None)


def _failed_compactions(cell: CellSummary) -> float | None:
    return cell.most(lambda race: race["compactions"]["failed"])


def _cell(
    writers: int, *, workload: str = "append-only", rows: int = 10, appends: int = 1, processes: int = 1
) -> Cell:
    return Cell(
        committer="spillway",
        workload=workload,
        writers=writers,
        rows=rows,
        appends=appends,
        processes=processes,
    )


def _change(work: str, writers: int, *, rows: int) -> Cell:
    committer = "row-level"
    return Cell(
        committer=committer,
        work=work,
        writers=writers,
        rows=rows,
        partitions=committers.partitions(committer),
        file_rows=FILE_ROWS,
    )


_THOUSAND = _cell(1_000)
_BUNDLES = _cell(64 * 16, processes=64)
_DELETES = _change("delete", 100, rows=500)
_UPDATES = replace(_change("update", 1_000, rows=1), file_rows=1_000_000)
# Fewer operations are over before a few compactions could be.
_OPTIMIZED = replace(_change("optimize", 32, rows=10), appends=300)
TARGETS = (
    Target("1,000 threads, own partitions", "all in 3 s", _THOUSAND, 3, _seconds),
    Target("1,000 threads: longest wait", "2 s", _THOUSAND, 2, _longest),
    Target("10,000 threads", "all in 60 s", _cell(10_000), 60, _seconds),
    Target("64 processes x 16 writers", "all in 10 s", _BUNDLES, 10, _seconds),
    Target(
        "64 processes x 16 writers: most races lost by a bundle", "2", _BUNDLES, _MOST_LOST, _most_races_lost
    ),
    Target("300 writers", "100 x", _cell(300), 100, peer="delta-rs-retry"),
    Target("1 writer, 200 appends in sequence", "5 x", _cell(1, appends=200), 5, peer="delta-rs-retry"),
    Target(
        "50 writers, 1,000 rows an append",
        "10 x",
        _cell(50, workload="batched:1000", rows=1_000),
        10,
        peer="delta-rs-retry",
    ),
    Target(
        "1,000 writers in 8 processes",
        "100 versions",
        _cell(1_000, processes=8),
        100,
        _versions,
        only_on="S3",
    ),
    Target("100 writers", "20 x", _cell(100), 20, peer="delta-rs-retry", only_on="S3"),
    Target(
        "100 threads delete rows of one file",
        "100 commit",
        _DELETES,
        100,
        _committed_appends,
        at_least=True,
        beside="file-level",
    ),
    Target(
        "100 processes delete rows of one file",
        "100 commit",
        replace(_DELETES, processes=100),
        100,
        _committed_appends,
        at_least=True,
        beside="file-level",
    ),
    Target("1,000 threads update a row each of 1,000,000", "all in 10 s", _UPDATES, 10, _seconds),
    Target(
        "32 writers beside an optimiser: compactions",
        "3 at least",
        _OPTIMIZED,
        3,
        _finished_compactions,
        at_least=True,
        beside="delta-rs",
    ),
    Target("32 writers beside an optimiser: failed compactions", "0", _OPTIMIZED, 0, _failed_compactions),
)


def target_cells(store: str) -> list[Cell]:
    """The races of all targets on a store, each once."""
    return list(dict.fromkeys(cell for target in _on(store) for cell in target.cells))


def targets_table(run: RunSummary) -> Table:
    """The measured figure for each target."""
    rows = [_line(run, target) for target in _on(run.environment["store"])]
    notes = [
        "Times are of one machine: on a slower or a busy one a target may be missed that is met elsewhere."
    ]
    return Table("Targets", ("race", "asked", "measured", "met"), rows, notes)


def _on(store: str) -> list[Target]:
    return [target for target in TARGETS if target.only_on == store]


def _line(run: RunSummary, target: Target) -> list[Entry]:
    measured, met = _judge(run, target)
    word = "-" if met is None else "yes" if met else "no"
    return [Entry(target.what), Entry(target.asked), Entry(measured), Entry(word)]


def _judge(run: RunSummary, target: Target) -> tuple[str, bool | None]:
    """The measured figure in words, and True if the target is met; None if that cannot be told."""
    own = run.find(target.cell)
    if own is None:
        return "not run", None
    if own.outcome != "ok":
        committed = min(race["acknowledged"] for race in own.races)
        of = "" if own.cell.expected is None else f" of {own.cell.expected:,}"
        return f"{own.outcome}, {committed:,}{of} acknowledged", False
    if target.peer is not None:
        peer = run.find(target.cells[1])
        if peer is None or not peer.speed or not own.speed:
            return f"{own.speed or 0:,.1f} appends/s; {target.peer} not run, or without a result", None
        word = "" if peer.outcome == "ok" else f", {peer.outcome}"
        text = f"{own.speed / peer.speed:,.1f} x ({own.speed:,.0f} against {peer.speed:,.1f} appends/s{word})"
        return text, own.speed / peer.speed >= target.bound
    value = target.measure(own) if target.measure is not None else None
    if value is None:
        return "not known", None
    met = value >= target.bound if target.at_least else value <= target.bound
    return f"{value:,.2f}".rstrip("0").rstrip(".") + _beside(run, target), met


def _beside(run: RunSummary, target: Target) -> str:
    """The figure of the committer that is raced beside, in words."""
    if target.beside is None or target.measure is None:
        return ""
    other = run.find(target.cells[-1])
    value = None if other is None else target.measure(other)
    return f" ({target.beside}: {'not run' if value is None else f'{value:,.0f}'})"
