"""Appends to a table, and what is done and logged after any commit."""

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
from spillway.errors import CommitUnknown, SpillwayError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spillway.types import ArrowArray, ArrowStream, Extra, OnError, ReadableFile

__all__ = ["Append"]

_log = logging.getLogger("spillway.delta")


class Append(WithBlock):
    """Rows that become part of a table together, or not at all; `Table.append` creates one.

    As a context manager, it commits the rows when the block ends without an exception. If the block raises,
    none of them are in the table, unless it raised `CommitUnknown` or an exception of a signal handler, such
    as `KeyboardInterrupt`: in that case, see `version` and `token`. Data files are written as rows arrive,
    and one commit at the end adds them to the log; with ``coalesce=True``, rows wait for the commit, which
    writes them together with those of other appends. Threads can share an append, but one for each thread
    costs no more.

    Attributes:
        version: The version of the table that contains the rows, once they are committed; also set if a
            signal handler raised after the commit was done.
        token: The token for `Table.outcome`, after a commit whose outcome is unknown; also set if a signal
            handler raised during such a commit. Appends that share files share the token.
    """

    # A commit that timed out may be tried again.
    _may_go_on = True

    def __init__(self, native: _native.DeltaAppend, table: _native.DeltaTable, timeout: float | None) -> None:
        self._native = native
        self._table = table
        self._timeout = timeout
        self.version: int | None = None
        self.token: str | None = None

    @property
    def closed(self) -> bool:
        """True if the append accepts no more rows."""
        return self._native.closed

    @property
    def repeated(self) -> bool:
        """True if, by `app_id` and `app_version`, the table already has these rows; nothing is written."""
        return self._native.is_repeated

    def write(self, data: ArrowStream | ArrowArray) -> None:
        """Write a table, a data frame, a record batch or a stream of them.

        Columns and struct fields are matched by name. Missing ones are null; integers and floats are widened;
        timestamps become microseconds. The first batch determines the columns of the append.

        Args:
            data: Anything with ``__arrow_c_stream__`` (preferred) or ``__arrow_c_array__``.

        Raises:
            SchemaError: A batch does not fit the table; the append can continue without it. Rows that violate
                `sorting_columns`, and values too large for `memory_limit`, are detected only when their file
                is written: if other files already contain rows of the batch, the append is closed.
            ConstraintError: A row violates a constraint of the table; the append can continue without its
                batch. It keeps the earlier batches of `data`, and the message says how many rows they have.
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

        The schema is the table's: keys are its columns, and a missing key is null. If the first rows of the
        append were Arrow data, the append has their columns. Values are converted to the table's types
        without loss.

        Args:
            rows: A list, or any iterable, of dicts.
            on_error: ``"raise"`` raises for the first bad row. If `rows` is a list or a tuple, none of them
                is written in that case, so they are held as Arrow columns until the last one has been
                checked; other iterables are written as they arrive, and the rows before the bad one are kept.
                ``"skip"`` leaves bad rows out; a callable also leaves them out, and gets a `RowError` for
                each.
            extra: ``"ignore"`` ignores keys that the schema lacks; ``"error"`` treats the row as bad, even
                with ``schema_mode="merge"``.

        Returns:
            The number of rows written. Rows of a `repeated` append also count.

        Raises:
            RowError: A row is bad and ``on_error`` is ``"raise"``.
            ConstraintError: A row violates a constraint of the table. It does not count as a bad row: with
                ``"raise"``, no row of a list or a tuple is written; other calls keep the batches before the
                error, of a few megabytes each.
            OptionError: ``on_error`` or ``extra`` is not accepted.
            SchemaError: As in `write`; if the append stays open, no row of this call is kept.
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

        A chunk may end inside a line: the next chunk continues the line, or the commit ends it, and drops it
        if it cannot be written.

        Args:
            source: UTF-8 bytes, or a file object opened for reading bytes.
            on_error: As in `write_rows`: bytes count as a list, and a file counts as another iterable.
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
        """Commit the rows to the table; a ``with`` block does this at its end.

        Args:
            timeout: Seconds to wait; by default, the timeout passed to `Table.append`.

        Returns:
            The version that contains the rows; it survives a crash of the machine.

        Raises:
            RowError: The last line of NDJSON had no line break and is bad, and its call had
                ``on_error="raise"``. The line is dropped, and the append stays open. If the line's row
                violates a constraint, the same happens with a `ConstraintError`.
            CommitUnknown: The timeout passed, or the disk failed to sync the log, and it is not known yet
                whether the rows are in the table. Their files stay; pass `token` to `Table.outcome`.
            KeyboardInterrupt: Ctrl-C was pressed. If `version` is set, the rows are in the table. If `token`
                is set, it is not known yet, and the cause is the `CommitUnknown`. Otherwise they are not in
                the table.
            CommitTimeoutError: The timeout passed; the rows are not in the table.
            CommitConflict: Another transaction conflicts with this one; the rows are not in the table.
            OSError: The file system failed; the rows are not in the table. After a failed sync of the log,
                this process makes no further commits to the table, because a disk reports a failed write only
                once.
            TableNotFoundError: The table was deleted, moved or replaced.
        """
        timer = _CommitTimer(self._native, self._table.root, logging.DEBUG)
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
        """Commit the rows like `commit`, while an asyncio task waits instead of a thread.

        Thousands of tasks can wait at the same time, in any event loop: a few threads serve them all, and
        tasks that wait at the same time share versions, as threads do. Until the call returns, the append
        accepts no rows, and `abort` does nothing.

        Args:
            timeout: As in `commit`.

        Returns:
            As `commit`.

        Raises:
            asyncio.CancelledError: The task was cancelled. The error is raised once the outcome is either
                certain or known to be unknown: `version`, `token` and the cause tell which, as for Ctrl-C in
                `commit`.
            SpillwayError: As in `commit`.
            OSError: As in `commit`, or no thread can be started; in that case the append stays open.

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

        timer = _CommitTimer(self._native, self._table.root, logging.DEBUG)
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
            cancelled.add_note(f"the rows were already committed, in version {version}")
            raise cancelled
        return version

    def detach(self) -> bytes:
        """Complete the data files, and leave their commit to an append of another process.

        That process passes the bytes to ``table.append().attach(part)``, which accepts any number of parts.
        Files that nobody attaches stay in the table's folder, where no reader sees them, until a vacuum.

        Returns:
            The part: the files, their statistics, and the state of the table that they were written for.

        Raises:
            OptionError: The append has `app_id`, `user_metadata` or `coalesce`, which belong to the append
                that commits.
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

        They are committed as if this append had written them, and removed if it is not committed. Each part
        can be attached once. With `app_id`, the commit of a repeated append removes its files.

        Args:
            part: The bytes that `detach` returned.

        Raises:
            OptionError: `part` is not a result of `detach`, belongs to another table, or was already
                attached; or this append has `coalesce`.
            CommitConflict: The table's protocol, schema or partitioning is not the one that the files were
                written for, or it has a constraint that their rows were not checked against: write them
                again.
            SchemaError: The part has columns that the table lacks, and ``schema_mode`` is not ``"merge"``; or
                a column has a different type than in other parts.
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
        message = "it could not be determined whether %s needs a checkpoint after version %d"
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
    if not _native.await_intent_gc(_TIDYING_SECONDS):
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
        _log.exception("no checkpoint of %s was written; readers use the previous one", table.root)
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


class _CommitTimer:
    """The time and the attempts of a commit. Nothing of it does I/O: a commit that is done cannot fail by it.

    Args:
        native: What commits.
        root: The table's path or URL.
        level: The level of the record: ``DEBUG`` for appends, since there may be hundreds a second.
    """

    def __init__(
        self, native: _native.DeltaTable | _native.DeltaAppend, root: str, level: int = logging.INFO
    ) -> None:
        self._native = native
        self._root = root
        self._level = level
        # Nothing is counted for a record that nobody reads.
        self._is_logged = _log.isEnabledFor(level)
        if self._is_logged:
            self._counter = native.commit_counter()
            self._before = 0 if self._counter is None else self._counter.attempts
            self._started = time.perf_counter()

    def log(self, operation: str, version: int) -> None:
        """Log the version, the attempts of this process to write one meanwhile, and the time that it took.

        All threads of a process try as one, and another process may write a version for it: then there may be
        no attempt.
        """
        if not self._is_logged:
            return
        waited = time.perf_counter() - self._started
        # A forked child has one only after its first commit.
        counter = self._counter or self._native.commit_counter()
        attempts = 0 if counter is None else counter.attempts - self._before
        _log.log(
            self._level,
            "%s committed to %s in version %d after %d attempts and %.4f s",
            operation,
            self._root,
            version,
            attempts,
            waited,
        )
