"""Inputs that the writer's tests share."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

ROWS = 6_000


@pytest.fixture(scope="session")
def table() -> pa.Table:
    """Flat, nullable, nested and repeating columns; enough rows for a sample, whole units and a tail."""
    start = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    count = range(ROWS)
    return pa.table(
        {
            "id": pa.array(count, pa.int64()),
            "word": pa.array([None if i % 5 == 0 else f"word-{i % 97}" for i in count], pa.string()),
            "note": pa.array([f"row {i} says {i * 7919 % 10007}" for i in count], pa.string()),
            "score": pa.array([i * 0.37 % 1.0 for i in count], pa.float64()),
            "seen": pa.array([start + dt.timedelta(seconds=i) for i in count], pa.timestamp("us", "UTC")),
            "tags": pa.array(
                [None if i % 7 == 0 else [f"t{i % 3}", None][: i % 3] for i in count],
                pa.list_(pa.field("element", pa.string())),
            ),
        }
    )
