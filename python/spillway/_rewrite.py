"""Joining and splitting Parquet files by row group: `spillway.rewrite`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, overload

from spillway import _native
from spillway._destination import OBJECT_STORES, local_path, naming_modes, resolve, resolve_folder
from spillway._options import checks_arguments
from spillway.dataset_writer import DatasetOptions, DatasetResult, _file
from spillway.errors import OptionError
from spillway.writer import WriteResult, _write_result

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from spillway.types import ArrowFileSystem, BinaryFile, DatasetMode, FsspecFileSystem

__all__ = ["join", "rewrite", "split"]

_DEFAULTS = DatasetOptions()


@overload
def rewrite(
    files: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    out: str | os.PathLike[str] | BinaryFile,
    *,
    max_file_bytes: None = None,
    max_file_row_groups: None = None,
    durable: bool = False,
    filesystem: ArrowFileSystem | FsspecFileSystem | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> WriteResult: ...


@overload
def rewrite(
    files: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    max_file_bytes: int,
    max_file_row_groups: int | None = None,
    basename_template: str = ...,
    mode: DatasetMode = "error",
    durable: bool = False,
    storage_options: Mapping[str, str] | None = None,
) -> DatasetResult: ...


@overload
def rewrite(
    files: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    max_file_bytes: None = None,
    max_file_row_groups: int,
    basename_template: str = ...,
    mode: DatasetMode = "error",
    durable: bool = False,
    storage_options: Mapping[str, str] | None = None,
) -> DatasetResult: ...


@checks_arguments
def rewrite(  # noqa: PLR0913 - one argument per option
    files: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    out: str | os.PathLike[str] | BinaryFile,
    *,
    max_file_bytes: int | None = None,
    max_file_row_groups: int | None = None,
    basename_template: str = _DEFAULTS.basename_template,
    mode: DatasetMode = _DEFAULTS.mode,
    durable: bool = False,
    filesystem: ArrowFileSystem | FsspecFileSystem | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> WriteResult | DatasetResult:
    """Join Parquet files, or split them by row group, without decoding them.

    Row groups are copied in the order of `files`, byte for byte, with their statistics, declared orders, page
    indexes and Bloom filters, whoever wrote them. A buffer of 1 MiB and the footers are all that is in
    memory. Pages are not checked: damage in them is copied.

    Without a limit, `out` is one file, which appears when it is complete, and replaces one that is there; it
    may be one of `files`. With `max_file_bytes` or `max_file_row_groups`, `out` is a folder as that of a
    `DatasetWriter`, and its files appear together.

    All files have one schema: equal names in one order, types, nullability and field ids. Key-value metadata
    that is equal in all files is kept, and any other is left out. Stored Arrow schemas and their metadata are
    merged field by field; a field that differs between files is read as its Parquet type. Dictionaries of
    several files are not declared as ordered. ``created_by`` is kept if all files have the same one.

    Args:
        files: One or more paths of local files. A ``file://`` URL is a path.
        out: A path, a URL or an object with ``write(bytes)``, as `ParquetWriter` takes it; with a limit, a
            folder or the URL of a prefix, as `DatasetWriter` takes it.
        max_file_bytes: Bytes that a file has at most. Only a single row group may exceed it.
        max_file_row_groups: Row groups that a file has at most.
        basename_template: Of the files of a folder, as that of `DatasetOptions`.
        mode: What to do with a folder that is not empty, as that of `DatasetOptions`.
        durable: Sync each file before it appears, and its directory after.
        filesystem: Of one file, as that of `ParquetWriter`.
        storage_options: Settings and credentials of an object store, as those of `ParquetWriter`.

    Returns:
        A `WriteResult`, whose columns have the reason ``"copied"``; with a limit, a `DatasetResult`.

    Raises:
        SchemaError: The schemas differ; the message names the file, the column and the difference.
        OptionError: `files` is empty, a file is encrypted, has its row groups in other files, or is no
            regular file; or a value is not accepted.
        CorruptFileError: A file is not Parquet, or it is truncated, or its footer is damaged.
        SpillwayError: A file was changed while it was copied.
        FileExistsError: There is something in the folder, and ``mode="error"``.
        OSError: A file cannot be read, or `out` cannot be written. After this and any other error, `out` is
            as it was, unless the message says what is left in an object store.

    Example:
        >>> import pyarrow as pa, spillway
        >>> days = [
        ...     spillway.write_parquet(pa.table({"id": [day, day]}), f"{day}.parquet").path for day in (1, 2)
        ... ]
        >>> joined = spillway.rewrite(days, "days.parquet")
        >>> joined.rows, joined.row_groups
        (4, 2)
        >>> parts = spillway.rewrite("days.parquet", "days", max_file_row_groups=1)
        >>> [(file.path.name, file.result.rows) for file in parts.files]
        [('part-00000.parquet', 2), ('part-00001.parquet', 2)]
    """
    paths = _paths(files)
    if max_file_bytes is None and max_file_row_groups is None:
        if (basename_template, mode) != (_DEFAULTS.basename_template, _DEFAULTS.mode):
            option = "mode" if mode != _DEFAULTS.mode else "basename_template"
            raise OptionError(
                f"{option} is for the files of a folder, and out is one file: remove it, or limit files by "
                "max_file_bytes or max_file_row_groups",
                option,
            )
        return join(paths, out, durable=durable, filesystem=filesystem, storage_options=storage_options)
    if filesystem is not None:
        raise OptionError("filesystem is for one file, and out is a folder: remove it", "filesystem")
    options = DatasetOptions(max_file_bytes=max_file_bytes, basename_template=basename_template, mode=mode)
    return split(
        paths,
        out,
        options,
        max_file_row_groups=max_file_row_groups,
        durable=durable,
        storage_options=storage_options,
    )


def join(  # noqa: PLR0913 - those of `rewrite`
    files: Sequence[str],
    out: str | os.PathLike[str] | BinaryFile,
    *,
    durable: bool = False,
    filesystem: ArrowFileSystem | FsspecFileSystem | None = None,
    storage_options: Mapping[str, str] | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> WriteResult:
    """Copy all row groups into one file; `progress` is called with the rows and the bytes so far."""
    place, storage = resolve(out, filesystem, storage_options)
    found = _native.join_files(files, place, durable, storage, progress)
    return _write_result(found, os.fspath(out) if isinstance(out, (str, os.PathLike)) else None)


def split(  # noqa: PLR0913 - those of `rewrite`
    files: Sequence[str],
    out: object,
    options: DatasetOptions,
    *,
    max_file_row_groups: int | None = None,
    durable: bool = False,
    storage_options: Mapping[str, str] | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> DatasetResult:
    """Copy all row groups into the files of a folder; `progress` is as that of `join`."""
    _check_row_groups(max_file_row_groups)
    place, storage = resolve_folder(out, storage_options, "out")
    with naming_modes(options.mode):
        found = _native.split_files(files, place, options, max_file_row_groups, durable, storage, progress)
    return DatasetResult(tuple(_file(entry) for entry in found))


def _check_row_groups(number: Any) -> None:
    if number is None:
        return
    if not isinstance(number, int) or isinstance(number, bool):
        message = f"max_file_row_groups must be an integer, not {type(number).__name__}"
        raise TypeError(message)
    if number < 1:
        message = f"max_file_row_groups={number} is not accepted: give an integer from 1 up"
        raise OptionError(message, "max_file_row_groups")


def _paths(files: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[str]:
    if isinstance(files, (str, os.PathLike)):
        return [_path(files)]
    try:
        return [_path(each) for each in files]
    except TypeError as error:
        message = f"files must be a path or several paths: {error}"
        raise TypeError(message) from error


def _path(file: str | os.PathLike[str]) -> str:
    path = os.fsdecode(os.fspath(file))
    scheme, separator, rest = path.partition("://")
    if separator and scheme.lower() == "file":
        return local_path(rest)
    if separator and scheme.lower() in OBJECT_STORES:
        raise OptionError(
            f"files are of this machine, and {scheme}:// is an object store: download the objects first",
            "files",
        )
    return path
