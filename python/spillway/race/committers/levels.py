"""The committers of `spillway.delta` whose conflicts are by row, by file and by partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from spillway.race.committers.spillway import Spillway

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["FileLevel", "PartitionLevel", "RowLevel"]


class RowLevel(Spillway):
    """Rows that are marked in their file."""

    properties: ClassVar[Mapping[str, str]] = {"delta.enableDeletionVectors": "true"}


class FileLevel(Spillway):
    """Rows of a file that is written again."""


class PartitionLevel(Spillway):
    """The same, where the cell has a partition, and so a file, for each writer."""
