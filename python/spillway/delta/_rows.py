"""Rows of a table as an Arrow stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spillway import _native

__all__ = ["Rows"]


class Rows:
    """Rows that any Arrow library reads, as often as it asks for them."""

    def __init__(self, rows: _native.DeltaRows) -> None:
        self._rows = rows

    def __arrow_c_schema__(self) -> object:
        """Export the schema, by the Arrow PyCapsule interface."""
        return self._rows.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export the rows, by the Arrow PyCapsule interface.

        Args:
            requested_schema: Not regarded, as the interface allows: types are those of the table.
        """
        return self._rows.__arrow_c_stream__(requested_schema)
