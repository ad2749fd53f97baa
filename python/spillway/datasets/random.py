"""Random numbers that are the same on every machine and with every version of numpy.

A draw is a pure function of a stream's key and a counter: SplitMix64's output function over
``key + counter * gamma``. There is no state, so any row can be made without the rows before it. All that
follows is integer arithmetic, because `log` and `pow` differ in the last bit from one C library to the next.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "Booleans",
    "Integers",
    "Words",
    "below",
    "happens",
    "inverse_cdf",
    "log_uniform",
    "pick",
    "stream_key",
    "words",
    "zipf",
]

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
