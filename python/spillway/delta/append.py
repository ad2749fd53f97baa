"""Appends to a table."""

from __future__ import annotations

import _thread
import atexit
import logging
import os
import threading
import time
from typing import TYPE_CHECKING, Any

from spillway import _native
from spillway._context import WithBlock
from spillway.delta._commit_logging import CommitTimer
from spillway.errors import CommitUnknown, SpillwayError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spillway.types import ArrowArray, ArrowStream, Extra, OnError, ReadableFile

__all__ = ["Append"]

_log = logging.getLogger("spillway.delta")


class Append(WithBlock):
    """Rows that become part of a table together, or not at all; `Table.append` makes one.

    Used as a context manager, the rows are in the table when the block has ended well. None of them is when
    it raised, unless it raised `CommitUnknown` or what a signal's handler raises, such as
    `KeyboardInterrupt`: then `version` and `token` say more. Files are written while rows come, and named in
    the log by one commit at the end; with ``coalesce=True``, rows wait for the commit, which writes them
    together with those of others. Threads may share an append, though each having its own is as cheap.

    Attributes:
        version: The version of the table that holds the rows, once they are committed; also when `commit`
            raised what a signal's handler raised, and was done before.
        token: The token to ask `Table.outcome` with, after a commit whose outcome is unknown; also when
            `commit` raised what a signal's handler raised. Appends that share files share it.
    """

    def __init__(self, native: _native.DeltaAppend, table: _native.DeltaTable, timeout: float | None) -> None:
        self._native = native
        self._table = table
        self._timeout = timeout
        self.version: int | None = None
        self.token: str | None = None

    @property
    def closed(self) -> bool:
        """True if it takes no more rows."""
        return self._native.closed

    @property
    def repeated(self) -> bool:
        """True if the table already has these rows, by `app_id` and `app_version`. They are not rewritten."""
        return self._native.is_repeated

    def write(self, data: ArrowStream | ArrowArray) -> None:
        """Write a table, a data frame, a record batch or a stream of them.

        Columns go by name, and so do the fields of structs. Those that the table has and the rows have not
        are null; integers and floats widen; timestamps become microseconds. The first batch says which
        columns the append has.

        Args:
            data: Anything with ``__arrow_c_stream__`` (preferred) or ``__arrow_c_array__``.

        Raises:
            SchemaError: A batch does not fit the table; the append can go on without it. Rows out of the
                order of `sorting_columns` and values that `memory_limit` has no room for are found in their
                file alone: where rows of the batch went into other files before, the append is closed.
            ConstraintError: A constraint of the table is not true for a row; the append can go on without its
                batch. It has the batches of `data` before that one: the message says how many rows they have.
            NotArrowError: `data` has no Arrow interface.
            ClosedError: The append was committed, aborted or failed before.
            OSError: The file system refused; nothing of the append stays.
        """
        self._native.write(data)

    def write_rows(
        self,
        rows: Iterable[dict[str, Any]],
        *,
        on_error: OnError = "raise",
        extra: Extra = "error",
    ) -> int:
        """Write dicts, one for each row, as `ParquetWriter.write_rows` does.

        The schema is the table's: keys are its columns, and a missing key is null. An append whose first rows
        were Arrow data has the columns of these. Values convert to the types of the table without loss.

        Args:
            rows: A list, or any iterable, of dicts.
            on_error: ``"raise"`` raises for the first bad row. Of a list or a tuple no row is kept then, so
                they are held, as Arrow columns, until the last is good; other iterables are written as they
                come, and the rows before the bad one are kept. ``"skip"`` leaves bad rows out and keeps the
                good ones; a callable does the same and is called with a `RowError` for each bad row.
            extra: ``"ignore"`` passes over keys that the schema does not have; ``"error"`` makes the row bad,
                also with ``schema_mode="merge"``.

        Returns:
            The number of rows written. Those of a `repeated` append are counted, too.

        Raises:
            RowError: A row is bad and ``on_error`` is ``"raise"``.
            ConstraintError: A constraint of the table is not true for a row. That is no bad row: of a list or
                a tuple no row is kept with ``"raise"``, else those of batches before, some megabytes each.
            OptionError: ``on_error`` or ``extra`` is not accepted.
            SchemaError: As in `write`, where nothing of this call is kept while the append stays open.
            ClosedError: The append was committed, aborted or failed before.
            OSError: The file system refused; nothing of the append stays.

        Example:
            >>> import pyarrow as pa, spillway.delta
            >>> table = spillway.delta.create("logins", pa.schema({"user": pa.string(), "n": pa.int16()}))
            >>> with table.append() as append:
            ...     append.write_rows([{"user": "ada", "n": 1}, {"user": "grace"}])
            ...     append.write_rows([{"user": "ada", "n": "many"}, {"user": "alan"}], on_error="skip")
            2
            1
            >>> append.version
            1
        """
        return self._native.write_rows(rows, on_error, extra)

    def write_ndjson(
        self,
        source: bytes | bytearray | memoryview | ReadableFile,
        *,
        on_error: OnError = "raise",
        extra: Extra = "error",
    ) -> int:
        r"""Write JSON objects, one on each line, as `ParquetWriter.write_ndjson` does.

        A chunk may end inside a line: the rest comes with the next chunk, or the commit takes the line as it
        is, and drops it where it cannot be written.

        Args:
            source: UTF-8 bytes, or a file object opened for reading bytes.
            on_error: As in `write_rows`: bytes as a list, of which no row is kept, a file as other iterables.
            extra: As in `write_rows`.

        Returns:
            The number of rows written.

        Raises:
            RowError: A row is bad and ``on_error`` is ``"raise"``.
            ConstraintError: As in `write_rows`.
            OptionError: As in `write_rows`.
            SchemaError: As in `write_rows`.
            ClosedError: As in `write_rows`.
            OSError: As in `write_rows`.

        Example:
            >>> import pyarrow as pa, spillway.delta
            >>> table = spillway.delta.create("beats", pa.schema({"id": pa.int64()}))
            >>> with table.append() as append:
            ...     append.write_ndjson(b'{"id": 1}\n{"id": 2}\n')
            2
        """
        return self._native.write_ndjson(source, on_error, extra)

    def commit(self, timeout: float | None = None) -> int:
        """Make the rows part of the table; a context manager does it by itself.

        Args:
            timeout: Seconds to wait; without it, what `Table.append` was given.

        Returns:
            The version that holds them, and survives a crash of the machine.

        Raises:
            RowError: The last line of NDJSON had no end and is bad, where its call was to raise. It is
                dropped, and the append stays open; so it is where its row breaks a constraint, which is a
                `ConstraintError`.
            CommitUnknown: The time was up, or the disk failed to sync the log, and nobody can say yet whether
                they are in the table. Their files stay; `token` is for `Table.outcome`.
            KeyboardInterrupt: Ctrl-C came. They are in the table if `version` is set. If `token` is set,
                nobody can say yet, and the `CommitUnknown` is the cause. Else they are not in the table.
            CommitTimeoutError: The time was up; they are not in the table.
            CommitConflict: Another transaction is in the way; they are not in the table.
            OSError: The file system refused; they are not in the table. After a failed sync of the log, this
                process commits nothing more to the table: what a disk failed to write, it says only once.
            TableNotFoundError: The table was deleted, moved or replaced.
        """
        timer = CommitTimer(self._native, self._table.root, logging.DEBUG)
        try:
            version = self._native.commit(self._timeout if timeout is None else timeout)
        except BaseException as error:
            # Ctrl-C that came too late to prevent the commit must not hide it.
            self.version = self._native.version
            # Ctrl-C in a commit carries the doubt that it left as its cause.
            for doubt in (error, error.__cause__):
                if isinstance(doubt, CommitUnknown):
                    self.token = doubt.token
            raise
        finally:
            self._table.unpin()
        self.version = version
        timer.log("append", version)
        _checkpoint_when_due(self._table, version)
        return version

    async def commit_async(self, timeout: float | None = None) -> int:
        """Make the rows part of the table like `commit`, while a task of asyncio waits and no thread does.

        Thousands of tasks may wait at once, in any loop: a few threads serve them all, and those that wait
        at the same time share versions, as threads do. Until it returns, the append takes no rows, and
        `abort` does nothing.

        Args:
            timeout: As in `commit`.

        Returns:
            As `commit`.

        Raises:
            asyncio.CancelledError: The task was cancelled. It is raised once it is certain whether the rows
                are in the table, or that nobody can say: `version` and `token` and the cause tell it, as
                they do for Ctrl-C in `commit`.
            SpillwayError: As in `commit`.
            OSError: As in `commit`, or no thread can be started; the append stays open then.

        Example:
            >>> import asyncio, pyarrow as pa, spillway.delta
            >>> table = spillway.delta.create("readings", pa.schema({"id": pa.int64()}))
            >>> async def one(number):
            ...     append = table.append(coalesce=True)
            ...     append.write_rows([{"id": number}])
            ...     return await append.commit_async()
            >>> async def many():
            ...     return await asyncio.gather(*map(one, range(100)))
            >>> max(asyncio.run(many())) < 100
            True
        """
        # Programs without asyncio do not load it.
        from spillway.delta._awaited import ended  # noqa: PLC0415

        timer = CommitTimer(self._native, self._table.root, logging.DEBUG)
        timeout = self._timeout if timeout is None else timeout
        try:
            outcome, cancelled = await ended(self._native, self._table, timeout)
        finally:
            self._table.unpin()
        if isinstance(outcome, BaseException):
            if isinstance(outcome, CommitUnknown):
                self.token = outcome.token
            if cancelled is not None:
                raise cancelled from outcome
            raise outcome
        self.version = version = outcome[0]
        timer.log("append", version)
        _checkpoint_if(outcome[1], self._table, version)
        if cancelled is not None:
            cancelled.add_note(f"the commit was done before: it is in version {version}")
            raise cancelled
        return version

    def detach(self) -> bytes:
        """Complete the files, and leave their commit to an append of another process.

        ``table.append().attach(part)`` takes the bytes there, as many parts as there are. Files that nobody
        attaches stay in the table's folder, where no reader sees them, until a vacuum.

        Returns:
            The part: the files, their statistics, and the state of the table that they were written for.

        Raises:
            OptionError: The append has `app_id`, `user_metadata` or `coalesce`, which go with the commit.
            ClosedError: The append was committed, aborted or failed before.
            OSError: The file system refused; nothing of the append stays.

        Example:
            >>> import pyarrow as pa, spillway.delta
            >>> table = spillway.delta.create("visits", pa.schema({"id": pa.int64()}))
            >>> elsewhere = table.append()
            >>> elsewhere.write(pa.table({"id": [1, 2, 3]}))
            >>> part = elsewhere.detach()
            >>> with table.append(app_id="job", app_version=1) as append:
            ...     append.attach(part)
            >>> append.version
            1
        """
        # A block that it ends in has nothing to commit.
        part = self._native.detach()
        self._aborted = True
        return part

    def attach(self, part: bytes) -> None:
        """Take over files that another append wrote for this table and did not commit.

        They are committed as if this append had written them, and removed where it is not committed. Each
        part is attached once. With `app_id`, files of a repeated append are removed by its commit.

        Args:
            part: The bytes that `detach` returned.

        Raises:
            OptionError: `part` is not what `detach` returns, or another table's, or attached before; or this
                append has `coalesce`.
            CommitConflict: The table's protocol, schema or partitioning is not the one that the files were
                written for, or it has a constraint that their rows were not compared with: write them again.
            SchemaError: The part has columns that the table lacks, and ``schema_mode`` is not ``"merge"``; or
                another type in a column than other parts.
            ClosedError: The append was committed, aborted or failed before.
        """
        self._native.attach(part)

    def abort(self) -> None:
        """Discard the rows and their files."""
        self._aborted = True
        self._native.abort()

    def _complete(self) -> None:
        if self.version is None:
            self.commit()


def _checkpoint_when_due(table: _native.DeltaTable, version: int) -> None:
    """Start a thread that writes a checkpoint, if `version` asks for one.

    The interpreter waits for it before it ends. What goes wrong is logged: the version is committed anyway.
    """
    try:
        is_due: bool | Exception = table.is_checkpoint_due(version)
    except (SpillwayError, OSError) as error:
        is_due = error
    _checkpoint_if(is_due, table, version)


def _checkpoint_if(is_due: bool | Exception, table: _native.DeltaTable, version: int) -> None:  # noqa: FBT001
    if isinstance(is_due, Exception):  # the version is committed, and the next one asks again
        message = "nobody could say whether %s needs a checkpoint after version %d"
        _log.error(message, table.root, version, exc_info=is_due)
    elif is_due:
        _start_checkpoint(table, version)


def _start_checkpoint(table: _native.DeltaTable, version: int) -> None:
    ended, claim = threading.Event(), threading.Lock()
    try:
        _running[ended] = table.root
        # Not by `threading.Thread`: its `start` is many bytecodes, and where the handler of a signal raises
        # between them, the thread that was started ends with an error of its own.
        _thread.start_new_thread(_run, (table, ended, claim))
    except RuntimeError as error:  # no more threads, or the interpreter is ending
        _running.pop(ended, None)
        _log.warning("no checkpoint after version %d: %s", version, error)
    except BaseException:
        # The handler of a signal raised, before the thread was started or after. A thread that has not
        # claimed its work by now does nothing; one that has is waited for.
        if claim.acquire(blocking=False):
            _running.pop(ended, None)
        raise


# The checkpoints that are being written, each by a thread, and their tables.
_running: dict[threading.Event, str] = {}
# A child made by a fork has none of its parent's threads.
os.register_at_fork(after_in_child=_running.clear)
_SILENT_SECONDS = 2.0


@atexit.register
def _wait_for_checkpoints() -> None:
    """Wait until no checkpoint is being written, and log it if that takes its time."""
    silent_until = time.monotonic() + _SILENT_SECONDS
    for ended, root in tuple(_running.items()):
        if not ended.wait(max(0.0, silent_until - time.monotonic())):
            _log.info("waiting for the checkpoint of %s, which is being written", root)
            ended.wait()


# The time that a process which ends leaves to the deletion of announcements that are of no more use.
_TIDYING_SECONDS = 5.0


@atexit.register
def _wait_for_deletions() -> None:
    """Wait until the announcements of this process are deleted: others would look at them in vain."""
    if not _native.await_tidying(_TIDYING_SECONDS):
        _log.info("announcements are left over: they were not deleted within %g s", _TIDYING_SECONDS)


def _run(table: _native.DeltaTable, ended: threading.Event, claim: threading.Lock) -> None:
    if not claim.acquire(blocking=False):
        return
    try:
        _checkpoint(table)
    finally:
        _running.pop(ended, None)
        ended.set()


def _checkpoint(table: _native.DeltaTable) -> None:
    started = time.perf_counter()
    try:
        version = table.checkpoint()
    except Exception:  # noqa: BLE001 - the version is committed, and nobody waits for this
        _log.exception("no checkpoint of %s was written; readers use the one before", table.root)
        return
    _log.info("checkpoint of version %d written in %.3f s", version, time.perf_counter() - started)
    try:
        removed = table.clean_up_log()
    except Exception:  # noqa: BLE001 - as above
        _log.exception("the log of %s was not cleaned up", table.root)
        return
    if removed:
        _log.info(
            "%d files of the log of %s removed: they were older than it keeps them", removed, table.root
        )
