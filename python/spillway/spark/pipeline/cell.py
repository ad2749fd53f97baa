"""What the record of a pipeline has of its options."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spillway.spark.master import kind_of
from spillway.spark.pipeline.run import Audit, BadRows
from spillway.spark.write_job import TableKind
from spillway.types import WriteMode

if TYPE_CHECKING:
    from spillway.spark.pipeline.run import Pipeline

__all__ = ["Cell", "cell_of"]


@dataclass(frozen=True)
class Cell:
    """A pipeline: its rows and what is made of them.

    Attributes:
        source: The dataset's name; "files" that Spark reads; "frame" of a program; "stream".
        rows: The number of rows of a dataset; null for others, which say themselves.
        partitions: Tasks that make rows; null where Spark plans them.
        table: "parquet": a folder of files; "delta": a Delta table.
        mode: The treatment of a destination that is there: "error", "append", "overwrite" or "ignore".
        bad_rows: What becomes of rows that fail a check.
        audit: What is read back: "full", "sample" or "none".
        partition_by: Columns that rows are stored apart by.
        codec: The codec of pages; "by column" where columns have several.
        level: Its level; null for the codec's own.
        row_group_rows: Most rows per row group.
        max_file_bytes: Bytes of a file after which the next begins; null for one file a task.
        master: "local" with its cores, or the kind of cluster.
    """

    source: str
    rows: int | None
    partitions: int | None
    table: TableKind
    mode: WriteMode
    bad_rows: BadRows
    audit: Audit
    partition_by: list[str]
    codec: str
    level: int | None
    row_group_rows: int
    max_file_bytes: int | None
    master: str


def cell_of(  # noqa: PLR0913 - what a pipeline does not say itself
    pipeline: "Pipeline",
    *,
    table: TableKind,
    master: str,
    source: str | None = None,
    rows: int | None = None,
    partitions: int | None = None,
) -> Cell:
    """The part of a pipeline that a record has: no paths, no names of hosts, no credentials.

    Args:
        pipeline: The pipeline.
        table: The kind of the destination.
        master: The address of Spark's master.
        source: The name of the source in the record; by default that of the pipeline's source.
        rows: The number of rows of a dataset.
        partitions: Tasks that make rows.
    """
    sink = pipeline.sink
    if source is None:
        is_stream = pipeline.checkpoint_location is not None
        source = "stream" if is_stream else "files" if isinstance(pipeline.source, str) else "frame"
    codec = sink.options.compression
    return Cell(
        source=source,
        rows=rows,
        partitions=partitions,
        table=table,
        mode=sink.mode,
        bad_rows=pipeline.bad_rows,
        audit=pipeline.audit,
        partition_by=list(sink.partition_by),
        codec=codec if isinstance(codec, str) else "by column",
        level=sink.options.compression_level,
        row_group_rows=sink.options.row_group_rows,
        max_file_bytes=sink.max_file_bytes,
        master=kind_of(master),
    )
