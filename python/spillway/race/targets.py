"""The acceptance races, and the comparison of a run with their targets."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from spillway.harness.report.table import Entry, Table
from spillway.race import committers
from spillway.race.plan import FILE_ROWS, Cell

if TYPE_CHECKING:
    from collections.abc import Callable

    from spillway.race.summary import CellSummary, RunSummary

__all__ = ["TARGETS", "Target", "target_cells", "targets_table"]

_MOST_LOST = 2


@dataclass(frozen=True)
class Target:
    """A target for the committer of `spillway.delta`.

    Attributes:
        what: The race, for people.
        asked: The target, for people.
        cell: The race.
        bound: The number that is asked for.
        measure: The number that was measured, and for people what it is; the number is to be `bound` at most.
        at_least: True if the number is to be `bound` at least.
        peer: The committer that it is held against: then the number is how many times faster, and is to reach
            `bound`.
        beside: A committer that is raced beside it, and is shown and not judged.
        only_on: "local disk" or "S3", where it is asked on one of them alone.
    """

    what: str
    asked: str
    cell: Cell
    bound: float
    measure: Callable[[CellSummary], float | None] | None = None
    at_least: bool = False
    peer: str | None = None
    beside: str | None = None
    only_on: str | None = None

    @property
    def cells(self) -> list[Cell]:
        """The races that it needs."""
        others = (replace(self.cell, committer=name) for name in (self.peer, self.beside) if name is not None)
        return [self.cell, *others]


def _seconds(cell: CellSummary) -> float | None:
    return cell.median(lambda race: race["seconds"])


def _longest(cell: CellSummary) -> float | None:
    return cell.wait(100)


def _most_races_lost(cell: CellSummary) -> float | None:
    return cell.most(lambda race: race["most_lost"])


def _versions(cell: CellSummary) -> float | None:
    return cell.most(lambda race: race["table"]["versions"])


def _committed(cell: CellSummary) -> float | None:
    return min((race["acknowledged"] for race in cell.races), default=None)


def _finished_compactions(cell: CellSummary) -> float | None:
    return min((race["compactions"]["finished"] for race in cell.races), default=None)


def _failed_compactions(cell: CellSummary) -> float | None:
    return cell.most(lambda race: race["compactions"]["failed"])


def _cell(
    writers: int, *, workload: str = "append-only", rows: int = 10, appends: int = 1, processes: int = 1
) -> Cell:
    return Cell(
        committer="spillway",
        workload=workload,
        writers=writers,
        rows=rows,
        appends=appends,
        processes=processes,
    )


def _change(work: str, writers: int, *, rows: int) -> Cell:
    committer = "row-level"
    return Cell(
        committer=committer,
        work=work,
        writers=writers,
        rows=rows,
        partitions=committers.partitions(committer),
        file_rows=FILE_ROWS,
    )


_THOUSAND = _cell(1_000)
_BUNDLES = _cell(64 * 16, processes=64)
_DELETES = _change("delete", 100, rows=500)
_UPDATES = replace(_change("update", 1_000, rows=1), file_rows=1_000_000)
# Fewer operations are over before a few compactions could be.
_OPTIMIZED = replace(_change("optimize", 32, rows=10), appends=300)
TARGETS = (
    Target("1,000 threads, own partitions", "all in 3 s", _THOUSAND, 3, _seconds, only_on="local disk"),
    Target("1,000 threads: longest wait", "2 s", _THOUSAND, 2, _longest, only_on="local disk"),
    Target("10,000 threads", "all in 60 s", _cell(10_000), 60, _seconds, only_on="local disk"),
    Target("64 processes x 16 writers", "all in 10 s", _BUNDLES, 10, _seconds, only_on="local disk"),
    Target(
        "64 processes x 16 writers: most races lost by a bundle",
        "2",
        _BUNDLES,
        _MOST_LOST,
        _most_races_lost,
        only_on="local disk",
    ),
    Target("300 writers", "100 x", _cell(300), 100, peer="delta-rs-retry", only_on="local disk"),
    Target(
        "1 writer, 200 appends in sequence",
        "5 x",
        _cell(1, appends=200),
        5,
        peer="delta-rs-retry",
        only_on="local disk",
    ),
    Target(
        "50 writers, 1,000 rows an append",
        "10 x",
        _cell(50, workload="batched:1000", rows=1_000),
        10,
        peer="delta-rs-retry",
        only_on="local disk",
    ),
    Target(
        "1,000 writers in 8 processes",
        "100 versions",
        _cell(1_000, processes=8),
        100,
        _versions,
        only_on="S3",
    ),
    Target("100 writers", "20 x", _cell(100), 20, peer="delta-rs-retry", only_on="S3"),
    Target(
        "100 threads delete rows of one file",
        "100 commit",
        _DELETES,
        100,
        _committed,
        at_least=True,
        beside="file-level",
        only_on="local disk",
    ),
    Target(
        "100 processes delete rows of one file",
        "100 commit",
        replace(_DELETES, processes=100),
        100,
        _committed,
        at_least=True,
        beside="file-level",
        only_on="local disk",
    ),
    Target(
        "1,000 threads update a row each of 1,000,000",
        "all in 10 s",
        _UPDATES,
        10,
        _seconds,
        only_on="local disk",
    ),
    Target(
        "32 writers beside an optimiser: compactions",
        "3 at least",
        _OPTIMIZED,
        3,
        _finished_compactions,
        at_least=True,
        beside="delta-rs",
        only_on="local disk",
    ),
    Target(
        "32 writers beside an optimiser: failed compactions",
        "0",
        _OPTIMIZED,
        0,
        _failed_compactions,
        only_on="local disk",
    ),
)


def target_cells(store: str) -> list[Cell]:
    """The races of all targets on a store, each once."""
    return list(dict.fromkeys(cell for target in _on(store) for cell in target.cells))


def targets_table(run: RunSummary) -> Table:
    """The measured figure beside each target."""
    rows = [_line(run, target) for target in _on(run.environment["store"])]
    notes = [
        "Times are of one machine: on a slower or a busy one a target may be missed that is met elsewhere."
    ]
    return Table("Targets", ("race", "asked", "measured", "met"), rows, notes)


def _on(store: str) -> list[Target]:
    return [target for target in TARGETS if target.only_on in {None, store}]


def _line(run: RunSummary, target: Target) -> list[Entry]:
    measured, met = _judge(run, target)
    word = "-" if met is None else "yes" if met else "no"
    return [Entry(target.what), Entry(target.asked), Entry(measured), Entry(word)]


def _judge(run: RunSummary, target: Target) -> tuple[str, bool | None]:
    """The measured figure in words, and True if the target is met; None if that cannot be told."""
    own = run.find(target.cell)
    if own is None:
        return "not run", None
    if own.outcome != "ok":
        committed = min(race["acknowledged"] for race in own.races)
        of = "" if own.cell.expected is None else f" of {own.cell.expected:,}"
        return f"{own.outcome}, {committed:,}{of} acknowledged", False
    if target.peer is not None:
        peer = run.find(target.cells[1])
        if peer is None or not peer.speed or not own.speed:
            return f"{own.speed or 0:,.1f} appends/s; {target.peer} not run, or without a result", None
        word = "" if peer.outcome == "ok" else f", {peer.outcome}"
        text = f"{own.speed / peer.speed:,.1f} x ({own.speed:,.0f} against {peer.speed:,.1f} appends/s{word})"
        return text, own.speed / peer.speed >= target.bound
    value = target.measure(own) if target.measure is not None else None
    if value is None:
        return "not known", None
    met = value >= target.bound if target.at_least else value <= target.bound
    return f"{value:,.2f}".rstrip("0").rstrip(".") + _beside(run, target), met


def _beside(run: RunSummary, target: Target) -> str:
    """The figure of the committer that is raced beside, in words."""
    if target.beside is None or target.measure is None:
        return ""
    other = run.find(target.cells[-1])
    value = None if other is None else target.measure(other)
    return f" ({target.beside}: {'not run' if value is None else f'{value:,.0f}'})"
