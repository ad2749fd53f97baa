"""`Table` and what makes one: `create`, `open`, `write`."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterable
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from spillway import _native
from spillway._destination import OBJECT_STORES, local_path
from spillway._options import checks_arguments, shows_options
from spillway.delta._commit_logging import CommitTimer
from spillway.delta._expressions import Expressions, check_text, is_expression
from spillway.delta._input import opened
from spillway.delta._merging import check_clauses, prepared
from spillway.delta._polars import lazy_frame
from spillway.delta._pyarrow_dataset import dataset_of
from spillway.delta._versions import number_of
from spillway.delta.append import Append, _checkpoint_when_due
from spillway.delta.changes import Changes
from spillway.delta.clauses import when_matched_update, when_not_matched_insert
from spillway.delta.scan import Scan
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
from spillway.errors import OptionError, TableExistsError, TableNotFoundError
from spillway.writer import WriterOptions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
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
_DEFAULTS = WriterOptions()
_log = logging.getLogger("spillway.delta")


class Table:
    """A Delta table that is open; `create` and `open` make one.

    A `Table` shows one version of the table: `version`, `schema` and all other properties are of it, and so
    are `files`, `scan`, `to_polars` and `to_pyarrow_dataset` unless they are given another one. It is the
    version that was the newest when the table was opened. `refresh` moves on to the newest one, and so does
    the first access after a commit of this `Table`, successful or not. Commits always start from the newest
    version, and `history`, `changes` and `transaction_version` refer to it, too.

    Threads may share it, and threads that open the same table share its committer: their commits are
    combined. A forked child may go on using it, from the version that is the newest then. A pickled one
    opens the table where it is unpickled; the pickle holds its ``storage_options``.
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
        """The version that the properties are of."""
        return self._native.version()

    def refresh(self) -> int:
        """Move on to the newest version, of whichever writer.

        Returns:
            Its number.

        Raises:
            TableNotFoundError: The table was deleted, moved or replaced.

        Example:
            >>> import pyarrow as pa, spillway.delta
            >>> schema = pa.schema({"id": pa.int64()})
            >>> table = spillway.delta.create("arrivals", schema)
            >>> other = spillway.delta.open("arrivals")  # as another process has it
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
        """The schema of the rows, for any Arrow library: ``pyarrow.schema(table.schema)``."""
        return self._native.state()["schema"]

    @property
    def properties(self) -> dict[str, str]:
        """Table properties, such as ``delta.appendOnly``."""
        return self._native.state()["properties"]

    @property
    def partition_columns(self) -> list[str]:
        """The columns that the table is partitioned by, in their order."""
        return self._native.state()["partition_columns"]

    @property
    def clustering_columns(self) -> list[str]:
        """The columns that `optimize` orders rows by, as SQL writes their names; none where it does not.

        Raises:
            UnsupportedTableError: The table is clustered by columns that it does not have.
        """
        return self._native.clustering_columns()

    @property
    def id(self) -> str:
        """The table's own id, which no other table has."""
        return self._native.state()["id"]

    def files(self, version: Version | None = None) -> list[TableFile]:
        """Return the data files of a version; of `Table.version` without one.

        Partition values and statistics have the names that the columns have in that version, also in a table
        with column mapping.

        Args:
            version: As in `scan`.

        Raises:
            OptionError: A time has no time zone.
            VersionNotFoundError: The version is not, or no longer, there.
        """
        return [TableFile.of(file) for file in self._native.files(self._number(version))]

    def _number(self, version: Version | None) -> int | None:
        return None if version is None else number_of(version, self._native)

    @checks_arguments
    def scan(
        self,
        columns: Sequence[str] | None = None,
        *,
        where: str | Sequence[Condition] = (),
        version: Version | None = None,
    ) -> Scan:
        """Plan the reading of rows: ``pyarrow.table(table.scan(["time"], where="service = 'api'"))``.

        The conditions are exact, not only a choice of files. Rows that a deletion vector marks as deleted are
        left out. A comparison with null holds for no row; NaN
        equals NaN and is above all other numbers. What a tuple compares a ``float`` column with is rounded to
        single precision first; a text compares in double precision, as Spark does.

        Args:
            columns: The columns to read, in the order of the answer; all of the table, without it. In a table
                with ``delta.enableRowTracking`` they may be ``"_metadata.row_id"``, the id of each row, and
                ``"_metadata.row_commit_version"``, the version that changed it last, as Spark has them.
            where: A condition in SQL, which is true for every row; the guide says what it may be. Or a list
                of conditions that all hold: column, operator (``=``, ``!=``, ``<``, ``<=``, ``>``, ``>=``,
                ``in``) and value. None goes with ``=`` and ``!=``. Decimals, binary values and nested columns
                have none; a text may name fields of structs and decimals.
            version: The version to read, by its number or by a time at which it was the newest: a datetime
                with a time zone, or a text such as ``"2026-11-20T12:00:00Z"``. Without it, `Table.version`.

        Raises:
            OptionError: A text is not understood, with the place in it; a condition is malformed, or its
                value does not fit its column; a time has no time zone.
            SchemaError: The table has no such column, or its rows have no ids.
            UnsupportedTableError: The table has a column mapping that its protocol does not name, or a file
                with an absolute path. A deletion vector outside the table's folder raises it when its file is
                read.
            VersionNotFoundError: The version is not, or no longer, there; or the time is before the first
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
        names = None if columns is None else list(columns)
        return Scan(self._native.scan(names, _conditions(where, "where"), self._number(version)))

    @checks_arguments
    def to_polars(self, *, version: Version | None = None) -> pl.LazyFrame:
        """Make a polars LazyFrame whose query decides what is read.

        Only the columns that the query needs are read, and only the files, row groups and pages that may hold
        rows of its ``filter``. Comparisons, ``is_in``, ``is_between``, ``is_null`` and combinations of them
        are passed to the scan where it compares values as polars does; polars filters the rest. Reading stops
        after the rows of a ``head``. Rows that deletion vectors mark as deleted are left out, as in `scan`.

        Args:
            version: As in `scan`. The frame has the rows of that version, whenever it is collected.

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
        return lazy_frame(self._native, self.version if number is None else number)

    @checks_arguments
    def to_pyarrow_dataset(
        self,
        *,
        version: Version | None = None,
        filesystem: ArrowFileSystem | FsspecFileSystem | None = None,
    ) -> ds.FileSystemDataset:
        """Make a pyarrow dataset of the files of a version, for libraries that read such datasets.

        Each file comes with an expression of its partition values and the bounds of its columns, by which
        pyarrow skips files. A version with deletion vectors is refused, because pyarrow would return the
        deleted rows, and so is column mapping, because it would not find the columns: use `scan` for both.
        Dates and times are those of the files: those before 1582-10-15 that Spark 2 wrote are off by days,
        which `scan` corrects.

        Args:
            version: As in `scan`.
            filesystem: A file system of pyarrow or fsspec whose root is the table. A table in an object store
                needs one; a folder does not.

        Raises:
            MissingExtraError: pyarrow is not installed.
            OptionError: The table is in an object store, and there is no `filesystem`.
            UnsupportedTableError: The table maps its columns to other names, has deleted rows in files, or a
                partition value that pyarrow cannot represent, such as a date in the year 10000.
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
        columns: Sequence[str] | None = None,
    ) -> Changes:
        """Plan the reading of the rows that versions changed: ``pyarrow.table(table.changes(3))``.

        The table needs ``delta.enableChangeDataFeed`` in all of these versions. The rules are those of
        "Change Data Files" and "Add CDC File" in Delta's PROTOCOL.md. Rows have the columns of the last
        version, and null is allowed wherever rows of the range may have it. A compaction changes none.

        A version that replaces the schema divides what can be read at once. It may be the first of a range:
        rows that it deleted are null in columns that they lack, or had with other values.

        Args:
            first_version: The first version whose changes are read.
            last_version: The last one; the newest, without it.
            columns: The table's columns to read, in the order of the answer; all, without it. Those of the
                feed come behind them.

        Raises:
            OptionError: The table had no change data feed in one of the versions, which the message names; or
                the last version cannot hold the rows of one, and the message names the ranges that can be
                read; or the first comes after the last.
            SchemaError: The table has no such column.
            UnsupportedTableError: The table maps its columns to other names.
            VersionNotFoundError: A version is not there; or no longer, and the message names the first one
                whose changes are.

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
        names = None if columns is None else list(columns)
        return Changes(self._native.changes(first_version, last_version, names))

    def history(self, limit: int | None = None) -> list[HistoryEntry]:
        """Return what was done, the newest version first, as far back as the log goes."""
        entries = []
        for version, text in self._native.history(limit):
            info = json.loads(text) or {}
            entries.append(HistoryEntry(version, info.get("timestamp"), info.get("operation"), info))
        return entries

    def transaction_version(self, app_id: str) -> int | None:
        """Return the ``app_version`` of an application's last append; None without one."""
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
        """Begin an append: a context manager that takes rows, and commits them when its block ends well.

        Args:
            app_id: The application's id. With `app_version` it makes the append idempotent: rows are not
                written again if the table has reached that version.
            app_version: The application's own version of these rows.
            schema_mode: ``"merge"`` adds columns that the table lacks, and fields of structs at any depth.
            timeout: Seconds that the commit may take; None waits for ever.
            user_metadata: A note for the history.
            max_file_bytes: Bytes that a data file has at most; without it ``delta.targetFileSize``, or 1 GiB.
            max_file_rows: Rows of a data file.
            coalesce: True lets appends of this process that commit at the same time share data files, one per
                partition, and an entry of the history. It is for many small appends: rows are kept in memory
                until the commit, which writes them; an append of more than 4 MiB has files of its own. Not
                with `app_id`.
            **options: The fields of `WriterOptions`, for the files.

        Raises:
            OptionError: An option has a value that is not accepted.
            UnsupportedTableError: The table asks its writers for a feature that is not built.

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
        """Begin an append for a task of asyncio: ``async with`` begins it, its calls are awaited.

        Args:
            **keywords: The keyword arguments of `append`, which raises where the block is entered.

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
        """Append dicts, one for each row, and commit them: rows to a version in one call.

        Many threads that append few rows each do well with ``coalesce=True``: those that commit at the same
        time share a data file, too.

        Args:
            rows: As `Append.write_rows`.
            on_error: As `Append.write_rows`.
            extra: As `Append.write_rows`.
            **keywords: The keyword arguments of `append`.

        Returns:
            The version that holds the rows; without rows, the version that was read.

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
        """Find out what became of a commit whose outcome is unknown, and cancel it where it is pending.

        Where the disk failed to sync the log, the process that heard of it answers "pending" for good: ask
        another one, once the disk is known to be sound.

        Args:
            token: The ``token`` of a `CommitUnknown`, from this process or another.
            timeout: Seconds to wait for the store.

        Raises:
            CorruptLogError: It is no token.
            OptionError: It is the token of another table.
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
        """Commit files that the caller wrote, and removals, as one transaction.

        Args:
            adds: Files to become part of the table.
            removes: Files to leave it, as `TableFile.path` has them.
            read: The part of the table that the caller read to decide; nothing by default. A transaction that
                read or removes something fails on every conflict with a version after the one that was read.
            operation: The name of the operation, for the history.
            user_metadata: A note for the history.
            timeout: Seconds that it may take; None waits for ever.

        Returns:
            The version that holds it.

        Raises:
            AppendOnlyError: The table has ``delta.appendOnly``, and rows would leave it. Files with the same
                rows as those that they replace have ``data_change=False``.
            CommitConflict: A concurrent transaction changed what was read or is removed.
            ConstraintError: A constraint is not true for a row of an added file, which is read for that.
            DeltaError: An added file has another size than `AddFile.size` says.
            OptionError: A file is not in the table, or is in it already, or lacks statistics of a column that
                the table is clustered by, or ``numRecords`` where rows have ids; or the path of an added file
                is not a relative URI reference; or a condition of `read` is malformed.
            UnsupportedTableError: The table asks its writers for a feature that is not built; or it has a
                change data feed, and files with other rows would replace files; or its rows keep their ids,
                and a file has ``data_change=False``.
            VersionNotFoundError: The version that was read is not, or no longer, there.
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
        """Remove all rows of the partitions that have these values; None is null.

        Returns:
            The version without them.

        Raises:
            OptionError: A name is not a partition column's, or a value not of its type.
            CommitConflict: A concurrent transaction added or removed rows there.
            AppendOnlyError: The table has ``delta.appendOnly``.

        Example:
            >>> table.delete_partition(day="2026-11-20")  # doctest: +SKIP
            17
        """
        if not values:
            raise OptionError(
                "delete_partition() without a column would remove every row: truncate() does that"
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
        """Delete the rows for which all conditions hold, those that `scan` finds by the same conditions.

        A row of which a condition is null stays. Files are left out as in `scan`. A file of which all rows go
        leaves the table. Other rows are marked by a deletion vector where the table has
        ``delta.enableDeletionVectors``, unless they are more than half of the rows that were written to their
        file. Then, and in tables without it, the file is written again without them.

        Concurrent deletes that mark different rows of one file all commit. A delete that an `optimize` or a
        `purge` got ahead of finds its rows again and commits then.

        Args:
            where: Conditions that hold for every row that is deleted, as `scan` takes them: a text in SQL,
                or a list of column, operator and value.
            user_metadata: A note for the history.
            timeout: Seconds that the commit may take, without finding the rows and writing files; None waits
                for ever.
            **options: The fields of `WriterOptions`, for files that are written again.

        Returns:
            The version without the rows, and how many they were.

        Raises:
            AppendOnlyError: The table has ``delta.appendOnly``.
            CommitConflict: A concurrent transaction added such rows, deleted one of them, or changed a file
                with rows to delete in another way than by marks.
            CommitTimeoutError: The time was up, and the rows are certainly still in the table.
            CommitUnknown: Whether the rows are deleted is not known; `outcome` with its token finds out.
            OptionError: There is no condition, a text is not understood, or a value does not fit its column.
            UnsupportedTableError: The table asks its writers for a feature that is not built.

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
            message = "delete() without a condition would delete every row: truncate() does that"
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
        """Set columns of the rows for which all conditions hold, those that `scan` finds by them.

        The rows leave their files as those of `delete` do. With their new values they are in new files: in
        those of another partition where a partition column is set. All of it is one version.

        Concurrent updates and deletes that mark different rows of one file all commit, unless the new rows of
        one may satisfy the conditions of another, by the least and the greatest values in their files.

        Args:
            where: Conditions that hold for every row that is updated, as `scan` takes them: a text in SQL, or
                a list; an empty list for every row.
            set: The new values by column. A value of Python is converted as `ParquetWriter.write_rows` does
                it; None is null. An expression of ``pyarrow.compute`` is over the columns as they were
                before. Its values follow the rules of values that are appended: what the column's type
                cannot hold as it is is refused, as a time of day in a date. Numbers of double precision are
                rounded for a ``float`` column. ``cast`` and ``pyarrow.compute.round`` convert others.
            user_metadata: A note for the history.
            timeout: Seconds that the commit may take, without finding the rows and writing files; None waits
                for ever.
            **options: The fields of `WriterOptions`, for the new files.

        Returns:
            The version with the new values, and the number of rows that have them.

        Raises:
            AppendOnlyError: The table has ``delta.appendOnly``.
            CommitConflict: A concurrent transaction added rows for which the conditions hold, deleted or
                updated one of these rows, or changed a file with such rows in another way than by marks.
            CommitTimeoutError: The time was up, and the rows are certainly as they were.
            CommitUnknown: Whether the rows are updated is not known; `outcome` with its token finds out.
            ConstraintError: A constraint is not true for an updated row.
            OptionError: Nothing is set, a condition does not fit its column, pyarrow cannot evaluate an
                expression, or a value of one does not fit its column.
            SchemaError: The table lacks a column that is set, or another value does not fit it.
            UnsupportedTableError: The table asks its writers for a feature that is not built, such as
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
        """Merge rows into the table by keys: clauses say which are updated, inserted and deleted.

        Without a clause, rows whose key the table has are updated, and the others are inserted.

        A row of the table and a row of `source` match if their values in the columns `on` are equal. A null
        equals nothing, and NaN equals NaN. Clauses say what becomes of rows that match and of those that do
        not. Of the clauses of a kind, the first one whose condition is true applies. All of the merge is one
        version.

        The source is held in memory. Files of the table that can hold none of its keys, by partition values
        and statistics, are not read, unless there is a clause ``when_not_matched_by_source_...``. Rows leave
        their files as those of `delete` do. Updated and inserted rows are in new files.

        Merges, updates and deletes that mark different rows of one file all commit, unless a key may be among
        the new rows of another, by the least and the greatest values in their files. Of two concurrent merges
        that insert or update the same key, the later one is a conflict.

        Args:
            source: The rows: anything with ``__arrow_c_stream__`` or ``__arrow_c_array__``, such as a
                DataFrame of polars or of Spark.
            on: The column, or several, whose values are the key. Not nested ones.
            *clauses: Made by `when_matched_update`, `when_matched_delete`, `when_not_matched_insert`,
                `when_not_matched_by_source_update` and `when_not_matched_by_source_delete`. Without any,
                ``when_matched_update()`` and ``when_not_matched_insert()``. Only the last clause of a kind
                may lack a condition.
            user_metadata: A note for the history.
            timeout: Seconds that the commit may take, without finding the rows and writing files; None waits
                for ever.
            **options: The fields of `WriterOptions`, for the new files.

        Returns:
            The version that holds the merge, and how many rows were inserted, updated and deleted.

        Raises:
            AppendOnlyError: The table has ``delta.appendOnly``, and rows would be updated or deleted.
            CommitConflict: A concurrent transaction added rows with one of the keys, changed a matched row,
                or changed its file in another way than by marks; with ``when_not_matched_by_source_...``,
                added any rows. Plain appends count under ``Serializable`` alone, the default.
            CommitTimeoutError: The time was up, and the table is certainly as it was.
            CommitUnknown: Whether the rows are merged is not known; `outcome` with its token finds out.
            ConstraintError: A constraint is not true for an updated or inserted row.
            NotArrowError: `source` is not Arrow data.
            OptionError: Several source rows would change one row of the table, and do not just delete it; or
                `on` or a clause names a column that is not there, or has an expression that does not fit.
            SchemaError: Source rows or new values do not fit the table.
            UnsupportedTableError: The table asks its writers for a feature that is not built, such as
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
        chosen = clauses or (when_matched_update(), when_not_matched_insert())
        check_clauses(chosen)
        writer_options = WriterOptions(**options) if options else _DEFAULTS
        _native.check_delta_options(writer_options)
        # A DataFrame of Spark: its own stream refuses timestamps (PySpark 4.2), and takes partitions in turn.
        collect = getattr(source, "toArrow", None)
        rows = _native.RowSource(source if collect is None else collect())
        # The merge is of the newest version.
        given, evaluate = prepared(chosen, keys, self._native.newest_schema(), rows)
        timer = self._timer()
        done = self._native.merge_rows(rows, keys, given, evaluate, writer_options, user_metadata, timeout)
        return Merge(*self._changed("MERGE", timer, done))

    def _changed(
        self, operation: str, timer: CommitTimer, done: tuple[int, int, int, int, bool]
    ) -> tuple[int, int, int, int]:
        """The version of a change, and the rows that it inserted, updated and deleted."""
        version, inserted, updated, deleted, is_new = done
        if is_new:
            self._committed(operation, timer, version)
        return version, inserted, updated, deleted

    def cluster_by(self, columns: str | Sequence[str] | None, *, timeout: float | None = _TIMEOUT) -> int:
        """Change the columns that `optimize` orders rows by. No row is written again.

        Rows with similar values in these columns come into the same row groups, so that a scan with
        conditions on any of them reads few. Files that were clustered by other columns stay as they are.

        Args:
            columns: A column, or at most four of equal weight: numbers, text, dates or timestamps that files
                have statistics of. A field of a struct is ``"group.x"``. None leaves rows in their order.
            timeout: Seconds that it may take; None waits for ever.

        Returns:
            The version that has them.

        Raises:
            CommitConflict: A concurrent transaction changed them, the schema, the properties or the protocol.
            OptionError: The table is partitioned, or cannot be clustered by a column; or a file has no
                statistics of it.
            UnsupportedTableError: The table asks its writers for a feature that is not built.

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
        self, properties: Mapping[str, str | None], *, timeout: float | None = _TIMEOUT
    ) -> int:
        """Set table properties, and take away those whose value is None, in one version.

        A property that needs a feature, such as ``delta.enableDeletionVectors``, enables it. Taken away, or
        set to ``"false"``, it leaves the feature in the protocol. Names that do not begin with ``delta.`` are
        the caller's own.

        Before ``delta.enableRowTracking`` comes to a table with rows, they get ids: one version gives the
        table the feature, and one for each 2,000 files names them once more. No file is written again, and
        appends and deletes go on. A call that ended in between is made again, and goes on from there.

        Args:
            properties: Values by name.
            timeout: Seconds that it may take, ids included; None waits for ever.

        Returns:
            The version that has them; the newest one where nothing changes.

        Raises:
            CommitConflict: A concurrent transaction changed the schema, the properties or the protocol, and
                made another change than this one.
            OptionError: Delta has no such property, or it may not have such a value; or one is a constraint.
            UnsupportedTableError: A property, or the table, asks for what is not built.

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
            "SET TBLPROPERTIES", self._timer(), self._native.set_properties(dict(properties), timeout)
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
        """Add a CHECK constraint: a condition that is true for every row, those of now and those to come.

        All rows of the table are read first. From then on a row for which the condition is false or null is
        refused with a `ConstraintError`, by this library, by Spark and by delta-rs.

        Args:
            name: Letters, digits and underscores, in any case; it is stored in lower case.
            expression: A condition in SQL: comparisons of columns with literals or other columns,
                ``IS NULL``, ``IN`` and ``BETWEEN``, with ``AND``, ``OR``, ``NOT`` and parentheses. A column
                with other characters than letters, digits and underscores has backquotes, as has one named
                by a word that SQL reserves, and a field of a struct is ``group.x``.
            timeout: Seconds that the commit may take, without the look at the rows; None waits for ever.

        Returns:
            The version from which on it holds.

        Raises:
            CommitConflict: A concurrent transaction added or removed rows, or changed the schema, the
                properties or the protocol.
            ConstraintError: It is not true for a row of the table.
            OptionError: The table has a constraint of this name, or the expression is not understood.
            UnsupportedTableError: The table asks its writers for a feature that is not built.

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
        """Drop a CHECK constraint, also one that this library does not understand.

        Args:
            name: Its name, in any case.
            timeout: Seconds that it may take; None waits for ever.

        Returns:
            The version without it.

        Raises:
            CommitConflict: A concurrent transaction changed the schema, the properties or the protocol.
            OptionError: The table has no such constraint.
            UnsupportedTableError: The table asks its writers for a feature that is not built.
        """
        return self._committed("DROP CONSTRAINT", self._timer(), self._native.drop_constraint(name, timeout))

    @checks_arguments
    @shows_options(WriterOptions)
    def optimize(
        self,
        *,
        target_file_bytes: int | None = None,
        where: str | Sequence[Condition] = (),
        user_metadata: str | None = None,
        timeout: float | None = _TIMEOUT,
        **options: Unpack[WriterKeywords],
    ) -> Compaction:
        """Write the small files of each partition again as few large ones, without their deleted rows.

        No row changes. Files that have `target_file_bytes` are left as they are, unless more than 5 % of
        their rows are deleted (delta-spark's ``optimize.maxDeletedRowsRatio``); so a second call does
        nothing, and makes no version. Files that are written while it runs are left for the next one. The
        order of rows is kept, and files that were written one after the other go into one.

        In a table with `clustering_columns`, files of any size that are not clustered yet are written again
        with their rows along a Hilbert curve through these columns. Files are put into order in groups of
        about 512 MiB of rows in memory; no more than 1 GiB is there at a time. A group that is at least half
        full is left as it is from then on.

        It has no conflict with appends, and makes none fail. Rows that a concurrent delete marks in the old
        files are marked in the new ones. Where a file is removed or replaced meanwhile, the files that were
        to be one with it are left as they are.

        It makes one version, or one for about 16 GiB of old files or for each group, so that a crash loses no
        more work. Where the new files are much smaller than the old ones, some of them are put together once
        more.

        Args:
            target_file_bytes: Bytes of a new file, about; ``delta.targetFileSize``, or 128 MiB, without it.
            where: Conditions on partition columns, which choose the files: a text in SQL, or a list of
                column, operator and value, as `scan` takes them.
            user_metadata: A note for the history.
            timeout: Seconds that each commit may take, without writing the files; None waits for ever.
            **options: The fields of `WriterOptions`, for the new files. Rows are not sorted by other columns:
                ``sorting="sort"`` is not accepted. Row groups of clustered files have at most 32,768 rows.

        Raises:
            CommitConflict: A concurrent transaction changed the schema, the properties or the protocol.
            CommitTimeoutError: The time was up, and the files are certainly as they were.
            CommitUnknown: Whether the new files are in the table is not known; `outcome` with its token finds
                out.
            OptionError: A condition names a column that the table is not partitioned by, or an option has a
                value that is not accepted.
            UnsupportedTableError: The table asks its writers for a feature that is not built, or is clustered
                by columns that it does not have.

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
        where: str | Sequence[Condition] = (),
        user_metadata: str | None = None,
        timeout: float | None = _TIMEOUT,
        **options: Unpack[WriterKeywords],
    ) -> Compaction:
        """Write all files with deleted rows again without these rows.

        It is delta-spark's ``REORG TABLE ... APPLY (PURGE)``. No row of the table changes. Each file is
        written again by itself. `vacuum` removes the old files, and with them the deleted rows, once older
        versions need them no more. Rows that a concurrent delete marks meanwhile are marked in the new files,
        and another call purges them. Otherwise as `optimize`.

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
        where: str | Sequence[Condition],
        options: WriterKeywords,
        user_metadata: str | None,
        timeout: float | None,
        *,
        target_file_bytes: int | None = None,
        purge: bool = False,
    ) -> Compaction:
        conditions = _conditions(where, "where")
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
        """Name the files in the table's folder that no version within the retention needs, and remove them.

        These stay: files of the newest version, files that left the table within the retention, files that
        were written within it, since their transaction may be under way, and files that pending commits of
        other processes name. Files that no version has named yet stay for a day even if the retention is
        shorter: a transaction that commits after the vacuum would name a file that is gone. The files of
        deletion vectors are treated alike, and so are change data files, by the time of their version. Other
        names that begin with ``_`` or ``.`` are left alone unless they are a partition's, and so are folders
        of other tables. Versions that need a removed file can not be read any more.

        Times of writing are the store's, and so is the time now. No version is written.

        Args:
            retention: The time for which files that left the table are kept:
                ``delta.deletedFileRetentionDuration``, or 7 days, without it.
            dry_run: False removes the files; True only names them.
            enforce_retention: False accepts a shorter retention than the table's own. A reader that began
                before it may find files gone then.

        Raises:
            OptionError: The retention is negative, or shorter than the table's own.
            CorruptLogError: The log names a file by a path that leaves the table's folder.
            UnsupportedTableError: The table asks its writers for a feature that is not built, or a file or a
                deletion vector is outside of the table's folder; or this machine's clock is over an hour off
                that of the file server.

        Example:
            >>> import pyarrow as pa, spillway.delta
            >>> table = spillway.delta.create("logins", pa.schema({"id": pa.int64()}))
            >>> table.vacuum()
            Vacuum(files=[], bytes=0, removed=0)
        """
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
        """Make the table what it was at an older version.

        Args:
            version: The version, by its number or by a time, as in `scan`.
            timeout: Seconds that it may take; None waits for ever.

        Returns:
            The new version, which has the old one's rows, schema, properties and clustering columns.

        Raises:
            OptionError: A time has no time zone.
            VersionNotFoundError: The version, a data file of it or a deletion vector is gone; or there was no
                version at the time, as in `scan`.
            CommitConflict: A concurrent transaction added or removed rows.
            UnsupportedTableError: The table asks its writers for a feature that is not built; or it was
                partitioned, and has the feature ``clustering`` now, with which no table may be; or
                ``delta.enableRowTracking`` was changed since.
        """
        number = number_of(version, self._native)
        return self._committed("RESTORE", self._timer(), self._native.restore(number, timeout))

    def commit_stats(self) -> CommitStats:
        """Count the versions that this process tried to write, and wrote, since it opened the table first.

        The times of its effects are in ``effects``, by their kind. All begin anew where the log was cleaned
        up past the version that the process knew, so that it opened the table again.
        """
        return CommitStats(*self._native.commit_stats())

    def checkpoint(self) -> int:
        """Write a checkpoint of the newest version now; they are written by themselves every so often.

        A checkpoint of that version that is damaged is replaced.

        It holds statistics in the form that ``delta.checkpoint.writeStatsAsJson`` and
        ``delta.checkpoint.writeStatsAsStruct`` ask for, and fields of other writers.

        Returns:
            The version that it stands for; a later one where there was a checkpoint of that.

        Raises:
            UnsupportedTableError: The table asks its writers for a feature that is not built, or has fields
                of other writers that no checkpoint can hold.
        """
        return self._native.checkpoint()

    def _timer(self) -> CommitTimer:
        return CommitTimer(self._native, self._native.root)

    def _committed(self, operation: str, timer: CommitTimer, version: int) -> int:
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
    properties: Mapping[str, str] | None = None,
    name: str | None = None,
    description: str | None = None,
    mode: CreateMode = "error",
    timeout: float | None = _TIMEOUT,
    storage_options: Mapping[str, str] | None = None,
) -> Table:
    """Make a Delta table.

    Args:
        uri: The folder of the table: a path or a ``file://`` URL, and it is made with all that it lies in; or
            in an object store ``s3://bucket/table``, ``gs://``, ``az://`` or ``abfss://``, where the bucket
            must be there and the store must take conditional PUT requests, as S3 and MinIO do.
        schema: The schema of the rows, partition columns included, from any object with
            ``__arrow_c_schema__``. Unsigned integers become the next larger signed ones, timestamps get
            microseconds; what a Delta table cannot hold is refused by name.
        partition_by: A column, or several from the outermost in, that rows are stored apart by.
        cluster_by: The columns that `Table.optimize` orders rows by, as `Table.cluster_by` takes them. Not
            with `partition_by`.
        properties: Table properties, such as ``{"delta.appendOnly": "true"}``, as `Table.set_properties`
            takes them.
        name: A name for people.
        description: A description for people.
        mode: The treatment of a table that exists: ``"error"`` refuses, ``"ignore"`` opens it as it is,
            ``"overwrite"`` gives it this schema, these properties, these clustering columns and no rows, as
            one more version.
        timeout: Seconds that it may take; None waits for ever.
        storage_options: Settings and credentials of the object store, by the names that delta-rs has for
            them, such as ``AWS_REGION`` or ``AWS_ENDPOINT_URL``; what they leave out comes from the
            environment.

    Raises:
        TableExistsError: There is a table, and ``mode="error"``.
        OptionError: The table cannot be clustered by a column, or Delta has no such property or value of it.
        SchemaError: A Delta table cannot hold the schema.
        UnsupportedTableError: A property asks for a feature that is not built; or a table that would be
            overwritten has the feature ``clustering``, and the new state has partitions.

    Example:
        >>> import pyarrow as pa, spillway.delta
        >>> schema = pa.schema({"day": pa.date32(), "message": pa.string()})
        >>> table = spillway.delta.create("events", schema, partition_by="day")
        >>> table.version, pa.schema(table.schema).names
        (0, ['day', 'message'])
    """
    place, options = _place(uri, storage_options)
    native = _native.DeltaTable.create(
        place,
        schema,
        _names(partition_by),
        _names(cluster_by),
        dict(properties or {}),
        name,
        description,
        mode,
        timeout,
        options,
    )
    return Table(native, options)


def _names(columns: str | Sequence[str] | None) -> list[str]:
    return [columns] if isinstance(columns, str) else list(columns or ())


@checks_arguments
def open(  # noqa: A001 - the word for it
    uri: str | os.PathLike[str], *, storage_options: Mapping[str, str] | None = None
) -> Table:
    """Open a Delta table.

    Args:
        uri: The folder of the table: a path, a ``file://`` URL, or one of an object store as for `create`.
        storage_options: As `create`.

    Raises:
        TableNotFoundError: There is no table.
        CorruptLogError: Its log is damaged or has a gap.
        UnsupportedTableError: It asks its readers for a feature that is not built.
    """
    place, options = _place(uri, storage_options)
    native = _native.DeltaTable.open(place, options)
    if (damage := native.damaged_checkpoint) is not None:
        _log.warning("%s. What came before it was read in its place", damage)
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
    where: str | Sequence[Condition] = (),
    schema_mode: SchemaMode | None = None,
    properties: Mapping[str, str] | None = None,
    timeout: float | None = _TIMEOUT,
    user_metadata: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    **options: Unpack[WriterKeywords],
) -> int:
    """Write rows to a Delta table in one call; a table that is not there is made.

    A table that is there is refused, unless `mode` says what to do with its rows, as by deltalake's
    ``write_deltalake``.

    Args:
        uri: The folder of the table: a path or a URL, as for `create`.
        data: Anything with ``__arrow_c_stream__`` or ``__arrow_c_array__``, rows as dicts, and all else that
            `spillway.write_parquet` takes. Rows and columns get the types of the table. Where it is made for
            them, it gets the types that the first 1,000 rows or the values ask for. Where it is made, and
            then a row is bad, the table stays, without rows: write to it with ``mode="append"``.
        mode: The treatment of a table that exists: ``"error"`` raises and changes nothing, ``"append"`` adds
            the rows, ``"overwrite"`` puts them in the place of all rows, or of those that `where`
            chooses, and ``"ignore"`` leaves the table as it is and writes nothing.
        partition_by: As `create`, for a table that is made.
        where: The rows that are overwritten: conditions on partition columns, which the new rows must
            meet, such as ``"day = DATE '2026-11-20'"`` or ``[("day", "=", "2026-11-20")]``.
        schema_mode: ``"merge"`` adds columns that the table lacks, and fields of structs at any depth. Dicts
            bring none: a key that the table lacks makes a row bad.
        properties: As `create`, for a table that is made.
        timeout: Seconds that it may take; None waits for ever.
        user_metadata: A note for the history.
        storage_options: As `create`.
        **options: The fields of `WriterOptions`, for the files.

    Returns:
        The version that holds the rows; for ``"ignore"``, the newest version of a table that was there.

    Raises:
        RowError: A row is bad; no row is committed.
        TableExistsError: There is a table, and ``mode="error"``, the default.
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
    if where and mode != "overwrite":
        raise OptionError('where says which rows are overwritten: it goes with mode="overwrite"', "where")
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
        f'{table.path}: there is a Delta table already, and mode="error", the default: give mode="append" to '
        'add the rows, "overwrite" to replace those that are there, or "ignore" to write nothing'
    )
    raise TableExistsError(message)


def _place(
    uri: str | os.PathLike[str], storage_options: Mapping[str, str] | None
) -> tuple[str, dict[str, str] | None]:
    """Resolve a table's location: a path, or the URL of an object store with its options."""
    text = os.fsdecode(os.fspath(uri))
    scheme, separator, rest = text.partition("://")
    if separator and scheme.lower() in OBJECT_STORES:
        return text, dict(storage_options or {})
    if storage_options is not None:
        given = f"{scheme}://" if separator else repr(text)
        message = f"storage_options need the URL of an object store, and {given} is not one: leave them out"
        raise OptionError(message, "storage_options")
    if separator and scheme.lower() == "file":
        return local_path(rest), None
    if separator:
        # The rest may hold a password or a signature.
        message = f"{scheme}:// is not accepted: choose a path, or s3://, gs://, az://, abfss:// or file://"
        raise OptionError(message, "uri")
    return text, None


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
    conditions: list[tuple[str, str, list[Any]]] = []
    for condition in given:
        match condition:
            case (str(column), "in", values) if isinstance(values, Iterable) and not isinstance(values, str):
                conditions.append((column, "in", list(values)))
            case (str(), "in", _):
                message = f'{name} has {condition!r}, and "in" goes with a list of values: {accepted}'
                raise OptionError(message, name)
            case (str(column), str(operator), value):
                conditions.append((column, operator, [value]))
            case _:
                message = f"{name} has {condition!r}, which is no column, operator and value: {accepted}"
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
