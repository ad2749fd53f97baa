"""Spark's settings: those that decide what a write does, from all sources, and those that size Arrow batches.

The driver's program reads the former from its session. The data source plans in a process that has no session
and no task: there the files of Hadoop's configuration are all that can be read. Its tasks receive every
setting of the session that begins with ``spark.``, as local properties.

Spark gives the rows of a DataFrame to Python in Arrow batches. From 4.0 on it also cuts them by bytes (64 MiB
by default in 4.2 and 4.3). It sums up the buffers of all columns at every row for that, unless the limit is
2^31 - 1, which takes much of the time of wide tables.
"""

from __future__ import annotations

import contextlib
import os
import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spillway.errors import OptionError
from spillway.spark.location import check_default, scheme_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

__all__ = [
    "NARROW_ROW_BYTES",
    "Settings",
    "changed_settings",
    "cut_by_rows",
    "is_connect",
    "of_environment",
    "of_session",
    "of_task",
    "without_limit",
]

_OVERWRITE_MODE = "spark.sql.sources.partitionOverwriteMode"
_CASE_SENSITIVE = "spark.sql.caseSensitive"
_DEFAULT_FS = "fs.defaultFS"
#: The setting, and its name in Hadoop 1, which Hadoop still reads.
_DEFAULT_NAMES = (_DEFAULT_FS, "fs.default.name")
#: Folders of ``core-site.xml``, in the order of the class path of a driver.
_FOLDERS = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH")
#: The files that Spark on YARN puts beside a driver in cluster mode (``o.a.s.deploy.yarn.Client``).
_OF_YARN = ("__spark_conf__/__spark_hadoop_conf__.xml", "__spark_conf__/__hadoop_conf__/core-site.xml")


@dataclass(frozen=True)
class Settings:
    """Settings of Spark, as far as they are known; None for those that are not.

    Args:
        default_fs: The file system of paths without a scheme.
        source: Where `default_fs` comes from.
        folder: The folder of relative paths.
        partition_overwrite: ``"static"`` or ``"dynamic"``: what ``mode("overwrite")`` replaces.
        is_case_sensitive: True if names that differ only in case are distinct.
    """

    default_fs: str | None = None
    source: str = ""
    folder: str | None = None
    partition_overwrite: str | None = None
    is_case_sensitive: bool | None = None

    def check_path(self, path: str) -> None:
        """Refuse a path that Spark resolves to another place than this process.

        Raises:
            OptionError: It has no scheme, and Spark's default is another file system or another folder.
        """
        check_default(path, self.default_fs, self.source)
        if self.folder is None or scheme_of(path) is not None or path.startswith("/"):
            return
        there, here = Path(self.folder, path), Path.cwd() / path
        if os.path.realpath(there) != os.path.realpath(here):
            message = (
                f"the relative path {path!r} is {here} here, and {there} for Spark, whose JVM has another "
                "working folder: write the absolute path"
            )
            raise OptionError(message, "path")


def is_connect(session: SparkSession) -> bool:
    """Return True for the session of a client of Spark Connect."""
    return not hasattr(session, "_jsparkSession")


@contextlib.contextmanager
def changed_settings(session: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Change settings of a session for a block."""
    before: dict[str, Any] = {name: session.conf.get(name, None) for name in settings}
    try:
        for name, value in settings.items():
            session.conf.set(name, value)
        yield
    finally:
        for name, value in before.items():
            if value is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, value)


def of_session(session: SparkSession) -> Settings:
    """Return what a session says."""
    hadoop = session._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001 - there is no public way to the settings of Hadoop
    system = session.sparkContext._jvm.java.lang.System  # type: ignore[union-attr]  # noqa: SLF001 - as above
    return Settings(
        default_fs=hadoop.get(_DEFAULT_FS),
        source="the session",
        folder=system.getProperty("user.dir"),
        partition_overwrite=_mode(session.conf.get(_OVERWRITE_MODE)),
        is_case_sensitive=_is_true(session.conf.get(_CASE_SENSITIVE)),
    )


def of_task() -> Settings:
    """Return the settings that Spark passes to the task in this process, or those in local files."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        return Settings()
    names = (f"spark.hadoop.{name}" for name in _DEFAULT_NAMES)
    found = ((context.getLocalProperty(name), name) for name in names)
    here = of_environment()
    default, source = next(((value, name) for value, name in found if value), (here.default_fs, here.source))
    return Settings(
        default,
        source,
        partition_overwrite=_mode(context.getLocalProperty(_OVERWRITE_MODE)),
        # A session that has the default says nothing.
        is_case_sensitive=_is_true(context.getLocalProperty(_CASE_SENSITIVE)),
    )


def of_environment() -> Settings:
    """Return what files of configuration and the environment say."""
    if os.environ.get("DATABRICKS_RUNTIME_VERSION"):
        return Settings("dbfs:/", "Databricks")
    for file in _core_sites(os.environ):
        default = _default_in(file)
        if default is not None:
            return Settings(default, str(file))
    return Settings()


def _core_sites(environment: Mapping[str, str]) -> Iterator[Path]:
    """The file of Hadoop's settings that the driver reads, with what Spark on YARN has beside it."""
    yield from (Path(name) for name in _OF_YARN)
    folders = [
        folder for name in _FOLDERS for folder in environment.get(name, "").split(os.pathsep) if folder
    ]
    if not environment.get("SPARK_CONF_DIR") and environment.get("SPARK_HOME"):
        folders.insert(0, f"{environment['SPARK_HOME']}/conf")
    files = (Path(folder, "core-site.xml") for folder in folders)
    # Hadoop reads the first one of the class path alone.
    first = next((file for file in files if file.is_file()), None)
    if first is not None:
        yield first


def _default_in(file: Path) -> str | None:
    """The value of ``fs.defaultFS`` in a file; None where it has none, or cannot be read."""
    try:
        root = ET.parse(file).getroot()  # noqa: S314 - Spark's own configuration
    except (OSError, ET.ParseError):
        return None
    given = {
        each.findtext("name", "").strip(): each.findtext("value", "").strip()
        for each in root.iter("property")
    }
    return next((given[name] for name in _DEFAULT_NAMES if given.get(name)), None)


def _mode(text: str | None) -> str | None:
    return text.lower() if text else None


def _is_true(text: str | None) -> bool:
    return text is not None and text.lower() == "true"


#: Bytes of a row in Arrow's layout, on average, of which ten thousand fit in memory without a limit.
NARROW_ROW_BYTES = 4096

_RECORDS = "spark.sql.execution.arrow.maxRecordsPerBatch"
_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
_WITHOUT_LIMIT = {_BYTES: str(2**31 - 1)}
# Half as many rows as Spark's default stay below its limit of bytes where rows have 13 KB on average.
_BY_ROWS = {**_WITHOUT_LIMIT, _RECORDS: "5000"}
# The most rows that Spark puts in a batch by default. Who asks for larger ones keeps the limit of bytes.
_USUAL_RECORDS = 10_000
# Documents, of which a few thousand may have gigabytes, come in tables of few columns.
_FEWEST_COLUMNS = 8
#: Types of values that may have megabytes.
_WIDE = {"binary", "variant", "geometry", "geography", "udt"}
#: Nodes of a plan that have batches of their own, of rows that nothing is known of; or that hide such nodes.
_OTHER_BATCHES = re.compile(r"Python|Pandas|InArrow|LogicalRDD")


@contextlib.contextmanager
def cut_by_rows(frame: DataFrame) -> Iterator[None]:
    """Make Spark cut batches of a DataFrame with many narrow columns only by rows, in jobs of this thread.

    The block has no effect for frames with columns of binary values or few columns, for plans with other
    Python functions, and under Spark Connect.
    """
    if _is_narrow(frame):
        with _for_jobs(frame.sparkSession, _BY_ROWS):
            yield
    else:
        yield


@contextlib.contextmanager
def without_limit(session: SparkSession) -> Iterator[None]:
    """Make Spark cut batches of rows that are known to be narrow only by rows."""
    change = changed_settings if is_connect(session) else _for_jobs
    with change(session, _WITHOUT_LIMIT):
        yield


@contextlib.contextmanager
def _for_jobs(session: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Change settings that tasks read for the jobs of this thread, where the session does not set them.

    Tasks read local properties of their job. The session's own settings, which other threads have, too, stay
    as they are, and Spark puts those that are set in the place of these.
    """
    context = session.sparkContext
    before = {name: context.getLocalProperty(name) for name in settings}
    try:
        for name, value in settings.items():
            context.setLocalProperty(name, value)
        yield
    finally:
        for name, old in before.items():
            context.setLocalProperty(name, old)  # type: ignore[arg-type]  # null unsets it


def _is_narrow(frame: DataFrame) -> bool:
    """Return True if batches of a few thousand rows take few bytes, as far as the plan tells."""
    session: Any = frame.sparkSession
    if is_connect(session):
        return False
    leaves = list(_leaves(frame.schema))
    if len(leaves) < _FEWEST_COLUMNS or not _WIDE.isdisjoint(leaves):
        return False
    if not 0 < int(session.conf.get(_RECORDS)) <= _USUAL_RECORDS:
        return False
    jdf: Any = frame._jdf  # noqa: SLF001 - there is no public way to the plan
    return _OTHER_BATCHES.search(jdf.queryExecution().optimizedPlan().toString()) is None


def _leaves(kind: DataType) -> Iterator[str]:
    """The names of the types of leaf columns."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, StructType):
        for each in kind.fields:
            yield from _leaves(each.dataType)
    elif isinstance(kind, ArrayType):
        yield from _leaves(kind.elementType)
    elif isinstance(kind, MapType):
        yield from _leaves(kind.keyType)
        yield from _leaves(kind.valueType)
    else:
        yield kind.typeName()
