"""The change data feed of a Delta table: the rows that its versions changed, as an Arrow stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spillway.delta._rows import Rows

if TYPE_CHECKING:
    from spillway import _native

__all__ = ["Changes"]


class Changes(Rows):
    """Changed rows of some versions of a table, which any Arrow library reads: ``pyarrow.table(changes)``.

    They have three columns more than the table. ``_change_type`` is ``insert``, ``delete``, or for a row with
    new values ``update_preimage`` beside ``update_postimage``. ``_commit_version`` is the version, and
    ``_commit_timestamp`` the time at which it was written.

    Files are chosen when the feed is asked for; nothing is read before an Arrow library asks for rows. Each
    time that one does, reading begins anew, with a row group at a time in memory. Versions come in order.

    A file that cannot be read ends the stream with an error of the library that reads it, which names it.
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
