"""Ctrl-C while executors write: the tasks end, nothing is left, and the session is good for other writes."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from ..counts import SOAK

if TYPE_CHECKING:
    from pathlib import Path

# The tasks never end by themselves. The first that has begun has Ctrl-C sent.
PROGRAM = """
import os, signal, sys, threading, time
from pathlib import Path
import pyarrow as pa
from spillway.spark import local_session, stop_session, write_generated

begun, to = Path(sys.argv[1]), sys.argv[2]
signal.signal(signal.SIGINT, signal.default_int_handler)

def endless(number):
    begun.touch()
    while True:
        time.sleep(0.02)
        yield pa.record_batch({"id": [number]})

def interrupt():
    while not begun.exists():
        time.sleep(0.02)
    os.kill(os.getpid(), signal.SIGINT)

session = local_session("interrupted")
threading.Thread(target=interrupt, daemon=True).start()
try:
    write_generated(session, endless, 2, to, schema=pa.schema({"id": pa.int64()}), table=sys.argv[3])
except KeyboardInterrupt:
    print("interrupted", flush=True)
tracker = session.sparkContext.statusTracker()
while tracker.getActiveJobsIds():
    time.sleep(0.02)
print("cancelled", flush=True)
session.range(1).write.format("spillway").mode("append").save(f"{to}-after")
print("written", flush=True)
stop_session(session)
"""


# Both kinds leave nothing by the same steps; each costs a start of a JVM.
@pytest.mark.parametrize("table", ["delta", *(["parquet"] if SOAK else [])])
def test_ctrl_c_cancels_the_tasks_of_a_write_and_leaves_nothing(tmp_path: Path, table: str) -> None:
    to = tmp_path / "to"
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, str(tmp_path / "begun"), str(to), table]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.split() == ["interrupted", "cancelled", "written"], done.stderr
    assert done.returncode == 0, done.stderr
    assert not to.exists()
