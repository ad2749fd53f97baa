"""Spark with Delta and retries in a process of its own: its jars must be there when its JVM starts."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Worker", "started"]

ROOT = Path(__file__).parents[2]


class Worker:
    """The process: it does one command after the other."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def ask(self, do: str, **arguments: Any) -> Any:
        """The answer to a command of `worker.py`.

        Raises:
            RuntimeError: It failed; the message has Spark's.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps({"do": do, **arguments}), file=self.process.stdin, flush=True)
        reply = json.loads(self.process.stdout.readline() or '{"error": "Spark is gone"}')
        if "error" in reply:
            raise RuntimeError(reply["error"])
        return reply["answer"]

    def sql(self, text: str) -> list[list[Any]]:
        """The rows that a statement answers."""
        answer: list[list[Any]] = self.ask("sql", text=text)
        return answer

    def read(self, path: Path, scratch: Path) -> pa.Table:
        """The rows of a Delta table, by way of a file."""
        self.ask("copy", path=str(path), into=str(scratch))
        with pa.ipc.open_file(scratch) as file:
            return file.read_all()


@contextlib.contextmanager
def started() -> Iterator[Worker]:
    """The process, for as long as the block runs."""
    program = [sys.executable, "-m", "tests.spark.worker"]
    with subprocess.Popen(
        program, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        first = process.stdout.readline()
        assert first.strip() == '"ready"', first
        yield Worker(process)
        process.stdin.close()
        process.wait(300)
