"""Writers for asyncio: `AsyncParquetWriter`, and `AsyncAppend` of a Delta table.

The calls of one writer run one after another in threads of the loop's default executor, like calls of
`asyncio.to_thread`. The loop stays free, and a task that is faster than the destination waits in its `await`.
"""

from __future__ import annotations

import asyncio
import contextvars
from abc import ABC, abstractmethod
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from spillway._options import shows_options
from spillway.errors import ClosedError
from spillway.writer import ParquetWriter, WriterOptions

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping
    from types import TracebackType
    from typing import Self, Unpack

    from spillway.delta.append import Append
    from spillway.types import (
        ArrowArray,
        ArrowFileSystem,
        ArrowSchema,
        ArrowStream,
        BinaryFile,
        Extra,
        FsspecFileSystem,
        OnError,
        ReadableFile,
        WriterKeywords,
    )
    from spillway.writer import WriteResult

__all__ = ["AsyncAppend", "AsyncParquetWriter"]

_Writer = TypeVar("_Writer", "ParquetWriter", "Append")
_Result = TypeVar("_Result")
_NOT_OPEN = "the writer is not open yet: enter it with `async with`"


class _AsyncWriter(ABC, Generic[_Writer]):
    """A writer whose calls are awaited. ``async with`` opens it, and completes or aborts it."""

    def __init__(self, opened: Callable[[], _Writer]) -> None:
        self._opened: Callable[[], _Writer] = opened
        self._entered: _Writer | None = None
        # The loop in which it was entered.
        self._loop: asyncio.AbstractEventLoop | None = None
        # An asyncio lock is fair: calls run in the order in which they were made.
        self._turn = asyncio.Lock()

    @property
    def _writer(self) -> _Writer:
        if self._entered is None:
            raise ValueError(_NOT_OPEN)
        return self._entered

    @property
    def closed(self) -> bool:
        """True if the writer accepts no more rows."""
        return self._writer.closed

    async def write(self, data: ArrowStream | ArrowArray) -> None:
        """Write a table, a data frame, a record batch or a stream of them.

        Args:
            data: Anything with ``__arrow_c_stream__`` (preferred) or ``__arrow_c_array__``.

        Raises:
            asyncio.CancelledError: The task was cancelled. If the call had not begun, nothing is written;
                otherwise the error is raised once the call has ended.
            RuntimeError: The writer was entered in another event loop. All calls except `abort` raise this.
            SpillwayError: As the writer without ``await``.
            OSError: As the writer without ``await``.
        """
        await self._call(partial(self._writer.write, data))

    async def write_rows(
        self, rows: Iterable[dict[str, Any]], *, on_error: OnError = "raise", extra: Extra = "error"
    ) -> int:
        """Write dicts, one for each row.

        Args:
            rows: As `ParquetWriter.write_rows`. An iterator is run in the thread that writes.
            on_error: As `ParquetWriter.write_rows`. A callable is called in the thread that writes.
            extra: As `ParquetWriter.write_rows`.

        Returns:
            The number of rows written.

        Raises:
            asyncio.CancelledError: As `write`.
            SpillwayError: As the writer without ``await``.
            OSError: As the writer without ``await``.
        """
        return await self._call(partial(self._writer.write_rows, rows, on_error=on_error, extra=extra))

    async def write_ndjson(
        self,
        source: bytes | bytearray | memoryview | ReadableFile,
        *,
        on_error: OnError = "raise",
        extra: Extra = "error",
    ) -> int:
        """Write JSON objects, one on each line.

        Args:
            source: UTF-8 bytes, or a file object opened for reading bytes, which is read in the thread that
                writes.
            on_error: As `write_rows`.
            extra: As `write_rows`.

        Returns:
            The number of rows written.

        Raises:
            asyncio.CancelledError: As `write`.
            SpillwayError: As the writer without ``await``.
            OSError: As the writer without ``await``.
        """
        return await self._call(partial(self._writer.write_ndjson, source, on_error=on_error, extra=extra))

    async def abort(self) -> None:
        """Discard all rows once the running call has ended; a cancelled task also waits for that."""
        # Ahead of the calls that wait: a cancelled task must not leave rows behind.
        await _in_thread(self._writer.abort)

    @abstractmethod
    async def _complete(self) -> None:
        """Make what was written appear, unless it did before."""

    def _in_turn(self) -> asyncio.Lock:
        """The lock that orders calls. All that wait for it are in one loop: releasing it wakes no other."""
        if asyncio.get_running_loop() is not self._loop:
            raise RuntimeError("the writer was entered in another event loop: use it in that one")
        return self._turn

    async def _call(self, call: Callable[[], _Result]) -> _Result:
        async with self._in_turn():
            return await _in_thread(call)

    def _open(self) -> None:
        self._entered = self._opened()

    async def __aenter__(self) -> Self:
        if self._loop is not None:
            raise ClosedError("the writer can be entered only once: create another one")
        # Set before the await, during which another task may get here.
        self._loop = asyncio.get_running_loop()
        try:
            await _in_thread(self._open)
        except BaseException:
            if self._entered is None:
                self._loop = None
            else:
                await self.abort()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is not None:
            await self.abort()
        elif not self._writer._aborted:  # noqa: SLF001 - as WithBlock
            try:
                await self._complete()
            except BaseException as failure:
                if isinstance(failure, asyncio.CancelledError) or not self._writer._may_go_on:  # noqa: SLF001 - as WithBlock
                    await self.abort()
                raise


@shows_options(WriterOptions)
class AsyncParquetWriter(_AsyncWriter[ParquetWriter]):
    """Writes record batches to one Parquet file as `ParquetWriter` does, without blocking the event loop.

    ``async with`` opens the file, which appears when the block ends without an error. If the block raises or
    its task is cancelled, an old file at the path stays. Tasks can share a writer: their calls run one after
    another, in the order in which they were made, and each returns once the writer has taken its rows.

    Args:
        destination: As `ParquetWriter`.
        schema: As `ParquetWriter`.
        filesystem: As `ParquetWriter`.
        storage_options: As `ParquetWriter`.
        **options: The fields of `WriterOptions`.

    Raises:
        OptionError: An option has a value that is not accepted. Entering the block raises all other errors of
            `ParquetWriter`.

    Example:
        >>> import asyncio, spillway
        >>> async def write(count):
        ...     async with spillway.AsyncParquetWriter("squares.parquet") as writer:
        ...         for number in range(count):
        ...             await writer.write_rows([{"id": number, "square": number * number}])
        ...     return writer.result.rows
        >>> asyncio.run(write(3))
        3
    """

    def __init__(
        self,
        destination: str | os.PathLike[str] | BinaryFile,
        schema: ArrowSchema | None = None,
        *,
        filesystem: ArrowFileSystem | FsspecFileSystem | None = None,
        storage_options: Mapping[str, str] | None = None,
        **options: Unpack[WriterKeywords],
    ) -> None:
        self._options = WriterOptions(**options)
        super().__init__(
            partial(
                ParquetWriter,
                destination,
                schema,
                filesystem=filesystem,
                storage_options=storage_options,
                **options,
            )
        )

    @property
    def options(self) -> WriterOptions:
        """The options in force."""
        return self._options

    @property
    def bytes_written(self) -> int:
        """Bytes handed to the destination so far, not counting pages of the open row group."""
        return self._writer.bytes_written

    @property
    def result(self) -> WriteResult:
        """The size and row groups of the file, available once the writer is closed."""
        if not self.closed:  # the property would wait for a running call
            raise ValueError("the writer is still open: its result is available after close()")
        return self._writer.result

    async def add_metadata(self, metadata: Mapping[str, str]) -> None:
        """Add key-value metadata to the file, as `ParquetWriter.add_metadata` does."""
        await self._call(partial(self._writer.add_metadata, metadata))

    async def flush(self) -> None:
        """End the row group, as `ParquetWriter.flush` does."""
        await self._call(self._writer.flush)

    async def close(self) -> None:
        """Write the remaining rows and the footer, and make the file appear. Closing again does nothing.

        Raises:
            asyncio.CancelledError: The task was cancelled. If the file is complete nevertheless, a note on
                the error says so.
            SpillwayError: As `ParquetWriter.close`.
            OSError: As `ParquetWriter.close`.
        """
        try:
            await self._call(self._writer.close)
        except asyncio.CancelledError as cancelled:
            with suppress(ClosedError, ValueError):
                cancelled.add_note(f"the file was already complete, with {self.result.rows:,} rows: it stays")
            raise

    async def _complete(self) -> None:
        await self.close()


class AsyncAppend(_AsyncWriter["Append"]):
    """Rows that become part of a table together, or not at all; `Table.append_async` creates one.

    This is an `Append` whose calls are awaited: ``async with`` begins it, and commits it when the block ends
    without an error. If the block raises or its task is cancelled, none of its rows are in the table, unless
    `version` or `token` is set.
    """

    _is_repeated: bool | None = None

    @property
    def version(self) -> int | None:
        """The version of the table that holds the rows, once they are committed; as `Append.version`."""
        return self._writer.version

    @property
    def token(self) -> str | None:
        """The token for `Table.outcome`, after a commit whose outcome is unknown."""
        return self._writer.token

    @property
    def repeated(self) -> bool:
        """True if, by `app_id` and `app_version`, the table already has these rows; nothing is written."""
        if self._is_repeated is None:
            raise ValueError(_NOT_OPEN)
        return self._is_repeated

    async def commit(self, timeout: float | None = None) -> int:
        """Commit the rows as `Append.commit_async` does, after all earlier calls.

        If the last line of `write_ndjson` has no line break, it is written in the loop's thread, which also
        calls ``on_error`` for it.
        """
        writer = self._writer
        async with self._in_turn():
            return await writer.commit_async(timeout)

    def _open(self) -> None:
        super()._open()
        # Asked now: later it would wait for a running call.
        self._is_repeated = self._writer.repeated

    async def _complete(self) -> None:
        if self.version is None:
            await self.commit()


async def _in_thread(call: Callable[[], _Result]) -> _Result:
    """Run a call in a thread of the loop's default executor.

    A cancelled task waits for the end of the call: until then the call may use the arguments of the task, and
    its outcome is not known.
    """

    def finished() -> _Result:
        try:
            return call()
        except StopIteration as error:
            # A future takes none, and would never be done.
            raise RuntimeError(f"a callback raised {error!r}") from error

    context = contextvars.copy_context()
    done = asyncio.get_running_loop().run_in_executor(None, partial(context.run, finished))
    cancelled = None
    while not done.done():
        try:
            await asyncio.wait([done])
        except asyncio.CancelledError as error:
            cancelled = cancelled or error
    if cancelled is not None:
        raise cancelled from done.exception()
    return done.result()
