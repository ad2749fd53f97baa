"""The figures of a run, from its samples on disk."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from spillway._wording import counted
from spillway.backends import OWN_LIBRARY, library
from spillway.bench.figure_words import (
    bytes_of,
    measured_on,
    who_grows_most,
    who_is_leanest,
    who_leads,
    whose_file_is_smallest,
)
from spillway.bench.ranking import rankings
from spillway.bench.tables import megabytes
from spillway.harness.report.plots import (
    FOLDER,
    Figure,
    count_axis,
    new_plot,
    own_style,
    peer_style,
    power_axis,
    save_figure,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes

    from spillway.bench.ranking import Ranking
    from spillway.bench.summary import CellSummary, RunSummary, Setting
    from spillway.harness.statistics import Estimate

__all__ = ["draw_figures"]

_LEAST_SHOWN = 1.0  # MB, on an axis of powers
_MOST_LINES = 8  # in a figure; more cannot be followed


def draw_figures(run: RunSummary) -> list[Figure]:
    """Draw what the run has samples for: speed, memory by rows and over time, allocations, size and speed.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    (run.folder / FOLDER).mkdir(exist_ok=True)
    styles = _styles(run)
    figures = []
    for setting in run.settings:
        cells = [each for each in run.of(setting) if each.good]
        if not cells:
            continue
        place, words, ranked = _place(run, setting), _words(run, setting), rankings(run, setting)
        below = measured_on(run, setting)
        most = [each for each in cells if each.cell.rows == ranked[0].rows]
        if len({each.cell.rows for each in cells}) > 1:
            titles = (who_leads(ranked), f"Time per row: {who_leads(ranked)}", who_is_leanest(most))
            figures += [
                _by_size(run, cells, styles, f"{name}-{place}", f"{title} ({words})", below, metric, _ROWS)
                for (name, metric), title in zip(_BY_ROWS, titles, strict=True)
            ]
        if any(_median_sample(each)["curve"]["seconds"] for each in most):
            figures.append(_rss_over_time(run, most, styles, f"rss-over-time-{place}", words, below))
        if len(ranked[0].right) > 1:
            figures.append(_size_and_speed(run, ranked[0], styles, f"size-and-speed-{place}", words, below))
    figures += _by_columns(run, styles)
    figures += _allocation_curves(run, styles)
    return figures


def _varying(run: RunSummary, setting: Setting) -> list[str]:
    """The parts of a setting that differ within the run, beside mode and limit."""
    parts = {
        "dataset": setting.dataset,
        "codec": setting.codec,
        "threads": counted(setting.threads, "core"),
        "chunk_rows": f"{setting.chunk_rows} rows a batch",
        "row_group_rows": f"{setting.row_group_rows} rows a group",
        "arm": setting.arm,
        "python": setting.python,
    }
    return [text for name, text in parts.items() if len({getattr(each, name) for each in run.settings}) > 1]


def _place(run: RunSummary, setting: Setting) -> str:
    memory = setting.memory_bytes
    limit = [] if memory is None else [f"{memory // 10**6}MB"]
    parts = [setting.mode, *_varying(run, setting), *limit]
    return "-".join(part.replace(":", "").replace(" ", "") for part in parts)


def _words(run: RunSummary, setting: Setting) -> str:
    memory = setting.memory_bytes
    limit = "no limit" if memory is None else f"{memory / 1e6:,.0f} MB"
    return ", ".join([setting.mode, *_varying(run, setting), limit])


class _Metric(NamedTuple):
    unit: str
    scale: float
    of: Callable[[CellSummary], Estimate | None]
    best: str
    sign: int = -1  # 1 where more of it is better
    is_memory: bool = False


class _Size(NamedTuple):
    name: str
    of: Callable[[CellSummary], int]


_SPEED = _Metric("thousand rows per second", 1e3, lambda each: each.rows_per_second, "fastest", 1)
_GROWTH = _Metric(
    "peak RSS over the baseline, MB (powers)", 1e6, lambda each: each.growth, "leanest", is_memory=True
)
_ROW_TIME = _Metric("microseconds per row", 1e-6, lambda each: each.seconds_per_row, "fastest")
_ROWS = _Size("rows", lambda each: each.cell.rows)
_BY_ROWS = (
    ("throughput", _SPEED),
    ("row-time", _ROW_TIME),
    ("peak-rss", _GROWTH),
)


def _by_columns(run: RunSummary, styles: dict[str, dict[str, Any]]) -> list[Figure]:
    """Time per row over the datasets that differ in the number of columns alone, ``wide:N``."""
    columns = {
        data["dataset"]: data["columns"]
        for data in run.environment.get("inputs", ())
        if data["dataset"].startswith("wide:")
    }
    size = _Size("columns", lambda each: int(columns[each.cell.dataset]))
    series: dict[Setting, list[CellSummary]] = {}
    for each in run.cells:
        if each.good and each.cell.dataset in columns:
            # What differs in the number of columns alone.
            series.setdefault(replace(each.setting, dataset="wide"), []).append(each)
    figures = []
    for setting, found in series.items():
        most = max(each.cell.rows for each in found)
        cells = [each for each in found if each.cell.rows == most]
        if len({size.of(each) for each in cells}) > 1:
            title = f"Time per row by columns at {counted(most, 'row')} ({_words(run, setting)})"
            name = f"columns-{_place(run, setting)}"
            below = measured_on(run, cells[0].setting)
            figures.append(_by_size(run, cells, styles, name, title, below, _ROW_TIME, size))
    return figures


def _by_size(  # noqa: PLR0913, PLR0917 - what one figure is made of
    run: RunSummary,
    cells: Sequence[CellSummary],
    styles: dict[str, dict[str, Any]],
    name: str,
    title: str,
    below: str,
    metric: _Metric,
    size: _Size,
) -> Figure:
    plot, axes = new_plot()
    cells, left_out = _best_of_libraries(cells, metric, size)
    for backend in dict.fromkeys(each.cell.backend for each in cells):
        points = [
            (size.of(each), found)
            for each in cells
            if each.cell.backend == backend and (found := metric.of(each)) is not None
        ]
        if not points:  # the memory of a JVM
            continue
        sizes = [count for count, _ in points]
        middle = [found.median / metric.scale for _, found in points]
        ends = [
            [(found.median - found.low) / metric.scale for _, found in points],
            [(found.high - found.median) / metric.scale for _, found in points],
        ]
        axes.errorbar(sizes, middle, yerr=ends, capsize=3, label=backend, **styles[backend])
    count_axis(axes, (size.of(each) for each in cells), size.name)
    axes.minorticks_off()
    axes.set_ylabel(metric.unit)
    if metric.is_memory:
        # The claim is about the least, which a straight axis would lay on its bottom line.
        power_axis(axes)
        _draw_limit(axes, cells[0].cell.memory_bytes)
    else:
        axes.set_ylim(bottom=0)
    return save_figure(run.folder, plot, axes, name, title, f"{below}{left_out}")


def _best_of_libraries(
    cells: Sequence[CellSummary], metric: _Metric, size: _Size
) -> tuple[Sequence[CellSummary], str]:
    """The cells of the best backend of each library, where all are too many lines, and words that say so.

    The best is that of any size: a writer may lead its library at some sizes alone. The worst of the largest
    stays too, since a title may name it.
    """
    if len({each.cell.backend for each in cells}) <= _MOST_LINES:
        return cells, ""
    by_size: dict[int, list[str]] = {}
    for each in sorted(cells, key=lambda each: _rank(each, metric)):
        if metric.of(each) is not None:
            by_size.setdefault(size.of(each), []).append(each.cell.backend)
    shown = {by_size[max(by_size)][-1]}
    for names in by_size.values():
        shown.update({library(name): name for name in reversed(names)}.values())
    kept = [each for each in cells if each.cell.backend in shown]
    return kept, f" Of each library the {metric.best} writer at any size, and what the title names."


def _rank(cell: CellSummary, metric: _Metric) -> float:
    found = metric.of(cell)
    return 0.0 if found is None else -metric.sign * found.median


def _draw_limit(axes: Axes, limit: int | None) -> None:
    """Draw the limit on the whole process, where there is one."""
    if limit is not None:
        axes.axhline(limit / 1e6, color="black", linewidth=1, label="limit, imports included")


def _size_and_speed(  # noqa: PLR0913, PLR0917 - what one figure is made of
    run: RunSummary, ranking: Ranking, styles: dict[str, dict[str, Any]], name: str, words: str, below: str
) -> Figure:
    plot, axes = new_plot()
    for each in ranking.right:
        found = each.rows_per_second
        if found is not None:
            style = {key: value for key, value in styles[each.cell.backend].items() if key != "linestyle"}
            ends = [[(found.median - found.low) / 1e3], [(found.high - found.median) / 1e3]]
            size = bytes_of(each) / 1e6
            axes.errorbar(
                [found.median / 1e3],
                [size],
                xerr=ends,
                capsize=3,
                linestyle="none",
                label=each.cell.backend,
                **style,
            )
    axes.set_xlabel("thousand rows per second: further right is faster")
    axes.set_ylabel("file, MB: lower is smaller")
    return save_figure(run.folder, plot, axes, name, f"{whose_file_is_smallest(ranking)} ({words})", below)


def _rss_over_time(  # noqa: PLR0913, PLR0917 - what one figure is made of
    run: RunSummary,
    cells: Sequence[CellSummary],
    styles: dict[str, dict[str, Any]],
    name: str,
    words: str,
    below: str,
) -> Figure:
    """Resident memory over time of the sample of median speed, of cells with equal rows."""
    plot, axes = new_plot()
    title = f"{who_grows_most(cells)} ({words})"
    cells, left_out = _best_of_libraries(cells, _GROWTH, _ROWS)
    for each in cells:
        sample = _median_sample(each)
        if sample.get("jvm"):  # the curve is that of Python alone
            continue
        base = sample["memory"]["before"]["rss"]
        grown = [max(_LEAST_SHOWN, (value - base) / 1e6) for value in sample["curve"]["rss_bytes"]]
        style = {key: value for key, value in styles[each.cell.backend].items() if key != "marker"}
        seconds = [0, *sample["curve"]["seconds"]]
        axes.plot(seconds, [_LEAST_SHOWN, *grown], label=each.cell.backend, **style)
    power_axis(axes)
    _draw_limit(axes, cells[0].cell.memory_bytes)
    axes.set_xlabel("seconds since the writer was opened")
    axes.set_ylabel("RSS over the baseline, MB (powers)")
    return save_figure(run.folder, plot, axes, name, title, f"{below}{left_out}")


def _allocation_curves(run: RunSummary, styles: dict[str, dict[str, Any]]) -> list[Figure]:
    traced: dict[str, list[dict[str, Any]]] = {}
    for each in run.allocations:
        if each["curve"] is not None:
            words = ", ".join([each["mode"], *_varying_of(run, each)])
            traced.setdefault(words, []).append(each)
    return [_allocation_curve(run, curves, styles, words) for words, curves in traced.items()]


def _allocation_curve(
    run: RunSummary, curves: Sequence[dict[str, Any]], styles: dict[str, dict[str, Any]], words: str
) -> Figure:
    plot, axes = new_plot()
    for each in curves:
        seconds = each["curve"]["seconds"]
        length = seconds[-1] if seconds and seconds[-1] else 1
        style = {key: value for key, value in styles[each["backend"]].items() if key != "marker"}
        allocated = [max(_LEAST_SHOWN, value / 1e6) for value in each["curve"]["allocated_bytes"]]
        axes.plot([100 * second / length for second in seconds], allocated, label=each["backend"], **style)
    power_axis(axes)
    axes.set_xlabel("% of the traced write (tracing slows each writer differently)")
    axes.set_ylabel("allocated, MB (powers)")
    peaks = {each["backend"]: max(each["curve"]["allocated_bytes"], default=0) for each in curves}
    least = min(peaks, key=lambda name: peaks[name])
    most = max(each["rows"] for each in curves)
    title = (
        f"{least} allocates least at once: {megabytes(peaks[least])} MB at {counted(most, 'row')} ({words})"
    )
    below = f"By memray, one write each. {run.environment['cpu_model']}."
    name = "-".join(["allocations", *(part.replace(":", "") for part in words.split(", "))])
    return save_figure(run.folder, plot, axes, name, title, below)


def _varying_of(run: RunSummary, curve: dict[str, Any]) -> list[str]:
    """Dataset, codec and Python of a traced write, where the run has several: it is that of one of them."""
    names = [name for name in ("dataset", "codec", "python") if name in curve]
    return [curve[name] for name in names if len({getattr(setting, name) for setting in run.settings}) > 1]


def _median_sample(cell: CellSummary) -> dict[str, Any]:
    ordered = sorted(cell.good, key=lambda sample: sample["use"]["wall_seconds"])
    return ordered[len(ordered) // 2]


def _styles(run: RunSummary) -> dict[str, dict[str, Any]]:
    """Colour, marker and weight of each backend, the same in every figure."""
    names = run.environment["options"]["backends"]
    own = [name for name in names if library(name) == OWN_LIBRARY]
    peers = [name for name in names if name not in own]
    return {name: own_style(place) for place, name in enumerate(own)} | {
        name: peer_style(place) for place, name in enumerate(peers)
    }
