"""Samples on the executors of a Spark cluster: a block is a task, and Spark places it.

A block measures every cell once, so the ratios within a block, which compare writers, come from one host.
Each executor takes one block at a time: a task asks for all of its cores.
"""

from __future__ import annotations

import os
import queue
import tempfile
import time
import uuid
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from spillway import __version__, backends
from spillway._wording import and_joined
from spillway.bench.block import Block, Part, Survey, survey, take_block
from spillway.errors import OptionError, SpillwayError
from spillway.harness.environment import CHECKED_BUILD
from spillway.spark.session import cores_of, open_session, require_spark, stop_session
from spillway.spark.status import IDLE_SECONDS, NO_EXECUTOR, explained, interrupts_put_off, tasks_of
from spillway.spark.workers import pack, requirements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

    from spillway.bench.plan import Cell, Options
    from spillway.bench.progress import Progress
    from spillway.bench.record import Sample
    from spillway.bench.sample import OutputFiles, SampleTaker
    from spillway.harness.schedule import Slot

Result = TypeVar("Result")

BEST = "best"
"""The limit kind of options that take the best one of an executor."""

_POLL_SECONDS = 0.25
_FETCH_BYTES = 64 << 20
_MEMORY = "2g"


@dataclass(frozen=True)
class Cluster:
    """The cluster that takes the samples of a run.

    Attributes:
        master: The address of its master.
        settings: Settings of Spark over all others.
        pack: True if executors get this package and what its backends need as an archive.
    """

    master: str
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    pack: bool = False


def require_cluster(cluster: Cluster, names: Sequence[str], options: Options) -> None:
    """Check what can be checked before Spark starts.

    Raises:
        OptionError: The master is this machine, a backend is Spark itself, the number of samples is "auto",
            or least limits are requested.
        MissingExtraError: PySpark is not installed.
    """
    require_spark()
    if cores_of(cluster.master, "--on") is not None:
        raise OptionError(f"--on {cluster.master} is this machine: leave --on out to measure on it")
    if options.precision is not None:
        raise OptionError(
            "--samples auto checks each block before it takes the next, but --on takes blocks in parallel: "
            "give a number"
        )
    if options.pairs:
        raise OptionError(
            "--pairs would write on this machine, and not on executors: leave it out, or measure without --on"
        )
    if options.least_memory:
        raise OptionError(
            "--least-memory would search on this machine, and not on executors: leave it out, or "
            "measure without --on"
        )
    programs = [name for name in names if backends.is_external(name)]
    if programs:
        raise OptionError(f"--on cannot send programs to executors: leave {and_joined(programs)} out")
    own = [name for name in names if backends.library(name) == backends.SPARK_LIBRARY]
    if own:
        raise OptionError(
            f"--on spreads samples over executors, and {and_joined(own)} would start another Spark "
            f"in each: leave them out, or measure them on one machine"
        )


@contextmanager
def running(
    cluster: Cluster, names: Sequence[str], threads: int, say: Callable[[str], None]
) -> Iterator[Executors]:
    """Executors of a cluster, until the end of the block.

    Args:
        cluster: The cluster.
        names: The backends that are measured.
        threads: The most cores of a sample.
        say: Called with a line that says what the call is waiting for.

    Raises:
        OptionError: The master does not answer.
        JavaError: There is no Java for the driver.
        MissingExtraError: PySpark, or the library of a backend that is packed, is not installed.
    """
    # A task takes all cores of its executor, so that an executor has one block at a time.
    cores = cluster.settings.get("spark.executor.cores", str(threads))
    settings = {
        "spark.executor.cores": cores,
        # A block that ran twice side by side would disturb itself; an executor that left would take files.
        "spark.speculation": "false",
        "spark.dynamicAllocation.enabled": "false",
        **_checked_build(),
        **cluster.settings,
        "spark.task.cpus": cores,
    }
    with tempfile.TemporaryDirectory(prefix="spillway-pack-") as folder:
        if cluster.pack:
            packages = requirements(_packages(names))
            settings = {**pack(Path(folder, "spillway.tar.gz"), also=packages, say=say).settings, **settings}
        session = open_session(
            cluster.master,
            name="spillway-bench",
            option="--on",
            memory=_MEMORY,
            delta=False,
            settings=settings,
            say=say,
        )
        executors = Executors(session, cluster)
        try:
            yield executors
        finally:
            executors.stop()


def _packages(names: Sequence[str]) -> list[str]:
    """The distributions of the backends, but for those that an archive has anyway."""
    found = {backends.library(name) for name in names}
    return sorted(found - {backends.OWN_LIBRARY, "pyarrow"})


def _checked_build() -> dict[str, str]:
    """The setting by which executors, too, take a build with debug assertions."""
    value = os.environ.get(CHECKED_BUILD)
    return {f"spark.executorEnv.{CHECKED_BUILD}": value} if value else {}


@dataclass(frozen=True)
class _Taken:
    """A block that was taken.

    Attributes:
        kept: The parts that its task handed on, in Spark's block store, for the files in it.
        parts: All of it but the files.
    """

    kept: Any
    parts: list[Part]


class Executors:
    """Executors that take samples.

    Args:
        session: A running session.
        cluster: The cluster that it runs on.

    Attributes:
        hosts: The hosts that took samples, by the names that Spark has for them.
    """

    def __init__(self, session: SparkSession, cluster: Cluster) -> None:
        self._session = session
        self._context: Any = session.sparkContext
        self._cluster = cluster
        self._taken: list[_Taken] = []
        self._is_stopped = False
        self.hosts: dict[str, dict[str, Any]] = {}

    def stop(self) -> None:
        """Give the executors back, once."""
        if not self._is_stopped:
            self._is_stopped = True
            stop_session(self._session)

    def fit(self, options: Options, names: Sequence[str], progress: Progress) -> Options:
        """Look at one executor before any sample; the options with the kind of limit that it has.

        Raises:
            OptionError: It has no Spillway or another one, lacks a backend, or cannot measure.
        """
        progress.say("looking at an executor")
        asked = None if options.limit_kind == BEST else options.limit_kind
        limited = any(limit is not None for limit in options.memory)
        task = partial(_survey_of, names=tuple(names), limit_kind=asked if limited else None)
        try:
            ((found,),) = _results([self._one_task(None, task).collect], self._context, progress)
        except SpillwayError as error:
            raise self._refusal(_remedy(str(error))) from error
        self._check(found)
        return replace(options, limit_kind=found.limit_kind if limited else "none")

    def take(
        self,
        taker: SampleTaker,
        slots: Iterable[Slot[Cell]],
        *,
        keep: bool,
        progress: Progress,
        append: Callable[[Sample], None],
    ) -> None:
        """Take all samples, blocks side by side; those of a block are appended when it is over.

        Args:
            taker: The parts of a sample on this machine: the run, its inputs and its files.
            slots: The samples in their order.
            keep: True if the files that samples write are brought here, one of each content.
            progress: Told of each sample.
            append: Checks a record and keeps it.

        Raises:
            KeyboardInterrupt: Ctrl-C came. The blocks that were over stay; the others are cancelled.
            OptionError: A host cannot measure; the message says why.
            SpillwayError: A task failed.
        """
        by_block = [tuple(each) for _, each in groupby(slots, key=lambda slot: slot.block)]
        inputs = {key: self._send(path) for key, path in taker.inputs.items()}
        works = [
            partial(self._take_block, Block(taker.run_id, taker.seed, block, inputs, taker.timeout, keep))
            for block in by_block
        ]

        def ended(number: int, taken: _Taken) -> None:
            self._taken.append(taken)
            by_position = {slot.position: slot for slot in by_block[number]}
            for part in taken.parts:
                if part.kind == "refused":
                    raise self._refusal(f"an executor cannot measure: {part.value}")
                if part.kind == "host":
                    self._add_host(part)
                elif part.kind == "sample":
                    record = self._named(part.value)
                    append(record)
                    progress.sample_ended(by_position[record["position"]], record)

        _results(works, self._context, progress, ended)
        if keep:
            self._fetch(taker.files, progress)

    def _send(self, path: Path) -> str:
        """Let executors have a file; the name that they find it by."""
        self._context.addFile(str(path))
        return path.name

    def _fetch(self, files: OutputFiles, progress: Progress) -> None:
        """Bring the files that samples wrote, one of each content, from where they were written."""
        for number, taken in enumerate(self._taken, start=1):
            sizes = {part.name: part.value for part in taken.parts if part.kind == "stored"}
            wanted = {name: size for name, size in sizes.items() if not files.path_of(name).exists()}
            for names in _loads(wanted):
                progress.fetching(number, len(self._taken), sum(wanted[name] for name in names))
                chunks = partial(_chunks_of, names=frozenset(names))
                try:
                    (parts,) = _results([taken.kept.filter(chunks).collect], self._context, progress)
                except SpillwayError as error:
                    progress.say(f"files of block {number} are gone with their executor: {error}")
                    break
                for name, of_file in groupby(parts, key=lambda part: part[1]):
                    files.adopt(name, (part[2] for part in of_file))

    def _take_block(self, block: Block) -> _Taken:
        from pyspark import StorageLevel

        kept = self._one_task(block, _take_parts)
        # The lineage ends here: a block that is gone with its executor is not measured again to be read.
        kept.persist(StorageLevel.DISK_ONLY)
        kept.localCheckpoint()
        return _Taken(kept, [Part(*part) for part in kept.filter(_is_no_chunk).collect()])

    def _one_task(self, given: object, task: Callable[[Iterator[Any]], Iterator[Any]]) -> Any:
        return self._context.parallelize([given], 1).mapPartitions(task)

    def _check(self, found: Survey) -> None:
        if found.version != __version__:
            raise self._refusal(
                f"executors have Spillway {found.version}, and this is {__version__}: install the same, or "
                f"send this one with --pack"
            )
        if found.missing:
            reasons = "; ".join(f"{name}: {reason}" for name, reason in found.missing.items())
            raise self._refusal(f"executors lack backends: {reasons}; or send them with --pack")
        if found.refusal is not None:
            raise self._refusal(f"an executor cannot measure: {found.refusal}")

    def _refusal(self, why: str) -> OptionError:
        return OptionError(f"--on {self._cluster.master}: {why}")

    def _add_host(self, part: Part) -> None:
        """Name a host by the order in which it came: its own name stays out of records."""
        if part.name not in self.hosts:
            self.hosts[part.name] = {"host": f"host-{len(self.hosts) + 1}", **part.value}

    def _named(self, record: dict[str, Any]) -> Any:
        placement = record["placement"]
        return {**record, "placement": {**placement, "host": self.hosts[placement["host"]]["host"]}}


def _survey_of(_given: Iterator[Any], *, names: tuple[str, ...], limit_kind: str | None) -> Iterator[Survey]:
    yield survey(names, limit_kind)


def _take_parts(blocks: Iterator[Block]) -> Iterator[tuple[str, str, Any]]:
    for block in blocks:
        yield from map(tuple, take_block(block))


def _is_no_chunk(part: tuple[str, str, Any]) -> bool:
    return part[0] != "chunk"


def _chunks_of(part: tuple[str, str, Any], *, names: frozenset[str]) -> bool:
    return part[0] == "chunk" and part[1] in names


def _loads(sizes: Mapping[str, int]) -> Iterator[list[str]]:
    """Files in groups that go through the driver at once: one, or several small ones."""
    load: list[str] = []
    for name, size in sizes.items():
        if load and sum(sizes[each] for each in load) + size > _FETCH_BYTES:
            yield load
            load = []
        load.append(name)
    if load:
        yield load


def _remedy(said: str) -> str:
    """The failure of the first task in the words of Spark, with what to do about it."""
    if "No module named 'spillway" in said or "No module named 'pyarrow" in said:
        return f"executors have no Spillway ({said}): send it with --pack, or install it there"
    if "PYTHON_VERSION_MISMATCH" in said:
        return f"{said}; set PYSPARK_PYTHON to a Python of the driver's version on executors"
    return said


def _nothing(_number: int, _result: object) -> None:
    """Leave a result to the list of all."""


class _Job(Generic[Result]):
    """One of several concurrent jobs: its result, or the error that ended it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.result: Result | None = None
        self.error: BaseException | None = None


def _results(
    works: Sequence[Callable[[], Result]],
    context: Any,
    progress: Progress,
    ended: Callable[[int, Result], None] = _nothing,
) -> list[Result]:
    """Run jobs side by side, each in a thread; their results in order.

    Threads of their own do it, so that Ctrl-C reaches this one while Spark is busy. However often it comes,
    all jobs have ended before this returns or raises.

    Args:
        works: Each runs one job.
        context: The Spark context.
        progress: Told of the tasks that run.
        ended: Told of each result as it comes, in this thread. What it raises cancels the other jobs.

    Raises:
        KeyboardInterrupt: Ctrl-C came; the jobs were cancelled.
        SpillwayError: A job failed; the message is the cause, without Java's stack.
    """
    from py4j.protocol import Py4JError
    from pyspark import InheritableThread

    group = f"spillway-bench-{uuid.uuid4().hex}"
    over: queue.SimpleQueue[_Job[Result]] = queue.SimpleQueue()

    def do(number: int, work: Callable[[], Result]) -> None:
        job: _Job[Result] = _Job(number)
        try:
            context.setJobGroup(group, "spillway bench", interruptOnCancel=True)
            job.result = work()
        except BaseException as error:  # noqa: BLE001 - it is raised where the job was asked for
            job.error = error
        over.put(job)

    found: dict[int, Any] = {}
    failure: BaseException | None = None
    watch = _Watch(context, group, len(works), progress)
    with interrupts_put_off() as interrupts:
        for number, work in enumerate(works):
            InheritableThread(partial(do, number, work), daemon=True).start()
        left = len(works)
        while left:
            try:
                job = over.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                # Jobs that fail end all the same, and are waited for.
                with suppress(Py4JError, OSError):
                    if interrupts or failure is not None:
                        context.cancelJobGroup(group)  # again, for a job that had not begun
                    else:
                        watch.look(len(found))
                continue
            left -= 1
            if job.error is not None:
                failure = failure or job.error
                continue
            found[job.number] = job.result
            try:
                ended(job.number, found[job.number])
            except Exception as error:  # noqa: BLE001 - raised below, once the other jobs have ended
                failure = failure or error
    if failure is not None:
        raise explained(failure) from failure
    return [found[number] for number in range(len(works))]


class _Watch:
    """Says how many jobs run, and that none does where that lasts."""

    def __init__(self, context: Any, group: str, jobs: int, progress: Progress) -> None:
        self._context, self._group, self._jobs, self._progress = context, group, jobs, progress
        self._began = time.monotonic()
        self._ran = self._said = False

    def look(self, done: int) -> None:
        """Look at the tasks that run now."""
        running = tasks_of(self._context, self._group).running
        self._ran |= running > 0 or done > 0
        if not self._ran and not self._said and time.monotonic() - self._began > IDLE_SECONDS:
            self._said = True
            self._progress.say(NO_EXECUTOR)
        if self._jobs > 1:
            self._progress.placed(done, self._jobs, running)
