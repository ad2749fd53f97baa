"""Spillway on Spark: the writer on executors, pipelines, the archive for executors, and a local session."""

from __future__ import annotations

from spillway.spark.pipeline.checks import PipelineResult, between, not_null, unique
from spillway.spark.pipeline.run import Pipeline
from spillway.spark.pipeline.source_and_sink import Sink
from spillway.spark.session import local_session, register, stop_session
from spillway.spark.workers import Packed, pack
from spillway.spark.write import write, write_generated

# Not imported late: the import of a submodule would put itself in the place of the function of its name.
from spillway.spark.write_job import SparkWriteResult

__all__ = [
    "Packed",
    "Pipeline",
    "PipelineResult",
    "Sink",
    "SparkWriteResult",
    "between",
    "local_session",
    "not_null",
    "pack",
    "register",
    "stop_session",
    "unique",
    "write",
    "write_generated",
]
