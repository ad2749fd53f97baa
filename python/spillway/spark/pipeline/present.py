"""The rows that a destination has, and keeps when those of a run are published."""

from __future__ import annotations

import functools
import operator
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import spillway.delta
from spillway.errors import TableNotFoundError, UnsupportedTableError
from spillway.spark.location import is_local, unquoted
from spillway.spark.schema import quoted
from spillway.spark.write_job import StagedFile

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from spillway.spark.write_job import Target
    from spillway.types import Condition

__all__ = ["of_hadoop", "staying"]


def staying(
    session: SparkSession,
    target: Target,
    touched: DataFrame | None,
    read: Callable[[Sequence[StagedFile] | None], DataFrame],
) -> DataFrame | None:
    """Return the rows of a destination that a write leaves there; None where there can be none.

    Args:
        session: The session that reads them.
        target: The destination.
        touched: The partitions that the write replaces, where it replaces those of its rows alone.
        read: Reads columns of files, or with None of the folder that the destination is.

    Raises:
        UnsupportedTableError: Rows of a Delta table are marked as deleted, and this Spark has no Delta.
    """
    from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

    if target.overwrite and target.where is None and touched is None:
        return None
    present = read(None) if target.table == "parquet" else _of_delta(session, target, read)
    if present is None or not target.overwrite:
        return present
    if touched is not None:
        same = [present[quoted(name)].eqNullSafe(touched[quoted(name)]) for name in touched.columns]
        return present.join(F.broadcast(touched), same, "left_anti")
    replaced = _condition(target.where or ())
    return present.where(~F.coalesce(replaced, F.lit(False)))  # noqa: FBT003 - Spark's signature


def _of_delta(
    session: SparkSession, target: Target, read: Callable[[Sequence[StagedFile] | None], DataFrame]
) -> DataFrame | None:
    """The rows of a Delta table; None if it is not there, or has no files."""
    root = unquoted(target.path)
    try:
        table = spillway.delta.open(target.path, storage_options=target.storage_options)
    except TableNotFoundError:
        return None
    files = table.files()
    if any(file.deleted_rows for file in files):
        try:
            return session.read.format("delta").load(of_hadoop(root))
        except Exception as error:
            raise UnsupportedTableError(
                f"{target.path} marks rows as deleted, which format('delta') alone leaves out, and "
                f"this session does not read it ({type(error).__name__}): add Delta's jars, or optimize it"
            ) from error
    paths = (unquote(file.path) for file in files)
    found = [
        StagedFile(path if "://" in path else f"{root}/{path}", file.partition_values)
        for path, file in zip(paths, files, strict=True)
    ]
    return read(found) if found else None


_OPERATORS: dict[str, Callable[[Column, Any], Column]] = {
    "=": lambda column, value: column.isNull() if value is None else column == value,
    "!=": lambda column, value: column.isNotNull() if value is None else column != value,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": lambda column, values: column.isin(list(values)),
}


def _condition(conditions: str | Sequence[Condition]) -> Column:
    """The conditions of an overwrite as Spark has them."""
    from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

    if isinstance(conditions, str):
        return F.expr(conditions)
    each = (_OPERATORS[sign](F.col(quoted(name)), value) for name, sign, value in conditions)
    return functools.reduce(operator.and_, each, F.lit(True))  # noqa: FBT003 - Spark's signature


def of_hadoop(path: str) -> str:
    """Return the location as Spark spells it."""
    # Without a scheme it would be a path on Hadoop's default file system.
    return f"file:{path}" if is_local(path) else path.replace("s3://", "s3a://", 1)
