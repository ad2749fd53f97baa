"""Commands about Spark: ``pipeline`` runs a pipeline, ``uploads`` ends uploads of jobs that were killed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spillway.cli.common import (
    INTERRUPTED,
    Delimiter,
    Encoding,
    Out,
    StorageOption,
    complete_codec,
    complete_dataset,
    failing,
    first_interrupt_alone,
    listed,
    pairs,
    print_tables,
    size,
    termination_as_interrupt,
)

if TYPE_CHECKING:
    from rich.console import Console

    from spillway.harness.report import Table
    from spillway.spark.pipeline.command import Finished
    from spillway.spark.uploads import JobUploads

_SHOWN_ROWS = 12


def pipeline(  # noqa: PLR0913 - one argument per option of the command
    *,
    to: Annotated[str, typer.Option(help="The folder or the Delta table to write: a path or a URL.")],
    rows: Annotated[
        str | None, typer.Option(help="Rows of the dataset: 250000, 250K, 10M.", show_default=False)
    ] = None,
    dataset: Annotated[
        str,
        typer.Option(
            help="Generated rows: logs (52 columns), logs-nested, lineitem of TPC-H, or wide:N for N "
            "columns.",
            autocompletion=complete_dataset,
        ),
    ] = "logs",
    input: Annotated[  # noqa: A002 - the option's name
        str | None,
        typer.Option(
            help="Your own rows instead: a file, a folder, a quoted glob or a URL of Parquet, CSV or "
            "NDJSON, read by Spark; text files may be compressed (.gz, .bz2)."
        ),
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option(help="The columns of CSV or NDJSON, as 'id INT, name STRING'; inferred by default."),
    ] = None,
    multi_line: Annotated[
        bool,
        typer.Option(
            "--multi-line", help="CSV values may contain line breaks; one task then reads each file."
        ),
    ] = False,
    transform: Annotated[
        str | None,
        typer.Option(help="MODULE:FUNCTION that takes the input DataFrame and returns another one."),
    ] = None,
    check: Annotated[
        list[str] | None,
        typer.Option(
            help="'not_null(id)', 'between(latency_ms, 0, 60000)' or 'unique(day, id)'; may be repeated."
        ),
    ] = None,
    bad_rows: Annotated[
        str,
        typer.Option(help="What to do with rows that fail not_null or between: fail, drop or quarantine."),
    ] = "fail",
    audit: Annotated[
        str,
        typer.Option(help="Which files Spark reads back before they are published: full, sample or none."),
    ] = "full",
    run_id: Annotated[
        str | None,
        typer.Option(help="A name for the run: its rows are added once, however often it is repeated."),
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(
            help='The rows to replace, as conditions on partition columns, such as "day = DATE '
            "'2026-11-27'\"."
        ),
    ] = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    master: Annotated[
        str, typer.Option(help="local[*], local[4], spark://HOST:PORT, yarn or k8s://https://HOST:PORT.")
    ] = "local[*]",
    conf: Annotated[
        list[str] | None,
        typer.Option(help="NAME=VALUE, a Spark setting; may be repeated."),
    ] = None,
    pack: Annotated[
        bool,
        typer.Option("--pack", help="Send this package, pyarrow and numpy to executors that lack them."),
    ] = False,
    memory: Annotated[str, typer.Option(help="Heap size of the driver's JVM, in Spark's notation.")] = "2g",
    seed: Annotated[int, typer.Option(help="Seed of the generated rows.")] = 1,
    partitions: Annotated[
        int | None,
        typer.Option(
            help="Number of tasks that generate rows; by default several for each core, with at "
            "most 500000 rows each."
        ),
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(help="parquet or delta; by default the kind of the existing destination, else parquet."),
    ] = None,
    mode: Annotated[
        str | None,
        typer.Option(
            help="What to do if the destination exists: error, append or overwrite; by default error, "
            "and overwrite with --where."
        ),
    ] = None,
    partition_by: Annotated[str, typer.Option(help="Partition columns, separated by commas.")] = "",
    codec: Annotated[
        str,
        typer.Option(help="zstd, snappy, lz4, gzip, brotli or uncompressed.", autocompletion=complete_codec),
    ] = "zstd",
    level: Annotated[int | None, typer.Option(help="The codec's level; 1 for zstd.")] = None,
    row_group_rows: Annotated[int, typer.Option(help="Maximum rows per row group.")] = 1_048_576,
    max_file_bytes: Annotated[
        str | None,
        typer.Option(help="Maximum size of a file, after which a task starts the next one: 128MB."),
    ] = None,
    storage_option: StorageOption = None,
    out: Out = Path("runs/pipeline"),
) -> None:
    """Read or generate rows on Spark, check and write them, audit the files, and publish them.

    Spillway's writer writes the rows on executors. Before any reader sees
    them, Spark reads the files back, and the checksums must equal those
    computed during the write. A failed run publishes nothing. The record and a
    report go to a new folder below --out.

    Exit status 0: the run was published. Exit status 1: a check, the audit or
    a stage failed, and nothing was published. Exit status 2: the run cannot be
    carried out. 130: interrupted.

    Examples:
    spillway pipeline --rows 1M --to logs;
    spillway pipeline --rows 10M --master spark://HOST:7077 --table delta --to /shared/logs;
    spillway pipeline --input 'days/*.csv' --check 'not_null(id)' --bad-rows quarantine --to days
    """
    from rich.console import Console

    from spillway.spark.pipeline.checks import parse_check
    from spillway.spark.pipeline.command import Options, run_pipeline
    from spillway.spark.pipeline.progress import Progress

    console = Console()
    with first_interrupt_alone(), termination_as_interrupt() as end_what_was_begun:
        with failing("pipeline", "interrupted before any row was made: nothing is left"):
            options = Options(
                dataset=dataset,
                input=input,
                schema=schema,
                multi_line=multi_line,
                delimiter=delimiter,
                encoding=encoding,
                transform=_function(transform),
                checks=tuple(parse_check(text) for text in check or ()),
                bad_rows=bad_rows,  # type: ignore[arg-type]  # checked by Options
                audit=audit,  # type: ignore[arg-type]  # checked by Options
                run_id=run_id,
                where=where,
                rows=_rows(rows),
                seed=seed,
                to=to,
                master=master,
                table=table,  # type: ignore[arg-type]  # checked by Options
                mode=mode or ("error" if where is None else "overwrite"),  # type: ignore[arg-type]  # as above
                partitions=partitions,
                partition_by=tuple(listed(partition_by)),
                codec=codec,
                level=level,
                row_group_rows=row_group_rows,
                max_file_bytes=None if max_file_bytes is None else size("--max-file-bytes", max_file_bytes),
                memory=memory,
                pack=pack,
                settings=pairs("--conf", conf or []),
                storage_options=pairs("--storage-option", storage_option or []),
            )
            finished = run_pipeline(options, out=out, progress=Progress(console))
        end_what_was_begun()
        status = _report(console, finished)
    if status:
        raise typer.Exit(status)


def _report(console: Console, finished: Finished) -> int:
    """Write the report from the run's files and print the important parts; return the exit status."""
    from spillway.harness import records
    from spillway.spark.pipeline.report import read_record, tables, warnings, write_report

    record = read_record(finished.folder)
    report = write_report(finished.folder)
    shown = [_shortened(table) for table in tables(record)]
    print_tables(
        console, shown, [], warnings(record, records.read_json(finished.folder / records.ENVIRONMENT))
    )
    console.print(f"report: {report}", highlight=False, soft_wrap=True)
    if finished.record["outcome"] == "ok":
        return 0
    typer.secho(f"spillway pipeline: {_problem(finished)}", err=True, fg=typer.colors.RED)
    return INTERRUPTED if finished.record["outcome"] == "interrupted" else 1


def _shortened(table: Table) -> Table:
    """The first rows of a table."""
    from dataclasses import replace

    if len(table.rows) <= _SHOWN_ROWS:
        return table
    return replace(table, rows=table.rows[:_SHOWN_ROWS], notes=["The report has all rows of this table."])


def _problem(finished: Finished) -> str:
    record = finished.record
    if record["outcome"] == "interrupted":
        left = "nothing was committed" if record["output"] is None else "the rows were committed, and stay"
        return f"interrupted in the stage {record['died_in']}: {left}"
    left = "" if record["output"] is None else "; the rows were committed, and stay"
    return f"{finished.error}{left}"


def _function(name: str | None) -> Any:
    """The function of a name such as ``module:function``, from this folder or what is installed."""
    import importlib
    import sys

    from spillway.errors import OptionError

    if name is None:
        return None
    module, colon, function = name.partition(":")
    if not colon:
        raise OptionError(f"--transform {name}: write MODULE:FUNCTION")
    sys.path.insert(0, "")
    try:
        return getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise OptionError(f"--transform {name}: {error}") from error
    finally:
        sys.path.remove("")


def _rows(text: str | None) -> int | None:
    from spillway.spark.pipeline.rows import parse_rows

    return None if text is None else parse_rows(text)


_HOUR = 3600


def uploads(
    url: Annotated[
        str, typer.Argument(help="The folder to which jobs write: s3://bucket/folder, gs:// or az://.")
    ],
    *,
    abort: Annotated[
        bool, typer.Option("--abort", help="Abort the uploads; by default they are only listed.")
    ] = False,
    older_than: Annotated[
        float, typer.Option(help="Abort only jobs that have started no upload for this many hours.", min=0)
    ] = 24,
    storage_option: StorageOption = None,
) -> None:
    """List or abort unfinished uploads of Spark jobs.

    A job uploads its files while it runs, and completes the uploads when it
    commits. A pipeline with an audit completes them in a separate folder, and
    copies the files when it commits: these files are listed as staged, and
    --abort removes them. A killed driver leaves its uploads behind: no reader
    sees them, but they occupy storage. Only uploads of `format("spillway")`
    and `spillway.spark.write` to this folder are listed. The list includes
    running jobs; a job whose uploads are aborted fails.

    Visible files stay. Uploads of a micro-batch that a restarted query would
    still complete are never aborted.

    Exit status 2: the store refused a request, or an upload could not be
    aborted.
    """
    from spillway.spark.uploads import abort_uploads, find_uploads

    with failing("uploads"):
        options = pairs("--storage-option", storage_option or [])
        jobs = find_uploads(url, options)
        dead = [job for job in jobs if job.idle >= older_than * _HOUR]
        aborted = abort_uploads(url, dead, options) if abort else []
    for job in jobs:
        typer.echo(_line(job, is_aborted=job in aborted))
    if not jobs:
        typer.echo("no job has uploads there")


def _line(job: JobUploads, *, is_aborted: bool) -> str:
    staged = f" and {len(job.staged)} files staged" if job.staged else ""
    pending = f"{len(job.pending)} uploads pending{staged}"
    if is_aborted:
        pending = f"{len(job.pending)} uploads aborted{staged and staged.replace('staged', 'removed')}"
    elif job.is_decided:
        pending += ", which the query completes when it is started again"
    there = f"; {len(job.complete)} files are visible: the commit did not finish" if job.complete else ""
    return f"{job.job}: {pending}; idle for {job.idle / _HOUR:.1f} hours{there}"
