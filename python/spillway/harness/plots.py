"""Charts of all reports, drawn by matplotlib: dots with intervals, and lines.

A chart is drawn at two widths, of which a page shows the one that fits. Its file has the wide one, with the
title above it and the conditions below. It is SVG whose text stays text, the same bytes for the same samples.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass, replace
from html import escape
from io import StringIO
from math import inf, log10
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from spillway.errors import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.axis import Axis as PlottedAxis
    from matplotlib.figure import Figure as Plot

FOLDER = "figures"
_WIDE, _NARROW = 8.6, 3.75  # inches: what a desktop and a phone show in their natural size
_INCHES_A_CHARACTER = 0.085  # of 9 points, the widest font of the list
# Okabe and Ito's palette, told apart by all common kinds of colour vision; what is our own has the strongest.
_OWN = "#D55E00"
_PEERS = ("#0072B2", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#8C8C8C")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "p", "h", "<", ">")
_DASHES = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)), (0, (3, 1, 1, 1, 1, 1)))
_INK, _SOFT, _GRID = "#1c2127", "#59636e", "#d5dae0"
# The colours on a dark page. Of the libraries' colours, only black needs another.
_DARK = {"#ffffff": "#0d1117", "#000000": "#f0f6fc", _INK: "#e6edf3", _SOFT: "#9198a1", _GRID: "#3d444d"}
_LOOK: dict[str, Any] = {
    "axes.edgecolor": _GRID,
    "axes.labelcolor": _SOFT,
    "axes.labelsize": 9,
    "axes.spines.right": False,
    "axes.spines.top": False,
    # Room is reckoned for the first, which matplotlib brings along; none of the others is wider.
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Helvetica", "Arial"],
    "font.size": 9,
    "grid.color": _GRID,
    "grid.linewidth": 0.8,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "spillway",
    "text.color": _INK,
    "text.parse_math": False,  # a name may have dollars
    "xtick.color": _GRID,
    "xtick.labelcolor": _SOFT,
    "ytick.color": _GRID,
    "ytick.labelcolor": _SOFT,
}
_LINE = 0.15  # inches of a line of text
_MOST_BESIDE = 36  # characters of a name beside a chart
_MOST_ABOVE = 41  # of a name and its value above a dot
_FEWEST_FOR_TREND = 3
_MOST_DECADES_IN_STEPS = 2.6


@dataclass(frozen=True)
class Style:
    """The look of one name in every chart of a run.

    Attributes:
        colour: The colour of its library.
        marker: One per library, so that lines never differ only by colour.
        dash: The dash of its place among the settings of its library, which share colour and marker.
        is_open: True if its markers are hollow, likewise.
        width: The width of its line, in points.
    """

    colour: str
    marker: str
    dash: Any
    is_open: bool
    width: float


def styles_of(names: Sequence[str], library: Callable[[str], str], own: str) -> dict[str, Style]:
    """The style of each name: one colour for each library, and our own library's apart from all others."""
    libraries = list(dict.fromkeys(library(name) for name in names))
    peers = [each for each in libraries if each != own]
    settings: dict[str, int] = {}
    found = {}
    for name in names:
        of = library(name)
        place = settings[of] = settings.get(of, -1) + 1
        is_own = of == own
        peer = 0 if is_own else peers.index(of)
        found[name] = Style(
            colour=_OWN if is_own else _PEERS[peer % len(_PEERS)],
            marker=_MARKERS[0] if is_own else _MARKERS[1 + peer % (len(_MARKERS) - 1)],
            dash=_DASHES[place % len(_DASHES)],
            is_open=place % 2 == 1,
            width=2.4 if is_own else 1.4,
        )
    return found


@dataclass(frozen=True)
class Axis:
    """One axis.

    Attributes:
        title: Its quantity and unit.
        written: The text of a value.
        scale: "linear" begins at zero; "log"; "symlog" is linear up to 1 and a log scale above.
        ticks: The values that are marked; round ones by default.
    """

    title: str
    written: Callable[[float], str]
    scale: Literal["linear", "log", "symlog"] = "linear"
    ticks: Sequence[float] = ()

    @property
    def words(self) -> str:
        """The title with the scale, where it is not linear."""
        scales = {"linear": "", "log": " (log scale)", "symlog": " (log scale above 1)"}
        return f"{self.title}{scales[self.scale]}"


@dataclass(frozen=True)
class Dot:
    """One row of a chart of dots: a name, a value with its interval, and its text."""

    name: str
    style: Style
    middle: float
    low: float
    high: float
    text: str


@dataclass(frozen=True)
class Line:
    """One line: a name, points with optional intervals in y, and the places in x of ringed points.

    Attributes:
        is_curve: Its points follow each other so closely that few have a marker.
    """

    name: str
    style: Style
    points: Sequence[tuple[float, float]]
    intervals: Sequence[tuple[float, float]] = ()
    ringed: Sequence[float] = ()
    is_curve: bool = False


class _Draw(Protocol):
    def __call__(self, *, is_narrow: bool) -> Plot: ...


@dataclass(frozen=True)
class Chart:
    """A chart that can be drawn.

    Attributes:
        name: The stem of its file's name.
        title: The finding.
        below: The conditions, and how the chart is read.
        draw: Draws it in one of both widths.
    """

    name: str
    title: str
    below: str
    draw: _Draw


@dataclass(frozen=True)
class Figure:
    """A chart as a file: its title, and its path relative to the run's folder."""

    title: str
    path: str


def save(folder: Path, chart: Chart) -> Figure:
    """Draw a chart into the folder of figures of a run, with its title and the line below.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    path = f"{FOLDER}/{chart.name}.svg"
    (folder / FOLDER).mkdir(parents=True, exist_ok=True)
    plot = drawn(chart, is_narrow=False)
    with _look():
        _add_words(plot, wrap(chart.title, 88), wrap(chart.below, 132))
    (folder / path).write_text(_with_dark_colours(_svg(plot)), encoding="utf-8")
    return Figure(chart.title, path)


def _with_dark_colours(svg: str) -> str:
    """A picture that follows the colour scheme of the page that shows it, also as an image of a README."""
    rules = [
        f'[style*="{what}: {light}"] {{ {what}: {dark} !important }}'
        for light, dark in _DARK.items()
        for what in ("fill", "stroke")
    ]
    style = "\n   ".join(["@media (prefers-color-scheme: dark) {", *rules, "}"])
    return svg.replace("</style>", f"\n   {style}\n  </style>", 1)


def _add_words(plot: Plot, title: Sequence[str], below: Sequence[str]) -> None:
    """Make room above and below a drawn chart for its title and the line below."""
    width, height = plot.get_size_inches()
    above, under = 0.21 * len(title) + 0.1, (0.14 * len(below) + 0.12) if below else 0.0
    whole = height + above + under
    for axes in plot.axes:
        left, bottom, wide, high = axes.get_position().bounds
        axes.set_position((left, (bottom * height + under) / whole, wide, high * height / whole))
    plot.set_size_inches(width, whole)
    at_left: dict[str, Any] = {"x": 0.01, "horizontalalignment": "left"}
    plot.text(
        y=1 - 0.1 / whole,
        s="\n".join(title),
        verticalalignment="top",
        fontsize=11,
        fontweight="bold",
        **at_left,
    )
    plot.text(
        y=0.08 / whole, s="\n".join(below), verticalalignment="bottom", fontsize=7.5, color=_SOFT, **at_left
    )


def embedded(chart: Chart) -> str:
    """Both widths of a chart as HTML, without title and the line below, which the page has as text.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    return "".join(
        f'<div class="{width}">{_inline(_svg(drawn(chart, is_narrow=is_narrow)), chart, width)}</div>'
        for width, is_narrow in (("wide", False), ("narrow", True))
    )


def drawn(chart: Chart, *, is_narrow: bool) -> Plot:
    """A chart in one of both widths, without title and the line below, as matplotlib has it.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    with _look():
        return chart.draw(is_narrow=is_narrow)


@contextmanager
def _look() -> Iterator[None]:
    """The look of all charts, whatever the settings of the user's matplotlib are."""
    try:
        from matplotlib import style
    except ModuleNotFoundError as error:
        raise MissingExtraError("matplotlib", "bench", "draw figures") from error
    with style.context(["default", _LOOK]):
        yield


def _svg(plot: Plot) -> str:
    text = StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with _look():
        plot.savefig(text, format="svg", metadata=nothing)
    # What matplotlib leaves at the ends of lines would be another change in every diff.
    return re.sub(r"[ \t]+\n", "\n", text.getvalue())


def _inline(svg: str, chart: Chart, width: str) -> str:
    """An SVG file as part of a page: without its frame, and with ids that no other chart of the page has."""
    body = svg[svg.index("<svg") :]
    body = re.sub(r"\s*<(metadata|style).*?</\1>|\s*<!--.*?-->", "", body, flags=re.DOTALL)
    body = re.sub(r' xmlns(:\w+)?="[^"]*"', "", body)
    own = re.sub(r"[^\w-]", "_", f"{chart.name}-{width}-")
    body = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{own}", body)
    body = re.sub(r' (width|height)="[^"]*pt"', "", body, count=2)
    return body.replace("<svg ", f'<svg role="img" aria-label="{escape(chart.title)}" ', 1)


class _Room(NamedTuple):
    """Inches around the axes of a chart."""

    left: float
    right: float
    top: float
    bottom: float


def _new_plot(height: float, room: _Room, *, is_narrow: bool) -> tuple[Plot, Axes]:
    """A plot whose axes leave this room; `height` is that of the axes."""
    from matplotlib.figure import Figure as MatplotlibFigure

    width, whole = _NARROW if is_narrow else _WIDE, height + room.top + room.bottom
    plot = MatplotlibFigure(figsize=(width, whole))
    share = (width - room.left - room.right) / width
    return plot, plot.add_axes((room.left / width, room.bottom / whole, share, height / whole))


def _wrapped(axis: Axis, width: float) -> list[str]:
    return wrap(axis.words, int(width / _INCHES_A_CHARACTER))


def _shortened(name: str, most: int) -> str:
    """Shorten a name to this many characters, keeping its beginning and its end."""
    half = most // 2
    return name if len(name) <= most else f"{name[: half - 1]}\N{HORIZONTAL ELLIPSIS}{name[half - most :]}"


def _width_of(texts: Iterable[str]) -> float:
    return _INCHES_A_CHARACTER * max(map(len, texts), default=0)


def dots(rows: Sequence[Dot], axis: Axis, *, reference: float | None = None) -> _Draw:
    """A chart with a row for each dot: its name, its interval and its value; a line down at `reference`."""

    def draw(*, is_narrow: bool) -> Plot:
        # A narrow chart has names and values above the dots.
        step, lift = (0.42, 0.4) if is_narrow else (0.28, 0.0)
        most = _MOST_ABOVE - max(len(each.text) for each in rows) if is_narrow else _MOST_BESIDE
        named = [_shortened(each.name, most) for each in rows]
        names = 0.14 if is_narrow else _width_of(named) + 0.15
        values = 0.24 if is_narrow else _width_of(each.text for each in rows) + 0.2
        title = _wrapped(axis, (_NARROW if is_narrow else _WIDE) - names - values)
        room = _Room(names, values, 0.1, 0.37 + _LINE * len(title))
        plot, axes = _new_plot(step * len(rows), room, is_narrow=is_narrow)
        colours = [each.style.colour for each in rows]
        lows, highs = [each.low for each in rows], [each.high for each in rows]
        axes.hlines(range(len(rows)), lows, highs, colors=colours, linewidth=4, alpha=0.45)
        for place, each in enumerate(rows):
            axes.plot([each.middle], [place], markersize=6.5, linestyle="none", zorder=3, **_mark(each.style))
            x, side = (1.0, "right") if is_narrow else (1.02, "left")
            words: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "verticalalignment": "center"}
            axes.text(x, place - lift, each.text, horizontalalignment=side, **words)
            if is_narrow:
                axes.text(0.0, place - lift, named[place], **words)
        ends = [*lows, *highs, *(each.middle for each in rows)]
        _scale(axes, axes.xaxis, axis, [*ends, *([reference] if reference else [])], is_narrow=is_narrow)
        axes.set_xlabel("\n".join(title))
        axes.set_ylim(len(rows) - 0.5 - lift / 2, -0.5 - lift / 2)
        axes.set_yticks([] if is_narrow else range(len(rows)), [] if is_narrow else named)
        axes.tick_params(axis="y", length=0, labelcolor=_INK)
        axes.spines["left"].set_visible(False)
        axes.grid(axis="x")
        axes.set_axisbelow(True)
        if reference is not None:
            axes.axvline(reference, color=_INK, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
        return plot

    return draw


def lines(found: Sequence[Line], x: Axis, y: Axis) -> _Draw:
    """A chart of lines: each ends at its name; curves and narrow charts have a legend."""
    named = [replace(each, name=_shortened(each.name, _MOST_BESIDE)) for each in found]
    named.sort(key=lambda each: -max(value for _, value in each.points))

    def draw(*, is_narrow: bool) -> Plot:
        names = _width_of(each.name for each in named)
        has_legend = is_narrow or any(each.is_curve for each in found)
        right = 0.24 if is_narrow else names + (0.6 if has_legend else 0.4)
        height = 2.4 if is_narrow else max(2.9, 0.19 * len(found))
        below, above = _wrapped(x, _NARROW - 0.9), _wrapped(y, _NARROW - 0.1)
        legend = 0.185 * len(found) if is_narrow else 0.0
        room = _Room(0.6, right, 0.2 + _LINE * len(above), 0.4 + _LINE * len(below) + legend)
        plot, axes = _new_plot(height, room, is_narrow=is_narrow)
        for each in named:
            _draw_line(axes, each)
        heights = [value for each in found for _, value in each.points]
        ends = [end for each in found for pair in each.intervals for end in pair]
        _scale(
            axes, axes.xaxis, x, [place for each in found for place, _ in each.points], is_narrow=is_narrow
        )
        _scale(axes, axes.yaxis, y, [*heights, *ends], is_narrow=is_narrow)
        axes.set_xlabel("\n".join(below))
        corner: dict[str, Any] = {
            "xycoords": ("figure fraction", "axes fraction"),
            "textcoords": "offset points",
        }
        axes.annotate("\n".join(above), (0.0, 1.0), (4, 10), color=_SOFT, **corner)
        axes.grid(axis="both")
        axes.set_axisbelow(True)
        if is_narrow:
            plot.legend(loc="lower left", bbox_to_anchor=(0, 0), handlelength=3, labelspacing=0.35)
        elif has_legend:
            axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), handlelength=3)
        else:
            _name_lines(axes, named, gap=0.19 / height)
        return plot

    return draw


def _draw_line(axes: Axes, each: Line) -> None:
    style = each.style
    xs, ys = [x for x, _ in each.points], [y for _, y in each.points]
    # Two points are no trend.
    is_joined = each.is_curve or len(each.points) >= _FEWEST_FOR_TREND
    look = {"linestyle": style.dash if is_joined else "none", "linewidth": style.width, **_mark(style)}
    axes.plot(xs, ys, label=each.name, markersize=5, markevery=0.22 if each.is_curve else None, **look)
    if each.intervals:
        lows, highs = zip(*each.intervals, strict=True)
        axes.vlines(xs, lows, highs, colors=style.colour, linewidth=1)
    ringed = [(x, y) for x, y in each.points if x in each.ringed]
    if ringed:
        ring: dict[str, Any] = {
            "marker": "o",
            "markersize": 11,
            "markerfacecolor": "none",
            "color": style.colour,
        }
        axes.plot(*zip(*ringed, strict=True), linestyle="none", **ring)


def _mark(style: Style) -> dict[str, Any]:
    face = "white" if style.is_open else style.colour
    return {"color": style.colour, "marker": style.marker, "markerfacecolor": face}


def _name_lines(axes: Axes, found: Sequence[Line], *, gap: float) -> None:
    """Names beside the ends of lines, moved apart, each joined with the end of its line."""
    to_axes = axes.transAxes.inverted()
    ends = [to_axes.transform(axes.transData.transform(each.points[-1])) for each in found]
    for each, height in zip(found, _apart([float(end[1]) for end in ends], gap), strict=True):
        join = {
            "arrowstyle": "-",
            "color": each.style.colour,
            "linewidth": 0.8,
            "relpos": (0, 0.5),
            "shrinkA": 2,
            "shrinkB": 4,
        }
        axes.annotate(
            each.name,
            xy=each.points[-1],
            xytext=(1.05, height),
            textcoords="axes fraction",
            verticalalignment="center",
            annotation_clip=False,
            arrowprops=join,
        )


def _apart(places: Sequence[float], gap: float) -> list[float]:
    """Heights between 0 and 1, moved so far that none is nearer to another one than `gap`."""
    order = sorted(range(len(places)), key=places.__getitem__)
    found = list(places)
    before = -inf
    for index in order:
        found[index] = before = max(found[index], before + gap)
    after = 1.0 + gap
    for index in reversed(order):
        found[index] = after = min(found[index], after - gap)
    return found


def _scale(axes: Axes, plotted: PlottedAxis, axis: Axis, values: Sequence[float], *, is_narrow: bool) -> None:
    """The scale, ends and ticks of an axis. Its minor ticks have no text, which would cover others."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

    is_x = plotted is axes.xaxis
    set_scale, set_ends = (axes.set_xscale, axes.set_xlim) if is_x else (axes.set_yscale, axes.set_ylim)
    if axis.scale == "linear":
        set_ends(0, max(values) * 1.06 or 1)
        plotted.set_major_locator(MaxNLocator(4 if is_narrow else 6))
    elif axis.scale == "symlog":
        set_scale("symlog", linthresh=1, linscale=0.25)
        set_ends(0, max(max(values) * 1.2, 2))
        powers = [10.0**power for power in range(7) if 10.0**power <= max(values) * 1.2]
        plotted.set_ticks([0, *powers])
    else:
        shown = [value for value in values if value > 0]
        low, high = min(shown) / 1.25, max(shown) * 1.25
        set_scale("log")
        set_ends(low, high)
        few = log10(high / low) < _MOST_DECADES_IN_STEPS
        plotted.set_major_locator(LogLocator(subs=(1, 2, 5) if few else (1,)))
    if axis.ticks:
        plotted.set_ticks(_spread(axis, values, _NARROW - 1 if is_narrow else _WIDE - 3.5))
    plotted.set_minor_locator(NullLocator())
    plotted.set_minor_formatter(NullFormatter())
    plotted.set_major_formatter(FuncFormatter(lambda value, _: axis.written(value)))


def _spread(axis: Axis, values: Sequence[float], width: float) -> list[float]:
    """The ticks of a log axis whose texts have room, from the last one down."""
    reach = log10(max(values) / min(values)) or 1.0
    found: list[float] = []
    free = inf
    for tick in sorted(axis.ticks, reverse=True):
        place = log10(tick / min(values)) / reach * width
        half = _INCHES_A_CHARACTER * (len(axis.written(tick)) + 1) / 2
        if place + half <= free:
            found.append(tick)
            free = place - half
    return found[::-1]
