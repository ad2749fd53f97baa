"""Tables and Markdown: what the reports of all runs are put together from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spillway._wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from rich.table import Table as RichTable

    from spillway.harness.plots import Figure


@dataclass(frozen=True)
class Entry:
    """One cell of a table; `best` marks the best of those it is compared with."""

    text: str
    best: bool = False


@dataclass(frozen=True)
class Table:
    """A table of text. The first column names the row; notes belong below it.

    Attributes:
        title: The text above it.
        header: The names of the columns.
        rows: The rows, with an entry for each column.
        notes: The text below it.
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


def plain_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of texts in Markdown, with neither title nor notes."""
    return markdown_table(Table("", header, [[Entry(text) for text in row] for row in rows], []))


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


REPORT = "report.md"


def write_document(folder: Path, parts: Iterable[str]) -> Path:
    """Write ``report.md`` into a run's folder, its parts below each other."""
    path = folder / REPORT
    # The name of a file need not be text.
    path.write_text(document(parts), encoding="utf-8", errors="backslashreplace")
    return path


def document(parts: Iterable[str]) -> str:
    """The text of a report, its parts below each other."""
    return "\n\n".join(parts) + "\n"


def bullets(lines: Iterable[str]) -> str:
    """A list, a line for each."""
    return "\n".join(f"- {line}" for line in lines)


def table_section(table: Table) -> str:
    """A table below its title."""
    return f"## {table.title}\n\n{markdown_table(table)}"


def figure_section(figure: Figure) -> str:
    """A figure below its title."""
    return f"## {figure.title}\n\n![{figure.title}]({figure.path})"


def caveats(warnings: Sequence[str]) -> list[str]:
    """The section of caveats, before all figures; nothing without warnings."""
    return [f"## Before you believe it\n\n{bullets(warnings)}"] if warnings else []


def machine(environment: dict[str, Any]) -> str:
    """The machine of a run, in a line."""
    return (
        f"{environment['cpu_model']}, {counted(environment['usable_cores'], 'usable core')}, "
        f"{environment['memory_bytes'] / 2**30:.0f} GiB, Linux {environment['kernel']}"
    )


def software(environment: dict[str, Any]) -> str:
    """The Python and the libraries of a run, in a line."""
    libraries = ", ".join(f"{each['name']} {each['version']}" for each in environment["libraries"])
    return f"Python {environment['python']['version']}; {libraries}."


def checkout(environment: dict[str, Any]) -> list[str]:
    """The commit of Spillway, where that is known."""
    git = environment["git"]
    return (
        [] if git is None else [f"Spillway at {git['commit'][:12]}{', changed' if git['changed'] else ''}."]
    )
