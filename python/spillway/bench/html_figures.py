"""The figures of the HTML report: each with a title that says what it shows, and what it was measured on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spillway._wording import counted
from spillway.backends import OWN_LIBRARY, library
from spillway.bench.figure_words import (
    bytes_of,
    measured_on,
    who_is_fastest,
    who_is_leanest,
    who_leads,
    whose_file_is_smallest,
)
from spillway.bench.least_memory_table import found_limits
from spillway.bench.ranking import rankings, ratio
from spillway.bench.summary import speed
from spillway.bench.tables import megabytes
from spillway.harness.report.svg import (
    Axis,
    Interval,
    Point,
    Series,
    are_named,
    chart_intervals,
    chart_lines,
    chart_points,
    swatch,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spillway.bench.summary import CellSummary, RunSummary, Setting
    from spillway.harness.statistics import Estimate

__all__ = ["HtmlFigure", "html_figures"]

_WHOLE_FROM = 100e6
_LEAST_SHOWN = 1e6  # of memory over time, on an axis of powers


@dataclass(frozen=True)
class HtmlFigure:
    """One figure.

    Attributes:
        title: The finding.
        below: What it was measured on, and how the figure is read.
        drawing: The chart in both widths, as HTML.
        legend: Names with their swatches, for the width in which the chart has no room for them.
    """

    title: str
    below: str
    drawing: str
    legend: Sequence[tuple[str, str]]


def html_figures(run: RunSummary, setting: Setting) -> list[HtmlFigure]:
    """The figures of a setting: ratios, speed and memory by rows, least memory, memory over time, size."""
    found = _Figures(run, setting)
    drawn = [
        found.ratios(),
        found.speeds(),
        found.peaks(),
        found.least_memory(),
        found.over_time(),
        found.allocations(),
        found.sizes(),
    ]
    return [each for each in drawn if each is not None]


class _Figures:
    """The figures of one setting, which share its styles and the line below."""

    def __init__(self, run: RunSummary, setting: Setting) -> None:
        self._run, self._setting = run, setting
        self._ranked = rankings(run, setting)
        self._top = self._ranked[0]
        self._cells = [each for each in run.of(setting) if each.good]
        names = run.environment["options"]["backends"]
        own = [name for name in names if library(name) == OWN_LIBRARY]
        ordered = [*own, *(name for name in names if name not in own)]
        self._styles = {name: place for place, name in enumerate(ordered)}
        self._names = [name for name in ordered if any(each.cell.backend == name for each in self._cells)]

    def ratios(self) -> HtmlFigure | None:
        """The speed of each writer over that of the fastest, at the most rows."""
        top = self._top
        if top.best is None or not top.others:
            return None
        best = top.best
        found = [(each, ratio(each, best, speed)) for each in top.others]
        rows = [
            Interval(best.cell.backend, self._styles[best.cell.backend], 1, 1, 1),
            *(
                Interval(each.cell.backend, self._styles[each.cell.backend], over.median, over.low, over.high)
                for each, over in found
                if over is not None
            ),
        ]
        axis = Axis("speed over that of the fastest", lambda value: f"{value:.2f}")
        how = "Ratios within blocks, with their interval."
        return self._figure(who_is_fastest(top), how, chart_intervals(rows, axis, reference=1), [])

    def speeds(self) -> HtmlFigure | None:
        """Rows per second by rows."""
        if not self._has_several_counts:
            return None
        series = self._by_rows(lambda each: each.rows_per_second)
        axis = Axis("rows per second", _short)
        chart = chart_lines(series, self._rows, axis)
        return self._figure(who_leads(self._ranked), "Medians with their interval.", chart, series)

    def peaks(self) -> HtmlFigure | None:
        """Peak memory by rows, with the limit."""
        if not self._has_several_counts:
            return None
        series = self._by_rows(lambda each: each.growth)
        axis = Axis("peak memory over the baseline, MB (powers)", _megabytes, is_log=True)
        chart = chart_lines(series, self._rows, axis, limit=self._setting.memory_bytes)
        return self._figure(
            who_is_leanest(self._at_most_rows), "Growth of resident memory. Lower is better.", chart, series
        )

    def least_memory(self) -> HtmlFigure | None:
        """The least memory limit that each backend survives, with the largest at which it died."""
        found = [
            (each, each.bounds.survives_from)
            for each in found_limits(self._run, self._setting)
            if each.bounds.survives_from is not None
        ]
        if not found:
            return None
        rows = [
            Interval(
                each.cell.backend, self._styles[each.cell.backend], limit, each.bounds.dies_at or limit, limit
            )
            for each, limit in found
        ]
        first, least = found[0]
        title = f"{first.cell.backend} survives in {megabytes(least)} MB"
        if len(found) > 1:
            other, more = found[1]
            title += f", {other.cell.backend}, the next, in {megabytes(more)} MB"
        axis = Axis("least limit on the whole process that every write survived, MB", _megabytes)
        how = f"At {counted(first.cell.rows, 'row')}; the line ends where every write died."
        return self._figure(title, how, chart_intervals(rows, axis), [])

    def over_time(self) -> HtmlFigure | None:
        """Resident memory over time, of the sample of median speed, at the most rows."""
        series = []
        for each in self._at_most_rows:
            sample = _median_sample(each)
            if not each.is_right or sample.get("jvm"):  # of a JVM the curve is that of Python alone
                continue
            seconds, resident = sample["curve"]["seconds"], sample["curve"]["rss_bytes"]
            base = sample["memory"]["before"]["rss"]
            grown = [max(_LEAST_SHOWN, value - base) for value in resident]
            points = [(0.0, _LEAST_SHOWN), *zip(seconds, grown, strict=True)]
            if len(points) > 1:
                name = each.cell.backend
                series.append(Series(name, self._styles[name], points, has_markers=False))
        if not series:
            return None
        highest = {each.name: max(value for _, value in each.points) for each in series}
        least, most = (choose(highest, key=lambda name: highest[name]) for choose in (min, max))
        title = f"{most} grows to {megabytes(highest[most])} MB, {least} to {megabytes(highest[least])} MB"
        x = Axis("seconds since the writer was opened", lambda value: f"{value:g}")
        y = Axis("resident over the baseline, MB (powers)", _megabytes, is_log=True)
        how = f"Seen from outside, at {counted(self._top.rows, 'row')}."
        return self._figure(title, how, chart_lines(series, x, y), series)

    def allocations(self) -> HtmlFigure | None:
        """Allocated bytes over the traced write."""
        mode, dataset, codec = self._setting.mode, self._setting.dataset, self._setting.codec
        traced = [
            each
            for each in self._run.allocations
            if each["mode"] == mode
            and each.get("dataset", dataset) == dataset
            and each.get("codec", codec) == codec
            and each.get("python", "") == self._setting.python
            and each["curve"] is not None
        ]
        series = []
        for each in traced:
            seconds, held = each["curve"]["seconds"], each["curve"]["allocated_bytes"]
            if seconds and seconds[-1]:
                points = [
                    (at / seconds[-1], max(_LEAST_SHOWN, value))
                    for at, value in zip(seconds, held, strict=True)
                ]
                series.append(
                    Series(each["backend"], self._styles[each["backend"]], points, has_markers=False)
                )
        if not series:
            return None
        highest = {each.name: max(value for _, value in each.points) for each in series}
        least = min(highest, key=lambda name: highest[name])
        title = f"{least} holds the least at once: {megabytes(highest[least])} MB allocated"
        x = Axis("share of the traced write", lambda value: f"{value:.0%}")
        how = "By memray, never timed. A ramp gathers; a comb frees each row group; a flat line streams."
        return self._figure(
            title,
            how,
            chart_lines(series, x, Axis("allocated, MB (powers)", _megabytes, is_log=True)),
            series,
        )

    def sizes(self) -> HtmlFigure | None:
        """File size against speed, at the most rows."""
        cells = [each for each in self._at_most_rows if each.is_right]
        if len(cells) <= 1:
            return None
        points = [
            Point(each.cell.backend, self._styles[each.cell.backend], found.median, float(bytes_of(each)))
            for each in cells
            if (found := each.rows_per_second) is not None
        ]
        x, y = Axis("rows per second", _short), Axis("file, MB", _megabytes, from_zero=False)
        return self._figure(
            whose_file_is_smallest(self._top),
            "Lower is smaller, further right is faster.",
            chart_points(points, x, y),
            [] if are_named(points) else [Series(each.name, each.style, []) for each in points],
        )

    @property
    def _has_several_counts(self) -> bool:
        return len({each.cell.rows for each in self._cells}) > 1

    @property
    def _rows(self) -> Axis:
        counts = sorted({float(each.cell.rows) for each in self._cells})
        return Axis("rows (powers)", _short, is_log=True, ticks=counts)

    @property
    def _at_most_rows(self) -> list[CellSummary]:
        return [each for each in self._cells if each.cell.rows == self._top.rows]

    def _by_rows(self, metric: Callable[[CellSummary], Estimate | None]) -> list[Series]:
        series = []
        for name in self._names:
            cells = sorted(
                (each for each in self._cells if each.cell.backend == name), key=lambda e: e.cell.rows
            )
            found = [(float(each.cell.rows), value) for each in cells if (value := metric(each)) is not None]
            found = [(rows, value) for rows, value in found if value.median > 0]
            points = [(rows, value.median) for rows, value in found]
            if points:
                intervals = [(value.low, value.high) for _, value in found]
                series.append(Series(name, self._styles[name], points, intervals))
        return series

    def _figure(self, title: str, how: str, drawing: str, series: Sequence[Series]) -> HtmlFigure:
        legend = [(each.name, swatch(each.style, has_marker=each.has_markers)) for each in series]
        return HtmlFigure(title, f"{how} {measured_on(self._run, self._setting)}", drawing, legend)


def _median_sample(cell: CellSummary) -> dict[str, Any]:
    ordered = sorted(cell.good, key=lambda sample: float(sample["use"]["wall_seconds"]))
    return ordered[len(ordered) // 2]


def _short(value: float) -> str:
    """A count on an axis: 800, 25K, 1.5M."""
    for scale, unit in ((1e6, "M"), (1e3, "K")):
        if value >= scale:
            return f"{value / scale:.3g}{unit}"
    return f"{value:.3g}"


def _megabytes(value: float) -> str:
    return f"{value / 1e6:,.0f}" if value >= _WHOLE_FROM else f"{value / 1e6:.3g}"
