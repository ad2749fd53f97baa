"""The figures of a run, from its samples on disk."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from spillway._wording import counted
from spillway.backends import OWN_LIBRARY, library
from spillway.harness.report.plots import (
    FOLDER,
    Figure,
    count_axis,
    new_plot,
    own_style,
    peer_style,
    save_figure,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spillway.bench.summary import CellSummary, RunSummary, Setting
    from spillway.harness.statistics import Estimate

__all__ = ["draw_figures"]


def draw_figures(run: RunSummary) -> list[Figure]:
    """Draw what the run has samples for: throughput, peak memory, memory over time, allocation curves.

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
        place, words = _place(run, setting), _words(run, setting)
        if len({each.cell.rows for each in cells}) > 1:
            figures += [
                _by_size(run, cells, styles, f"{name}-{place}", f"{title} by rows ({words})", metric, _ROWS)
                for name, title, metric in _BY_ROWS
            ]
        figures.append(_rss_over_time(run, cells, styles, f"rss-over-time-{place}", words))
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


class _Size(NamedTuple):
    name: str
    of: Callable[[CellSummary], int]


_SPEED = _Metric("thousand rows per second", 1e3, lambda each: each.rows_per_second)
_GROWTH = _Metric("MB over the baseline", 1e6, lambda each: each.growth)
_ROW_TIME = _Metric("microseconds per row", 1e-6, lambda each: each.seconds_per_row)
_ROWS = _Size("rows", lambda each: each.cell.rows)
_BY_ROWS = (
    ("throughput", "Throughput", _SPEED),
    ("row-time", "Time per row", _ROW_TIME),
    ("peak-rss", "Peak RSS growth", _GROWTH),
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
            figures.append(_by_size(run, cells, styles, name, title, _ROW_TIME, size))
    return figures


def _by_size(  # noqa: PLR0913, PLR0917 - what one figure is made of
    run: RunSummary,
    cells: Sequence[CellSummary],
    styles: dict[str, dict[str, Any]],
    name: str,
    title: str,
    metric: _Metric,
    size: _Size,
) -> Figure:
    plot, axes = new_plot()
    for backend in dict.fromkeys(each.cell.backend for each in cells):
        points = [
            (size.of(each), found)
            for each in cells
            if each.cell.backend == backend and (found := metric.of(each)) is not None
        ]
        sizes = [count for count, _ in points]
        middle = [found.median / metric.scale for _, found in points]
        below = [(found.median - found.low) / metric.scale for _, found in points]
        above = [(found.high - found.median) / metric.scale for _, found in points]
        axes.errorbar(sizes, middle, yerr=[below, above], capsize=3, label=backend, **styles[backend])
    count_axis(axes, (size.of(each) for each in cells), size.name)
    axes.minorticks_off()
    axes.set_ylabel(metric.unit)
    axes.set_ylim(bottom=0)
    return save_figure(run.folder, plot, axes, name, title)


def _rss_over_time(
    run: RunSummary, cells: Sequence[CellSummary], styles: dict[str, dict[str, Any]], name: str, words: str
) -> Figure:
    most = max(each.cell.rows for each in cells)
    plot, axes = new_plot()
    for each in cells:
        if each.cell.rows != most:
            continue
        sample = _median_sample(each)
        base = sample["memory"]["before"]["rss"]
        grown = [(value - base) / 1e6 for value in sample["curve"]["rss_bytes"]]
        style = {key: value for key, value in styles[each.cell.backend].items() if key != "marker"}
        axes.plot([0, *sample["curve"]["seconds"]], [0, *grown], label=each.cell.backend, **style)
    axes.set_xlabel("seconds since the writer was opened")
    axes.set_ylabel("RSS over the baseline, MB")
    return save_figure(run.folder, plot, axes, name, f"RSS over time at {counted(most, 'row')} ({words})")


def _allocation_curves(run: RunSummary, styles: dict[str, dict[str, Any]]) -> list[Figure]:
    figures = []
    for mode in dict.fromkeys(each["mode"] for each in run.allocations):
        curves = [each for each in run.allocations if each["mode"] == mode and each["curve"] is not None]
        if not curves:
            continue
        plot, axes = new_plot()
        for each in curves:
            seconds = each["curve"]["seconds"]
            length = seconds[-1] if seconds and seconds[-1] else 1
            style = {key: value for key, value in styles[each["backend"]].items() if key != "marker"}
            allocated = [value / 1e6 for value in each["curve"]["allocated_bytes"]]
            axes.plot(
                [100 * second / length for second in seconds], allocated, label=each["backend"], **style
            )
        axes.set_xlabel("% of the traced write (tracing slows each writer differently)")
        axes.set_ylabel("allocated, MB")
        most = max(each["rows"] for each in curves)
        words = ", ".join([mode, *_varying_of(run, curves[0])])
        figures.append(
            save_figure(
                run.folder,
                plot,
                axes,
                f"allocations-{mode}",
                f"Allocation curve at {counted(most, 'row')} ({words})",
            )
        )
    return figures


def _varying_of(run: RunSummary, curve: dict[str, Any]) -> list[str]:
    """The dataset and codec of a traced write, where the run has several: it is that of one of them."""
    names = [name for name in ("dataset", "codec") if name in curve]
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
