"""The change data feed of a Delta table: the rows that its versions changed, as an Arrow stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spillway.delta.scan import _Rows

if TYPE_CHECKING:
    from spillway import _native

__all__ = ["Changes"]


class Changes(_Rows):
    """The changed rows of a range of versions, for any Arrow library: ``pyarrow.table(changes)``.

    Rows have three columns in addition to the table's. ``_change_type`` is ``insert``, ``delete``, or, for an
    updated row, ``update_preimage`` and ``update_postimage``. ``_commit_version`` is the version, and
    ``_commit_timestamp`` is the time at which it was written.

    Files are selected when the feed is requested, but none is read before an Arrow library requests rows.
    Each request starts from the beginning, with one row group at a time in memory. Versions come in order.

    If a file cannot be read, the reading library raises an error that names the file.
    """

    def __init__(self, native: _native.DeltaChanges) -> None:
        super().__init__(native)
        self._native = native

    def __repr__(self) -> str:
        return f"<spillway.delta.Changes of versions {self.first_version} to {self.last_version}>"

    @property
    def first_version(self) -> int:
        """The first version that is read."""
        return self._native.versions[0]

    @property
    def last_version(self) -> int:
        """The last version that is read."""
        return self._native.versions[1]
