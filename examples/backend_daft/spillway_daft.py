"""A backend for the bench from outside: Daft.

Installed (``pip install examples/backend_daft``), it is measured by
``spillway bench --backend daft,spillway --mode table``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import daft

from spillway.errors import OptionError

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from spillway.backends.protocol import Mode, Settings

# Daft takes no level: these are the ones that its codecs have.
LEVELS = {"zstd": 1, "gzip": 6, "brotli": 1}


class Daft:
    """`DataFrame.write_parquet` into a single file.

    Daft cuts row groups by bytes, so the cell's rows are no bound, and takes no level.
    """

    name = "daft"
    modes: frozenset[Mode] = frozenset({"table"})

    def __init__(self) -> None:
        self._threads = 0

    def version(self) -> str:
        """Return the library's version."""
        return str(daft.__version__)

    def open(self, path: Path, _schema: pa.Schema, settings: Settings) -> Sink:
        """Start a file with the codec that the cell asks for.

        Raises:
            OptionError: The cell asks for a level that Daft cannot be told.
        """
        usual = LEVELS.get(settings.codec)
        if settings.level not in {None, usual}:
            raise OptionError(
                f"Daft writes {settings.codec} at level {usual} alone, not {settings.level}: "
                f"leave --level out"
            )
        if not self._threads:  # a process says it once
            daft.set_runner_native(settings.threads)
            self._threads = settings.threads
        return Sink(path, {"lz4": "lz4_raw"}.get(settings.codec, settings.codec))


class Sink:
    """One file being written."""

    def __init__(self, path: Path, codec: str) -> None:
        self._path = path
        self._codec = codec

    def write(self, table: pa.Table) -> None:
        """Write the table."""
        daft.from_arrow(table).write_parquet(self._path, compression=self._codec, single_file=True)

    def close(self) -> None:
        """Do nothing: the file is complete."""
