"""Spark settings that decide how a path is resolved and what an overwrite replaces, from all sources.

The driver's program reads them from its session. The data source plans in a process that has no session and
no task: there the files of Hadoop's configuration are all that can be read. Its tasks receive every setting
of the session that begins with ``spark.``, as local properties.
"""

from __future__ import annotations

import contextlib
import os
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spillway.errors import OptionError
from spillway.spark.location import check_default, scheme_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession

__all__ = ["Settings", "changed_settings", "is_connect", "of_environment", "of_session", "of_task"]

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
