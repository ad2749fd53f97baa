"""Spillway on Spark: the writer on executors, and a local session with every setting pinned."""

from __future__ import annotations

from spillway.spark.job import SparkWriteResult
from spillway.spark.session import local_session, stop_session
from spillway.spark.write import write

__all__ = ["SparkWriteResult", "local_session", "stop_session", "write"]
