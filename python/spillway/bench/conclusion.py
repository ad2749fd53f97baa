"""The verdict of a run in words: who wins in each setting, by how much, and the code that writes so."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING

from spillway._wording import and_joined, counted
from spillway.backends import Settings, library
from spillway.backends.calls import call_of
from spillway.bench.compare import compare_pythons, label_of, pythons_of, sides_of, usual_metrics
from spillway.bench.plan import DEFAULT_PROCESS, how_to_have
from spillway.bench.ratio_tables import process_verdicts
from spillway.bench.side_tables import found_limits
from spillway.bench.summary import growth, outcome_words
from spillway.bench.tables import bytes_of, file_megabytes, megabytes, rankings, ratio, setting_title
from spillway.harness.report import Entry, Table
from spillway.harness.statistics import ALPHA, FEWEST_FOR_INTERVAL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from spillway.bench.compare import Comparison, Row
    from spillway.bench.summary import CellSummary, RunSummary, Setting
    from spillway.bench.tables import Ranking
    from spillway.harness.statistics import Change, Estimate

_DIGITS_NEAR_ONE = 3

# A file that is smaller by less than one in a thousand is no reason to choose a writer.
_AS_LARGE = 0.999


@dataclass(frozen=True)
class Conclusion:
    """The winner of one setting.

    Attributes:
        title: The setting in words.
        lines: The findings, those at the largest number of rows first.
        writer: The fastest writer at the largest number of rows, if there are several writers and samples.
        code: Python code that writes like it; None if it is not shown.
    """

    title: str
    lines: Sequence[str]
    writer: str | None
    code: str | None


def conclude(run: RunSummary) -> list[Conclusion]:
    """The verdict on each setting of the run; code that an earlier one shows is not shown again.

    If settings differ only in the process setting, writers are compared under one of them: the default, if
    that was measured. The effect of process settings on each writer is a separate verdict at the end. With
    two Python environments, writers are compared in the new one, and the first verdict compares the two.
    """
    settings = [each for each in run.settings if each.python == next(reversed(pythons_of(run)), "")]
    builds = build_verdict(run)
    if builds is not None and len({each.cell.backend for each in run.cells}) == 1:
        settings = []
    found = [_conclusion(rankings(run, setting)) for setting in _one_arm_each(settings)]
    shown: set[str] = set()
    for place, each in enumerate(found):
        if each.code in shown:
            again = f"To write like {each.writer}: the code shown above."
            found[place] = replace(each, lines=[*each.lines, again], code=None)
        elif each.code is not None:
            shown.add(each.code)
    first = [] if builds is None else [Conclusion(*builds, None, None)]
    return [*first, *found, *(Conclusion(title, lines, None, None) for title, lines in process_verdicts(run))]


def _one_arm_each(settings: Sequence[Setting]) -> list[Setting]:
    """The settings without those that differ from another one in that of the process alone."""
    chosen: dict[Setting, Setting] = {}
    for setting in settings:
        rest = replace(setting, arm=DEFAULT_PROCESS)
        if rest not in chosen or setting == rest:
            chosen[rest] = setting
    return list(chosen.values())


def verdict_caveats(run: RunSummary) -> list[str]:
    """The samples on which the verdict is based, and a note if the files were not read back."""
    counts = [len(each.good) for each in run.cells if each.good]
    if not counts:
        return []
    lines = [_of_samples(min(counts))]
    if not run.verdicts:
        engines = (run.environment.get("afterwards") or {}).get("engines")
        why = "the run ended before that" if engines else "--validate names engines that do"
        lines.append(f"The files were not read back: {why}.")
    elif all(verdict["outcome"] == "excused" for verdict in run.verdicts):
        lines.append(
            "No file was read back: the readers fail on pyarrow's files of these rows, too. Name others with "
            "--validate."
        )
    return lines


def _of_samples(fewest: int) -> str:
    if fewest == 1:
        return (
            "One sample a backend shows no spread: take --samples 5 for a rough figure, 12 for one to quote."
        )
    if fewest < FEWEST_FOR_INTERVAL:
        coverage = 1 - 2 * 0.5**fewest
        return (
            f"In brackets the whole range of {fewest} samples, which covers the true ratio with "
            f"{coverage * 100:.0f} %; --samples {FEWEST_FOR_INTERVAL} or more makes it a 95 % interval."
        )
    return (
        f"In brackets the 95 % interval of ratios within blocks, of {fewest} samples a backend, for each "
        "pair alone, not corrected for their number."
    )


def _conclusion(found: list[Ranking]) -> Conclusion:
    top = found[0]
    lines = [*_all_of(top), *(_in_short(each) for each in found[1:])]
    compared = top.best is not None and len(top.cells) > 1 and len(top.best.good) > 1
    writer = top.best.cell.backend if top.best is not None and compared else None
    code = None if writer is None else call_of(writer, top.setting.mode, _settings(top.setting))
    if writer is not None and code is None:
        lines.append(
            f"The code of {writer} does not fit a few lines: spillway.backends.load({writer!r}) has it."
        )
    if writer is not None:
        lines += how_to_have(top.setting.arm)
    return Conclusion(setting_title(top.setting), lines, writer, code)


def _settings(setting: Setting) -> Settings:
    return Settings(
        codec=setting.codec,
        level=setting.level,
        row_group_rows=setting.row_group_rows,
        threads=setting.threads,
        dataset=setting.dataset,
    )


def _all_of(ranking: Ranking) -> list[str]:
    """Speed, memory, size, and who is left out."""
    lines = [f"{headline(ranking)}."]
    if ranking.best is not None:
        lines += _settings_compared(ranking, ranking.best)
        lines += _memory(ranking, ranking.best)
        lines += _size(ranking, ranking.best)
    return lines + [f"Left out: {left_out}." for left_out in _left_out(ranking)]


def _memory(ranking: Ranking, best: CellSummary) -> list[str]:
    """The writers that take less memory than the fastest."""
    found = [
        f"{_name(each)}, {_growth_words(each)} ({_times(over)}{_row_groups(each, best)})"
        for each in _leaner(ranking)
        if (over := ratio(each, best, growth)) is not None
    ]
    own = f"the {_growth_words(best)} of {_name(best)}"
    return [f"Less memory than {own}: {'; '.join(found)}."] if found else []


def _size(ranking: Ranking, best: CellSummary) -> list[str]:
    """The writers whose file is smaller than that of the fastest."""
    found = [
        f"{_name(each)}, {file_megabytes(bytes_of(each))} MB "
        f"({_plain(bytes_of(each) / bytes_of(best))} times{_row_groups(each, best)})"
        for each in _smaller(ranking)
    ]
    own = f"the {file_megabytes(bytes_of(best))} MB of {_name(best)}"
    return [f"Smaller file than {own}: {'; '.join(found)}."] if found else []


def _in_short(ranking: Ranking) -> str:
    """The same in one line, for row counts below the largest."""
    leaner, smaller = map(_name, _leaner(ranking)), map(_name, _smaller(ranking))
    parts = [headline(ranking)]
    parts += [f"less memory: {and_joined(names)}" for names in [list(leaner)] if names]
    parts += [f"smaller file: {and_joined(names)}" for names in [list(smaller)] if names]
    parts += [f"left out: {left_out}" for left_out in _left_out(ranking)]
    return "; ".join(parts) + "."


def headline(ranking: Ranking) -> str:
    """The sentence with which every report opens, without its full stop: the fastest library and by how much.

    Libraries are compared by their fastest writers. Settings of one library do not compete, so if two of them
    tie, their library still wins.
    """
    best, at = ranking.best, f"At {counted(ranking.rows, 'row')}"
    if best is None:
        return f"{at} nobody wins: no writer ended well with the rows it was given"
    if not ranking.others:
        alone = "was measured" if len(ranking.cells) == 1 else "ended well"
        return f"{at} {_name(best)} alone {alone}: there is nothing to compare"
    if len(best.good) == 1:
        once = ranking.over(ranking.rivals[0])
        ahead = "" if once is None else f", {once.median:.2f} times the rows/s of {_name(ranking.rivals[0])}"
        return (
            f"{at} nobody wins: one sample a backend says only that {_name(best)} was once the fastest{ahead}"
        )
    return f"{at} {_winner(ranking, best) if ranking.has_winner else _nobody(ranking, best)}"


def _nobody(ranking: Ranking, best: CellSummary) -> str:
    level = [f"{_name(each)}{_against(ranking, each)}" for each in ranking.rivals if each in ranking.level]
    behind = [each for each in ranking.rivals if each not in ranking.level]
    rest = f"; the next, {_name(behind[0])}, is behind{_against(ranking, behind[0])}" if behind else ""
    return f"nobody wins: samples cannot tell {_name(best)} from {and_joined(level)}{rest}"


def _winner(ranking: Ranking, best: CellSummary) -> str:
    second = ranking.rivals[0]
    over = ranking.over(second)
    blocks = 0 if over is None else over.n
    wins = "wins" if blocks >= FEWEST_FOR_INTERVAL else f"wins each of {counted(blocks, 'block')}"
    text = f"{_name(best)} {wins}: {'' if over is None else _times(over)} the rows/s of {_name(second)}"
    return f"{text}, the fastest of another library" if ranking.siblings else text


def _settings_compared(ranking: Ranking, best: CellSummary) -> list[str]:
    """The settings of the fastest library among themselves; nothing where it competes with one alone."""
    if not ranking.siblings or len(best.good) == 1:
        return []
    level = [f"{_name(each)}{_against(ranking, each)}" for each in ranking.siblings if each in ranking.level]
    following = ranking.siblings[0]
    over = ranking.over(following)
    if level:
        said = f"samples cannot tell {_name(best)} from {and_joined(level)}"
    else:
        times = "" if over is None else _times(over)
        said = f"{_name(best)} writes {times} the rows/s of {_name(following)}, the next"
    return [f"Settings of {_library(best)}: {said}."]


def _against(ranking: Ranking, other: CellSummary) -> str:
    over = ranking.over(other)
    return "" if over is None else f" ({_times(over)})"


def _leaner(ranking: Ranking) -> list[CellSummary]:
    """Less memory than the fastest takes: the least, and the least of another library.

    The interval of the ratio has to exclude 1.
    """
    best = ranking.best
    if best is None:
        return []
    candidates = [
        each
        for each in ranking.others
        if (over := ratio(each, best, growth)) is not None and over.n > 1 and over.high < 1
    ]
    return _least(candidates, best, lambda each: each.growth.median if each.growth else 0.0)


def _smaller(ranking: Ranking) -> list[CellSummary]:
    """Smaller files than the fastest writes: the smallest, and the smallest of another library.

    Sizes do not vary by chance, so one sample tells.
    """
    best = ranking.best
    if best is None:
        return []
    bound = _AS_LARGE * bytes_of(best)
    return _least([each for each in ranking.others if bytes_of(each) < bound], best, bytes_of)


def _least(
    cells: Sequence[CellSummary], best: CellSummary, value: Callable[[CellSummary], float]
) -> list[CellSummary]:
    """The least of all, then the least of another library than that of `best`, if it is another."""
    ordered = sorted(cells, key=value)
    peer = next((each for each in ordered if _library(each) != _library(best)), None)
    return ordered[:1] + ([] if peer is None or peer is ordered[0] else [peer])


def _left_out(ranking: Ranking) -> list[str]:
    """The writers that do not compete, with the reason; nothing where all do."""
    names = [f"{_name(each)} ({outcome_words(each.outcome)})" for each in ranking.cells if not each.is_right]
    return [and_joined(names)] if names and ranking.right else []


def _times(found: Estimate) -> str:
    ends = (found.median, found.low, found.high)
    middle, low, high = (_plain(end, beside=ends) for end in ends)
    return f"{middle} times" if found.n == 1 else f"{middle} times [{low}, {high}]"


def _plain(number: float, beside: Sequence[float] = ()) -> str:
    # Next to 1, two digits would hide on which side of it a ratio lies, or an interval ends.
    is_near = any(f"{each:.2f}" == "1.00" for each in (number, *beside))
    return f"{number:.{_DIGITS_NEAR_ONE if is_near else 2}f}"


def _row_groups(cell: CellSummary, best: CellSummary) -> str:
    """The row groups of two writers where they differ: memory and size compare only at equal ones."""
    own, bests = cell.exact("row_groups"), best.exact("row_groups")
    if own is None or bests is None or own[0] == bests[0]:
        return ""
    return f", with {counted(own[0], 'row group')} to {bests[0]:,}"


def _growth_words(cell: CellSummary) -> str:
    return "-" if cell.growth is None else f"{megabytes(cell.growth.median)} MB"


def _name(cell: CellSummary) -> str:
    return cell.cell.backend


def _library(cell: CellSummary) -> str:
    return library(cell.cell.backend)


BUILD_LEGEND = (
    "Of two Python environments: medians of the old and the new one, and *x*, the ratio of new to old. The "
    "two write one after the other in each block; the ratio is estimated from these pairs (Hodges and "
    f"Lehmann), in brackets with its exact interval of 95 %, which takes {FEWEST_FOR_INTERVAL} pairs. `~`: "
    f"the pairs cannot tell it from 1, by Wilcoxon's signed ranks with p below {ALPHA} after Holm for all of "
    "the table. The size of a file does not vary: any difference is one."
)
"""The meaning of the columns of `build_table`."""

_LEAST_SHOWN = 0.0005
# What a sentence says of a ratio, and of one that the pairs do not tell from 1.
_WORDS = {
    "speed": (
        "{new} writes {ratio} times as many rows a second as {old}",
        "their speed cannot be told apart",
    ),
    "time": ("{new} takes {ratio} times as long as {old}", "their time cannot be told apart"),
    "memory": ("{new} has {ratio} times the peak memory", "their peak memory cannot be told apart"),
    "size": ("{new} writes a file {ratio} times as large", "their files are of one size"),
    "cpu": ("{new} takes {ratio} times the processor time", "their processor time cannot be told apart"),
    "allocated": ("{new} allocates {ratio} times as many bytes", "they allocate as many bytes"),
}


def build_tables(run: RunSummary) -> list[Table]:
    """The table of a run's two environments, by the usual measures; none for a run in one."""
    found = _compared(run)
    return [] if found is None else [build_table(run, found)]


def build_verdict(run: RunSummary) -> tuple[str, list[str]] | None:
    """The verdict on a run's two environments: its title, and its sentences; None for a run in one."""
    found = _compared(run)
    return None if found is None else (_title(found), _sentences(run, found))


def _compared(run: RunSummary) -> Comparison | None:
    """Compare the two environments of a run; None for a run in one."""
    names = pythons_of(run)
    measured = [{replace(each.cell, python="") for each in run.cells if each.cell.python == n} for n in names]
    if not names or not measured[0] & measured[1]:
        return None
    return compare_pythons(run, usual_metrics(of_pythons=True))


def build_table(run: RunSummary, found: Comparison) -> Table:
    """A line for each cell of a comparison of two environments, with the sentences below it."""
    by_cell = _by_cell(found)
    measures = [row.measure for row in next(iter(by_cell.values()))]
    header = ["cell", *(text for each in measures for text in (each.title, f"{each.name} x"))]
    lines = [
        [Entry(label), *(entry for row in rows for entry in _entries(row))] for label, rows in by_cell.items()
    ]
    return Table(_title(found), header, lines, _sentences(run, found))


def _title(found: Comparison) -> str:
    pairs = min((row.change.n[0] for row in found.rows if row.change is not None), default=0)
    return f"{found.new} beside {found.old}, by {counted(pairs, 'pair')} of each"


def _sentences(run: RunSummary, found: Comparison) -> list[str]:
    """What is in the environments, and what was found of each cell."""
    lines = [*_versions(run), *(_sentence(label, rows, found) for label, rows in _by_cell(found).items())]
    if found.is_blind:
        lines.append("So few pairs cannot tell any change, however large: take more --samples.")
    return lines


def _by_cell(found: Comparison) -> dict[str, list[Row]]:
    by_cell: dict[str, list[Row]] = {}
    for row in found.rows:
        by_cell.setdefault(label_of(row, found, ("backend", "rows")), []).append(row)
    return by_cell


def _versions(run: RunSummary) -> list[str]:
    """The versions of the library and of Python in each environment, in a sentence for each backend."""
    described = run.environment["pythons"]
    backends = list(dict.fromkeys(each.cell.backend for each in run.cells))
    lines = [
        f"{backend}: {', '.join(_of_version(run, backend, each) for each in described)}."
        for backend in backends
    ]
    measured = {library(backend) for backend in backends}
    others = [f"{name} {versions}" for name, versions in _differing(*described) if name not in measured]
    return [*lines, *([f"Other libraries differ too: {and_joined(others)}."] if others else [])]


def _of_version(run: RunSummary, backend: str, described: dict[str, Any]) -> str:
    """What the processes of an environment said of their library."""
    name = described["name"]
    said = dict.fromkeys(
        sample["backend_version"]
        for each in run.cells
        if (each.cell.backend, each.cell.python) == (backend, name)
        for sample in each.good
    )
    version = and_joined(list(said)) or "of a version that no process lived to say"
    return f"{name} is {library(backend)} {version} on Python {described['python']['version']}"


def _differing(old: dict[str, Any], new: dict[str, Any]) -> list[tuple[str, str]]:
    """The libraries of which two environments have other versions, with both."""
    before, after = ({each["name"]: each["version"] for each in side["libraries"]} for side in (old, new))
    return [
        (name, f"({before.get(name, 'none')} and {after.get(name, 'none')})")
        for name in dict.fromkeys([*before, *after])
        if before.get(name) != after.get(name)
    ]


def _entries(row: Row) -> Iterator[Entry]:
    yield Entry(" -> ".join(sides_of(row)))
    if row.change is None:
        yield Entry("-")
    else:
        is_told = row.is_told or row.measure.is_exact
        yield Entry(
            f"{'' if is_told else '~'}{_ratio(row.change, is_exact=row.measure.is_exact)}",
            best=row.is_told and row.loss < 0,
        )


def _ratio(change: Change, *, is_exact: bool) -> str:
    """A ratio with its interval, where it has one that is bounded."""
    if is_exact:
        # A few bytes of a version's name are a difference, too.
        return f"{change.ratio:.3f}" if abs(change.ratio - 1) >= _LEAST_SHOWN else f"{change.ratio:.7g}"
    is_bounded = change.low > 0 and change.high < inf
    return f"{change.ratio:.3f}{f' [{change.low:.3f}, {change.high:.3f}]' if is_bounded else ''}"


def _sentence(label: str, rows: Sequence[Row], found: Comparison) -> str:
    """What was found of a cell."""
    old, new = rows[0].old, rows[0].new
    if not old.is_right:
        return f"{label}: no comparison, because {found.old} ended as {outcome_words(old.outcome)}."
    if not new.is_right:
        return f"{label}: {found.new} fails, and {found.old} does not: {outcome_words(new.outcome)}."
    parts = []
    for row in rows:
        differs, alike = _WORDS[row.measure.name]
        if row.change is not None:
            words = differs if row.is_told else alike
            ratio = _ratio(row.change, is_exact=row.measure.is_exact)
            parts.append(words.format(ratio=ratio, old=found.old, new=found.new))
    return f"{label}: {'; '.join(parts)}."


FEWEST_TO_QUOTE = 12
_FEWEST_WRITES = 5


def why_not_quoted(run: RunSummary) -> list[str]:
    """The reasons why a run is not to be quoted."""
    few = sum(len(each.good or each.samples) < FEWEST_TO_QUOTE for each in run.cells)
    lacking = [f"{counted(few, 'cell')} with fewer than {FEWEST_TO_QUOTE} samples"] if few else []
    return lacking + run.noise()


def why_limits_not_quoted(run: RunSummary) -> list[str]:
    """The reasons why the least memory of a run should not be quoted: a side that too few writes confirm.

    Samples and noise do not matter: a write survives under a limit or not, however long it takes.
    """
    found = [each for setting in run.settings for each in found_limits(run, setting)]
    if not found:
        return ["no least memory was looked for"]
    lacking = []
    for each in found:
        sides = [each.bounds.died] if each.bounds.dies_at else []
        sides += [each.bounds.survived] if each.bounds.survives_from is not None else []
        if min(sides, default=0) < _FEWEST_WRITES:
            proved = counted(min(sides, default=0), "write")
            lacking.append(f"a side of {each.cell.backend} is proved by {proved}, not {_FEWEST_WRITES}")
    return lacking
