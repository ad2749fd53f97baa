"""Scans of a Delta table: its rows as an Arrow stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spillway.delta._rows import Rows
from spillway.delta.types import TableFile

if TYPE_CHECKING:
    from spillway import _native

__all__ = ["Scan"]


class Scan(Rows):
    """Rows of one version of a table, which any Arrow library reads: ``pyarrow.table(scan)``.

    Files are chosen when the scan is made; nothing is read before an Arrow library asks for rows. Each time
    that one does, reading begins anew. A file whose partition values or statistics rule out every row is not
    opened, and neither is such a row group read.

    Once a second batch is asked for, row groups are decoded by a thread for each processor that the reading
    thread may use, 16 at most. Their rows come in order. A row group is begun before its turn when it fits,
    by its size in the file, into 64 MiB for each thread; decoded rows wait within that.

    A signal handler that raises, as that of Ctrl-C does, ends a stream that was made on the main thread and
    is read there: the library that reads it has an error, and Python raises the handler's exception once the
    library returns. On other threads nothing ends it.

    A file that cannot be read ends the stream with an error of the library that reads it, which names it.
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
        """The number of the version's files that are not opened."""
        return self._native.skipped
