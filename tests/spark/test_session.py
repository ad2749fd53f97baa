"""Spark starts pinned to this machine and this Python, says what is missing, and leaves no JVM behind."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import spillway
from spillway.errors import JavaError, SpillwayError
from spillway.spark import local_session
from spillway.spark.session import find_java

from ..counts import SOAK

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

VALIDATE = """
import sys
from spillway.cli import main
sys.argv = ["spillway", "validate", sys.argv[1], "--against", sys.argv[1], "--engine", "spark"]
main()
"""

START_AND_WAIT = """
import sys, time
from spillway.spark import local_session
session = local_session("left-behind")
print(session.sparkContext._gateway.proc.pid, flush=True)
time.sleep(120)
"""

START_AND_BE_INTERRUPTED = """
import signal
from spillway.spark import local_session
def interrupt(*_):
    raise KeyboardInterrupt
signal.signal(signal.SIGINT, interrupt)
signal.signal(signal.SIGTERM, interrupt)
local_session("interrupted")
signal.pause()
"""

# The example starts and stops the session; what is asked of any such session is asked of it.
RUN_THE_EXAMPLE = """
import runpy, signal, sys
import spillway.spark
from spillway.spark import local_session, stop_session
before = signal.getsignal(signal.SIGINT)
sessions = []
def asked(name):
    session = local_session(name, say=print)
    assert signal.getsignal(signal.SIGINT) is before
    print(session.sparkContext._gateway.proc.pid, flush=True)
    sessions.append(session)
    return session
spillway.spark.local_session = asked
runpy.run_path(sys.argv[1], run_name="__main__")
stop_session(sessions[0])
"""


@pytest.fixture
def fake_java(tmp_path: Path) -> Path:
    """A JAVA_HOME whose java says that it is Java 8."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_392\"' >&2\n")
    java.chmod(0o755)
    return tmp_path


def parquet_file(folder: Path) -> Path:
    path = folder / "file.parquet"
    pq.write_table(pa.table({"a": [1, 2, 3]}), path)
    return path


def test_absent_java_is_one_clear_error(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in {"JAVA_HOME", "PATH"}}
    file = parquet_file(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", VALIDATE, file],
        env={**environment, "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2
    assert "there is no java on PATH. Spark needs Java 17 or newer" in done.stderr
    assert "Traceback" not in done.stderr


def test_old_java_is_refused_with_its_version(fake_java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java))
    with pytest.raises(JavaError, match=r"is Java 8\. Spark needs Java 17 or newer"):
        find_java()


def test_a_java_home_without_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaError, match="which holds no bin/java"):
        find_java()


def test_delta_is_refused_on_a_spark_that_it_has_no_release_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.__version__", "4.3.0")
    with pytest.raises(SpillwayError, match=r"no release of Delta is known for PySpark 4\.3\.0"):
        local_session("no-delta", delta=True)


@pytest.mark.spark
def test_the_session_is_pinned_to_loopback_utc_and_this_python(spark: SparkSession) -> None:
    conf = spark.sparkContext.getConf()
    assert conf.get("spark.driver.host") == conf.get("spark.driver.bindAddress") == "127.0.0.1"
    assert conf.get("spark.ui.enabled") == "false"
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"

    def interpreter(rows: object) -> list[str]:  # noqa: ARG001  # what a worker is given
        # What a worker imports is its own, not what this process has loaded.
        modules = [importlib.import_module(name) for name in ("sys", "spillway")]
        return [modules[0].executable, modules[1].__version__]

    found = spark.sparkContext.parallelize([0], 1).mapPartitions(interpreter).collect()
    assert found == [sys.executable, spillway.__version__]


@pytest.mark.spark
def test_python_workers_keep_the_memory_of_a_task_for_the_next(spark: SparkSession) -> None:
    names = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_")
    numbers = spark.sparkContext.parallelize([0], 1)
    told = numbers.map(lambda _: [os.environ.get(name) for name in names]).collect()
    assert told == [[str(32 << 20), str(256 << 20)]]


@pytest.mark.spark
def test_spark_listens_on_loopback_only(spark: SparkSession) -> None:
    process = psutil.Process(spark.sparkContext._gateway.proc.pid)
    listening = [c.laddr.ip for c in process.net_connections() if c.status == psutil.CONN_LISTEN]
    assert listening
    assert {address.removeprefix("::ffff:") for address in listening} == {"127.0.0.1"}


@pytest.mark.spark
def test_the_example_runs_and_leaves_no_jvm(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    example = request.config.rootpath / "examples" / "spark_reads.py"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", RUN_THE_EXAMPLE, example],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("starting Spark on 2 cores")
    assert lines[1].startswith("Spark 4")
    assert not psutil.pid_exists(int(lines[2]))
    assert lines[-1] == "{'api': 2, 'web': 1}"


def _starting(program: psutil.Process) -> list[psutil.Process]:
    """The process that becomes the JVM, and none that only asks for Java's version."""
    found = []
    for each in program.children():
        with contextlib.suppress(psutil.NoSuchProcess):  # which a zombie is too
            if "spark" in " ".join(each.cmdline()):
                found.append(each)
    return found


# Both signals are put off by one handler: each is sent at one moment, and before a release at both.
INTERRUPTS = [(signal.SIGINT, 0), (signal.SIGTERM, 1)]
if SOAK:
    INTERRUPTS += [(signal.SIGINT, 1), (signal.SIGTERM, 0)]


@pytest.mark.spark
@pytest.mark.parametrize(("asked", "seconds"), INTERRUPTS)
def test_an_interrupt_while_spark_starts_leaves_no_jvm(
    tmp_path: Path, asked: signal.Signals, seconds: float
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", START_AND_BE_INTERRUPTED],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        seen = psutil.Process(program.pid)
        deadline = time.monotonic() + 60
        while not (started := _starting(seen)):
            assert time.monotonic() < deadline, "no JVM was started"
            time.sleep(0.01)
        time.sleep(seconds)
        program.send_signal(asked)
        _, said = program.communicate(timeout=90)
    assert "KeyboardInterrupt" in said
    # A process that was killed takes a moment to end.
    _, late = psutil.wait_procs(started, timeout=10)
    left = [each for each in late if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]
    for each in left:
        each.kill()
    assert not left
    assert not list(tmp_path.glob("spillway-spark-*"))


@pytest.mark.spark
def test_a_killed_program_leaves_no_jvm(tmp_path: Path) -> None:
    # What a killed program had as scratch stays behind, so it goes where the test's files go.
    program = subprocess.Popen(
        [sys.executable, "-c", START_AND_WAIT],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert program.stdout is not None
    with program.stdout:
        jvm = psutil.Process(int(program.stdout.readline()))
    assert os.getpgid(jvm.pid) != os.getpgid(program.pid)
    program.send_signal(signal.SIGKILL)
    program.wait(60)
    deadline = time.monotonic() + 60
    while jvm.is_running() and jvm.status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline, "the JVM outlived the program that started it"
        time.sleep(0.1)
