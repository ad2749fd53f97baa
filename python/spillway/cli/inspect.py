"""``spillway inspect``: row groups, encodings, sizes and indexes of Parquet files."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer evaluates the annotations
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from spillway.inspection import ColumnChunkReport, ColumnTotals, FileReport, RowGroupReport

__all__ = ["inspect"]

# Output that goes to a file or a pipe has no width of its own, and must not lose columns.
_PIPED_WIDTH = 200
_KIB = 1024


def inspect(
    files: Annotated[list[Path], typer.Argument(help="Parquet files, whoever wrote them.")],
    *,
    row_groups: Annotated[
        bool,
        typer.Option("--row-groups", help="Show every row group and column chunk, not only their totals."),
    ] = False,
    column: Annotated[
        list[str] | None,
        typer.Option(help="Only this column, and those inside it if it is nested; may be repeated."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON array with one report a file, sizes in bytes.")
    ] = False,
) -> None:
    """Show row groups, encodings, sizes and indexes of Parquet files.

    Only footers and page indexes are read, so a file of any size is shown at once. A file that cannot be
    shown is named on the error output with the reason; the others are shown all the same, and the exit code
    is 1.
    """
    from rich.console import Console

    from spillway.errors import SpillwayError
    from spillway.inspection import inspect_file

    reports, failures = [], []
    for path in files:
        try:
            reports.append(_narrowed(inspect_file(path), column or []))
        except SpillwayError as error:
            failures.append(str(error))
        except OSError as error:
            failures.append(f"{path}: {error.strerror}")

    console = Console()
    if not console.is_terminal:
        console.width = _PIPED_WIDTH
    if as_json:
        _print_json(reports)
    else:
        for report in reports:
            _print_report(console, report, row_groups=row_groups)
    for failure in failures:
        typer.echo(f"spillway inspect: {failure}", err=True)
    if failures:
        raise typer.Exit(1)


def _narrowed(report: FileReport, columns: list[str]) -> FileReport:
    """The report with the chosen columns only; all of them if none is chosen."""
    from dataclasses import replace

    from spillway.errors import OptionError

    if not columns:
        return report

    def chosen(path: str) -> bool:
        return any(path == column or path.startswith(f"{column}.") for column in columns)

    groups = tuple(
        replace(group, columns=tuple(chunk for chunk in group.columns if chosen(chunk.path)))
        for group in report.row_groups
    )
    if report.row_groups and not any(group.columns for group in groups):
        there = ", ".join(chunk.path for chunk in report.row_groups[0].columns)
        raise OptionError(f"{report.path}: no column {' or '.join(columns)}; there are: {there}")
    return replace(report, row_groups=groups)


def _print_json(reports: list[FileReport]) -> None:
    import json
    from dataclasses import asdict

    typer.echo(json.dumps([asdict(report) for report in reports], default=str, indent=2))


def _print_report(console: Console, report: FileReport, *, row_groups: bool) -> None:
    from rich.text import Text

    console.print(Text(str(report.path), style="bold"))
    for name, value in _summary(report):
        console.print(Text(f"  {name:15}", style="dim") + Text(value))
    console.print(_totals_table(report))
    if row_groups:
        console.print(_row_groups_table(report.row_groups))
        console.print(_chunks_table(report.row_groups))


def _summary(report: FileReport) -> list[tuple[str, str]]:
    groups = len(report.row_groups)
    per_group = f", {report.rows / groups:,.0f} rows each on average" if groups else ""
    return [
        ("size", f"{_size(report.bytes)}, of it {_size(report.footer_bytes)} footer"),
        ("rows", f"{report.rows:,}"),
        ("row groups", f"{groups:,}{per_group}"),
        ("written by", report.created_by or "not said"),
        ("format", f"version {report.version}"),
        ("metadata keys", ", ".join(report.metadata_keys) or "none"),
    ]


def _totals_table(report: FileReport) -> Table:
    table = _table("columns, over all row groups")
    for heading in ("column", "type", "codec", "encodings (data pages)"):
        table.add_column(heading, overflow="fold")
    for heading in ("stored", "of file", "ratio", "nulls", "pages"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("with", overflow="fold")
    for column in report.column_totals():
        table.add_row(
            *_cells(
                column.path,
                column.type,
                ", ".join(column.codecs),
                ", ".join(name if pages is None else f"{name} {pages:,}" for name, pages in column.encodings),
                _size(column.compressed_bytes),
                _share(column.compressed_bytes, report.bytes),
                _ratio(column.uncompressed_bytes, column.compressed_bytes),
                "?" if column.nulls is None else _share(column.nulls, column.values),
                _count(column.data_pages),
                _total_extras(column),
            )
        )
    return table


def _total_extras(column: ColumnTotals) -> str:
    """What its chunks come with; a number where not all of them do."""
    extras = {
        "dictionary": column.dictionary_chunks,
        "column index": column.column_indexes,
        "offset index": column.offset_indexes,
        "bloom filter": column.bloom_filters,
    }
    shown = [
        name if count == column.chunks else f"{name} ({count} of {column.chunks})"
        for name, count in extras.items()
        if count
    ]
    return ", ".join(shown)


def _row_groups_table(groups: tuple[RowGroupReport, ...]) -> Table:
    table = _table("row groups")
    for heading in ("row group", "rows", "stored", "before compression", "ratio"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("sorted by", overflow="fold")
    for index, group in enumerate(groups):
        by = [column.path + (" descending" if column.descending else "") for column in group.sorting_columns]
        table.add_row(
            *_cells(
                str(index),
                f"{group.rows:,}",
                _size(group.compressed_bytes),
                _size(group.uncompressed_bytes),
                _ratio(group.uncompressed_bytes, group.compressed_bytes),
                ", ".join(by),
            )
        )
    return table


def _chunks_table(groups: tuple[RowGroupReport, ...]) -> Table:
    table = _table("column chunks")
    table.add_column("row group", justify="right", no_wrap=True)
    for heading in ("column", "codec", "encodings (pages)"):
        table.add_column(heading, overflow="fold")
    for heading in ("stored", "ratio", "values", "nulls", "distinct"):
        table.add_column(heading, justify="right", no_wrap=True)
    for heading in ("min", "max", "with"):
        table.add_column(heading, overflow="fold")
    for index, group in enumerate(groups):
        for chunk in group.columns:
            table.add_row(*_chunk_cells(index, chunk), end_section=chunk is group.columns[-1])
    return table


def _chunk_cells(index: int, chunk: ColumnChunkReport) -> list[Any]:
    return _cells(
        str(index),
        chunk.path,
        chunk.codec,
        _chunk_encodings(chunk),
        _size(chunk.compressed_bytes),
        _ratio(chunk.uncompressed_bytes, chunk.compressed_bytes),
        f"{chunk.values:,}",
        _count(chunk.nulls),
        _count(chunk.distinct),
        _bound(chunk.min, exact=chunk.min_exact),
        _bound(chunk.max, exact=chunk.max_exact),
        _chunk_extras(chunk),
    )


def _chunk_encodings(chunk: ColumnChunkReport) -> str:
    if chunk.encoding_stats is None:
        return ", ".join(chunk.encodings)
    return ", ".join(
        f"{entry.encoding} {entry.pages:,}"
        + (" (dictionary)" if entry.page_type == "DICTIONARY_PAGE" else "")
        for entry in chunk.encoding_stats
    )


def _chunk_extras(chunk: ColumnChunkReport) -> str:
    bloom = "bloom filter"
    if chunk.bloom_filter_bytes is not None:
        bloom += f" of {_size(chunk.bloom_filter_bytes)}"
    extras = {
        "dictionary": chunk.dictionary_page,
        "column index": chunk.column_index,
        "offset index": chunk.offset_index,
        bloom: chunk.bloom_filter,
    }
    return ", ".join(name for name, there in extras.items() if there)


def _bound(value: str | None, *, exact: bool) -> str:
    """A bound; one that does not itself occur is marked."""
    if value is None:
        return ""
    return value if exact else f"{value} (bound)"


def _table(title: str) -> Table:
    from rich import box
    from rich.table import Table

    return Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)


def _cells(*values: str) -> list[Any]:
    """Plain text: what comes from a file is no markup, and has no control characters."""
    from rich.text import Text

    return [
        Text("".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in value))
        for value in values
    ]


def _size(size: int) -> str:
    """A size for people, in binary units."""
    if size < _KIB:
        return f"{size:,} B"
    value, units = size / _KIB, ["KiB", "MiB", "GiB"]
    while value >= _KIB and len(units) > 1:
        value /= _KIB
        del units[0]
    return f"{value:,.1f} {units[0]}"


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else ""


def _ratio(before: int, after: int) -> str:
    return f"{before / after:.1f}" if after else ""


def _count(count: int | None) -> str:
    return "?" if count is None else f"{count:,}"
