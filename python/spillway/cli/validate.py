"""``spillway validate``: read Parquet files back with other engines and compare them with their source."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer evaluates the annotations
from typing import TYPE_CHECKING, Annotated

import typer

from spillway.cli.common import failing, listed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spillway.datasets import FileSource
    from spillway.validation import Source, Verdict


def validate(  # noqa: PLR0913 - one argument per option of the command
    files: Annotated[list[Path], typer.Argument(help="Parquet files that should contain the source's rows.")],
    *,
    against: Annotated[
        str,
        typer.Option(
            help="The source to compare with, as in `spillway bench --input`: a file, a folder or a "
            "quoted glob of Parquet, Arrow IPC, CSV or NDJSON."
        ),
    ],
    delimiter: Annotated[
        str | None, typer.Option(help="Field separator of the source's CSV; a comma by default.")
    ] = None,
    encoding: Annotated[
        str | None, typer.Option(help="Encoding of the source's text; UTF-8 by default.")
    ] = None,
    rows: Annotated[
        int | None, typer.Option(min=0, help="Compare the files only with the first ROWS rows of the source.")
    ] = None,
    engine: Annotated[
        str, typer.Option(help="Engines to read with, separated by commas: spark, pyarrow, polars, duckdb.")
    ] = "spark,pyarrow,polars,duckdb",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the verdicts as one JSON document instead of a table.")
    ] = False,
) -> None:
    """Check that FILES contain the rows of a source, value by value and in order.

    Every engine decodes each file with its own reader, and Spark with both of
    its readers. A difference is reported with its row, its column and both
    values. A reader is excused from a column if it fails in the same way on
    the file that pyarrow writes of the same rows. The exit status is 1 if a
    file is at fault, and 2 if files could not be compared.

    Example: spillway validate out.parquet --against rows.arrow --engine
    pyarrow,polars
    """
    from spillway.datasets import FileSource, TextOptions
    from spillway.validation import summary

    with failing("validate"):
        source = FileSource(against, TextOptions(delimiter, encoding, is_exact=True))
        verdicts = _run(files, source, rows, listed(engine))
    if as_json:
        _print_json(verdicts)
    else:
        _print_table(verdicts)
        for line in summary(verdicts):
            typer.echo(line)
    if any(verdict.failed for verdict in verdicts):
        raise typer.Exit(1)


def _run(files: list[Path], against: FileSource, rows: int | None, engines: list[str]) -> Sequence[Verdict]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from spillway.validation import validate as validate_files

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("preparing", total=None)

        def show(done: int, total: int, what: str) -> None:
            bar.update(task, completed=done, total=total or None, description=what)

        source = _source(against, rows, lambda done, total: show(done, total, "reading the source"))
        return validate_files(files, source, engines, progress=show)


def _source(against: FileSource, rows: int | None, progress: Callable[[int, int], None]) -> Source:
    """The source as one file that can be read repeatedly. Parquet and Arrow IPC files already can.

    Text has the types that `spillway write` finds, and none of its values becomes another one.
    """
    from spillway.datasets import find_files, prepare
    from spillway.shell.job import types_of_lines
    from spillway.validation import Source

    files = find_files(against)
    if files.format in {"parquet", "ipc-file"} and files.base is None:
        return Source(files.paths[0], rows)
    schema = types_of_lines(against) if files.format == "ndjson" else None
    return Source(prepare(against, rows=rows, schema=schema, progress=progress).path)


def _print_table(verdicts: Sequence[Verdict]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("file", "reader", "verdict", "seconds")
    for verdict in verdicts:
        word = "ok" if verdict.ok else "excused" if verdict.excused else "MISMATCH"
        table.add_row(str(verdict.file), verdict.engine, word, f"{verdict.seconds:.2f}")
    Console().print(table)
    for verdict in verdicts:
        if verdict.mismatch is not None:
            note = "excused: the reader fails in the same way on pyarrow's file: " if verdict.excused else ""
            typer.echo(f"{verdict.file}: {verdict.engine}: {note}{verdict.mismatch.message}")


def _print_json(verdicts: Sequence[Verdict]) -> None:
    import json

    from spillway.validation import summary

    document = {"verdicts": [verdict.as_json() for verdict in verdicts], "summary": summary(verdicts)}
    typer.echo(json.dumps(document, indent=2, ensure_ascii=False))
