"""``spillway doctor``: what this machine can measure and limit, and the proof."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["doctor"]

_COLOURS = {"ok": "green", "warning": "yellow", "missing": "red"}
_NEEDED = ("exact peak RSS", "affinity", "page cache", "output folder")


def doctor(
    *,
    out: Annotated[Path, typer.Option(help="The folder runs would be kept in.")] = Path("runs"),
) -> None:
    """Say what this machine can measure and limit, and prove it.

    Memory is planted and asked for again; under every kind of limit a canary has to die. Ends with 1 if
    something is missing without which nothing can be measured.
    """
    from rich.console import Console

    from spillway.harness.doctor import examine

    console = Console()
    lacking = []
    with console.status("examining this machine"):
        for finding in examine(out):
            colour = _COLOURS[finding.verdict]
            console.print(
                f"[{colour}]{finding.verdict:8}[/] [bold]{finding.subject}[/]: {finding.detail}",
                highlight=False,
            )
            if finding.verdict == "missing" and finding.subject in _NEEDED:
                lacking.append(finding.subject)
    if lacking:
        console.print(f"the bench cannot measure here without: {', '.join(lacking)}", style="red")
        raise typer.Exit(1)
