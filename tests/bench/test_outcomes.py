"""Each way of dying is told from the others, and every record fits the schema."""

from __future__ import annotations

import dataclasses
import time
from contextlib import contextmanager

import pytest

from spillway.bench.record import SCHEMA
from spillway.bench.summary import reason
from spillway.harness import processes
from spillway.harness.limits import RlimitData, Unlimited, detect_limiters

pytestmark = pytest.mark.usefixtures("misbehaving")
MIB = 1 << 20


@pytest.mark.parametrize(
    ("backend", "outcome", "died_in"),
    [
        ("well-behaved", "ok", None),
        ("raises-memory-error", "memory_error", "write"),
        ("raises", "library_error", "write"),
        ("exits", "library_error", "write"),
        ("aborts", "aborted", "write"),
        ("crashes", "segfault", "write"),
        ("is-killed", "aborted", "write"),
        ("loses-a-row", "wrong_output", None),
        ("writes-no-parquet", "wrong_output", None),
    ],
)
def test_each_way_to_end_has_its_outcome(take, backend, outcome, died_in):
    record = take(backend)
    SCHEMA.check(record)
    assert (record["outcome"], record["died_in"]) == (outcome, died_in)


class Uncounted(Unlimited):
    """A limit under which nobody counts the kills, as in a scope of systemd."""

    @contextmanager
    def limit(self, size):
        with super().limit(size) as limit:
            yield dataclasses.replace(limit, oom_kills=lambda: None)


def test_a_kill_under_a_limit_that_counts_none_is_the_limits(take):
    assert take("is-killed", Uncounted(), 512 * MIB)["outcome"] == "oom_killed"
    assert take("aborts", Uncounted(), 512 * MIB)["outcome"] == "aborted"


def test_a_sample_that_was_killed_still_tells_what_its_group_was_charged_with(take):
    (limiter,) = [each for each in detect_limiters() if each.kind.startswith("cgroup")][:1]
    group = take("takes-all", limiter, 256 * MIB)["group"]
    assert group["peak_bytes"] == pytest.approx(256 * MIB, rel=0.02)
    assert group["write_peak_bytes"] is None


def test_a_failed_sample_says_what_the_library_said_but_not_where(take):
    record = take("raises")
    assert record["error"]["type"] == "OSError"
    assert "No space left on device" in record["error"]["message"]
    assert "/some/where" not in str(record)


def test_the_end_of_stderr_is_kept(take):
    record = take("aborts")
    assert "terminate called" in record["stderr"]
    assert record["signal"] == "SIGABRT"


def test_a_writer_that_hangs_is_killed_when_its_time_is_up(take):
    # On a busy machine, a process may not have come to its writer in a few seconds.
    for timeout in (3, 15, 60):
        record = take("hangs", timeout=timeout)
        assert record["outcome"] == "timeout"
        if record["died_in"] == "write":
            break
    assert record["died_in"] == "write"


def test_a_writer_that_leaves_a_thread_does_not_take_all_the_time_of_a_sample(take, monkeypatch):
    monkeypatch.setattr(processes, "_LEAVING_SECONDS", 1.0)
    begin = time.monotonic()
    record = take("leaves-a-thread", timeout=300)
    assert time.monotonic() - begin < 150
    assert (record["outcome"], record["died_in"]) == ("timeout", "exit")
    assert reason(record) == "its process did not end after the write, as with a thread that the library left"


@pytest.mark.parametrize("limiter", detect_limiters(), ids=lambda limiter: limiter.kind)
def test_a_limit_that_is_crossed_ends_the_sample(take, limiter):
    record = take("takes-all", limiter, 512 * MIB)
    SCHEMA.check(record)
    crossed = (
        {"memory_error", "library_error", "aborted"} if isinstance(limiter, RlimitData) else {"oom_killed"}
    )
    assert record["outcome"] in crossed
    assert record["died_in"] == "write"


@pytest.mark.parametrize("limiter", detect_limiters(), ids=lambda limiter: limiter.kind)
def test_a_limit_that_is_not_crossed_changes_nothing(take, limiter):
    assert take("takes-200-MiB", limiter, 2048 * MIB)["outcome"] == "ok"


def test_nothing_of_a_failed_sample_is_left_on_disk(taker, take):
    take("crashes")
    assert list(taker.files.fresh.parent.iterdir()) == []


def test_what_a_library_spills_is_cleaned_up(taker, take, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert take("spills")["outcome"] == "ok"
    assert list(tmp_path.iterdir()) == []
    assert [path.suffix for path in taker.files.fresh.parent.iterdir()] == [".parquet"]
