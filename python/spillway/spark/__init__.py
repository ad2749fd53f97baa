"""Spark beside Spillway: a local session with every setting pinned, and what executors need."""

from __future__ import annotations

# Not imported late: the import of a submodule would put itself in the place of the function of its name.
from spillway.spark.pack import Packed, pack
from spillway.spark.session import local_session, stop_session

__all__ = ["Packed", "local_session", "pack", "stop_session"]
