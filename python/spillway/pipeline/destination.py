"""The destination of a pipeline as Spark reads it: what is new in it after the write."""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spillway import delta
from spillway.errors import OptionError, TableNotFoundError
from spillway.spark.folder_job import STAGING
from spillway.spark.location import absolute, is_local

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from spillway.pipeline.plan import Mode, Table

__all__ = ["Destination"]


@dataclass(frozen=True)
class Destination:
    """The place that is written to.

    Attributes:
        uri: Its path or URL, as it was typed.
        location: The path or URL that means the same in every process.
        table: "parquet" or "delta".
        mode: The treatment of what is there.
        partition_by: Columns that rows are stored apart by.
        storage_options: Endpoint and credentials of an object store.
        is_new: True if nothing was there, or an empty folder.
        is_folder: True if a folder was there.
    """

    uri: str
    location: str
    table: Table
    mode: Mode
    partition_by: Sequence[str]
    storage_options: Mapping[str, str] = field(repr=False)
    is_new: bool
    is_folder: bool

    @classmethod
    def of(
        cls,
        uri: str,
        *,
        table: Table | None,
        mode: Mode,
        partition_by: Sequence[str],
        storage_options: Mapping[str, str],
    ) -> Destination:
        """The destination, of the kind that is there where none is asked for.

        Raises:
            OptionError: It is there, and the mode is "error"; or it is no folder, or nothing is written to
                such a URL.
        """
        location = absolute(uri)
        holds_anything = _holds_anything(uri, location)
        there = _is_delta(location, storage_options)
        kind: Table = table or ("delta" if there else "parquet")
        if there and kind == "parquet":
            raise OptionError(f"--to {uri} is a Delta table: --table delta writes to it")
        is_new = not (there or holds_anything)
        if mode == "error" and not is_new:
            raise OptionError(
                f"--to {uri} exists: choose another place, or say with --mode append or overwrite what "
                f"becomes of what is there"
            )
        is_folder = is_local(location) and Path(location).is_dir()
        return cls(uri, location, kind, mode, partition_by, storage_options, is_new, is_folder)

    @property
    def is_local(self) -> bool:
        """True for a path of this machine."""
        return is_local(self.location)

    def forget(self, job: str) -> None:
        """Remove what a job of a local destination left that was never committed.

        To be called when no task runs any more: until then one may write although its job was aborted.
        A commit that was acknowledged is never removed, and nothing of another job.

        Args:
            job: The job's id.
        """
        path = Path(self.location)
        if not (self.is_local and path.is_dir()):
            return
        if self.table == "parquet":
            shutil.rmtree(path / STAGING / job, ignore_errors=True)
            with suppress(OSError):  # another job is under way there, or has put something there
                (path / STAGING).rmdir()
            if self.is_new and not self.is_folder:
                with suppress(OSError):
                    path.rmdir()
        elif self.is_new:
            self._forget_files(path, f"spillway-{job}")

    def _forget_files(self, path: Path, folder: str) -> None:
        """Remove the files of a job that created no table, and the folders in which nothing is left."""
        named = _named(path, folder)
        if not named:
            shutil.rmtree(path / folder, ignore_errors=True)
        if named is not None:
            return
        own = ("_spillway/intents", "_spillway/staging", "_spillway", "_delta_log")
        for each in (*(path / name for name in own), *(() if self.is_folder else (path,))):
            with suppress(OSError):  # it is not there, or another job is under way there
                each.rmdir()

    def written(self, session: SparkSession, schema: pa.Schema, job: str, version: int | None) -> DataFrame:
        """The rows that this pipeline wrote: after an append, those of files whose names hold its job's id.

        Args:
            session: A running session.
            schema: The schema of the rows.
            job: The job's id.
            version: The version of the Delta table that was committed.
        """
        from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

        reader = self._reader(session)
        if self.table == "delta":
            if version is not None:
                reader = reader.option("versionAsOf", version)
            frame: DataFrame = reader.load(self._uri)
            own = F.col("_metadata.file_path").contains(job)
            return frame.where(own) if self.mode == "append" else frame
        if self.partition_by:
            # Spark would guess the types of partition columns by their values.
            from pyspark.sql.pandas.types import from_arrow_schema

            reader = reader.schema(from_arrow_schema(schema, prefer_timestamp_ntz=True))
        if self.mode != "append":
            return self._in_order(reader.load(self._uri), schema)
        new = [each for each in self._reader(session).load(self._uri).inputFiles() if job in each]
        if not new:  # partitioned rows, of which there were none
            return self._in_order(reader.load(self._uri), schema).limit(0)
        return self._in_order(reader.option("basePath", self._uri).load(new), schema)

    def _in_order(self, frame: DataFrame, schema: pa.Schema) -> DataFrame:
        """The columns in the order of the rows: Spark puts partition columns last."""
        if not self.partition_by:
            return frame
        return frame.select(*("`" + name.replace("`", "``") + "`" for name in schema.names))

    def _reader(self, session: SparkSession) -> Any:  # PySpark ships no types for it
        return session.read.format(self.table)

    @property
    def _uri(self) -> str:
        """The location as Spark spells it."""
        if self.is_local:
            # Without a scheme it would be a path on Hadoop's default file system.
            return f"file:{self.location}"
        return "s3a://" + self.uri.removeprefix("s3://") if self.uri.startswith("s3://") else self.uri


def _is_delta(location: str, storage_options: Mapping[str, str]) -> bool:
    try:
        delta.open(location, storage_options=storage_options or None)
    except TableNotFoundError:
        return False
    return True


def _holds_anything(uri: str, location: str) -> bool:
    """Return True for a folder with something in it; of an object store only the write itself knows.

    Raises:
        OptionError: It is a file.
    """
    if not is_local(location):
        return False
    path = Path(location)
    if path.exists() and not path.is_dir():
        raise OptionError(f"--to {uri} is a file: name a folder")
    return path.is_dir() and any(path.iterdir())


def _named(path: Path, folder: str) -> list[str] | None:
    """Return the files of a folder that versions of the table name; None where there is no table."""
    try:
        return delta.open(str(path))._native.known_paths(folder)  # noqa: SLF001 - one package
    except TableNotFoundError:
        return None
