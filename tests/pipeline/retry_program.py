"""A pipeline in which the first attempt of a task fails in the middle: ``retry_program.py FLAG TABLE ROWS``.

It prints a line of JSON: the failed attempts of the write, its output, and what the validation found.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from spillway.pipeline.destination import Destination
from spillway.pipeline.jobs import StageRunner
from spillway.pipeline.progress import Progress
from spillway.pipeline.rows import GeneratedRows
from spillway.pipeline.session import open_session
from spillway.pipeline.steps import Steps
from spillway.spark import stop_session

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa


@dataclass(frozen=True)
class FailsOnce(GeneratedRows):
    """Rows whose second partition fails after its first batch, unless a file says that it has."""

    flag: str = ""

    def make(self, number: int) -> Iterator[pa.RecordBatch]:
        for batch in super().make(number):
            yield batch
            if number == 1 and not Path(self.flag).exists():
                Path(self.flag).touch()
                raise RuntimeError("this attempt fails")


def main(flag: str, table: str, rows: str) -> None:
    console = Console(file=sys.stderr)
    progress = Progress(console)
    session = open_session("local[2]", memory="1g", delta=True, settings={}, say=progress.say)
    runner = StageRunner(session, progress)
    place = Destination.of(table, table="delta", mode="error", partition_by=(), storage_options={})
    steps = Steps(session, FailsOnce("logs", 1, int(rows), 4, flag), place, {})
    written, tasks = runner.run("writing", steps.write)
    found, _ = runner.run("validating", lambda: steps.validate(written))
    more = Destination.of(table, table=None, mode="append", partition_by=(), storage_options={})
    steps = Steps(session, GeneratedRows("logs", 2, 500, 1), more, {})
    appended, _ = runner.run("appending", steps.write)
    again, _ = runner.run("validating", lambda: steps.validate(appended))
    stop_session(session)
    answer = {"failed": tasks.failed, "output": written.output, "found": found}
    print(json.dumps({**answer, "appended": appended.output, "again": again}))  # noqa: T201 - its answer


if __name__ == "__main__":
    main(*sys.argv[1:])
