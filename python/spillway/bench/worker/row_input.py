"""The input as rows, for the modes in which a writer gets them as users have them; made before the phase."""

from __future__ import annotations

import datetime as dt
import decimal
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

__all__ = ["dicts", "dicts_from_json", "ndjson"]


def dicts(batches: Iterable[pa.RecordBatch]) -> list[list[dict[str, Any]]]:
    """A list of dicts for each batch; all rows share their key objects, as those of one piece of code do."""
    return [batch.to_pylist() for batch in batches]


def dicts_from_json(batches: Iterable[pa.RecordBatch]) -> list[list[dict[str, Any]]]:
    """A list of dicts for each batch, each parsed from a line of its own: other key objects in every row."""
    return [[json.loads(line) for line in chunk.splitlines()] for chunk in ndjson(batches)]


def ndjson(batches: Iterable[pa.RecordBatch]) -> list[bytes]:
    """The lines of each batch: no blanks, nulls written, times as RFC 3339 and decimals as text."""
    encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_text)
    return ["".join(f"{encoder.encode(row)}\n" for row in batch.to_pylist()).encode() for batch in batches]


def _text(value: object) -> str:
    if isinstance(value, dt.datetime | dt.date | dt.time):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, decimal.Decimal):
        return str(value)
    raise TypeError(f"JSON has no {type(value).__name__}: leave the row modes out for this input")
