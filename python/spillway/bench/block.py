"""A block of samples on an executor of Spark: every cell once, in processes that the task starts.

Whatever a sample is on one machine it is here: a fresh process, pinned and limited, and the limit proved.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from spillway import backends
from spillway.bench.sample import OutputFiles, SampleTaker, limits_of
from spillway.errors import OptionError
from spillway.harness.environment import describe_machine, read_load, refuse_debug_build, require_disk
from spillway.harness.limits import Unlimited, choose_cores, choose_limiter, prove
from spillway.harness.processes import redact

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spillway.bench.plan import Cell
    from spillway.harness.limits import Limiter
    from spillway.harness.schedule import Slot

_CHUNK_BYTES = 4 << 20
_LOCK = "spillway-bench.lock"
_EXECUTOR = "ExecutorBackend"  # in the class that every kind of cluster starts its executors by

# Spark keeps a Python worker for the next task: what it has proved and stored need not be again.
_proofs: dict[tuple[str, int], dict[str, Any]] = {}
_stored: dict[str, set[str]] = {}


@dataclass(frozen=True)
class Block:
    """The work of one task.

    Attributes:
        run_id: The run's name.
        seed: The run's seed.
        slots: The samples in their order.
        inputs: For each dataset and rows of a batch the name of the Arrow IPC file among those that Spark has
            brought here.
        timeout: Seconds one sample may take.
        keep: True if files that samples write are handed on.
    """

    run_id: str
    seed: int
    slots: tuple[Slot[Cell], ...]
    inputs: dict[tuple[str, int], str]
    timeout: float
    keep: bool


class Part(NamedTuple):
    """A piece of what a task hands on.

    Attributes:
        kind: "host", a description; "sample", a record; "stored", the size of a file that follows; "chunk",
            bytes of one; "refused", the reason why this host cannot measure.
        name: The content hash of a file.
        value: The content, by the kind.
    """

    kind: Literal["host", "sample", "stored", "chunk", "refused"]
    name: str
    value: Any


@dataclass(frozen=True)
class Survey:
    """An executor before the first sample.

    Attributes:
        version: The version of its Spillway.
        missing: The reason for each backend that cannot run there.
        limit_kind: The kind of memory limit that it would take.
        refusal: The reason why nothing can be measured there; None without one.
    """

    version: str
    missing: dict[str, str]
    limit_kind: str
    refusal: str | None


def survey(names: Sequence[str], limit_kind: str | None) -> Survey:
    """Look at the executor that this runs on.

    Args:
        names: The requested backends.
        limit_kind: The requested kind of memory limit; None for the best available one.
    """
    import spillway

    missing = {name: reason for name in names if (reason := backends.missing(name)) is not None}
    refusal, kind = None, ""
    try:
        if any(backends.library(name) == backends.OWN_LIBRARY for name in names):
            refuse_debug_build()
        kind = choose_limiter(limit_kind).kind
    except OptionError as error:
        refusal = str(error)
    return Survey(spillway.__version__, missing, kind, refusal)


def take_block(block: Block) -> Iterator[Part]:
    """Take the samples of a block; their records, then the files that this executor has not handed on.

    One block at a time is taken on a machine, however many executors it has.
    """
    from pyspark import SparkFiles

    _make_paths_absolute()
    with _own_folder() as folder, _alone_on_machine():
        try:
            require_disk(folder)
            cells = [slot.cell for slot in block.slots]
            limiter = _limiter(cells)
            load = read_load()
            proofs = [
                _proof_of(limiter, cell.memory_bytes) for cell in cells if cell.memory_bytes is not None
            ]
            cores = choose_cores(max(cell.threads for cell in cells))
        except (OptionError, OSError) as error:
            yield Part("refused", "", redact(str(error)))
            return
        host, executor = _placement()
        taker = SampleTaker(
            run_id=block.run_id,
            seed=block.seed,
            inputs={key: Path(SparkFiles.get(name)) for key, name in block.inputs.items()},
            files=OutputFiles(folder / "outputs"),
            limiter=limiter,
            cores=cores,
            timeout=block.timeout,
        )
        distinct = list({proof["limit_bytes"]: proof for proof in proofs}.values())
        described = {**describe_machine(), "load_before": load, "limit_proofs": distinct}
        yield Part("host", host, described)
        yield from _samples(block, taker, host, executor)


def _samples(block: Block, taker: SampleTaker, host: str, executor: str) -> Iterator[Part]:
    """The records, then the files."""
    sizes: dict[str, int] = {}
    for slot in block.slots:
        with limits_of(slot.cell, taker.limiter) as memory_limit:
            record = taker.take(slot, memory_limit)
        output = record["output"]
        if record["outcome"] == "ok" and output is not None:
            sizes[output["content_hash"]] = output["bytes"]
        yield Part("sample", host, {**record, "placement": {"host": host, "executor": executor}})
    stored = _stored.setdefault(block.run_id, set())
    for content_hash, size in sizes.items() if block.keep else ():
        if content_hash not in stored:
            yield Part("stored", content_hash, size)
            yield from _chunks(content_hash, taker.files.path_of(content_hash))
            stored.add(content_hash)


def _chunks(content_hash: str, path: Path) -> Iterator[Part]:
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            yield Part("chunk", content_hash, chunk)


def _limiter(cells: Sequence[Cell]) -> Limiter:
    """The limiter of the kind that all cells have, on whatever host they are measured."""
    kinds = {cell.limit_kind for cell in cells} - {"none"}
    return choose_limiter(kinds.pop()) if kinds else Unlimited()


def _proof_of(limiter: Limiter, limit: int) -> dict[str, Any]:
    """The proof of a limit, once for this executor.

    Raises:
        OptionError: A canary survives, or dies elsewhere.
    """
    key = (limiter.kind, limit)
    if key not in _proofs:
        proof = prove(limiter, limit)
        if not proof.holds:
            raise OptionError(
                f"the {limiter.kind} limit of {limit:,} bytes does not hold: a test process was "
                f"{proof.ending} at {proof.died_at_bytes:,}; choose another kind with --limit-kind"
            )
        _proofs[key] = asdict(proof)
    return _proofs[key]


@contextmanager
def _own_folder() -> Iterator[Path]:
    """A folder below those that Spark removes with the executor, for when a task is killed in it."""
    spark = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
    folder = Path(tempfile.mkdtemp(prefix="spillway-", dir=spark or None))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _alone_on_machine() -> Iterator[None]:
    """Wait until no other executor of this machine measures: two would share its caches and its disk."""
    path = Path(tempfile.gettempdir(), _LOCK)
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        descriptor = os.open(path, os.O_RDONLY | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _make_paths_absolute() -> None:
    """Let measured processes, which have a folder of their own, find the modules that this one finds."""
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ["PYTHONPATH"] = os.pathsep.join(str(Path(each).absolute()) for each in paths if each)


def _placement() -> tuple[str, str]:
    """The host and the number that Spark has for this executor, by the arguments of its JVM.

    Spark tells a Python task neither.
    """
    pid = os.getpid()
    while pid > 1:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        pid = int(fields[1])
        words = Path(f"/proc/{pid}/cmdline").read_text().split("\0") if pid else []
        if any(word.endswith(_EXECUTOR) for word in words):
            return _argument(words, "--hostname"), _argument(words, "--executor-id")
    return "", ""


def _argument(words: list[str], name: str) -> str:
    return words[words.index(name) + 1] if name in words[:-1] else ""
