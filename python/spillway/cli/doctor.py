"""``spillway doctor``: what this machine can measure and limit, and the proof."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["doctor"]

_COLOURS = {"ok": "green", "warning": "yellow", "not here": "dim", "missing": "red"}


def doctor(
    *,
    out: Annotated[Path, typer.Option(help="The folder runs would be kept in.")] = Path("runs"),
) -> None:
    """Say what this machine can measure and limit, and prove it.

    Memory is planted and asked for again; under every kind of limit a canary has to die. The last line says
    what to call, or what is missing; then it ends with 1.
    """
    from rich.console import Console
    from rich.text import Text

    from spillway.bench.doctor import examine, verdict

    console = Console()
    findings = []
    with console.status("examining this machine"):
        for finding in examine(out):
            findings.append(finding)
            colour = _COLOURS[finding.verdict]
            line = Text.assemble((f"{finding.verdict:8}", colour), " ", (finding.subject, "bold"), ": ")
            console.print(line.append(finding.detail), soft_wrap=True)
    ready, words = verdict(findings)
    console.print(Text(words, "bold green" if ready else "bold red"), soft_wrap=True)
    if not ready:
        raise typer.Exit(1)
