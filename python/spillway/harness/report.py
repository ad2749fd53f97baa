"""A run in words and tables: ``report.md`` in its folder, and the tables of the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spillway.harness.tables import Table, detail_table, throughput_table
from spillway.harness.validate import wrong_output_sentence

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rich.table import Table as RichTable

    from spillway.harness.canvas import Figure
    from spillway.harness.summary import RunSummary

__all__ = ["REPORT", "markdown_table", "run_tables", "terminal_tables", "write_report"]

REPORT = "report.md"


def run_tables(run: RunSummary) -> list[Table]:
    """Per setting: throughput by rows where row counts differ, and all measures at the largest."""
    tables = []
    for setting in run.settings:
        if len({each.cell.rows for each in run.of(setting)}) > 1:
            tables.append(throughput_table(run, setting))
        tables.append(detail_table(run, setting))
    return tables


def terminal_tables(table: Table, width: int) -> list[RichTable]:
    """A table for a terminal of `width` columns, in parts if it is wider; the best of a column has a star."""
    texts = [[f"{entry.text}*" if entry.best else entry.text for entry in row] for row in table.rows]
    lengths = [max(map(len, column)) + 2 for column in zip(table.header, *texts, strict=True)]
    parts: list[list[int]] = [[]]
    for place in range(1, len(lengths)):
        if parts[-1] and lengths[0] + sum(lengths[each] for each in parts[-1]) + lengths[place] > width:
            parts.append([])
        parts[-1].append(place)
    return [_terminal_part(table, texts, [0, *part]) for part in parts]


def _terminal_part(table: Table, texts: list[list[str]], places: list[int]) -> RichTable:
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    drawn = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for place in places:
        drawn.add_column(table.header[place], justify="right" if place else "left", no_wrap=True)
    for row, line in zip(table.rows, texts, strict=True):
        drawn.add_row(*(Text(line[place], "bold green" if row[place].best else "") for place in places))
    return drawn


def write_report(run: RunSummary, figures: Sequence[Figure]) -> Path:
    """Write ``report.md`` into the run's folder."""
    parts = [f"# Run {run.run_id}", _environment(run), *_caveats(run), *_validation(run)]
    parts += [f"## {table.title}\n\n{markdown_table(table)}" for table in run_tables(run)]
    parts += [_INTERVALS]
    parts += [f"## {figure.title}\n\n![{figure.title}]({figure.path})" for figure in figures]
    parts += _invisible(run)
    path = run.folder / REPORT
    path.write_text("\n\n".join(parts) + "\n")
    return path


_INTERVALS = (
    "Medians; in brackets the interval, from order statistics: 95 % with six samples or more, else the whole "
    "range. The best of a column is bold. RSS growth is the exact peak of resident memory during the write "
    "over the baseline before it; the mapped input belongs to the baseline. MB is 10^6 bytes; MB/s counts "
    "Arrow data."
)


def _environment(run: RunSummary) -> str:
    environment = run.environment
    libraries = ", ".join(f"{each['name']} {each['version']}" for each in environment["libraries"])
    git = environment["git"]
    options = environment["options"]
    machine = (
        f"{environment['cpu_model']}, {environment['usable_cores']} usable cores, "
        f"{environment['memory_bytes'] / 2**30:.0f} GiB, Linux {environment['kernel']}, "
        f"transparent huge pages {environment['transparent_huge_pages']}."
    )
    lines = [machine, f"Python {environment['python']['version']}; {libraries}."]
    lines += [_input(data, options) for data in environment["inputs"]]
    if git is not None:
        lines.append(f"Spillway at {git['commit'][:12]}{', changed' if git['changed'] else ''}.")
    lines += [_proof(proof) for proof in environment["limit_proofs"]]
    return "\n".join(f"- {line}" for line in lines)


def _input(data: dict[str, Any], options: dict[str, Any]) -> str:
    row_bytes = data["arrow_bytes"] / data["rows"]
    return (
        f"Input {data['source']}: {data['columns']} columns, {row_bytes:,.0f} bytes a row as Arrow; "
        f"seed {options['seed']}, {options['chunk_rows']:,} rows a batch."
    )


def _proof(proof: dict[str, Any]) -> str:
    share = proof["died_at_bytes"] / proof["limit_bytes"]
    return (
        f"The limit of {proof['limit_bytes'] / 1e6:,.0f} MB ({proof['kind']}) is proved: "
        f"a canary was {proof['ending']} at {share:.2f} of it."
    )


def _caveats(run: RunSummary) -> list[str]:
    warnings = run.warnings()
    if not warnings:
        return []
    return ["## Before you believe it\n\n" + "\n".join(f"- {warning}" for warning in warnings)]


def _validation(run: RunSummary) -> list[str]:
    if not run.verdicts:
        return []
    engines = ", ".join(dict.fromkeys(verdict["engine"] for verdict in run.verdicts))
    contents = {verdict["content_hash"] for verdict in run.verdicts}
    wrong = {verdict["content_hash"] for verdict in run.wrong_outputs()}
    held = f"{len(contents) - len(wrong)} of {len(contents)} distinct outputs hold the rows that were written"
    lines = [f"Read back by {engines}: {held}."]
    lines += [f"- {wrong_output_sentence(verdict)}" for verdict in run.wrong_outputs()]
    excused = sum(verdict["outcome"] == "excused" for verdict in run.verdicts)
    if excused:
        why = "the reader also fails on pyarrow's file of the same rows"
        lines.append(f"- {excused} readings are excused: {why}.")
    return ["\n".join(lines)]


def _invisible(run: RunSummary) -> list[str]:
    lines = [
        f"- {each['backend']}, {each['mode']}: n/a, {each['reason']}"
        for each in run.allocations
        if each["reason"] is not None
    ]
    return ["Without an allocation curve:\n\n" + "\n".join(lines)] if lines else []


def markdown_table(table: Table) -> str:
    """A table in Markdown, without its title; the best entry of each column is bold."""

    def line(texts: Sequence[str]) -> str:
        return "| " + " | ".join(text.replace("|", "\\|") for text in texts) + " |"

    rows = [line([f"**{entry.text}**" if entry.best else entry.text for entry in row]) for row in table.rows]
    rule = line(["---", *("---:" for _ in table.header[1:])])
    notes = [part for note in table.notes for part in ("", note)]
    return "\n".join([line(table.header), rule, *rows, *notes])
