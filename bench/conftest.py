"""Fixtures of the suite: writers side by side in one test, and the machine beside what was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_spillway import clock
from spillway.harness.environment import describe_machine, read_load, refuse_debug_build

from .side_by_side import SideBySide

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

_FIXTURE = "side_by_side"
_ENVIRONMENT: pytest.StashKey[dict[str, Any]] = pytest.StashKey()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give tests that take `rows` the numbers of their module: those to check alone, or those to measure."""
    if "rows" in metafunc.fixturenames and hasattr(metafunc.module, "CHECKED_ROWS"):
        is_checked = metafunc.config.getoption("benchmark_disable", default=True)
        rows = metafunc.module.CHECKED_ROWS if is_checked else metafunc.module.MEASURED_ROWS
        metafunc.parametrize("rows", rows, scope="module")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have pytest-benchmark count the seconds that `SideBySide` reports."""
    for item in items:
        if _FIXTURE in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.benchmark(timer=clock.measured_seconds))


@pytest.fixture(scope="session")
def machine(request: pytest.FixtureRequest) -> None:
    """Describe the machine before anything is measured on it.

    Raises:
        OptionError: The native module has debug assertions.
    """
    refuse_debug_build()
    request.config.stash[_ENVIRONMENT] = {**describe_machine(), "load_before": read_load()}


@pytest.fixture
def side_by_side(request: pytest.FixtureRequest, benchmark: BenchmarkFixture) -> SideBySide:
    """Measure some ways to do one thing, in blocks in which each is taken once."""
    return SideBySide(request, benchmark)


@pytest.hookimpl(optionalhook=True)
def pytest_benchmark_update_json(config: pytest.Config, output_json: dict[str, Any]) -> None:
    """Put the machine, as `scripts/suite.py` keeps it, beside the benchmarks."""
    output_json["environment"] = config.stash.get(_ENVIRONMENT, None)
