"""Prepared rows: one uncompressed Arrow IPC file, which can be mapped into memory."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from spillway.datasets import generate
from spillway.datasets.generate import wide_columns
from spillway.datasets.packaged import (
    LINEITEM,
    PACKAGED,
    generator_version,
    open_lineitem,
    open_packaged,
    package_version,
)
from spillway.errors import OptionError
from spillway.reading.files import RowStream
from spillway.reading.sources import FileSource, find_files, open_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Of the way in which files are read: rows that were prepared in another one are not found again.
_READING = 2


@dataclass(frozen=True)
class PreparedInput:
    """Rows that are ready to be mapped.

    Attributes:
        path: An uncompressed Arrow IPC file.
        rows: The number of rows.
        schema: Its Arrow schema.
        arrow_bytes: Size of all its Arrow buffers, each counted once.
        source: The dataset's name, or the name of the user's file, folder or glob without its parent folders.
        fingerprint: Differs when the rows or their batches do: 16 hexadecimal digits.
    """

    path: Path
    rows: int
    schema: pa.Schema
    arrow_bytes: int
    source: str
    fingerprint: str


def default_cache() -> Path:
    """The folder for prepared files: ``$SPILLWAY_CACHE``, else ``spillway`` in the user's cache folder."""
    if chosen := os.environ.get("SPILLWAY_CACHE"):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "spillway"


def prepare(  # noqa: PLR0913  # options, by keyword only
    source: str | Path | FileSource,
    *,
    seed: int = 0,
    rows: int | None = None,
    at_most: int | None = None,
    chunk_rows: int = generate.CHUNK_ROWS,
    cache: Path | None = None,
    schema: pa.Schema | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> PreparedInput:
    """Write the rows of a dataset or of a file to the cache, or find them there.

    The file appears complete or not at all, so several processes may prepare the same rows at once. It is
    found again as long as nothing it depends on has changed: the generator's version, `seed`, `rows` and
    `chunk_rows`; for a user's files their paths, sizes and times of modification, and how their text is read.

    Args:
        source: A dataset's name, or else a file, a folder or a glob of Parquet, Arrow IPC, CSV or NDJSON
            files; a `FileSource` is never a dataset's name.
        seed: Seed of a generated dataset; the rows of a file and of ``lineitem`` do not depend on it.
        rows: The number of rows, from the first; None takes all of a file.
        at_most: With no `rows`, the first of a file that has more.
        chunk_rows: Rows of each record batch; the last one may be shorter.
        cache: Folder to keep the file in, made if it is missing; None means `default_cache`.
        schema: The columns of CSV or NDJSON files; None infers them.
        progress: Called with the rows done and the rows in all, 0 while the latter is not known.

    Raises:
        OptionError: `rows` or `chunk_rows` cannot be had, or the file is of no known format.
        CorruptFileError: A file is empty, truncated, damaged or not in its encoding.
        OSError: A file cannot be read, or the cache cannot be written.
    """
    if chunk_rows < 1:
        raise OptionError(f"chunk_rows is {chunk_rows}; a record batch needs at least 1 row")
    if rows is not None and rows < 1:
        raise OptionError(f"rows is {rows}; at least 1 is needed")
    origin = _origin(source, seed, rows, schema)
    fingerprint = blake2b(
        repr((*origin.identity, rows, at_most, chunk_rows)).encode(), digest_size=8
    ).hexdigest()
    label = re.sub(r"[^A-Za-z0-9_-]+", "-", origin.name)
    target = (cache or default_cache()) / f"{label}-{rows or 'all'}x{chunk_rows}-{fingerprint}.arrow"
    prepared = _find(target, origin.name, fingerprint)
    if prepared is None:
        if origin.is_many and progress is not None:
            progress(0, 0)  # to look at all files may take a while
        with origin.open() as stream:
            _write(stream, target, (rows, at_most), chunk_rows, progress)
        prepared = _describe(target, origin.name, fingerprint)
    return prepared


@dataclass(frozen=True)
class _Origin:
    """A source of rows: a name for people, an identity for the cache, and a way to open them."""

    name: str
    identity: tuple[object, ...]
    open: Callable[[], AbstractContextManager[RowStream]]
    is_many: bool = False


def is_dataset(name: str) -> bool:
    """Return True if rows are made, or fetched, under this name."""
    return name == LINEITEM or name in generate.names() or wide_columns(name) is not None


def _origin(
    source: str | Path | FileSource, seed: int, rows: int | None, schema: pa.Schema | None
) -> _Origin:
    if isinstance(source, str) and source in PACKAGED:
        return _Origin(source, ("packaged", source, package_version(source)), lambda: open_packaged(source))
    if isinstance(source, str) and is_dataset(source):
        if rows is None:
            raise OptionError(f"rows is needed: the dataset {source} is unlimited")
        if source == LINEITEM:
            return _Origin(source, (source, generator_version()), lambda: open_lineitem(rows))
        made = ("generated", source, generate.GENERATOR_VERSION, seed)
        return _Origin(source, made, lambda: _generated(source, seed, rows))
    chosen = source if isinstance(source, FileSource) else FileSource(str(source))
    try:
        files = find_files(chosen)
    except FileNotFoundError as error:
        if isinstance(source, str):
            known = ", ".join((*generate.names(), LINEITEM, "wide:N", *PACKAGED))
            raise FileNotFoundError(f"neither a dataset ({known}) nor a file: {error}") from error
        raise
    stamps = [(str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns) for path in files.paths]
    exact = (True, str(schema)) if chosen.text.is_exact or schema is not None else ()
    identity = ("files", _READING, chosen.text, stamps, *exact)
    return _Origin(
        files.name,
        identity,
        lambda: open_files(chosen, files, schema=schema),
        is_many=len(files.paths) > 1,
    )


@contextmanager
def _generated(name: str, seed: int, rows: int) -> Iterator[RowStream]:
    yield RowStream(name, generate.schema(name), generate.batches(name, seed, rows), rows)


def _find(target: Path, name: str, fingerprint: str) -> PreparedInput | None:
    """The prepared file, if it exists and is complete. A power cut may have left a damaged one."""
    if not target.exists():
        return None
    try:
        return _describe(target, name, fingerprint)
    except pa.ArrowInvalid:
        return None


def _describe(target: Path, name: str, fingerprint: str) -> PreparedInput:
    with pa.memory_map(str(target)) as file:
        table = pa.ipc.open_file(file).read_all()
    return PreparedInput(
        target, table.num_rows, table.schema, table.get_total_buffer_size(), name, fingerprint
    )


def _write(
    stream: RowStream,
    target: Path,
    wanted: tuple[int | None, int | None],
    chunk_rows: int,
    progress: Callable[[int, int], None] | None,
) -> None:
    rows, at_most = wanted
    _refuse_too_few(stream.name, stream.rows, rows)
    done = 0
    total = rows or min(stream.rows or 0, at_most or sys.maxsize)
    with _complete_or_absent(target) as file:
        # A dictionary that grows from batch to batch is written as deltas.
        options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
        with pa.ipc.new_file(file, stream.schema, options=options) as writer:
            for batch in _growing_dictionaries(
                _rechunked(_head(stream.batches, rows or at_most), chunk_rows)
            ):
                writer.write_batch(batch)
                done += batch.num_rows
                if progress is not None:
                    progress(done, total)
        _refuse_too_few(stream.name, done, rows)


def _refuse_too_few(name: str, available: int | None, wanted: int | None) -> None:
    if available == 0:
        raise OptionError(f"{name} holds no rows; at least 1 is needed")
    if available is not None and wanted is not None and available < wanted:
        raise OptionError(
            f"{name} holds {available:,} row{'' if available == 1 else 's'}, fewer than the {wanted:,} "
            f"asked for; ask for fewer"
        )


@contextmanager
def _complete_or_absent(target: Path) -> Iterator[pa.NativeFile]:
    """A file that gets its name when the block ends well, and is removed otherwise."""
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.stem}-", suffix=".part")
    os.close(descriptor)
    temporary = Path(name)
    try:
        with pa.OSFile(str(temporary), "wb") as file:
            yield file
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _head(batches: Iterator[pa.RecordBatch], rows: int | None) -> Iterator[pa.RecordBatch]:
    """The first `rows` rows, or all."""
    if rows is None:
        yield from batches
        return
    for batch in batches:
        yield batch.slice(0, rows)
        rows -= batch.num_rows
        if rows <= 0:
            return


def _rechunked(batches: Iterator[pa.RecordBatch], chunk_rows: int) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of `chunk_rows`; the last one may be shorter."""
    pending: list[pa.RecordBatch] = []
    held = 0
    for batch in batches:
        start = 0
        while held + batch.num_rows - start >= chunk_rows:
            taken = chunk_rows - held
            yield _one_batch([*pending, batch.slice(start, taken)])
            pending, held, start = [], 0, start + taken
        if start < batch.num_rows:
            pending.append(batch.slice(start))
            held += batch.num_rows - start
    if pending:
        yield _one_batch(pending)


def _one_batch(pieces: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(pieces) == 1:
        return pieces[0]
    batches = pa.Table.from_batches(pieces).combine_chunks().to_batches()
    if len(batches) > 1:
        raise OptionError("a record batch would hold over 2 GiB in one column; choose fewer rows a chunk")
    return batches[0]


def _growing_dictionaries(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows with dictionaries that begin as those of the batch before: an IPC file's rule."""
    before: pa.RecordBatch | None = None
    for batch in batches:
        grown = batch
        if before is not None and _has_dictionary(batch.schema):
            grown = pa.Table.from_batches([before, batch]).unify_dictionaries().to_batches()[-1]
        before = grown.slice(0, 0)
        yield grown


def _has_dictionary(schema: pa.Schema) -> bool:
    return any("dictionary<" in str(field.type) for field in schema)
