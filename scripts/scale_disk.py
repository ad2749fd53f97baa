"""The costs of a local disk and of the work beside it, from races of few processes and a probe of it."""

from __future__ import annotations

import os
import resource
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

_SYNCS = 400
_THREADS = 16
_ENTRIES = 200
_BESIDE = ("delete_intents", "pause")
"""Effects that no append waits for: a thread of its own deletes intents."""


@dataclass(frozen=True)
class Probe:
    """The answers of a disk.

    Attributes:
        cpu_share: The part of a sync that is processor time.
        side_by_side: Syncs that it does in the time of one.
        waits: The times that a thread waits for the disk in each effect that syncs.
        again_us: Syncing a folder once more.
        entry_us: An entry of a listing with its times.
    """

    cpu_share: float
    side_by_side: int
    waits: dict[str, int]
    again_us: float
    entry_us: float


def probed(folder: Path) -> Probe:
    """Ask the disk that a folder is on."""
    with tempfile.TemporaryDirectory(dir=folder, prefix="probe-") as name:
        place = Path(name)
        alone = _sync_many(place, 0)
        began = time.perf_counter()
        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(lambda thread: _sync_many(place, thread), range(1, 1 + _THREADS)))
        of_one = (time.perf_counter() - began) / (_SYNCS * _THREADS)
        return Probe(
            cpu_share=alone.cpu / alone.wall,
            side_by_side=max(1, round(alone.wall / _SYNCS / of_one)),
            waits=_waits(place),
            again_us=_again(place) * 1e6,
            entry_us=_entry(place) * 1e6,
        )


@dataclass(frozen=True)
class _Syncs:
    wall: float
    cpu: float


def _sync_many(folder: Path, thread: int) -> _Syncs:
    """Sync new files; the time of the syncs alone."""
    wall = cpu = 0.0
    for number in range(_SYNCS):
        descriptor = os.open(folder / f"{thread}-{number}", os.O_WRONLY | os.O_CREAT)
        os.write(descriptor, b"x" * 1_500)
        began, busy = time.perf_counter(), time.thread_time()
        os.fsync(descriptor)
        wall += time.perf_counter() - began
        cpu += time.thread_time() - busy
        os.close(descriptor)
    return _Syncs(wall, cpu)


def _waits(folder: Path) -> dict[str, int]:
    """The waits of syncing a file beside its place, a data file with its folder, and the folder of a log.

    Those that a kernel counts as voluntary: after each, the thread has to get a core again.
    """
    log, staging = folder / "log", folder / "staging"
    log.mkdir()
    staging.mkdir()

    def put_version(number: int) -> None:
        _synced_file(staging / f"{number}")

    def sync_log(number: int) -> None:
        (staging / f"{number}").rename(log / f"{number}")
        _sync_folder(log)

    def sync_data(number: int) -> None:
        _synced_file(log / f"data-{number}")
        _sync_folder(log)

    def sync_again(_: int) -> None:
        _sync_folder(log)

    found = {}
    for effect in (put_version, sync_log, sync_data, sync_again):
        began = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
        for number in range(_SYNCS):
            effect(number)
        waits = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw - began
        found[effect.__name__] = max(1, round(waits / _SYNCS))
    return found


def _synced_file(path: Path) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
    os.write(descriptor, b"x" * 1_500)
    os.fsync(descriptor)
    os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def _again(folder: Path) -> float:
    """The seconds in which a folder is opened and synced that was synced before."""
    times = []
    for _ in range(_SYNCS):
        began = time.perf_counter()
        _sync_folder(folder)
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def _entry(folder: Path) -> float:
    """The seconds of an entry of a listing."""
    times = []
    for _ in range(9):
        began = time.perf_counter()
        count = len([entry.stat().st_mtime for entry in os.scandir(folder)])
        times.append((time.perf_counter() - began) / count)
    return statistics.median(times)


def calibrated(races: Sequence[dict[str, Any]], probe: Probe) -> tuple[dict[str, Any], dict[str, int]]:
    """The microseconds that effects take on the disk, and those of an append and of a version beside them.

    Of one process that appends in sequence, each append is one round of effects, with the same thread before
    and after them. Of two processes come the effects that one alone has no use for.
    """
    one, two = ([race for race in races if _is_sequence(race, processes)] for processes in (1, 2))
    effects = {**_means(two), **_means(one)}
    read = effects.get("read_intents", 0.0)
    disk = {
        "find_tip_us": round(effects["find_tip"]),
        "read_version_us": round(effects["read_version"]),
        "put_version": _synced("put_version", effects, probe),
        "list_intents_us": round(effects["list_intents"]),
        "list_intent_us": round(probe.entry_us),
        "read_intent_us": round(read),
        "put_intent_us": round(effects.get("put_intent", 0.0)),
        "delete_intent_us": round(effects.get("delete_intents", 0.0)),
        "sync_data": _synced("sync_data", effects, probe),
        "sync_log": _synced("sync_log", effects, probe),
        "sync_again": _synced("sync_again", {"sync_again": probe.again_us}, probe),
        "side_by_side": probe.side_by_side,
    }
    return disk, _work(one, disk)


def _is_sequence(race: dict[str, Any], processes: int) -> bool:
    cell = race["cell"]
    return bool(cell["processes"] == processes == cell["writers"])


def _means(races: Sequence[dict[str, Any]]) -> dict[str, float]:
    """The mean time of each kind of effect, in microseconds."""
    counts: dict[str, int] = {}
    totals: dict[str, float] = {}
    for race in races:
        for kind, times in race["effects"].items():
            counts[kind] = counts.get(kind, 0) + times["count"]
            totals[kind] = totals.get(kind, 0.0) + times["total_seconds"]
    return {kind: totals[kind] / counts[kind] * 1e6 for kind in counts}


def _synced(kind: str, effects: dict[str, float], probe: Probe) -> dict[str, int]:
    cpu = effects[kind] * min(1.0, probe.cpu_share)
    return {"cpu_us": round(cpu), "disk_us": round(effects[kind] - cpu), "waits": probe.waits[kind]}


def _work(one: Sequence[dict[str, Any]], disk: dict[str, Any]) -> dict[str, int]:
    """The processor time of an append beside its effects, and of a version beside its commit."""
    appends = sum(race["acknowledged"] for race in one)
    versions = sum(race["table"]["versions"] for race in one)
    of_all = sum(race["seconds"] for race in one) / appends * 1e6
    wait = statistics.fmean(_mean_wait(race) for race in one) * 1e6
    on_path = 0.0
    cpu = 0.0
    for race in one:
        for kind, times in race["effects"].items():
            if kind in _BESIDE:
                continue
            on_path += times["total_seconds"] * 1e6
            parts = disk.get(kind)
            waits = parts["disk_us"] if isinstance(parts, dict) else 0
            cpu += times["total_seconds"] * 1e6 - times["count"] * waits
    write = wait - on_path / appends
    prepare = of_all - wait
    processor = sum(race["processor_seconds"] for race in one) * 1e6
    beside = processor - cpu - (write + prepare) * appends
    return {
        "prepare_us": max(0, round(prepare)),
        "write_us": max(0, round(write)),
        "version_us": max(0, round(beside / versions)),
    }


def _mean_wait(race: dict[str, Any]) -> float:
    """The mean of a race's waits, from their quantiles."""
    return statistics.fmean(race["wait_seconds"][1:])
