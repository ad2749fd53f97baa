"""The entry by which Spark finds the data source ``spillway``: it looks into modules named ``pyspark_*``."""

from __future__ import annotations

from spillway.spark.source import DefaultSource

__all__ = ["DefaultSource"]
