"""The user's own rows wherever they lie: a file, a folder of files, or what a glob names."""

from __future__ import annotations

import glob
import os
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.fs

from spillway.errors import CorruptFileError, OptionError
from spillway.reading.exact import common_type, without_loss
from spillway.reading.files import (
    FORMATS,
    TITLES,
    RowStream,
    UnknownFormatError,
    explained,
    open_rows,
    recognise,
    say_nothing,
)
from spillway.reading.text import TextOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from spillway.reading.files import BadRow

    _Open = Callable[..., AbstractContextManager[RowStream]]

ACCEPTED = f"a file, a folder or a quoted glob of files in one format: {FORMATS}"

_SAME = {"ipc-stream": "ipc-file"}  # what may lie in one folder
# Folders of logs that list the files of a table, and what their parent is.
_LOGS = {
    "_delta_log": "a Delta table",
    "_spark_metadata": "the output of a stream of Spark's own file sink",
    ".hoodie": "a Hudi table",
}
_OF_ICEBERG = "metadata/*.metadata.json"


@dataclass(frozen=True)
class FileSource:
    """Rows of the user's own.

    Attributes:
        path: A file, a folder or a glob, as it was typed.
        text: Properties that text files do not state themselves.
    """

    path: str
    text: TextOptions = field(default_factory=TextOptions)


@dataclass(frozen=True)
class Files:
    """The files of a source, in the order of their names.

    Attributes:
        name: For people, without its folder.
        format: Format of the first file, from `recognise`.
        paths: The files.
        base: The folder below which ``key=value`` in a path is a column, as Hive writes it.
        unknown: Files in a folder, or that a glob names, that are of no known format.
        is_matched: True if a glob itself names one of these.
    """

    name: str
    format: str
    paths: tuple[Path, ...]
    base: Path | None = None
    unknown: tuple[Path, ...] = ()
    is_matched: bool = False


def find_files(source: FileSource) -> Files:
    """The files that a source names.

    Raises:
        FileNotFoundError: No file or folder has this name.
        OptionError: Spillway does not read from there, or it holds no file that can be read, or files of
            several formats.
        CorruptFileError: A file is empty, or its first bytes do not fit its name.
    """
    typed = source.path
    if "://" in typed:
        raise OptionError(
            f"{typed} is a URL, and URLs cannot be read: copy the file to this machine first. "
            f"Accepted is {ACCEPTED}"
        )
    path = Path(typed).expanduser()
    if typed == "-" or (path.exists() and not path.is_file() and not path.is_dir()):
        raise OptionError(f"{typed} is a pipe or a device, and rows are read more than once: save them first")
    if path.is_dir():
        form, paths, unknown = _usable(source, _below(path))
        return Files(path.resolve().name, form, paths, path, unknown)
    if path.exists():
        return Files(path.name, recognise(path, source.text).kind, (path,))
    if not glob.has_magic(typed):
        raise FileNotFoundError(f"{typed}: no such file or folder. Accepted is {ACCEPTED}")
    found = [Path(each) for each in sorted(glob.glob(str(path), recursive=True))]  # noqa: PTH207 - any glob, absolute too
    fixed = next(each for each in path.parents if not glob.has_magic(str(each)))
    if not any(map(_is_hidden, path.relative_to(fixed).parts)):
        # `**` matches hidden folders, too.
        found = [each for each in found if not any(map(_is_hidden, each.relative_to(fixed).parts))]
    if not found:
        raise FileNotFoundError(f"{typed}: no file matches this pattern. Accepted is {ACCEPTED}")
    files = chain.from_iterable(_below(each) if each.is_dir() else [each] for each in found)
    form, paths, unknown = _usable(source, files)
    return Files(path.name, form, paths, fixed, unknown, not set(unknown).isdisjoint(found))


def find_all(typed: Sequence[str], text: TextOptions) -> Files:
    """The files of several sources, as a shell makes them of a glob, in their order.

    A file of two sources is there twice.

    Raises:
        FileNotFoundError: No file or folder has the name of one of them.
        OptionError: As `find_files`, or they are of several formats.
        CorruptFileError: As `find_files`.
    """
    if len(typed) == 1:
        files = find_files(FileSource(typed[0], text))
        # As a shell makes it of a glob that one file matches.
        return files if files.base is not None else replace(files, base=_above_keys(files.paths[0].parent))
    found = [find_files(FileSource(each, text)) for each in typed]
    first = found[0]
    for place, files in enumerate(found):
        if _SAME.get(files.format, files.format) != _SAME.get(first.format, first.format):
            raise OptionError(
                f"{typed[place]} is {TITLES[files.format]}, and {typed[0]} is {TITLES[first.format]}: "
                f"name files of one format"
            )
    # A file that is named twice is meant twice.
    paths = tuple(path for files in found for path in files.paths)
    base = os.path.commonpath([path.absolute().parent for path in paths])
    unknown = tuple(dict.fromkeys(path for files in found for path in files.unknown))
    is_matched = any(files.is_matched for files in found)
    return Files(first.name, first.format, paths, _above_keys(Path(base)), unknown, is_matched)


def _above_keys(folder: Path) -> Path:
    """The folder above those that are named ``key=value``."""
    folder = folder.absolute()
    while "=" in folder.name:
        folder = folder.parent
    return folder


def _below(folder: Path) -> list[Path]:
    """All files in a folder and those inside it, but hidden ones.

    Raises:
        OptionError: There is a table whose log lists its files, or the folder is of a partition of one.
    """
    root = folder.absolute()
    above = [root]
    while "=" in above[-1].name:
        above.append(above[-1].parent)
    found, folders = [], above
    for path in sorted(folder.rglob("*")):
        if path.is_dir():
            folders.append(path)
        elif path.is_file() and not any(map(_is_hidden, path.relative_to(folder).parts)):
            found.append(path)
    for each in folders:
        if (table := table_log(each)) is not None:
            raise OptionError(
                f"{each} is {table[1]}, whose folder also contains files that are no longer part of it: "
                f"write its rows to one file first, or name files with a glob"
            )
    return found


def table_log(folder: Path) -> tuple[Path, str] | None:
    """The log of a folder that lists its files, and what the folder is; None if it is no such table."""
    for log, kind in _LOGS.items():
        if (folder / log).is_dir():
            return folder / log, kind
    metadata = next(folder.glob(_OF_ICEBERG), None)
    return None if metadata is None else (metadata, "an Iceberg table")


def _is_hidden(name: str) -> bool:
    """True of what Spark, Hive and editors put beside the data. The folder of a partition is not hidden."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def _usable(source: FileSource, candidates: Iterable[Path]) -> tuple[str, tuple[Path, ...], tuple[Path, ...]]:
    """The format, the files of it that hold anything, and those of no known format.

    Spark writes empty files where a partition has no rows.
    """
    unknown = []
    kinds: dict[str, list[Path]] = {}
    for path in dict.fromkeys(candidates):
        if path.stat().st_size > 0:
            try:
                kind = recognise(path, source.text).kind
            except UnknownFormatError:
                unknown.append(path)
                continue
            kinds.setdefault(_SAME.get(kind, kind), []).append(path)
    if not kinds:
        raise OptionError(f"{source.path} contains no readable file. Accepted is {ACCEPTED}")
    if len(kinds) > 1:
        counts = " and ".join(f"{len(paths)} of {TITLES[kind]}" for kind, paths in kinds.items())
        raise OptionError(
            f"{source.path} holds files of several formats, {counts}: name the files of one format "
            f"with a quoted glob"
        )
    ((kind, paths),) = kinds.items()
    return kind, tuple(paths), tuple(unknown)


@contextmanager
def open_files(
    source: FileSource,
    files: Files,
    *,
    schema: pa.Schema | None = None,
    block_bytes: int | None = None,
    on_bad_row: BadRow | None = None,
) -> Iterator[RowStream]:
    """Open the files of a source as one stream, file after file.

    Columns are matched by name: types are widened to one that holds all, and a column that a file lacks is
    null in its rows. In CSV a column of several kinds becomes text, as it does within one file.

    Args:
        source: Names the files, and says how text is read.
        files: The files.
        schema: Types for the columns of text, as `open_rows`.
        block_bytes: As `open_rows`.
        on_bad_row: As `open_rows`.

    Raises:
        OSError: A file cannot be read.
        CorruptFileError: A file is empty, truncated, damaged or not in its encoding.
        OptionError: A column has types in two files that do not go together.
        SchemaError: An integer would be rounded; also raised by the iterator of batches.
    """
    keys, values = partitions(files, schema)
    opened = partial(open_rows, text=source.text, block_bytes=block_bytes)
    if len(files.paths) == 1 and not keys:
        with opened(files.paths[0], schema=schema, on_bad_row=on_bad_row) as stream:
            yield stream
        return
    # Bad rows are told of when they are read.
    unsaid = None if on_bad_row is None else say_nothing
    found, rows = _schema_and_rows(partial(opened, schema=schema, on_bad_row=unsaid), files)
    listed = () if schema is None else schema.names
    keys = [
        schema.field(key.name) if schema is not None and key.name in listed else key
        for key in keys
        if key.name not in found.names
    ]
    whole = pa.schema([*found, *keys]).with_metadata(found.metadata)
    reading = partial(opened, schema=found, on_bad_row=on_bad_row)
    batches = (
        batch for path in files.paths for batch in _batches(reading, path, found, whole, values.get(path, {}))
    )
    # A file that is being read is closed with it.
    with closing(batches):
        yield RowStream(source.path, whole, batches, rows)


def partitions(
    files: Files, declared: pa.Schema | None = None
) -> tuple[list[pa.Field[Any]], dict[Path, dict[str, Any]]]:
    """The columns that occur only in the names of folders, and their values for each file.

    Types are inferred from all names. A column that is declared as text keeps its names as they are, with the
    leading zeros that an integer has not.
    """
    if files.base is None or not any("=" in str(path.absolute().parent) for path in files.paths):
        return [], {}
    from pyarrow import dataset as of_arrow  # noqa: PLC0415 - it imports pandas

    dataset: Any = of_arrow  # its stubs are of an older version
    names = {path: str(path.absolute()) for path in files.paths}

    def factory_of(schema: pa.Schema | None) -> Any:
        options = dataset.FileSystemFactoryOptions(
            partition_base_dir=str(files.base and files.base.absolute()),
            partitioning=dataset.HivePartitioning.discover(schema=schema),
        )
        # Of the files only the names are looked at, whatever their format.
        return dataset.FileSystemDatasetFactory(
            pa.fs.LocalFileSystem(), list(dict.fromkeys(names.values())), dataset.ParquetFileFormat(), options
        )

    factory = factory_of(None)
    schema = factory.inspect(fragments=0)
    as_text = [each.name for each in declared or () if each.name in schema.names and _is_text(each.type)]
    if as_text:
        fields = [each.with_type(pa.string()) if each.name in as_text else each for each in schema]
        schema = pa.schema(fields)
        factory = factory_of(schema)
    fragments = factory.finish(schema).get_fragments()
    values = {each.path: dataset.get_partition_keys(each.partition_expression) for each in fragments}
    return list(schema), {path: values[name] for path, name in names.items()}


def _schema_and_rows(opened: _Open, files: Files) -> tuple[pa.Schema, int | None]:
    """A schema that holds the columns of all files, and the number of rows if all files state it."""
    columns: dict[str, pa.Field[Any]] = {}
    origins: dict[str, Path] = {}  # the file that a column's type is of
    seen: dict[str, int] = {}
    total: int | None = 0
    metadata: dict[Any, Any] = {}
    for place, path in enumerate(files.paths):
        with opened(path) as stream:
            schema, rows = stream.schema, stream.rows
        if len(set(schema.names)) < len(schema.names):
            raise OptionError(
                f"{path} has duplicate column names, and rows of several files are matched by name"
            )
        for each in schema:
            known = columns.get(each.name)
            paths = origins.get(each.name, path), path
            columns[each.name] = _widened(known, each, paths, is_csv=files.format == "csv")
            if known is None or known.type != columns[each.name].type:
                origins[each.name] = path
            seen[each.name] = seen.get(each.name, 0) + 1
        total = None if total is None or rows is None else total + rows
        metadata = dict(schema.metadata or {}) if place == 0 else metadata
    fields = [
        each if seen[name] == len(files.paths) else each.with_nullable(True)  # noqa: FBT003 - pyarrow's own
        for name, each in columns.items()
    ]
    return pa.schema(fields, metadata or None), total


def _widened(
    known: pa.Field[Any] | None, found: pa.Field[Any], paths: tuple[Path, Path], *, is_csv: bool
) -> pa.Field[Any]:
    """A column that holds the values of both; `paths` are those of the known type and of the one found."""
    if known is None:
        return found
    both = common_type(known.type, found.type)
    if both is None and is_csv:
        both = pa.string()
    if both is None:
        raise OptionError(
            f"{paths[1]}: column {found.name} is {found.type}, and {known.type} in the files before, such as "
            f"{paths[0]}: these types are not combined; give files that agree, or change the type in one of "
            f"them first"
        )
    return pa.field(found.name, both, known.nullable or found.nullable, known.metadata)


def _batches(
    opened: _Open, path: Path, schema: pa.Schema, whole: pa.Schema, values: dict[str, Any]
) -> Iterator[pa.RecordBatch]:
    """The batches of one file, with all columns of all files."""
    with opened(path) as stream:
        unknown = set(stream.schema.names) - set(schema.names)
        if unknown:  # it was replaced since it was looked at
            raise CorruptFileError(f"{path} changed while it was read: {', '.join(sorted(unknown))} is new")
        for batch in stream.batches:
            with explained(path):
                columns = [_column(batch, each, values, path) for each in whole]
                filled = pa.RecordBatch.from_arrays(columns, schema=whole)
            yield filled


def _column(batch: pa.RecordBatch, each: pa.Field[Any], values: dict[str, Any], path: Path) -> pa.Array[Any]:
    column: pa.Array[Any]
    if each.name in batch.schema.names:
        column = batch.column(each.name)
        if column.type != each.type:
            column = without_loss(column, each, path)
    else:
        column = of_folder(values.get(each.name), each, batch.num_rows)
    return column


def of_folder(value: Any, each: pa.Field[Any], rows: int) -> pa.Array[Any]:
    """The column that has the value of a folder's name in all rows.

    Args:
        value: As `partitions` has it; None for null.
        each: The column.
        rows: The number of rows.

    Raises:
        OptionError: `value` is not of the column's type.
    """
    column: pa.Array[Any] = (
        pa.nulls(rows, each.type) if value is None else pa.repeat(_as_type(value, each), rows)
    )
    return column


def _is_text(kind: pa.DataType) -> bool:
    held: Any = kind.value_type if pa.types.is_dictionary(kind) else kind
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(test(held) for test in tests)


def _as_type(value: Any, each: pa.Field[Any]) -> Any:
    scalar: Any = pa.scalar(value)
    try:
        return scalar.cast(each.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise OptionError(
            f"a folder is named {each.name}={value}, and column {each.name} is {each.type}: give it a type "
            f"that holds all such names"
        ) from error
