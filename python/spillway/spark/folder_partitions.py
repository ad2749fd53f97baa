"""The partitions of a folder: the values that names of folders have, and conditions on them."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa

import spillway.delta
from spillway.errors import OptionError, SchemaError
from spillway.spark.folder_contents import is_summary

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from spillway.spark.write_job import Target

__all__ = ["in_folders_of", "partition_of", "where_holds"]

#: The value of a null in the name of a partition's folder.
_NULL = "__HIVE_DEFAULT_PARTITION__"
#: The column that has the folder of a partition, beside its values.
_FOLDER = "_spillway_folder"


def partition_of(name: str) -> dict[str, str | None]:
    """The values of partition columns that the name of a file has."""
    pairs = (part.partition("=") for part in name.split("/")[:-1])
    values = {unquote(column): unquote(value) for column, _, value in pairs}
    return {column: None if value == _NULL else value for column, value in values.items()}


def in_folders_of(old: Iterable[str], new: Iterable[str]) -> list[str]:
    """Return those old files that are in the folder of a new one, which is a partition's, and summaries.

    Writers escape different characters of a value in the name of its folder, so names are compared decoded.
    """
    touched = {_folder_of(name) for name in new}
    return [name for name in old if _folder_of(name) in touched or is_summary(name)]


def _folder_of(name: str) -> str:
    return unquote(name.rpartition("/")[0])


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
