"""The check of a table after a race: its log, action by action, and its rows as two engines read them.

A table that is no Delta table is read by its committer's library alone.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from spillway.race import committers
from spillway.race.appended import AppendedRows
from spillway.race.changed import ChangedRows
from spillway.race.log import replay
from spillway.race.readers import READERS
from spillway.race.wording import named

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from spillway.race.location import Location
    from spillway.race.plan import Cell
    from spillway.race.wording import Step

__all__ = ["Verdict", "check"]


@dataclass
class Verdict:
    """The result of a check.

    Attributes:
        versions: Versions after those that made the table.
        present: Operations that are in the table whole and once: appends, or others of the race's work.
        lost: Operations that were acknowledged and are not in the table whole.
        doubled: Operations of which rows are there more than once.
        unacknowledged: Operations that are in the table, of which no writer heard.
        rows: Rows that each reader found.
        problems: Faults of the table, in words.
    """

    versions: int = 0
    present: int = 0
    lost: int = 0
    doubled: int = 0
    unacknowledged: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """The fields as a plain dict, for the record."""
        return asdict(self)


def check(
    location: Location, cell: Cell, acknowledged: Sequence[Step], refused: Sequence[Step] = ()
) -> Verdict:
    """Check a table to which nothing is written any more.

    Args:
        location: The table.
        cell: The race.
        acknowledged: The operations that writers were told are committed.
        refused: Those that writers were told have a conflict.
    """
    verdict = Verdict()
    known = set(acknowledged)
    if len(known) != len(acknowledged):
        verdict.problems.append(f"{cell.kind.one_operation} was acknowledged twice")
    expected = AppendedRows(cell) if cell.only_appends else ChangedRows(cell)
    findings = []
    read = _read_own if cell.committer in committers.OWN_TABLES else _read_delta
    for name, found in read(location, cell, verdict):
        verdict.rows[name] = found.num_rows
        findings.append(expected.sort_out(found))
        verdict.problems += [f"{name} {fault}" for fault in expected.faults(found)]
    if not findings:
        verdict.problems.append("no reader has looked at the rows")
        return verdict
    if any(each != findings[0] for each in findings):
        verdict.problems.append("the readers do not find the same rows")
    whole, doubled, partial = findings[0]
    lost = known - whole - doubled
    verdict.present = len(whole)
    verdict.lost = len(lost)
    verdict.doubled = len(doubled)
    verdict.unacknowledged = len(whole - known)
    for words, steps in (
        ("in the table in part", partial - lost),
        ("acknowledged, and not in the table", lost),
        ("in the table more than once", doubled),
        ("refused with a conflict, and in the table", whole & set(refused)),
    ):
        if steps:
            verdict.problems.append(f"{words}: {named(steps, cell.kind.noun)}")
    return verdict


def _read_delta(location: Location, cell: Cell, verdict: Verdict) -> Iterator[tuple[str, pa.Table]]:
    """All rows by each reader's name. Versions and faults of the log are added to the verdict."""
    log = replay(location.files())
    verdict.versions = max(0, log.newest - cell.first_version)
    verdict.problems += log.problems
    for name, read in READERS.items():
        try:
            found = read(location, log)
        except ModuleNotFoundError:  # a reader less
            continue
        except BaseException as error:  # noqa: BLE001 - a table that cannot be read is a finding, a panic too
            verdict.problems.append(_unread(name, error))
            continue
        yield name, found


def _read_own(location: Location, cell: Cell, verdict: Verdict) -> Iterator[tuple[str, pa.Table]]:
    """The same of a table that is no Delta table: its one reader is the library that wrote it."""
    try:
        own = committers.load_own(cell.committer).found(location)
    except BaseException as error:  # noqa: BLE001 - as of a Delta table
        verdict.problems.append(_unread(cell.committer, error))
        return
    verdict.versions = own.versions
    yield own.reader, own.rows


def _unread(reader: str, error: BaseException) -> str:
    return f"{reader} cannot read the table: {type(error).__name__}: {error}"
