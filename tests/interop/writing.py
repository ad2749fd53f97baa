"""Ways of feeding one table to the writer."""

from __future__ import annotations

from itertools import pairwise
from typing import IO, TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa

import spillway

from .fill import NO_NULLS, fill

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

Feed = Literal["batches", "tables", "stream", "whole"]


def pieces(table: pa.Table, cuts: Sequence[int]) -> list[pa.Table]:
    """The table cut at `cuts`, which are ascending; repeated ones make empty pieces."""
    return [table.slice(start, end - start) for start, end in pairwise([0, *cuts, table.num_rows])]


def write(
    table: pa.Table,
    dest: Path | IO[bytes],
    *,
    cuts: Sequence[int] = (),
    feed: Feed = "tables",
    **options: Any,
) -> Any:
    """Writes the table piece by piece, or as one of these pieces; returns the writer's result."""
    if feed == "whole":
        return spillway.write_parquet(pa.concat_tables(pieces(table, cuts)), dest, **options)
    with spillway.ParquetWriter(dest, table.schema, **options) as writer:
        for piece in pieces(table, cuts):
            if feed == "tables":
                writer.write(piece)
            elif feed == "stream":
                writer.write(pa.RecordBatchReader.from_batches(piece.schema, piece.to_batches()))
            else:
                for batch in piece.to_batches() or [no_rows(piece.schema)]:
                    writer.write(batch)
    return writer.result


def no_rows(schema: pa.Schema) -> pa.RecordBatch:
    rng = np.random.default_rng(0)
    return pa.RecordBatch.from_arrays(
        [fill(rng, data_type, 0, NO_NULLS) for data_type in schema.types], schema=schema
    )
