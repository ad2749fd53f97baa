"""A standalone Spark cluster of one master and some workers on loopback addresses, for tests.

``python -m tests.spark.cluster FOLDER WORKERS`` runs one, and prints a line of JSON when all workers are
there. It ends the cluster when its standard input ends, so that no cluster outlives its test run, however
that ended. Workers start executors in an environment that holds no variable of the test run, and thereby
none of its packages.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pyspark

from .archive import LAUNCHER_OPTIONS, java_options

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from spillway.spark import Packed

__all__ = ["BASE_PYTHON", "SPARK_HOME", "Cluster", "finished", "running"]

ROOT = Path(__file__).parents[2]
SPARK_HOME = Path(pyspark.__file__).parent
# The interpreter below the virtual environment: it has none of the environment's packages.
BASE_PYTHON = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
# Long enough for the slowest test on a machine that others use too: what takes longer hangs.
_SECONDS = 500
_COLLECTOR = "-XX:+UseSerialGC"
_SMALL = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": _COLLECTOR,
    "spark.driver.extraJavaOptions": _COLLECTOR,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_SESSION = """
import os
os.environ.update({environment!r})
from pyspark.sql import SparkSession
spark = SparkSession.builder.config(map={settings!r}).getOrCreate()
"""


@dataclass(frozen=True)
class Cluster:
    """A cluster that runs.

    Attributes:
        master: The address that sessions take.
        processes: The daemons: the master first.
        work: The folder in which each worker has its executors' folders.
    """

    master: str
    processes: tuple[int, ...]
    work: Path

    @contextlib.contextmanager
    def driver(
        self, folder: Path, program: str, packed: Packed, settings: Mapping[str, str] | None = None
    ) -> Iterator[subprocess.Popen[str]]:
        """A program that has the session `spark` on this cluster, in its own folder; it ends with the block.

        The session has the settings of a small machine, and those of the archive.
        """
        everything = {"spark.master": self.master, **self.settings(packed), **(settings or {})}
        session = _SESSION.format(environment=packed.environment, settings=everything)
        with self.bare_driver(folder, session + program) as driver:
            yield driver

    @staticmethod
    def settings(packed: Packed) -> dict[str, str]:
        """The settings of a small machine, and those of the archive."""
        return {**_SMALL, **packed.settings}

    @contextlib.contextmanager
    def bare_driver(self, folder: Path, program: str) -> Iterator[subprocess.Popen[str]]:
        """A program that starts its own session.

        Executors run the base interpreter, and so do the Python workers that Spark starts on the driver.
        """
        with subprocess.Popen(
            [sys.executable, "-W", "error", "-c", program],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder,
            env={**_clean_environment(folder), "PYSPARK_PYTHON": str(BASE_PYTHON)},
            start_new_session=True,
        ) as driver:
            try:
                yield driver
            finally:
                _end([driver])

    def executors(self) -> list[psutil.Process]:
        """The JVMs of executors that run now."""
        return [
            child
            for daemon in self.processes[1:]
            for child in psutil.Process(daemon).children()
            if "CoarseGrainedExecutorBackend" in _command(child)
        ]


def finished(driver: subprocess.Popen[str]) -> str:
    """The output of a program on a cluster, which is waited for.

    Raises:
        AssertionError: It failed.
    """
    out, err = driver.communicate(timeout=_SECONDS)
    assert driver.returncode == 0, err
    return out


def _command(process: psutil.Process) -> str:
    """The command line of a process, empty once it has ended."""
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""


@contextlib.contextmanager
def running(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    """A cluster, for as long as the block runs; its logs and its executors' folders are in `folder`.

    Raises:
        RuntimeError: It did not start. The message has the end of its logs.
    """
    command = [sys.executable, "-m", "tests.spark.cluster", str(folder), str(workers)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as supervisor:
        assert supervisor.stdin is not None
        assert supervisor.stdout is not None
        try:
            line = supervisor.stdout.readline()
            if not line:
                logs = [f"{log.name}: {log.read_text()[-2000:]}" for log in folder.glob("*.log")]
                raise RuntimeError("the cluster did not start\n" + "\n".join(logs))
            told = json.loads(line)
            yield Cluster(told["master"], tuple(told["processes"]), folder / "work")
        finally:
            supervisor.stdin.close()
            supervisor.wait(_SECONDS)


def _clean_environment(folder: Path) -> dict[str, str]:
    """The environment of daemons, and so of executors: programs of the system and Java."""
    java = shutil.which("java")
    home = os.environ.get("JAVA_HOME") or (str(Path(java).resolve().parent.parent) if java else "")
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": str(folder),
        "JAVA_HOME": home,
        "SPARK_HOME": str(SPARK_HOME),
        # A folder that is there would stand in the class path, and no archive of classes be used.
        "SPARK_CONF_DIR": str(folder / "no-conf"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(folder / "scratch"),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": _COLLECTOR,
        "SPARK_LAUNCHER_OPTS": LAUNCHER_OPTIONS,
        # Executors inherit it from their workers, and no setting of a session has to name it.
        "JAVA_TOOL_OPTIONS": java_options(),
        "PYTHONNOUSERSITE": "1",
    }


def _start(folder: Path, name: str, program: str, host: str, *arguments: str) -> subprocess.Popen[bytes]:
    """Start a daemon in a session of its own, on ports of the system's choice, with a log of its name."""
    address = ("--host", host, "--port", "0", "--webui-port", "0")
    command = [SPARK_HOME / "bin" / "spark-class", f"org.apache.spark.deploy.{program}", *address, *arguments]
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder,
            env=_clean_environment(folder) | {"SPARK_LOCAL_IP": host},
            start_new_session=True,
        )


def _line(folder: Path, name: str, daemon: subprocess.Popen[bytes], pattern: str) -> re.Match[str]:
    """The first match in a daemon's log, which may have to be waited for."""
    log = folder / f"{name}.log"
    deadline = time.monotonic() + _SECONDS
    while (found := re.search(pattern, log.read_text())) is None:
        if daemon.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"{name} did not start")
        time.sleep(0.05)
    return found


def _end(daemons: Sequence[subprocess.Popen[Any]]) -> None:
    """End the sessions of daemons: executors and Python workers are in them, in groups of their own."""
    leaders = {daemon.pid for daemon in daemons}
    while True:
        members = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, ProcessLookupError):
                if os.getsid(process.pid) in leaders and process.status() != psutil.STATUS_ZOMBIE:
                    members.append(process)
        if not members:
            break
        for process in members:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        time.sleep(0.05)
    for daemon in daemons:
        daemon.wait()


def main(folder: Path, workers: int) -> None:
    """Run a cluster until the standard input ends."""
    daemons: list[subprocess.Popen[bytes]] = []
    # Both end the cluster as the end of input does.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: sys.exit(1))
    for part in ("scratch", "work"):
        (folder / part).mkdir()
    try:
        daemons.append(_start(folder, "master", "master.Master", "127.0.0.1"))
        master = _line(folder, "master", daemons[0], r"Starting Spark master at (spark://[\d.:]+)")[1]
        for number in range(workers):
            room = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder / "work" / str(number)))
            # Each on a host of its own: Spark repeats no task on the host that it runs on.
            host = f"127.0.0.{number + 2}"
            daemons.append(_start(folder, f"worker-{number}", "worker.Worker", host, *room, master))
        for number, daemon in enumerate(daemons[1:]):
            _line(folder, f"worker-{number}", daemon, "Successfully registered with master")
        told = {"master": master, "processes": [daemon.pid for daemon in daemons]}
        sys.stdout.write(f"{json.dumps(told)}\n")
        sys.stdout.flush()
        sys.stdin.read()
    finally:
        _end(daemons)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
