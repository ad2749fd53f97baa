"""Ctrl-C or SIGTERM that comes again does not end what the first one has begun to tidy up."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from spillway.cli.common import termination_as_interrupt

PROGRAM = """
import time
from spillway.cli.common import first_interrupt_alone
from spillway.spark.status import interrupts_put_off

with first_interrupt_alone():
    try:
        try:
            with interrupts_put_off() as came:
                print("begun", flush=True)
                while not came:
                    time.sleep(0.01)
        finally:
            print("tidying up", flush=True)
            time.sleep(0.3)
            print("tidied", flush=True)
    except KeyboardInterrupt:
        print("nothing is left", flush=True)
"""


def test_a_second_ctrl_c_does_not_end_the_tidying_up() -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        said = []
        for line in program.stdout:
            said.append(line.strip())
            if line.strip() in {"begun", "tidying up"}:
                program.send_signal(signal.SIGINT)
    assert said == ["begun", "tidying up", "tidied", "nothing is left"]
    assert program.returncode == 0


PRESSED_TO_THE_END = """
import os, signal
from spillway.cli.common import {taken}

class Last:
    # It goes with the module, when Python has given most signals their defaults back.
    def __del__(self, kill=os.kill, own=os.getpid(), number=signal.{name}):
        kill(own, number)

last = Last()
# What runs the tests may have it ignored, as `nohup` has SIGHUP.
if signal.getsignal(signal.{name}) is signal.SIG_IGN:
    signal.signal(signal.{name}, signal.SIG_DFL)
try:
    with {taken}():
        os.kill(os.getpid(), signal.{name})
except KeyboardInterrupt:
    os.kill(os.getpid(), signal.{name})
    print("ended", flush=True)
"""


# `timeout` sends SIGTERM twice, and the second may come as late as the end of the process.
@pytest.mark.parametrize(
    ("taken", "name"),
    [
        ("first_interrupt_alone", "SIGINT"),
        ("termination_as_interrupt", "SIGTERM"),
        # Of a terminal that is closed.
        ("termination_as_interrupt", "SIGHUP"),
    ],
)
def test_a_signal_after_the_tidying_up_does_not_end_the_last_words(taken: str, name: str) -> None:
    program = PRESSED_TO_THE_END.format(taken=taken, name=name)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "ended\n"), done.stderr


def test_a_run_that_nobody_ended_gives_the_signal_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with termination_as_interrupt() as end_what_was_begun:
        end_what_was_begun()
    assert signal.getsignal(signal.SIGTERM) is before
