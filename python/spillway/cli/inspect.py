"""``spillway inspect``: row groups, encodings, sizes and indexes of Parquet files; two are compared."""

from __future__ import annotations

from itertools import chain
from pathlib import Path  # noqa: TC003 - typer evaluates the annotations
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, TypedDict

import typer

from spillway.cli.common import quiet_when_closed
from spillway.harness.records import RecordSchema
from spillway.inspection import (  # noqa: TC001 - types of fields, looked up at run time
    ColumnComparison,
    FileReport,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from spillway.inspection import (
        ColumnChunkReport,
        ColumnTotals,
        FileComparison,
        PageReport,
        RowGroupReport,
    )

__all__ = ["JSON_VERSION", "SCHEMA", "inspect"]

JSON_VERSION = 1
"""The version of the JSON document: raised when a field is removed or redefined, not when one is added."""

_KIB = 1024
#: Exit statuses: two files differ; a file cannot be shown.
_DIFFERENT, _FAILED = 1, 2
_TWO = 2


class Compared(TypedDict):
    """The comparison of two files.

    Attributes:
        differences: What differs between the files as a whole, as `spillway.FileComparison` names it.
        columns: The columns of both files, those that differ first.
    """

    differences: list[str]
    columns: list[ColumnComparison]


class Inspected(TypedDict):
    """What `spillway inspect --json` prints. Sizes are in bytes.

    Attributes:
        schema_version: 1. Raised when a field is removed or redefined, not when one is added.
        files: The files that could be shown, in the order in which they were named.
        comparison: The comparison, if exactly two files were named and both can be shown; else null.
    """

    schema_version: Literal[1]
    files: list[FileReport]
    comparison: Compared | None


SCHEMA = RecordSchema(Inspected)


def inspect(
    files: Annotated[list[Path], typer.Argument(help="Parquet files of any writer.")],
    *,
    row_groups: Annotated[
        bool,
        typer.Option("--row-groups", help="Show every row group and column chunk, not only totals."),
    ] = False,
    pages: Annotated[
        bool,
        typer.Option("--pages", help="Show every page; this reads page headers throughout the files."),
    ] = False,
    column: Annotated[
        list[str] | None,
        typer.Option(help="Show only this column, and its fields if it is nested; may be repeated."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document with all reports, sizes in bytes.")
    ] = False,
) -> None:
    """Show row groups, encodings, sizes and indexes of Parquet files; compare two.

    \b
        spillway inspect logs.parquet --row-groups --column status
        spillway inspect before.parquet after.parquet

    For two files, schema, encodings and sizes are compared by column, with
    columns that differ first; with --column, only these columns. Values are
    not compared: use `spillway validate`.

    Only footers and page indexes are read, so this is quick even for large
    files. A file that cannot be shown is named on standard error with the
    reason; the others are still shown.

    Exit status 0: all files were shown, and two files do not differ.

    Exit status 1: two files differ.

    Exit status 2: a file could not be shown.

    Exit status 141: the output was closed before all was printed, as by `head`.
    """  # noqa: D301 - a backspace keeps the lines of a paragraph
    from rich.console import Console

    from spillway.inspection import compare_reports

    reports, failures = _reports(files, pages=pages)
    comparison = compare_reports(*reports) if len(files) == len(reports) == _TWO else None
    if column:
        reports, comparison, lacking = _narrowed(reports, comparison, column)
        failures += lacking
    with quiet_when_closed():
        if as_json:
            _print_json(reports, comparison)
        else:
            console = Console()
            if comparison is not None:
                _print_comparison(console, reports, comparison)
            if comparison is None or row_groups or pages:
                for report in reports:
                    _print_report(console, report, row_groups=row_groups, pages=pages)
    for failure in failures:
        typer.echo(f"spillway inspect: {failure}", err=True)
    if failures:
        raise typer.Exit(_FAILED)
    if comparison is not None and not comparison.is_equal:
        raise typer.Exit(_DIFFERENT)


def _reports(files: list[Path], *, pages: bool) -> tuple[list[FileReport], list[str]]:
    """The reports on the files that can be shown, and why the others cannot."""
    from spillway.errors import SpillwayError
    from spillway.inspection import inspect_file

    reports, failures = [], []
    for path in files:
        try:
            reports.append(inspect_file(path, pages=pages))
        except SpillwayError as error:
            failures.append(str(error))
        except OSError as error:
            failures.append(f"{path}: {error.strerror or error}")
    return reports, failures


def _narrowed(
    reports: list[FileReport], comparison: FileComparison | None, columns: list[str]
) -> tuple[list[FileReport], FileComparison | None, list[str]]:
    """The reports and the comparison with the chosen columns alone, and what is wrong with files without any.

    A column of one of two compared files is compared: it differs.
    """
    from dataclasses import replace

    def is_chosen(path: str) -> bool:
        return any(path == column or path.startswith(f"{column}.") for column in columns)

    if comparison is not None:
        chosen = tuple(each for each in comparison.columns if is_chosen(each.path))
        comparison = replace(comparison, differences=(), columns=chosen)
    narrowed, lacking = [], []
    for report in reports:
        paths = [chunk.path for group in report.row_groups[:1] for chunk in group.columns]
        if paths and not any(map(is_chosen, paths)) and not (comparison and comparison.columns):
            names = " or ".join(columns)
            lacking.append(f"{report.path}: no column {names}; there are: {', '.join(paths)}")
            continue
        groups = tuple(
            replace(group, columns=tuple(chunk for chunk in group.columns if is_chosen(chunk.path)))
            for group in report.row_groups
        )
        narrowed.append(replace(report, row_groups=groups))
    return narrowed, None if lacking else comparison, lacking


def _print_json(reports: list[FileReport], comparison: FileComparison | None) -> None:
    import json
    from dataclasses import asdict

    document = {
        "schema_version": JSON_VERSION,
        "files": [asdict(report) for report in reports],
        "comparison": None if comparison is None else asdict(comparison),
    }
    typer.echo(json.dumps(document, default=str, indent=2))


def _print_comparison(console: Console, reports: list[FileReport], comparison: FileComparison) -> None:
    from rich.text import Text

    left, right = reports
    console.print(Text(f"{left.path} \N{RIGHTWARDS ARROW} {right.path}", style="bold"), soft_wrap=True)
    facts = zip(_summary(left), _summary(right), strict=True)
    for (name, ours), (_, theirs) in facts:
        console.print(Text(f"  {name:15}", style="dim") + Text(_both(ours, theirs)), soft_wrap=True)
    different = [column for column in comparison.columns if column.differences]
    alike = [column.path for column in comparison.columns if not column.differences]
    if comparison.differences:
        console.print(Text(f"  differs: {', '.join(comparison.differences)}"), soft_wrap=True)
    if "schema" in comparison.differences:
        _print_schemas(console, left, right)
    if different:
        _print_different(console, different)
    if alike:
        console.print(Text("  alike: " + ", ".join(_printable(path) for path in alike)), soft_wrap=True)
    elif comparison.is_equal:
        console.print(Text("  nothing differs"), soft_wrap=True)


def _print_different(console: Console, columns: list[ColumnComparison]) -> None:
    def each(show: Callable[[ColumnTotals], str]) -> list[str]:
        return [_both(*(_absent(side, show) for side in (column.left, column.right))) for column in columns]

    _print_table(
        console,
        "columns that differ",
        [
            _Column("column", [each.path for each in columns]),
            _Column("in", [", ".join(each.differences) for each in columns]),
        ],
        {
            "schema": [
                _Column("type", each(_typed)),
            ],
            "encoding": [
                _Column("codec", each(lambda column: ", ".join(column.codecs))),
                _Column("encodings (data pages)", each(_total_encodings)),
                _Column("with", each(_total_extras)),
            ],
            "size": [
                _number("stored", each(lambda column: _size(column.compressed_bytes))),
                _number("before compression", each(lambda column: _size(column.uncompressed_bytes))),
                _number("values", each(lambda column: f"{column.values:,}")),
                _number("nulls", each(lambda column: _count(column.nulls))),
                _number("pages", each(lambda column: _count(column.data_pages))),
            ],
        },
    )


def _print_schemas(console: Console, left: FileReport, right: FileReport) -> None:
    """The lines of two schemas that differ: groups, or columns of files without row groups."""
    from difflib import unified_diff

    from rich.text import Text

    ours, theirs = (report.schema.splitlines()[1:] for report in (left, right))
    for line in list(unified_diff(ours, theirs, lineterm="", n=0))[2:]:
        if not line.startswith("@@"):
            console.print(Text("  " + _printable(line)), soft_wrap=True)


def _both(ours: str, theirs: str) -> str:
    return ours if ours == theirs else f"{ours or '-'} \N{RIGHTWARDS ARROW} {theirs or '-'}"


def _absent(column: ColumnTotals | None, show: Callable[[ColumnTotals], str]) -> str:
    return "absent" if column is None else show(column)


def _typed(column: ColumnTotals) -> str:
    """The type of a column, with its levels and its field id."""
    levels = f", levels {column.max_definition_level} and {column.max_repetition_level}"
    number = "" if column.field_id is None else f", field id {column.field_id}"
    return f"{_named(column.physical_type, column.type)}{levels}{number}"


def _named(physical: str, logical: str) -> str:
    return physical if physical == logical else f"{logical} as {physical}"


def _print_report(console: Console, report: FileReport, *, row_groups: bool, pages: bool) -> None:
    from rich.text import Text

    console.print(Text(str(report.path), style="bold"), soft_wrap=True)
    for name, value in _summary(report):
        console.print(Text(f"  {name:15}", style="dim") + Text(value), soft_wrap=True)
    _print_totals(console, report)
    if row_groups:
        _print_row_groups(console, report.row_groups)
        _print_chunks(console, report.row_groups)
    if pages:
        _print_pages(console, report.row_groups)


def _summary(report: FileReport) -> list[tuple[str, str]]:
    groups = len(report.row_groups)
    per_group = f", {report.rows / groups:,.0f} rows each on average" if groups > 1 else ""
    return [
        ("size", f"{_size(report.bytes)}, of it {_size(report.footer_bytes)} footer"),
        ("rows", f"{report.rows:,}"),
        ("row groups", f"{groups:,}{per_group}"),
        ("written by", report.created_by or "not said"),
        ("format", f"version {report.version}"),
        ("metadata keys", ", ".join(report.metadata_keys) or "none"),
    ]


def _print_totals(console: Console, report: FileReport) -> None:
    columns = report.column_totals()
    _print_table(
        console,
        "columns, over all row groups",
        [_Column("column", [each.path for each in columns])],
        {
            "encoding": [
                _Column("type", [each.type for each in columns]),
                _Column("codec", [", ".join(each.codecs) for each in columns]),
                _Column("encodings (data pages)", [_total_encodings(each) for each in columns]),
            ],
            "size": [
                _number("stored", [_size(each.compressed_bytes) for each in columns]),
                _number("of file", [_share(each.compressed_bytes, report.bytes) for each in columns]),
                _number(
                    "ratio", [_ratio(each.uncompressed_bytes, each.compressed_bytes) for each in columns]
                ),
                _number(
                    "nulls",
                    ["?" if each.nulls is None else _share(each.nulls, each.values) for each in columns],
                ),
                _number("pages", [_count(each.data_pages) for each in columns]),
                _Column("with", [_total_extras(each) for each in columns]),
            ],
        },
    )


def _total_encodings(column: ColumnTotals) -> str:
    return ", ".join(name if pages is None else f"{name} {pages:,}" for name, pages in column.encodings)


def _total_extras(column: ColumnTotals) -> str:
    """The indexes and dictionaries of its chunks, with a number where not all of them have one."""
    extras = {"dict": column.dictionary_chunks, **_indexes(column), "bloom": column.bloom_filters}
    shown = [
        name if count == column.chunks else f"{name} ({count} of {column.chunks})"
        for name, count in extras.items()
        if count
    ]
    return ", ".join(shown)


def _indexes(column: ColumnTotals) -> dict[str, int]:
    """Chunks with both page indexes, or with each where not all have both or none."""
    both = {column.column_indexes, column.offset_indexes}
    if len(both) == 1:
        return {"indexes": column.column_indexes}
    return {"column index": column.column_indexes, "offset index": column.offset_indexes}


def _print_row_groups(console: Console, groups: tuple[RowGroupReport, ...]) -> None:
    _print_table(
        console,
        "row groups",
        [_number("row group", [str(index) for index in range(len(groups))])],
        {
            "": [
                _number("rows", [f"{each.rows:,}" for each in groups]),
                _number("stored", [_size(each.compressed_bytes) for each in groups]),
                _number("before compression", [_size(each.uncompressed_bytes) for each in groups]),
                _number("ratio", [_ratio(each.uncompressed_bytes, each.compressed_bytes) for each in groups]),
                _Column("sorted by", [_order(each) for each in groups]),
            ]
        },
    )


def _order(group: RowGroupReport) -> str:
    return ", ".join(each.path + (" descending" if each.descending else "") for each in group.sorting_columns)


def _print_chunks(console: Console, groups: tuple[RowGroupReport, ...]) -> None:
    chunks = [chunk for group in groups for chunk in group.columns]
    _print_table(
        console,
        "column chunks",
        [
            _number("row group", [str(index) for index, group in enumerate(groups) for _ in group.columns]),
            _Column("column", [each.path for each in chunks]),
        ],
        {
            "encoding": [
                _Column("codec", [each.codec for each in chunks]),
                _Column("encodings (pages)", [_chunk_encodings(each) for each in chunks]),
            ],
            "size": [
                _number("stored", [_size(each.compressed_bytes) for each in chunks]),
                _number("ratio", [_ratio(each.uncompressed_bytes, each.compressed_bytes) for each in chunks]),
                _number("values", [f"{each.values:,}" for each in chunks]),
                _Column("with", [_chunk_extras(each) for each in chunks]),
            ],
            "statistics": [
                _number("nulls", [_count(each.nulls) for each in chunks]),
                _number("distinct", [_count(each.distinct) for each in chunks]),
                _Column("min", [_bound(each.min, exact=each.min_exact) for each in chunks]),
                _Column("max", [_bound(each.max, exact=each.max_exact) for each in chunks]),
            ],
        },
        sections={sum(len(group.columns) for group in groups[: index + 1]) for index in range(len(groups))},
    )


def _print_pages(console: Console, groups: tuple[RowGroupReport, ...]) -> None:
    found = [
        (str(index), chunk.path, page)
        for index, group in enumerate(groups)
        for chunk in group.columns
        for page in chunk.pages or ()
    ]
    pages = [page for _, _, page in found]
    ends = [place for place in range(1, len(found)) if found[place - 1][:2] != found[place][:2]]
    _print_table(
        console,
        "pages",
        [
            _number("row group", [group for group, _, _ in found]),
            _Column("column", [path for _, path, _ in found]),
            _number("at byte", [f"{page.offset:,}" for page in pages]),
        ],
        {
            "encoding": [
                _Column("page", [page.page_type for page in pages]),
                _Column("encoding", [page.encoding or "" for page in pages]),
                _number("stored", [_size(page.compressed_bytes) for page in pages]),
                _number("ratio", [_ratio(page.uncompressed_bytes, page.compressed_bytes) for page in pages]),
                _Column("with", ["checksum" if page.checksum else "" for page in pages]),
            ],
            "rows": [
                _number("first row", [_row(page, page.first_row) for page in pages]),
                _number("rows", [_row(page, page.rows) for page in pages]),
                _number("values", [f"{page.values:,}" for page in pages]),
                _number("nulls", [_row(page, page.nulls) for page in pages]),
                _Column("min", [page.min or "" for page in pages]),
                _Column("max", [page.max or "" for page in pages]),
            ],
        },
        sections=set(ends),
    )


def _row(page: PageReport, count: int | None) -> str:
    return _count(count) if page.page_type.startswith("DATA_PAGE") else ""


def _chunk_encodings(chunk: ColumnChunkReport) -> str:
    if chunk.encoding_stats is None:
        return ", ".join(chunk.encodings)
    return ", ".join(
        f"{entry.encoding} {entry.pages:,}"
        + (" (dictionary)" if entry.page_type == "DICTIONARY_PAGE" else "")
        for entry in chunk.encoding_stats
    )


def _chunk_extras(chunk: ColumnChunkReport) -> str:
    bloom = "bloom" if chunk.bloom_filter_bytes is None else f"bloom {_size(chunk.bloom_filter_bytes)}"
    extras = {
        "dict": chunk.dictionary_page,
        "indexes": chunk.column_index and chunk.offset_index,
        "column index": chunk.column_index and not chunk.offset_index,
        "offset index": chunk.offset_index and not chunk.column_index,
        bloom: chunk.bloom_filter,
    }
    return ", ".join(name for name, there in extras.items() if there)


def _bound(value: str | None, *, exact: bool) -> str:
    """A bound, marked if it does not occur as a value."""
    if value is None:
        return ""
    return value if exact else f"{value} (bound)"


class _Column(NamedTuple):
    """One column of a table; text is folded where a terminal is too narrow, numbers never are."""

    heading: str
    cells: Sequence[str]
    is_number: bool = False


def _number(heading: str, cells: Sequence[str]) -> _Column:
    return _Column(heading, cells, is_number=True)


def _print_table(
    console: Console,
    title: str,
    keys: list[_Column],
    groups: dict[str, list[_Column]],
    *,
    sections: Collection[int] = (),
) -> None:
    """Print a table, or one for each group of its columns where all of them are wider than the console.

    Args:
        console: The console to print to.
        title: Of all its columns; the name of a group stands behind it.
        keys: Columns that say what a line is of, and are repeated in each group.
        groups: The other columns by the name of their group.
        sections: Numbers of lines after which there is a rule.
    """
    from rich.console import Console

    whole = _table(title, [*keys, *chain.from_iterable(groups.values())], sections)
    parts = [whole]
    if _width(console, whole) > console.width and len(groups) > 1:
        parts = [_table(f"{title}: {name}", [*keys, *columns], sections) for name, columns in groups.items()]
    for part in parts:
        natural = _width(console, part)
        if console.is_terminal or natural <= console.width:
            console.print(part)
        else:
            # A file or a pipe has no edge, and a line that is folded cannot be searched for.
            Console(width=natural).print(part)


def _width(console: Console, table: Table) -> int:
    """The width with nothing folded."""
    from rich.measure import Measurement

    return Measurement.get(console, console.options.update(max_width=1 << 20), table).maximum


def _table(title: str, columns: Sequence[_Column], sections: Collection[int]) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for each in columns:
        if each.is_number:
            table.add_column(each.heading, justify="right", no_wrap=True)
        else:
            table.add_column(each.heading, overflow="fold")
    for place, cells in enumerate(zip(*(each.cells for each in columns), strict=True), start=1):
        table.add_row(*_plain(cells), end_section=place in sections)
    return table


def _plain(values: Iterable[str]) -> list[Text]:
    """Plain text: text from a file may contain markup and control characters."""
    from rich.text import Text

    return [Text(_printable(value)) for value in values]


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


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
