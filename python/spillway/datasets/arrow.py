"""Random numbers that are the same on every machine, and Arrow arrays made of them.

A draw is a pure function of a stream's key and a counter: SplitMix64's output function over
``key + counter * gamma``. There is no state, so any row can be made without the rows before it. All that
follows is integer arithmetic, because `log` and `pow` differ in the last bit from one C library to the next.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Sequence

Words: TypeAlias = NDArray[np.uint64]
Integers: TypeAlias = NDArray[np.integer[Any]]
Booleans: TypeAlias = NDArray[np.bool_]

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_HALF = np.uint64(32)

# A distribution is a table of this many slots, each holding a rank: a draw is one look-up.
_SLOT_BITS = 16


def stream_key(seed: int, name: str) -> np.uint64:
    """The key of the stream that belongs to `name` under `seed`."""
    return np.uint64(int.from_bytes(blake2b(f"{seed}/{name}".encode(), digest_size=8).digest(), "little"))


def words(key: np.uint64, counters: Words) -> Words:
    """One 64-bit word for each counter; equal counters give equal words."""
    z: Words = counters * _GAMMA
    z += key
    z ^= z >> 30
    z *= _MIX_1
    z ^= z >> 27
    z *= _MIX_2
    z ^= z >> 31
    return z


def below(draws: Words, bound: int | Words) -> Words:
    """Uniform integers in ``[0, bound)``, from the upper halves of the words; `bound` is at most 2**32."""
    return ((draws >> _HALF) * np.asarray(bound, dtype=np.uint64)) >> _HALF


def happens(draws: Words, share: float) -> Booleans:
    """True for `share` of the words."""
    return (draws >> _HALF) < int(share * 2**32)


def log_uniform(draws: Words, low_bits: int, high_bits: int) -> Words:
    """Integers from ``[2**low_bits, 2**high_bits)`` with every power of two equally likely.

    This is Zipf's law with exponent 1, flattened within each power of two: any cardinality, and no table.
    """
    octave = below(draws, high_bits - low_bits) + np.uint64(low_bits)
    start = np.uint64(1) << octave
    return start + (draws & (start - np.uint64(1)))


def inverse_cdf(weights: Sequence[int]) -> NDArray[np.uint16]:
    """A table that `pick` draws ranks from, in proportion to integer weights; at most 2**16 of them."""
    ends = np.cumsum(np.asarray(weights, dtype=np.uint64))
    thresholds = (ends << _SLOT_BITS) // ends[-1]
    return np.searchsorted(thresholds, np.arange(1 << _SLOT_BITS, dtype=np.uint64), side="right").astype(
        np.uint16
    )


def zipf(ranks: int) -> NDArray[np.uint16]:
    """The table of Zipf's law with exponent 1 over ``ranks`` ranks."""
    return inverse_cdf([(1 << 32) // rank for rank in range(1, ranks + 1)])


def pick(table: NDArray[np.uint16], draws: Words) -> NDArray[np.uint16]:
    """One rank for each word, distributed as `table` says."""
    ranks: NDArray[np.uint16] = table[draws >> (64 - _SLOT_BITS)]
    return ranks


AnyArray: TypeAlias = "pa.Array[Any]"


def texts(values: list[str]) -> AnyArray:
    """A string array.

    Modules build their constants with it: `pa.array` would import pandas with each of them.
    """
    encoded = [value.encode() for value in values]
    offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    return pa.StringArray.from_buffers(
        len(encoded), pa.py_buffer(offsets.tobytes()), pa.py_buffer(b"".join(encoded))
    )


def integers(values: list[int], kind: type[np.integer[Any]] = np.int64) -> AnyArray:
    """An array of integers, built as `texts` builds its own."""
    content = pa.py_buffer(np.array(values, kind).tobytes())
    return pa.Array.from_buffers(pa.from_numpy_dtype(np.dtype(kind)), len(values), [None, content])


def texts_of_matrix(characters: NDArray[np.uint8]) -> AnyArray:
    """A string array of the rows of a matrix of ASCII characters."""
    rows, width = characters.shape
    offsets = np.arange(0, (rows + 1) * width, width, dtype=np.int32)
    buffers = [pa.py_buffer(part.tobytes()) for part in (offsets, characters)]
    return pa.StringArray.from_buffers(rows, buffers[0], buffers[1])


def numbers_as_text(values: Integers) -> AnyArray:
    """Integers in decimal."""
    return pc.cast(pa.array(values), pa.string())


def taken(values: AnyArray, index: Integers) -> AnyArray:
    """The entry of `values` at each `index`."""
    positions: Any = pa.array(index)
    return values.take(positions)


@dataclass(frozen=True)
class Entries:
    """The entries of a vocabulary at each row's index, before they are copied.

    Most rows of some columns are null: their texts are never taken.
    """

    vocabulary: AnyArray
    index: Integers

    def array(self, present: Booleans | None) -> AnyArray:
        """The entries, with null if not `present`."""
        if present is None:
            return taken(self.vocabulary, self.index)
        positions: Any = pa.array(self.index, mask=~present)
        return self.vocabulary.take(positions)


def nulled(values: AnyArray, present: Booleans) -> AnyArray:
    """`values` with null if not `present`, without the bytes of the values that became null."""
    positions: Any = pa.array(np.arange(len(values), dtype=np.int32), mask=~present)
    return values.take(positions)


def concatenated(*parts: str | AnyArray) -> AnyArray:
    """The texts of each row, one after the other."""
    join: Any = pc.binary_join_element_wise
    joined: AnyArray = join(*parts, "")
    return joined
