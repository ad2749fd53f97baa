"""Rows of files: Parquet, Arrow IPC, CSV and NDJSON, from folders, globs and pipes."""

from __future__ import annotations
