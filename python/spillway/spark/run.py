"""`run`: a job from the check of its destination to its commit, as every caller on the driver does it."""

from __future__ import annotations

import contextlib
import logging
import pickle
import re
import uuid
from typing import TYPE_CHECKING

from spillway.errors import OptionError, SpillwayError, TableExistsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from spillway.spark.job import Job, SparkWriteResult, TaskResult
    from spillway.types import WriteMode

__all__ = ["check_mode", "run"]

_log = logging.getLogger("spillway.spark")

_MODES = ("append", "overwrite", "error", "ignore")

#: The words of PySpark for executors with another minor version of Python.
_OTHER_PYTHON = re.compile(r"different version: ([\d.]+) than that in driver: ([\d.]+)")

#: The form of the answers of tasks: pickled `TaskResult`.
ANSWER = "result binary"


def run(
    session: SparkSession,
    job: Job,
    frame: DataFrame,
    task: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    mode: WriteMode,
) -> SparkWriteResult:
    """Write the rows of a frame by the tasks of a job, and commit them once.

    The destination is looked at first, as `mode` says, before anything is made there. A failure or Ctrl-C in
    tasks or in the commit cancels the tasks of this job, by a tag of its own, and aborts the job. The first
    error is the one that is raised: what goes wrong in the abort is logged.

    Args:
        session: The Spark session.
        job: The job, whose target says ``overwrite`` where `mode` does.
        frame: The frame whose partitions are the tasks.
        task: The work of a task, for ``mapInArrow``. Each row that it yields has one column, a pickled
            `TaskResult` in binary.
        mode: ``"error"`` and ``"ignore"`` are for a destination that is not there, or empty.

    Returns:
        Counts of what was written. They are zero where the destination has the rows already, by the
        application's version, and where ``mode="ignore"`` left the destination as it was.

    Raises:
        OptionError: The mode is not accepted.
        FileExistsError: There is something at the destination, and ``mode="error"``.
        SpillwayError: The commit failed, or executors run another version of Python.
        pyspark.errors.PySparkException: A task failed more often than Spark repeats it.
    """
    check_mode(mode)
    if mode in {"error", "ignore"} and job.exists():
        if mode == "ignore":
            return job.present()
        path = job.target.path
        message = f'{path}: there is something already, and mode="error": choose "append" or "overwrite"'
        raise TableExistsError(message) if job.target.table == "delta" else FileExistsError(message)
    if job.is_repeated():
        return job.present()
    job.is_new_only = mode in {"error", "ignore"}
    try:
        job.begin()
        return job.commit(_results(session, frame, task))
    except BaseException as failure:
        try:
            job.abort()
        except Exception as error:  # noqa: BLE001 - the first error is the one to tell
            _log.warning("files of a job that failed stay in %s: %s", job.target.path, error)
        if mode == "ignore" and isinstance(failure, TableExistsError):
            return job.present()
        raise


def check_mode(mode: str) -> None:
    """Refuse a mode that is none.

    Raises:
        OptionError: It is not one of the four.
    """
    if mode not in _MODES:
        message = f"mode={mode!r} is not accepted: choose one of {', '.join(map(repr, _MODES))}"
        raise OptionError(message, "mode", _MODES)


def _results(
    session: SparkSession,
    frame: DataFrame,
    task: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
) -> list[TaskResult]:
    """Run the tasks; if that is interrupted, stop those that are under way."""
    tag = f"spillway-{uuid.uuid4().hex}"
    context = session.sparkContext
    # Jobs have the context's tags; those of a session cancel none of them (Spark 4.2).
    context.addJobTag(tag)
    try:
        answers = frame.mapInArrow(task, ANSWER).collect()
    except BaseException as error:
        with _logged("the tasks of a job that failed were not cancelled"):
            context.cancelJobsWithTag(tag)
        if (explained := _of_another_python(error)) is not None:
            raise explained from error
        raise
    finally:
        with _logged("a job's tag stays with the context"):
            context.removeJobTag(tag)
    return [pickle.loads(answer[0]) for answer in answers]  # noqa: S301 - of this job's own tasks


def _of_another_python(error: BaseException) -> SpillwayError | None:
    """The error in a sentence, if it is that executors run another minor version of Python."""
    other = _OTHER_PYTHON.search(str(error))
    if other is None:
        return None
    executors, driver = other.groups()
    return SpillwayError(
        f"the driver has Python {driver} and executors have {executors}: let PYSPARK_PYTHON name a Python "
        f"{driver} on them, or give all of them the same environment, as spark.archives does"
    )


@contextlib.contextmanager
def _logged(text: str) -> Iterator[None]:
    """Log an error of Spark in place of raising it: the error that is under way is the one to tell."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - the JVM may be gone, which py4j tells by many classes
        _log.warning("%s: %s", text, error)
