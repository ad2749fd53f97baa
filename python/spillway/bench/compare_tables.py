"""A comparison as tables of text, one for each measure, and in sentences."""

from __future__ import annotations

from dataclasses import fields
from math import exp, inf, log
from statistics import mean
from typing import TYPE_CHECKING

from spillway._wording import counted
from spillway.bench.plan import Cell
from spillway.bench.tables import file_megabytes, megabytes
from spillway.harness.rank_tests import ALPHA
from spillway.harness.report.markdown import bullets, document, table_section
from spillway.harness.report.table import Entry, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from spillway.bench.compare import Comparison, Row

__all__ = ["WRITTEN", "comparison_tables", "gate_lines", "label_of", "legend", "markdown_of"]


def comparison_tables(found: Comparison) -> list[Table]:
    """A table for each measure: old, new, the change with its interval, p; below them the geometric mean."""
    names = list(dict.fromkeys(row.measure.name for row in found.rows))
    return [_table(found, [row for row in found.rows if row.measure.name == name]) for name in names]


def legend(found: Comparison) -> list[str]:
    """The meaning of the columns, and the samples that it rests on."""
    how = "pairs of one block" if found.is_paired else "all samples of both: runs at two times are no pairs"
    reading = (
        f"Medians; the change is estimated from {how}, in brackets with its interval of 95 %. p is corrected "
        f"for all rows (Holm); ~ where it is {ALPHA} or more: no change can be told."
    )
    lines = [reading]
    if not found.is_paired:
        lines.append(
            "What the machine did between the runs is part of a change: for less than a few per cent, "
            "measure both in one run, as two backends."
        )
    if found.is_blind:
        lines.append(
            f"So few samples cannot tell any change in {counted(len(found.rows), 'row')}, however large: "
            f"take more --samples, or compare less by --backend and --metric."
        )
    return lines


def gate_lines(found: Comparison, gate: float) -> list[str]:
    """Rows that exceed the gate, cells that are gone and rows that may exceed it, in sentences."""
    beyond = [f"{label_of(row, found)}: {_worse(row, row.loss)}" for row in found.beyond(gate)]
    beyond += [f"{each}: not in the new run" for each in found.lost]
    unclear = found.unclear(gate)
    if unclear:
        most = max(unclear, key=lambda row: row.possible_loss)
        reach = "without bound" if most.possible_loss == inf else f"up to {most.possible_loss:.1%}"
        may = f"{counted(len(unclear), 'row')} may hide a loss beyond {gate:.1%}"
        beyond.append(f"{may} ({reach}, {label_of(most, found)}): more samples would tell")
    return beyond


def markdown_of(
    tables: Sequence[Table], verdict: Sequence[str], reading: Sequence[str], notes: Sequence[str]
) -> str:
    """A comparison as Markdown, for a comment on a change.

    Args:
        tables: Its tables.
        verdict: What became of the gate; empty text is left out.
        reading: The meaning of their columns, which is folded.
        notes: What else to know before believing it.
    """
    parts = [table_section(table) for table in tables]
    parts += [f"**{line}**" for line in verdict[:1] if line]
    parts += [bullets([*verdict[1:], *notes])] if verdict[1:] or notes else []
    meaning = "\n\n".join(reading)
    return document([*parts, f"<details><summary>How to read it</summary>\n\n{meaning}\n\n</details>"])


def _worse(row: Row, loss: float) -> str:
    if row.has_failed:
        return f"fails now: {row.new.outcome}"
    return f"{row.measure.title} worse by {loss:.1%}"


def _table(found: Comparison, rows: list[Row]) -> Table:
    measure = rows[0].measure
    lines = [[Entry(label_of(row, found)), *_entries(row)] for row in rows]
    told = [row.change.ratio for row in rows if row.change is not None]
    if len(told) > 1:
        geometric = Entry(_percent(exp(mean(map(log, told)))))
        lines.append([Entry("geometric mean"), Entry(""), Entry(""), geometric, Entry("")])
    direction = "more is better" if measure.better > 0 else "less is better"
    return Table(
        f"{measure.title}, {direction}: {found.old} -> {found.new}",
        ("cell", "old", "new", "change", "p"),
        lines,
        [],
    )


def _entries(row: Row) -> list[Entry]:
    written = WRITTEN[row.measure.name]
    sides = []
    for side in (row.old, row.new):
        value = side.estimate(row.measure.of)
        sides.append(Entry(side.outcome if value is None else written(value.median)))
    change = row.change
    if change is None:
        return [*sides, Entry("-"), Entry("")]
    if row.measure.is_exact:
        return [*sides, Entry("=" if change.ratio == 1 else _percent(change.ratio)), Entry("")]
    n = f"n={change.n[0]}" if change.n[0] == change.n[1] else f"n={change.n[0]}+{change.n[1]}"
    text = f"{_percent(change.ratio) if row.is_told else '~'} [{_end(change.low)}, {_end(change.high)}]"
    return [*sides, Entry(text), Entry(f"{row.p:.3f} {n}")]


def label_of(row: Row, found: Comparison, always: Collection[str] = ()) -> str:
    """A row's cell by the fields that differ among all that is compared; by its rows where none does.

    Args:
        row: The row.
        found: All that is compared.
        always: Fields to name in any case.
    """
    cell = row.old.cell
    names = [field.name for field in fields(Cell)]
    held = [each.old.cell for each in found.rows]
    named = [name for name in names if name in always or len({getattr(each, name) for each in held}) > 1]
    return " ".join(_field(name, getattr(cell, name)) for name in named or ["rows"])


def _field(name: str, value: object) -> str:
    if name == "rows":
        return f"{value:,}"
    if name == "memory_bytes":
        return "no limit" if value is None else f"{int(str(value)) / 1e6:,.0f}MB"
    return f"{name.replace('_', ' ')} {value}" if isinstance(value, int) else str(value)


def _percent(ratio: float) -> str:
    return f"{ratio - 1:+.1%}"


def _end(ratio: float) -> str:
    return "-inf" if ratio == 0 else "inf" if ratio == inf else _percent(ratio)


WRITTEN: dict[str, Callable[[float], str]] = {
    "speed": lambda value: f"{value:,.0f}",
    "memory": megabytes,
    "size": file_megabytes,
    "cpu": lambda value: f"{value:.3g}",
    "time": lambda value: f"{value:.3g}",
    "allocated": file_megabytes,
}
"""How a value of each measure is written, by its name."""
