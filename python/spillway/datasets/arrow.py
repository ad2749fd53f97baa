"""Arrow operations for the generators, on numpy's indices and with strict types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from spillway.datasets.random import Booleans, Integers

__all__ = [
    "AnyArray",
    "Entries",
    "concatenated",
    "integers",
    "nulled",
    "numbers_as_text",
    "taken",
    "texts",
    "texts_of_matrix",
]

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
        """The entries, with null where not `present`."""
        if present is None:
            return taken(self.vocabulary, self.index)
        positions: Any = pa.array(self.index, mask=~present)
        return self.vocabulary.take(positions)


def nulled(values: AnyArray, present: Booleans) -> AnyArray:
    """`values` with null where not `present`, without the bytes of the values that became null."""
    positions: Any = pa.array(np.arange(len(values), dtype=np.int32), mask=~present)
    return values.take(positions)


def concatenated(*parts: str | AnyArray) -> AnyArray:
    """The texts of each row, one after the other."""
    join: Any = pc.binary_join_element_wise
    joined: AnyArray = join(*parts, "")
    return joined
