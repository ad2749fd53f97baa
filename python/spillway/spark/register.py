"""Registers the data source with a session that does not find it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spillway.errors import MissingExtraError, SpillwayError
from spillway.spark.workers import check_workers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(session: SparkSession) -> None:
    """Register ``format("spillway")`` with a session.

    Spark 4 finds the format by itself if this package is installed in the driver's Python. Use this function
    if the look-up is switched off or happened too early, for example because the package was installed while
    Spark was running. The function also says why Spark does not find the format: with a local master, it
    checks the workers' Python.

    Raises:
        MissingExtraError: PySpark is not installed.
        SpillwayError: PySpark is older than 4.0, the first with data sources that take Arrow batches; or the
            Python that a local master starts for workers has a different minor version than the driver's, or
            lacks Spillway or pyarrow.

    Example:
        >>> spillway.spark.register(session)  # doctest: +SKIP
        >>> df.write.format("spillway").mode("append").save("rows")  # doctest: +SKIP
    """
    try:
        import pyspark
    except ModuleNotFoundError as error:
        raise MissingExtraError("pyspark", "spark", "write from Spark") from error
    import pyspark_spillway

    if not hasattr(pyspark_spillway, "DefaultSource"):
        raise SpillwayError(
            f"PySpark {pyspark.__version__} has no data sources that take Arrow batches, and 4.0 is the "
            "oldest that has them: write with spillway.spark.write, or update Spark"
        )
    check_workers(session)
    from pyspark.errors import AnalysisException

    try:
        session.dataSource.register(pyspark_spillway.DefaultSource)
    except AnalysisException as error:
        # Spark 4.0 takes no source whose name its look-up has found.
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
