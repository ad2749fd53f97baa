"""`run`: a job from the check of its destination to its commit, and the ways to run its tasks."""

from __future__ import annotations

import contextlib
import logging
import pickle
import re
import uuid
from typing import TYPE_CHECKING

from spillway.errors import OptionError, SpillwayError, TableExistsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa
    from pyspark import SparkContext
    from pyspark.sql import DataFrame

    from spillway.spark.write_job import Job, SparkWriteResult, TaskResult
    from spillway.types import WriteMode

__all__ = ["check_mode", "run", "tasks_of_frame", "tasks_of_partitions"]

_log = logging.getLogger("spillway.spark")

_MODES = ("append", "overwrite", "error", "ignore")

#: The words of PySpark for executors with another minor version of Python.
_OTHER_PYTHON = re.compile(r"different version: ([\d.]+) than that in driver: ([\d.]+)")

#: The form of the answers of tasks of a frame: pickled `TaskResult`.
_ANSWER = "result binary"


def run(job: Job, tasks: Callable[[], Sequence[TaskResult]], mode: WriteMode) -> SparkWriteResult:
    """Write rows by the tasks of a job, and commit them once.

    The destination is looked at first, as `mode` says, before anything is made there. A failure or Ctrl-C in
    tasks or in the commit aborts the job. The first error is the one that is raised: what goes wrong in the
    abort is logged.

    Args:
        job: The job, whose target says ``overwrite`` where `mode` does.
        tasks: Runs the tasks, and returns the results of the attempts that count. It cancels tasks that are
            under way before it raises.
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
        return job.commit(tasks())
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


def tasks_of_partitions(
    context: SparkContext, partitions: int, task: Callable[[int], TaskResult]
) -> list[TaskResult]:
    """Run a task for each number of a partition.

    The numbers go to executors as Python's own: a frame of them would be planned and compiled for each job,
    and cross the JVM as Arrow.

    Raises:
        SpillwayError: Executors run another minor version of Python.
        pyspark.errors.PySparkException: A task failed more often than Spark repeats it.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    numbers = context.parallelize(range(partitions), partitions)
    with _cancelled_by_failure(context):
        try:
            return numbers.map(task).collect()
        except Py4JJavaError as error:
            # As Spark raises it for tasks of a frame.
            raise PySparkException(str(error)) from error


def tasks_of_frame(
    frame: DataFrame, task: Callable[[Iterator[pa.RecordBatch]], Iterator[TaskResult]]
) -> list[TaskResult]:
    """Run a task for each partition of a frame, with its rows.

    Raises:
        SpillwayError: As `tasks_of_partitions`.
        pyspark.errors.PySparkException: As `tasks_of_partitions`.
    """

    def answers(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for result in task(batches):
            yield pa.record_batch({"result": pa.array([pickle.dumps(result)], pa.binary())})

    with _cancelled_by_failure(frame.sparkSession.sparkContext):
        collected = frame.mapInArrow(answers, _ANSWER).collect()
    return [pickle.loads(answer[0]) for answer in collected]  # noqa: S301 - of this job's own tasks


@contextlib.contextmanager
def _cancelled_by_failure(context: SparkContext) -> Iterator[None]:
    """Cancel the tasks that the block has begun if it is left by an exception, by a tag of their own."""
    tag = f"spillway-{uuid.uuid4().hex}"
    # Jobs have the context's tags; those of a session cancel none of them (Spark 4.2).
    context.addJobTag(tag)
    try:
        yield
    except BaseException as error:
        _cancel(context, tag)
        if (interrupt := _interrupt_behind(error)) is not None:
            raise interrupt from error
        if (explained := _of_another_python(error)) is not None:
            raise explained from error
        raise
    finally:
        with _logged("a job's tag stays with the context"):
            context.removeJobTag(tag)


def _cancel(context: SparkContext, tag: str) -> None:
    """Cancel the jobs of a tag, by a second request if the first one fails.

    py4j closes sockets by their ports after Ctrl-C, and may close one that was opened since.
    """
    try:
        context.cancelJobsWithTag(tag)
    except Exception:  # noqa: BLE001 - as in `_logged`
        with _logged("the tasks of a job that failed were not cancelled"):
            context.cancelJobsWithTag(tag)


def _interrupt_behind(error: BaseException) -> KeyboardInterrupt | None:
    """The Ctrl-C whose handling raised this error; none if there was none, or it is the error itself."""
    behind = error.__context__
    while behind is not None and not isinstance(behind, KeyboardInterrupt):
        behind = behind.__context__
    return behind


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
