"""Charts as SVG for a page that holds everything it shows: lines, intervals and points.

A series differs from the others by colour, marker and dash, so that no two differ by colour alone. Colours
are those of the page's style sheet, by the classes ``s0`` to ``s8``: it has others for the dark. Each chart
comes in two widths, of which the page shows the one that fits.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from math import ceil, floor, inf, log10
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = [
    "STYLES",
    "Axis",
    "Interval",
    "Point",
    "Series",
    "are_named",
    "chart_intervals",
    "chart_lines",
    "chart_points",
    "swatch",
]

STYLES = 9
"""So many series have a colour of their own; later ones repeat them with another dash and open markers."""

_WIDE, _NARROW = (720, 340), (360, 300)
_DASHES = ("", "7 3", "2 3", "8 3 2 3")
_LABEL_GAP = 14
_TEXT_HEIGHT = 12
_MOST_STEPS = 6
_LEFT = 52  # of the grid: the values stand before it
_TOP = 26  # of the grid: the title of the axis stands above it
_CHARACTER = 6.6  # pixels of a label's character, about
_KEY = 24  # of the piece of a line before its name
_RADIUS = 6  # of what a marker takes
_MOST_NAMED = 6  # points of a narrow chart: more names cover each other


@dataclass(frozen=True)
class Axis:
    """One axis.

    Attributes:
        title: Its quantity and unit.
        written: The text of a value.
        is_log: It shows powers, so that the smallest values can be read too.
        ticks: Values that are marked; round ones by default.
        from_zero: It begins at zero, unless it shows powers.
    """

    title: str
    written: Callable[[float], str]
    is_log: bool = False
    ticks: Sequence[float] = ()
    from_zero: bool = True


@dataclass(frozen=True)
class Series:
    """One line: its name, its style by number, and points with an optional interval in y."""

    name: str
    style: int
    points: Sequence[tuple[float, float]]
    intervals: Sequence[tuple[float, float]] = ()
    has_markers: bool = True


@dataclass(frozen=True)
class Interval:
    """One row of a chart of intervals."""

    name: str
    style: int
    middle: float
    low: float
    high: float


@dataclass(frozen=True)
class Point:
    """One point with a name."""

    name: str
    style: int
    x: float
    y: float


def chart_lines(series: Sequence[Series], x: Axis, y: Axis, *, limit: float | None = None) -> str:
    """A chart of lines in two widths; a `limit` is a line across it, with its value."""
    return _both(lambda size: _lines(series, x, y, limit, size))


def chart_intervals(rows: Sequence[Interval], x: Axis, *, reference: float | None = None) -> str:
    """A row for each interval, with a line down at `reference`, in two widths."""
    return _both(lambda size: _intervals(rows, x, reference, size))


def chart_points(points: Sequence[Point], x: Axis, y: Axis) -> str:
    """Points with their names, in two widths."""
    return _both(lambda size: _points(points, x, y, size))


def are_named(points: Sequence[Point]) -> bool:
    """Return true if a narrow chart of points has room for their names; else they are in its legend."""
    return len(points) <= _MOST_NAMED


def swatch(style: int, *, has_marker: bool = True) -> str:
    """The piece of a line that stands before a name in a legend."""
    mark = _marker(style, 14, 6) if has_marker else ""
    line = f'<path d="M1 6H27"{_dash(style)}/>'
    return f'<svg class="swatch {_look(style)}" viewBox="0 0 28 12" aria-hidden="true">{line}{mark}</svg>'


_Size = tuple[int, int]


def _both(draw: Callable[[_Size], str]) -> str:
    return f'<div class="wide">{draw(_WIDE)}</div><div class="narrow">{draw(_NARROW)}</div>'


class _Scale:
    """Places of an axis's values between two ends, in pixels."""

    def __init__(self, axis: Axis, values: Sequence[float], start: float, end: float) -> None:
        self.axis = axis
        found = [value for value in values if value < inf and (value > 0 or not axis.is_log)]
        low, high = (min(found), max(found)) if found else (1.0, 10.0)
        if axis.is_log:
            low, high = low / 1.15, high * 1.15
        else:
            low = min(0.0, low) if axis.from_zero else low
            margin = (high - low) * 0.06 or 1.0
            low, high = low if low == 0 else low - margin, high + margin
        self._low, self._high, self._start, self._end = low, high, start, end
        self.ticks = [tick for tick in (axis.ticks or self._round()) if low <= tick <= high]

    def __call__(self, value: float) -> float:
        value = min(max(value, self._low), self._high)
        if self.axis.is_log:
            share = log10(value / self._low) / log10(self._high / self._low)
        else:
            share = (value - self._low) / (self._high - self._low)
        return round(self._start + share * (self._end - self._start), 1)

    def _round(self) -> list[float]:
        """Round values: of powers 1, 2 and 5, else four to six steps."""
        if self.axis.is_log:
            powers = range(floor(log10(self._low)), ceil(log10(self._high)) + 1)
            return [digit * 10.0**power for power in powers for digit in (1, 2, 5)]
        step = 10.0 ** floor(log10((self._high - self._low) / 4))
        step *= next(
            each for each in (1, 2, 5, 10) if (self._high - self._low) / (step * each) <= _MOST_STEPS
        )
        return [place * step for place in range(ceil(self._low / step), floor(self._high / step) + 1)]


def _lines(series: Sequence[Series], x: Axis, y: Axis, limit: float | None, size: _Size) -> str:
    width, height = size
    is_wide = size == _WIDE
    right = width - (16 + _KEY + _CHARACTER * max(len(each.name) for each in series) if is_wide else 10)
    xs = _Scale(x, [place for each in series for place, _ in each.points], _LEFT, right)
    heights = [value for each in series for _, value in each.points]
    ends = [end for each in series for pair in each.intervals for end in pair]
    ys = _Scale(y, [*heights, *ends, *([] if limit is None else [limit])], height - 40, _TOP)
    parts = [_frame(xs, ys, size, right)]
    if limit is not None:
        parts.append(
            f'<path class="limit" d="M{_LEFT} {ys(limit)}H{right:.0f}"/>'
            f'<text class="note" x="{_LEFT + 4}" y="{ys(limit) - 4}">limit {escape(y.written(limit))}</text>'
        )
    parts += [_series(each, xs, ys) for each in series]
    if is_wide:
        places = _apart([ys(each.points[-1][1]) for each in series], _TOP, height - 44)
        parts += [_named(each, right + 8, place) for each, place in zip(series, places, strict=True)]
    return _svg(parts, size)


def _named(each: Series, x: float, y: float) -> str:
    """The name of a line beside a piece of it, since the line may end far from its name."""
    mark = _marker(each.style, x + _KEY / 2, y) if each.has_markers else ""
    piece = f'<path class="line" d="M{x:g} {y:g}h{_KEY}"{_dash(each.style)}/>{mark}'
    return f'<g class="{_look(each.style)}">{piece}{_text(each.name, x + _KEY + 4, y + 4, "name")}</g>'


def _series(each: Series, xs: _Scale, ys: _Scale) -> str:
    path = "M" + "L".join(f"{xs(x):g} {ys(y):g}" for x, y in each.points)
    bars = "".join(
        f'<path class="bar" d="M{xs(x)} {ys(low)}V{ys(high)}"/>'
        for (x, _), (low, high) in zip(each.points, each.intervals, strict=bool(each.intervals))
    )
    marks = "".join(
        f"<g><title>{escape(each.name)}: {escape(ys.axis.written(y))} at {escape(xs.axis.written(x))}</title>"
        f"{_marker(each.style, xs(x), ys(y))}</g>"
        for x, y in (each.points if each.has_markers else [])
    )
    line = f'<path class="line" d="{path}"{_dash(each.style)}/>'
    return f'<g class="{_look(each.style)}">{line}{bars}{marks}</g>'


def _intervals(rows: Sequence[Interval], x: Axis, reference: float | None, size: _Size) -> str:
    """Names stand before the rows, or above them where the chart is narrow."""
    width, is_wide = size[0], size == _WIDE
    step, first = (26, 22) if is_wide else (40, 34)
    height = first + 24 + step * len(rows)
    left = 14 + _CHARACTER * max(len(each.name) for each in rows) if is_wide else 12
    ends = [end for each in rows for end in (each.low, each.high, each.middle)]
    xs = _Scale(x, [*ends, *([] if reference is None else [reference])], left, width - 48)
    down = f"8V{height - 34}"
    parts = [f'<path class="grid" d="M{xs(tick)} {down}"/>' for tick in xs.ticks]
    parts += [
        _text(text, place, height - 20, "tick", "middle")
        for place, text in _spread([(xs(tick), x.written(tick)) for tick in xs.ticks])
    ]
    if reference is not None:
        parts.append(f'<path class="limit" d="M{xs(reference)} {down}"/>')
    for place, each in enumerate(rows):
        y = first + step * place
        name = (left - 8, y + 4, "end") if is_wide else (left, y - 11, "start")
        parts.append(_interval(each, xs, y, name))
    return _svg([*parts, _text(x.title, width - 8, height - 4, "axis", "end")], (width, height))


def _interval(each: Interval, xs: _Scale, y: float, name: tuple[float, float, str]) -> str:
    """One row: its name at a place, its interval, its marker and its value."""
    low, middle, high = (xs.axis.written(value) for value in (each.low, each.middle, each.high))
    name_x, name_y, anchor = name
    behind = max(xs(each.high), xs(each.middle)) + 8
    parts = [
        f"<title>{escape(f'{each.name}: {middle} [{low}, {high}]')}</title>",
        _text(each.name, name_x, name_y, "name", anchor),
        f'<path class="interval" d="M{xs(each.low)} {y}H{xs(each.high)}"/>',
        _marker(each.style, xs(each.middle), y),
        _text(middle, behind, y + 4, "value"),
    ]
    return f'<g class="{_look(each.style)}">{"".join(parts)}</g>'


def _points(points: Sequence[Point], x: Axis, y: Axis, size: _Size) -> str:
    width, height = size
    right = width - 14.0
    xs = _Scale(x, [each.x for each in points], _LEFT, right)
    ys = _Scale(y, [each.y for each in points], height - 40, _TOP)
    parts = [_frame(xs, ys, size, right)]
    taken = [(xs(each.x) - _RADIUS, ys(each.y) + 4.0, 2.0 * _RADIUS) for each in points]
    for each in sorted(points, key=lambda each: each.y):
        place_x, place_y = xs(each.x), ys(each.y)
        length = _CHARACTER * len(each.name)
        is_left = place_x + length + 12 > right
        start = place_x - length - 10 if is_left else place_x + 10
        label = _free(taken, start, place_y + 4, length)
        taken.append((start, label, length))
        name = _text(each.name, start, label, "name") if size == _WIDE or are_named(points) else ""
        parts.append(
            f'<g class="{_look(each.style)}"><title>{escape(each.name)}: {escape(x.written(each.x))}, '
            f"{escape(y.written(each.y))}</title>{_marker(each.style, place_x, place_y)}"
            f"{name}</g>"
        )
    return _svg(parts, size)


def _free(taken: Sequence[tuple[float, float, float]], x: float, y: float, length: float) -> float:
    """The nearest height at which a label covers no other one."""
    for shift in (0, -13, 13, -26, 26, -39, 39):
        if all(abs(y + shift - b) >= _TEXT_HEIGHT or x >= a + w or a >= x + length for a, b, w in taken):
            return y + shift
    return y


def _apart(places: Sequence[float], low: float, high: float) -> list[float]:
    """Heights of labels, moved so far that none covers another."""
    order = sorted(range(len(places)), key=places.__getitem__)
    found = list(places)
    before = low - _LABEL_GAP
    for index in order:
        found[index] = before = max(found[index], before + _LABEL_GAP)
    after = high + _LABEL_GAP
    for index in reversed(order):
        found[index] = after = min(found[index], after - _LABEL_GAP)
    return found


def _frame(xs: _Scale, ys: _Scale, size: _Size, right: float) -> str:
    """The grid, the values along both axes and their titles."""
    height = size[1]
    across = "".join(
        f'<path class="grid" d="M{_LEFT} {ys(tick)}H{right:.0f}"/>'
        + _text(ys.axis.written(tick), _LEFT - 6, ys(tick) + 4, "tick", "end")
        for tick in ys.ticks
    )
    shown = _spread([(xs(tick), xs.axis.written(tick)) for tick in xs.ticks])
    below = "".join(_text(text, place, height - 24, "tick", "middle") for place, text in shown)
    upwards = _text(f"\N{UPWARDS ARROW} {ys.axis.title}", 4, 12, "axis")
    return across + below + upwards + _text(xs.axis.title, right, height - 6, "axis", "end")


def _spread(ticks: Sequence[tuple[float, str]]) -> list[tuple[float, str]]:
    """The ticks whose texts have room, from the last one down."""
    found: list[tuple[float, str]] = []
    free = inf
    for place, text in reversed(ticks):
        half = _CHARACTER * len(text) / 2
        if place + half + 4 < free:
            found.append((place, text))
            free = place - half
    return found


def _text(words: str, x: float, y: float, kind: str, anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(words)}</text>'


def _marker(style: int, x: float, y: float) -> str:
    """The marker of a style: a shape of its own for each colour, open where the colour comes again."""
    shapes = (
        f'<circle class="mark" cx="{x:g}" cy="{y:g}" r="4.5"/>',
        f'<rect class="mark" x="{x - 4:g}" y="{y - 4:g}" width="8" height="8"/>',
        f'<path class="mark" d="M{x:g} {y - 5:g}l5 9h-10z"/>',
        f'<path class="mark" d="M{x:g} {y + 5:g}l5 -9h-10z"/>',
        f'<path class="mark" d="M{x:g} {y - 5.5:g}l5.5 5.5l-5.5 5.5l-5.5 -5.5z"/>',
        f'<path class="mark" d="M{x - 5:g} {y:g}h10M{x:g} {y - 5:g}v10"/>',
        f'<path class="mark" d="M{x - 4:g} {y - 4:g}l8 8M{x + 4:g} {y - 4:g}l-8 8"/>',
        f'<circle class="mark open" cx="{x:g}" cy="{y:g}" r="4.5"/>',
        f'<rect class="mark open" x="{x - 4:g}" y="{y - 4:g}" width="8" height="8"/>',
    )
    shape = shapes[style % STYLES]
    return shape if style < STYLES else shape.replace('class="mark"', 'class="mark open"')


def _look(style: int) -> str:
    """The classes of a style: its colour, and whether another one has it too."""
    return f"s{style % STYLES}{' again' if style >= STYLES else ''}"


def _dash(style: int) -> str:
    """The dash of a style: another one for neighbours, and for those that share a colour."""
    dash = _DASHES[(style + style // STYLES) % len(_DASHES)]
    return f' stroke-dasharray="{dash}"' if dash else ""


def _svg(parts: Sequence[str], size: _Size) -> str:
    return f'<svg viewBox="0 0 {size[0]} {size[1]}" role="img">{"".join(parts)}</svg>'
