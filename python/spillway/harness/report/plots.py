"""The size, palette, grid and legend of all figures, and the folder that they are saved in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spillway.errors import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Plot

__all__ = ["FOLDER", "Figure", "count_axis", "new_plot", "own_style", "peer_style", "save_figure"]

FOLDER = "figures"
_DPI = 120
# Okabe and Ito's palette, told apart by all common kinds of colour vision; what is our own has the strongest.
_OWN = "#D55E00"
_PEERS = ("#0072B2", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#8C8C8C")
_MARKERS = ("s", "^", "v", "D", "P", "X", "*")
# For those that share a colour: variants of our own, and peers beyond the palette.
_LINES = ("-", "--", ":", "-.")


@dataclass(frozen=True)
class Figure:
    """A drawn figure: its title, and its path relative to the run's folder."""

    title: str
    path: str


def new_plot() -> tuple[Plot, Axes]:
    """An empty figure.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure as MatplotlibFigure
    except ModuleNotFoundError as error:
        raise MissingExtraError("matplotlib", "bench", "draw figures") from error
    plot = MatplotlibFigure(figsize=(8, 4.5), layout="constrained")
    FigureCanvasAgg(plot)
    return plot, plot.add_subplot()


def save_figure(folder: Path, plot: Plot, axes: Axes, name: str, title: str) -> Figure:
    """Give a figure its title, grid and legend, and save it in the run's folder."""
    axes.set_title(title, loc="left")
    axes.grid(visible=True, alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
    path = f"{FOLDER}/{name}.png"
    plot.savefig(folder / path, dpi=_DPI)
    return Figure(title, path)


def own_style(place: int = 0) -> dict[str, Any]:
    """The style of our own line, or of that of the variant at `place` among several."""
    look = {"color": _OWN, "marker": "o", "linewidth": 2.6, "zorder": 3}
    return look | {"linestyle": _LINES[place % len(_LINES)]}


def peer_style(place: int) -> dict[str, Any]:
    """The style of the line of the peer at `place`."""
    again, colour = divmod(place, len(_PEERS))
    look = {"color": _PEERS[colour], "marker": _MARKERS[colour], "linewidth": 1.3}
    return look | {"linestyle": _LINES[again % len(_LINES)]}


def count_axis(axes: Axes, counts: Iterable[int], name: str) -> None:
    """Have the lower axis count, by powers, with a mark at each of `counts`."""
    marks = sorted(set(counts))
    axes.set_xscale("log")
    axes.set_xticks(marks, [_short(count) for count in marks])
    axes.set_xlabel(name)


def _short(count: int) -> str:
    """A count for an axis: 800, 25K, 4M."""
    thousand = 1000
    return f"{count:g}" if count < thousand else f"{count / 1e3:g}K" if count < 10**6 else f"{count / 1e6:g}M"
