"""Masters of Spark: their addresses, and sessions on this machine or on a cluster."""

from __future__ import annotations

import ipaddress
import os
import re
import socket
from importlib import metadata
from typing import TYPE_CHECKING

from spillway._wording import counted
from spillway.errors import MissingExtraError, OptionError, SpillwayError
from spillway.spark.session import start_session

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession

__all__ = ["cores_of", "kind_of", "open_session", "require_spark"]

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
