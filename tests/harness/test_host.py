"""Noise of the host: whose processor time is called that of others."""

from __future__ import annotations

import subprocess
import sys

from spillway.harness.host import _own_seconds

BUSY = """
import time
begin = time.process_time()
while time.process_time() - begin < 0.5:
    pass
print("done", flush=True)
input()
"""


def burn() -> subprocess.Popen[str]:
    """A program that has used half a second of the processor, and lives on."""
    program = subprocess.Popen(
        [sys.executable, "-c", BUSY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert program.stdout is not None
    assert program.stdout.readline() == "done\n"
    return program


def test_the_time_of_a_process_below_is_own_while_it_lives_and_when_it_has_ended() -> None:
    before = _own_seconds()
    with burn() as program:
        alive = _own_seconds()
        program.communicate("\n", timeout=30)
    assert alive - before >= 0.5
    assert _own_seconds() >= alive
