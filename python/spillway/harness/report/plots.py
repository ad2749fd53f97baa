"""The size, palette, grid and legend of all figures, and the folder that they are saved in."""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import fill
from typing import TYPE_CHECKING, Any

from spillway.errors import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Plot

__all__ = [
    "FOLDER",
    "Figure",
    "count_axis",
    "new_plot",
    "own_style",
    "peer_style",
    "power_axis",
    "save_figure",
]

FOLDER = "figures"
_DPI = 120
# Okabe and Ito's palette, told apart by all common kinds of colour vision; what is our own has the strongest.
_OWN = "#D55E00"
_PEERS = ("#0072B2", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#8C8C8C")
_MARKERS = ("s", "^", "v", "D", "P", "X", "*")
# No two lines differ by colour alone: each peer has dashes of its own, and ours are thick.
_OWN_DASHES = ("-", "--", ":", "-.")
_OWN_MARKERS = ("o", "d", "p", "h")
_DASHES = (
    *((0, (6, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)), (0, (3, 1)), (0, (10, 3)), (0, (4, 1, 1, 1, 1, 1))),
    *((0, (2, 2)), (0, (12, 2, 2, 2)), (0, (1, 4)), (0, (8, 1, 1, 1))),
)
_TITLE_CHARACTERS = 76


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


def save_figure(  # noqa: PLR0913, PLR0917 - what one figure is made of
    folder: Path, plot: Plot, axes: Axes, name: str, title: str, below: str = ""
) -> Figure:
    """Give a figure its title, grid, legend and the line below, and save it in the run's folder."""
    axes.set_title(fill(title, _TITLE_CHARACTERS), loc="left")
    if below:
        plot.supxlabel(below, fontsize="small", color="#555555", x=0.01, horizontalalignment="left")
    axes.grid(visible=True, alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
    path = f"{FOLDER}/{name}.png"
    plot.savefig(folder / path, dpi=_DPI)
    return Figure(title, path)


def own_style(place: int = 0) -> dict[str, Any]:
    """The style of our own line, or of that of the variant at `place` among several."""
    look = {"color": _OWN, "linewidth": 2.6, "zorder": 3, "marker": _OWN_MARKERS[place % len(_OWN_MARKERS)]}
    return look | {"linestyle": _OWN_DASHES[place % len(_OWN_DASHES)]}


def peer_style(place: int) -> dict[str, Any]:
    """The style of the line of the peer at `place`; markers are open where a colour comes again."""
    colour = place % len(_PEERS)
    look = {"color": _PEERS[colour], "marker": _MARKERS[colour], "linewidth": 1.5}
    again = {} if place < len(_PEERS) else {"markerfacecolor": "white"}
    return look | again | {"linestyle": _DASHES[place % len(_DASHES)]}


def count_axis(axes: Axes, counts: Iterable[int], name: str) -> None:
    """Have the lower axis count, by powers, with a mark at each of `counts`."""
    marks = sorted(set(counts))
    axes.set_xscale("log")
    axes.set_xticks(marks, [_short(count) for count in marks])
    axes.set_xlabel(name)


def power_axis(axes: Axes) -> None:
    """Have the left axis go by powers of ten, with its numbers written out."""
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")


def _short(count: int) -> str:
    """A count for an axis: 800, 25K, 4M."""
    thousand = 1000
    return f"{count:g}" if count < thousand else f"{count / 1e3:g}K" if count < 10**6 else f"{count / 1e6:g}M"
