"""The engines' process, and at the end of a run the list of which were excused from which types."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .readers import EXCUSES, Checker, EngineProcess

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def checker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checker]:
    folder = tmp_path_factory.mktemp("interop")
    process = EngineProcess(folder)
    yield Checker(process, folder)
    process.close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not EXCUSES:
        return
    terminalreporter.section("engines excused, because pyarrow's own file fails too")
    for excuse, count in sorted(EXCUSES.items()):
        terminalreporter.write_line(f"{count:6} {excuse}")
