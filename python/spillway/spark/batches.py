"""The Arrow batches in which Spark gives the rows of a DataFrame to the tasks of a write."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

__all__ = ["cut_by_rows"]

_RECORDS = "spark.sql.execution.arrow.maxRecordsPerBatch"
_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
# Spark looks at the size of a batch at every row, unless the limit is this one. Half as many rows as its
# default then stay below its 256 MB where rows have 50 KB on average.
_BY_ROWS = {_BYTES: str(2**31 - 1), _RECORDS: "5000"}
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
    """Let Spark cut the batches of a frame of many narrow columns by rows alone, in jobs of this thread.

    From 4.0 on Spark also cuts by bytes (256 MB by default), for which it sums up the buffers of all columns
    at every row: a third of all CPU time of a write of 52 columns. The block has no effect for frames with
    columns of binary values or few columns, for plans with other Python functions, and under Spark Connect.
    """
    # Not settings of the session, which other threads have, too: tasks read local properties of their job, in
    # whose place Spark puts what the session sets.
    if not _is_narrow(frame):
        yield
        return
    context = frame.sparkSession.sparkContext
    before = {name: context.getLocalProperty(name) for name in _BY_ROWS}
    try:
        for name, value in _BY_ROWS.items():
            context.setLocalProperty(name, value)
        yield
    finally:
        for name, old in before.items():
            context.setLocalProperty(name, old)  # type: ignore[arg-type]  # null unsets it


def _is_narrow(frame: DataFrame) -> bool:
    """Return True if batches of a few thousand rows take few bytes, as far as the plan tells."""
    session: Any = frame.sparkSession
    if not hasattr(session, "_jsparkSession"):
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
