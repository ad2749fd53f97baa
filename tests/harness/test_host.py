"""Noise of the host: whose processor time is called that of others."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time

from spillway.harness.environment import _own_seconds

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


def test_the_time_of_many_processes_is_not_cut_to_ticks() -> None:
    tells = "import time; print(time.process_time(), flush=True); input()"
    before, begin, told = _own_seconds(), time.process_time(), 0.0
    with contextlib.ExitStack() as stack:
        programs = [
            subprocess.Popen(
                [sys.executable, "-S", "-c", tells], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            for _ in range(12)
        ]
        for program in programs:
            stack.callback(program.communicate, "\n", timeout=30)
            assert program.stdout is not None
            told += float(program.stdout.readline())
        told += time.process_time() - begin
        assert _own_seconds() - before >= told


def test_the_time_of_a_process_below_is_own_while_it_lives_and_when_it_has_ended() -> None:
    before = _own_seconds()
    with burn() as program:
        alive = _own_seconds()
        program.communicate("\n", timeout=30)
    assert alive - before >= 0.5
    assert _own_seconds() >= alive
