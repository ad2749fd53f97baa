"""The entry by which Spark finds the data source ``spillway``: it looks into modules named ``pyspark_*``."""

from __future__ import annotations

# Spark's look-up imports every module of such a name, and what one of them raises hides the sources of all. A
# Spark without data sources that take Arrow batches, up to 3.5, is to find a module that has none.
try:
    from pyspark.sql.datasource import DataSourceArrowWriter as _  # noqa: F401
except ImportError:
    __all__: list[str] = []
else:
    from spillway.spark.source import DefaultSource

    __all__ = ["DefaultSource"]
