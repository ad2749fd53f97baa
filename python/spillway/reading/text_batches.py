"""Batches of CSV and NDJSON by Arrow's streaming readers, which read ahead in threads of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spillway.reading.text import Readable

__all__ = ["TextBatches"]

# Less than what is read together: bytes are read as they are asked for, and nothing waits for more of them.
_BUFFER_BYTES = 1


class TextBatches:
    """The batches of a text, until it is closed.

    A thread of Arrow that needs Python while the interpreter ends is ended by it, and C++ aborts the process
    (https://github.com/apache/arrow/issues/34314). So nothing of Python's is left to such threads: bytes are
    copied into memory of Arrow's as they are read, and `close` waits for the thread that reads ahead.

    Args:
        source: The bytes of the text, in UTF-8, which are closed with the batches.
        open_reader: Opens the reader of a file: `pyarrow.csv.open_csv`, or that of NDJSON.
        stop_waiting: Ends a wait of `source` for bytes, in whatever thread it is.

    Attributes:
        schema: Of all batches.

    Raises:
        ArrowInvalid: As `open_reader`.
    """

    def __init__(
        self,
        source: Readable,
        open_reader: Callable[[pa.NativeFile], Any],
        stop_waiting: Callable[[], None] | None = None,
    ) -> None:
        self._stop_waiting = stop_waiting
        raw: Any = source  # the stubs ask for a whole file object
        # Buffers of Python's would be given back by whichever thread is done with them.
        self._file = pa.BufferedInputStream(pa.PythonFile(raw, mode="r"), _BUFFER_BYTES)
        self._reader: Any = None
        try:
            self._reader = open_reader(self._file)
        except BaseException:
            self.close()
            raise
        self.schema: pa.Schema = self._reader.schema

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        if self._reader is None:
            raise ValueError("the text is closed: read its batches before")
        batch: pa.RecordBatch = self._reader.read_next_batch()
        return batch

    def close(self) -> None:
        """Give up the reader and close the text. Closing again does nothing."""
        if self._stop_waiting is not None:
            self._stop_waiting()
        if self._reader is not None:
            self._reader.close()
            # Arrow's own method waits for nothing. The reader's end does, without the interpreter's lock.
            self._reader = None
        self._file.close()
