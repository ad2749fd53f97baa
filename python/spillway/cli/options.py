"""Options and arguments that several commands share, with their help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["Delimiter", "Encoding", "Out", "RunFolder", "Verbose"]

Out = Annotated[Path, typer.Option(help="Folder of all runs, on a disk.")]
"""The folder below which a run gets its own."""

RunFolder = Annotated[
    Path, typer.Argument(help="A run's folder, or a folder of runs, of which it is the newest.")
]
"""A run that was measured before."""

Verbose = Annotated[
    bool,
    typer.Option(
        "--verbose", help="Print all tables of the report: every number of rows, and every measure."
    ),
]
"""More tables on the terminal."""

Delimiter = Annotated[
    str | None, typer.Option(help="Between the fields of --input's CSV: ';' or tab; a comma by default.")
]
"""The separator of CSV."""

Encoding = Annotated[
    str | None, typer.Option(help="Of --input's text: cp1252, latin-1, utf-16; UTF-8 by default.")
]
"""The encoding of text."""
