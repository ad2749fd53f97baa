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
    """The comparison of two files.

    Attributes:
        differences: What differs between the files as a whole, as `spillway.FileComparison` names it.
        columns: The columns of both files, those that differ first.
    """

    differences: list[str]
    columns: list[ColumnComparison]


class Inspected(TypedDict):
    """What `spillway inspect --json` prints. Sizes are in bytes.

    Attributes:
        schema_version: 1. Raised when a field is removed or redefined, not when one is added.
        files: The files that could be shown, in the order in which they were named.
        comparison: The comparison, if exactly two files were named and both can be shown; else null.
    """

    schema_version: Literal[1]
    files: list[FileReport]
    comparison: Compared | None


SCHEMA = RecordSchema(Inspected)
