"""Deletes beside appends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spillway.race.works.append import Append
from spillway.race.works.delete import Delete

if TYPE_CHECKING:
    from spillway.race.plan import Cell
    from spillway.race.works.protocol import Operation

__all__ = ["operation"]


def operation(cell: Cell, writer: int, number: int) -> Operation:
    """A delete of one of the first writers, an append of one of the others.

    Processes take writers in turns: so each process has writers of both kinds.
    """
    deletes = writer < -(-cell.writers // 2)
    return Delete(cell, writer, number) if deletes else Append(cell, writer, number)
