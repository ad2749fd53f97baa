"""The tables of a run of races, as cells of text."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from spillway.harness.report.table import Entry, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spillway.race.summary import CellSummary, RunSummary, Setting

__all__ = ["detail_table", "run_tables", "seconds", "speed_table"]

_WHOLE_FROM = 100


def run_tables(run: RunSummary) -> list[Table]:
    """Per setting: operations per second by writers where their numbers differ, and all measures."""
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
    return _cut(lambda cell: cell.wait(percent))


def _response(percent: int) -> Callable[[CellSummary], str | None]:
    return _cut(lambda cell: cell.response(percent))


def _cut(of: Callable[[CellSummary], float | None]) -> Callable[[CellSummary], str | None]:
    """A time, with a sign where the time limit cut it short."""

    def text(cell: CellSummary) -> str | None:
        value = of(cell)
        if value is None:
            return None
        # Whoever still waited at the limit would have waited longer than that.
        limit = max((race["seconds"] or 0 for race in cell.races if race["still_waiting"]), default=None)
        return f"> {seconds(value)}" if limit is not None and value >= limit else seconds(value)

    return text


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
