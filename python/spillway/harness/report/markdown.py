"""The report of a run in Markdown: what the reports of all runs are put together from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spillway._wording import counted
from spillway.harness.report.table import markdown_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from spillway.harness.report.plots import Figure
    from spillway.harness.report.table import Table

__all__ = [
    "REPORT",
    "bullets",
    "caveats",
    "checkout",
    "document",
    "figure_section",
    "machine",
    "software",
    "table_section",
    "write_document",
]

REPORT = "report.md"


def write_document(folder: Path, parts: Iterable[str]) -> Path:
    """Write ``report.md`` into a run's folder, its parts below each other."""
    path = folder / REPORT
    path.write_text(document(parts))
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
