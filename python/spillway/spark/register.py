"""Registration of the data source, for sessions that do not look it up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spillway.errors import MissingExtraError, SpillwayError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]

_OLDEST = (4, 1)


def register(session: SparkSession) -> None:
    """Make ``format("spillway")`` known to a session.

    Spark 4 finds it by itself where the driver's Python has this package: this is for sessions in which that
    look-up is off or came too early, as for a package that was installed while Spark ran.

    Raises:
        MissingExtraError: PySpark is not installed.
        SpillwayError: PySpark is too old for data sources that take Arrow batches.

    Example:
        >>> spillway.spark.register(session)  # doctest: +SKIP
        >>> df.write.format("spillway").mode("append").save("rows")  # doctest: +SKIP
    """
    try:
        import pyspark
    except ModuleNotFoundError as error:
        raise MissingExtraError("pyspark", "spark", "write from Spark") from error
    found = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
    if found < _OLDEST:
        raise SpillwayError(
            f"PySpark {pyspark.__version__} has no data sources that write Arrow batches: "
            f"{'.'.join(map(str, _OLDEST))} is the oldest that has them: pip install 'spillway[spark]'"
        )
    from spillway.spark.source import DefaultSource

    session.dataSource.register(DefaultSource)
