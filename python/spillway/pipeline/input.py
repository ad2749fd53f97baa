"""The user's own files, read by Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spillway.datasets import find_files
from spillway.errors import OptionError
from spillway.reading.files import TITLES, recognise

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from spillway.datasets import FileSource
    from spillway.reading.sources import Files

__all__ = ["find_input", "read_input"]

_FORMATS = {"parquet": "parquet", "csv": "csv", "ndjson": "json"}
# The compressions of text that Spark needs no library of the machine for, by suffix.
_SUFFIXES = {None: None, "gzip": ".gz", "bz2": ".bz2"}


def find_input(source: FileSource) -> Files:
    """The files that a source names, of a format that Spark reads.

    Raises:
        FileNotFoundError: There is nothing of this name.
        OptionError: Spark does not read such files.
        CorruptFileError: A file is empty, or not what its name says.
    """
    files = find_files(source)
    if files.format not in _FORMATS:
        raise OptionError(
            f"--input {source.path} is {TITLES[files.format]}, which Spark does not read: "
            f"give Parquet, CSV or NDJSON"
        )
    for path in files.paths if files.format != "parquet" else ():
        _check_compression(path, recognise(path, source.text).compression)
    return files


def _check_compression(path: Path, compression: str | None) -> None:
    if compression not in _SUFFIXES:
        raise OptionError(
            f"{path} is compressed by {compression}, which Spark does not read: use gzip, or decompress it"
        )
    suffix = _SUFFIXES[compression]
    if suffix is not None and path.suffix != suffix:
        raise OptionError(f"{path} is compressed by {compression}, which Spark knows by the suffix {suffix}")


def read_input(session: SparkSession, source: FileSource, files: Files) -> DataFrame:
    """The rows of the files, columns matched by name; folders named ``key=value`` are columns, too."""
    reader: Any = session.read.format(_FORMATS[files.format])
    if files.base is not None:
        reader = reader.option("basePath", str(files.base.absolute()))
    if files.format == "parquet":
        reader = reader.option("mergeSchema", len(files.paths) > 1)
    else:
        reader = reader.option("encoding", source.text.encoding or "UTF-8").option("mode", "FAILFAST")
    if files.format == "csv":
        tabs = recognise(files.paths[0], source.text).suffix == ".tsv"
        reader = reader.options(
            header=True,
            inferSchema=True,
            sep=source.text.delimiter or ("\t" if tabs else ","),
            quote='"',
            escape='"',
            multiLine=True,
        )
    frame: DataFrame = reader.load([str(path.absolute()) for path in files.paths])
    return frame
