"""The Arrow batches in which Spark gives the rows of a DataFrame to Python.

From 4.0 on Spark also cuts them by bytes (64 MiB by default in 4.2 and 4.3). It sums up the buffers of all
columns at every row for that, unless the limit is 2^31 - 1, which takes much of the time of wide tables.
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Any

from spillway.spark.settings import changed_settings, is_connect

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

__all__ = ["NARROW_ROW_BYTES", "cut_by_rows", "without_limit"]

#: Bytes of a row in Arrow's layout, on average, of which ten thousand fit in memory without a limit.
NARROW_ROW_BYTES = 4096

_RECORDS = "spark.sql.execution.arrow.maxRecordsPerBatch"
_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
_WITHOUT_LIMIT = {_BYTES: str(2**31 - 1)}
# Half as many rows as Spark's default stay below its limit of bytes where rows have 13 KB on average.
_BY_ROWS = {**_WITHOUT_LIMIT, _RECORDS: "5000"}
# The most rows that Spark puts in a batch by default. Who asks for larger ones keeps the limit of bytes.
_USUAL_RECORDS = 10_000
# Documents, of which a few thousand may have gigabytes, come in tables of few columns.
_FEWEST_COLUMNS = 8
#: Types of values that may have megabytes.
_WIDE = {"binary", "variant", "geometry", "geography", "udt"}
#: Nodes of a plan that have batches of their own, of rows that nothing is known of; or that hide such nodes.
_OTHER_BATCHES = re.compile(r"Python|Pandas|InArrow|LogicalRDD")


@contextlib.contextmanager
def cut_by_rows(frame: DataFrame) -> Iterator[None]:
    """Make Spark cut batches of a DataFrame with many narrow columns only by rows, in jobs of this thread.

    The block has no effect for frames with columns of binary values or few columns, for plans with other
    Python functions, and under Spark Connect.
    """
    if _is_narrow(frame):
        with _for_jobs(frame.sparkSession, _BY_ROWS):
            yield
    else:
        yield


@contextlib.contextmanager
def without_limit(session: SparkSession) -> Iterator[None]:
    """Make Spark cut batches of rows that are known to be narrow only by rows."""
    change = changed_settings if is_connect(session) else _for_jobs
    with change(session, _WITHOUT_LIMIT):
        yield


@contextlib.contextmanager
def _for_jobs(session: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Change settings that tasks read for the jobs of this thread, where the session does not set them.

    Tasks read local properties of their job. The session's own settings, which other threads have, too, stay
    as they are, and Spark puts those that are set in the place of these.
    """
    context = session.sparkContext
    before = {name: context.getLocalProperty(name) for name in settings}
    try:
        for name, value in settings.items():
            context.setLocalProperty(name, value)
        yield
    finally:
        for name, old in before.items():
            context.setLocalProperty(name, old)  # type: ignore[arg-type]  # null unsets it


def _is_narrow(frame: DataFrame) -> bool:
    """Return True if batches of a few thousand rows take few bytes, as far as the plan tells."""
    session: Any = frame.sparkSession
    if is_connect(session):
        return False
    leaves = list(_leaves(frame.schema))
    if len(leaves) < _FEWEST_COLUMNS or not _WIDE.isdisjoint(leaves):
        return False
    if not 0 < int(session.conf.get(_RECORDS)) <= _USUAL_RECORDS:
        return False
    jdf: Any = frame._jdf  # noqa: SLF001 - there is no public way to the plan
    return _OTHER_BATCHES.search(jdf.queryExecution().optimizedPlan().toString()) is None


def _leaves(kind: DataType) -> Iterator[str]:
    """The names of the types of leaf columns."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, StructType):
        for each in kind.fields:
            yield from _leaves(each.dataType)
    elif isinstance(kind, ArrayType):
        yield from _leaves(kind.elementType)
    elif isinstance(kind, MapType):
        yield from _leaves(kind.keyType)
        yield from _leaves(kind.valueType)
    else:
        yield kind.typeName()
