"""A run in words and tables: its ``report.md``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spillway.harness.document import (
    bullets,
    caveats,
    checkout,
    figure_section,
    machine,
    software,
    table_section,
    write_document,
)
from spillway.harness.tables import detail_table, throughput_table
from spillway.harness.validate import wrong_output_sentence

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from spillway.harness.canvas import Figure
    from spillway.harness.summary import RunSummary
    from spillway.harness.text_table import Table

__all__ = ["run_tables", "write_report"]


def run_tables(run: RunSummary) -> list[Table]:
    """Per setting: throughput by rows where row counts differ, and all measures at the largest."""
    tables = []
    for setting in run.settings:
        if len({each.cell.rows for each in run.of(setting)}) > 1:
            tables.append(throughput_table(run, setting))
        tables.append(detail_table(run, setting))
    return tables


def write_report(run: RunSummary, figures: Sequence[Figure]) -> Path:
    """Write ``report.md`` into the run's folder."""
    parts = [f"# Run {run.run_id}", _environment(run), *caveats(run.warnings()), *_validation(run)]
    parts += [table_section(table) for table in run_tables(run)]
    parts += [_INTERVALS]
    parts += [figure_section(figure) for figure in figures]
    return write_document(run.folder, [*parts, *_invisible(run)])


_INTERVALS = (
    "Medians; in brackets the interval, from order statistics: 95 % with six samples or more, else the whole "
    "range. The best of a column is bold. RSS growth is the exact peak of resident memory during the write "
    "over the baseline before it; the mapped input belongs to the baseline. MB is 10^6 bytes; MB/s counts "
    "Arrow data."
)


def _environment(run: RunSummary) -> str:
    environment = run.environment
    options = environment["options"]
    huge_pages = environment["transparent_huge_pages"]
    lines = [f"{machine(environment)}, transparent huge pages {huge_pages}.", software(environment)]
    lines += [_input(data, options) for data in environment["inputs"]]
    lines += checkout(environment)
    lines += [_proof(proof) for proof in environment["limit_proofs"]]
    return bullets(lines)


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
        f"{each['backend']}, {each['mode']}: n/a, {each['reason']}"
        for each in run.allocations
        if each["reason"] is not None
    ]
    return [f"Without an allocation curve:\n\n{bullets(lines)}"] if lines else []
