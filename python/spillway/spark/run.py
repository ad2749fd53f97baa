"""A job from the check of its destination to its commit: its tasks, and the driver's part of it.

The driver's part is done in this process, or in a task if this is a Spark Connect client. Such a client may
see none of the cluster's files and have none of its credentials. For it, the part is a task of one row, which
runs on an executor, where the destination is accessible.
"""

from __future__ import annotations

import contextlib
import logging
import pickle
import re
import threading
import uuid
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from spillway.errors import OptionError, SpillwayError, TableExistsError
from spillway.spark.settings import cut_by_rows, is_connect
from spillway.spark.workers import missing_on_workers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession

    from spillway.spark.write_job import Job, SparkWriteResult, Target, TaskResult
    from spillway.types import WriteMode

__all__ = [
    "Driver",
    "activate",
    "answers_of",
    "check_mode",
    "driver_of",
    "interrupt_behind",
    "job_of",
    "run",
    "tasks_of_frame",
    "tasks_of_partitions",
]

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
            return driver.do_undisturbed(partial(_committed, job, results, once=driver.may_repeat))
    except _StillCommitting:
        # An abort beside the commit would remove files that it publishes.
        raise
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


_Answer = TypeVar("_Answer")

#: The words of PySpark for executors with another minor version of Python.
_OTHER_PYTHON = re.compile(r"different version: ([\d.]+) than that in driver: ([\d.]+)")
#: The schema of the answers of tasks: a pickled object in each row.
_ANSWER = "result binary"


class Driver(Protocol):
    """Where the driver's part of a write runs.

    Attributes:
        may_repeat: True if work may be done twice there, as Spark runs a task again whose executor it lost.
    """

    may_repeat: bool

    def do(self, work: Callable[[], _Answer]) -> _Answer:
        """Do this work there, and return its result or raise its error."""

    def do_undisturbed(self, work: Callable[[], _Answer]) -> _Answer:
        """The same, without cutting the work off by Ctrl-C if this process could not tell what it had done.

        Raises:
            _StillCommitting: Ctrl-C came, and the work did not end within a minute, or until the next Ctrl-C.
        """

    def cancelled_by_failure(self, description: str) -> contextlib.AbstractContextManager[None]:
        """Describe the jobs of a block in Spark's UI, and cancel them if an exception leaves it."""


def driver_of(session: SparkSession) -> Driver:
    """Return where the driver's part runs for the writes of a session."""
    return _OfConnect(session) if is_connect(session) else _OfThisProcess(session)


def answers_of(frame: DataFrame, task: Callable[[Iterator[pa.RecordBatch]], Iterator[Any]]) -> list[Any]:
    """Run a task for each partition of a frame, with its rows, and return what the tasks yielded."""

    def pickled(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for answer in task(batches):
            yield pa.record_batch({"result": pa.array([pickle.dumps(answer)], pa.binary())})

    with cut_by_rows(frame):
        rows = frame.mapInArrow(pickled, _ANSWER).collect()
    return [pickle.loads(bytes(row[0])) for row in rows]  # noqa: S301 - of this write's own tasks


class _OfThisProcess:
    """This process is the driver."""

    may_repeat = False

    def __init__(self, session: SparkSession) -> None:
        self._session, self._context = session, session.sparkContext

    def do(self, work: Callable[[], _Answer]) -> _Answer:
        return work()

    do_undisturbed = do

    @contextlib.contextmanager
    def cancelled_by_failure(self, description: str) -> Iterator[None]:
        context = self._context
        tag = f"spillway-{uuid.uuid4().hex}"
        before = context.getLocalProperty(_DESCRIPTION)
        # Jobs have the context's tags; those of a session cancel none of them (Spark 4.2).
        context.addJobTag(tag)
        context.setLocalProperty(_DESCRIPTION, before or description)
        try:
            with _in_a_sentence(lambda: context.cancelJobsWithTag(tag)):
                yield
        except KeyboardInterrupt:
            activate(self._session)
            raise
        finally:
            with _logged("a job's tag stays with the context"):
                context.removeJobTag(tag)
                context.setLocalProperty(_DESCRIPTION, before)  # type: ignore[arg-type]  # null unsets it


class _OfConnect:
    """The driver is elsewhere."""

    may_repeat = True

    def __init__(self, session: SparkSession) -> None:
        self._session: Any = session  # of another class than that of the annotation

    def do(self, work: Callable[[], _Answer]) -> _Answer:
        def task(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[Any, BaseException | None]]:
            if not any(batch.num_rows for batch in batches):
                return
            try:
                result = work()
            except Exception as error:  # noqa: BLE001 - raised on the client; Spark would run the work again
                yield None, _portable(error)
            else:
                yield result, None

        # Spark cuts a range into as many partitions as it is told to.
        ((result, error),) = answers_of(self._session.range(0, 1, 1, 1), task)
        if error is not None:
            raise error
        return result  # type: ignore[no-any-return]  # that of the work

    def do_undisturbed(self, work: Callable[[], _Answer]) -> _Answer:
        outcomes: list[tuple[Any, BaseException | None]] = []
        # Python takes a thread for one that has ended if Ctrl-C interrupts its `join`.
        ended = threading.Event()

        def done() -> None:
            try:
                outcomes.append((self.do(work), None))
            except BaseException as error:  # noqa: BLE001 - raised by the caller's thread
                outcomes.append((None, error))
            ended.set()

        # Tags are of a thread, so nothing that is tagged here cancels the work.
        thread = threading.Thread(target=done, name="spillway-commit", daemon=True)
        interrupt: KeyboardInterrupt | None = None
        try:
            thread.start()
            ended.wait()
        except KeyboardInterrupt as error:
            interrupt = error
            with contextlib.suppress(KeyboardInterrupt):
                ended.wait(_LONGEST_COMMIT)
        if not outcomes:
            raise _StillCommitting(
                "Ctrl-C came while the Spark Connect server committed: look at the destination before the "
                "write is repeated, or repeat it with a run_id"
            )
        result, failure = outcomes[0]
        if interrupt is not None:
            raise interrupt from failure
        if failure is not None:
            raise failure
        return result  # type: ignore[no-any-return]  # that of the work

    @contextlib.contextmanager
    def cancelled_by_failure(self, description: str) -> Iterator[None]:  # noqa: ARG002 - Connect describes operations itself
        session = self._session
        tag = f"spillway-{uuid.uuid4().hex}"
        session.addTag(tag)
        try:
            with _in_a_sentence(lambda: session.interruptTag(tag)):
                yield
        finally:
            session.removeTag(tag)


_DESCRIPTION = "spark.job.description"
#: Seconds from Ctrl-C in which a commit on a server may end.
_LONGEST_COMMIT = 60.0


class _StillCommitting(KeyboardInterrupt):
    """Ctrl-C came during a commit whose outcome is not known."""


def _portable(error: BaseException) -> BaseException:
    """The error, or a sentence of it where it does not survive pickling."""
    try:
        return pickle.loads(pickle.dumps(error))  # type: ignore[no-any-return]  # noqa: S301 - made on this line
    except Exception:  # noqa: BLE001 - whatever its class does
        return SpillwayError(f"{type(error).__name__}: {error}")


@contextlib.contextmanager
def _in_a_sentence(cancel: Callable[[], object]) -> Iterator[None]:
    """Cancel what the block began if an exception leaves it, and explain the exception if it is known."""
    try:
        yield
    except BaseException as error:
        _cancelled(cancel)
        if (interrupt := interrupt_behind(error)) is not None:
            raise interrupt from error
        if (explained := _of_another_python(error) or missing_on_workers(error)) is not None:
            raise explained from error
        raise


def _cancelled(cancel: Callable[[], object]) -> None:
    """Cancel jobs, by a second request if the first one fails.

    py4j closes sockets by their ports after Ctrl-C, and may close one that was opened since.
    """
    try:
        cancel()
    except Exception:  # noqa: BLE001 - as in `_logged`
        with _logged("the tasks of a job that failed were not cancelled"):
            cancel()


def activate(session: SparkSession) -> None:
    """Have the session active again after Ctrl-C.

    py4j then continues in another thread of the JVM, which has no active session, and without one Spark finds
    no Python data source. A frame that is made of rows makes its session the active one.
    """
    with _logged("the session is not active after Ctrl-C"):
        session.createDataFrame([], "none int")


def interrupt_behind(error: BaseException) -> KeyboardInterrupt | None:
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
