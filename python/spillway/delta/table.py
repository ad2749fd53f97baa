"""`Table`, and the functions `create`, `open` and `write`."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from spillway import _native
from spillway._destination import resolve_folder
from spillway._inputs import opened
from spillway._options import checks_arguments, shows_options
from spillway.delta._expressions import Expressions, check_text, is_expression
from spillway.delta._pyarrow_dataset import dataset_of
from spillway.delta._versions import number_of
from spillway.delta.append import Append, _checkpoint_when_due, _CommitTimer
from spillway.delta.clauses import _check_clauses, _prepared, when_matched_update, when_not_matched_insert
from spillway.delta.scan import Changes, Scan
from spillway.delta.types import (
    CommitStats,
    Compaction,
    Deletion,
    HistoryEntry,
    Merge,
    Outcome,
    ReadSet,
    TableFile,
    Update,
    Vacuum,
)
from spillway.errors import (
    MissingExtraError,
    NotArrowError,
    OptionError,
    TableExistsError,
    TableNotFoundError,
)
from spillway.writer import WriterOptions

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence
    from typing import Unpack

    import polars as pl
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

    from spillway.aio import AsyncAppend
    from spillway.delta.clauses import MergeClause
    from spillway.delta.types import AddFile
    from spillway.types import (
        AppendKeywords,
        ArrowArray,
        ArrowFileSystem,
        ArrowSchema,
        ArrowStream,
        Condition,
        CreateMode,
        Data,
        Extra,
        FsspecFileSystem,
        OnError,
        SchemaMode,
        Value,
        Version,
        WriteMode,
        WriterKeywords,
    )

__all__ = ["Table", "create", "open", "write"]

_TIMEOUT = 300.0
_MOST_VERSIONS = 1 << 63
_DEFAULTS = WriterOptions()
_log = logging.getLogger("spillway.delta")


class Table:
    """An open Delta table; `create` and `open` return one.

    A `Table` shows one version of the table: `version`, `schema` and all other properties describe that
    version, and so do `files`, `scan`, `to_polars` and `to_pyarrow_dataset` unless you pass another one. It
    is the version that was the newest when the table was opened. `refresh` moves on to the newest one, and so
    does the first access after a commit of this `Table`, successful or not. Commits always start from the
    newest version, and `history`, `changes` and `transaction_version` also refer to it.

    Threads can share a `Table`, and threads that open the same table share its committer: their commits are
    combined. A forked child can continue to use it, from the version that is then the newest. Unpickling a
    `Table` opens the table; the pickle contains its ``storage_options``.
    """

    def __init__(self, native: _native.DeltaTable, storage_options: Mapping[str, str] | None = None) -> None:
        self._native = native
        self._storage_options = storage_options

    def __repr__(self) -> str:
        return f"Table({self.path!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _opened, (self.path, self._storage_options)

    @property
    def path(self) -> str:
        """The table's folder, or its URL."""
        return self._native.root

    @property
    def version(self) -> int:
        """The version that this `Table` shows."""
        return self._native.version()

    def refresh(self) -> int:
        """Move on to the newest version, whoever wrote it.

        Returns:
            Its number.

        Raises:
            TableNotFoundError: The table was deleted, moved or replaced.

        Example:
            >>> import pyarrow as pa, spillway.delta
            >>> schema = pa.schema({"id": pa.int64()})
            >>> table = spillway.delta.create("arrivals", schema)
            >>> other = spillway.delta.open("arrivals") # stands for another process
            >>> other.append_rows([{"id": 1}])
            1
            >>> table.version, len(table.files())
            (0, 0)
            >>> table.refresh(), len(table.files())
            (1, 1)
        """
        return self._native.refresh()

    @property
    def schema(self) -> _native.DeltaSchema:
        """The schema of the table, for any Arrow library: ``pyarrow.schema(table.schema)``."""
        return self._native.state()["schema"]

    @property
    def properties(self) -> dict[str, str]:
        """Table properties, such as ``delta.appendOnly``."""
        return self._native.state()["properties"]

    @property
    def partition_columns(self) -> list[str]:
        """The columns by which the table is partitioned, in order."""
        return self._native.state()["partition_columns"]

    @property
    def clustering_columns(self) -> list[str]:
        """The columns by which `optimize` clusters rows, named as in SQL; empty without clustering.

        Raises:
            UnsupportedTableError: The table is clustered by columns that its schema lacks.
        """
        return self._native.clustering_columns()

    @property
    def id(self) -> str:
        """The unique id of the table."""
        return self._native.state()["id"]

    def files(self, version: Version | None = None) -> list[TableFile]:
        """Return the data files of a version; by default of `Table.version`.

        Partition values and statistics use the column names of that version, even in a table with column
        mapping.

        Args:
            version: As in `scan`.

        Raises:
            OptionError: A time has no time zone.
            VersionNotFoundError: The version does not exist, or no longer.
        """
        return [TableFile.of(file) for file in self._native.files(self._number(version))]

    def _number(self, version: Version | None) -> int | None:
        return None if version is None else number_of(version, self._native)

    @checks_arguments
    def scan(
        self,
        columns: str | Sequence[str] | None = None,
        *,
        where: str | Sequence[Condition] | None = None,
        version: Version | None = None,
    ) -> Scan:
        """Plan a scan of rows: ``pyarrow.table(table.scan(["time"], where="service = 'api'"))``.

        The conditions filter rows, not only files. Rows that a deletion vector marks as deleted are left out.
        A comparison with null is never true; NaN equals NaN and is greater than all other numbers. In a
        tuple, the value for a ``float`` column is first rounded to single precision; SQL compares in double
        precision, as Spark does.

        Args:
            columns: The column to read, or several, in this order; by default all. In a table with
                ``delta.enableRowTracking``, they may include ``"_metadata.row_id"``, the id of each row, and
                ``"_metadata.row_commit_version"``, the version that last changed it, as in Spark.
            where: A condition in SQL that is true for every returned row; the guide describes the supported
                SQL. Or a list of conditions that must all hold: column, operator (``=``, ``!=``, ``<``,
                ``<=``, ``>``, ``>=``, ``in``) and value. None is allowed with ``=`` and ``!=``. Lists do not
                support decimals, binary values and nested columns; SQL supports fields of structs and
                decimals.
            version: The version to read: its number, or a time at which it was the newest, as a datetime with
                a time zone or a string such as ``"2026-11-20T12:00:00Z"``. By default, `Table.version`.

        Raises:
            OptionError: SQL cannot be parsed (the message shows the position); a condition is malformed, or
                its value does not fit its column; a time has no time zone.
            SchemaError: The table lacks a column, or its rows have no ids.
            UnsupportedTableError: The table has a column mapping that its protocol does not name, or a file
                with an absolute path. A deletion vector outside the table's folder raises it when its file is
                read.
            VersionNotFoundError: The version does not exist, or no longer; or the time is before the first
                version that can be read, or after the newest.

        Example:
            >>> import pyarrow as pa, spillway.delta
            >>> schema = pa.schema({"id": pa.int64(), "shop": pa.string()})
            >>> table = spillway.delta.create("sales", schema)
            >>> with table.append() as append:
            ...     append.write(pa.table({"id": [1, 2, 3], "shop": ["x", "y", None]}))
            >>> pa.table(table.scan(["id"], where="shop = 'y' OR shop IS NULL"))["id"].to_pylist()
            [2, 3]
        """
        names = None if columns is None else _names(columns)
        return Scan(
            self._native.scan(
                names, _conditions(() if where is None else where, "where"), self._number(version)
            )
        )

    @checks_arguments
    def to_polars(self, *, version: Version | None = None) -> pl.LazyFrame:
        """Return a polars LazyFrame whose query decides what is read.

        Only the columns that the query needs are read, and only files, row groups and pages that may contain
        rows of its ``filter``. Comparisons, ``is_in``, ``is_between``, ``is_null`` and combinations of them
        are passed to the scan if it compares the values as polars does; polars applies other filters. Reading
        stops after the rows of a ``head``. Rows that deletion vectors mark as deleted are left out, as in
        `scan`.

        Args:
            version: As in `scan`. The frame shows this version, whenever it is collected.

        Raises:
            MissingExtraError: polars or pyarrow is not installed.
            SpillwayError: As `scan`.

        Example:
            >>> import polars as pl, pyarrow as pa, spillway.delta
            >>> table = spillway.delta.create("trips", pa.schema({"id": pa.int64(), "km": pa.float64()}))
            >>> table.append_rows([{"id": 1, "km": 2.5}, {"id": 2, "km": 40.0}])
            1
            >>> table.to_polars().filter(pl.col("km") > 10).select("id").collect().rows()
            [(2,)]
        """
        number = self._number(version)
        try:
            from spillway.delta._polars import lazy_frame  # noqa: PLC0415 - loaded only if asked for
        except ImportError as error:
            raise MissingExtraError("polars", "bench", "make a LazyFrame") from error
        return lazy_frame(self, self.version if number is None else number)

    @checks_arguments
    def to_pyarrow_dataset(
        self,
        *,
        version: Version | None = None,
        filesystem: ArrowFileSystem | FsspecFileSystem | None = None,
    ) -> ds.FileSystemDataset:
        """Return a pyarrow dataset of the files of a version, for libraries that read such datasets.

        Each file has an expression of its partition values and the bounds of its columns, which pyarrow uses
        to skip files. A version with deletion vectors is refused, because pyarrow would return the deleted
        rows, and so is one with column mapping, because pyarrow would not find the columns: use `scan` for
        both. pyarrow does not convert dates and times: those before 1582-10-15 that Spark 2 wrote are off by
        days, which `scan` corrects.

        Args:
            version: As in `scan`.
            filesystem: A file system of pyarrow or fsspec whose root is the table. A table in an object store
                needs one; a folder does not.

        Raises:
            MissingExtraError: pyarrow is not installed.
            OptionError: The table is in an object store, and `filesystem` is missing.
            UnsupportedTableError: The table has column mapping, deletion vectors, or a partition value that
                pyarrow cannot represent, such as a date in the year 10000.
            SpillwayError: As `scan`.

        Example:
            >>> import pyarrow as pa, pyarrow.dataset as ds, spillway.delta
            >>> schema = pa.schema({"id": pa.int64(), "shop": pa.string()})
            >>> table = spillway.delta.create("tills", schema, partition_by="shop")
            >>> table.append_rows([{"id": 1, "shop": "x"}, {"id": 2, "shop": "y"}])
            1
            >>> table.to_pyarrow_dataset().to_table(filter=ds.field("shop") == "y")["id"].to_pylist()
            [2]
        """
        return dataset_of(self.scan(version=version), self.path, filesystem)

    @checks_arguments
    def changes(
        self,
        first_version: int,
        last_version: int | None = None,
        columns: str | Sequence[str] | None = None,
    ) -> Changes:
        """Plan a scan of the rows that versions changed: ``pyarrow.table(table.changes(3))``.

        The table needs ``delta.enableChangeDataFeed`` in all of these versions. The feed follows "Change Data
        Files" and "Add CDC File" in Delta's PROTOCOL.md. Rows have the columns of the last version, and
        columns are nullable if any row in the range may be null. A compaction changes no rows.

        If a version replaces the schema, one call cannot read versions before and after it. It may be the
        first of a range: in the rows that it deleted, columns are null if they did not exist, or held values
        that do not fit.

        Args:
            first_version: The first version whose changes are read.
            last_version: The last version; by default, the newest.
            columns: The table's column to read, or several, in this order; by default all. The columns of the
                feed follow them.

        Raises:
            OptionError: The table had no change data feed in one of the versions, which the message names; or
                the last version cannot hold the rows of an earlier one, and the message names the ranges that
                can be read; or the first version is after the last.
            SchemaError: The table lacks a column.
            UnsupportedTableError: The table has column mapping.
            VersionNotFoundError: A version does not exist, or its changes can no longer be read; the message
                names the first version whose changes can.

        Example:
            >>> import pyarrow as pa, spillway.delta
            >>> feed = {"delta.enableChangeDataFeed": "true"}
            >>> table = spillway.delta.create("seats", pa.schema({"id": pa.int64()}), properties=feed)
            >>> with table.append() as append:
            ...     append.write(pa.table({"id": [1, 2]}))
            >>> table.update([("id", "=", 2)], {"id": 3})
            Update(version=2, rows=1)
            >>> changes = pa.table(table.changes(2, columns=["id"]))
            >>> sorted(zip(changes["id"].to_pylist(), changes["_change_type"].to_pylist()))
            [(2, 'update_preimage'), (3, 'update_postimage')]
        """
        names = None if columns is None else _names(columns)
        given: dict[str, Any] = {"first_version": first_version, "last_version": last_version}
        for option, version in given.items():
            if isinstance(version, str | datetime):
                message = (
                    f"{option}={version!r} is not accepted: give the number of a version, which `history` has"
                )
                raise OptionError(message, option)
        return Changes(self._native.changes(first_version, last_version, names))

    def history(self, limit: int | None = None) -> list[HistoryEntry]:
        """Return the history of the table, newest version first, as far back as the log goes.

        Args:
            limit: The most versions; None for all.

        Raises:
            OptionError: `limit` is negative.
        """
        if limit is not None and limit < 0:
            raise OptionError(f"limit={limit} is not accepted: give 0 or more, or None for all", "limit")
        entries = []
        for version, millis, text in self._native.history(
            None if limit is None else min(limit, _MOST_VERSIONS)
        ):
            info = json.loads(text) or {}
            timestamp = info.get("timestamp") if millis is None else millis
            entries.append(HistoryEntry(version, timestamp, info.get("operation"), info))
        return entries

    def transaction_version(self, app_id: str) -> int | None:
        """Return the ``app_version`` of an application's last append, or None if it has not appended."""
        return self._native.transaction_version(app_id)

    @checks_arguments
    @shows_options(WriterOptions)
    def append(  # noqa: PLR0913 - each is one thing to say about an append
        self,
        *,
        app_id: str | None = None,
        app_version: int | None = None,
        schema_mode: SchemaMode | None = None,
        timeout: float | None = _TIMEOUT,
        user_metadata: str | None = None,
        max_file_bytes: int | None = None,
        max_file_rows: int | None = None,
        coalesce: bool = False,
        **options: Unpack[WriterKeywords],
    ) -> Append:
        """Begin an append: a context manager that takes rows, and commits them when its block ends.

        Args:
            app_id: The application's id. Together with `app_version` it makes the append idempotent: rows are
                not written again if the table has reached that number.
            app_version: The application's number for these rows.
            schema_mode: ``"merge"`` adds new columns, and new fields of structs at any depth.
            timeout: Seconds that the commit may take; None waits forever.
            user_metadata: A note for the history.
            max_file_bytes: Maximum size of a data file; by default ``delta.targetFileSize``, or 1 GiB.
            max_file_rows: Rows of a data file.
            coalesce: True lets appends of this process that commit at the same time share data files, one per
                partition, and an entry of the history. Use it for many small appends: rows stay in memory
                until the commit writes them, and an append of more than 4 MiB gets separate files. Cannot be
                combined with `app_id`.
            **options: The fields of `WriterOptions`, for the files.

        Raises:
            OptionError: An option has a value that is not accepted.
            UnsupportedTableError: The table needs a writer feature that is not supported.

        Example:
            >>> import pyarrow as pa, spillway.delta
            >>> table = spillway.delta.create("clicks", pa.schema({"id": pa.int64()}))
            >>> with table.append() as append:
            ...     append.write(pa.table({"id": [1, 2, 3]}))
            >>> append.version
            1
        """
        return self._append(
            app_transaction=_app_transaction(app_id, app_version),
            schema_mode=schema_mode,
            timeout=timeout,
            user_metadata=user_metadata,
            limits=(max_file_bytes, max_file_rows),
            coalesce=coalesce,
            options=WriterOptions(**options) if options else _DEFAULTS,
        )

    def append_async(self, **keywords: Unpack[AppendKeywords]) -> AsyncAppend:
        """Begin an append for an asyncio task: ``async with`` begins it, and its calls are awaited.

        Args:
            **keywords: The keyword arguments of `append`. Entering the block raises its errors.

        Example:
            >>> import asyncio, pyarrow as pa, spillway.delta
            >>> table = spillway.delta.create("steps", pa.schema({"id": pa.int64()}))
            >>> async def one(number):
            ...     async with table.append_async(coalesce=True) as append:
            ...         await append.write_rows([{"id": number}])
            ...     return append.version
            >>> async def many():
            ...     return await asyncio.gather(*map(one, range(100)))
            >>> max(asyncio.run(many())) < 100
            True
        """
        # Programs without asyncio do not load it.
        from spillway.aio import AsyncAppend  # noqa: PLC0415

        return AsyncAppend(partial(self.append, **keywords))

    def append_rows(
        self,
        rows: Iterable[dict[str, Any]],
        *,
        on_error: OnError = "raise",
        extra: Extra = "error",
        **keywords: Unpack[AppendKeywords],
    ) -> int:
        """Append dicts, one for each row, and commit them in one call.

        If many threads append few rows each, use ``coalesce=True``: appends that commit at the same time then
        also share a data file.

        Args:
            rows: As `Append.write_rows`.
            on_error: As `Append.write_rows`.
            extra: As `Append.write_rows`.
            **keywords: The keyword arguments of `append`.

        Returns:
            The version that contains the rows; without rows, the version that was read.

        Raises:
            RowError: A row is bad and ``on_error`` is ``"raise"``; nothing is committed.
            SpillwayError: As `append`, `Append.write_rows` and `Append.commit`.
            OSError: As `Append.commit`.

        Example:
            >>> import pyarrow as pa, spillway.delta
            >>> table = spillway.delta.create("notes", pa.schema({"id": pa.int64(), "text": pa.string()}))
            >>> table.append_rows([{"id": 1, "text": "first"}, {"id": 2}])
            1
        """
        with self.append(**keywords) as append:
            append.write_rows(rows, on_error=on_error, extra=extra)
            return append.commit()

    def _append(  # noqa: PLR0913 - see `append`
        self,
        *,
        app_transaction: tuple[str, int] | None = None,
        schema_mode: str | None = None,
        replace: str | Sequence[Condition] | None = None,
        timeout: float | None = _TIMEOUT,
        user_metadata: str | None = None,
        limits: tuple[int | None, int | None] = (None, None),
        coalesce: bool = False,
        folder: str | None = None,
        options: WriterOptions = _DEFAULTS,
    ) -> Append:
        if schema_mode not in {None, "merge"}:
            message = f'schema_mode={schema_mode!r} is not accepted: choose None or "merge"'
            raise OptionError(message, "schema_mode", ["merge"])
        native = self._native.append(
            options,
            schema_mode == "merge",
            app_transaction,
            None if replace is None else _conditions(replace, "where"),
            user_metadata,
            *limits,
            coalesce,
            folder,
        )
        return Append(native, self._native, timeout)

    def outcome(self, token: str, *, timeout: float | None = _TIMEOUT) -> Outcome:
        """Resolve a commit whose outcome is unknown, and cancel it if it is pending.

        If the disk failed to sync the log, the process that got this error always returns "pending": call
        this from another process once the disk is known to be sound.

        Args:
            token: The ``token`` of a `CommitUnknown`, from this process or another.
            timeout: Seconds to wait for the store.

        Raises:
            OptionError: `token` is not a token, or it is that of another table.
        """
        status, version = self._native.outcome(token, timeout)
        return Outcome(status, version)

    @checks_arguments
    def commit(  # noqa: PLR0913 - what a transaction is
        self,
        *,
        adds: Sequence[AddFile] = (),
        removes: Sequence[str] = (),
        read: ReadSet | None = None,
        operation: str = "WRITE",
        user_metadata: str | None = None,
        timeout: float | None = _TIMEOUT,
    ) -> int:
        """Commit files that the caller wrote, and removals of files, as one transaction.

        Args:
            adds: Files to add to the table.
            removes: Files to remove from it, as in `TableFile.path`.
            read: The part of the table on which the caller's decision is based; nothing by default. A
                transaction with a `read` or with removals fails on every conflict with a version after the
                one that was read.
            operation: The name of the operation, for the history.
            user_metadata: A note for the history.
            timeout: Seconds that it may take; None waits forever.

        Returns:
            The version that holds it.

        Raises:
            AppendOnlyError: The table has ``delta.appendOnly``, and rows would be removed. Use
                ``data_change=False`` for files with the same rows as those that they replace.
            CommitConflict: A concurrent transaction changed files that were read or are to be removed.
            ConstraintError: A row of an added file violates a constraint; added files are read for this
                check.
            DeltaError: The size of an added file differs from `AddFile.size`.
            OptionError: A removed file is not in the table; or an added file is already in it, or has null in
                a column that allows none, or lacks statistics on a clustering column, or lacks
                ``numRecords`` although rows have ids; or the path of an added file is not a relative URI
                reference; or a condition of `read` is malformed.
            UnsupportedTableError: The table needs a writer feature that is not supported; or it has a
                change data feed, and files with other rows would replace files; or it has
                row tracking, and a file has ``data_change=False``; or it has column mapping, and a file is
                added.
            VersionNotFoundError: The version that was read does not exist, or no longer.
        """
        read = read or ReadSet()
        now = time.time_ns() // 1_000_000
        timer = self._timer()
        version = self._native.commit(
            [_added(file, now) for file in adds],
            list(removes),
            read.version,
            read.whole_table,
            list(read.files),
            _conditions(read.where, "where"),
            operation,
            user_metadata,
            timeout,
        )
        return self._committed(operation, timer, version)

    def delete_partition(self, *, timeout: float | None = _TIMEOUT, **values: Value) -> int:
        """Remove all rows of the partitions with these values; None is null.

        Returns:
            The version without them.

        Raises:
            OptionError: A name is not that of a partition column, or a value does not have its type.
            CommitConflict: A concurrent transaction added or removed rows there.
            AppendOnlyError: The table has ``delta.appendOnly``.

        Example:
            >>> table.delete_partition(day="2026-11-20")  # doctest: +SKIP
            17
        """
        if not values:
            raise OptionError(
                "delete_partition() without a column would remove every row: call truncate() for that"
            )
        given = [(column, "=", [value]) for column, value in values.items()]
        return self._committed("DELETE", self._timer(), self._native.delete(given, timeout))

    @checks_arguments
    @shows_options(WriterOptions)
    def delete(
        self,
        where: str | Sequence[Condition],
        *,
        user_metadata: str | None = None,
        timeout: float | None = _TIMEOUT,
        **options: Unpack[WriterKeywords],
    ) -> Deletion:
        """Delete the rows for which all conditions hold: those that `scan` returns with the same conditions.

        A row for which a condition is null stays. Files are skipped as in `scan`. A file whose rows are all
        deleted is removed from the table. In a table with ``delta.enableDeletionVectors``, other rows are
        marked in a deletion vector, unless they are more than half of the rows that were written to their
        file. In that case, and in other tables, the file is rewritten without them.

        Concurrent deletes that mark different rows of one file all commit. If an `optimize` or a `purge`
        commits first, the delete finds its rows in the new files and commits.

        Args:
            where: The condition that selects the rows to delete, as in `scan`: SQL, or a list of column,
                operator and value.
            user_metadata: A note for the history.
            timeout: Seconds that the commit may take, without finding the rows and writing files; None waits
                for ever.
            **options: The fields of `WriterOptions`, for rewritten files.

        Returns:
            The version without the rows, and their number.

        Raises:
            AppendOnlyError: The table has ``delta.appendOnly``.
            CommitConflict: A concurrent transaction added such rows, deleted one of them, or changed a file
                with such rows other than by marking rows.
            CommitTimeoutError: The timeout passed, and the rows are certainly still in the table.
            CommitUnknown: It is not known whether the rows are deleted; `outcome` with the token resolves it.
            OptionError: There is no condition, SQL cannot be parsed, or a value does not fit its column.
            UnsupportedTableError: The table needs a writer feature that is not supported.

        Example:
            >>> import pyarrow as pa, spillway.delta
            >>> schema = pa.schema({"id": pa.int64()})
            >>> marks = {"delta.enableDeletionVectors": "true"}
            >>> table = spillway.delta.create("orders", schema, properties=marks)
            >>> with table.append() as append:
            ...     append.write(pa.table({"id": [1, 2, 3]}))
            >>> table.delete("id = 2 OR id > 5")
            Deletion(version=2, rows=1)
        """
        conditions = _conditions(where, "where")
        if not conditions:
            message = "delete() without a condition would delete every row: call truncate() for that"
            raise OptionError(message, "where")
        writer_options = WriterOptions(**options) if options else _DEFAULTS
        timer = self._timer()
        done = self._native.delete_rows(conditions, writer_options, user_metadata, timeout)
        version, _, _, deleted = self._changed("DELETE", timer, done)
        return Deletion(version, deleted)

    @checks_arguments
    @shows_options(WriterOptions)
    def update(
        self,
        where: str | Sequence[Condition],
        set: Mapping[str, Any],  # noqa: A002 - SQL's word
        *,
        user_metadata: str | None = None,
        timeout: float | None = _TIMEOUT,
        **options: Unpack[WriterKeywords],
    ) -> Update:
        """Set columns of the rows for which all conditions hold: those that `scan` returns with them.

        The old rows are removed from their files as by `delete`. The rows with new values go to new files, in
        another partition if a partition column is set. Both happen in one version.

        Concurrent updates and deletes that mark different rows of one file all commit, unless the new rows of
        one may satisfy the conditions of another, judged by the smallest and largest values in their files.

        Args:
            where: The condition that selects the rows to update, as in `scan`: SQL, or a list; an empty list
                selects every row.
            set: The new values by column. A Python value is converted as in `ParquetWriter.write_rows`; None
                is null. A ``pyarrow.compute`` expression is evaluated over the old rows. Its values follow
                the same rules as appended values: a value that the column's type cannot hold exactly is
                refused, such as a time of day in a date column. Double-precision numbers are rounded for a
                ``float`` column. Use ``cast`` and ``pyarrow.compute.round`` to convert other values.
            user_metadata: A note for the history.
            timeout: Seconds that the commit may take, without finding the rows and writing files; None waits
                for ever.
            **options: The fields of `WriterOptions`, for the new files.

        Returns:
            The version with the new values, and the number of updated rows.

        Raises:
            AppendOnlyError: The table has ``delta.appendOnly``.
            CommitConflict: A concurrent transaction added rows for which the conditions hold, deleted or
                updated one of these rows, or changed a file with such rows other than by marking rows.
            CommitTimeoutError: The timeout passed, and the rows are certainly unchanged.
            CommitUnknown: It is not known whether the rows are updated; `outcome` with the token resolves it.
            ConstraintError: An updated row violates a constraint.
            OptionError: Nothing is set, a condition does not fit its column, pyarrow cannot evaluate an
                expression, or a value of an expression does not fit its column.
            SchemaError: The table lacks a column that is set, or a Python value does not fit its column.
            UnsupportedTableError: The table needs a writer feature that is not supported, such as
                generated columns.

        Example:
            >>> import pyarrow as pa, pyarrow.compute as pc, spillway.delta
            >>> schema = pa.schema({"id": pa.int64(), "price": pa.float64()})
            >>> table = spillway.delta.create("prices", schema)
            >>> with table.append() as append:
            ...     append.write(pa.table({"id": [1, 2], "price": [10.0, 20.0]}))
            >>> table.update("id = 2", {"price": pc.field("price") * 1.5})
            Update(version=2, rows=1)
        """
        conditions = _conditions(where, "where")
        if not isinstance(set, Mapping):
            raise TypeError(f'set is {set!r}: give new values by column, such as {{"status": "done"}}')
        if not set:
            raise OptionError('set names no column: give new values, such as {"status": "done"}', "set")
        writer_options = WriterOptions(**options) if options else _DEFAULTS
        literals = {name: value for name, value in set.items() if not is_expression(value)}
        expressions = {name: value for name, value in set.items() if is_expression(value)}
        evaluate = [self._new_values(expressions)] if expressions else []
        timer = self._timer()
        done = self._native.update_rows(
            conditions, literals, list(expressions), evaluate, writer_options, user_metadata, timeout
        )
        version, _, updated, _ = self._changed("UPDATE", timer, done)
        return Update(version, updated)

    def _new_values(self, expressions: Mapping[str, pc.Expression]) -> Expressions:
        """The expressions of an update, which were evaluated over no rows."""
        import pyarrow as pa  # noqa: PLC0415 - for those alone who have expressions

        # The update is of the newest version.
        given: Any = self._native.newest_schema()
        found = Expressions("set has an expression for {}", "set", expressions)
        found.check_types(pa.schema(given).empty_table(), given)
        return found

    @checks_arguments
    @shows_options(WriterOptions)
    def merge(
        self,
        source: ArrowStream | ArrowArray,
        on: str | Sequence[str],
        *clauses: MergeClause,
        user_metadata: str | None = None,
        timeout: float | None = _TIMEOUT,
        **options: Unpack[WriterKeywords],
    ) -> Merge:
        """Merge rows into the table by key: clauses say which rows to update, insert and delete.

        Without clauses, matched rows of the table are updated, and unmatched source rows are inserted.

        A row of the table and a row of `source` match if their values in the columns `on` are equal. A null
        matches nothing, and NaN equals NaN. Clauses say what to do with rows that match and with rows that do
        not. Among clauses of one kind, the first whose condition is true applies. The merge creates one
        version.

        The source is held in memory. Files of the table that, by partition values and statistics, cannot
        contain any of its keys are not read, unless there is a clause ``when_not_matched_by_source_...``.
        Rows are removed from their files as by `delete`. Updated and inserted rows go to new files.

        Merges, updates and deletes that mark different rows of one file all commit, unless a key may be among
        the new rows of another, judged by the smallest and largest values in their files. If two concurrent
        merges insert or update the same key, the later one raises a conflict.

        Args:
            source: The rows: anything with ``__arrow_c_stream__`` or ``__arrow_c_array__``, such as a polars
                or Spark DataFrame.
            on: One or several columns whose values are the key. Nested columns are not supported.
            *clauses: Results of `when_matched_update`, `when_matched_delete`, `when_not_matched_insert`,
                `when_not_matched_by_source_update` and `when_not_matched_by_source_delete`. By default,
                ``when_matched_update()`` and ``when_not_matched_insert()``. Only the last clause of a kind
                may omit its condition.
            user_metadata: A note for the history.
            timeout: Seconds that the commit may take, without finding the rows and writing files; None waits
                for ever.
            **options: The fields of `WriterOptions`, for the new files.

        Returns:
            The version that contains the merge, and the numbers of inserted, updated and deleted rows.

        Raises:
            AppendOnlyError: The table has ``delta.appendOnly``, and rows would be updated or deleted.
            CommitConflict: A concurrent transaction added rows with one of the keys, changed a matched row,
                or changed its file other than by marking rows; with ``when_not_matched_by_source_...``, it
                added any rows. Plain appends count only under ``Serializable``, the default.
            CommitTimeoutError: The timeout passed, and the table is certainly unchanged.
            CommitUnknown: It is not known whether the rows are merged; `outcome` with the token resolves it.
            ConstraintError: An updated or inserted row violates a constraint.
            NotArrowError: `source` is not Arrow data.
            OptionError: Several source rows would change one row of the table, other than by deleting it; or
                `on` or a clause names an unknown column, or has an expression that does not fit.
            SchemaError: Source rows or new values do not fit the table.
            UnsupportedTableError: The table needs a writer feature that is not supported, such as
                generated columns.

        Example:
            >>> import pyarrow as pa, pyarrow.compute as pc, spillway.delta
            >>> table = spillway.delta.create("stock", pa.schema({"id": pa.int64(), "left": pa.int64()}))
            >>> table.merge(pa.table({"id": [1, 2], "left": [5, 5]}), "id")
            Merge(version=1, inserted=2, updated=0, deleted=0)
            >>> sold, left = pc.field("source.sold"), pc.field("target.left")
            >>> table.merge(
            ...     pa.table({"id": [1, 2], "sold": [5, 1]}),
            ...     "id",
            ...     spillway.delta.when_matched_delete(where=sold >= left),
            ...     spillway.delta.when_matched_update({"left": left - sold}),
            ... )
            Merge(version=2, inserted=0, updated=1, deleted=1)
        """
        keys = [on] if isinstance(on, str) else list(on)
        if isinstance(source, list) and all(isinstance(row, dict) for row in source):
            raise NotArrowError("merge takes Arrow data, not dicts: give pyarrow.Table.from_pylist(rows)")
        chosen = clauses or (when_matched_update(), when_not_matched_insert())
        _check_clauses(chosen)
        writer_options = WriterOptions(**options) if options else _DEFAULTS
        _native.check_delta_options(writer_options)
        # A DataFrame of Spark: its own stream refuses timestamps (PySpark 4.2), and takes partitions in turn.
        collect = getattr(source, "toArrow", None)
        rows = _native.RowSource(source if collect is None else collect())
        # The merge is of the newest version.
        schema = self._native.newest_schema()
        if condition := next((key for key in keys if "=" in key and key not in schema.names), None):
            message = (
                f"on={condition!r} is not accepted: give the names of columns that both sides have, such as "
                'on="id", and no condition'
            )
            raise OptionError(message, "on")
        given, evaluate = _prepared(chosen, keys, schema, rows)
        timer = self._timer()
        done = self._native.merge_rows(rows, keys, given, evaluate, writer_options, user_metadata, timeout)
        return Merge(*self._changed("MERGE", timer, done))

    def _changed(
        self, operation: str, timer: _CommitTimer, done: tuple[int, int, int, int, bool]
    ) -> tuple[int, int, int, int]:
        """The version of a change, and the rows that it inserted, updated and deleted."""
        version, inserted, updated, deleted, is_new = done
        if is_new:
            self._committed(operation, timer, version)
        return version, inserted, updated, deleted

    def cluster_by(self, columns: str | Sequence[str] | None, *, timeout: float | None = _TIMEOUT) -> int:
        """Change the columns by which `optimize` clusters rows. No row is rewritten.

        Rows with similar values in these columns go to the same row groups, so a scan with conditions on any
        of the columns reads few row groups. Files that were clustered by other columns stay as they are.

        Args:
            columns: One column, or up to four of equal weight: numbers, strings, dates or timestamps with
                statistics in all files. A field of a struct is ``"group.x"``. None stops the clustering.
            timeout: Seconds that it may take; None waits forever.

        Returns:
            The version with the new columns.

        Raises:
            CommitConflict: A concurrent transaction changed them, the schema, the properties or the protocol.
            OptionError: The table is partitioned, or cannot be clustered by a column; or a file lacks
                statistics on the column.
            UnsupportedTableError: The table needs a writer feature that is not supported.

        Example:
            >>> import pyarrow as pa, spillway.delta
            >>> schema = pa.schema({"host": pa.string(), "latency": pa.float64()})
            >>> table = spillway.delta.create("requests", schema)
            >>> table.cluster_by(["host", "latency"])
            1
            >>> table.clustering_columns
            ['host', 'latency']
        """
        return self._committed("CLUSTER BY", self._timer(), self._native.cluster_by(_names(columns), timeout))

    def set_properties(
        self, properties: Mapping[str, str | bool | int | None], *, timeout: float | None = _TIMEOUT
    ) -> int:
        """Set table properties, and remove those whose value is None, in one version.

        A property that needs a feature, such as ``delta.enableDeletionVectors``, enables it. If the property
        is removed or set to ``"false"``, the feature stays in the protocol. Names that do not begin with
        ``delta.`` are free for the caller's use.

        Before ``delta.enableRowTracking`` is set on a table with rows, the rows get ids: one version adds the
        feature, and one version for each 2,000 files adds these again with ids. No file is rewritten, and
        appends and deletes continue. If a call is interrupted, call it again: it continues from there.

        Args:
            properties: Values by name. ``True`` stands for ``"true"``, and 7 for ``"7"``.
            timeout: Seconds that it may take, including the assignment of ids; None waits forever.

        Returns:
            The version with the new properties; the newest version if nothing changes.

        Raises:
            CommitConflict: A concurrent transaction changed the schema, the properties or the protocol, and
                not in the same way as this call.
            OptionError: Delta has no such property, or the property does not accept the value; or a property
                is a constraint.
            UnsupportedTableError: A property, or the table, needs an unsupported feature.

        Example:
            >>> import pyarrow as pa, spillway.delta
            >>> table = spillway.delta.create("sessions", pa.schema({"id": pa.int64()}))
            >>> table.set_properties({"delta.appendOnly": "true", "team": "web"})
            1
            >>> table.set_properties({"team": None})
            2
            >>> table.properties
            {'delta.appendOnly': 'true'}
        """
        return self._committed(
            "SET TBLPROPERTIES", self._timer(), self._native.set_properties(_texts(properties), timeout)
        )

    @property
    def constraints(self) -> dict[str, str]:
        """The CHECK constraints of the table: conditions in SQL, by name."""
        prefix = "delta.constraints."
        return {
            name[len(prefix) :]: value
            for name, value in self.properties.items()
            if name.lower().startswith(prefix)
        }

    def add_constraint(self, name: str, expression: str, *, timeout: float | None = _TIMEOUT) -> int:
        """Add a CHECK constraint: a condition that every existing and future row must satisfy.

        All rows of the table are checked first. From then on, Spillway, Spark and delta-rs refuse rows for
        which the condition is false or null; Spillway raises `ConstraintError`.

        Args:
            name: Letters, digits and underscores, in any case; it is stored in lower case.
            expression: A condition in SQL: comparisons of columns with literals or other columns, ``IS
                NULL``, ``IN`` and ``BETWEEN``, with ``AND``, ``OR``, ``NOT`` and parentheses. Put backquotes
                around a column whose name is a reserved word of SQL, or has characters other than letters,
                digits and underscores. A field of a struct is ``group.x``.
            timeout: Seconds that the commit may take, not counting the check of existing rows; None waits
                forever.

        Returns:
            The version that adds the constraint.

        Raises:
            CommitConflict: A concurrent transaction added or removed rows, or changed the schema, the
                properties or the protocol.
            ConstraintError: A row of the table violates it.
            OptionError: The table already has a constraint of this name, or the expression cannot be parsed.
            UnsupportedTableError: The table needs a writer feature that is not supported.

        Example:
            >>> import pyarrow as pa, spillway.delta
            >>> schema = pa.schema({"id": pa.int64(), "status": pa.int16()})
            >>> table = spillway.delta.create("answers", schema)
            >>> table.add_constraint("known_status", "status BETWEEN 100 AND 599")
            1
            >>> table.constraints
            {'known_status': 'status BETWEEN 100 AND 599'}
        """
        return self._committed(
            "ADD CONSTRAINT", self._timer(), self._native.add_constraint(name, expression, timeout)
        )

    def drop_constraint(self, name: str, *, timeout: float | None = _TIMEOUT) -> int:
        """Drop a CHECK constraint, even one that Spillway does not support.

        Args:
            name: Its name, case-insensitive.
            timeout: Seconds that it may take; None waits forever.

        Returns:
            The version without it.

        Raises:
            CommitConflict: A concurrent transaction changed the schema, the properties or the protocol.
            OptionError: The table has no such constraint.
            UnsupportedTableError: The table needs a writer feature that is not supported.
        """
        return self._committed("DROP CONSTRAINT", self._timer(), self._native.drop_constraint(name, timeout))

    @checks_arguments
    @shows_options(WriterOptions)
    def optimize(
        self,
        *,
        target_file_bytes: int | None = None,
        where: str | Sequence[Condition] | None = None,
        user_metadata: str | None = None,
        timeout: float | None = _TIMEOUT,
        **options: Unpack[WriterKeywords],
    ) -> Compaction:
        """Rewrite the small files of each partition as few large ones, without their deleted rows.

        No row changes. Files of at least `target_file_bytes` stay as they are, unless more than 5 % of their
        rows are deleted (delta-spark's ``optimize.maxDeletedRowsRatio``); so a second call does nothing, and
        creates no version. Files that are written in the meantime are left for the next call. The order of
        rows is kept, and files are combined in the order in which they were written.

        In a table with `clustering_columns`, files of any size that are not clustered yet are rewritten with
        their rows along a Hilbert curve through these columns. Files are sorted in groups of about 512 MiB of
        rows in memory, with at most 1 GiB at a time. A group that is at least half full is not rewritten
        again.

        It does not conflict with appends, in either direction. Rows that a concurrent delete marks in the old
        files are marked in the new ones. If a file is removed or replaced in the meantime, the files that
        were to be combined with it stay as they are.

        It creates one version, or one for about 16 GiB of old files or for each group, so a crash loses no
        more work than that. If the new files are much smaller than the old ones, some of them are combined
        once more.

        Args:
            target_file_bytes: Approximate size of a new file; by default ``delta.targetFileSize``, or 128
                MiB.
            where: Conditions on partition columns, which select the files: SQL, or a list of column, operator
                and value, as in `scan`.
            user_metadata: A note for the history.
            timeout: Seconds that each commit may take, not counting the writing of files; None waits forever.
            **options: The fields of `WriterOptions`, for the new files. Rows are not sorted by other columns:
                ``sorting="sort"`` is not accepted. Row groups of clustered files have at most 32,768 rows.

        Raises:
            CommitConflict: A concurrent transaction changed the schema, the properties or the protocol.
            CommitTimeoutError: The timeout passed, and the files are certainly unchanged.
            CommitUnknown: It is not known whether the new files are in the table; `outcome` with the token
                resolves it.
            OptionError: A condition names a column that is not a partition column, or an option has a value
                that is not accepted.
            UnsupportedTableError: The table needs a writer feature that is not supported, or is clustered
                by columns that its schema lacks.

        Example:
            >>> import pyarrow as pa, spillway.delta
            >>> table = spillway.delta.create("visits", pa.schema({"id": pa.int64()}))
            >>> for id in range(3):
            ...     with table.append() as append:
            ...         append.write(pa.table({"id": [id]}))
            >>> done = table.optimize()
            >>> done.version, done.removed_files, done.added_files
            (4, 3, 1)
        """
        return self._compact(where, options, user_metadata, timeout, target_file_bytes=target_file_bytes)

    @checks_arguments
    @shows_options(WriterOptions)
    def purge(
        self,
        *,
        where: str | Sequence[Condition] | None = None,
        user_metadata: str | None = None,
        timeout: float | None = _TIMEOUT,
        **options: Unpack[WriterKeywords],
    ) -> Compaction:
        """Rewrite all files with deleted rows, without these rows.

        This is delta-spark's ``REORG TABLE ... APPLY (PURGE)``. No row of the table changes. Each file is
        rewritten separately. `vacuum` removes the old files, and with them the deleted rows, once older
        versions no longer need them. Rows that a concurrent delete marks in the meantime are marked in the
        new files, and another call purges them. Otherwise this is like `optimize`.

        Args:
            where: As `optimize`.
            user_metadata: As `optimize`.
            timeout: As `optimize`.
            **options: As `optimize`.

        Raises:
            SpillwayError: As `optimize`.

        Example:
            >>> import pyarrow as pa, spillway.delta
            >>> marks = {"delta.enableDeletionVectors": "true"}
            >>> table = spillway.delta.create("people", pa.schema({"id": pa.int64()}), properties=marks)
            >>> with table.append() as append:
            ...     append.write(pa.table({"id": [1, 2, 3]}))
            >>> table.delete([("id", "=", 2)]).version
            2
            >>> table.purge().version, [file.deleted_rows for file in table.files()]
            (3, [0])
        """
        return self._compact(where, options, user_metadata, timeout, purge=True)

    def _compact(  # noqa: PLR0913 - see `optimize`
        self,
        where: str | Sequence[Condition] | None,
        options: WriterKeywords,
        user_metadata: str | None,
        timeout: float | None,
        *,
        target_file_bytes: int | None = None,
        purge: bool = False,
    ) -> Compaction:
        conditions = _conditions(() if where is None else where, "where")
        writer_options = WriterOptions(**options) if options else _DEFAULTS
        timer = self._timer()
        done = Compaction(
            *self._native.compact(
                conditions, target_file_bytes, purge, writer_options, user_metadata, timeout
            )
        )
        if done.removed_files:
            self._committed("REORG" if purge else "OPTIMIZE", timer, done.version)
        return done

    @checks_arguments
    def vacuum(
        self,
        *,
        retention: timedelta | None = None,
        dry_run: bool = True,
        enforce_retention: bool = True,
    ) -> Vacuum:
        """List the files in the table's folder that no version within the retention needs, or remove them.

        A vacuum keeps files of the newest version, files that were removed from the table within the
        retention, files that were written within it, because their transaction may still be running, and
        files that pending commits of other processes name. It keeps files that no version references yet for
        a day even if the retention is shorter, because a transaction that commits after the vacuum could
        reference them. Files of deletion vectors are treated in the same way, and so are change data files,
        by the time of their version. Other names that begin with ``_`` or ``.`` are kept unless they are
        folders of partitions, and so are folders of other tables. Versions that need a removed file can no
        longer be read.

        File times and the current time are those of the store's clock. No version is written.

        Args:
            retention: How long files that were removed from the table are kept; by default
                ``delta.deletedFileRetentionDuration``, or 7 days.
            dry_run: False removes the files; True only lists them.
            enforce_retention: False accepts a shorter retention than the table's own. A running reader may
                then miss files.

        Raises:
            OptionError: The retention is negative, or shorter than the table's own.
            CorruptLogError: The log contains a path that leads out of the table's folder.
            UnsupportedTableError: The table needs a writer feature that is not supported, or a file or a
                deletion vector is outside of the table's folder; or this machine's clock differs from that of
                the file server by more than an hour.

        Example:
            >>> import pyarrow as pa, spillway.delta
            >>> table = spillway.delta.create("logins", pa.schema({"id": pa.int64()}))
            >>> table.vacuum()
            Vacuum(files=[], bytes=0, removed=0)
        """
        given: Any = retention
        if not isinstance(given, timedelta | None):
            message = f"retention={retention!r} is not accepted: give a timedelta, such as timedelta(days=7)"
            raise OptionError(message, "retention")
        millis = None if retention is None else retention // timedelta(milliseconds=1)
        return Vacuum(*self._native.vacuum(millis, dry_run, enforce_retention))

    def truncate(self, *, timeout: float | None = _TIMEOUT) -> int:
        """Remove all rows; the files stay for older versions.

        Returns:
            The version without them.

        Raises:
            CommitConflict: A concurrent transaction added or removed rows.
            AppendOnlyError: The table has ``delta.appendOnly``.
        """
        return self._committed("TRUNCATE", self._timer(), self._native.truncate(timeout))

    @checks_arguments
    def restore(self, version: Version, *, timeout: float | None = _TIMEOUT) -> int:
        """Restore the table to an older version.

        Args:
            version: The version, as a number or a time, as in `scan`.
            timeout: Seconds that it may take; None waits forever.

        Returns:
            The version with the rows, schema, properties and clustering columns of the old one: a new one,
            unless there is nothing to change.

        Raises:
            OptionError: A time has no time zone.
            AppendOnlyError: The table has ``delta.appendOnly``.
            CommitTimeoutError: The time was up before the commit.
            CommitUnknown: The time was up while the commit may already be in the table.
            VersionNotFoundError: The version, or one of its data files or deletion vectors, no longer exists;
                or there was no version at the time, as in `scan`.
            CommitConflict: A concurrent transaction added or removed rows.
            UnsupportedTableError: The table needs a writer feature that is not supported; or the old
                version is partitioned, and the table now has the feature ``clustering``, which excludes
                partitions; or column mapping, ``delta.enableRowTracking`` or
                ``delta.enableInCommitTimestamps`` has changed since.
        """
        number = number_of(version, self._native)
        return self._committed("RESTORE", self._timer(), self._native.restore(number, timeout))

    def commit_stats(self) -> CommitStats:
        """Count the versions that this process tried to write, and wrote, since it first opened the table.

        ``effects`` contains the times of the committer's steps, by kind. The counts start over if the process
        has to open the table again because the log was cleaned up past the version that it knew.
        """
        return CommitStats(*self._native.commit_stats())

    def checkpoint(self) -> int:
        """Write a checkpoint of the newest version now; commits also write checkpoints at intervals.

        A damaged checkpoint of that version is replaced.

        The checkpoint contains statistics in the forms that ``delta.checkpoint.writeStatsAsJson`` and
        ``delta.checkpoint.writeStatsAsStruct`` select, and fields of other writers.

        Returns:
            The version of the checkpoint; a later one if it already had a checkpoint.

        Raises:
            UnsupportedTableError: The table needs a writer feature that is not supported, or has fields of
                other writers that no checkpoint can hold.
        """
        return self._native.checkpoint()

    def _timer(self) -> _CommitTimer:
        return _CommitTimer(self._native, self._native.root)

    def _committed(self, operation: str, timer: _CommitTimer, version: int) -> int:
        """Log a commit, which began before `version` was there, and write a checkpoint where one is due."""
        timer.log(operation, version)
        _checkpoint_when_due(self._native, version)
        return version


@checks_arguments
def create(  # noqa: PLR0913 - what a table is
    uri: str | os.PathLike[str],
    schema: ArrowSchema,
    *,
    partition_by: str | Sequence[str] | None = None,
    cluster_by: str | Sequence[str] | None = None,
    properties: Mapping[str, str | bool | int] | None = None,
    name: str | None = None,
    description: str | None = None,
    mode: CreateMode = "error",
    timeout: float | None = _TIMEOUT,
    storage_options: Mapping[str, str] | None = None,
) -> Table:
    """Create a Delta table.

    Args:
        uri: The folder of the table: a path or a ``file://`` URL, which is created together with its parents;
            or in an object store ``s3://bucket/table``, ``gs://``, ``az://`` or ``abfss://``. The bucket must
            exist, and the store must support conditional PUT, as S3 and MinIO do.
        schema: The schema of the rows, including partition columns, from any object with
            ``__arrow_c_schema__``. Unsigned integers become the next larger signed ones, and timestamps are
            stored in microseconds; a type that a Delta table cannot hold raises an error that names the
            column.
        partition_by: One or several columns, outermost first, whose values divide rows into partitions.
        cluster_by: The columns by which `Table.optimize` clusters rows, as in `Table.cluster_by`. Cannot be
            combined with `partition_by`.
        properties: Table properties, such as ``{"delta.appendOnly": "true"}``, as in `Table.set_properties`.
        name: A name of the table, for readers of its metadata.
        description: A description of the table, for readers of its metadata.
        mode: What to do if the table exists: ``"error"`` raises an error, ``"ignore"`` opens it unchanged,
            and ``"overwrite"`` adds a version with this schema, these properties, these clustering columns
            and no rows.
        timeout: Seconds that it may take; None waits forever.
        storage_options: Settings and credentials of the object store, with the names that delta-rs uses, such
            as ``AWS_REGION`` or ``AWS_ENDPOINT_URL``; other settings come from the environment.

    Raises:
        TableExistsError: The table exists, and ``mode="error"``.
        OptionError: The table cannot be clustered by a column, or Delta has no such property or value.
        SchemaError: A Delta table cannot hold the schema.
        UnsupportedTableError: A property needs an unsupported feature; or the table to overwrite has the
            feature ``clustering``, and the new version would have partitions.

    Example:
        >>> import pyarrow as pa, spillway.delta
        >>> schema = pa.schema({"day": pa.date32(), "message": pa.string()})
        >>> table = spillway.delta.create("events", schema, partition_by="day")
        >>> table.version, pa.schema(table.schema).names
        (0, ['day', 'message'])
    """
    place, options = resolve_folder(uri, storage_options, "uri")
    native = _native.DeltaTable.create(
        place,
        schema,
        _names(partition_by),
        _names(cluster_by),
        _texts(properties or {}),
        name,
        description,
        mode,
        timeout,
        options,
    )
    return Table(native, options)


def _texts(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Properties as the log has them: as text."""
    texts: dict[str, Any] = {}
    for name, value in properties.items():
        if isinstance(value, bool):
            texts[name] = str(value).lower()
        else:
            texts[name] = str(value) if isinstance(value, int) else value
        if not isinstance(texts[name], str | None):
            raise OptionError(f"properties has {name!r}: {value!r}, and a value is text", "properties")
    return texts


def _names(columns: str | Sequence[str] | None) -> list[str]:
    return [columns] if isinstance(columns, str) else list(columns or ())


@checks_arguments
def open(  # noqa: A001 - the word for it
    uri: str | os.PathLike[str], *, storage_options: Mapping[str, str] | None = None
) -> Table:
    """Open a Delta table.

    Args:
        uri: The folder of the table: a path, a ``file://`` URL, or the URL of an object store as in `create`.
        storage_options: As `create`.

    Raises:
        TableNotFoundError: There is no table.
        CorruptLogError: Its log is damaged or has a gap.
        UnsupportedTableError: The table needs a reader feature that is not supported.
    """
    place, options = resolve_folder(uri, storage_options, "uri")
    native = _native.DeltaTable.open(place, options)
    if (damage := native.damaged_checkpoint) is not None:
        _log.warning("%s. The versions before it were read instead", damage)
    return Table(native, options)


def _opened(uri: str, storage_options: Mapping[str, str] | None) -> Table:
    return open(uri, storage_options=storage_options)


@checks_arguments
@shows_options(WriterOptions)
def write(  # noqa: PLR0913 - all in one call
    uri: str | os.PathLike[str],
    data: Data,
    *,
    mode: WriteMode = "error",
    partition_by: str | Sequence[str] | None = None,
    where: str | Sequence[Condition] | None = None,
    schema_mode: SchemaMode | None = None,
    properties: Mapping[str, str | bool | int] | None = None,
    timeout: float | None = _TIMEOUT,
    user_metadata: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    **options: Unpack[WriterKeywords],
) -> int:
    """Write rows to a Delta table in one call, and create the table if it does not exist.

    An existing table is refused unless `mode` says what to do with its rows, as in deltalake's
    ``write_deltalake``.

    Args:
        uri: The folder of the table: a path or a URL, as in `create`.
        data: Anything with
        ``__arrow_c_stream__`` or ``__arrow_c_array__``, rows as dicts, and anything else that
        `spillway.write_parquet` takes. Dicts are converted to the types of the table. If the table is
        created, its types are inferred from the first 1,000 rows or from the columns. If it is created and
        then a row is bad, the table stays, without rows: write to it with ``mode="append"``.
        mode: What to do if the table exists: ``"error"`` raises and changes nothing, ``"append"`` adds the
            rows, ``"overwrite"`` replaces all rows, or those that `where` selects, and ``"ignore"`` writes
            nothing.
        partition_by: As in `create`, for a new table.
        where: The rows to overwrite: conditions on partition columns, which the new rows must also satisfy,
            such as ``"day = DATE '2026-11-20'"`` or ``[("day", "=", "2026-11-20")]``.
        schema_mode: ``"merge"`` adds new columns, and new fields of structs at any depth. This does not apply
            to dicts: a key that the table lacks makes a row bad.
        properties: As in `create`, for a new table.
        timeout: Seconds that it may take; None waits forever.
        user_metadata: A note for the history.
        storage_options: As `create`.
        **options: The fields of `WriterOptions`, for the files.

    Returns:
        The version that contains the rows; with ``"ignore"``, the newest version of an existing table.

    Raises:
        RowError: A row is bad; no row is committed.
        TableExistsError: The table exists, and ``mode="error"``, the default.
        SpillwayError: As `create` and `Append`.
        MissingExtraError: ``data`` is a dict of columns, and pyarrow is not installed.

    Example:
        >>> import pyarrow as pa, spillway.delta
        >>> spillway.delta.write("ids", pa.table({"id": [1, 2]}))
        1
        >>> spillway.delta.write("ids", pa.table({"id": [3]}), mode="overwrite")
        2
        >>> spillway.delta.write("ids", [{"id": 4}, {"id": 5}], mode="append")
        3
    """
    if mode not in {"append", "overwrite", "error", "ignore"}:
        message = f'mode={mode!r} is not accepted: choose one of "append", "overwrite", "error", "ignore"'
        raise OptionError(message, "mode", ["append", "overwrite", "error", "ignore"])
    where = () if where is None else where
    if where and mode != "overwrite":
        raise OptionError('where selects the rows to overwrite, so it needs mode="overwrite"', "where")
    # Before a table is made.
    _conditions(where, "where")
    writer_options = WriterOptions(**options) if options else _DEFAULTS
    _native.check_delta_options(writer_options)
    rows = opened(data)
    only_new = mode in {"error", "ignore"}
    made: Any = {
        "partition_by": partition_by,
        "properties": properties,
        "timeout": timeout,
        "storage_options": storage_options,
    }
    try:
        table = open(uri, storage_options=storage_options)
        if only_new:
            return _there(table, mode)
    except TableNotFoundError:
        try:
            # Somebody else may make it now, and then it is theirs.
            table = create(uri, rows.schema(), mode="error" if only_new else "ignore", **made)
        except TableExistsError:
            return _there(open(uri, storage_options=storage_options), mode)
    with table._append(  # noqa: SLF001 - the same module
        schema_mode=schema_mode,
        replace=where if mode == "overwrite" else None,
        timeout=timeout,
        user_metadata=user_metadata,
        options=writer_options,
    ) as append:
        rows.write(append, table)
    return append.version or 0


def _there(table: Table, mode: str) -> int:
    if mode == "ignore":
        return table.version
    message = (
        f'{table.path}: there is a Delta table already, and mode="error", the default: pass mode="append" to '
        'add the rows, "overwrite" to replace the existing ones, or "ignore" to write nothing'
    )
    raise TableExistsError(message)


def _app_transaction(app_id: str | None, app_version: int | None) -> tuple[str, int] | None:
    if app_id is None and app_version is None:
        return None
    if app_id is None or app_version is None:
        raise OptionError("app_id and app_version go together: give both or neither")
    return app_id, app_version


def _conditions(given: Any, name: str) -> str | list[tuple[str, str, list[Any]]]:
    """Conditions as the native module takes them, those of the argument `name`."""
    if isinstance(given, str):
        check_text(given, name)
        return given
    accepted = (
        f"give a condition in SQL, such as {name}=\"service = 'z'\", or a list of conditions, such as "
        f'{name}=[("service", "=", "z"), ("day", "in", ["a", "b"])]'
    )
    if not isinstance(given, Iterable):
        raise TypeError(f"{name} is {given!r}: {accepted}")
    conditions: list[tuple[str, str, list[Any]]] = []
    for condition in given:
        match condition:
            case (str(column), "in", values) if isinstance(values, Iterable) and not isinstance(values, str):
                conditions.append((column, "in", list(values)))
            case (str(), "in", _):
                message = f'{name} has {condition!r}, and "in" needs a list of values: {accepted}'
                raise OptionError(message, name)
            case (str(), str(), list() | tuple() | set()):
                message = f'{name} has {condition!r}, and "in" alone takes a list of values: {accepted}'
                raise OptionError(message, name)
            case (str(column), str(operator), value):
                conditions.append((column, operator, [value]))
            case _:
                message = f"{name} has {condition!r}, which is not a column, operator and value: {accepted}"
                raise OptionError(message, name)
    return conditions


def _added(file: AddFile, now: int) -> dict[str, Any]:
    return {
        "path": file.path,
        "size": file.size,
        "modification_time": now if file.modification_time is None else file.modification_time,
        "partition_values": dict(file.partition_values),
        "stats": None if file.stats is None else json.dumps(file.stats),
        "data_change": file.data_change,
    }
