"""The order of samples: in each block every cell once, shuffled by the seed, so that drift hits all alike."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["Slot", "schedule"]

Cell = TypeVar("Cell")


@dataclass(frozen=True)
class Slot(Generic[Cell]):
    """One sample's place: its block, its position in the block, and its cell."""

    block: int
    position: int
    cell: Cell


def schedule(
    cells: Sequence[Cell], *, blocks: int, seed: int, together: Callable[[Cell], object] | None = None
) -> Iterator[Slot[Cell]]:
    """Every cell once per block; the same cells and seed give the same order.

    Args:
        cells: The cells.
        blocks: The number of blocks.
        seed: Of the order.
        together: A key of a cell. Those of equal keys follow each other, in an order that is shuffled too, so
            that what they are compared by drifts least.
    """
    order = random.Random(seed)  # noqa: S311 - an order, not a secret
    groups: dict[object, list[Cell]] = defaultdict(list)
    for place, cell in enumerate(cells):
        groups[place if together is None else together(cell)].append(cell)
    for block in range(blocks):
        position = 0
        for group in order.sample(list(groups.values()), len(groups)):
            # One cell takes nothing of the generator: runs of before keep their order.
            for cell in order.sample(group, len(group)) if len(group) > 1 else group:
                yield Slot(block, position, cell)
                position += 1
