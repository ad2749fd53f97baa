"""The figures of a run, from its samples on disk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spillway.errors import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

    from spillway.harness.statistics import Estimate
    from spillway.harness.summary import CellSummary, RunSummary

__all__ = ["FOLDER", "Figure", "draw_figures"]

FOLDER = "figures"
_DPI = 120
# Okabe and Ito's palette, told apart by all common kinds of colour vision; the native writer has the
# strongest.
_NATIVE = "#D55E00"
_PEERS = ("#0072B2", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#8C8C8C")
_MARKERS = ("s", "^", "v", "D", "P", "X", "*")


@dataclass(frozen=True)
class Figure:
    """A drawn figure: its title, and its path relative to the run's folder."""

    title: str
    path: str


def draw_figures(run: RunSummary) -> list[Figure]:
    """Draw what the run has samples for: throughput, peak memory, memory over time, allocation curves.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    (run.folder / FOLDER).mkdir(exist_ok=True)
    styles = _styles(run)
    figures = []
    for mode, memory in run.settings():
        cells = [each for each in run.of(mode, memory) if each.good]
        if not cells:
            continue
        place = f"{mode}" if memory is None else f"{mode}-{memory // 10**6}MB"
        words = f"{mode}, {'no limit' if memory is None else f'{memory / 1e6:,.0f} MB'}"
        if len({each.cell.rows for each in cells}) > 1:
            figures += [
                _by_rows(run, cells, styles, f"throughput-{place}", f"Throughput by rows ({words})", _SPEED),
                _by_rows(
                    run, cells, styles, f"peak-rss-{place}", f"Peak RSS growth by rows ({words})", _GROWTH
                ),
            ]
        figures.append(_rss_over_time(run, cells, styles, f"rss-over-time-{place}", words))
    figures += _allocation_curves(run, styles)
    return figures


_Metric = tuple[str, float, "Callable[[CellSummary], Estimate | None]"]
_SPEED: _Metric = ("thousand rows per second", 1e3, lambda each: each.rows_per_second)
_GROWTH: _Metric = ("MB over the baseline", 1e6, lambda each: each.growth)


def _by_rows(  # noqa: PLR0913, PLR0917 - what one figure is made of
    run: RunSummary,
    cells: Sequence[CellSummary],
    styles: dict[str, dict[str, Any]],
    name: str,
    title: str,
    metric: _Metric,
) -> Figure:
    unit, scale, estimate_of = metric
    canvas, axes = _canvas()
    for backend in dict.fromkeys(each.cell.backend for each in cells):
        points = [
            (each.cell.rows, found)
            for each in cells
            if each.cell.backend == backend and (found := estimate_of(each)) is not None
        ]
        rows = [count for count, _ in points]
        middle = [found.median / scale for _, found in points]
        below = [(found.median - found.low) / scale for _, found in points]
        above = [(found.high - found.median) / scale for _, found in points]
        axes.errorbar(rows, middle, yerr=[below, above], capsize=3, label=backend, **styles[backend])
    axes.set_xscale("log")
    counts = sorted({each.cell.rows for each in cells})
    axes.set_xticks(counts, [f"{count / 1e3:g}K" for count in counts])
    axes.minorticks_off()
    axes.set_xlabel("rows")
    axes.set_ylabel(unit)
    axes.set_ylim(bottom=0)
    return _save(run, canvas, axes, name, title)


def _rss_over_time(
    run: RunSummary, cells: Sequence[CellSummary], styles: dict[str, dict[str, Any]], name: str, words: str
) -> Figure:
    most = max(each.cell.rows for each in cells)
    canvas, axes = _canvas()
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
    return _save(run, canvas, axes, name, f"RSS over time at {most:,} rows ({words})")


def _allocation_curves(run: RunSummary, styles: dict[str, dict[str, Any]]) -> list[Figure]:
    figures = []
    for mode in dict.fromkeys(each["mode"] for each in run.allocations):
        curves = [each for each in run.allocations if each["mode"] == mode and each["curve"] is not None]
        if not curves:
            continue
        canvas, axes = _canvas()
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
        figures.append(
            _save(run, canvas, axes, f"allocations-{mode}", f"Allocation curve at {most:,} rows ({mode})")
        )
    return figures


def _median_sample(cell: CellSummary) -> dict[str, Any]:
    ordered = sorted(cell.good, key=lambda sample: sample["use"]["wall_seconds"])
    return ordered[len(ordered) // 2]


def _styles(run: RunSummary) -> dict[str, dict[str, Any]]:
    """Colour, marker and weight of each backend, the same in every figure."""
    styles: dict[str, dict[str, Any]] = {}
    peers = 0
    for backend in run.environment["options"]["backends"]:
        if backend == "native":
            styles[backend] = {"color": _NATIVE, "marker": "o", "linewidth": 2.6, "zorder": 3}
            continue
        place = peers % len(_PEERS)
        styles[backend] = {"color": _PEERS[place], "marker": _MARKERS[place], "linewidth": 1.3}
        peers += 1
    return styles


def _canvas() -> tuple[Canvas, Axes]:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure as MatplotlibFigure
    except ModuleNotFoundError as error:
        raise MissingExtraError("matplotlib", "bench", "draw figures") from error
    canvas = MatplotlibFigure(figsize=(8, 4.5), layout="constrained")
    FigureCanvasAgg(canvas)
    return canvas, canvas.add_subplot()


def _save(run: RunSummary, canvas: Canvas, axes: Axes, name: str, title: str) -> Figure:
    axes.set_title(title, loc="left")
    axes.grid(visible=True, alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
    path = f"{FOLDER}/{name}.png"
    canvas.savefig(run.folder / path, dpi=_DPI)
    return Figure(title, path)
