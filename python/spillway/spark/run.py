"""`run`: a job from the check of its destination to its commit, and the ways to run its tasks."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from spillway.errors import OptionError, TableExistsError
from spillway.spark.driver import answers_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa
    from pyspark import SparkContext
    from pyspark.sql import DataFrame

    from spillway.spark.driver import Driver
    from spillway.spark.write_job import Job, SparkWriteResult, Target, TaskResult
    from spillway.types import WriteMode

__all__ = ["check_mode", "job_of", "run", "tasks_of_frame", "tasks_of_partitions"]

_log = logging.getLogger("spillway.spark")

_MODES = ("append", "overwrite", "error", "ignore")


class _Begun(NamedTuple):
    """A job under way; or the result of one that has nothing to do."""

    job: Job
    result: SparkWriteResult | None


def run(
    plan: Callable[[], Job],
    tasks: Callable[[Job], Sequence[TaskResult]],
    mode: WriteMode,
    driver: Driver,
    *,
    audit: Callable[[Job, Sequence[TaskResult]], None] | None = None,
) -> SparkWriteResult:
    """Write rows by the tasks of a job, and commit them once.

    The destination is looked at first, as `mode` says, before anything is made there. A failure or Ctrl-C in
    tasks, in the audit or in the commit aborts the job. The first error is the one that is raised: what goes
    wrong in the abort is logged.

    Args:
        plan: Creates the job, whose target has ``overwrite`` if `mode` says so.
        tasks: Runs the tasks of the job, and returns the results of the attempts that count. It cancels tasks
            that are under way before it raises.
        mode: ``"error"`` and ``"ignore"`` are for a destination that is not there, or empty.
        driver: Where the driver's part runs.
        audit: Looks at the files of the tasks before they are published, and raises to refuse them.

    Returns:
        Counts of rows, bytes and files written. They are zero if, by the name of the run or the application's
        version, the destination already has the rows, or if ``mode="ignore"`` wrote nothing.

    Raises:
        OptionError: The mode is not accepted.
        FileExistsError: There is something at the destination, and ``mode="error"``.
        SpillwayError: The commit failed, or executors run another version of Python.
        pyspark.errors.PySparkException: A task failed more often than Spark repeats it.
    """
    check_mode(mode)
    job, result = driver.do(partial(_begun, plan, mode))
    if result is not None:
        return result
    try:
        with driver.cancelled_by_failure(f"spillway: write to {job.target.path}"):
            results = tasks(job)
            if audit is not None:
                audit(job, results)
            return driver.do(partial(_committed, job, results, once=driver.may_repeat))
    except BaseException as failure:
        try:
            driver.do(job.abort)
        except Exception as error:  # noqa: BLE001 - the first error is the one to tell
            _log.warning("files of a failed job were left in %s: %s", job.target.path, error)
        if mode == "ignore" and isinstance(failure, TableExistsError):
            return driver.do(job.present)
        raise


def _begun(plan: Callable[[], Job], mode: WriteMode) -> _Begun:
    """Look at the destination, and make there what tasks need."""
    job = plan()
    # A run that is repeated found nothing there the first time.
    if job.is_repeated():
        return _Begun(job, job.present())
    if mode in {"error", "ignore"} and job.exists():
        if mode == "ignore":
            return _Begun(job, job.present())
        path = job.target.path
        message = f'{path}: the destination exists, and mode="error": choose "append" or "overwrite"'
        raise TableExistsError(message) if job.target.table == "delta" else FileExistsError(message)
    job.is_new_only = mode in {"error", "ignore"}
    try:
        job.begin()
    except BaseException:
        try:
            job.abort()
        except Exception as error:  # noqa: BLE001 - as in `run`
            _log.warning("files of a failed job were left in %s: %s", job.target.path, error)
        raise
    return _Begun(job, None)


def _committed(job: Job, results: Sequence[TaskResult], *, once: bool) -> SparkWriteResult:
    """Commit the job; with `once`, unless another attempt of this task has begun to."""
    if once:
        job.claim()
    return job.commit(results)


def check_mode(mode: str) -> None:
    """Refuse an unknown mode.

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
        pyspark.errors.PySparkException: A task failed more often than Spark repeats it.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    numbers = context.parallelize(range(partitions), partitions)
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
        pyspark.errors.PySparkException: As `tasks_of_partitions`.
    """
    return answers_of(frame, task)


def job_of(target: Target) -> Job:
    """Return the job that writes to a destination."""
    from spillway.spark.delta_job import DeltaJob
    from spillway.spark.folder_job import FolderJob
    from spillway.spark.stream_jobs import FolderRun

    if target.table == "delta":
        if target.run_id is not None:
            target = replace(target, app_id=target.run_id, app_version=target.batch)
        return DeltaJob(target)
    return FolderJob(target) if target.run_id is None else FolderRun(target, target.run_id)
