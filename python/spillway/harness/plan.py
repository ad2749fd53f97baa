"""The plan of a run: its options, and the order of its samples, so that drift hits all cells alike."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from spillway.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


def require_counts(options: Mapping[str, Sequence[int]]) -> None:
    """Check that options have whole numbers from 1 up.

    Raises:
        OptionError: One has none, or a smaller one.
    """
    for option, values in options.items():
        if not values or min(values) < 1:
            raise OptionError(f"{option} takes whole numbers from 1 up, not {joined(values)}")


def joined(values: Iterable[object]) -> str:
    """Values as a message lists them."""
    return ", ".join(map(str, values))


def parse_bytes(text: str) -> int:
    """Bytes from a number with a unit: 512MiB, 2276MB, 1.5GB, 4096.

    Raises:
        ValueError: It is no such number; the message says what is.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", text)
    unit = match[2].upper() if match else ""
    if match is None or unit not in _UNITS:
        raise ValueError(f"{text!r} is not an amount of memory; write it as 512MB, 512MiB, 2GB or in bytes")
    return int(float(match[1]) * _UNITS[unit])


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
