"""The check of a table after a race: its log, action by action, and its rows as two engines read them."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from spillway.race.workload import KEYS, MESSAGE, PARTITION_COLUMN, message, partition

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

    from spillway.race.location import Files, Location
    from spillway.race.plan import Cell

__all__ = ["Verdict", "check"]

_LOG = "_delta_log/"
_DIGITS = 20
_MOST_NAMED = 3

Append = tuple[int, int]


@dataclass
class Verdict:
    """The result of a check.

    Attributes:
        versions: Versions after the one that made the table.
        present: Appends that are in the table whole and once.
        lost: Appends that were acknowledged and are not in the table whole.
        doubled: Appends of which rows are there more than once.
        unacknowledged: Appends that are in the table, of which no writer heard.
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


def check(location: Location, cell: Cell, acknowledged: Sequence[Append]) -> Verdict:
    """Check a table to which nothing is written any more."""
    verdict = Verdict()
    files = location.files()
    paths = _check_log(files, verdict)
    known = set(acknowledged)
    if len(known) != len(acknowledged):
        verdict.problems.append("an append was acknowledged twice")
    findings = []
    for name, read in (("delta-rs", _read_by_delta_rs), ("polars", _read_by_polars)):
        try:
            found = read(location, paths, verdict.versions)
        except ModuleNotFoundError:  # a reader less
            continue
        except BaseException as error:  # noqa: BLE001 - a table that cannot be read is a finding, a panic too
            verdict.problems.append(f"{name} cannot read the table: {type(error).__name__}: {error}")
            continue
        verdict.rows[name] = found.num_rows
        findings.append(_sort_out(found, cell.rows))
        _check_values(found, cell, name, verdict)
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
    if cut := partial - lost:
        verdict.problems.append(f"in the table in part: {_named(cut)}")
    if lost:
        verdict.problems.append(f"acknowledged, and not in the table: {_named(lost)}")
    if doubled:
        verdict.problems.append(f"in the table more than once: {_named(doubled)}")
    return verdict


def _check_log(files: Files, verdict: Verdict) -> list[str]:
    """The table's data files, after a check of every version. Faults go to the verdict."""
    names = files.names()
    versions = sorted(
        int(stem)
        for name in names
        if name.startswith(_LOG)
        and name.endswith(".json")
        and (stem := name[len(_LOG) : -len(".json")]).isdecimal()
        and len(stem) == _DIGITS
    )
    verdict.versions = max(versions, default=0)
    missing = sorted(set(range(verdict.versions + 1)) - set(versions))
    if missing:
        verdict.problems.append(f"the log has no version {_listed(missing)}")
    added: Counter[str] = Counter()
    for version in versions:
        body = files.read(f"{_LOG}{version:0{_DIGITS}}.json") or b""
        try:
            actions = [json.loads(line) for line in body.splitlines() if line.strip()]
        except ValueError:
            verdict.problems.append(f"version {version} is not JSON")
            continue
        added.update(unquote(action["add"]["path"]) for action in actions if "add" in action)
    doubled = sorted(path for path, count in added.items() if count > 1)
    if doubled:
        verdict.problems.append(f"added more than once: {_listed(doubled)}")
    absent = sorted(path for path in added if path not in names)
    if absent:
        verdict.problems.append(f"added, but there is no such file: {_listed(absent)}")
    return [path for path in added if path in names]


def _read_by_delta_rs(location: Location, _paths: list[str], version: int) -> pa.Table:
    """All rows by delta-rs, which reads the log and the files itself."""
    import deltalake
    import pyarrow as pa

    # Requests of writers that were stopped may still arrive: what was looked at is one version.
    table = deltalake.DeltaTable(location.uri, version=version, **location.keywords)
    return pa.table(table.to_pyarrow_table(columns=[*KEYS, MESSAGE, PARTITION_COLUMN]))


def _read_by_polars(location: Location, paths: list[str], _version: int) -> pa.Table:
    """All rows by polars, from the files that the log names."""
    import polars as pl
    import pyarrow as pa

    if not paths:
        empty = {name: pa.array([], pa.int64()) for name in KEYS}
        return pa.table({**empty, MESSAGE: pa.array([], pa.string())})
    frame = pl.scan_parquet(
        [f"{location.uri}/{path}" for path in paths], hive_partitioning=False, glob=False, **location.keywords
    )
    return frame.select(*KEYS, MESSAGE).collect().to_arrow()


def _check_values(found: pa.Table, cell: Cell, reader: str, verdict: Verdict) -> None:
    """Each row must be one that a writer of the race has written, in its partition."""
    names = [*KEYS, MESSAGE, *({PARTITION_COLUMN} & set(found.column_names))]
    wrong = set()
    for row in found.select(names).to_pylist():
        writer, number, index = (row[name] for name in KEYS)
        is_own = 0 <= writer < cell.writers and 0 <= number < cell.appends and 0 <= index < cell.rows
        is_there = row.get(PARTITION_COLUMN, partition(cell, writer)) == partition(cell, writer)
        if not (is_own and is_there and row[MESSAGE] == message(writer, number, index)):
            wrong.add((writer, number))
    if wrong:
        verdict.problems.append(f"{reader} finds rows that nobody wrote so: {_named(wrong)}")


def _sort_out(found: pa.Table, rows: int) -> tuple[set[Append], set[Append], set[Append]]:
    """Appends that are there whole and once, those with a row doubled, and those that lack rows."""
    counts = found.group_by(list(KEYS)).aggregate([([], "count_all")])
    doubled = {
        (writer, number)
        for writer, number, count in _lines(counts, "writer", "number", "count_all")
        if count > 1
    }
    present = {
        (writer, number): count
        for writer, number, count in _lines(
            counts.group_by(["writer", "number"]).aggregate([("row", "count")]),
            "writer",
            "number",
            "row_count",
        )
        if (writer, number) not in doubled
    }
    whole = {append for append, count in present.items() if count == rows}
    return whole, doubled, set(present) - whole


def _lines(table: pa.Table, *names: str) -> Iterable[tuple[int, int, int]]:
    return zip(*(table.column(name).to_pylist() for name in names), strict=True)


def _named(appends: set[Append]) -> str:
    return _listed([f"writer {writer}, append {number}" for writer, number in sorted(appends)])


def _listed(names: Sequence[object]) -> str:
    text = "; ".join(map(str, names[:_MOST_NAMED]))
    return text if len(names) <= _MOST_NAMED else f"{text}; and {len(names) - _MOST_NAMED:,} more"
