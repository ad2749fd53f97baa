"""Every probe is asked for an effect of known size: the table of calibration in the docs.

``SPILLWAY_CALIBRATION=1`` has the tests write what they saw to ``results/calibration.json``, of which
``make readme`` makes the table.
"""

from __future__ import annotations

import gc
import json
import mmap
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from spillway.harness.environment import cpu_model
from spillway.harness.probes import process
from spillway.harness.probes.curve import CurveProbe, read_curve
from spillway.harness.probes.interpreter import GarbageProbe, GilTicker
from spillway.harness.probes.process import GroupProbe

pytestmark = pytest.mark.usefixtures("misbehaving")
MIB = 1 << 20
MB = 1e6
# Other processes may hide an effect from a probe, and plant none: a reading that misses it is taken again.
TRIES = 10
LEDGER = Path(__file__).parents[2] / "results" / "calibration.json"


@dataclass(frozen=True)
class Reading:
    """One planted effect and what a probe said of it."""

    probe: str
    effect: str
    planted: float
    seen: float
    unit: str


@pytest.fixture(scope="module")
def ledger():
    """The readings of the tests of this file, written where that is asked for."""
    seen = {"readings": [], "costs": []}
    yield seen
    if os.environ.get("SPILLWAY_CALIBRATION"):
        document = {"cpu_model": cpu_model(), "kernel": os.uname().release, **seen}
        LEDGER.write_text(json.dumps(document, indent=2) + "\n")


@pytest.fixture
def enter(ledger):
    """Enters a reading, which has to be within a share of what was planted."""

    def enter_one(probe, effect, planted, seen, unit, *, within):  # noqa: PLR0913 - a row of the table
        ledger["readings"].append(asdict(Reading(probe, effect, planted, round(seen, 4), unit)))
        assert seen == pytest.approx(planted, rel=within)

    return enter_one


@pytest.fixture
def enter_cost(ledger):
    """Enters what a probe costs."""

    def enter_one(probe, words):
        ledger["costs"].append({"probe": probe, "cost": words})

    return enter_one


@pytest.fixture
def plain(take):
    return take("well-behaved")


def cgroup_growth(sample):
    return sample["group"]["write_peak_bytes"] - sample["group"]["before_bytes"]


def test_memory_that_was_touched_and_freed(take, plain, enter):
    planted, what = 200 * MIB / MB, "200 MiB touched and freed in the write"

    def from_outside(sample):
        seen = max(sample["curve"]["rss_bytes"], default=0) - sample["memory"]["before"]["rss"]
        return (seen - plain["memory"]["growth_bytes"]) / MB

    samples = (take("takes-200-MiB") for _ in range(TRIES))
    sample = next((each for each in samples if from_outside(each) > 0.85 * planted), None)
    assert sample is not None, "nobody looked while it was held"
    grown = sample["memory"]["growth_bytes"] - plain["memory"]["growth_bytes"]
    # The writer's own memory may peak before the planted one comes.
    enter("growth of RSS", what, planted, grown / MB, "MB", within=0.05)
    enter("RSS over time", what, planted, from_outside(sample), "MB", within=0.15)
    seen = (cgroup_growth(sample) - cgroup_growth(plain)) / MB
    enter("cgroup memory", what, planted, seen, "MB", within=0.02)


def test_pages_that_were_spilled(take, plain, enter):
    planted, what = 64 * MIB / MB, "64 MiB spilled to a file without a name"
    sample = take("spills-to-a-file")
    spilled = sample["use"]["bytes_written"] - sample["output"]["bytes"]
    stored = sample["use"]["storage_bytes"] - plain["use"]["storage_bytes"]
    seen = (cgroup_growth(sample) - cgroup_growth(plain)) / MB
    enter("cgroup memory", what, planted, seen, "MB", within=0.05)
    enter("bytes written", what, planted, spilled / MB, "MB", within=0.01)
    enter("bytes of dirty pages", what, planted, stored / MB, "MB", within=0.01)
    # Resident memory does not see the memory of the group.
    assert sample["memory"]["growth_bytes"] < 64 * MIB
    assert sample["group"]["peak_bytes"] >= sample["group"]["write_peak_bytes"]


def test_memory_in_huge_pages(take, plain, enter):
    if Path("/sys/kernel/mm/transparent_hugepage/enabled").read_text().find("[never]") >= 0:
        return  # none are to be had
    held, usual = (each["memory"]["rollup_after"]["huge"] for each in (take("takes-huge-pages"), plain))
    seen = held - usual
    enter("huge pages", "64 MiB of huge pages, held", 64 * MIB / MB, seen / MB, "MB", within=0.05)


TRACED = """
import memray, sys
planted = int(sys.argv[2])
held = [None] * planted
with memray.Tracker(sys.argv[1]):
    for place in range(planted):
        held[place] = bytearray(1 << 15)
"""


def test_memory_that_was_allocated(tmp_path, enter):
    curves = []
    for planted in (0, 2000):
        trace = tmp_path / f"{planted}.bin"
        subprocess.run([sys.executable, "-c", TRACED, str(trace), str(planted)], check=True, timeout=60)
        curves.append(read_curve(trace))
    count = curves[1]["allocations"] - curves[0]["allocations"]
    peak = curves[1]["peak_bytes"] - curves[0]["peak_bytes"]
    enter("allocations (memray)", "2,000 allocations of 32 KiB", 2000, count, "", within=0.02)
    planted, what = 2000 * 2**15 / MB, "2,000 allocations of 32 KiB"
    enter("allocated peak (memray)", what, planted, peak / MB, "MB", within=0.02)


def test_what_pyarrows_pool_hands_out(enter):
    totals = process.PoolTotals()
    held = [pa.allocate_buffer(MIB) for _ in range(50)]
    seen = totals.read()
    what = f"{len(held)} buffers of 1 MiB"
    enter("pyarrow's pool, bytes", what, 50 * MIB / MB, seen["allocated_bytes"] / MB, "MB", within=0.01)
    enter("pyarrow's pool, allocations", what, 50, seen["allocations"], "", within=0.01)


def test_a_gil_that_was_held(probe, enter):
    gaps = []
    while len(gaps) < 20 and not (gaps and min(gaps) < 0.055):  # a busy host can only lengthen a gap
        gaps.append(probe("holds-the-gil", "gil")["gil"]["longest_gap_seconds"])
    enter("GIL gap", "the GIL held for 50 ms", 50, min(gaps) * 1e3, "ms", within=0.1)


def test_collections_that_were_forced(probe, enter):
    usual, forced = (probe(name, "gc") for name in ("well-behaved", "collects"))
    assert forced["gil"] is None
    assert 0 < forced["gc"]["longest_pause_seconds"] <= forced["gc"]["pause_seconds"]
    runs = [each["gc"]["runs_by_generation"][2] for each in (usual, forced)]
    enter("garbage collector", "3 forced collections", 3, runs[1] - runs[0], "runs", within=0)


def test_time_that_was_spent(enter):
    before, end = process.read_usage(), time.process_time() + 0.2
    while time.process_time() < end:
        pass
    used = process.usage_between(before, process.read_usage())
    seen = used["user_seconds"] + used["system_seconds"]
    enter("processor time", "200 ms of a loop", 200, seen * 1e3, "ms", within=0.1)


def test_pages_that_were_touched(enter):
    pages = 10 * MIB // mmap.PAGESIZE
    before = process.read_usage()
    with mmap.mmap(-1, 10 * MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as block:
        for page in range(pages):
            block[page * mmap.PAGESIZE] = 1
    seen = process.usage_between(before, process.read_usage())["minor_faults"]
    enter("page faults", f"{pages:,} pages of 4 KiB touched", pages, seen, "", within=0.02)


def processor_time(action, times):
    """Microseconds of this process for each of so many calls."""
    begin = time.process_time()
    for _ in range(times):
        action()
    return (time.process_time() - begin) / times * 1e6


def test_the_ticker_of_the_gil_costs_microseconds_a_tick(enter_cost):
    def cost():
        ticker, begin = GilTicker(), time.process_time()
        ticker.start()
        time.sleep(0.3)
        ticks = ticker.stop()["ticks"]
        return (time.process_time() - begin) / max(1, ticks) * 1e6

    each = next((seen for seen in (cost() for _ in range(TRIES)) if seen < 200), None)
    assert each is not None
    enter_cost("GIL gap", f"{each:.0f} us of processor time a tick, each millisecond, in writes of its own")


def test_the_garbage_probe_costs_microseconds_a_collection(enter_cost):
    def collect():
        gc.collect(0)

    gc.collect()
    usual = min(processor_time(collect, 2000) for _ in range(3))
    listener = GarbageProbe()
    listener.start()
    heard = min(processor_time(collect, 2000) for _ in range(3))
    listener.stop()
    each = max(0.0, heard - usual)
    enter_cost("garbage collector", f"{each:.1f} us a collection, in writes of its own")
    assert each < 50


def test_a_point_of_the_curve_costs_the_watching_core_microseconds(enter_cost):
    watch = CurveProbe()
    each = processor_time(lambda: watch.sample(os.getpid()), 500)
    enter_cost("RSS over time", f"{each:.0f} us of another core for each point, a point each 5 ms")
    assert each < 1000


def test_readings_around_the_write_cost_microseconds_and_lie_outside_it(enter_cost):
    group = GroupProbe(None)

    def read():
        process.reset_high_water()
        process.read_memory()
        group.start()
        process.read_usage()

    each = processor_time(read, 200)
    enter_cost(
        "RSS, cgroup memory, bytes, faults, processor time", f"{each:.0f} us before the write and after it"
    )
    assert each < 20_000
