"""Spillway on Spark: the writer on executors, the archive that brings it there, and a local session."""

from __future__ import annotations

from spillway.spark.pack import Packed, pack
from spillway.spark.register import register
from spillway.spark.session import local_session, stop_session
from spillway.spark.write import write, write_generated

# Not imported late: the import of a submodule would put itself in the place of the function of its name.
from spillway.spark.write_job import SparkWriteResult

__all__ = [
    "Packed",
    "SparkWriteResult",
    "local_session",
    "pack",
    "register",
    "stop_session",
    "write",
    "write_generated",
]
