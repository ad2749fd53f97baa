"""Spark beside Spillway: a local session with every setting pinned."""

from __future__ import annotations

from spillway.spark.session import local_session, stop_session

__all__ = ["local_session", "stop_session"]
