"""The figures of a run of races: operations per second and waits, by the number of writers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spillway._wording import counted
from spillway.harness.report.plots import (
    FOLDER,
    Figure,
    count_axis,
    new_plot,
    own_style,
    peer_style,
    save_figure,
)
from spillway.race import committers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes

    from spillway.race.summary import CellSummary, RunSummary, Setting

__all__ = ["draw_figures"]

_HALF, _ALL = 50, 100
_OWN = ("spillway", "row-level")


def draw_figures(run: RunSummary) -> list[Figure]:
    """Draw each setting in which numbers of writers differ.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    (run.folder / FOLDER).mkdir(exist_ok=True)
    figures = []
    for setting in run.settings:
        cells = [each for each in run.of(setting) if each.speed]
        if len({each.cell.writers for each in cells}) > 1:
            figures += [_speeds(run, setting, cells), _waits(run, setting, cells)]
    return figures


def _speeds(run: RunSummary, setting: Setting, cells: Sequence[CellSummary]) -> Figure:
    plot, axes = new_plot()
    for name, own in _by_committer(cells):
        _line(axes, own, lambda each: each.speed, label=name, **_style(name))
    nouns = f"{setting.kind.noun}s"
    _log_axes(axes, cells, f"{nouns} acknowledged per second")
    title = f"{nouns.capitalize()} per second ({_short(setting)})"
    return save_figure(run.folder, plot, axes, f"{nouns}-{_place(setting)}", title)


def _waits(run: RunSummary, setting: Setting, cells: Sequence[CellSummary]) -> Figure:
    plot, axes = new_plot()
    for name, own in _by_committer(cells):
        style = _style(name)
        _line(axes, own, lambda each: each.wait(_ALL), label=f"{name}, longest", **style)
        _line(axes, own, lambda each: each.wait(_HALF), label=f"{name}, half", **{**style, "linestyle": ":"})
    _log_axes(axes, cells, "seconds of waiting")
    return save_figure(run.folder, plot, axes, f"waits-{_place(setting)}", f"Waits ({_short(setting)})")


def _line(
    axes: Axes,
    cells: Sequence[CellSummary],
    metric: Callable[[CellSummary], float | None],
    **style: Any,
) -> None:
    """A committer's line; points of races that were cut short are hollow."""
    points = [(each, value) for each in cells if (value := metric(each))]
    if not points:
        return
    axes.plot([each.cell.writers for each, _ in points], [value for _, value in points], **style)
    cut = [(each.cell.writers, value) for each, value in points if each.outcome != "ok"]
    if cut:
        axes.plot(
            [writers for writers, _ in cut],
            [value for _, value in cut],
            linestyle="none",
            marker=style["marker"],
            color=style["color"],
            markerfacecolor="white",
            zorder=4,
        )


def _log_axes(axes: Axes, cells: Sequence[CellSummary], unit: str) -> None:
    name = "writers at once (hollow: not all committed in time)"
    count_axis(axes, (each.cell.writers for each in cells), name)
    axes.set_yscale("log")
    axes.set_ylabel(unit)


def _by_committer(cells: Sequence[CellSummary]) -> list[tuple[str, list[CellSummary]]]:
    names = [name for name in committers.NAMES if any(each.cell.committer == name for each in cells)]
    return [(name, [each for each in cells if each.cell.committer == name]) for name in names]


def _style(name: str) -> dict[str, Any]:
    """Colour and marker of each committer, the same in every figure."""
    if name in _OWN:
        return own_style(_OWN.index(name))
    return peer_style(committers.NAMES.index(name) - 1)


def _place(setting: Setting) -> str:
    parts = [
        setting.name,
        f"{setting.rows}rows",
        f"{setting.appends}x" if setting.seconds is None else f"{setting.seconds:g}s",
        *([setting.partitions] if setting.partitions is not None else []),
        setting.spread,
        *(["noise"] if setting.noise else []),
    ]
    return "-".join(part.replace(":", "").replace(" ", "-").replace(",", "") for part in parts)


def _short(setting: Setting) -> str:
    rows = counted(setting.rows, "row")
    table = setting.table_words if setting.partitions is None else f"{setting.partitions} partition"
    noise = ", noise" if setting.noise else ""
    return f"{setting.name}, {rows}, {table}, {setting.spread}{noise}"
