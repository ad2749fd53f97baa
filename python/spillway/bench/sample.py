"""Taking one sample: one fresh process, its outcome, and its record."""

from __future__ import annotations

import ctypes
import hashlib
import json
import mmap
import os
import shutil
import signal
import sys
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from spillway._wording import counted
from spillway.bench.plan import process_setting
from spillway.bench.record import SCHEMA_VERSION, Measures
from spillway.harness.environment import SampleWatch, sync_filesystem
from spillway.harness.limits import Unlimited, stepping_aside, with_quota
from spillway.harness.probes.process import thread_environment
from spillway.harness.processes import ProcessResult, redact, run_limited

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from threading import Event

    from spillway.bench.identity import PythonEnvironment
    from spillway.bench.plan import Cell
    from spillway.bench.record import Outcome, OutputFile, Phase, PhaseLength, Probe, Result, Sample
    from spillway.harness.limits import Limiter, MemoryLimit
    from spillway.harness.probes.readings import Curve, GroupReading
    from spillway.harness.records import Failure
    from spillway.harness.schedule import Slot

_WORKER = str(Path(__file__).parent / "worker" / "main.py")
_CURVE_POINTS = 200
_NO_CURVE: Curve = {"seconds": [], "rss_bytes": []}  # of a process that only feeds another one
_TEMPORARY_FOLDERS = ("TMPDIR", "TMP", "TEMP", "POLARS_TEMP_DIR")


@dataclass(frozen=True)
class Meeting:
    """The barrier at which two processes wait for each other before they write.

    Attributes:
        place: A FIFO, whose two ends open together.
        comes_first: Which end is this process's.
        called_off: Set when the outcome is no longer needed: the process is then killed.
    """

    place: Path
    comes_first: bool
    called_off: Event


@dataclass(frozen=True)
class SampleTaker:
    """Takes the samples of a run, which share all that is here.

    Attributes:
        run_id: The run's name.
        seed: The run's seed.
        inputs: For each dataset and rows of a batch the Arrow IPC file that holds the rows of every cell.
        files: The files of output.
        limiter: Sets a cell's memory limit.
        cores: The cores samples may be pinned to, as many of the last ones as a cell has threads.
        timeout: Seconds one sample may take.
        pythons: The Python environments, by name, of cells that are not measured in the bench's own.
    """

    run_id: str
    seed: int
    inputs: Mapping[tuple[str, int], Path]
    files: OutputFiles
    limiter: Limiter
    cores: tuple[int, ...]
    timeout: float
    pythons: Mapping[str, PythonEnvironment] = field(default_factory=dict)

    def take(self, slot: Slot[Cell], memory_limit: MemoryLimit) -> Sample:
        """Measure a cell once, under `memory_limit`; its record, whatever the outcome."""
        resident = warm(self.inputs[slot.cell.input])
        sync_filesystem(self.files.fresh.parent)
        started = datetime.now(UTC)
        watch = SampleWatch()
        ended, shares_core = self.run_worker(slot.cell, memory_limit)
        host = watch.read()
        output, outcome, problem = self._check_output(slot.cell, outcome_of(ended))
        result = result_of(ended)
        record: Sample = {
            "schema_version": SCHEMA_VERSION,
            "run_id": self.run_id,
            "block": slot.block,
            "position": slot.position,
            "seed": self.seed,
            "started_at": started.isoformat(timespec="milliseconds"),
            "cell": asdict(slot.cell),
            "outcome": outcome,
            "died_in": None if outcome in {"ok", "wrong_output"} else _last_phase(ended),
            "exit_status": ended.status,
            "signal": None if ended.signal is None else signal.Signals(ended.signal).name,
            "error": problem or _failure(ended),
            "stderr": redact(ended.stderr),
            "process_seconds": ended.wall_seconds,
            "phases": _phase_lengths(ended),
            "shares_core": shares_core,
            "input": {"resident_share_before": resident},
            "host": host,
            "group": _group(ended, result),
            "output": output,
            "curve": _NO_CURVE if result is not None and result["program"] is not None else _curve(ended),
            **_measured(result),  # type: ignore[typeddict-item]  # without a placement, which it may be
        }
        self.files.discard_fresh()
        return record

    def run_worker(  # noqa: PLR0913 - options, by keyword only
        self,
        cell: Cell,
        memory_limit: MemoryLimit,
        *,
        memray: Path | None = None,
        probe: Probe | None = None,
        meeting: Meeting | None = None,
        environment: dict[str, str] | None = None,
    ) -> tuple[ProcessResult, bool]:
        """Run the worker for a cell to its end, without using its cores.

        Args:
            cell: The cell.
            memory_limit: The memory limit of the process.
            memray: The file for a trace of allocations, for a write that is traced.
            probe: The only probe during the write, for a write that is not timed.
            meeting: The other process to wait for, for a write that is compared with that one's.
            environment: Environment variables in addition to those of every sample.

        Returns:
            The end of the process, and whether the bench had to share a core with it.
        """
        cores = self.cores[-cell.threads :]
        request = {
            "cell": asdict(cell),
            "input": str(self.inputs[cell.input].absolute()),
            "output": str(self.files.fresh.absolute()),
            "warm_up": str(self.files.warm_up.absolute()),
            "cores": list(cores),
            "data_limit": memory_limit.data_limit,
            "gc_threshold": process_setting(cell.arm).gc_threshold,
            "cold": process_setting(cell.arm).cold,
            "memray": None if memray is None else str(memray),
            "probe": probe,
            "meeting": None if meeting is None else [str(meeting.place.absolute()), meeting.comes_first],
            "group": memory_limit.group,
            "parent": os.getpid(),
        }
        variables = {**os.environ, **self._environment(cell), **(environment or {})}
        python = self.pythons[cell.python] if cell.python else None
        with stepping_aside(cores) as apart:
            ended = run_limited(
                _WORKER,
                [],
                memory_limit,
                stdin=json.dumps(request),
                environment=variables if python is None else python.variables(variables, cell.backend),
                timeout=self.timeout,
                interpreter=sys.executable if python is None else str(python.interpreter),
                # On a core that is measured, looking would take time from what is looked at.
                curve=apart and memray is None and meeting is None and probe in {None, "curve"},
                called_off=None if meeting is None else meeting.called_off,
            )
        return ended, not apart

    def _environment(self, cell: Cell) -> dict[str, str]:
        """Thread pools, the process setting, and a folder on a disk for spilled pages: no unseen memory."""
        folder = str(self.files.fresh.parent.absolute())
        pools = thread_environment(cell.threads)
        return pools | dict.fromkeys(_TEMPORARY_FOLDERS, folder) | dict(process_setting(cell.arm).environment)

    def _check_output(
        self, cell: Cell, outcome: Outcome
    ) -> tuple[OutputFile | None, Outcome, Failure | None]:
        """Describe the file a sample wrote and keep it for validation, if its rows are as many as written."""
        if outcome != "ok":
            return None, outcome, None
        try:
            output = describe_file(self.files.fresh)
        except (OSError, ValueError) as error:  # pyarrow's errors about a file's content are ValueErrors
            return None, "wrong_output", {"type": type(error).__name__, "message": redact(str(error))}
        if output["rows"] != cell.rows:
            message = f"the file holds {counted(output['rows'], 'row')}, and {cell.rows:,} were written"
            return output, "wrong_output", {"type": "RowCount", "message": message}
        self.files.keep(output["content_hash"])
        return output, "ok", None


@contextmanager
def limits_of(cell: Cell, limiter: Limiter) -> Iterator[MemoryLimit]:
    """The limits of a cell, for one process: its memory's, set by `limiter`, and its quota.

    Raises:
        OSError: This machine does not let the memory limit be set.
        OptionError: It lets no quota be set.
    """
    of_memory = Unlimited() if cell.memory_bytes is None else limiter
    with (
        of_memory.limit(cell.memory_bytes or 0) as memory_limit,
        with_quota(memory_limit, process_setting(cell.arm).cores) as both,
    ):
        yield both


def outcome_of(ended: ProcessResult) -> Outcome:
    """The outcome of a process by how it ended. A result counts only if the process then left in order."""
    if ended.timed_out:
        return "timeout"
    failure = _failure(ended)
    if ended.signal is None and ended.status == 0:
        if failure is None:
            return "ok" if result_of(ended) is not None else "library_error"
        # What the kernel killed may be another process of the write: a JVM.
        otherwise: Outcome = "oom_killed" if ended.oom_kills else "library_error"
        return "memory_error" if failure["kind"] == "memory_error" else otherwise
    if ended.signal in {signal.SIGSEGV, signal.SIGBUS}:
        return "segfault"
    # None: nobody counts. The bench kills nothing whose time is not up, and the limit is proved.
    if ended.signal == signal.SIGKILL and ended.oom_kills != 0:
        return "oom_killed"
    return "library_error" if ended.signal is None else "aborted"


def result_of(ended: ProcessResult) -> Any:
    """The measures that the process sent; None if it did not live to."""
    for message in ended.messages:
        if "result" in message:
            return message["result"]
    return None


def _failure(ended: ProcessResult) -> Failure | None:
    for message in ended.messages:
        if "failure" in message:
            failure: Failure = message["failure"]
            return {**failure, "message": redact(failure["message"])}
    return None


def _phases(ended: ProcessResult) -> list[tuple[Phase, float]]:
    """The phases that the worker named, with the time at which each began."""
    return [(cast("Phase", name), begin) for name, begin in ended.phases]


def _last_phase(ended: ProcessResult) -> Phase:
    """The phase a process was in when it ended; "exec" before its first word."""
    named = [name for name, _ in _phases(ended)]
    if _failure(ended) is not None and named[-1:] == ["exit"]:
        named.pop()
    return named[-1] if named else "exec"


def _phase_lengths(ended: ProcessResult) -> list[PhaseLength]:
    starts = _phases(ended)
    return [{"phase": name, "seconds": round(end - begin, 6)} for (name, begin), (_, end) in pairwise(starts)]


def _curve(ended: ProcessResult) -> Curve:
    marks = dict(ended.phases)
    begin = marks.get("write")
    if begin is None:
        return {"seconds": [], "rss_bytes": []}
    return ended.curve.between(begin, marks.get("after", float("inf")), most=_CURVE_POINTS)


def _group(ended: ProcessResult, result: Result | None) -> GroupReading | None:
    """The group's memory as the process saw it, with the peak that the bench found when it had gone."""
    seen = None if result is None else result["group"]
    peaks = [peak for peak in (ended.group_peak_bytes, seen and seen["peak_bytes"]) if peak is not None]
    if not peaks:
        return None
    if seen is None:
        return {
            "before_bytes": None,
            "after_bytes": None,
            "write_peak_bytes": None,
            "peak_bytes": max(peaks),
        }
    return {**seen, "peak_bytes": max(peaks)}


def _measured(result: Result | None) -> Measures:
    """The measures of the worker, in the record's form; nulls when it did not live to report them."""
    if result is None:
        return cast("Measures", dict.fromkeys(Measures.__annotations__))
    wall = result["use"]["wall_seconds"]
    memory = result["memory"]
    return {
        "throughput": {
            "rows_per_second": result["rows"] / wall,
            "megabytes_per_second": result["arrow_bytes"] / wall / 1e6,
            "arrow_bytes": result["arrow_bytes"],
        },
        "use": result["use"],
        "memory": {**memory, "growth_bytes": memory["after"]["high_water"] - memory["before"]["rss"]},
        "fsync_seconds": result["fsync_seconds"],
        "pools": result["pools"],
        "pyarrow_pool": result["pyarrow_pool"],
        "account": result["account"],
        "jvm": result["jvm"],
        "affinity_cores": result["affinity"],
        "backend_version": result["version"],
        "program": result["program"],
    }


def describe_file(path: Path) -> OutputFile:
    """Size, content hash, rows, row groups, and the encodings of each column, from the footer.

    Raises:
        pyarrow.ArrowException: The file is not Parquet.
    """
    import pyarrow.parquet as pq

    metadata = pq.read_metadata(path)
    encodings: dict[str, set[str]] = {}
    for group in range(metadata.num_row_groups):
        for index in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(index)
            encodings.setdefault(chunk.path_in_schema, set()).update(chunk.encodings)
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {
        "bytes": path.stat().st_size,
        "content_hash": digest,
        "rows": metadata.num_rows,
        "row_groups": metadata.num_row_groups,
        "created_by": metadata.created_by,
        "encodings": [{"column": name, "encodings": sorted(used)} for name, used in encodings.items()],
    }


class OutputFiles:
    """The folder samples write to. One file per distinct content is kept, named by its hash.

    Args:
        folder: The folder; it may be there already, from a run that ended early.
        kept: Hashes of contents that may lie in it; all other files in it go.
    """

    def __init__(self, folder: Path, kept: Iterable[str] = ()) -> None:
        self._folder = folder
        folder.mkdir(exist_ok=True)
        self._kept = {content_hash for content_hash in kept if self.path_of(content_hash).exists()}
        self.fresh = folder / "sample.parquet"
        self.warm_up = folder / "warm-up.parquet"
        self.discard_fresh()

    def keep(self, content_hash: str) -> None:
        """Move the new file to its kept name, or delete it if a file with the same content exists."""
        self.fresh.replace(self.path_of(content_hash))
        self._kept.add(content_hash)

    def adopt(self, content_hash: str, chunks: Iterable[bytes]) -> None:
        """Keep a file that was written elsewhere."""
        with self.path_of(content_hash).open("wb") as file:
            file.writelines(chunks)
        self._kept.add(content_hash)

    def path_of(self, content_hash: str) -> Path:
        """The path that the file with this content is kept at."""
        return self._folder / f"{content_hash[:16]}.parquet"

    def discard_fresh(self) -> None:
        """Remove the temporary and spilled files that a sample left."""
        kept = {self.path_of(content_hash) for content_hash in self._kept}
        for path in set(self._folder.iterdir()) - kept:
            _delete(path)

    def remove(self) -> None:
        """Remove the folder and all in it."""
        shutil.rmtree(self._folder)


def _delete(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


_READ_BYTES = 1 << 20


def resident_share(path: Path) -> float:
    """The share of a file's pages that are in the page cache, by ``mincore``; 1.0 for an empty file.

    Raises:
        OSError: The kernel refuses to say.
    """
    size = path.stat().st_size
    if size == 0:
        return 1.0
    pages = -(-size // mmap.PAGESIZE)
    flags = (ctypes.c_ubyte * pages)()
    libc = ctypes.CDLL(None, use_errno=True)
    with path.open("rb") as file:
        address = _map(libc, file.fileno(), size)
    try:
        if libc.mincore(ctypes.c_void_p(address), ctypes.c_size_t(size), flags) != 0:
            raise OSError(ctypes.get_errno(), "mincore failed", path.name)
    finally:
        libc.munmap(ctypes.c_void_p(address), ctypes.c_size_t(size))
    return sum(flag & 1 for flag in bytes(flags)) / pages


def warm(path: Path) -> float:
    """Read the file if any page of it is cold; the share that was resident before.

    Pages that a measured process had to read would count towards its limit.
    """
    share = resident_share(path)
    if share < 1.0:
        with path.open("rb", buffering=0) as file:
            while file.read(_READ_BYTES):
                pass
    return share


def _map(libc: ctypes.CDLL, descriptor: int, size: int) -> int:
    libc.mmap.restype = ctypes.c_void_p
    length, offset = ctypes.c_size_t(size), ctypes.c_long(0)
    address = libc.mmap(None, length, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, offset)
    if address is None or address == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), "mmap failed")
    return int(address)
