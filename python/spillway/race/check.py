"""The check of a table after a race: its log, action by action, and its rows as two engines read them.

A table in another format than Delta is read only by its committer's library.
"""

from __future__ import annotations

import json
import struct
import uuid
import zlib
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from spillway._wording import counted
from spillway.race import committers
from spillway.race.location import log_name
from spillway.race.model import (
    KEYS,
    MESSAGE,
    OPERATIONS,
    PARTITION_COLUMN,
    first_rows,
    load_own,
    message,
    partition,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from spillway.race.location import Files, Location
    from spillway.race.model import Cell, Row

_MOST_NAMED = 3

Step = tuple[int, int]
"""One operation: the number of its writer, and its own among the writer's."""


def named(steps: Iterable[Step], noun: str) -> str:
    """Operations for people."""
    return listed([f"writer {writer}, {noun} {number}" for writer, number in sorted(steps)])


def listed(names: Sequence[object]) -> str:
    """The first of many."""
    text = "; ".join(map(str, names[:_MOST_NAMED]))
    return text if len(names) <= _MOST_NAMED else f"{text}; and {len(names) - _MOST_NAMED:,} more"


def _by_delta_rs(location: Location, log: LogState) -> pa.Table:
    """All rows by delta-rs, which reads the log and the files itself."""
    import deltalake
    import pyarrow as pa

    # Requests of writers that were stopped may still arrive: what was looked at is one version.
    table = deltalake.DeltaTable(location.uri, version=log.newest, **location.keywords)
    columns = [*KEYS, MESSAGE, PARTITION_COLUMN]
    if "deletionVectors" in (table.protocol().reader_features or ()):
        return pa.table(table.scan(columns=columns))  # to_pyarrow_table() refuses them
    return pa.table(table.to_pyarrow_table(columns=columns))


def _by_polars(location: Location, log: LogState) -> pa.Table:
    """All rows by polars, from the files that the log names and without those that their vectors mark."""
    import polars as pl
    import pyarrow as pa

    def read(paths: list[str]) -> pl.DataFrame:
        uris = [f"{location.uri}/{path}" for path in paths]
        frame = pl.scan_parquet(uris, hive_partitioning=False, glob=False, **location.keywords)
        return frame.select(*KEYS, MESSAGE).collect()

    frames = []
    if whole := [file.path for file in log.files if file.vector is None]:
        frames.append(read(whole))
    for file in log.files:
        if file.vector is not None:
            frame, gone = read([file.path]), deleted_rows(location.files(), file.vector)
            if max(gone, default=0) >= frame.height:
                raise ValueError(f"{file.path}: a deletion vector marks a row after the last one")
            frames.append(frame.filter(pl.Series([place not in gone for place in range(frame.height)])))
    if frames:
        return pl.concat(frames).to_arrow()
    empty: dict[str, Any] = {name: pa.array([], pa.int64()) for name in KEYS}
    return pa.table({**empty, MESSAGE: pa.array([], pa.string())})


READERS = {"delta-rs": _by_delta_rs, "polars": _by_polars}


class AppendedRows:
    """The rows of a table to which rows were only appended.

    Args:
        cell: The race.
    """

    def __init__(self, cell: Cell) -> None:
        self._cell = cell

    def sort_out(self, found: pa.Table) -> tuple[set[Step], set[Step], set[Step]]:
        """The appends that occur completely and once, those with a duplicate row, and incomplete ones."""
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
        whole = {append for append, count in present.items() if count == self._cell.rows}
        return whole, doubled, set(present) - whole

    def faults(self, found: pa.Table) -> list[str]:
        """Rows that no writer of the race has written, or not there."""
        cell = self._cell
        names = [*KEYS, MESSAGE, *({PARTITION_COLUMN} & set(found.column_names))]
        wrong = set()
        for row in found.select(names).to_pylist():
            writer, number, index = (row[name] for name in KEYS)
            is_append = number >= 0 and (cell.expected is None or number < cell.appends)
            is_own = 0 <= writer < cell.writers and is_append and 0 <= index < cell.rows
            is_there = row.get(PARTITION_COLUMN, partition(cell, writer)) == partition(cell, writer)
            if not (is_own and is_there and row[MESSAGE] == message(writer, number, index)):
                wrong.add((writer, number))
        return [f"finds rows that nobody wrote so: {named(wrong, 'append')}"] if wrong else []


def _lines(table: pa.Table, *names: str) -> Iterable[tuple[int, int, int]]:
    return zip(*(table.column(name).to_pylist() for name in names), strict=True)


class ChangedRows:
    """The rows of a table that had some before the race.

    An operation is complete if the table contains all rows that it adds, and none that it removes. It was not
    done when that is the other way round. Everything else is an operation in part.

    Args:
        cell: The race.
    """

    def __init__(self, cell: Cell) -> None:
        self._cell = cell
        self._taken: dict[Row, Step] = {}
        self._put: dict[Row, Step] = {}
        operation = OPERATIONS[cell.work]
        self._steps = [(writer, number) for writer in range(cell.writers) for number in range(cell.appends)]
        for step in self._steps:
            one = operation(cell, *step)
            self._taken.update((row, step) for row in one.takes())
            self._put.update((row, step) for row in one.puts())
        self._others = {row for row in first_rows(cell) if row not in self._taken}

    def sort_out(self, found: pa.Table) -> tuple[set[Step], set[Step], set[Step]]:
        """The operations that occur completely and once, those with a duplicate row, and the partial ones."""
        rows = Counter(_rows(found))
        takes, puts = Counter(self._taken.values()), Counter(self._put.values())
        left = Counter(self._taken[row] for row in rows if row in self._taken)
        new = Counter(self._put[row] for row in rows if row in self._put)
        again = (row for row, count in rows.items() if count > 1)
        doubled = {step for row in again if (step := self._taken.get(row) or self._put.get(row)) is not None}
        whole = {step for step in self._steps if not left[step] and new[step] == puts[step]}
        undone = {step for step in self._steps if left[step] == takes[step] and not new[step]}
        return whole - doubled, doubled, set(self._steps) - whole - undone - doubled

    def faults(self, found: pa.Table) -> list[str]:
        """Changed rows that belong to no operation, and rows that no writer wrote or that are missing."""
        rows = Counter(_rows(found))
        known = self._taken.keys() | self._put.keys() | self._others
        strange = {row for row in rows if row not in known} | set(self._elsewhere(found))
        gone = len(self._others - rows.keys())
        twice = sum(rows[row] > 1 for row in self._others)
        faults = []
        if strange:
            names = [
                f"writer {writer}, number {number}, row {row}" for writer, number, row, _ in sorted(strange)
            ]
            faults.append(f"finds rows that nobody wrote so: {listed(names)}")
        if gone:
            faults.append(f"does not find {counted(gone, 'row')} that no operation is about")
        if twice:
            faults.append(f"finds {counted(twice, 'row')} more than once that no operation is about")
        return faults

    def _elsewhere(self, found: pa.Table) -> Iterable[Row]:
        """Rows that are in another partition than that of their writer."""
        if PARTITION_COLUMN not in found.column_names:
            return []
        values = zip(_rows(found), found.column(PARTITION_COLUMN).to_pylist(), strict=True)
        return [row for row, value in values if value != partition(self._cell, row[0])]


def _rows(found: pa.Table) -> Iterable[Row]:
    return zip(*(found.column(name).to_pylist() for name in (*KEYS, MESSAGE)), strict=True)


@dataclass
class Verdict:
    """The result of a check.

    Attributes:
        versions: Versions after those that made the table.
        present: Operations that are in the table whole and once: appends, or others of the race's work.
        lost: Operations that were acknowledged and are not in the table whole.
        doubled: Operations with duplicate rows.
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


def check(
    location: Location, cell: Cell, acknowledged: Sequence[Step], refused: Sequence[Step] = ()
) -> Verdict:
    """Check a table to which nothing is written any more.

    Args:
        location: The table.
        cell: The race.
        acknowledged: The operations that were acknowledged as committed.
        refused: The operations that ended in a conflict.
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
        own = load_own(cell.committer).found(location)
    except BaseException as error:  # noqa: BLE001 - as of a Delta table
        verdict.problems.append(_unread(cell.committer, error))
        return
    verdict.versions = own.versions
    yield own.reader, own.rows


def _unread(reader: str, error: BaseException) -> str:
    return f"{reader} cannot read the table: {type(error).__name__}: {error}"


_MAGIC = 1_681_511_377
_NO_RUNS, _RUNS = 12_346, 12_347
_OFFSETS_FROM = 4  # containers, where some are runs
_MOST_IN_ARRAY = 4_096
_BITMAP_BYTES = 8_192
_NAME_CHARACTERS = 20
_Z85 = {
    each: value
    for value, each in enumerate(
        "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    )
}


def deleted_rows(files: Files, vector: Mapping[str, Any]) -> set[int]:
    """The places of the rows that a deletion vector marks.

    Args:
        files: The files of the table.
        vector: Its descriptor in the log.

    Raises:
        ValueError: The vector is not there, or damaged.
    """
    size = vector["sizeInBytes"]
    if vector["storageType"] == "i":
        data = _from_z85(vector["pathOrInlineDv"])[:size]
    elif vector["storageType"] == "u":
        data = _from_file(files, vector["pathOrInlineDv"], vector.get("offset") or 0, size)
    else:
        raise ValueError(f"a deletion vector is stored as {vector['storageType']!r}, expected 'i' or 'u'")
    rows = set(_array_of_bitmaps(_Bytes(data)))
    if len(rows) != vector["cardinality"]:
        raise ValueError(f"a deletion vector has {len(rows)} rows, and the log says {vector['cardinality']}")
    return rows


def _from_z85(text: str) -> bytes:
    words = []
    for start in range(0, len(text), 5):
        word = 0
        for each in text[start : start + 5]:
            word = word * len(_Z85) + _Z85[each]
        words.append(word)
    return struct.pack(f">{len(words)}I", *words)


def _from_file(files: Files, text: str, offset: int, size: int) -> bytes:
    folder, name = text[:-_NAME_CHARACTERS], uuid.UUID(bytes=_from_z85(text[-_NAME_CHARACTERS:]))
    path = f"{folder}/deletion_vector_{name}.bin" if folder else f"deletion_vector_{name}.bin"
    content = files.read(path)
    if content is None:
        raise ValueError(f"there is no file {path}")
    after = offset + 4 + size
    data = content[offset + 4 : after]
    around = content[offset : offset + 4] + content[after : after + 4]
    if around != struct.pack(">II", size, zlib.crc32(data)):
        raise ValueError(f"{path}: size or checksum at byte {offset} is wrong")
    return data


class _Bytes:
    """Numbers, one after the other, the lowest byte first."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, layout: str) -> tuple[int, ...]:
        try:
            values = struct.unpack_from(f"<{layout}", self._data, self._at)
        except struct.error as error:
            raise ValueError(f"a deletion vector ends early: {error}") from error
        self._at += struct.calcsize(f"<{layout}")
        return values


def _array_of_bitmaps(data: _Bytes) -> Iterator[int]:
    """A bitmap of 64 bits: bitmaps of 32 bits, each after the upper half of its numbers."""
    (magic, count) = data.take("IQ")
    if magic != _MAGIC:
        raise ValueError(f"a deletion vector begins with {magic}, expected {_MAGIC}")
    for _ in range(count):
        (upper,) = data.take("I")
        for lower in _bitmap(data):
            yield upper << 32 | lower


def _bitmap(data: _Bytes) -> Iterator[int]:
    """A bitmap in the portable format of RoaringBitmap."""
    (cookie,) = data.take("I")
    has_runs = cookie & 0xFFFF == _RUNS
    if not has_runs and cookie != _NO_RUNS:
        raise ValueError(f"a bitmap begins with {cookie}, which is no cookie")
    count = (cookie >> 16) + 1 if has_runs else data.take("I")[0]
    flags = data.take(f"{(count + 7) // 8}B") if has_runs else ()
    heads = data.take(f"{2 * count}H")
    if not has_runs or count >= _OFFSETS_FROM:
        data.take(f"{count}I")  # where each container begins: they follow each other
    for number in range(count):
        upper, size = heads[2 * number] << 16, heads[2 * number + 1] + 1
        is_run = has_runs and flags[number // 8] >> number % 8 & 1
        yield from (upper | lower for lower in (_runs(data) if is_run else _container(data, size)))


def _runs(data: _Bytes) -> Iterator[int]:
    (count,) = data.take("H")
    pairs = data.take(f"{2 * count}H")
    for first, more in zip(pairs[::2], pairs[1::2], strict=True):
        yield from range(first, first + more + 1)


def _container(data: _Bytes, size: int) -> Iterator[int]:
    if size <= _MOST_IN_ARRAY:
        yield from data.take(f"{size}H")
        return
    for place, byte in enumerate(data.take(f"{_BITMAP_BYTES}B")):
        yield from (8 * place + bit for bit in range(8) if byte >> bit & 1)


_LOG = "_delta_log/"
_DIGITS = 20


class TableFile(NamedTuple):
    """A data file of the newest version.

    Attributes:
        path: Its path in the table.
        vector: Its deletion vector, as the log describes it.
    """

    path: str
    vector: dict[str, Any] | None


@dataclass
class LogState:
    """The log up to its newest version.

    Attributes:
        newest: The newest version.
        files: The data files, without those that are not there.
        problems: Faults of the log, in words.
    """

    newest: int = 0
    files: list[TableFile] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


class _Replay:
    """The logical files while versions go by: by the protocol, a path and a deletion vector are one."""

    def __init__(self) -> None:
        self.live: dict[tuple[str, object], TableFile] = {}
        self.paths: Counter[str] = Counter()
        self.added: dict[str, None] = {}
        self.doubled: set[str] = set()
        self.unknown: set[str] = set()

    def take(self, actions: list[dict[str, Any]]) -> None:
        """Follow one version. The order of its actions means nothing, and a new vector is both of them."""
        for action in actions:
            if "remove" in action:
                path, key, _ = _logical(action["remove"])
                if self.live.pop(key, None) is None:
                    self.unknown.add(path)
                else:
                    self.paths[path] -= 1
        for action in actions:
            if "add" in action:
                path, key, file = _logical(action["add"])
                if self.paths[path]:
                    self.doubled.add(path)
                if key not in self.live:
                    self.paths[path] += 1
                self.live[key] = file
                self.added[path] = None


def replay(files: Files) -> LogState:
    """Read every version of a table to which nothing is written any more."""
    state = LogState()
    names = files.names()
    versions = sorted(
        int(stem)
        for name in names
        if name.startswith(_LOG)
        and name.endswith(".json")
        and (stem := name[len(_LOG) : -len(".json")]).isdecimal()
        and len(stem) == _DIGITS
    )
    state.newest = max(versions, default=0)
    if missing := sorted(set(range(state.newest + 1)) - set(versions)):
        state.problems.append(f"the log has no version {listed(missing)}")
    table = _Replay()
    for version in versions:
        body = files.read(log_name(version)) or b""
        try:
            actions = [json.loads(line) for line in body.splitlines() if line.strip()]
        except ValueError:
            state.problems.append(f"version {version} is not JSON")
            continue
        table.take(actions)
    if table.doubled:
        state.problems.append(f"added more than once: {listed(sorted(table.doubled))}")
    if table.unknown:
        state.problems.append(f"removed, and was not in the table: {listed(sorted(table.unknown))}")
    if absent := sorted(path for path in table.added if path not in names):
        state.problems.append(f"added, but there is no such file: {listed(absent)}")
    state.files = [file for file in table.live.values() if file.path in names]
    return state


def _logical(action: dict[str, Any]) -> tuple[str, tuple[str, object], TableFile]:
    """The path of an action, what identifies its logical file, and the file."""
    path, vector = unquote(action["path"]), action.get("deletionVector")
    name = vector and (vector["storageType"], vector["pathOrInlineDv"], vector.get("offset"))
    return path, (path, name), TableFile(path, vector)
