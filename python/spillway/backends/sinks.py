"""Sinks that several backends share: batches kept for one call, and a stream that a library pulls.

The library runs in a separate thread and requests batches; `write` passes it one and waits until it requests
the next, so at most one batch is held, and the caller may reuse a batch when `write` returns.
"""

from __future__ import annotations

import threading
from queue import Queue
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spillway.backends.protocol import Settings


class Gathered:
    """A sink for libraries that write one table in one call.

    Args:
        schema: The table's schema.
        settings: Those of the cell, which say whether batches are copied.
        write_table: Called once, at the close; writes the whole file.
    """

    def __init__(
        self, schema: pa.Schema, settings: Settings, write_table: Callable[[pa.Table], None]
    ) -> None:
        self._schema = schema
        self._settings = settings
        self._write_table = write_table
        self._batches: list[pa.RecordBatch] = []
        self._table: pa.Table | None = None

    def write(self, data: pa.RecordBatch | pa.Table) -> None:
        """Keep a batch for the close, or the one table."""
        if isinstance(data, pa.Table):
            self._table = data
        else:
            self._batches.append(retained(data, self._settings))

    def close(self) -> None:
        """Write the file."""
        table = self._table
        if table is None:
            table = pa.Table.from_batches(self._batches, self._schema)
        self._write_table(table)


def retained(batch: pa.RecordBatch, settings: Settings) -> pa.RecordBatch:
    """The batch itself if it may be kept, else a copy, so that its producer may reuse or drop the buffers."""
    return batch if settings.may_retain else batch.copy_to(pa.default_cpu_memory_manager())


class PushToPull:
    """A sink that feeds `consume` a `RecordBatchReader`.

    Args:
        schema: The stream's schema.
        consume: Called once, in the sink's thread; writes the whole file from the reader it is given. A table
            is handed to it directly, in the caller's thread, as there is nothing to wait for.
    """

    def __init__(self, schema: pa.Schema, consume: Callable[[pa.RecordBatchReader], None]) -> None:
        self._schema = schema
        self._consume = consume
        self._batches: Queue[pa.RecordBatch | None] = Queue(maxsize=1)
        self._asked = threading.Semaphore(0)
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None
        self._done = False
        self._ended = False
        self._closing = False

    def write(self, data: pa.RecordBatch | pa.Table) -> None:
        """Hand over a batch and wait until it is consumed; a table is written at once."""
        if isinstance(data, pa.Table):
            self._consume(data.to_reader())
            self._done = True
            return
        self._raise_if_failed()
        if self._thread is None:
            self._start()
        self._batches.put(data)
        self._asked.acquire()
        self._raise_if_failed()

    def close(self) -> None:
        """End the stream and wait for the library to finish its file."""
        if self._done:
            return
        if self._thread is None:
            self._start()
        self._closing = True
        self._batches.put(None)
        assert self._thread is not None  # noqa: S101 - _start has set it
        self._thread.join()
        self._raise_if_failed()

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="spillway-push-to-pull", daemon=True)
        self._thread.start()
        self._asked.acquire()
        self._raise_if_failed()

    def _run(self) -> None:
        try:
            self._consume(pa.RecordBatchReader.from_batches(self._schema, self._stream()))
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that writes
            self._error = error
        finally:
            self._ended = True
            self._asked.release()  # nobody will ask any more: let a waiting write() go on

    def _stream(self) -> Iterator[pa.RecordBatch]:
        while True:
            self._asked.release()
            batch = self._batches.get()
            if batch is None:
                return
            yield batch
            del batch

    def _raise_if_failed(self) -> None:
        if self._error is not None:
            raise self._error
        if self._ended and not self._closing:
            raise RuntimeError("the library finished its file before the stream had ended")
