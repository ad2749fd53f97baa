"""The charts of a run, from its samples on disk: one set for the files of a run and for its HTML report.

The first says how fast each writer is, the second how much memory it takes: every writer is in both.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from spillway._wording import and_joined, counted
from spillway.backends import OWN_LIBRARY, library
from spillway.bench.conclusion import headline
from spillway.bench.side_tables import found_limits
from spillway.bench.summary import outcome_words, speed
from spillway.bench.tables import (
    bytes_of,
    contract,
    file_megabytes,
    megabytes,
    rankings,
    ratio,
    ratio_text,
    setting_title,
)
from spillway.harness.plots import Axis, Chart, Dot, Figure, Line, dots, lines, save, styles_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from spillway.bench.summary import CellSummary, RunSummary, Setting
    from spillway.bench.tables import Ranking
    from spillway.harness.plots import Style
    from spillway.harness.statistics import Estimate


def draw_figures(run: RunSummary) -> list[Figure]:
    """Draw all charts of a run into its folder.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    charts = [chart for setting in run.settings for chart in charts_of(run, setting)]
    return [save(run.folder, chart) for chart in [*charts, *charts_across(run)]]


def charts_of(run: RunSummary, setting: Setting) -> list[Chart]:
    """The charts of a setting for which the run has samples."""
    found = _Charts(run, setting)
    drawn = [
        found.speeds(),
        found.memory(),
        found.sizes(),
        found.speeds_by_rows(),
        found.memory_by_rows(),
        found.least_memory(),
        found.over_time(),
        found.allocations(),
    ]
    return [each for each in drawn if each is not None]


def charts_across(run: RunSummary) -> list[Chart]:
    """The charts of what settings alone change: time per row by the number of columns of ``wide:N``."""
    columns = {
        data["dataset"]: data["columns"]
        for data in run.environment.get("inputs", ())
        if data["dataset"].startswith("wide:")
    }
    alike: dict[Setting, list[CellSummary]] = {}
    for each in run.cells:
        if each.good and each.cell.dataset in columns:
            alike.setdefault(replace(each.setting, dataset="wide"), []).append(each)
    charts = []
    for setting, found in alike.items():
        most = max(each.cell.rows for each in found)
        cells = [each for each in found if each.cell.rows == most]
        if len({columns[each.cell.dataset] for each in cells}) > 1:
            drawn = _by_count(
                cells,
                _styles(run),
                lambda each: int(columns[each.cell.dataset]),
                lambda each: each.seconds_per_row,
                1e-6,
            )
            counts = sorted({float(columns[each.cell.dataset]) for each in cells})
            x, y = Axis("columns", _short, "log", counts), Axis("microseconds per row", _plain)
            title = f"Time per row by the number of columns, at {counted(most, 'row')}"
            below = measured_on(run, setting, cells)
            charts.append(Chart(f"columns-{_place(run, setting)}", title, below, lines(drawn, x, y)))
    return charts


class _Charts:
    """The charts of one setting, which share its styles and the line below."""

    def __init__(self, run: RunSummary, setting: Setting) -> None:
        self._run, self._setting = run, setting
        self._ranked = rankings(run, setting)
        self._top = self._ranked[0]
        self._cells = [each for each in run.of(setting) if each.good]
        self._styles = _styles(run)

    def speeds(self) -> Chart | None:
        """The speed of each writer over that of the fastest other library, at the most rows."""
        top = self._top
        base = top.reference
        if base is None:
            return None
        rows = []
        for each in top.right:
            over = ratio(each, base, speed)
            if over is not None:
                text = "1" if each is base else ratio_text(over)
                rows.append(self._dot(each, over, 1, text))
        axis = Axis(f"speed, times that of {base.cell.backend}", lambda value: f"{value:g}")
        how = f"Ratios of rows per second block by block{self._spread}. {self._beginnings}"
        return self._chart("speed", headline(top), how, dots(rows, axis, reference=1))

    def memory(self) -> Chart | None:
        """The peak memory of each writer, at the most rows."""
        found = [
            (each, grown) for each in self._top.right if (grown := each.growth) is not None and grown.low > 0
        ]
        if len(found) <= 1:
            return None
        found.sort(key=lambda pair: pair[1].median)
        rows = [self._dot(each, grown, 1e6, f"{megabytes(grown.median)} MB") for each, grown in found]
        axis = Axis("peak memory of the write, MB", _plain, "log")
        without = [each.cell.backend for each in self._top.right if each not in [cell for cell, _ in found]]
        how = "Growth of resident memory over what was there before the write. Further left is less."
        title = who_is_leanest({row.name: row.middle * 1e6 for row in rows}, self._top.rows)
        return self._chart("memory", title, f"{how}{_lacking(without, 'figure')}", dots(rows, axis))

    def sizes(self) -> Chart | None:
        """The size of each writer's file, at the most rows."""
        if len(self._top.right) <= 1:
            return None
        rows = []
        for each in sorted(self._top.right, key=bytes_of):
            size = bytes_of(each) / 1e6
            text = f"{file_megabytes(bytes_of(each))} MB"
            rows.append(Dot(each.cell.backend, self._styles[each.cell.backend], size, size, size, text))
        axis = Axis("file, MB", _plain)
        return self._chart("file-size", whose_file_is_smallest(self._top), "", dots(rows, axis))

    def speeds_by_rows(self) -> Chart | None:
        """Rows per second by rows."""
        if not self._has_several_counts:
            return None
        drawn = self._by_rows(lambda each: each.rows_per_second, 1)
        how = f"Medians{self._spread}. {self._beginnings}"
        chart = lines(drawn, self._rows, Axis("rows per second", _short))
        return self._chart("speed-by-rows", who_leads(self._ranked), how, chart)

    def memory_by_rows(self) -> Chart | None:
        """Peak memory by rows."""
        drawn = self._by_rows(lambda each: each.growth, 1e6)
        if not self._has_several_counts or not drawn:
            return None
        chart = lines(drawn, self._rows, Axis("peak memory of the write, MB", _plain, "log"))
        title = who_grows_with_rows({each.name: each.points for each in drawn})
        return self._chart("memory-by-rows", title, f"Medians{self._spread}. Lower is less.", chart)

    def least_memory(self) -> Chart | None:
        """The least memory limit that each backend survives, with the largest at which it died."""
        found = [
            (each, each.bounds.survives_from)
            for each in found_limits(self._run, self._setting)
            if each.bounds.survives_from is not None
        ]
        if not found:
            return None
        rows = []
        for each, limit in found:
            name, ends = each.cell.backend, (each.bounds.dies_at or limit, limit)
            low, high = (end / 1e6 for end in ends)
            rows.append(Dot(name, self._styles[name], high, low, high, f"{megabytes(limit)} MB"))
        axis = Axis("least limit on the whole process that every write survived, MB", _plain)
        how = f"At {counted(found[0][0].cell.rows, 'row')}; each line ends where every write died."
        title = who_survives_least({row.name: row.high * 1e6 for row in rows})
        return self._chart("least-memory", title, how, dots(rows, axis))

    def over_time(self) -> Chart | None:
        """Resident memory over time, of the sample of median speed, at the most rows."""
        drawn, without = [], []
        for each in self._top.right:
            sample = _median_sample(each)
            if not sample["curve"]["seconds"] or sample.get("jvm"):  # of a JVM it is that of Python alone
                without.append(each.cell.backend)
                continue
            base = sample["memory"]["before"]["rss"]
            grown = [max(0.0, (value - base) / 1e6) for value in sample["curve"]["rss_bytes"]]
            points = [(0.0, 0.0), *zip(sample["curve"]["seconds"], grown, strict=True)]
            drawn.append(Line(each.cell.backend, self._styles[each.cell.backend], points, is_curve=True))
        if not drawn:
            return None
        x = Axis("seconds since the writer was opened", _plain)
        y = Axis("resident memory over the baseline, MB", _plain, "symlog")
        how = f"The sample of median speed at {counted(self._top.rows, 'row')}, seen from outside."
        title = who_grows_most(_highest(drawn))
        return self._chart("rss-over-time", title, f"{how}{_lacking(without)}", lines(drawn, x, y))

    def allocations(self) -> Chart | None:
        """Allocated bytes over the traced write; of settings that share one, the first has it."""
        traced = [each for each in self._run.allocations if _first_of(self._run, each) == self._setting]
        curves = [each for each in traced if each["curve"] is not None and each["curve"]["seconds"]]
        if not curves:
            return None
        drawn = []
        for each in curves:
            name, held = each["backend"], [value / 1e6 for value in each["curve"]["allocated_bytes"]]
            points = list(zip(each["curve"]["seconds"], held, strict=True))
            drawn.append(Line(name, self._styles[name], points, is_curve=True))
        title = who_allocates_least(_highest(drawn), max(each["rows"] for each in curves))
        without = [each["backend"] for each in traced if each not in curves]
        how = f"By memray, one write each, which tracing slows.{_lacking(without)}"
        x, y = Axis("seconds of the traced write", _plain), Axis("allocated, MB", _plain, "symlog")
        return self._chart("allocations", title, how, lines(drawn, x, y))

    @property
    def _spread(self) -> str:
        """What lines beside points are: one sample a cell has none."""
        return ", with their interval" if any(len(each.good) > 1 for each in self._cells) else ""

    @property
    def _beginnings(self) -> str:
        """The conditions under which writers do not begin with the same rows, or have to copy them."""
        programs = {
            each.cell.backend: None for each in self._cells if any(one.get("program") for one in each.good)
        }
        apart = (
            f" {and_joined(list(programs))} begin with rows of their own, not with Arrow." if programs else ""
        )
        return f"{contract(self._setting)}{apart}"

    @property
    def _has_several_counts(self) -> bool:
        return len({each.cell.rows for each in self._cells}) > 1

    @property
    def _rows(self) -> Axis:
        counts = sorted({float(each.cell.rows) for each in self._cells})
        return Axis("rows", _short, "log", counts)

    def _by_rows(self, metric: Callable[[CellSummary], Estimate | None], unit: float) -> list[Line]:
        right = [each for each in self._cells if each.is_right]
        return _by_count(right, self._styles, lambda each: each.cell.rows, metric, unit)

    def _dot(self, cell: CellSummary, found: Estimate, unit: float, text: str) -> Dot:
        name = cell.cell.backend
        middle, low, high = (each / unit for each in (found.median, found.low, found.high))
        return Dot(name, self._styles[name], middle, low, high, text)

    def _chart(self, kind: str, title: str, how: str, draw: Any) -> Chart:
        left_out = [
            f"{each.cell.backend} ({outcome_words(each.outcome)})"
            for each in self._top.cells
            if not each.is_right
        ]
        said = f" Left out: {and_joined(left_out)}." if left_out else ""
        words = measured_on(self._run, self._setting, self._cells)
        below = " ".join(part for part in (how.strip(), words) if part) + said
        return Chart(f"{kind}-{_place(self._run, self._setting)}", title, below, draw)


def _by_count(
    cells: Sequence[CellSummary],
    styles: dict[str, Style],
    count: Callable[[CellSummary], int],
    metric: Callable[[CellSummary], Estimate | None],
    unit: float,
) -> list[Line]:
    """A line for each backend: a metric over a count, in units."""
    drawn = []
    for name, style in styles.items():
        own = sorted((each for each in cells if each.cell.backend == name), key=count)
        found = [(float(count(each)), value) for each in own if (value := metric(each)) is not None]
        found = [(place, value) for place, value in found if value.low > 0]
        if found:
            points = [(place, value.median / unit) for place, value in found]
            intervals = [(value.low / unit, value.high / unit) for _, value in found]
            drawn.append(Line(name, style, points, intervals))
    return drawn


def _first_of(run: RunSummary, traced: dict[str, Any]) -> Setting | None:
    """The first setting of the run that a traced write is of, which says no more of it than these fields."""
    known = ("mode", "dataset", "codec", "python", "chunk_rows", "row_group_rows")
    names = [name for name in known if name in traced]
    return next(
        (each for each in run.settings if all(getattr(each, name) == traced[name] for name in names)), None
    )


def _highest(drawn: Sequence[Line]) -> dict[str, float]:
    """The highest of each curve, in bytes."""
    return {each.name: max(value for _, value in each.points) * 1e6 for each in drawn}


def _lacking(names: Sequence[str], what: str = "curve") -> str:
    return f" No {what} of {and_joined(names)}." if names else ""


def _median_sample(cell: CellSummary) -> dict[str, Any]:
    ordered = sorted(cell.good, key=lambda sample: float(sample["use"]["wall_seconds"]))
    return ordered[len(ordered) // 2]


def _styles(run: RunSummary) -> dict[str, Style]:
    """The style of each backend, our own first, the same in every chart."""
    names = run.environment["options"]["backends"]
    own = [name for name in names if library(name) == OWN_LIBRARY]
    return styles_of([*own, *(name for name in names if name not in own)], library, OWN_LIBRARY)


def _place(run: RunSummary, setting: Setting) -> str:
    """The setting in the name of a file: its mode, its limit, and what else varies within the run."""
    memory = setting.memory_bytes
    limit = [] if memory is None else [f"{memory // 10**6}MB"]
    parts = [setting.mode, *_varying(run, setting), *limit]
    return "-".join(part.replace(":", "").replace(" ", "") for part in parts)


def _varying(run: RunSummary, setting: Setting) -> list[str]:
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


def _short(value: float) -> str:
    """A count on an axis: 800, 25K, 1.5M."""
    for scale, unit in ((1e6, "M"), (1e3, "K")):
        if value >= scale:
            return f"{value / scale:.3g}{unit}"
    return f"{value:.3g}"


def _plain(value: float) -> str:
    return f"{value:,.0f}" if value >= _WHOLE_FROM else f"{value:.3g}"


_WHOLE_FROM = 100


def measured_on(run: RunSummary, setting: Setting, cells: Sequence[CellSummary]) -> str:
    """The setting, the machine and the samples of cells in a chart."""
    fewest = min((len(each.good) for each in cells if each.good), default=0)
    words = setting_title(setting)
    return (
        f"{words[:1].upper()}{words[1:]}. {run.environment['cpu_model']}, {counted(fewest, 'sample')} a cell."
    )


def who_leads(ranked: Sequence[Ranking]) -> str:
    """The fastest library at each number of rows: significantly, or only by the median."""
    known = sorted((each for each in ranked if each.best is not None), key=lambda each: each.rows)
    led = [(each.rows, each.best.cell.backend) for each in known if each.best is not None]
    leads = [
        (leader, [rows for rows, _ in found]) for leader, found in groupby(led, lambda each: library(each[1]))
    ]
    if not leads:
        return "Nobody wrote the rows right"
    if len(leads) > 1:
        return and_joined([f"{leader} leads {_counts(counts)}" for leader, counts in leads])
    backends = {backend for _, backend in led}
    name = backends.pop() if len(backends) == 1 else leads[0][0]
    if all(each.has_winner for each in ranked):
        return f"{name} is fastest at every number of rows"
    return f"{name} has the highest median at every number of rows"


def _counts(counts: Sequence[int]) -> str:
    """Numbers of rows that follow each other: "at 10,000 rows", "from 10,000 to 50,000 rows"."""
    first, last = counts[0], counts[-1]
    return f"at {counted(first, 'row')}" if first == last else f"from {first:,} to {counted(last, 'row')}"


def who_is_leanest(grown: Mapping[str, float], rows: int) -> str:
    """The smallest and the largest memory growth among writers of the same rows, in bytes."""
    least, most = (choose(grown, key=grown.__getitem__) for choose in (min, max))
    return (
        f"{least} takes the least memory for {counted(rows, 'row')}, {megabytes(grown[least])} MB; "
        f"{most} the most, {megabytes(grown[most])} MB"
    )


def who_grows_most(grown: Mapping[str, float]) -> str:
    """The largest and the smallest growth of resident memory over time, in bytes."""
    most, least = (choose(grown, key=grown.__getitem__) for choose in (max, min))
    if most == least:
        return f"{most} grows to {megabytes(grown[most])} MB"
    return f"{most} grows to {megabytes(grown[most])} MB, {least} to {megabytes(grown[least])} MB"


def who_grows_with_rows(grown: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """The growth of memory from the fewest to the most rows, for the least and the most affected writer."""
    # The numbers of rows at which all of them were measured, or any, where there are not two.
    rows = [{rows for rows, _ in points} for points in grown.values()]
    common = set.intersection(*rows)
    few, many = (choose(common if len(common) > 1 else set.union(*rows)) for choose in (min, max))
    ends = {name: [used for rows, used in points if few <= rows <= many] for name, points in grown.items()}
    times = {name: used[-1] / used[0] for name, used in ends.items()}
    least, most = (choose(times, key=times.__getitem__) for choose in (min, max))
    said = (
        f"From {few:,.0f} to {counted(int(many), 'row')} the memory of {least} grows {times[least]:.2g}-fold"
    )
    return said if least == most else f"{said}, that of {most} {times[most]:.2g}-fold"


def who_allocates_least(held: Mapping[str, float], rows: int) -> str:
    """The smallest peak of allocated bytes."""
    least = min(held, key=held.__getitem__)
    return f"{least} allocates least at once: {megabytes(held[least])} MB at {counted(rows, 'row')}"


def who_survives_least(limits: Mapping[str, float]) -> str:
    """The smallest limit that is survived, and the next one, in bytes."""
    first, *others = limits
    said = f"{first} survives in {megabytes(limits[first])} MB"
    return f"{said}, {others[0]}, the next, in {megabytes(limits[others[0]])} MB" if others else said


def whose_file_is_smallest(ranking: Ranking) -> str:
    """The smallest file at the largest number of rows, and whether its writer is also the fastest."""
    smallest = min(ranking.right, key=bytes_of)
    words = f"{smallest.cell.backend} writes the smallest file: {file_megabytes(bytes_of(smallest))} MB"
    return f"{words}, and is the fastest" if smallest is ranking.best else words
