"""A pytest plugin for runs of others' tests: exchanges their writer, if asked to, and notes every outcome."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

OUTCOMES, WRITER = "SPILLWAY_PEERS_OUTCOMES", "SPILLWAY_PEERS_WRITER"


class Notes:
    """The outcome of each test, and the words it failed with."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.found: dict[str, dict[str, str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Notes a test by its own part, and by what goes before and after it if that fails."""
        if report.when != "call" and report.passed:
            return
        outcome: str = report.outcome
        if hasattr(report, "wasxfail"):
            outcome = "xpassed" if report.passed else "xfailed"
        elif report.failed and report.when != "call":
            outcome = "error"
        name = report.nodeid.rpartition("/")[2]
        self.found[name] = {"outcome": outcome, "says": report.longreprtext}

    def pytest_sessionfinish(self) -> None:
        """Leaves the notes."""
        self.path.write_text(json.dumps(self.found), encoding="utf-8")


def pytest_configure(config: pytest.Config) -> None:
    """Exchanges the writer before any test is there."""
    config.pluginmanager.register(Notes(Path(os.environ[OUTCOMES])))
    if os.environ[WRITER] == "spillway":
        from . import pyarrow_writer  # noqa: PLC0415 - pyarrow's own run goes without

        pyarrow_writer.exchange()
