"""Every engine that reads what the writer wrote, and the rule by which one is excused.

An engine is excused from a column only if it also fails on pyarrow's file of that column; excuses are
counted and printed at the end of the run.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from . import engines, normal

EXCUSES: Counter[str] = Counter()
Write = Callable[[pa.Table, Path], object]


class Refused(Exception):  # noqa: N818 - it is an answer: the engine cannot read the file
    """An engine failed to read a file."""


class EngineProcess:
    """The engines, in one child process that is started again when one of them takes it down."""

    def __init__(self, folder: Path) -> None:
        self._reply = folder / "reply.arrows"
        self._process: subprocess.Popen[str] | None = None

    def read(self, engine: str, path: Path) -> pa.Table:
        """Returns the table that the engine reads from the file.

        Raises:
            Refused: The engine raised, panicked or died.
        """
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        request = {"engine": engine, "path": str(path), "reply": str(self._reply)}
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            raise Refused(f"the engine died: exit status {process.wait()}")
        problem = json.loads(line)
        if problem is not None:
            raise Refused(problem)
        with pa.OSFile(str(self._reply)) as source, pa.ipc.open_stream(source) as stream:
            return stream.read_all()

    def close(self) -> None:
        if self._process is not None and self._process.stdin is not None and self._process.stdout is not None:
            self._process.stdin.close()
            self._process.stdout.close()
            self._process.wait(timeout=120)

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None or self._process.poll() is not None:
            self.close()
            self._process = subprocess.Popen(
                [sys.executable, engines.__file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        return self._process


@dataclass(frozen=True)
class Truth:
    """The expected content of a file: names, types and normal values, column by column."""

    names: tuple[str, ...]
    types: tuple[pa.DataType, ...]
    columns: tuple[list[Any], ...]

    @classmethod
    def of(cls, table: pa.Table, *, microseconds: bool = False) -> Truth:
        columns = [normal.values(column) for column in table.columns]
        if microseconds:
            pairs = zip(columns, table.schema.types, strict=True)
            columns = [normal.to_microseconds(column, data_type) for column, data_type in pairs]
        return cls(tuple(table.schema.names), tuple(table.schema.types), tuple(columns))

    def select(self, indices: list[int]) -> Truth:
        return Truth(
            *(tuple(part[index] for index in indices) for part in (self.names, self.types, self.columns))
        )

    def problem(self, process: EngineProcess, engine: str, path: Path) -> str | None:
        """The first difference in the engine's table, or None."""
        try:
            return self.difference(process.read(engine, path))
        except (Refused, normal.Unlike) as error:
            return str(error)

    def difference(self, table: pa.Table) -> str | None:
        if tuple(table.schema.names) != self.names:
            return f"columns {table.schema.names}, expected {list(self.names)}"
        for name, like, expected, column in zip(
            self.names, self.types, self.columns, table.columns, strict=True
        ):
            found = normal.values(column, like)
            if len(found) != len(expected):
                return f"column {name!r}: {len(found)} rows, expected {len(expected)}"
            if found != expected:
                row = next(
                    row for row, pair in enumerate(zip(found, expected, strict=True)) if pair[0] != pair[1]
                )
                return f"column {name!r} ({like}), row {row}: {found[row]!r}, expected {expected[row]!r}"
        return None


@dataclass(frozen=True)
class Checker:
    """Has every engine read what `write` writes, in `folder`."""

    process: EngineProcess
    folder: Path

    def check(
        self,
        table: pa.Table,
        write: Write,
        *,
        microseconds: bool = False,
        engines: Sequence[str] = tuple(engines.ENGINES),
    ) -> Path:
        """Writes `table`, has the engines read it, and returns the file.

        Raises:
            AssertionError: An engine that reads pyarrow's file of a column does not read this one right.
        """
        path = self.folder / "written.parquet"
        write(table, path)
        truth = Truth.of(table, microseconds=microseconds)
        for engine in engines:
            problem = truth.problem(self.process, engine, path)
            if problem is not None:
                self._excuse(engine, problem, table, truth, write)
        return path

    def _excuse(self, engine: str, problem: str, table: pa.Table, truth: Truth, write: Write) -> None:
        """Sets aside the columns that the engine cannot read from pyarrow's file either, and checks the
        others.
        """
        rows = row_group_rows(self.folder / "written.parquet")
        columns = [table.select([index]) for index in range(table.num_columns)]
        kept = [
            index
            for index, column in enumerate(columns)
            if not (hides_indices(problem, column) or self._excused(engine, column, rows))
        ]
        assert len(kept) < table.num_columns, f"{engine}: {problem}"
        if kept:
            path = self.folder / "kept.parquet"
            write(table.select(kept), path)
            again = truth.select(kept).problem(self.process, engine, path)
            assert again is None, f"{engine}: {again}"

    def _excused(self, engine: str, column: pa.Table, rows: int) -> bool:
        reference = self.folder / "reference.parquet"
        try:
            write_reference(column, reference, rows)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            EXCUSES[f"pyarrow cannot write {_kind(column.schema.types[0])} without dictionaries"] += 1
            return True
        if Truth.of(column).problem(self.process, engine, reference) is None:
            return False
        EXCUSES[f"{engine} cannot read pyarrow's {_kind(column.schema.types[0])}"] += 1
        return True


def hides_indices(problem: str, column: pa.Table) -> bool:
    """Returns True if pyarrow gave slots under nulls an index into a dictionary without entries. Its own
    files have entries there, since it also writes those that no row refers to; a file without such entries
    may have none.
    """
    data_type = column.schema.types[0]
    hides = (
        "Dictionary indices invalid" in problem
        and pa.types.is_nested(data_type)
        and "dictionary" in _leaf_kinds(data_type)
    )
    if hides:
        EXCUSES["pyarrow gives slots under nulls indices of an empty dictionary"] += 1
    return hides


def row_group_rows(path: Path) -> int:
    """Rows of the first row group: readers may fail where there are many."""
    metadata = pq.read_metadata(path)
    return max(1, metadata.row_group(0).num_rows) if metadata.num_row_groups else 1


def write_reference(table: pa.Table, path: Path, rows: int | None = None) -> None:
    """Pyarrow's own file of the same values, in row groups of so many rows; dictionaries it cannot write are
    written as their values.

    Raises:
        ArrowInvalid: Pyarrow cannot look its own dictionaries up.
        ArrowNotImplementedError: Pyarrow cannot write such values.
    """
    try:
        pq.write_table(table, path, row_group_size=rows)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        plain = without_dictionaries(table)
        # Casts of list views have left offsets out, and writing such arrays crashes.
        plain.validate(full=True)
        pq.write_table(plain, path, row_group_size=rows)


def without_dictionaries(table: pa.Table) -> pa.Table:
    """The table with every dictionary, nested ones too, looked up."""
    columns = [
        pa.chunked_array([_plain(chunk) for chunk in column.chunks], type=_plain_type(column.type))
        for column in table.columns
    ]
    return pa.table(columns, names=table.schema.names)


def _plain(array: pa.Array) -> pa.Array:
    return (
        normal.looked_up(array) if pa.types.is_dictionary(array.type) else array.cast(_plain_type(array.type))
    )


_WITHOUT_VIEWS = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}


def _plain_type(data_type: pa.DataType) -> pa.DataType:
    """The type without dictionaries, without views, which are not sliced in structs, and without list views,
    which have no casts.
    """
    types = pa.types
    if types.is_dictionary(data_type):
        return data_type.value_type
    if types.is_struct(data_type):
        return pa.struct([field.with_type(_plain_type(field.type)) for field in data_type])
    if types.is_map(data_type):
        return pa.map_(data_type.key_type, data_type.item_field.with_type(_plain_type(data_type.item_type)))
    if not types.is_nested(data_type):
        return _WITHOUT_VIEWS.get(data_type, data_type)
    element = data_type.value_field.with_type(_plain_type(data_type.value_type))
    if types.is_fixed_size_list(data_type):
        return pa.list_(element, data_type.list_size)
    large = types.is_large_list(data_type) or types.is_large_list_view(data_type)
    return pa.large_list(element) if large else pa.list_(element)


def _kind(data_type: pa.DataType) -> str:
    """A type's name without its parameters, to count excuses by."""
    return (
        re.split(r"[\[(<]", str(data_type))[0]
        if not pa.types.is_nested(data_type)
        else f"nested {_leaf_kinds(data_type)}"
    )


def _leaf_kinds(data_type: pa.DataType) -> str:
    words = set(re.findall(r"[a-z_]+\d*", str(data_type)))
    return "/".join(sorted(words & _NOTABLE)) or "types"


_NOTABLE = {
    "halffloat", "decimal32", "decimal64", "decimal128", "decimal256", "null", "duration", "time64", "time32",
    "uint64", "timestamp", "map", "fixed_size_binary", "date64", "dictionary", "fixed_size_list",
}  # fmt: skip
