"""Rewrites Parquet files in place, each verified against the old file before it replaces it."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
from contextlib import contextmanager, suppress
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from spillway._native import digest, inspect
from spillway._wording import counted
from spillway.errors import OptionError, SpillwayError
from spillway.reading.files import TITLES, explained, open_rows
from spillway.reading.sources import find_all, table_log
from spillway.reading.text import TextOptions
from spillway.writer import ParquetWriter

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from spillway._native import Digest
    from spillway.reading.files import RowStream
    from spillway.shell.job import Memory, Progress

# Other files that list those of a folder: of Dask and older tools, and of Iceberg.
_LISTS = ("_metadata", "metadata/version-hint.text")
# A column in the text of a schema: its field id and name, behind its type.
_COLUMN = re.compile(r"(?:required|optional|repeated) \S+ (field_id=-?\d+ .*?)(?: \(.*\))?;")
# Properties of a logical type that say how the footer spells it.
_SPELLING = {"is_from_converted_type", "force_set_converted_type"}
# An integer of the physical type's own width, annotated or not.
_PLAIN_INTEGERS = {("INT32", 32), ("INT64", 64)}


class RowsDifferError(SpillwayError):
    """A rewritten file does not contain the same rows as the old one."""


class Rewritten(NamedTuple):
    """The result of rewriting a file.

    Attributes:
        path: The file.
        before: Its bytes before.
        after: Its bytes now.
        kept: The reason why the file is unchanged; None for a rewritten file.
        unsynced: The reason why a crash of the machine may bring the old file back; None if it does not.
    """

    path: Path
    before: int
    after: int
    kept: str | None = None
    unsynced: str | None = None


def find_parquet(typed: Sequence[str]) -> tuple[Path, ...]:
    """The Parquet files that files, folders and globs name.

    Raises:
        FileNotFoundError: No file or folder has the name of one of them.
        OptionError: There are files of another format, or files of a table, whose log or footer has their
            sizes.
        CorruptFileError: A file is empty, or begins as no Parquet file does.
    """
    files = find_all(typed, TextOptions())
    if files.format != "parquet":
        raise OptionError(
            f"--rewrite is for Parquet files, and {typed[0]} is {TITLES[files.format]}: "
            f"name an output instead"
        )
    marks: dict[Path, Path | None] = {}
    for path in files.paths:
        for folder in _folders(path):
            if folder not in marks:
                marks[folder] = _list_in(folder)
            if (mark := marks[folder]) is not None:
                raise OptionError(
                    f"{path} belongs to the table of {mark}, which records file sizes, so its files cannot "
                    "be replaced. Write the rows to another place"
                )
    return tuple(dict.fromkeys(files.paths))


def _list_in(folder: Path) -> Path | None:
    """What lists the files of a folder; None if nothing does."""
    if (table := table_log(folder)) is not None:
        return table[0]
    return next((folder / each for each in _LISTS if (folder / each).exists()), None)


def _folders(path: Path) -> Iterator[Path]:
    """Every folder that contains the file: by its name, by each symbolic link, and after all are resolved."""
    place = path
    while place.is_symlink():
        yield from place.absolute().parents
        place = place.parent / place.readlink()
    yield from place.absolute().parents
    yield from place.resolve().parents


def rewrite(
    paths: Sequence[Path], memory: Memory, options: Mapping[str, Any], progress: Progress
) -> Iterator[Rewritten]:
    """Rewrite Parquet files, one after another; each replaces the old file once it is verified.

    A file that cannot be read, or that does not hold the same rows and types afterwards, stays as it was. An
    interrupt leaves the file that is being written as it was.

    Args:
        paths: The files.
        memory: Shares of the memory.
        options: Fields of `WriterOptions`.
        progress: Shows how far each file is.
    """
    for path in paths:
        before = 0
        try:
            before = path.stat().st_size
            after = _rewritten(path.resolve(), memory, options, progress)
        except (SpillwayError, pa.ArrowException, OSError, ValueError, TypeError) as error:
            yield Rewritten(path, before, before, str(error))
        else:
            yield Rewritten(path, before, after, unsynced=_sync(path.resolve().parent))


def _rewritten(path: Path, memory: Memory, options: Mapping[str, Any], progress: Progress) -> int:
    """Rewrite one file; return its new size."""
    before = path.stat()
    new = path.with_name(f".{path.name}-{secrets.token_hex(4)}.part")
    try:
        with _unshared():
            _copy(path, new, memory, options, progress)
        _check_types(path, new)
        _check_rows(path, new, memory, progress)
        _give(new, before)
        shutil.copymode(path, new)
        now = path.stat()
        if (now.st_ino, now.st_size, now.st_mtime_ns) != (before.st_ino, before.st_size, before.st_mtime_ns):
            raise RowsDifferError("it changed while it was being rewritten")
        size = new.stat().st_size
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
    return size


@contextmanager
def _unshared() -> Iterator[None]:
    """Have files that are made be for their user alone: the old one may not be for all."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def _give(new: Path, before: os.stat_result) -> None:
    """Give a file to the owner and group of the old one, as far as that is permitted."""
    for owner in (before.st_uid, -1):
        with suppress(PermissionError):  # another user's file becomes the user's own
            os.chown(new, owner, before.st_gid)
            return


def _copy(path: Path, new: Path, memory: Memory, options: Mapping[str, Any], progress: Progress) -> None:
    """Write the rows of a file to another one, with its metadata and its order."""
    with explained(path):
        footer = pq.read_metadata(path)
        order = [] if "sorting_columns" in options else _order(footer)
    chosen = {"sorting_columns": order, **options, "memory_limit": memory.writer, "durable": True}
    # Filters that readers have come to rely on are not lost.
    chosen["bloom_filter"] = sorted({*chosen.get("bloom_filter", ()), *_filtered(path)})
    progress.begin(f"writing {path.name} anew", footer.num_rows)
    done = 0
    with (
        open_rows(path, block_bytes=memory.block) as stream,
        ParquetWriter(str(new), stream.schema, **chosen) as writer,
    ):
        ends = _ends_of_groups(footer) if order else []
        for batch in stream.batches:
            for piece in _cut(batch, done, ends):
                writer.write(piece)
                done += piece.num_rows
                if ends and ends[0] == done:
                    # Rows are in order within a row group, perhaps not beyond.
                    writer.flush()
                    ends.pop(0)
            progress.show(done, done)


def _filtered(path: Path) -> list[str]:
    """The columns of a file that have a bloom filter in any row group."""
    groups = inspect(path)["row_groups"]
    return sorted({each["path"] for group in groups for each in group["columns"] if each["bloom_filter"]})


def _order(footer: pq.FileMetaData) -> list[Any]:
    """The order that all row groups of a file declare.

    Raises:
        RowsDifferError: They declare several, or one of nested columns, which the writer cannot.
    """
    orders = [footer.row_group(number).sorting_columns for number in range(footer.num_row_groups)]
    if not any(orders):
        return []
    lost = RowsDifferError(
        "it would not declare the order that it does, which is of nested columns, or not one for all row "
        "groups: give another with --sorting-columns"
    )
    if any(order != orders[0] for order in orders):
        raise lost
    keys = []
    for key in orders[0]:
        column = footer.schema.column(key.column_index)
        if column.path != column.name:
            raise lost
        keys.append(
            (
                column.name,
                "descending" if key.descending else "ascending",
                "nulls_first" if key.nulls_first else "nulls_last",
            )
        )
    return keys


def _ends_of_groups(footer: pq.FileMetaData) -> list[int]:
    """The number of rows up to the end of each row group."""
    ends, rows = [], 0
    for number in range(footer.num_row_groups):
        if footer.row_group(number).num_rows:
            rows += footer.row_group(number).num_rows
            ends.append(rows)
    return ends


def _cut(batch: pa.RecordBatch, first: int, ends: list[int]) -> Iterator[pa.RecordBatch]:
    """A batch, cut at the ends of row groups; `first` is the number of rows before it."""
    start = 0
    for end in [each - first for each in ends if first < each < first + batch.num_rows]:
        yield batch.slice(start, end - start)
        start = end
    yield batch.slice(start)


def _check_types(path: Path, new: Path) -> None:
    """Refuse a new file whose columns have other types, or other levels, as readers of Parquet see them."""
    old_types, new_types = _types(path), _types(new)
    if len(old_types) != len(new_types):
        raise RowsDifferError(f"it has {counted(len(old_types), 'column')}, and would have {len(new_types)}")
    for (name, old), (_, now) in zip(old_types, new_types, strict=True):
        if old != now:
            raise RowsDifferError(f"column {name} is {_spelled(old)}, and would be {_spelled(now)}")
    _check_nodes(path, new)
    _check_metadata(path, new)


def _check_nodes(path: Path, new: Path) -> None:
    """Refuse a new file whose groups or columns have other names or field ids."""
    old_nodes, new_nodes = _nodes(path), _nodes(new)
    for old, now in zip_longest(old_nodes, new_nodes, fillvalue="nothing"):
        if old != now:
            raise RowsDifferError(f"its schema has {old}, and would have {now}")


def _nodes(path: Path) -> list[str]:
    """The groups of a file's schema with their annotations, and its columns without their types."""
    lines = str(pq.read_metadata(path).schema).splitlines()[2:]  # behind the root, whose name is free
    return [
        found[1] if (found := _COLUMN.fullmatch(line.strip())) is not None else line.strip() for line in lines
    ]


def _check_metadata(path: Path, new: Path) -> None:
    """Refuse a new file that lacks metadata of the old one."""
    old, now = pq.read_metadata(path).metadata or {}, pq.read_metadata(new).metadata or {}
    for key, value in old.items():
        if key != b"ARROW:schema" and now.get(key) != value:
            raise RowsDifferError(f"its metadata {key.decode(errors='replace')} would be lost or changed")


_Type = tuple[str, tuple[tuple[str, Any], ...], int, int]


def _types(path: Path) -> list[tuple[str, _Type]]:
    """The leaf columns of a file: name, physical type, logical type, and both levels."""
    schema = pq.read_metadata(path).schema
    columns = [schema.column(number) for number in range(len(schema))]
    return [
        (
            column.path,
            (
                _physical(column),
                _logical(column),
                column.max_definition_level,
                column.max_repetition_level,
            ),
        )
        for column in columns
    ]


def _physical(column: Any) -> str:
    # Decimals of the same digits are integers in one file, and bytes in another: readers take all of them.
    is_decimal = json.loads(column.logical_type.to_json())["Type"] == "Decimal"
    return "decimal" if is_decimal else str(column.physical_type)


def _logical(column: Any) -> tuple[tuple[str, Any], ...]:
    found = json.loads(column.logical_type.to_json())
    if found.get("isSigned") and (column.physical_type, found.get("bitWidth")) in _PLAIN_INTEGERS:
        found = {"Type": "None"}
    return tuple(sorted((name, value) for name, value in found.items() if name not in _SPELLING))


def _spelled(kind: _Type) -> str:
    physical, logical, definition, repetition = kind
    parts = [str(value) for name, value in logical if name == "Type" and value != "None"]
    parts += [f"{name}={value}" for name, value in logical if name != "Type"]
    return " ".join([physical, *parts, f"levels {definition} and {repetition}"])


def _check_rows(path: Path, new: Path, memory: Memory, progress: Progress) -> None:
    """Read both files and compare their rows, and the order of these, by checksums of all values.

    Raises:
        RowsDifferError: The rows or their order differ.
    """
    old_rows = _digest(path, memory, progress)
    new_rows = _digest(new, memory, progress)
    if old_rows == new_rows:
        return
    raise RowsDifferError(f"it would not contain the same rows: {_difference(old_rows, new_rows)}")


def _digest(path: Path, memory: Memory, progress: Progress) -> Digest:
    with open_rows(path, block_bytes=memory.block) as stream:
        progress.begin(f"verifying {path.name}", stream.rows)
        return _digest_of(stream, progress)


def _digest_of(stream: RowStream, progress: Progress) -> Digest:
    found = digest(pa.RecordBatch.from_pylist([], stream.schema))
    for batch in stream.batches:
        found = found.merge(digest(batch, first_row=found.rows))
        progress.show(found.rows, found.rows)
    return found


def _difference(old: Digest, new: Digest) -> str:
    if old.rows != new.rows:
        return f"{counted(old.rows, 'row')} would become {new.rows:,}"
    for before, after in zip(old.columns, new.columns, strict=False):
        if before != after:
            return f"column {before['name']} differs"
    return "their order differs"


def _sync(folder: Path) -> str | None:
    """Have the folder's entries survive a crash of the machine; the reason if they do not."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        return str(error)
    return None
