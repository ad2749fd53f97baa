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
    """A table of text. The first column names the row; notes belong below it.

    Attributes:
        title: What stands above it.
        header: The names of the columns.
        rows: The rows, with an entry for each column.
        notes: What stands below it.
        ends_in_words: The last column holds words, which a narrow terminal puts below each other.
    """

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[Entry]]
    notes: Sequence[str]
    ends_in_words: bool = False


def markdown_table(table: Table) -> str:
    """A table in Markdown, without its title; the best entry of each column is bold."""

    def line(texts: Sequence[str]) -> str:
        return "| " + " | ".join(text.replace("|", "\\|") for text in texts) + " |"

    rows = [line([f"**{entry.text}**" if entry.best else entry.text for entry in row]) for row in table.rows]
    rule = line(["---", *("---:" for _ in table.header[1:])])
    notes = [part for note in table.notes for part in ("", note)]
    return "\n".join([line(table.header), rule, *rows, *notes])


def terminal_tables(table: Table, width: int) -> list[RichTable]:
    """A table for a terminal of `width` columns, in parts if it is wider; what is bold has a star too."""
    texts = [[f"{entry.text}*" if entry.best else entry.text for entry in row] for row in table.rows]
    columns = list(zip(table.header, *texts, strict=True))
    lengths = [max(map(len, column)) for column in columns]
    gap = 2 if sum(lengths) + 2 * len(lengths) <= width else 1
    if table.ends_in_words and sum(lengths) + gap * (len(lengths) - 1) > width:
        lengths[-1] = max(len(word) for text in columns[-1] for word in text.split())
    parts: list[list[int]] = [[]]
    for place in range(1, len(lengths)):
        taken = sum(lengths[each] + gap for each in (0, *parts[-1], place)) - gap
        if parts[-1] and taken > width:
            parts.append([])
        parts[-1].append(place)
    return [_terminal_part(table, texts, [0, *part], gap) for part in parts]


def _terminal_part(table: Table, texts: list[list[str]], places: list[int], gap: int) -> RichTable:
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    drawn = RichTable(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, gap - 1, 0, 0))
    for place in places:
        wraps = table.ends_in_words and place == len(table.header) - 1
        drawn.add_column(
            table.header[place], justify="left" if wraps or not place else "right", no_wrap=not wraps
        )
    for row, line in zip(table.rows, texts, strict=True):
        drawn.add_row(*(Text(line[place], "bold green" if row[place].best else "") for place in places))
    return drawn
