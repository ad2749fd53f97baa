"""The dataset ``logs-nested``: the columns of ``logs``, then a list, a struct and a map."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from spillway.datasets import vocabulary as v
from spillway.datasets.arrow import concatenated, nulled, numbers_as_text, taken, texts
from spillway.datasets.columns import Column
from spillway.datasets.logs import LOGS
from spillway.datasets.random import Words, below, happens, inverse_cdf, log_uniform, pick, zipf

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from spillway.datasets.arrow import AnyArray
    from spillway.datasets.traffic import Traffic

__all__ = ["NESTED"]

_TAG_COUNT = inverse_cdf([10, 30, 25, 15, 10, 6, 4])
_TAG = zipf(len(v.TAGS))
_ATTRIBUTE_COUNT = inverse_cdf([5, 10, 20, 25, 20, 10, 10])
_ATTRIBUTE_KEYS = texts(
    [
        "k8s.node.pool",
        "deployment.id",
        "feature.flag",
        "db.statement.id",
        "queue.name",
        "client.sdk",
        "order.id",
    ]
)
_FLAT = {column.name: column for column in LOGS}
_HTTP_SOURCES = ("http_method", "http_status", "request_bytes", "response_bytes")
_BODY = pa.struct([("sent", pa.int64()), ("received", pa.int64())])
_HTTP = pa.struct([("method", pa.string()), ("status", pa.int16()), ("body", _BODY)])


def _offsets(lengths: NDArray[np.uint16]) -> Any:  # pyarrow's stubs know int64 offsets only
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))


def _items(traffic: Traffic, lengths: NDArray[np.uint16]) -> tuple[Words, Words]:
    """For each item of variable-length rows: its row's number, and its position within the row."""
    rows = np.repeat(traffic.row, lengths)
    starts = np.repeat(np.cumsum(lengths) - lengths, lengths)
    return rows, (np.arange(len(rows)) - starts).astype(np.uint64)


def _tags(traffic: Traffic, name: str) -> AnyArray:
    """Up to six tags; one list in ten is empty."""
    lengths = pick(_TAG_COUNT, traffic.draw(f"{name}/length"))
    rows, position = _items(traffic, lengths)
    tag = pick(_TAG, traffic.hashed(name, rows * 8 + position))
    return pa.ListArray.from_arrays(_offsets(lengths), taken(v.TAGS, tag))


def _http(traffic: Traffic, name: str) -> AnyArray:
    """The flat columns of the request as a struct, its status and its body null where they are not known."""
    known = ~happens(traffic.draw(f"{name}/status"), 0.05)
    method, status, sent, received = (
        _FLAT[column].values_where(traffic, known if column == "http_status" else None)
        for column in _HTTP_SOURCES
    )
    empty = pa.array(happens(traffic.draw(f"{name}/body"), 0.3))
    body = pa.StructArray.from_arrays([sent.cast(pa.int64()), received], fields=list(_BODY), mask=empty)
    return pa.StructArray.from_arrays([method, status, body], fields=list(_HTTP))


def _attributes(traffic: Traffic, name: str) -> AnyArray:
    """Up to six attributes with different keys; one value in twenty is null."""
    lengths = pick(_ATTRIBUTE_COUNT, traffic.draw(f"{name}/length"))
    rows, position = _items(traffic, lengths)
    first = below(traffic.hashed(f"{name}/first", rows), len(_ATTRIBUTE_KEYS))
    keys = taken(_ATTRIBUTE_KEYS, (first + position) % len(_ATTRIBUTE_KEYS))
    item = rows * 8 + position
    words = taken(v.TOPICS, below(traffic.hashed(f"{name}/word", item), len(v.TOPICS)))
    values = concatenated(
        words, "-", numbers_as_text(log_uniform(traffic.hashed(f"{name}/number", item), 0, 16))
    )
    known = ~happens(traffic.hashed(f"{name}/null", item), 0.05)
    return pa.MapArray.from_arrays(_offsets(lengths), keys, nulled(values, known))


NESTED: tuple[Column, ...] = (
    *LOGS,
    Column("tags", pa.list_(pa.string()), _tags, nulls=0.05),
    Column("http", _HTTP, _http, where=lambda traffic: traffic.traced),
    Column("attributes", pa.map_(pa.string(), pa.string()), _attributes, nulls=0.03),
)
