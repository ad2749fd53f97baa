"""Two Python environments of a run beside each other: ratios of time, memory and file of each cell."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

from spillway._wording import and_joined, counted
from spillway.backends import library
from spillway.bench.compare import compare_pythons, pythons_of, usual_metrics
from spillway.bench.compare_tables import WRITTEN, label_of
from spillway.bench.failures import outcome_words
from spillway.harness.rank_tests import ALPHA
from spillway.harness.report.table import Entry, Table
from spillway.harness.statistics import FEWEST_FOR_INTERVAL

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from spillway.bench.compare import Comparison, Row
    from spillway.bench.summary import RunSummary
    from spillway.harness.rank_tests import Change

__all__ = ["BUILD_LEGEND", "build_table", "build_tables", "build_verdict"]

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
    written = WRITTEN[row.measure.name]
    values = [(side, side.estimate(row.measure.of)) for side in (row.old, row.new)]
    sides = [
        outcome_words(side.outcome) if value is None else written(value.median) for side, value in values
    ]
    yield Entry(" -> ".join(sides))
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
        return f"{label}: nothing is told, since {found.old} ended as {outcome_words(old.outcome)}."
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
