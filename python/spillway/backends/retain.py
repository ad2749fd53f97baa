"""Record batches that a sink keeps beyond `write`: copies, or references where the caller allows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from spillway.backends.protocol import Settings

__all__ = ["retained"]


def retained(batch: pa.RecordBatch, settings: Settings) -> pa.RecordBatch:
    """The batch itself if it may be kept, else a copy, so that its producer may reuse or drop the buffers."""
    return batch if settings.may_retain else batch.copy_to(pa.default_cpu_memory_manager())
