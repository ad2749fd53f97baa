"""The charts of a run of races: operations per second and waits, by the number of writers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from spillway._wording import and_joined, counted
from spillway.backends import OWN_LIBRARY
from spillway.harness.report.plots import Axis, Chart, Figure, Line, lines, save, styles_of
from spillway.race import committers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spillway.harness.statistics import Estimate
    from spillway.race.summary import CellSummary, RunSummary, Setting

__all__ = ["charts", "draw_figures"]

_MEDIAN, _LONGEST = 50, 100
_DOTTED = (0, (1, 1.5))
_PEERS = ("put-if-absent", "delta-rs", "delta-rs-retry", *committers.OWN_TABLES)


def draw_figures(run: RunSummary) -> list[Figure]:
    """Draw each setting in which numbers of writers differ into the run's folder.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    return [save(run.folder, chart) for chart in charts(run)]


def charts(run: RunSummary) -> list[Chart]:
    """The charts of each setting in which numbers of writers differ."""
    found = []
    for setting in run.settings:
        cells = [each for each in run.of(setting) if each.speed]
        if len({each.cell.writers for each in cells}) > 1:
            found += [_speeds(run, setting, cells), _waits(run, setting, cells)]
    return found


def _speeds(run: RunSummary, setting: Setting, cells: Sequence[CellSummary]) -> Chart:
    nouns = f"{setting.kind.noun}s"
    drawn = []
    for name, own in _by_committer(cells):
        drawn += _lines(name, own, lambda each: each.estimate(lambda race: race["appends_per_second"]))
    writers, found = _compared(drawn)
    (best, fastest), *others = sorted(found.items(), key=lambda each: -each[1])
    title = f"{best} commits {_plain(fastest)} {nouns} a second with {counted(writers, 'writer')}"
    if others:
        title += f", {others[-1][0]} {_plain(others[-1][1])}"
    chart = lines(drawn, _writers(cells), Axis(f"{nouns} acknowledged per second", _plain, "log"))
    return Chart(f"{nouns}-{_place(setting)}", title, _below(run, setting, cells), chart)


def _waits(run: RunSummary, setting: Setting, cells: Sequence[CellSummary]) -> Chart:
    medians, longest = [], []
    for name, own in _by_committer(cells):
        longest += _lines(name, own, lambda each: _wait(each, _LONGEST))
        medians += _lines(name, own, lambda each: _wait(each, _MEDIAN))
    title = "Waits by the number of writers"
    if longest:
        writers, found = _compared(longest)
        (best, shortest), *others = sorted(found.items(), key=lambda each: each[1])
        title = f"With {counted(writers, 'writer')} the longest wait is {_plain(shortest)} s for {best}"
        if others:
            title += f", {_plain(others[-1][1])} s for {others[-1][0]}"
    drawn = [replace(each, name=f"{each.name}, longest") for each in longest]
    for each in medians:
        style = replace(each.style, dash=_DOTTED, marker="_", width=1)
        drawn.append(replace(each, name=f"{each.name}, median", style=style))
    chart = lines(drawn, _writers(cells), Axis("seconds from the call to the acknowledgement", _plain, "log"))
    return Chart(f"waits-{_place(setting)}", title, _below(run, setting, cells), chart)


def _wait(cell: CellSummary, percent: int) -> Estimate | None:
    return cell.estimate(lambda race: race["wait_seconds"] and race["wait_seconds"][percent])


def _lines(
    name: str, cells: Sequence[CellSummary], metric: Callable[[CellSummary], Estimate | None]
) -> list[Line]:
    """A committer's line, none without a point; points of races that were cut short are ringed."""
    known = [(each, found) for each in cells if (found := metric(each)) is not None and found.low > 0]
    if not known:
        return []
    return [
        Line(
            name,
            styles_of(committers.NAMES, _library, OWN_LIBRARY)[name],
            [(float(each.cell.writers), found.median) for each, found in known],
            [(found.low, found.high) for _, found in known],
            [float(each.cell.writers) for each, _ in known if each.outcome != "ok"],
        )
    ]


def _library(committer: str) -> str:
    """What a committer's colour stands for."""
    return committer.removesuffix("-retry") if committer in _PEERS else OWN_LIBRARY


def _compared(drawn: Sequence[Line]) -> tuple[int, dict[str, float]]:
    """The values of all lines at the most writers with which several raced, or else the most of all."""
    at: dict[int, dict[str, float]] = {}
    for each in drawn:
        for writers, value in each.points:
            at.setdefault(int(writers), {})[each.name] = value
    most = max(at, key=lambda writers: (len({_library(name) for name in at[writers]}) > 1, writers))
    return most, at[most]


def _writers(cells: Sequence[CellSummary]) -> Axis:
    counts = sorted({float(each.cell.writers) for each in cells})
    return Axis("writers at once", lambda value: f"{value:,.0f}", "log", counts)


def _below(run: RunSummary, setting: Setting, cells: Sequence[CellSummary]) -> str:
    """How the chart is read, the setting, and the committers that have no point at the most writers."""
    fewest = min(len(each.races) for each in cells)
    most = max(each.cell.writers for each in cells)
    parts = [f"Medians of {counted(fewest, 'race')} a point, with their interval."]
    if fewest == 1:
        parts = ["One race a point, which shows no spread."]
    if any(each.outcome != "ok" for each in cells):
        parts.append("Ringed: not all committed in time.")
    words = setting.words
    parts.append(f"{words[:1].upper()}{words[1:]}. {run.environment['cpu_model']}.")
    for name, own in _by_committer(cells):
        last = max(each.cell.writers for each in own)
        if last < most:
            parts.append(f"{name} raced with at most {counted(last, 'writer')}.")
    absent = [name for name in _named(run.of(setting)) if name not in _named(cells)]
    if absent:
        parts.append(f"No point of {and_joined(absent)}.")
    return " ".join(parts)


def _by_committer(cells: Sequence[CellSummary]) -> list[tuple[str, list[CellSummary]]]:
    return [(name, [each for each in cells if each.cell.committer == name]) for name in _named(cells)]


def _named(cells: Sequence[CellSummary]) -> list[str]:
    return [name for name in committers.NAMES if any(each.cell.committer == name for each in cells)]


def _place(setting: Setting) -> str:
    parts = [
        setting.name,
        f"{setting.rows}rows",
        f"{setting.appends}x" if setting.seconds is None else f"{setting.seconds:g}s",
        *([setting.partitions] if setting.partitions is not None else []),
        setting.spread,
        *(["noise"] if setting.noise else []),
        *([f"{setting.rate:g}a-second"] if setting.rate is not None else []),
    ]
    return "-".join(part.replace(":", "").replace(" ", "-").replace(",", "") for part in parts)


def _plain(value: float) -> str:
    return f"{value:,.0f}" if value >= _WHOLE_FROM else f"{value:.2g}"


_WHOLE_FROM = 10
