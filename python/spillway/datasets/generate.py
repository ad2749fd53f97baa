"""The generated datasets: their names, schemas and chunks."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pyarrow as pa

from spillway.datasets.logs import LOGS
from spillway.datasets.nested import NESTED
from spillway.datasets.traffic import Traffic
from spillway.datasets.wide import wide_columns
from spillway.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spillway.datasets.columns import Column

__all__ = ["CHUNK_ROWS", "GENERATOR_VERSION", "batches", "chunk", "columns", "names", "row_range", "schema"]

CHUNK_ROWS = 10_000

# To be raised whenever a generated value changes, or caches would keep serving the old ones.
GENERATOR_VERSION = 1

_DATASETS: dict[str, tuple[Column, ...]] = {"logs": LOGS, "logs-nested": NESTED}


def names() -> tuple[str, ...]:
    """The names of the generated datasets, but for ``wide:N``."""
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

    The chunk is the same on every machine and whatever was made before it, so the first n rows of a dataset
    do not depend on how many follow.

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
