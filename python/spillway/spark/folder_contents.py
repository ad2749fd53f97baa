"""The contents of a folder before a write: lists that hide new files, and files that an overwrite removes.

An overwrite of partitions goes by the values that the names of folders have.
"""

from __future__ import annotations

import tempfile
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa

import spillway.delta
from spillway.errors import OptionError, SchemaError
from spillway.spark.folder_storage import FolderStorage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from spillway.spark.write_job import Target

__all__ = [
    "check_listed_elsewhere",
    "has_data",
    "in_folders_of",
    "partition_of",
    "replaced_files",
    "where_holds",
]

_DELTA_LOG = "_delta_log"
#: What lists the data files of a folder, so that readers pass over others and miss those that are removed.
_LISTS = {
    _DELTA_LOG: "a Delta table",
    "_spark_metadata": "the output of a stream of Spark's own file sink",
    ".hoodie": "a Hudi table",
}
_REMEDY = {"_spark_metadata": "; or remove that folder when no such stream writes there any more"}
#: Footers of all files of a folder, as parquet-java, Dask and pyarrow write them.
_METADATA, _COMMON_METADATA = "_metadata", "_common_metadata"
_ICEBERG = ("metadata", ".metadata.json")
_SUFFIX = ".parquet"
#: The suffix of empty objects by which some Hadoop file systems mark a folder in an object store.
_FOLDER_MARK = "_$folder$"
_SHOWN = 3


def check_listed_elsewhere(path: str, storage_options: Mapping[str, str] | None, *, overwrite: bool) -> None:
    """Refuse a folder whose files a log or a summary lists, as readers that go by it would miss the new ones.

    The folders above are looked at, too, as long as the folder is one of a partition, such as ``day=1``.

    Args:
        path: The folder.
        storage_options: Settings and credentials of the object store.
        overwrite: True if the write removes the existing files, including summaries.

    Raises:
        OptionError: There is one.
    """
    _check_lists(FolderStorage(path, storage_options), overwrite=overwrite)
    above, _, name = path.rpartition("/")
    while "=" in name and above:
        # A write below them replaces no summary.
        _check_lists(FolderStorage(above, storage_options), overwrite=False)
        above, _, name = above.rpartition("/")


def _check_lists(storage: FolderStorage, *, overwrite: bool) -> None:
    folder, suffix = _ICEBERG
    found = storage.any_of([*_LISTS, _METADATA, folder])
    for name in (each for each in _LISTS if each in found):
        raise OptionError(_listed(storage, name), "path")
    if _METADATA in found and not overwrite:
        raise OptionError(
            f"{storage}/{_METADATA} lists the existing files, and readers that use it would miss "
            f"new ones: delete it first, or overwrite its folder",
            "path",
        )
    if folder in found and any(each.name.endswith(suffix) for each in storage.listed(folder)):
        raise OptionError(
            f"{storage} is an Iceberg table: readers see only the files that its metadata lists; choose "
            "another folder",
            "path",
        )


def _listed(place: object, name: str) -> str:
    return (
        f"{place} has {name}: it is {_LISTS[name]}, and readers see only the files that it lists; "
        f"choose another folder{_REMEDY.get(name, '')}"
    )


def replaced_files(storage: FolderStorage) -> list[str]:
    """Return the files that an overwrite removes.

    These are the data files that readers see, the checksums that Spark writes next to its own files, and
    summaries in the root. Links are kept, as `spillway.DatasetWriter` does, because their targets are not
    part of the folder.

    Raises:
        OptionError: There are files that readers see and that are not named as Parquet files are: with them,
            old rows would be read with the new ones. Or there is a table in it, whose log knows its files by
            name.
    """
    found: list[str] = []
    unknown: list[str] = []
    entries = storage.listed(recursive=True, enters=lambda name: not _is_hidden(PurePosixPath(name).name))
    for each in entries:
        *folders, name = PurePosixPath(each.name).parts
        if each.kind != "file":
            folders, name = [*folders, name], ""
        if _is_out_of_sight(storage, folders) or each.kind != "file":
            continue
        checksum = name.startswith(".") and name.endswith(f"{_SUFFIX}.crc")
        if checksum or is_summary(each.name) or (name.endswith(_SUFFIX) and name[0] not in "._"):
            found.append(each.name)
        elif not (_is_hidden(name) or name.endswith(_FOLDER_MARK)):
            unknown.append(each.name)
    if unknown:
        raise OptionError(_unrecognised(storage, sorted(unknown)), "path")
    return found


def has_data(storage: FolderStorage, *, but: str | None = None) -> bool:
    """Return True if readers see a Parquet file in the folder, whatever else it contains.

    Args:
        storage: The folder.
        but: How the names of folders begin whose files do not count.
    """

    def is_passed_over(name: str) -> bool:
        return _is_hidden(name) or (but is not None and name.startswith(but))

    entries = storage.listed(recursive=True, enters=lambda name: not is_passed_over(PurePosixPath(name).name))
    for each in entries:
        *folders, name = PurePosixPath(each.name).parts
        if each.kind != "file" or not name.endswith(_SUFFIX) or _is_hidden(name):
            continue
        if not any(map(is_passed_over, folders)):
            return True
    return False


def _is_out_of_sight(storage: FolderStorage, folders: list[str]) -> bool:
    """Return True if one of the folders hides its files.

    Raises:
        OptionError: One is the log of a table.
    """
    for number, folder in enumerate(folders):
        if folder in _LISTS:
            table = "/".join([str(storage), *folders[:number]])
            raise OptionError(
                f"{table} is {_LISTS[folder]}, and an overwrite of {storage} would remove its files: choose "
                "another folder",
                "path",
            )
        if _is_hidden(folder):
            return True
    return False


def is_summary(name: str) -> bool:
    """Return True for a file in the root that has the footers of others, and misses those of a write."""
    return name in {_METADATA, _COMMON_METADATA}


def _is_hidden(name: str) -> bool:
    """Return True for the name of a file or folder that Spark passes over (``HadoopFSUtils``)."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def _unrecognised(storage: FolderStorage, names: list[str]) -> str:
    shown = ", ".join(names[:_SHOWN])
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return (
        f"{storage} has files that do not end in {_SUFFIX}, such as {shown}{more}: an overwrite would leave "
        "them, and readers would see their rows with the new ones; move or delete them, or choose another "
        "folder"
    )


#: The value of a null in the name of a partition's folder.
_NULL = "__HIVE_DEFAULT_PARTITION__"
#: The column that has the folder of a partition, beside its values.
_FOLDER = "_spillway_folder"


def partition_of(name: str) -> dict[str, str | None]:
    """The values of partition columns that the name of a file has."""
    pairs = (part.partition("=") for part in name.split("/")[:-1])
    values = {unquote(column): unquote(value) for column, _, value in pairs}
    return {column: None if value == _NULL else value for column, value in values.items()}


def in_folders_of(target: Target, old: Iterable[str], new: Iterable[str]) -> list[str]:
    """Return those old files that are in the partition of a new one, and summaries.

    Writers name the folder of a partition differently: they escape other characters of its value, or write
    ``1`` as ``01``. Partitions are therefore compared by values.

    Args:
        target: The destination.
        old: Files, relative to the destination.
        new: The same.

    Raises:
        OptionError: A file is in the folder of a timestamp that lacks a time zone, as Spark names them by the
            zone of its session, and the rows have zoned timestamps.
    """
    names, wanted = list(old), list(new)
    partitions = _partitions(target, {_folder_of(name) for name in (*names, *wanted)})
    touched = {partitions[_folder_of(name)] for name in wanted}
    return [name for name in names if is_summary(name) or partitions[_folder_of(name)] in touched]


def _folder_of(name: str) -> str:
    return name.rpartition("/")[0]


def _partitions(target: Target, folders: Iterable[str]) -> dict[str, tuple[str | None, ...]]:
    """The partitions that folders are of: values as text, in one form; or else the name of the folder."""
    found = {folder: partition_of(f"{folder}/") for folder in folders}
    named = {folder: values for folder, values in found.items() if tuple(values) == target.partition_by}
    columns = [
        _in_one_form(target, _plain(target.schema.field(name)), [each[name] for each in named.values()])
        for name in target.partition_by
    ]
    partitions: dict[str, tuple[str | None, ...]] = {folder: (unquote(folder),) for folder in found}
    # A slash at the end, so that no values equal a name.
    return partitions | {
        folder: (*values, "/") for folder, values in zip(named, zip(*columns, strict=True), strict=True)
    }


def _in_one_form(target: Target, field: pa.Field[Any], texts: list[str | None]) -> list[str | None]:
    """The texts of values of a column in one form each; those that are of another type stay as they are."""
    is_zoned = pa.types.is_timestamp(field.type) and field.type.tz is not None
    if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
        return texts

    def one_form(text: str | None) -> str | None:
        try:
            return pa.array([text], pa.string()).cast(field.type).cast(pa.string())[0].as_py()
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            if not is_zoned:
                return text
            message = (
                f"{target.path} has a folder {field.name}={text} without a time zone, as Spark names them by "
                f"that of its session ({error}): a dynamic overwrite cannot tell if its rows are replaced. "
                'Overwrite all rows with partition_overwrite="static", or choose another folder'
            )
            raise OptionError(message, "partition_overwrite") from error

    known = {text: one_form(text) for text in set(texts)}
    return [known[text] for text in texts]


def where_holds(target: Target, names: Sequence[str]) -> list[str]:
    """Return those files in whose partitions the conditions of an overwrite hold, and summaries.

    The conditions are the same as for replacing rows of a Delta table: they are evaluated on a table of the
    partitions.

    Args:
        target: The destination, with conditions.
        names: Files, relative to the destination.

    Raises:
        OptionError: `where` cannot be parsed, or names a column that is not a partition column; or a file is
            not in the folder of a partition, or its folder's name has a value of another type than the
            column; or a Delta table cannot have partition columns of these names or types.
    """
    schema = pa.schema([_plain(target.schema.field(name)) for name in target.partition_by])
    by_folder = {name.rpartition("/")[0]: partition_of(name) for name in names if not is_summary(name)}
    strange = next((each for each in by_folder.items() if list(each[1]) != schema.names), None)
    if strange is not None:
        message = (
            f"{target.path}/{strange[0]} has files, but its name does not have the values of "
            f"partition_by={schema.names}: where cannot tell if they are replaced. Move them, or "
            "overwrite all rows"
        )
        raise OptionError(message, "where")
    rows = _table(target.path, schema, by_folder)
    with tempfile.TemporaryDirectory(prefix="spillway-where-") as scratch:
        try:
            table = spillway.delta.create(scratch, rows.schema)
            with table.append() as append:
                append.write(rows)
            found: Any = table.scan([_FOLDER], where=target.where or ())
            holds = set(pa.table(found)[_FOLDER].to_pylist())
        except (OptionError, SchemaError) as error:
            message = (
                f"where={target.where!r} is not accepted for the folder {target.path}, whose partition "
                f"columns are {schema.names}: {error}"
            )
            raise OptionError(message, "where") from error
    return [name for name in names if is_summary(name) or name.rpartition("/")[0] in holds]


def _table(path: str, schema: pa.Schema, by_folder: Mapping[str, Mapping[str, str | None]]) -> pa.Table:
    """The partitions as rows."""
    columns: dict[str, Any] = {}
    for field in schema:
        texts = pa.array([each[field.name] for each in by_folder.values()], pa.string())
        try:
            columns[field.name] = texts.cast(field.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            message = (
                f"{path} has a folder whose name has a value of {field.name} that is not of its type, "
                f"{field.type} ({error}): where cannot tell if its rows are replaced. Rename the folder, or "
                "overwrite all rows"
            )
            raise OptionError(message, "where") from error
    columns[_FOLDER] = pa.array(by_folder, pa.string())
    return pa.table(columns, pa.schema([*schema, pa.field(_FOLDER, pa.string())]))


def _plain(field: pa.Field[Any]) -> pa.Field[Any]:
    """The same field, nullable and without dictionary encoding."""
    kind: Any = field.type
    return pa.field(field.name, kind.value_type if pa.types.is_dictionary(kind) else kind)
