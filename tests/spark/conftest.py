"""Fixtures of Spark: a session with Delta and retries, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


class Worker:
    """The process: it does one command after the other."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def ask(self, do: str, **arguments: Any) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps({"do": do, **arguments}), file=self.process.stdin, flush=True)
        reply = json.loads(self.process.stdout.readline() or '{"error": "Spark is gone"}')
        if "error" in reply:
            raise RuntimeError(reply["error"])
        return reply["answer"]


@pytest.fixture(scope="session")
def worker() -> Iterator[Worker]:
    program = [sys.executable, str(Path(__file__).with_name("worker.py"))]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        assert first.strip() == '"ready"', first
        yield Worker(process)
        assert process.stdin is not None
        process.stdin.close()
        process.wait(60)
