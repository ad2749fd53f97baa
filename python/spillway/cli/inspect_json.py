"""The JSON document that ``spillway inspect --json`` prints, as a type, and its JSON Schema."""

from __future__ import annotations

from typing import Literal, TypedDict

from spillway.harness.records import RecordSchema
from spillway.inspection import (  # noqa: TC001 - types of fields, looked up at run time
    ColumnComparison,
    FileReport,
)

__all__ = ["SCHEMA", "Inspected"]


class Compared(TypedDict):
    """Two files beside each other.

    Attributes:
        differences: What differs of the files as wholes, as `spillway.FileComparison` names it.
        columns: The columns of both files, those that differ first.
    """

    differences: list[str]
    columns: list[ColumnComparison]


class Inspected(TypedDict):
    """What `spillway inspect --json` prints. Sizes are in bytes.

    Attributes:
        schema_version: 1. A field that changes its meaning or goes raises it; one that comes does not.
        files: The files that could be shown, in the order in which they were named.
        comparison: Two files beside each other; null where others than two were named, or one cannot be
            shown.
    """

    schema_version: Literal[1]
    files: list[FileReport]
    comparison: Compared | None


SCHEMA = RecordSchema(Inspected)
