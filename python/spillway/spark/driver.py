"""The driver's part of a write: in this process, or in a task if this is a Spark Connect client.

A client of Spark Connect may see none of the cluster's files and have none of its credentials. For such a
client, it is a task of one row, which runs on an executor, where the destination is accessible.
"""

from __future__ import annotations

import contextlib
import logging
import pickle
import re
import uuid
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from spillway.errors import SpillwayError
from spillway.spark.settings import cut_by_rows, is_connect
from spillway.spark.workers import missing_on_workers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Driver", "activate", "answers_of", "driver_of", "interrupt_behind"]

_log = logging.getLogger("spillway.spark")

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
