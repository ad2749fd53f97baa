"""The order of samples: in each block every cell once, shuffled by the seed, so that drift hits all alike."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Slot", "schedule"]

Cell = TypeVar("Cell")


@dataclass(frozen=True)
class Slot(Generic[Cell]):
    """One sample's place: its block, its position in the block, and its cell."""

    block: int
    position: int
    cell: Cell


def schedule(cells: Sequence[Cell], *, blocks: int, seed: int) -> Iterator[Slot[Cell]]:
    """Every cell once per block; the same cells and seed give the same order."""
    order = random.Random(seed)  # noqa: S311 - an order, not a secret
    for block in range(blocks):
        for position, cell in enumerate(order.sample(list(cells), len(cells))):
            yield Slot(block, position, cell)
