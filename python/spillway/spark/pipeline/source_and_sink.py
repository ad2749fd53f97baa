"""The source and the sink of a pipeline: the files that Spark reads, and the destination."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from spillway._options import shows_options
from spillway.errors import OptionError
from spillway.spark.run import check_mode
from spillway.writer import WriterOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Literal, Unpack

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from spillway.spark.write_job import Job
    from spillway.types import Condition, WriteMode, WriterKeywords

_FORMATS = {
    "parquet": "parquet",
    "csv": "csv",
    "tsv": "csv",
    "json": "json",
    "jsonl": "json",
    "ndjson": "json",
}
_SUFFIX = re.compile(r"\.([A-Za-z]+)(?:\.(?:gz|bz2))?/?$")


def format_of(path: str) -> str:
    """Return Spark's name for the format of files, from the suffix of their path; Parquet without a suffix.

    Raises:
        OptionError: The suffix belongs to no known format.
    """
    name = path.rstrip("/*").rpartition("/")[2]
    match = _SUFFIX.search(name)
    if match is None:
        return "parquet"
    known = _FORMATS.get(match[1].lower())
    if known is None:
        message = (
            f"{path!r} has no known format: give Parquet, CSV or NDJSON (.parquet, .csv, .tsv, .ndjson, "
            ".jsonl, .json; text also with .gz or .bz2), or a function that reads it"
        )
        raise OptionError(message, "source")
    return known


def read_path(  # noqa: PLR0913 - what there is to say about text
    session: SparkSession,
    path: str,
    *,
    schema: str | None = None,
    multi_line: bool = False,
    delimiter: str | None = None,
    encoding: str | None = None,
) -> DataFrame:
    """Read Parquet, CSV with a header, or NDJSON.

    A line that does not fit fails the run, unless the schema has a column for such lines:
    ``_corrupt_record``, or the name in ``spark.sql.columnNameOfCorruptRecord``.

    Args:
        session: The session.
        path: A path or URL, which may be a pattern.
        schema: The columns of text files, as ``"id INT, name STRING"``; by default, Spark infers them.
        multi_line: True if CSV values may contain line breaks; one task then reads each file.
        delimiter: The separator of CSV values.
        encoding: The encoding of text.

    Raises:
        OptionError: The format is not known.
    """
    form = format_of(path)
    reader: Any = session.read.format(form)
    if schema is not None:
        reader = reader.schema(schema)
    if form == "parquet":
        # Columns that the first file lacks would be lost.
        reader = reader.option("mergeSchema", "true")
    else:
        corrupt = session.conf.get("spark.sql.columnNameOfCorruptRecord") or ""
        keeps = schema is not None and re.search(rf"(?<!\w){re.escape(corrupt)}(?!\w)", schema) is not None
        mode = "PERMISSIVE" if keeps else "FAILFAST"
        reader = reader.option("mode", mode).option("encoding", encoding or "UTF-8")
    if form == "csv":
        tabs = ".tsv" in path.rpartition("/")[2].lower()
        reader = reader.options(
            header=True,
            inferSchema=schema is None,
            enforceSchema=False,
            sep=delimiter or ("\t" if tabs else ","),
            quote='"',
            escape='"',
            multiLine=multi_line,
        )
    frame: DataFrame = reader.load(re.sub(r"^s3n?://", "s3a://", path))
    return frame


class RunName(NamedTuple):
    """The name that identifies the rows of a run at a destination.

    Args:
        run_id: The name of the run, or the id of a query; None for rows that are added each time.
        batch: The number of a micro-batch.
    """

    run_id: str | None
    batch: int = 0


class Sink:
    """The destination of a pipeline, with the arguments of `spillway.spark.write`.

    Args:
        path: A folder, or a URL.
        table: ``"parquet"`` or ``"delta"``; by default, whatever exists at `path`.
        mode: As in `spillway.spark.write`. By default, ``"overwrite"`` if `where` or `partition_overwrite`
            selects the rows to replace, else ``"append"``.
        partition_by: Columns whose values divide rows into partitions.
        where: The rows that the new rows replace, by conditions on partition columns.
        partition_overwrite: ``"dynamic"`` replaces only partitions with new rows.
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
