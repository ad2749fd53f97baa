"""The probe of a JVM sees what is planted in it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from spillway.harness.probes.jvm import JvmProbe

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spillway.harness.probes.readings import UsageReading

pytestmark = pytest.mark.spark
# Ten times the megabytes that the session beside it lets go of meanwhile.
PLANTED = 192 << 20
OUTSIDE = 64 << 20
HUGE_PAGE = 2 << 20
NOTHING: UsageReading = {
    "wall_seconds": 1.0,
    "user_seconds": 0.0,
    "system_seconds": 0.0,
    "minor_faults": 0,
    "major_faults": 0,
    "voluntary_switches": 0,
    "involuntary_switches": 0,
    "bytes_written": 0,
    "write_calls": 0,
    "storage_bytes": 0,
    "cancelled_bytes": 0,
}


@pytest.fixture
def gateway(spark: SparkSession) -> Any:
    return spark.sparkContext._gateway


def read(probe: JvmProbe) -> Any:
    probe.stop()
    return probe.read(warm_up={"rows": 1, "seconds": [0.1]}, hand_over_seconds=0.0, python_peak_bytes=5)


def settle(gateway: Any) -> None:
    """Wait until collections free nothing more: Spark cleans up behind other tests of the session."""
    runtime, before = gateway.jvm.java.lang.Runtime.getRuntime(), None
    for _ in range(50):
        gateway.jvm.java.lang.System.gc()
        used = runtime.totalMemory() - runtime.freeMemory()
        if before is not None and before - used < PLANTED // 100:
            return
        before = used
        time.sleep(0.1)
    raise TimeoutError("after 50 collections the JVM still frees memory that other tests have left")


def test_objects_on_the_heap_are_seen_live_and_at_their_peak(gateway: Any) -> None:
    settle(gateway)
    probe = JvmProbe(gateway)
    planted = gateway.new_array(gateway.jvm.long, PLANTED // 8)
    heap = read(probe)["heap"]
    assert len(planted) == PLANTED // 8
    assert heap["live_after_bytes"] - heap["live_before_bytes"] == pytest.approx(PLANTED, rel=0.1)
    assert heap["live_before_bytes"] + 0.9 * PLANTED < heap["peak_bytes"] <= heap["limit_bytes"]


def test_a_collection_is_counted_once(gateway: Any) -> None:
    began = time.monotonic()
    probe = JvmProbe(gateway)
    gateway.jvm.java.lang.System.gc()
    found = read(probe)
    elapsed = time.monotonic() - began
    assert sum(each["runs"] for each in found["collectors"]) in {
        1,
        2,
    }  # a full one may begin with a young one
    # The clock of collectors has milliseconds.
    assert all(each["seconds"] <= elapsed + 0.1 for each in found["collectors"])


def test_the_peaks_of_both_processes_are_added(gateway: Any) -> None:
    found = read(JvmProbe(gateway))
    assert found["both_peak_bytes"] == found["rss_peak_bytes"] + 5
    assert found["rss_peak_bytes"] >= found["rss_before_bytes"] > PLANTED


def test_the_work_of_the_jvm_is_added_to_that_of_python(gateway: Any) -> None:
    probe = JvmProbe(gateway)
    values = gateway.new_array(gateway.jvm.long, 4_000_000)
    for _ in range(4):
        gateway.jvm.java.util.Arrays.parallelSort(values)
        gateway.jvm.java.util.Arrays.fill(values, 7)
    # Outside the heap, whose pages an earlier test may have touched already.
    buffer = gateway.jvm.java.nio.ByteBuffer.allocateDirect(OUTSIDE)
    probe.stop()
    use = probe.add_to(NOTHING)
    assert buffer.capacity() == OUTSIDE
    assert use["wall_seconds"] == 1.0
    assert use["user_seconds"] > 0
    assert use["minor_faults"] >= OUTSIDE // HUGE_PAGE
