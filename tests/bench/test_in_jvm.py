"""A sample of a backend that has a JVM: warm before it is measured, and the JVM read beside Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from pytest_spillway.figures import figures_of
from spillway.bench.record import SCHEMA

from .conftest import ROWS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from spillway.bench.record import Sample

PLANTED = 16 << 20


@pytest.fixture
def sample(take: Callable[..., dict[str, Any]], misbehaving: Path) -> dict[str, Any]:  # noqa: ARG001 - its backend
    return take("has-a-jvm")


def test_the_jvm_is_warm_and_its_heap_and_memory_are_in_the_record(sample: dict[str, Any]) -> None:
    SCHEMA.check(sample)
    assert sample["outcome"] == "ok", sample["error"]
    jvm = sample["jvm"]
    # Three writes of all rows make the 25,000 that the backend asks for.
    assert jvm["warm_up"]["rows"] == ROWS
    assert len(jvm["warm_up"]["seconds"]) == 3
    assert jvm["hand_over_seconds"] == 0.25
    heap = jvm["heap"]
    assert PLANTED < heap["peak_bytes"] <= heap["limit_bytes"] == pytest.approx(256 << 20, rel=0.05)
    assert max(heap["live_before_bytes"], heap["live_after_bytes"]) < PLANTED
    assert {one["name"] for one in jvm["collectors"]}
    assert jvm["rss_peak_bytes"] > PLANTED
    assert jvm["both_peak_bytes"] == jvm["rss_peak_bytes"] + sample["memory"]["after"]["high_water"]


def test_the_plugin_of_pytest_has_the_memory_of_both(sample: dict[str, Any]) -> None:
    found = figures_of([cast("Sample", sample)], [])
    assert found["peak_rss_bytes"] == sample["jvm"]["both_peak_bytes"]
    assert found["peak_growth_bytes"] is None  # the heap has grown before


def test_a_backend_without_one_has_no_reading(
    take: Callable[..., dict[str, Any]],
    misbehaving: Path,  # noqa: ARG001 - its backend
) -> None:
    assert take("well-behaved")["jvm"] is None
