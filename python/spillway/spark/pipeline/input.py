"""The files of a path or URL as Spark reads them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from spillway.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["format_of", "read_path"]

_FORMATS = {
    "parquet": "parquet",
    "csv": "csv",
    "tsv": "csv",
    "json": "json",
    "jsonl": "json",
    "ndjson": "json",
}
_SUFFIX = re.compile(r"\.([A-Za-z]+)(?:\.(?:gz|bz2))?/?$")


def format_of(path: str) -> str:
    """Return Spark's name of the format of files, by the suffix of their path; Parquet without one.

    Raises:
        OptionError: It has a suffix that is none of these formats.
    """
    name = path.rstrip("/*").rpartition("/")[2]
    match = _SUFFIX.search(name)
    if match is None:
        return "parquet"
    known = _FORMATS.get(match[1].lower())
    if known is None:
        message = (
            f"{path!r} is of no known format: give Parquet, CSV or NDJSON (.parquet, .csv, .tsv, .ndjson, "
            ".jsonl, .json; text also with .gz or .bz2), or a function that reads it"
        )
        raise OptionError(message, "source")
    return known


def read_path(  # noqa: PLR0913 - what there is to say about text
    session: SparkSession,
    path: str,
    *,
    schema: str | None = None,
    multi_line: bool = False,
    delimiter: str | None = None,
    encoding: str | None = None,
) -> DataFrame:
    """Read Parquet, CSV with a header, or NDJSON.

    A line that does not fit fails the run, unless the schema has a column for such lines:
    ``_corrupt_record``, or what ``spark.sql.columnNameOfCorruptRecord`` says.

    Args:
        session: The session.
        path: A path or URL, which may be a pattern.
        schema: The columns of text, as ``"id INT, name STRING"``; without it, Spark infers them.
        multi_line: True if values of CSV may have line breaks; then one task reads each file.
        delimiter: What separates the values of CSV.
        encoding: The encoding of text.

    Raises:
        OptionError: The format is not known.
    """
    form = format_of(path)
    reader: Any = session.read.format(form)
    if schema is not None:
        reader = reader.schema(schema)
    if form == "parquet":
        # Columns that the first file lacks would be lost.
        reader = reader.option("mergeSchema", "true")
    else:
        corrupt = session.conf.get("spark.sql.columnNameOfCorruptRecord") or ""
        keeps = schema is not None and re.search(rf"(?<!\w){re.escape(corrupt)}(?!\w)", schema) is not None
        mode = "PERMISSIVE" if keeps else "FAILFAST"
        reader = reader.option("mode", mode).option("encoding", encoding or "UTF-8")
    if form == "csv":
        tabs = ".tsv" in path.rpartition("/")[2].lower()
        reader = reader.options(
            header=True,
            inferSchema=schema is None,
            enforceSchema=False,
            sep=delimiter or ("\t" if tabs else ","),
            quote='"',
            escape='"',
            multiLine=multi_line,
        )
    frame: DataFrame = reader.load(re.sub(r"^s3n?://", "s3a://", path))
    return frame
