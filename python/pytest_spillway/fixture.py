"""The fixture, where pytest-benchmark is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_spillway.timing import clock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_benchmark.fixture import BenchmarkFixture

    from pytest_spillway.measuring import ParquetBenchmark


@pytest.fixture
def parquet_benchmark(
    request: pytest.FixtureRequest, benchmark: BenchmarkFixture
) -> Iterator[ParquetBenchmark]:
    """Measure a Parquet writer in fresh processes under a proved memory limit."""
    marker = request.node.get_closest_marker("benchmark")
    if marker is None or marker.kwargs.get("timer") not in {clock.measured_seconds, clock.processor_seconds}:
        # pytest-benchmark has its clock from before: it would time this process, which only starts others.
        pytest.fail(
            "parquet_benchmark has to be an argument of the test or of one of its fixtures: "
            "request.getfixturevalue asks for it too late to measure with its clock",
            pytrace=False,
        )
    try:
        from pytest_spillway.measuring import ParquetBenchmark
    except ModuleNotFoundError as error:
        pytest.fail(
            f"parquet_benchmark needs {error.name}: pip install 'spillway[bench]' pytest-benchmark",
            pytrace=False,
        )
    with ParquetBenchmark(request, benchmark) as measure:
        yield measure
