"""The job that writes a Delta table: tasks detach parts, and the driver commits them in one version."""

from __future__ import annotations

import json
import logging
import math
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa

import spillway.delta
from spillway import _native
from spillway._destination import resolve_folder
from spillway.delta.table import _app_transaction
from spillway.errors import (
    OptionError,
    SchemaError,
    SpillwayError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedTableError,
)
from spillway.spark.folder_contents import has_data
from spillway.spark.location import unquoted
from spillway.spark.row_sums import check_hashed
from spillway.spark.schema import quoted
from spillway.spark.write_job import (
    Clock,
    Job,
    SparkWriteResult,
    StagedFile,
    TaskResult,
    choose_scratch,
    claimed,
    peeked,
)
from spillway.writer import WriterOptions

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from spillway.spark.write_job import Target
    from spillway.types import Condition

__all__ = ["DeltaJob", "nullable"]

#: How the names of jobs' folders begin.
_JOB_FOLDER = "spillway-"
#: Files in a job's folder: the job is under way; its commit was tried.
_UNDER_WAY, _COMMITTING = "_job", "_committing"
#: The file that is there once a commit was begun that may be begun twice.
_CLAIM = "_commit"

_log = logging.getLogger("spillway.spark")


class DeltaJob(Job):
    """Tasks write files into ``spillway-JOB/`` inside the table; one transaction names those that count.

    In a separate folder, the driver can find the files of killed or repeated attempts, and remove them. A
    table that is not there is planned. The commit creates it with the rows, as version 0, so a job that fails
    leaves none.
    """

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._plan: bytes | None = None
        self._made = False

    def begin(self) -> None:
        try:
            table = self._open()
        except TableNotFoundError:
            self._plan = _native.DeltaTable.plan(nullable(self.target.schema), list(self.target.partition_by))
            table = self._planned(self._plan)
        self._check_partition_by(table)
        self.partition_columns = tuple(table.partition_columns)
        if self.readable:
            self._check_readable(table)
        self._check(table)
        storage = self._storage()
        self._made = not storage.exists()
        # A store without conditional PUT is refused before the first row.
        storage.create_once(f"{self._folder}/{_UNDER_WAY}", b"")

    def _check_partition_by(self, table: spillway.delta.Table) -> None:
        """Refuse partition columns that are not those of the table.

        Raises:
            OptionError: They are others, or in another order.
        """
        wanted, present = list(self.target.partition_by), table.partition_columns
        if wanted and wanted != present:
            message = (
                f"partition_by={wanted} is not accepted: the table is partitioned by {present}; leave it out"
            )
            raise OptionError(message, "partition_by", present)

    def _check_readable(self, table: spillway.delta.Table) -> None:
        """Refuse a table whose files would not have the columns of the rows as an audit looks for them.

        Raises:
            SchemaError: The table has another type for a column, which the writer converts to; or an audit
                could not compare the column.
            UnsupportedTableError: The table has column mapping.
        """
        mode = table.properties.get("delta.columnMapping.mode", "none")
        if mode.lower() != "none":
            raise UnsupportedTableError(
                f"the table {self.target.path} has column mapping (delta.columnMapping.mode={mode!r}): its "
                "files have other names for the columns, and an audit would not find them. Run the pipeline "
                'with audit="none" and no unique()'
            )
        check_hashed(self.target.schema)
        schema: Any = table.schema  # what pa.schema takes, and its stubs do not
        types = {field.name: field.type for field in pa.schema(schema)}
        for field in self.target.schema:
            own = types.get(field.name, field.type)
            # Types with fields differ in what may be null, which no file shows.
            if own != field.type and not pa.types.is_nested(own):
                raise SchemaError(
                    f"the column {field.name} is {field.type}, and in {self.target.path} it is {own}: cast "
                    'it in transform, or run the pipeline with audit="none" and no unique()',
                    field.name,
                )

    def _check(self, table: spillway.delta.Table) -> None:
        """Let the appends of the tasks and of the commit refuse what they do not accept."""
        replaced = (self.target.where or ()) if self.target.overwrite and self._has_rows_to_replace else None
        # Without rows, these check options and schema alone.
        nothing = pa.Table.from_batches([], self.target.schema)
        append = self._append(table)
        try:
            append.write(nothing)
            append.detach()
        finally:
            append.abort()
        append = self._committing(table, replaced)
        try:
            append.write(nothing)
        finally:
            append.abort()

    def exists(self) -> bool:
        # A table in a folder of plain files would hide their rows.
        return self._present() is not None or has_data(self._storage(), but=_JOB_FOLDER)

    def present(self) -> SparkWriteResult:
        table = self._present()
        return SparkWriteResult(0, 0, 0, None if table is None else table.version, 0.0)

    def is_repeated(self) -> bool:
        if self.target.app_id is None or (table := self._present()) is None:
            return False
        known = table.transaction_version(self.target.app_id)
        return known is not None and known >= (self.target.app_version or 0)

    def _present(self) -> spillway.delta.Table | None:
        try:
            return self._open()
        except TableNotFoundError:
            return None

    def write(self, batches: Iterable[pa.RecordBatch], task: int, attempt: int) -> TaskResult:  # noqa: ARG002 - files have names of their own
        self.check_executor()
        choose_scratch()
        filled = peeked(batches)
        if filled is None:
            return TaskResult()
        self._check_under_way()
        table = self._table()
        append = self._append(table)
        clock = Clock()
        try:
            for batch in self._grouped(filled, table.partition_columns):
                with clock:
                    append.write(batch)
            # An attempt that outlives the job removes its files.
            self._check_under_way()
            with clock:
                part = append.detach()
        except BaseException:
            append.abort()
            raise
        found = json.loads(part)
        return TaskResult(
            rows=found["rows"],
            size=found["bytes"],
            files=tuple(add["path"] for add in found["adds"]),
            seconds=clock.seconds,
            part=part,
        )

    def staged(self, result: TaskResult) -> list[StagedFile]:
        root = unquoted(self.target.path)
        adds = [] if result.part is None else json.loads(result.part)["adds"]
        return [StagedFile(f"{root}/{unquote(add['path'])}", add["partitionValues"]) for add in adds]

    def claim(self) -> None:
        claimed(self._storage(), f"{self._folder}/{_CLAIM}", self.target.path)

    def commit(self, results: Sequence[TaskResult]) -> SparkWriteResult:
        try:
            return self._commit(self._table(), results)
        except TableExistsError:
            if self._plan is None:
                raise
            # Another job was quicker to create the table: this commit has failed for certain.
            self._plan = None
            self._unmark(_COMMITTING)
            if self.is_new_only:
                self._remove_unknown()
                raise
            return self._commit(self._open(), results)

    def _commit(self, table: spillway.delta.Table, results: Sequence[TaskResult]) -> SparkWriteResult:
        target = self.target
        parts = [result.part for result in results if result.part is not None]
        replaced = self._replaced(table, results)
        if replaced is None and not parts and target.app_id is None and self._plan is None:
            # Nothing is added, and nothing replaced.
            self._remove_strays(keep=())
            return self.summary(results, table.version, 0)
        append = self._committing(table, replaced)
        repeated = append.repeated
        seconds = sum(result.seconds for result in results)
        try:
            with append:
                for part in parts:
                    append.attach(part)
                append._native.add_metrics({"writerTimeMs": str(round(seconds * 1000))})  # noqa: SLF001
                # The end of the block commits. What fails before that, an abort removes.
                self._mark(_COMMITTING)
        except TableExistsError:
            # The files are for the table that is there.
            raise
        except BaseException:
            if append.token is None and append.version is None:
                self._remove_unknown()
            raise
        files = tuple(name for result in results for name in result.files)
        if repeated:
            self._remove_unknown()
            _log.info("%s already has version %s of %s", target.path, target.app_version, target.app_id)
            return SparkWriteResult(0, 0, 0, append.version, seconds)
        self._remove_strays(keep={unquote(name) for name in files})
        return self.summary(results, append.version, len(files))

    def abort(self) -> None:
        if self._is_marked(_COMMITTING):
            # The commit failed, and has removed the files unless their outcome is unknown.
            return
        self._remove_unknown()

    def _remove_unknown(self) -> None:
        """Remove the job's files that no version of the table names and no process has announced.

        A replay finds files of the first run that the table had once: its history reads them. If that run
        died after it announced its commit, any other process may still commit them.
        Where its log cannot be read, they stay: the failure that led here is the one to raise.
        """
        try:
            keep = set(self._open()._native.paths_in_use(self._folder))  # noqa: SLF001 - one package
        except TableNotFoundError:
            self._remove_strays(keep=())
            if self._made:
                self._storage().remove_if_empty("")
            return
        except (SpillwayError, OSError) as error:
            _log.warning("files of the job %s were left in %s: %s", self.id, self.target.path, error)
            return
        self._remove_strays(keep=keep)

    def _check_under_way(self) -> None:
        """Refuse to write for a job that was committed or aborted.

        Raises:
            FileNotFoundError: The mark of the job is gone, or this machine does not see the folder.
        """
        if not self._is_marked(_UNDER_WAY):
            place = f"{self.target.path}/{self._folder}"
            message = (
                f"{place} does not exist: the job has ended, or this machine cannot access "
                f"the driver's folder"
            )
            raise FileNotFoundError(message)

    def _mark(self, name: str) -> None:
        """Mark in the job's folder that its commit was tried: another process may be the one that aborts."""
        self._storage().mark(f"{self._folder}/{name}")

    def _unmark(self, name: str) -> None:
        for mark, error in self._storage().discard([f"{self._folder}/{name}"]).items():
            # An abort takes it for a commit whose outcome is unknown, and leaves all files.
            _log.warning("%s stays in %s: %s", mark, self.target.path, error)

    def _is_marked(self, name: str) -> bool:
        return self._storage().has(f"{self._folder}/{name}")

    @property
    def _folder(self) -> str:
        return f"{_JOB_FOLDER}{self.id}"

    def _table(self) -> spillway.delta.Table:
        """The table that is written to: the one that is there, or the planned one."""
        return self._open() if self._plan is None else self._planned(self._plan)

    def _open(self) -> spillway.delta.Table:
        return spillway.delta.open(self.target.path, storage_options=self.target.storage_options)

    def _planned(self, plan: bytes) -> spillway.delta.Table:
        place, options = resolve_folder(self.target.path, self.target.storage_options, "path")
        return spillway.delta.Table(_native.DeltaTable.planned(place, plan, options), options)

    def _append(self, table: spillway.delta.Table) -> spillway.delta.Append:
        limits = self.target.limits
        return table._append(  # noqa: SLF001 - one package
            schema_mode=self.target.schema_mode,
            limits=(limits.get("max_file_bytes"), limits.get("max_file_rows")),
            folder=self._folder,
            options=WriterOptions(**self.target.options),
        )

    @property
    def _has_rows_to_replace(self) -> bool:
        """False for a table that is not there yet, unless a condition is to refuse rows outside of it."""
        return self._plan is None or self.target.where is not None

    def _replaced(
        self, table: spillway.delta.Table, results: Sequence[TaskResult]
    ) -> str | Sequence[Condition] | None:
        """The conditions of the rows that the commit replaces; None for none, and no condition for all."""
        if not self.target.overwrite or not self._has_rows_to_replace:
            return None
        if self.target.where is not None:
            return self.target.where
        if not self.replaces_touched(results):
            return ()
        parts = (json.loads(result.part) for result in results if result.part is not None)
        partitions = [partition for part in parts for partition in _partitions_of(part)]
        schema: Any = table.schema  # what pa.schema takes, and its stubs do not
        return _condition_on(partitions, pa.schema(schema)) if partitions else None

    def _committing(
        self, table: spillway.delta.Table, replaced: str | Sequence[Condition] | None
    ) -> spillway.delta.Append:
        """The append that commits the parts."""
        target = self.target
        return table._append(  # noqa: SLF001 - one package
            app_transaction=_app_transaction(target.app_id, target.app_version),
            schema_mode=target.schema_mode,
            replace=replaced,
            options=WriterOptions(**target.options),
        )

    def _remove_strays(self, keep: Collection[str]) -> None:
        """Remove what superseded attempts left in the job's folder, except files of these names.

        What cannot be removed is logged: no reader sees it.
        """
        try:
            self._storage().remove_but(self._folder, keep)
        except OSError as error:
            _log.warning("files of discarded attempts were left in %s: %s", self.target.path, error)


def nullable(schema: pa.Schema) -> pa.Schema:
    """The schema without fields that refuse nulls, as Delta does: engines disagree about who checks them.

    Spark infers non-nullable types from literals and ranges; a table should not inherit them.
    """
    return pa.schema([_nullable(field) for field in schema])


def _nullable(field: pa.Field[Any]) -> pa.Field[Any]:
    kind: Any = field.type
    if pa.types.is_struct(kind):
        kind = pa.struct([_nullable(kind.field(place)) for place in range(kind.num_fields)])
    elif pa.types.is_map(kind):
        # Keys are never null.
        key = _nullable(kind.key_field).with_nullable(nullable=False)
        kind = pa.map_(key, _nullable(kind.item_field))
    elif pa.types.is_list(kind):
        kind = pa.list_(_nullable(kind.value_field))
    return field.with_type(kind).with_nullable(nullable=True)


#: Bytes that the native module takes of a condition in SQL.
_MOST_BYTES = 65_536


def _partitions_of(part: Mapping[str, Any]) -> list[dict[str, str | None]]:
    """The partition values of a detached part's files, by the names that the columns have in the table."""
    values: list[dict[str, str | None]] = [add["partitionValues"] for add in part["adds"]]
    if not part["basis"].get("isMapped"):
        return values
    # The log has physical names (PROTOCOL.md, "Column Mapping").
    fields = part["basis"]["schema"]["fields"]
    names = {field["metadata"]["delta.columnMapping.physicalName"]: field["name"] for field in fields}
    return [{names[name]: value for name, value in each.items()} for each in values]


def _condition_on(
    partitions: Iterable[Mapping[str, str | None]], schema: pa.Schema
) -> str | Sequence[Condition]:
    """Return the condition that is true only for the rows of these partitions.

    Args:
        partitions: The values of each, one or more, in the form of a Delta table's log (PROTOCOL.md,
            "Partition Value Serialization").
        schema: The schema of the table.

    Raises:
        OptionError: A value has no literal: NaN, infinity, a binary value, or a text with a backslash beside
            another column or a null; or there are too many.
    """
    # Ordered, so that the same files make the same condition.
    distinct = sorted({tuple(sorted(each.items())) for each in partitions}, key=repr)
    columns = {name for name, _ in distinct[0]}
    values = [each[0][1] for each in distinct]
    (column, *others) = sorted(columns)
    # A list may have any length, but cannot hold decimals.
    if not (others or None in values or pa.types.is_decimal(schema.field(column).type)):
        return [(column, "in", pa.array(values, pa.string()).cast(schema.field(column).type).to_pylist())]
    text = _any_of([" AND ".join(_equals(*pair, schema) for pair in each) for each in distinct])
    if len(text.encode()) > _MOST_BYTES:
        raise OptionError(
            f"{len(distinct)} partitions of {', '.join(sorted(columns))} have new rows, too many to replace "
            "each alone in one commit: give where= for the rows to replace, or write fewer of them at once",
            "partition_overwrite",
        )
    return text


def _any_of(conditions: Sequence[str]) -> str:
    """Join conditions as a balanced tree: of a chain, the parser takes no more than some hundred."""
    if len(conditions) == 1:
        return conditions[0]
    middle = len(conditions) // 2
    return f"({_any_of(conditions[:middle])}) OR ({_any_of(conditions[middle:])})"


def _equals(column: str, value: str | None, schema: pa.Schema) -> str:
    name = quoted(column)
    if value is None:
        return f"{name} IS NULL"
    kind = schema.field(column).type
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        return f"{name} = {value}"
    if pa.types.is_floating(kind) and math.isfinite(float(value)):
        return f"{name} = {value}"
    is_other = pa.types.is_floating(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    # Engines read a backslash in a text differently.
    if is_other or (is_text and "\\" in value):
        raise OptionError(
            f"the partition {column}={value} cannot be replaced separately, because no condition "
            f"can express its value: "
            "give where= for the rows to replace, or partition_overwrite='static' to replace all",
            "partition_overwrite",
        )
    return f"{name} = '" + value.replace("'", "''") + "'"
