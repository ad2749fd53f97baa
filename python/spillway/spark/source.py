"""The data source ``spillway``: ``df.write.format("spillway")`` runs the native writer on executors.

Spark gives options as text under names without case, and the writer takes values of types.
"""

from __future__ import annotations

import json
import logging
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyspark
from pyspark.sql import datasource
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage

from spillway._options import ELSEWHERE, refusal
from spillway.errors import OptionError, SpillwayError, UnknownOptionError
from spillway.spark.run import job_of
from spillway.spark.schema import arrow_schema, check_names
from spillway.spark.settings import of_environment, of_task
from spillway.spark.write import FrameTask
from spillway.spark.write_job import Job, Target, TaskResult, described, messages_of
from spillway.writer import WriterOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import NoReturn

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from spillway.spark.stream import SpillwayStreamWriter

__all__ = ["DefaultSource", "SpillwayWriter", "TaskMessage", "parsed"]

_log = logging.getLogger("spillway.spark")


class DefaultSource(DataSource):
    """The data source that Spark finds by the name ``spillway``.

    ``df.write.format("spillway").mode("append").save(path)`` writes a folder of Parquet files, or a Delta
    table with ``.option("table", "delta")`` or if one exists. Options are those of `WriterOptions`, by the
    same names but ``encryption``: numbers and booleans as text, lists and mappings as JSON. Beside them are
    ``partition_by`` (names with commas between them, or a JSON list), ``max_file_bytes``, ``max_file_rows``,
    ``table`` (``parquet`` or ``delta``), ``app_id``, ``app_version``, ``run_id``, ``schema_mode``, and the
    settings of an object store by their names, such as ``AWS_REGION``. Credentials are refused, as Spark
    shows options: the environment has them.

    The modes are ``append`` and ``overwrite``. Spark refuses ``errorifexists``, which is its default, and
    ``ignore`` before it asks a source written in Python. ``overwrite`` replaces all rows; or those for which
    the option ``where`` is true; or only partitions with new rows, if the option ``partition_overwrite``, its
    name in Spark, ``partitionOverwriteMode``, or ``spark.sql.sources.partitionOverwriteMode`` is ``dynamic``.
    """

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "spillway"

    def schema(self) -> NoReturn:
        """Refuse to be read: Spark's own readers can read the files."""
        raise OptionError(
            'the format "spillway" only writes: read the folder with format("parquet"), and a Delta table '
            'with format("delta")'
        )

    def writer(self, schema: StructType, overwrite: bool) -> SpillwayWriter:  # noqa: FBT001 - Spark's signature
        """Begin a job: everything that can be refused is refused here, before the first task.

        Raises:
            OptionError: An option is unknown, or has a value that is not accepted.
            SchemaError: A column has a type that cannot be written.
        """
        job = job_of(self._target(schema, overwrite=overwrite))
        is_repeated = job.is_repeated()
        if not is_repeated:
            job.begin()
        return SpillwayWriter(job, is_repeated=is_repeated)

    def streamWriter(self, schema: StructType, overwrite: bool) -> SpillwayStreamWriter:  # noqa: FBT001, N802 - Spark's signature
        """Return the sink of a query. The output mode ``complete`` overwrites with each micro-batch.

        Raises:
            OptionError: As `writer`; or ``app_id`` is given, which is the id of the query.
            SchemaError: As `writer`.
            SpillwayError: This Spark is 4.0, whose streams give no Arrow batches to Python.
        """
        if not hasattr(datasource, "DataSourceStreamArrowWriter"):
            raise SpillwayError(
                f"PySpark {pyspark.__version__} has no streaming sinks that take Arrow batches, and 4.1 is "
                "the oldest that has them: update Spark, or write each micro-batch with "
                'format("spillway") in '
                "foreachBatch"
            )
        from spillway.spark.stream import SpillwayStreamWriter

        return SpillwayStreamWriter(self._target(schema, overwrite=overwrite))

    def _target(self, schema: StructType, *, overwrite: bool) -> Target:
        target = Target.of(
            schema=arrow_schema(schema),
            overwrite=overwrite,
            settings=of_environment(),
            **parsed(self.options),
        )
        return described(target, schema)


@dataclass
class TaskMessage(WriterCommitMessage):
    """The message of a task to the driver.

    Args:
        result: Its files and its measures.
    """

    result: TaskResult


class SpillwayWriter(DataSourceArrowWriter):
    """The writer of one job. It is made on the driver and pickled for tasks, and for the commit.

    Args:
        job: The job.
        is_repeated: True if the destination has its rows already: tasks write none.
    """

    def __init__(self, job: Job, *, is_repeated: bool = False) -> None:
        self._job = job
        self._is_repeated = is_repeated

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:  # type: ignore[override]  # PySpark overrides it so too
        """Write the rows of a task."""
        if self._is_repeated:
            for _ in iterator:
                pass
            return TaskMessage(TaskResult())
        told = of_task()
        self._job.check_task(told)
        check_names(self._job.target.schema, is_case_sensitive=bool(told.is_case_sensitive))
        (result,) = FrameTask(self._job)(iterator)
        # The process that commits has no session to ask.
        return TaskMessage(replace(result, partition_overwrite=told.partition_overwrite))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish the files of the tasks that count."""
        if self._is_repeated:
            _log.info("%s already has the rows of this run", self._job.target.path)
            return
        self._job.commit([message.result for message in messages_of(TaskMessage, messages)])

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:  # noqa: ARG002 - the job's folder has all
        """Remove the files of all tasks."""
        if not self._is_repeated:
            self._job.abort()


_STORAGE = ("aws_", "azure_", "google_")
_STORAGE_NAMES = ("allow_http", "connect_timeout", "max_retries", "retry_timeout", "timeout")

#: Names of credentials. Spark hides only values whose names match ``spark.redaction.regex``, not those of
#: ``account_key``, ``sas_key`` or ``access_key_id``.
_SECRET = re.compile(r"access_key|account_key|master_key|customer_key|secret|password|sas|token(?!_file)")


def _integer(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise OptionError(f"{name}={text!r} is not accepted: give an integer", name) from None


def _boolean(name: str, text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise OptionError(f'{name}={text!r} is not accepted: give "true" or "false"', name, ["true", "false"])
    return text.lower() == "true"


def _text(name: str, text: str) -> str:  # noqa: ARG001 - one of several
    return text


def _lowered(name: str, text: str) -> str:  # noqa: ARG001 - one of several
    return text.lower()


def _json(name: str, text: str) -> Any:
    try:
        return _tuples(json.loads(text))
    except ValueError as error:
        message = f"{name}={text!r} is not accepted: it is not JSON ({error})"
        raise OptionError(message, name) from None


def _tuples(value: Any) -> Any:
    """Lists inside of a list are the writer's tuples: paths, or columns with their direction."""
    if isinstance(value, list):
        return [tuple(item) if isinstance(item, list) else item for item in value]
    return value


def _json_or_text(name: str, text: str) -> Any:
    return _json(name, text) if text.lstrip().startswith(("{", "[")) else text


def _json_or_boolean(name: str, text: str) -> Any:
    return _json(name, text) if text.lstrip().startswith(("{", "[")) else _boolean(name, text)


def _names(name: str, text: str) -> Any:
    """A JSON list, or names with commas between them."""
    if text.lstrip().startswith("["):
        return _json(name, text)
    return [part.strip() for part in text.split(",") if part.strip()]


def _size(name: str, text: str) -> int | str:  # noqa: ARG001 - one of several
    return int(text) if text.isdecimal() else text


_WRITER: dict[str, Callable[[str, str], Any]] = {
    "compression": _json_or_text,
    "compression_level": _integer,
    "row_group_rows": _integer,
    "row_group_bytes": _integer,
    "page_bytes": _integer,
    "page_rows": _integer,
    "dictionary_page_bytes": _integer,
    "content_defined_chunking": _json_or_boolean,
    "memory_limit": _size,
    "threads": _integer,
    "hold_batches": _boolean,
    "dictionary": _json_or_boolean,
    "encoding": _json_or_text,
    "bloom_filter": _json_or_boolean,
    "page_checksums": _boolean,
    "statistics": _json_or_boolean,
    "store_schema": _boolean,
    "compatibility": _text,
    "timestamps": _text,
    "timestamp_loss": _text,
    "sorting_columns": _names,
    "sorting": _text,
    "durable": _boolean,
    "verify": _text,
    "metadata": _json,
    "field_ids": _json,
}

_TARGET: dict[str, Callable[[str, str], Any]] = {
    "path": _text,
    "table": _text,
    "partition_by": _names,
    "max_file_bytes": _integer,
    "max_file_rows": _integer,
    "app_id": _text,
    "app_version": _integer,
    "run_id": _text,
    "schema_mode": _text,
    "where": _json_or_text,
    "partition_overwrite": _lowered,
}

#: What Spark's own writers call ``partition_overwrite``.
_OVERWRITE_MODE = "partitionoverwritemode"


#: Options of a streaming query itself, which Spark hands on.
_OF_SPARK = ("checkpointlocation", "queryname")


def parsed(given: Mapping[str, str]) -> dict[str, Any]:
    """Parse the options of the data source into arguments of `Target.of`.

    Raises:
        UnknownOptionError: There is no such option; the message has the name of the one that is meant.
        OptionError: A value is not accepted, an option is a credential, or there is no path.
    """
    arguments: dict[str, Any] = {}
    options: dict[str, Any] = {}
    storage: dict[str, str] = {}
    for spelled, text in given.items():
        name = spelled.lower()
        if name in _OF_SPARK:
            continue
        if name == _OVERWRITE_MODE:
            name = "partition_overwrite"
        if name in _TARGET:
            arguments[name] = _TARGET[name](name, text)
        elif name in _WRITER:
            options[name] = _WRITER[name](name, text)
        elif name.startswith(_STORAGE) or name in _STORAGE_NAMES:
            if _SECRET.search(name):
                raise _shown_by_spark(name)
            storage[name] = text
        else:
            raise _unknown(name)
    WriterOptions(**options)
    if "path" not in arguments:
        raise OptionError("the path is missing: pass it to save(), or as the option path", "path")
    return arguments | {"storage_options": storage or None, "options": options}


def _shown_by_spark(name: str) -> OptionError:
    message = (
        f"{name} is not accepted as an option: Spark shows options in its plans and logs. Put it into the "
        f"environment of the driver and the executors, as {name.upper()}, or give it to spillway.spark.write "
        "in storage_options"
    )
    return OptionError(message, name)


def _unknown(name: str) -> UnknownOptionError:
    # Spark's look-up has lost the case of the name.
    elsewhere = {spelling.lower(): spelling for spelling in ELSEWHERE}
    return refusal(elsewhere.get(name, name), _WRITER.keys() | _TARGET.keys())
