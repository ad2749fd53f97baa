"""The probe of a JVM sees what is planted in it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import SparkConf
from pyspark.java_gateway import launch_gateway

from spillway.harness.probes.jvm import JvmProbe
from spillway.spark.session import find_java

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spillway.harness.probes.readings import UsageReading

pytestmark = pytest.mark.spark
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


@pytest.fixture(scope="module")
def gateway() -> Iterator[Any]:
    """A JVM without a Spark session, which would let go of memory at times of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_HOME", str(find_java().program.resolve().parent.parent))
        patch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
        conf = SparkConf(loadDefaults=False).set("spark.driver.memory", "1g")
        gateway: Any = launch_gateway(conf)  # type: ignore[no-untyped-call]  # typed in part
    yield gateway
    gateway.shutdown()
    gateway.proc.stdin.close()  # which ends the JVM
    gateway.proc.wait(timeout=60)


def read(probe: JvmProbe) -> Any:
    probe.stop()
    return probe.read(warm_up={"rows": 1, "seconds": [0.1]}, hand_over_seconds=0.0, python_peak_bytes=5)


def test_objects_on_the_heap_are_seen_live_and_at_their_peak(gateway: Any) -> None:
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
    assert found["rss_peak_bytes"] >= found["rss_before_bytes"] > OUTSIDE


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
