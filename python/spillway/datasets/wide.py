"""The datasets ``wide:N``: N columns of ten kinds in turn, for curves over rows and over columns."""

from __future__ import annotations

import re
from functools import cache

import pyarrow as pa

from spillway.datasets import vocabulary as v
from spillway.datasets.arrow import integers
from spillway.datasets.columns import (
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
from spillway.errors import OptionError

__all__ = ["MOST_COLUMNS", "wide_columns"]

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
    """The columns of ``wide:N``; None if `name` is of no such form. Equal shares where N is a multiple of 10.

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
