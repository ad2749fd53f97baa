"""The Spark session of a pipeline, on this machine or on a cluster."""

from __future__ import annotations

import ipaddress
import re
import socket
from importlib import metadata
from typing import TYPE_CHECKING

from spillway._wording import counted
from spillway.errors import JavaError, MissingExtraError, OptionError
from spillway.pipeline.plan import cores_of
from spillway.spark.session import start_session

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession

__all__ = ["open_session", "require_spark"]

_SPARK = "4.2"
_CONNECT_SECONDS = 10.0
_ATTEMPTS = 4


def require_spark() -> None:
    """Check the version of PySpark.

    Raises:
        MissingExtraError: It is not installed.
        OptionError: It is another one.
    """
    try:
        version = metadata.version("pyspark")
    except metadata.PackageNotFoundError as error:
        raise MissingExtraError("pyspark", "spark", "run Spark") from error
    if not version.startswith(f"{_SPARK}."):
        raise OptionError(
            f"PySpark {version} is installed, and {_SPARK} is needed: pip install 'spillway[spark]'"
        )


def open_session(
    master: str,
    *,
    memory: str,
    delta: bool,
    settings: Mapping[str, str],
    say: Callable[[str], None],
) -> SparkSession:
    """Start Spark with a master.

    A task that fails is tried again up to three times, on this machine too.

    Args:
        master: The master's address.
        memory: The heap of the driver's JVM.
        delta: True if it reads Delta tables.
        settings: Settings of Spark over all others.
        say: Told in one line what is being waited for.

    Raises:
        OptionError: The master does not answer.
        JavaError: There is no Java, or Spark does not start.
        MissingExtraError: PySpark is not installed.
    """
    require_spark()
    cores = cores_of(master)
    if cores is None:
        _require_masters(master)
    own = {
        "spark.app.name": "spillway-pipeline",
        "spark.master": master if cores is None else f"local[{cores},{_ATTEMPTS}]",
        "spark.driver.memory": memory,
        "spark.task.maxFailures": str(_ATTEMPTS),
        "spark.sql.parquet.enableVectorizedReader": "true",
        "spark.sql.parquet.enableNestedColumnVectorizedReader": "true",
    }
    on = master if cores is None else counted(cores, "core")
    hosts = [] if cores is not None else [host for host, _ in _addresses(master)]
    loopback = cores is not None or (bool(hosts) and all(map(_is_loopback, hosts)))
    try:
        return start_session({**own, **settings}, on=on, delta=delta, loopback=loopback, say=say)
    except Exception as error:
        if cores is not None or isinstance(error, (JavaError, MissingExtraError)):
            raise
        said = " ".join(str(error).split())[:300]
        raise OptionError(f"--master {master} took no application: {said}") from error


def _require_masters(master: str) -> None:
    """Check that a master listens, as Spark itself would wait a minute for one.

    Raises:
        OptionError: None does.
    """
    addresses = _addresses(master)
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
            f"--master {master}: no master answers there ({'; '.join(reasons)}); "
            f"start one, or run on this machine with --master 'local[*]'"
        )


def _addresses(master: str) -> list[tuple[str, int]]:
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
            raise OptionError(f"--master {master}: write spark://HOST:PORT; the port is mostly 7077")
        found.append((match[1], int(match[2])))
    return found


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
