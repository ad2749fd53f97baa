"""The work of a pipeline's tasks: rows are checked, their checksums taken, and written, in one pass."""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from spillway.errors import SchemaError
from spillway.spark.row_sums import RowSums, sums_of_batch
from spillway.spark.write import attempt_number, partition_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from spillway.spark.pipeline.checks import RowCheck
    from spillway.spark.write_job import Job, TaskResult

#: Values that an error shows of each check.
_SHOWN = 3
#: Bytes of rows that failed a check which a task holds in memory.
_MOST_HELD = 16 << 20


class Answer(NamedTuple):
    """What a task did.

    Attributes:
        result: Its files.
        quarantined: Its files of rows that failed a check.
        read: Rows that it was given.
        failed: Rows that failed, for each check.
        examples: Some values that failed, for each check.
        arrow_bytes: The size of the rows that were written, in Arrow's layout.
        seconds: The time that it waited for rows.
    """

    result: TaskResult
    quarantined: TaskResult | None = None
    read: int = 0
    failed: tuple[int, ...] = ()
    examples: tuple[tuple[str, ...], ...] = ()
    arrow_bytes: int = 0
    seconds: float = 0.0


def quarantine_schema(schema: pa.Schema, corrupt: str | None = None) -> pa.Schema:
    """The schema of rows that failed a check: theirs, the names of the checks, and the run.

    Args:
        schema: The schema of the rows that are written.
        corrupt: The name of the column of records that could not be parsed.

    Raises:
        SchemaError: The rows have a column with one of these names.
    """
    reserved = {"_failed_checks", "_run_id", (corrupt or "_run_id").lower()}
    if taken := next((name for name in schema.names if name.lower() in reserved), None):
        message = f'the column {taken} has the name of one that bad_rows="quarantine" adds: rename it'
        raise SchemaError(message, taken)
    record = [pa.field(corrupt, pa.string())] if corrupt else []
    names = pa.field("_failed_checks", pa.list_(pa.field("element", pa.string())))
    return pa.schema([*schema, *record, names, pa.field("_run_id", pa.string())])


class _Tally:
    """Rows as they pass, the sums of their hashes, and their size.

    Args:
        partition_by: The partition columns, in which an empty string is null, as no engine tells them apart.
        sums: True if the hashes are summed up.
    """

    def __init__(self, partition_by: Sequence[str] = (), *, sums: bool) -> None:
        self._partition_by = partition_by
        self._sums = RowSums() if sums else None
        self.arrow_bytes = 0
        self.seconds = 0.0

    def passed(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same batches."""
        rows = iter(batches)
        while True:
            started = time.perf_counter()
            batch = next(rows, None)
            self.seconds += time.perf_counter() - started
            if batch is None:
                return
            if self._sums is not None:
                self._sums += sums_of_batch(_as_read(batch, self._partition_by))
            self.arrow_bytes += batch.nbytes
            yield batch

    def of(self, result: TaskResult) -> TaskResult:
        """The result of the rows that passed, with their sums."""
        return replace(result, sums=self._sums)


def _as_read(batch: pa.RecordBatch, partition_by: Sequence[str]) -> pa.RecordBatch:
    """The rows as readers find them: with null for an empty string in a partition column."""
    for place, field in enumerate(batch.schema):
        is_text = pa.types.is_string(field.type) or pa.types.is_large_string(field.type)
        if is_text and field.name in partition_by:
            column: Any = batch.column(place)
            is_empty = pc.equal(column, pa.scalar("", field.type))
            filled = pc.if_else(is_empty, pa.scalar(None, field.type), column)
            batch = batch.set_column(place, field.with_nullable(nullable=True), filled)
    return batch


class MadeTask:
    """A task that makes its rows, and writes them.

    Args:
        job: The job.
        make: Returns the rows of the partition with this number.
        sums: True if the hashes of rows are summed up, for an audit.
    """

    def __init__(self, job: Job, make: Callable[[int], Iterable[pa.RecordBatch]], *, sums: bool) -> None:
        self._job, self._make, self._sums = job, make, sums

    def __call__(self, number: int) -> Answer:
        """Write the partition of this number."""
        tally = _Tally(self._job.partition_columns, sums=self._sums)
        result = tally.of(self._job.write(tally.passed(self._make(number)), number, attempt_number()))
        return Answer(result, None, result.rows, (), (), tally.arrow_bytes, tally.seconds)


class CheckedTask:
    """A task that writes the rows of its partition of a frame that pass all checks.

    The last column of the frame has a bit for each check that the row fails; a frame without checks lacks it.
    The column of corrupt records, if any, comes before it, after the columns that are written.

    Args:
        job: The job.
        checks: The checks of rows.
        quarantine: The job of the rows that fail; None to leave them out.
        run_id: The name of the run.
        corrupt: The name of the column of records that could not be parsed.
        sums: True if the hashes of rows are summed up, for an audit.
    """

    def __init__(  # noqa: PLR0913 - what a task is told
        self,
        job: Job,
        checks: Sequence[RowCheck],
        quarantine: Job | None,
        run_id: str,
        *,
        corrupt: str | None = None,
        sums: bool,
    ) -> None:
        self._job, self._checks, self._quarantine = job, tuple(checks), quarantine
        self._run_id, self._corrupt, self._sums = run_id, corrupt, sums

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Answer]:
        """Write the rows."""
        schema = self._job.target.schema
        bad_schema = quarantine_schema(schema, self._corrupt)
        split = _Split(self._checks, schema, bad_schema)
        tally = _Tally(self._job.partition_columns, sums=self._sums)
        task, attempt = partition_number(), attempt_number()
        with tempfile.SpooledTemporaryFile(max_size=_MOST_HELD) as file:
            keep: Any = None
            if self._quarantine is not None:
                keep = pa.ipc.new_stream(file, bad_schema)
            good = tally.passed(split.good(batches, keep, self._run_id))
            result = tally.of(self._job.write(good, task, attempt))
            quarantined = None
            if self._quarantine is not None:
                keep.close()
                file.seek(0)
                bad = _Tally(self._quarantine.partition_columns, sums=self._sums)
                rows: Any = pa.ipc.open_stream(file)
                quarantined = bad.of(self._quarantine.write(bad.passed(rows), task, attempt))
        examples = tuple(tuple(each) for each in split.examples)
        yield Answer(
            result,
            quarantined,
            split.read,
            tuple(split.failed),
            examples,
            tally.arrow_bytes,
            tally.seconds,
        )


class _Split:
    """Rows that pass all checks apart from those that fail one."""

    def __init__(self, checks: Sequence[RowCheck], schema: pa.Schema, bad_schema: pa.Schema) -> None:
        self._checks, self._schema, self._bad_schema = checks, schema, bad_schema
        self.read = 0
        self.failed = [0] * len(checks)
        self.examples: list[list[str]] = [[] for _ in checks]

    def good(
        self,
        batches: Iterable[pa.RecordBatch],
        keep: Any,
        run_id: str,
    ) -> Iterator[pa.RecordBatch]:
        """The rows that pass; those that fail go to `keep`, with what they failed."""
        names = self._schema.names
        for batch in batches:
            self.read += batch.num_rows
            # Spark's timestamps have the time zone of the session. The conversion copies nothing.
            rows = batch.select(list(range(len(names)))).rename_columns(names).cast(self._schema)
            if self._checks:
                *corrupt, flags = batch.columns[len(names) :]
                passes = pc.equal(flags, pa.scalar(0, flags.type))
                failed: Any = pc.invert(passes)
                bad = rows.filter(failed)
                if bad.num_rows:
                    for record in corrupt:
                        bad = bad.append_column(self._bad_schema.field(len(names)), record.filter(failed))
                    self._note(bad, flags.filter(failed), keep, run_id)
                    rows = rows.filter(passes)
            yield rows

    def _note(self, bad: pa.RecordBatch, flags: Any, keep: Any, run_id: str) -> None:
        masks = flags.to_pylist()
        for place, check in enumerate(self._checks):
            where = [row for row, mask in enumerate(masks) if mask >> place & 1]
            self.failed[place] += len(where)
            shown = self.examples[place]
            column = bad.column(bad.schema.get_field_index(check.column))
            shown += [_shown(column[row]) for row in where[: _SHOWN - len(shown)]]
        if keep is None:
            return
        names = [
            [check.name for place, check in enumerate(self._checks) if mask >> place & 1] for mask in masks
        ]
        schema = self._bad_schema
        more = [pa.array(names, schema.field("_failed_checks").type), pa.array([run_id] * len(masks))]
        keep.write_batch(pa.RecordBatch.from_arrays([*bad.columns, *more], schema=schema))


def _shown(value: pa.Scalar[Any]) -> str:
    try:
        return str(value.as_py())
    except (OverflowError, ValueError):
        # A date or a time that Python has none for, such as one after the year 9999.
        return str(value.cast(pa.string()).as_py())
