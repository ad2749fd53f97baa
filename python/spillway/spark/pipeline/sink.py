"""The destination of a pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from spillway._options import shows_options
from spillway.spark.run import check_mode
from spillway.writer import WriterOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Literal, Unpack

    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from spillway.spark.write_job import Job
    from spillway.types import Condition, WriteMode, WriterKeywords

__all__ = ["RunName", "Sink"]


class RunName(NamedTuple):
    """The name by which a destination knows the rows of a run.

    Args:
        run_id: The name of the run, or the id of a query; None for rows that are added each time.
        batch: The number of a micro-batch.
    """

    run_id: str | None
    batch: int = 0


class Sink:
    """The destination of a pipeline, and how it is written, by the arguments of `spillway.spark.write`.

    Args:
        path: A folder, or a URL.
        table: ``"parquet"`` or ``"delta"``; without it, what is there.
        mode: As for `spillway.spark.write`. Without it, ``"overwrite"`` where `where` or
            `partition_overwrite` says what is replaced, or else ``"append"``.
        partition_by: Columns that rows are stored apart by.
        where: The rows that the new rows replace, by conditions on partition columns.
        partition_overwrite: ``"dynamic"`` replaces the partitions that have new rows.
        schema_mode: ``"merge"`` adds columns that a Delta table lacks.
        max_file_bytes: Bytes that a file has at most.
        max_file_rows: Rows of a file.
        storage_options: Settings and credentials of the object store, for the writer. Spark reads what was
            written by its own.
        **options: The fields of `WriterOptions`, for the files.

    Raises:
        OptionError: An option has a value that is not accepted.

    Example:
        >>> sink = spillway.spark.Sink("/lake/events", table="delta", partition_by="day")
        >>> sink.mode
        'append'
    """

    @shows_options(WriterOptions)
    def __init__(  # noqa: PLR0913 - what a write is
        self,
        path: str,
        *,
        table: Literal["parquet", "delta"] | None = None,
        mode: WriteMode | None = None,
        partition_by: str | Sequence[str] = (),
        where: str | Sequence[Condition] | None = None,
        partition_overwrite: Literal["static", "dynamic"] | None = None,
        schema_mode: Literal["merge"] | None = None,
        max_file_bytes: int | None = None,
        max_file_rows: int | None = None,
        storage_options: Mapping[str, str] | None = None,
        **options: Unpack[WriterKeywords],
    ) -> None:
        replaces = where is not None or partition_overwrite is not None
        self.path = path
        self.table = table
        self.mode: WriteMode = mode or ("overwrite" if replaces else "append")
        self.partition_by = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
        self.max_file_bytes = max_file_bytes
        check_mode(self.mode)
        self.options = WriterOptions(**options)
        self._kept: dict[str, Any] = {
            "table": table,
            "storage_options": storage_options,
            "max_file_bytes": max_file_bytes,
            "max_file_rows": max_file_rows,
            "options": options,
        }
        self._target: dict[str, Any] = {
            "overwrite": self.mode == "overwrite",
            "partition_by": self.partition_by,
            "where": where,
            "partition_overwrite": partition_overwrite,
            "schema_mode": schema_mode,
        }

    def __repr__(self) -> str:
        return f"Sink({self.path!r}, mode={self.mode!r})"

    @property
    def quarantine(self) -> str:
        """The location of the table of rows that failed a check."""
        return f"{self.path.rstrip('/')}__quarantine"

    def plan(
        self, session: SparkSession, schema: pa.Schema, rows: StructType | None, name: RunName
    ) -> Callable[[], Job]:
        """Return what makes the job; `rows` is Spark's own schema of rows that it makes."""
        from spillway.spark.write import plan_of

        named = name._asdict()
        return plan_of(session, self.path, schema, rows=rows, **named, **self._kept, **self._target)

    def plan_quarantine(
        self, session: SparkSession, schema: pa.Schema, table: str, name: RunName
    ) -> Callable[[], Job]:
        """Return what makes the job that appends the rows which failed a check."""
        from spillway.spark.write import plan_of

        merge = "merge" if table == "delta" else None
        kept = {**self._kept, "table": table, "options": {}}
        return plan_of(
            session,
            self.quarantine,
            schema,
            overwrite=False,
            schema_mode=merge,
            **name._asdict(),
            **kept,
        )
