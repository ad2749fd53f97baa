"""Rows of a Delta table as Arrow streams: those of a version, and those that versions changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spillway.delta.types import TableFile

if TYPE_CHECKING:
    from spillway import _native

__all__ = ["Changes", "Scan"]


class _Rows:
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


class Scan(_Rows):
    """The rows of one version of a table, for any Arrow library: ``pyarrow.table(scan)``.

    The scan selects files when it is created, but reads none before an Arrow library requests rows. Each
    request starts from the beginning. Files and row groups are skipped if partition values or statistics rule
    out all of their rows.

    From the second batch on, row groups are decoded by one thread for each processor that the reading thread
    may use, but at most 16. The order of rows does not change. A row group is started early if its size in
    the file fits into a budget of 64 MiB for each thread; decoded rows count against the budget.

    If a signal handler raises, as that of Ctrl-C does, it ends a stream that was created on the main thread
    and is read there: the reading library gets an error, and Python raises the handler's exception once the
    library returns. On other threads, signals do not end a stream.

    If a file cannot be read, the reading library raises an error that names the file.
    """

    def __init__(self, native: _native.DeltaScan) -> None:
        super().__init__(native)
        self._native = native

    def __repr__(self) -> str:
        files, skipped = len(self._native.files()), self._native.skipped
        return f"<spillway.delta.Scan of version {self.version}: {files} of {files + skipped} files>"

    @property
    def version(self) -> int:
        """The version that is read."""
        return self._native.version

    @property
    def files(self) -> list[TableFile]:
        """The files that are read, in the order of their rows."""
        return [TableFile.of(file) for file in self._native.files()]

    @property
    def skipped_files(self) -> int:
        """The number of files of the version that are skipped."""
        return self._native.skipped


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
