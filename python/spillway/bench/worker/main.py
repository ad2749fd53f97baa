"""One sample, in its own process. Run by path; of the bench, only this folder runs in that process.

The order is the point: parse the cell -> limits and affinity -> import the backend -> thread pools -> map
the input -> a tiny warm-up write -> collect garbage, release pool memory, trim malloc -> reset the high-water
mark -> record the baseline -> write -> read the high-water mark before any object is dropped -> an extra
fsync, timed apart -> one line on the inherited descriptor -> exit. Pools that read their size from the
environment find it there from the start.

A probe that takes time during the write runs in a separate process, whose time the tables do not use.

Everything imported here counts towards the limit, so only the standard library is imported at the top.
"""

from __future__ import annotations

import errno
import gc
import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from spillway.backends import Backend, Sink
    from spillway.backends.protocol import JvmBackend
    from spillway.bench.record import PairResult, Phase, ProbeResult, Result
    from spillway.bench.worker.inputs import MappedInput
    from spillway.harness.probes.jvm import JvmReading, WarmUp
    from spillway.harness.probes.readings import UsageReading

_PAUSE_SECONDS = 0.05  # between a meeting and the writes
_WARM_UP_ROWS = 100
_MOST_IDLE_SECONDS = 2.0
# Figures of an external program that every sample has; others are the program's own.
_OF_ALL = frozenset(
    {"rows", "version", "seconds", "user_seconds", "system_seconds", "baseline_bytes", "peak_bytes"}
)


class Channel:
    """Lines to the parent, written in one call each: phase marks, then the result or the failure."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def mark(self, phase: Phase) -> None:
        """Say which phase begins, so that the parent knows in which one a process died."""
        self._send({"phase": phase, "at": time.monotonic()})

    def result(self, result: Mapping[str, Any]) -> None:
        """Send the measures."""
        self._send({"result": result})

    def failure(self, kind: str, error: BaseException) -> None:
        """Say which exception ended the sample."""
        self._send({"failure": {"kind": kind, "type": type(error).__name__, "message": str(error)[:2000]}})

    def _send(self, message: dict[str, Any]) -> None:
        line = memoryview((json.dumps(message) + "\n").encode())
        while line:
            line = line[os.write(self._descriptor, line) :]


def main() -> int:
    """Measure the cell described on standard input; the exit status is 0 also for a reported failure."""
    channel = Channel(int(sys.argv[1]))
    request = json.load(sys.stdin)
    try:
        channel.result(_measure(request, channel))
    except BaseException as error:  # noqa: BLE001 - whatever ends the sample is its outcome
        gc.collect()
        channel.failure(_kind(error), error)
    channel.mark("exit")
    return 0


def _measure(request: dict[str, Any], channel: Channel) -> Mapping[str, Any]:
    channel.mark("limits")
    _apply_limits(request)
    if request["gc_threshold"] is not None:
        gc.set_threshold(*request["gc_threshold"])
    channel.mark("import")
    backend = _import_backend(request)
    channel.mark("input")
    source = _map_input(request)
    channel.mark("warm-up")
    warmed = _warm_up(backend, source, request)
    channel.mark("baseline")
    if request["memray"] is not None:
        return _trace_allocations(backend, source, request, channel)
    if request["probe"] is not None:
        return _write_and_probe(backend, source, request, channel)
    if request["meeting"] is not None:
        return _write_beside_another(backend, source, request, channel)
    return _write_and_measure(backend, source, request, channel, warmed)


def _apply_limits(request: dict[str, Any]) -> None:
    # Libraries that spill do it in the working folder: there the bench cleans up.
    os.chdir(Path(request["output"]).parent)
    os.sched_setaffinity(0, request["cores"])
    data_limit = request["data_limit"]
    if data_limit is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (data_limit, data_limit))
    # A dying sample must not spend seconds on a core file.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _import_backend(request: dict[str, Any]) -> Backend:
    from spillway._parent import die_with_parent

    die_with_parent(request["parent"])
    from spillway.backends import load
    from spillway.harness.probes.process import set_threads

    backend = load(request["cell"]["backend"])
    set_threads(request["cell"]["threads"])
    return backend


def _map_input(request: dict[str, Any]) -> MappedInput:
    from spillway.bench.worker.inputs import MappedInput
    from spillway.harness.probes.process import set_threads

    set_threads(request["cell"]["threads"])  # the input's reader may be what brought pyarrow
    return MappedInput(request["input"], request["cell"]["rows"])


def _warm_up(backend: Backend, source: MappedInput, request: dict[str, Any]) -> WarmUp | None:
    """Write a few rows, and with a JVM as many as it needs; the account of the latter.

    A process that is to be cold writes none, unless it has a JVM.
    """
    if request["cold"] and not hasattr(backend, "warm_up_rows"):
        return None
    import pyarrow as pa

    head = source.head(_WARM_UP_ROWS)
    is_table = request["cell"]["mode"] == "table"
    path = Path(request["warm_up"])
    data = [pa.Table.from_batches([head])] if is_table else _chunks([head], request)
    _write(backend, path, source, data, request)
    path.unlink()
    if not hasattr(backend, "warm_up_rows"):
        return None

    def write() -> None:
        _write(backend, path, source, _data(source, request), request)
        path.unlink()

    return _warm_jvm(backend, source.rows, write)


def _write(
    backend: Backend, path: Path, source: MappedInput, data: Iterable[Any], request: dict[str, Any]
) -> Sink:
    from spillway.backends import Settings

    cell = request["cell"]
    settings = Settings(
        codec=cell["codec"],
        level=cell["level"],
        row_group_rows=cell["row_group_rows"],
        threads=cell["threads"],
        dataset=cell["dataset"],
        may_retain=cell["mode"] == "batches-retained",
    )
    sink = backend.open(path, source.schema, settings)
    for each in data:
        sink.write(each)
    sink.close()
    return sink


def _data(source: MappedInput, request: dict[str, Any]) -> Iterable[Any]:
    if request["cell"]["mode"] == "table":
        return [source.table()]
    return _chunks(source.batches(), request)


def _chunks(batches: Iterable[Any], request: dict[str, Any]) -> Iterable[Any]:
    """Make of each batch what the mode's sinks take. Batches are mapped already; all else is made here."""
    mode = request["cell"]["mode"]
    if mode in {"batches", "batches-retained"}:
        return batches
    from spillway.bench.worker import inputs

    if mode == "ndjson":
        return inputs.ndjson(batches)
    return inputs.dicts_from_json(batches) if mode == "rows-json" else inputs.dicts(batches)


def _write_and_measure(
    backend: Backend,
    source: MappedInput,
    request: dict[str, Any],
    channel: Channel,
    warmed: WarmUp | None,
) -> Result:
    """The timed write. Nothing works beside it: all counters are the kernel's and the libraries' own."""
    from spillway.harness.probes import process
    from spillway.harness.probes.process import GroupProbe

    data = _data(source, request)
    group = GroupProbe(request["group"])
    gc.collect()
    process.release_memory()
    pool = process.PoolTotals()
    jvm = None if warmed is None else _JvmPhase(backend, warmed)
    group.start(process.ready_bytes())
    process.reset_high_water()
    before = process.read_baseline()
    channel.mark("write")
    begin = process.read_usage()
    sink = _write(backend, Path(request["output"]), source, data, request)
    end = process.read_usage()
    if jvm is not None:
        jvm.end()
    after = process.read_memory()
    of_group = group.stop()
    rollup = process.read_rollup()
    channel.mark("after")
    account: dict[str, int] = getattr(backend, "peak_account", dict)()
    del sink
    use = process.usage_between(begin, end)
    return _as_the_program_says(
        {
            "rows": source.rows,
            "arrow_bytes": source.arrow_bytes,
            "use": use if jvm is None else jvm.add_to(use),
            "memory": {"before": before.as_dict(), "after": after.as_dict(), "rollup_after": rollup},
            "fsync_seconds": _fsync(Path(request["output"])),
            "pools": process.threads_in_force(backend),
            "pyarrow_pool": pool.read(),
            "account": [{"name": name, "bytes": value} for name, value in sorted(account.items())],
            "group": of_group,
            "jvm": None if jvm is None else jvm.read(after.high_water),
            "affinity": len(os.sched_getaffinity(0)),
            "version": backend.version(),
            "program": None,
        },
        getattr(backend, "own_figures", None),
    )


def _as_the_program_says(result: Result, own_figures: Callable[[], dict[str, Any] | None] | None) -> Result:
    """A result with the figures of an external program in the place of this process's, which only fed it."""
    figures = None if own_figures is None else own_figures()
    if figures is None:
        return result
    nothing = dict.fromkeys(result["memory"]["before"], 0)
    baseline, peak = figures["baseline_bytes"], figures["peak_bytes"]
    use = {
        "wall_seconds": figures["seconds"],
        **{name: figures[name] for name in ("user_seconds", "system_seconds")},
    }
    memory = {
        "before": {**nothing, "rss": baseline, "high_water": baseline},
        "after": {**nothing, "rss": peak, "high_water": peak},
    }
    own = [{"name": name, "value": float(value)} for name, value in figures.items() if name not in _OF_ALL]
    return {
        **result,
        "use": {**dict.fromkeys(result["use"], 0), **use},  # type: ignore[typeddict-item]
        "memory": {**result["memory"], **memory},  # type: ignore[typeddict-item]
        "pyarrow_pool": None,
        "group": None,
        "program": own,  # type: ignore[typeddict-item]
    }


def _write_and_probe(
    backend: Backend, source: MappedInput, request: dict[str, Any], channel: Channel
) -> ProbeResult:
    """The same write beside one probe, which takes time: its length says only what the probe costs."""
    from spillway.harness.probes import process
    from spillway.harness.probes.interpreter import GarbageProbe, GilTicker, idle_gap

    data = _data(source, request)
    garbage = GarbageProbe() if request["probe"] == "gc" else None
    ticker = GilTicker() if request["probe"] == "gil" else None
    gc.collect()
    process.release_memory()
    if ticker is not None:
        ticker.start()
    if garbage is not None:
        garbage.start()
    channel.mark("write")
    begin = time.perf_counter()
    _write(backend, Path(request["output"]), source, data, request)
    seconds = time.perf_counter() - begin
    gil = None if ticker is None else ticker.stop()
    collected = None if garbage is None else garbage.stop()
    channel.mark("after")
    if gil is not None:
        gil["idle_gap_seconds"] = idle_gap(min(seconds, _MOST_IDLE_SECONDS))
    return {"wall_seconds": seconds, "gil": gil, "gc": collected}


def _write_beside_another(
    backend: Backend, source: MappedInput, request: dict[str, Any], channel: Channel
) -> PairResult:
    """The same write, from the moment on at which another process begins its own on the same core."""
    from spillway.harness.probes import process

    data = _data(source, request)
    gc.collect()
    process.release_memory()
    _meet(*request["meeting"])
    channel.mark("write")
    begin = time.process_time()
    _write(backend, Path(request["output"]), source, data, request)
    seconds = time.process_time() - begin
    channel.mark("after")
    return {"processor_seconds": seconds}


def _meet(place: str, comes_first: bool) -> None:  # noqa: FBT001 - as it came
    """Wait until the other process is here: each end of a FIFO opens when the other one does."""
    os.close(os.open(place, os.O_WRONLY if comes_first else os.O_RDONLY))
    # The one that came last has waited for nobody: its caches are warmer until both have slept.
    time.sleep(_PAUSE_SECONDS)


def _trace_allocations(
    backend: Backend, source: MappedInput, request: dict[str, Any], channel: Channel
) -> dict[str, Any]:
    """The same write under memray, for its allocation curve."""
    import memray

    data = _data(source, request)
    gc.collect()
    channel.mark("write")
    begin = time.perf_counter()
    with memray.Tracker(request["memray"], native_traces=False, trace_python_allocators=False):
        _write(backend, Path(request["output"]), source, data, request)
    seconds = time.perf_counter() - begin
    channel.mark("after")
    return {"wall_seconds": seconds}


def _fsync(path: Path) -> float:
    begin = time.perf_counter()
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return time.perf_counter() - begin


def _kind(error: BaseException) -> str:
    """Running out of memory has a class of its own in some libraries, below `MemoryError` or named for it."""
    names = {cls.__name__ for cls in type(error).__mro__}
    is_named = bool(names & {"OutOfMemoryException", "OutOfMemoryError"})
    is_of_kernel = isinstance(error, OSError) and error.errno == errno.ENOMEM
    is_memory = isinstance(error, MemoryError) or is_named or is_of_kernel
    return "memory_error" if is_memory else "library_error"


_FEWEST_WARM_UPS, _MOST_WARM_UPS = 2, 10


def _warm_jvm(backend: Any, rows: int, write: Callable[[], object]) -> WarmUp:
    """Write all rows of the cell repeatedly, at least twice, until the backend has written enough.

    Rows take other ways through a library when they are many, so that a part of them would warm less.

    Args:
        backend: A `JvmBackend`, which says how many are enough.
        rows: Rows that `write` writes.
        write: Writes all rows of the cell.
    """
    seconds = []
    for _ in range(min(_MOST_WARM_UPS, max(_FEWEST_WARM_UPS, -(-backend.warm_up_rows // rows)))):
        begin = time.perf_counter()
        write()
        seconds.append(time.perf_counter() - begin)
    return {"rows": rows, "seconds": seconds}


class _JvmPhase:
    """Watches a backend's JVM from construction to `end`.

    Args:
        backend: A `JvmBackend`, whose JVM runs.
        warmed: The writes that came before.
    """

    def __init__(self, backend: Any, warmed: WarmUp) -> None:
        from spillway.harness.probes.jvm import JvmProbe

        self._backend: JvmBackend = backend
        self._warmed = warmed
        self._probe = JvmProbe(backend.gateway)

    def end(self) -> None:
        """End the counting, right after the write."""
        self._probe.stop()

    def add_to(self, use: UsageReading) -> UsageReading:
        """The resource use of this process and of the JVM together."""
        return self._probe.add_to(use)

    def read(self, python_peak_bytes: int) -> JvmReading:
        """The reading of the JVM.

        Args:
            python_peak_bytes: Peak resident memory of this process during the write.
        """
        return self._probe.read(
            warm_up=self._warmed,
            hand_over_seconds=self._backend.hand_over_seconds,
            python_peak_bytes=python_peak_bytes,
        )


if __name__ == "__main__":
    sys.exit(main())
