"""Spark sessions: local ones with fixed settings, those of a cluster, and the data source in any of them."""

from __future__ import annotations

import atexit
import contextlib
import ipaddress
import logging
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import spillway
from spillway._wording import counted
from spillway.errors import JavaError, MissingExtraError, OptionError, SpillwayError
from spillway.spark.workers import check_workers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark import SparkContext
    from pyspark.sql import SparkSession

__all__ = [
    "cores_of",
    "delta_release",
    "find_java",
    "kind_of",
    "local_session",
    "open_session",
    "quiet_log",
    "register",
    "require_spark",
    "start_session",
    "stop_session",
]

OLDEST = 17
"""The oldest Java that all supported versions of Spark run on."""

_REMEDY = f"Spark needs Java {OLDEST} or newer: install one, and put it on PATH or set JAVA_HOME"


class Java(NamedTuple):
    """A Java that is new enough.

    Attributes:
        program: Its ``java``.
        version: Its major version.
    """

    program: Path
    version: int


def find_java() -> Java:
    """Find the ``java`` program that Spark would start, and check its version.

    Raises:
        JavaError: Java was not found, does not run, or is too old.
    """
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if found is None or not Path(found).is_file():
        where = f"JAVA_HOME is {home!r}, which holds no bin/java" if home else "there is no java on PATH"
        raise JavaError(f"{where}. {_REMEDY}.")
    version = _version(found)
    if version < OLDEST:
        raise JavaError(f"{found} is Java {version}. {_REMEDY}.")
    return Java(Path(found), version)


def _version(java: str) -> int:
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise JavaError(f"{java} does not run: {error}. {_REMEDY}.") from error
    # `openjdk version "17.0.15" 2025-04-15`; up to Java 8 the major number came second, as in "1.8.0".
    number = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    if number is None:
        raise JavaError(f"{java} does not print its version: {answer.stderr.strip()!r}. {_REMEDY}.")
    return int(number[1])


_log = logging.getLogger(__name__)

# What would make this session another one than the wheel of PySpark beside us.
_FOREIGN = ("SPARK_HOME", "SPARK_CONF_DIR", "SPARK_REMOTE", "PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT")
_STOP_SECONDS = 20.0

_LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}

# Bytes that a Python worker keeps for its next task. glibc gives back what a task frees, and the next one
# faults it in again: much of what a write takes outside of the encoders. One of the two alone is worse than
# none, as either ends the adaptation of both. Older versions of glibc take no greater first value.
_KEPT_MEMORY = {
    "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": str(256 << 20),
}

# The last release of Delta for each Spark, by the artifact of its jar.
_DELTA_RELEASES = {
    "3.5": ("delta-spark_2.12", "3.3.2"),
    "4.0": ("delta-spark_4.0_2.13", "4.4.0"),
    "4.1": ("delta-spark_4.1_2.13", "4.4.0"),
    "4.2": ("delta-spark_4.2_2.13", "4.4.0"),
}

# Delta's own two jars are all that PySpark's lack; what else they name, PySpark has in newer versions.
_DELTA = {
    "spark.jars.excludes": "org.*:*,com.*:*,io.delta:delta-kernel*,io.delta:*unity*,io.unitycatalog:*",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # The 50 tasks that a snapshot is made of by default are for tables of millions of files.
    "spark.databricks.delta.snapshotPartitions": "2",
}


def local_session(  # noqa: PLR0913 - each is one thing to say about a session
    app_name: str,
    *,
    cores: int = 2,
    memory: str = "2g",
    delta: bool = False,
    retries: int = 0,
    say: Callable[[str], None] | None = None,
) -> SparkSession:
    """Start Spark on this machine: loopback only, UTC, no web UI, and this Python for its workers.

    The JVM takes about ten seconds to start. It runs in a separate process group, so Ctrl-C does not reach
    it, and it ends when this process ends; `stop_session` ends it earlier.

    Args:
        app_name: The name of the application.
        cores: Number of threads of the local master, and so of Python workers.
        memory: Size of the JVM's heap, in Spark's notation.
        delta: True adds support for Delta tables. The first such session on a machine downloads 9 MB of jars.
        retries: How often a failed task is retried; a local master does not retry by default.
        say: Called with a line that says what the call is waiting for; by default, the line is logged.

    Raises:
        MissingExtraError: PySpark or pandas is not installed.
        JavaError: Java is missing or too old, or the JVM does not start.
        SpillwayError: With ``delta=True``, there is no release of Delta for this Spark.
    """
    on = f"{cores} core{'' if cores == 1 else 's'}"
    return start_session(
        {
            "spark.app.name": app_name,
            "spark.master": f"local[{cores},{retries + 1}]",
            "spark.driver.memory": memory,
        },
        on=on,
        delta=delta,
        say=say,
    )


def start_session(  # noqa: PLR0913 - as `local_session`
    settings: Mapping[str, str],
    *,
    on: str,
    delta: bool = False,
    loopback: bool = True,
    own_group: bool = True,
    say: Callable[[str], None] | None = None,
) -> SparkSession:
    """Start Spark with settings over those that are pinned here.

    Args:
        settings: Settings of Spark by name, ``spark.app.name``, ``spark.master`` and ``spark.driver.memory``
            among them. A ``spark.local.dir`` is the caller's to remove.
        on: A description of where it starts.
        delta: As `local_session`.
        loopback: True if the driver is reached on this machine's loopback only.
        own_group: True if the JVM runs in a separate process group, which Ctrl-C does not reach.
        say: As `local_session`.

    Raises:
        MissingExtraError: As `local_session`.
        JavaError: As `local_session`.
        SpillwayError: As `local_session`.
    """
    say = say or _log.info
    try:
        import pandas as pd  # noqa: F401  # PySpark's Arrow path imports it
        from pyspark.sql import SparkSession
    except ModuleNotFoundError as error:
        raise MissingExtraError(error.name or "pyspark", "spark", "run Spark") from error
    java = find_java().program
    of_delta = {"spark.jars.packages": "io.delta:{}:{}".format(*delta_release()), **_DELTA} if delta else {}
    say(f"starting Spark on {on}; this takes about ten seconds")
    started = time.monotonic()
    given = settings.get("spark.local.dir")
    scratch = None if given else tempfile.mkdtemp(prefix="spillway-spark-")
    context = None
    try:
        pinned = _settings(str(scratch or given).split(",")[0]) | (_LOOPBACK if loopback else {}) | of_delta
        context = _start_context(
            {**pinned, **settings}, java, scratch, loopback=loopback, own_group=own_group
        )
        say(f"Spark {context.version} runs after {time.monotonic() - started:.0f} s")
        session = SparkSession.builder.getOrCreate()
        atexit.register(stop_session, session)
    except BaseException:
        if context is not None:
            stop_session(context)
        elif scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)
        raise
    return session


def stop_session(session: SparkSession | SparkContext) -> None:
    """Stop Spark and its JVM, by force if necessary; it may have ended already."""
    from py4j.protocol import Py4JError
    from pyspark import SparkContext

    atexit.unregister(stop_session)
    gateway = SparkContext._gateway  # noqa: SLF001  # there is no public way to the JVM's process
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    scratch = getattr(gateway, "spillway_scratch", None)
    try:
        with contextlib.suppress(Py4JError, OSError):  # the JVM may be dead
            session.stop()
        if gateway is not None:
            with contextlib.suppress(Py4JError, OSError):
                gateway.shutdown()
    finally:
        SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001  # else a next session would call the dead one
        if process is not None:
            _end(process)
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)


def delta_release() -> tuple[str, str]:
    """The artifact and the version of Delta that sessions with ``delta=True`` have.

    Raises:
        SpillwayError: No release of Delta is known for this Spark.
    """
    import pyspark

    release = _DELTA_RELEASES.get(".".join(pyspark.__version__.split(".")[:2]))
    if release is None:
        known = list(_DELTA_RELEASES)
        raise SpillwayError(
            f"no release of Delta is known for PySpark {pyspark.__version__}: sessions with delta=True need "
            f"PySpark {known[0]} to {known[-1]}; spillway.delta writes and reads tables without Delta's jars"
        )
    return release


def quiet_log() -> str:
    """The JVM option that switches Spark's log off: Spark reports failures through exceptions."""
    return f'-Dlog4j2.configurationFile="{Path(__file__).with_name("log4j2.properties").as_uri()}"'


def _settings(scratch: str) -> dict[str, str]:
    return {
        # The parallel collector: on two cores the concurrent one takes its threads' time from the readers.
        "spark.driver.extraJavaOptions": f"-XX:+UseParallelGC {quiet_log()}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": scratch,
        "spark.sql.warehouse.dir": Path(scratch, "warehouse").absolute().as_uri(),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.caseSensitive": "true",
        "spark.python.worker.reuse": "true",
        **_KEPT_MEMORY,
        "spark.log.structuredLogging.enabled": "false",
    }


@contextlib.contextmanager
def _environment(java: Path, python: str, *, loopback: bool) -> Iterator[None]:
    """The environment that the JVM and its Python workers inherit; this process's own is given back."""
    before = dict(os.environ)
    package = str(Path(spillway.__path__[0]).parent)
    inherited = [before["PYTHONPATH"]] if before.get("PYTHONPATH") else []
    for name in _FOREIGN:
        os.environ.pop(name, None)
    os.environ.update(
        JAVA_HOME=str(java.resolve().parent.parent),
        PYSPARK_PYTHON=python,
        PYSPARK_DRIVER_PYTHON=sys.executable,
        PYTHONPATH=os.pathsep.join([package, *inherited]),
        **({"SPARK_LOCAL_IP": "127.0.0.1"} if loopback else {}),
    )
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _start_context(
    settings: dict[str, str], java: Path, scratch: str | None, *, loopback: bool, own_group: bool
) -> Any:  # PySpark ships no types
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    # The workers of a cluster may have another Python than this machine.
    own = settings["spark.master"].startswith("local")
    python = sys.executable if own else os.environ.get("PYSPARK_PYTHON", sys.executable)
    environment = _environment(java, python, loopback=loopback)
    with tempfile.TemporaryFile() as output, environment, _signal_handler_kept():
        try:
            apart = {"start_new_session": own_group, "stdout": output, "stderr": subprocess.STDOUT}
            with _interrupts_put_off() as put_off:
                gateway = launch_gateway(conf, apart)  # type: ignore[no-untyped-call]  # typed in part
        except PySparkRuntimeError as error:
            output.seek(0)
            said = output.read().decode(errors="replace").strip()[-2000:]
            raise JavaError(f"Spark's JVM ended as it started; its output: {said or 'none'}") from error
        gateway.spillway_scratch = scratch
        try:
            for number in put_off:
                signal.raise_signal(number)
            return SparkContext(conf=conf, gateway=gateway)
        except BaseException:
            SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001
            _end(gateway.proc)
            raise


@contextlib.contextmanager
def _signal_handler_kept() -> Iterator[None]:
    """Keep the program's own handler of Ctrl-C, which PySpark would replace for good."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def _interrupts_put_off() -> Iterator[list[int]]:
    """Collect requests to end while the JVM starts: until its process is known, it could not be ended."""
    put_off: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield put_off
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda number, _: put_off.append(number)) for number in numbers]
    try:
        yield put_off
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Wait for the JVM to see its input closed; kill its group if it does not."""
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # a group of its own, where it has one
        process.wait(_STOP_SECONDS)


def register(session: SparkSession) -> None:
    """Register ``format("spillway")`` with a session.

    Spark 4 finds the format by itself if this package is installed in the driver's Python. Use this function
    if the look-up is switched off or happened too early, for example because the package was installed while
    Spark was running. The function also says why Spark does not find the format: with a local master, it
    checks the workers' Python.

    Raises:
        MissingExtraError: PySpark is not installed.
        SpillwayError: PySpark is older than 4.0, the first with data sources that take Arrow batches; or the
            Python that a local master starts for workers has a different minor version than the driver's, or
            lacks Spillway or pyarrow.

    Example:
        >>> spillway.spark.register(session)  # doctest: +SKIP
        >>> df.write.format("spillway").mode("append").save("rows")  # doctest: +SKIP
    """
    try:
        import pyspark
    except ModuleNotFoundError as error:
        raise MissingExtraError("pyspark", "spark", "write from Spark") from error
    import pyspark_spillway

    if not hasattr(pyspark_spillway, "DefaultSource"):
        raise SpillwayError(
            f"PySpark {pyspark.__version__} has no data sources that take Arrow batches, and 4.0 is the "
            "oldest that has them: write with spillway.spark.write, or update Spark"
        )
    check_workers(session)
    from pyspark.errors import AnalysisException

    try:
        session.dataSource.register(pyspark_spillway.DefaultSource)
    except AnalysisException as error:
        # Spark 4.0 takes no source whose name its look-up has found.
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise


#: The oldest and the newest Spark that tests run.
_TESTED = ("3.5", "4.3")
_CONNECT_SECONDS = 10.0
_ATTEMPTS = 4
_ON_THIS_MACHINE = {"--master": "with --master 'local[*]'"}
_LOCAL = re.compile(r"local(?:\[(\d+|\*)(?:,\s*\d+)?\])?")


def require_spark() -> None:
    """Check the version of PySpark.

    Raises:
        MissingExtraError: It is not installed.
        OptionError: It is one that no test runs.
    """
    try:
        version = metadata.version("pyspark")
    except metadata.PackageNotFoundError as error:
        raise MissingExtraError("pyspark", "spark", "run Spark") from error
    oldest, newest = _TESTED
    if not _minor(oldest) <= _minor(version) <= _minor(newest):
        raise OptionError(
            f"PySpark {version} is installed, and {oldest} to {newest} is needed: "
            "pip install 'spillway[spark]'"
        )


def _minor(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")[:2]))


def cores_of(master: str, option: str = "--master") -> int | None:
    """The cores of a local master; None for one that is elsewhere.

    Args:
        master: The master's address.
        option: The option that it was given by.

    Raises:
        OptionError: It is no address of a master.
    """
    match = _LOCAL.fullmatch(master)
    if match:
        return _local_cores(match[1])
    if re.match(r"(spark|k8s)://.|yarn$", master):
        return None
    raise OptionError(
        f"{option} {master!r} is not the address of a master: write local[*], local[4], "
        f"spark://HOST:PORT, yarn "
        f"or k8s://https://HOST:PORT"
    )


def kind_of(master: str) -> str:
    """Return ``local`` with its cores, or the kind of a cluster without its hosts."""
    match = _LOCAL.fullmatch(master)
    return f"local[{_local_cores(match[1])}]" if match else master.partition(":")[0]


def _local_cores(asked: str | None) -> int:
    """All usable cores for ``local[*]``, and one for ``local``."""
    if asked == "*":
        return len(os.sched_getaffinity(0))
    return int(asked or 1)


def open_session(  # noqa: PLR0913 - each is one thing to say about a session
    master: str,
    *,
    name: str,
    option: str = "--master",
    memory: str,
    delta: bool,
    settings: Mapping[str, str],
    say: Callable[[str], None],
) -> SparkSession:
    """Start Spark with a master.

    A task that fails is tried again up to three times, on this machine too.

    Args:
        master: The master's address.
        name: The name of the application.
        option: The option that the address was given by.
        memory: The heap of the driver's JVM.
        delta: True if it reads Delta tables.
        settings: Settings of Spark over all others.
        say: Called with a line that says what the call is waiting for.

    Raises:
        OptionError: The master does not answer.
        JavaError: There is no Java, or Spark does not start.
        MissingExtraError: PySpark is not installed.
        SpillwayError: No release of Delta is for this Spark.
    """
    require_spark()
    cores = cores_of(master, option)
    if cores is None:
        _require_masters(master, option)
    own = {
        "spark.app.name": name,
        "spark.master": master if cores is None else f"local[{cores},{_ATTEMPTS}]",
        "spark.driver.memory": memory,
        "spark.task.maxFailures": str(_ATTEMPTS),
        "spark.sql.parquet.enableVectorizedReader": "true",
        "spark.sql.parquet.enableNestedColumnVectorizedReader": "true",
    }
    on = master if cores is None else counted(cores, "core")
    hosts = [] if cores is not None else [host for host, _ in _addresses(master, option)]
    loopback = cores is not None or (bool(hosts) and all(map(_is_loopback, hosts)))
    try:
        return start_session({**own, **settings}, on=on, delta=delta, loopback=loopback, say=say)
    except Exception as error:
        if cores is not None or isinstance(error, SpillwayError):
            raise
        said = " ".join(str(error).split())[:300]
        raise OptionError(f"{option} {master} accepted no application: {said}") from error


def _require_masters(master: str, option: str) -> None:
    """Check that a master listens, as Spark itself would wait a minute for one.

    Raises:
        OptionError: None does.
    """
    addresses = _addresses(master, option)
    reasons = []
    for host, port in addresses:
        try:
            socket.create_connection((host, port), timeout=_CONNECT_SECONDS).close()
        except OSError as error:
            reasons.append(f"{host}:{port}: {error.strerror or error}")
        else:
            return
    if addresses:
        raise OptionError(
            f"{option} {master}: no master answers at this address ({'; '.join(reasons)}); start "
            f"one, or run on this "
            f"machine {_ON_THIS_MACHINE.get(option, f'without {option}')}"
        )


def _addresses(master: str, option: str) -> list[tuple[str, int]]:
    """The hosts and ports of standalone masters; none for another kind of cluster.

    Raises:
        OptionError: A port is missing.
    """
    if not master.startswith("spark://"):
        return []
    found = []
    for part in master.removeprefix("spark://").split(","):
        match = re.fullmatch(r"\[?([^\[\]]+?)\]?:(\d+)", part)
        if match is None:
            raise OptionError(f"{option} {master}: write spark://HOST:PORT; the port is mostly 7077")
        found.append((match[1], int(match[2])))
    return found


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
