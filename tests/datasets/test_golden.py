"""The generator pinned: a digest of the values of every column, whatever its buffers look like."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from spillway import datasets

if TYPE_CHECKING:
    from collections.abc import Iterator

GOLDEN = json.loads((Path(__file__).parent / "golden.json").read_text())


@pytest.mark.parametrize("index", [0, 7])
@pytest.mark.parametrize("name", datasets.names())
def test_every_column_is_pinned_by_its_golden_digest(name: str, index: int) -> None:
    # A change that is meant: raise GENERATOR_VERSION, and put what this prints into golden.json.
    batch = datasets.chunk(name, 1, index)
    assert GOLDEN["version"] == datasets.GENERATOR_VERSION
    assert {field: digest(batch.column(field)) for field in batch.schema.names} == GOLDEN[name][str(index)]


def test_the_digest_sees_values_nulls_and_boundaries() -> None:
    variants = [
        pa.array(["ab", "c"]),
        pa.array(["a", "bc"]),
        pa.array(["ab", "c", None]),
        pa.array(["ab", None, "c"]),
        pa.array([["ab"], ["c"]]),
        pa.array([["ab", "c"], []]),
        pa.array([1, 2]),
        pa.array([2, 1]),
        pa.array([1, 2], pa.int32()),
    ]
    assert len({digest(array) for array in variants}) == len(variants)
    assert digest(pa.array(["x", "ab", "c"]).slice(1)) == digest(variants[0])


def digest(array: pa.Array) -> str:
    hasher = hashlib.sha256()
    for part in _parts(array):
        hasher.update(part)
    return hasher.hexdigest()[:16]


def _parts(array: pa.Array) -> Iterator[bytes]:
    """The type, what is null, and then the values that are not, in little-endian order."""
    yield f"{array.type}/{len(array)}".encode()
    yield array.is_valid().to_numpy(zero_copy_only=False).tobytes()
    values = array.drop_null()
    if pa.types.is_string(array.type):
        texts = [text.encode() for text in values.to_pylist()]
        yield np.array([len(text) for text in texts], dtype="<i8").tobytes()
        yield b"".join(texts)
    elif pa.types.is_map(array.type):
        yield np.diff(values.offsets.to_numpy()).astype("<i8").tobytes()
        yield from _parts(values.keys)
        yield from _parts(values.items)
    elif pa.types.is_list(array.type):
        yield np.diff(values.offsets.to_numpy()).astype("<i8").tobytes()
        yield from _parts(values.flatten())
    elif pa.types.is_struct(array.type):
        for child in values.flatten():
            yield from _parts(child)
    else:
        plain = values.cast(pa.int64()) if pa.types.is_timestamp(array.type) else values
        numbers = plain.to_numpy(zero_copy_only=False)
        yield numbers.astype(numbers.dtype.newbyteorder("<")).tobytes()
