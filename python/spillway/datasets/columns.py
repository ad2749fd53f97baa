"""Generators of columns: a column's specification, and the functions that make its values.

A generator takes the `Traffic` behind a chunk's rows and the column's name, which is that of its random
stream too. So a column never changes because another one came or went.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from spillway.datasets.arrow import (
    AnyArray,
    Entries,
    concatenated,
    nulled,
    numbers_as_text,
    taken,
    texts,
    texts_of_matrix,
)
from spillway.datasets.random import (
    Booleans,
    Integers,
    Words,
    below,
    happens,
    inverse_cdf,
    log_uniform,
    pick,
    zipf,
)
from spillway.datasets.traffic import Entity, Traffic

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "Column",
    "Generator",
    "choice",
    "computed",
    "flag",
    "hex_digits",
    "hundredths",
    "identifier",
    "ipv4",
    "look_up",
    "numbered",
    "skewed",
    "uniform",
    "unit_interval",
    "uuid",
]

Generator: TypeAlias = Callable[[Traffic, str], "AnyArray | Entries"]


@dataclass(frozen=True)
class Column:
    """One column of a dataset.

    Attributes:
        name: The column's name, and that of its random stream.
        type: Its Arrow type.
        values: Makes a value for every row.
        nulls: Share of the rows that hold null instead, of those where the column applies.
        where: Tells the rows where the column applies; it is null in all others. None: everywhere.
    """

    name: str
    type: pa.DataType
    values: Generator
    nulls: float = 0.0
    where: Callable[[Traffic], Booleans] | None = None

    @property
    def field(self) -> pa.Field[Any]:
        """The column in a schema."""
        return pa.field(self.name, self.type, nullable=self.nulls > 0 or self.where is not None)

    def array(self, traffic: Traffic) -> AnyArray:
        """The column for the rows of `traffic`, nulls included."""
        return self.values_where(traffic, self._present(traffic))

    def values_where(self, traffic: Traffic, present: Booleans | None) -> AnyArray:
        """The values at the rows that are `present` (None: at all), and null at the others."""
        values = self.values(traffic, self.name)
        if isinstance(values, Entries):
            return values.array(present).cast(self.type)
        values = values.cast(self.type)
        return values if present is None else nulled(values, present)

    def _present(self, traffic: Traffic) -> Booleans | None:
        applies = self.where(traffic) if self.where is not None else None
        if not self.nulls:
            return applies
        known = ~happens(traffic.draw(f"{self.name}/null"), self.nulls)
        return known if applies is None else known & applies


# From the entities


def computed(function: Callable[[Traffic], NDArray[Any]]) -> Generator:
    """The values that `function` computes from the rows."""
    return lambda traffic, _name: pa.array(function(traffic))


def look_up(vocabulary: AnyArray, index: Callable[[Traffic], Integers]) -> Generator:
    """The entry of `vocabulary` at each row's `index`."""
    return lambda traffic, _name: Entries(vocabulary, index(traffic))


# Drawn at random, once for each entity


def choice(vocabulary: AnyArray, *, weights: list[int] | None = None, by: Entity = "row") -> Generator:
    """An entry of `vocabulary`: by weight, or by Zipf's law if there are no weights."""
    table = zipf(len(vocabulary)) if weights is None else inverse_cdf(weights)
    return lambda traffic, name: Entries(vocabulary, pick(table, traffic.draw(name, by)))


def uniform(low: int, high: int, *, by: Entity = "row") -> Generator:
    """An integer in ``[low, high)``."""
    return lambda traffic, name: pa.array(below(traffic.draw(name, by), high - low).astype(np.int64) + low)


def skewed(low_bits: int, high_bits: int, *, by: Entity = "row") -> Callable[[Traffic, str], AnyArray]:
    """An integer in ``[2**low_bits, 2**high_bits)``, each power of two as likely as the next."""

    def generate(traffic: Traffic, name: str) -> AnyArray:
        return pa.array(log_uniform(traffic.draw(name, by), low_bits, high_bits).astype(np.int64))

    return generate


def hundredths(low_bits: int, high_bits: int, *, by: Entity = "row") -> Generator:
    """A double with two decimals: a skewed integer over 100, which IEEE 754 rounds the same everywhere."""
    integers = skewed(low_bits, high_bits, by=by)
    return lambda traffic, name: pa.array(integers(traffic, name).to_numpy() / 100.0)


def unit_interval(*, bits: int = 53) -> Generator:
    """A double in ``[0, 1)`` with `bits` random bits."""
    return lambda traffic, name: pa.array((traffic.draw(name) >> (64 - bits)) * 2.0**-bits)


def flag(share: float, *, by: Entity = "row") -> Generator:
    """True for `share` of the entities."""
    return lambda traffic, name: pa.array(happens(traffic.draw(name, by), share))


# Text with numbers in it


def hex_digits(draws: list[Words]) -> NDArray[np.uint8]:
    """The words of each row in lower-case hexadecimal: ASCII, of shape (rows, 16 * words)."""
    octets = np.stack(draws, axis=1).astype(">u8").view(np.uint8)
    return _HEX_OF_OCTET[octets].view(np.uint8).reshape(len(octets), -1)


def identifier(digits: int, number: Callable[[Traffic], Words]) -> Callable[[Traffic, str], AnyArray]:
    """`digits` hexadecimal digits that hash an entity's `number`."""

    def generate(traffic: Traffic, name: str) -> AnyArray:
        hashes = _hashes(traffic, name, number(traffic), -(-digits // 16))
        return texts_of_matrix(hex_digits(hashes)[:, :digits])

    return generate


def uuid(number: Callable[[Traffic], Words]) -> Generator:
    """A hash of an entity's `number`, written as a UUID."""

    def generate(traffic: Traffic, name: str) -> AnyArray:
        digits = hex_digits(_hashes(traffic, name, number(traffic), 2))
        characters = np.full((len(digits), 36), ord("-"), dtype=np.uint8)
        for begin, end, hyphens in _UUID_GROUPS:
            characters[:, begin + hyphens : end + hyphens] = digits[:, begin:end]
        return texts_of_matrix(characters)

    return generate


def ipv4(*, by: Entity) -> Generator:
    """An address in dotted decimals."""

    def generate(traffic: Traffic, name: str) -> AnyArray:
        draws = traffic.draw(name, by)
        first, second = (taken(_pairs_of_octets(), (draws >> shift) & 0xFFFF) for shift in (0, 16))
        return concatenated(first, ".", second)

    return generate


def numbered(prefix: str, number: Callable[[Traffic], Integers]) -> Generator:
    """`prefix`, then an entity's number."""
    return lambda traffic, _name: concatenated(prefix, numbers_as_text(number(traffic)))


_DIGITS = b"0123456789abcdef"
_HEX_OF_OCTET = np.frombuffer(
    bytes(b for i in range(256) for b in (_DIGITS[i >> 4], _DIGITS[i & 15])), dtype=np.uint16
)


# RFC 9562, section 4: digits from and to, and the hyphens before them.
_UUID_GROUPS = ((0, 8, 0), (8, 12, 1), (12, 16, 2), (16, 20, 3), (20, 32, 4))


@cache
def _pairs_of_octets() -> AnyArray:
    """Two octets in dotted decimals, the first from the lower byte of the index."""
    return texts([f"{index & 255}.{index >> 8}" for index in range(1 << 16)])


def _hashes(traffic: Traffic, name: str, numbers: Words, count: int) -> list[Words]:
    return [traffic.hashed(f"{name}/{part}", numbers) for part in range(count)]
