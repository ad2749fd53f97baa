"""Ctrl-C while executors write: the tasks end, and nothing is left."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

# The tasks never end by themselves. The first that has begun has Ctrl-C sent.
PROGRAM = """
import os, signal, sys, threading, time
from pathlib import Path
import pyarrow as pa
from spillway.spark import local_session, stop_session, write

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
    write(session, endless, 2, to, schema=pa.schema({"id": pa.int64()}))
except KeyboardInterrupt:
    print("interrupted", flush=True)
tracker = session.sparkContext.statusTracker()
while tracker.getActiveJobsIds():
    time.sleep(0.02)
print("cancelled", flush=True)
stop_session(session)
"""


def test_ctrl_c_cancels_the_tasks_of_a_write_and_leaves_nothing(tmp_path: Path) -> None:
    to = tmp_path / "to"
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, str(tmp_path / "begun"), str(to)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.split() == ["interrupted", "cancelled"], done.stderr
    assert done.returncode == 0, done.stderr
    assert not to.exists()
