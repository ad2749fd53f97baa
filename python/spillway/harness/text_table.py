"""Tables of text: what is in one, and how it looks in Markdown and on a terminal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table as RichTable

__all__ = ["Entry", "Table", "markdown_table", "terminal_tables"]


@dataclass(frozen=True)
class Entry:
    """One cell of a table; `best` marks the best of those it is compared with."""

    text: str
    best: bool = False


@dataclass(frozen=True)
class Table:
    """A table of text. The first column names the row; notes belong below it."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[Entry]]
    notes: Sequence[str]


def markdown_table(table: Table) -> str:
    """A table in Markdown, without its title; the best entry of each column is bold."""

    def line(texts: Sequence[str]) -> str:
        return "| " + " | ".join(text.replace("|", "\\|") for text in texts) + " |"

    rows = [line([f"**{entry.text}**" if entry.best else entry.text for entry in row]) for row in table.rows]
    rule = line(["---", *("---:" for _ in table.header[1:])])
    notes = [part for note in table.notes for part in ("", note)]
    return "\n".join([line(table.header), rule, *rows, *notes])


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
