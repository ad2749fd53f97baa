"""The generated datasets: their names, schemas and chunks."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from spillway.datasets import vocabulary as v
from spillway.datasets.arrow import (
    Words,
    below,
    concatenated,
    happens,
    integers,
    inverse_cdf,
    log_uniform,
    nulled,
    numbers_as_text,
    pick,
    taken,
    texts,
    zipf,
)
from spillway.datasets.logs import (
    LOGS,
    Column,
    Generator,
    choice,
    computed,
    flag,
    hundredths,
    identifier,
    numbered,
    skewed,
    uniform,
    unit_interval,
)
from spillway.datasets.vocabulary import Traffic
from spillway.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from spillway.datasets.arrow import AnyArray

MOST_COLUMNS = 10_000

_KINDS: tuple[tuple[pa.DataType, Generator, float], ...] = (
    (pa.int64(), uniform(0, 2**31), 0.0),
    (pa.string(), choice(v.COUNTRIES), 0.0),
    (pa.float64(), hundredths(6, 17), 0.1),
    (pa.int32(), skewed(0, 16), 0.1),
    (pa.bool_(), flag(0.3), 0.0),
    (pa.string(), numbered("user-", lambda traffic: traffic.user), 0.0),
    (pa.int64(), computed(lambda traffic: traffic.row.astype("int64")), 0.0),
    (pa.string(), identifier(16, lambda traffic: traffic.row), 0.0),
    (pa.int16(), choice(integers([200, 201, 204, 301, 404, 500])), 0.0),
    (pa.float64(), unit_interval(), 0.0),
)


@cache
def wide_columns(name: str) -> tuple[Column, ...] | None:
    """The columns of ``wide:N``; None if `name` is of no such form. Equal shares if N is a multiple of 10.

    Raises:
        OptionError: N is 0, or beyond `MOST_COLUMNS`.
    """
    match = re.fullmatch(r"wide:(\d{1,6})", name)
    if match is None:
        return None
    count = int(match[1])
    if not 1 <= count <= MOST_COLUMNS:
        raise OptionError(f"there is no dataset {name!r}: wide:N takes 1 to {MOST_COLUMNS:,} columns")
    return tuple(_column(index) for index in range(count))


def _column(index: int) -> Column:
    data_type, values, nulls = _KINDS[index % len(_KINDS)]
    return Column(f"c{index:04}", data_type, values, nulls)


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


CHUNK_ROWS = 10_000

# To be raised whenever a generated value changes, or caches would keep serving the old ones.
GENERATOR_VERSION = 1

_DATASETS: dict[str, tuple[Column, ...]] = {"logs": LOGS, "logs-nested": NESTED}


def names() -> tuple[str, ...]:
    """The names of the generated datasets, except ``wide:N``."""
    return tuple(_DATASETS)


def columns(name: str) -> tuple[Column, ...]:
    """The specification of each column of dataset `name`.

    Raises:
        OptionError: There is no such dataset.
    """
    found = _DATASETS.get(name) or wide_columns(name)
    if found is None:
        raise OptionError(f"there is no dataset {name!r}; there are: {', '.join(names())}, wide:N")
    return found


@cache
def schema(name: str) -> pa.Schema:
    """The Arrow schema of dataset `name`.

    Raises:
        OptionError: There is no such dataset.
    """
    return pa.schema([column.field for column in columns(name)])


def chunk(name: str, seed: int, index: int) -> pa.RecordBatch:
    """Rows ``index * CHUNK_ROWS`` to ``(index + 1) * CHUNK_ROWS`` of a dataset.

    The chunk is the same on every machine and does not depend on earlier chunks, so the first n rows of a
    dataset do not depend on how many follow.

    Args:
        name: One of `names`, or ``wide:N`` for N columns.
        seed: Any integer; another seed gives other rows of the same kind.
        index: The number of the chunk, from 0.

    Raises:
        OptionError: There is no such dataset, or `index` is negative.

    Example:
        >>> from spillway import datasets
        >>> datasets.chunk("logs", seed=1, index=0).num_rows
        10000
    """
    if index < 0:
        raise OptionError(f"chunk index {index} is negative; the first chunk is 0")
    return _made(name, seed, index * CHUNK_ROWS, CHUNK_ROWS)


def batches(name: str, seed: int, rows: int) -> Iterator[pa.RecordBatch]:
    """The first `rows` rows of a dataset in record batches of CHUNK_ROWS; the last one may be shorter.

    Raises:
        OptionError: There is no such dataset.
    """
    for start in range(0, rows, CHUNK_ROWS):
        yield chunk(name, seed, start // CHUNK_ROWS).slice(0, rows - start)


def row_range(name: str, seed: int, start: int, stop: int) -> Iterator[pa.RecordBatch]:
    """Rows `start` to `stop` of a dataset in record batches of at most CHUNK_ROWS.

    They are the rows that `batches` has there, made without those before them: so parts of a dataset can be
    made anywhere.

    Raises:
        OptionError: There is no such dataset, or `start` is negative.
    """
    if start < 0:
        raise OptionError(f"start is {start}; the first row is 0")
    for first in range(start, stop, CHUNK_ROWS):
        yield _made(name, seed, first, min(CHUNK_ROWS, stop - first))


def _made(name: str, seed: int, first: int, rows: int) -> pa.RecordBatch:
    traffic = Traffic(seed, first, rows)
    arrays = [column.array(traffic) for column in columns(name)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema(name))
