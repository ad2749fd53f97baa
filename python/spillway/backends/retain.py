"""Copying a record batch, for sinks that keep rows beyond `write`."""

from __future__ import annotations

import pyarrow as pa

__all__ = ["own"]


def own(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A copy of `batch` in memory of its own, so that the producer may reuse or drop its buffers."""
    return batch.copy_to(pa.default_cpu_memory_manager())
