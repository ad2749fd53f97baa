"""Limits are found by mount and controller, hold, and leave nothing behind."""

from __future__ import annotations

import os

import pytest

from spillway.errors import OptionError
from spillway.harness.limits import (
    Unlimited,
    choose_cores,
    choose_limiter,
    detect_limiters,
    prove,
    proved,
    stepping_aside,
)
from spillway.harness.limits.cgroup import CgroupV1, CgroupV2

MIB = 1 << 20
LIMITERS = detect_limiters()


@pytest.mark.parametrize("limiter", LIMITERS, ids=lambda limiter: limiter.kind)
@pytest.mark.parametrize("limit", [96 * MIB, 256 * MIB])
def test_a_canary_dies_between_nine_and_eleven_tenths_of_the_limit(limiter, limit):
    proof = prove(limiter, limit)
    assert proof.holds
    assert 0.9 <= proof.died_at_bytes / limit <= 1.1


def test_a_limit_above_what_is_free_is_refused_before_a_process_takes_all_of_it():
    with pytest.raises(OptionError, match=r"--memory: the limit is .* MB, and .* MB of memory are free here"):
        proved(Unlimited(), 1 << 50, option="--memory", advice="")


def test_a_canary_without_a_limit_survives_and_proves_nothing():
    proof = prove(Unlimited(), 64 * MIB)
    assert proof.ending == "survived"
    assert not proof.holds


@pytest.mark.parametrize(
    "limiter",
    [limiter for limiter in LIMITERS if isinstance(limiter, CgroupV1 | CgroupV2)],
    ids=lambda limiter: limiter.kind,
)
def test_a_group_is_gone_after_its_box(limiter):
    def own():
        """The groups of this process: others come and go."""
        return set(limiter.parent.glob(f"spillway-{os.getpid()}-*"))

    before = own()
    with limiter.limit(64 * MIB):
        assert own() - before
    assert own() == before


def test_an_unknown_kind_names_those_there_are():
    with pytest.raises(OptionError, match="cgroup-v2, cgroup-v1, systemd-scope, rlimit-data"):
        choose_limiter("ulimit")


def test_a_kind_that_is_not_offered_names_those_that_are():
    lacking = {"cgroup-v2", "cgroup-v1", "systemd-scope"} - {limiter.kind for limiter in LIMITERS}
    assert lacking, "no machine offers all three"
    for kind in lacking:
        with pytest.raises(OptionError, match="rlimit-data"):
            choose_limiter(kind)


def test_more_cores_than_there_are_is_an_error():
    with pytest.raises(OptionError, match="--cores"):
        choose_cores(len(os.sched_getaffinity(0)) + 1)


def test_the_parent_steps_aside_and_comes_back():
    before = os.sched_getaffinity(0)
    cores = choose_cores(1)
    with stepping_aside(cores) as apart:
        inside = os.sched_getaffinity(0)
        assert apart == bool(before - set(cores))
    assert inside == (before - set(cores) or before)
    assert os.sched_getaffinity(0) == before


def test_a_parent_without_a_core_of_its_own_says_so():
    with stepping_aside(choose_cores(len(os.sched_getaffinity(0)))) as apart:
        assert not apart
