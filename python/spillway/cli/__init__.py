"""The ``spillway`` command: its subcommands are functions of the modules here, and found by name."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the ``spillway`` command line; the entry point of the installed script."""
    try:
        from spillway.cli.app import app
    except ModuleNotFoundError as error:
        if error.name in {"typer", "rich"}:
            sys.exit(f"spillway: {error.name} is needed for the command line: pip install 'spillway[bench]'")
        raise
    app()
