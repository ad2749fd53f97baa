"""Delta tables that thousands of writers append to: `create`, `open`, `write` and what they give."""

from __future__ import annotations

from spillway.delta.append import Append
from spillway.delta.table import (
    AddFile,
    Commit,
    Condition,
    Outcome,
    Races,
    Read,
    Table,
    TableFile,
    create,
    open,  # noqa: A004 - the word for it
    write,
)

__all__ = [
    "AddFile",
    "Append",
    "Commit",
    "Condition",
    "Outcome",
    "Races",
    "Read",
    "Table",
    "TableFile",
    "create",
    "open",
    "write",
]
