"""Each probe tells its effect from others. Effects of known size are planted in ``test_calibration.py``."""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import spillway
from spillway.bench.sample import resident_share, warm
from spillway.harness.probes import process
from spillway.harness.probes.curve import CurveProbe, read_curve
from spillway.harness.probes.interpreter import GarbageProbe, GilTicker
from spillway.harness.probes.process import GroupProbe, PoolTotals

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1 << 20
TRIES = 20


def shortest(take, planted, share=0.10):
    """The shortest gap that `take` gives, as soon as one is near what was planted.

    A busy host can only lengthen a gap: the shortest is the nearest to what was planted.
    """
    gaps = []
    while len(gaps) < TRIES and not (gaps and min(gaps) <= planted * (1 + share)):
        gaps.append(take())
    return min(gaps)


@pytest.mark.usefixtures("misbehaving")
def test_200_mib_allocated_and_freed_in_the_phase_are_reported_within_1_percent(take):
    plain = take("well-behaved")["memory"]["growth_bytes"]
    growth = take("takes-200-MiB")["memory"]["growth_bytes"]
    # The writer's own growth peaks before the planted memory comes, and most of it is still there.
    assert 200 * MIB * 0.99 <= growth <= 200 * MIB * 1.01 + plain
    assert growth - plain <= 200 * MIB * 1.01


def test_200_mib_in_a_bare_process_are_reported_within_1_percent():
    process.reset_high_water()
    before = process.read_memory().rss
    with mmap.mmap(-1, 200 * MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as block:
        for page in range(0, 200 * MIB, mmap.PAGESIZE):
            block[page] = 1
    growth = process.read_memory().high_water - before
    assert growth == pytest.approx(200 * MIB, rel=0.01)


def test_a_write_into_memory_that_the_heap_kept_is_growth(tmp_path):
    table = pa.table({"n": range(400_000)})
    spillway.write_parquet(table, tmp_path / "first.parquet")
    process.release_memory()
    process.reset_high_water()
    baseline, ready = process.read_baseline().rss, process.ready_bytes()
    spillway.write_parquet(table, tmp_path / "second.parquet")
    assert ready >= 2 * MIB
    assert process.read_memory().high_water - baseline >= ready


def test_the_counters_agree_with_the_page_tables():
    memory = process.read_memory()
    assert process.read_rollup()["rss"] == pytest.approx(memory.rss, rel=0.05)
    assert memory.anon + memory.file <= memory.rss


@pytest.mark.usefixtures("misbehaving")
def test_a_big_parent_does_not_show_in_its_child(take):
    with mmap.mmap(-1, 300 * MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as block:
        for page in range(0, 300 * MIB, mmap.PAGESIZE):
            block[page] = 1
        record = take("well-behaved")
    assert record["memory"]["after"]["high_water"] < 300 * MIB


def gap_while(action):
    """The longest gap during an action."""
    ticker = GilTicker()
    ticker.start()
    action()
    return ticker.stop()["longest_gap_seconds"]


def test_a_gil_hold_that_is_still_on_when_the_phase_ends_is_counted():
    gap = shortest(lambda: gap_while(lambda: ctypes.PyDLL(None).usleep(50_000)), 0.050)
    assert gap == pytest.approx(0.050, rel=0.10)


def test_one_long_hold_among_hundreds_of_ticks_is_no_percentile():
    ticker = GilTicker()
    ticker.start()
    time.sleep(0.5)
    ctypes.PyDLL(None).usleep(100_000)
    found = ticker.stop()
    assert found["longest_gap_seconds"] >= 0.1
    assert found["p99_gap_seconds"] < 0.1


def test_a_gil_that_is_held_most_of_the_time_shows_in_the_percentile():
    ticker = GilTicker()
    ticker.start()
    for _ in range(20):
        ctypes.PyDLL(None).usleep(20_000)
        time.sleep(0.002)
    assert ticker.stop()["p99_gap_seconds"] >= 0.02


def test_a_released_gil_leaves_no_gap():
    assert shortest(lambda: gap_while(lambda: time.sleep(0.2)), 0.04) < 0.05


def test_the_garbage_probe_hears_only_its_phase():
    gc.collect()
    probe = GarbageProbe()
    probe.start()
    gc.collect(0)
    seen = probe.stop()
    gc.collect()
    assert seen["runs_by_generation"][0] >= 1
    assert seen["runs_by_generation"][2] == 0


def test_written_bytes_are_seen(tmp_path):
    before = process.read_usage()
    (tmp_path / "file").write_bytes(bytes(3 * MIB))
    assert process.usage_between(before, process.read_usage())["bytes_written"] >= 3 * MIB


def test_memory_of_another_process_is_seen_over_time():
    code = (
        f"import mmap; block = mmap.mmap(-1, {64 * MIB}); print(flush=True); input(); "
        f"block.write(bytes({64 * MIB})); print(flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        probe = CurveProbe()
        begin = time.monotonic()
        for _ in range(2):
            child.stdout.readline()
            probe.sample(child.pid)
            child.stdin.write(b"\n")
            child.stdin.flush()
    curve = probe.between(begin, time.monotonic(), most=10)
    assert curve["rss_bytes"][1] - curve["rss_bytes"][0] >= 60 * MIB


def test_a_thinned_curve_keeps_its_peak():
    probe = CurveProbe()
    probe._points = [(float(second), 1000 + second % 7) for second in range(100)] + [(100.0, 9999)]
    curve = probe.between(0, 200, most=10)
    assert len(curve["rss_bytes"]) <= 10
    assert max(curve["rss_bytes"]) == 9999


def test_the_allocation_curve_shows_a_planted_peak(tmp_path):
    code = f"import memray\nwith memray.Tracker('trace.bin'):\n    b=bytearray({50 * MIB})\n    del b\n"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, timeout=60)
    curve = read_curve(tmp_path / "trace.bin")
    assert curve["peak_bytes"] == pytest.approx(50 * MIB, rel=0.02)
    assert max(curve["allocated_bytes"]) == pytest.approx(50 * MIB, rel=0.02)


def test_cold_input_is_noticed_and_warmed(disk_folder: Path):
    path = disk_folder / "input"
    path.write_bytes(os.urandom(8 * MIB))
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    assert resident_share(path) < 0.1
    assert warm(path) < 0.1
    assert resident_share(path) == 1.0


def test_threads_are_read_back_from_the_libraries(take):
    for backend, pool in (("polars", "polars"), ("duckdb", "duckdb"), ("pyarrow-streaming", "pyarrow-io")):
        record = take(backend)
        assert {"pool": pool, "threads": 1} in record["pools"]
        assert record["affinity_cores"] == 1


@pytest.mark.parametrize(("higher", "peak"), [(True, 1 << 40), (False, None)])
def test_a_peak_that_cannot_be_set_back_is_the_writes_where_it_rose_in_it(tmp_path, higher, peak):
    """A kernel before Linux 6.12 refuses to set it back, as one refuses to write to a file of its own."""
    (tmp_path / "memory.current").write_text("1000")
    of_group = tmp_path / "memory.peak"
    of_group.symlink_to("/proc/sys/kernel/random/poolsize")
    before = int(of_group.read_text())
    probe = GroupProbe(str(tmp_path))
    probe.start()
    if higher:
        of_group.unlink()
        of_group.write_text(str(peak))
    reading = probe.stop()
    assert reading is not None
    assert reading["write_peak_bytes"] == peak
    assert reading["peak_bytes"] == max(before, 1000, peak or 0)


def test_a_pool_that_does_not_count_is_left_out(monkeypatch):
    early = SimpleNamespace(default_memory_pool=lambda: SimpleNamespace(backend_name="system"))
    monkeypatch.setitem(sys.modules, "pyarrow", early)
    assert PoolTotals().read() is None
