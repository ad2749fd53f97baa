"""Processes that the harness starts."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from typing import Any

import pytest

from spillway.harness import processes


def test_ctrl_c_while_a_process_starts_leaves_none_running(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []

    class Interrupted(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            started.append(self)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with tempfile.TemporaryFile() as output, pytest.raises(KeyboardInterrupt):
            processes.start(
                [sys.executable, "-c", "import time; time.sleep(60)"], descriptors=(), output=output
            )
        (process,) = started
        assert process.returncode == -signal.SIGKILL
    finally:
        signal.signal(signal.SIGINT, before)
        for process in started:
            process.kill()
            process.wait()
