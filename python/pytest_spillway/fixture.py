"""The fixture, where pytest-benchmark is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_benchmark.fixture import BenchmarkFixture

    from pytest_spillway.measuring import ParquetBenchmark


@pytest.fixture
def parquet_benchmark(
    request: pytest.FixtureRequest, benchmark: BenchmarkFixture
) -> Iterator[ParquetBenchmark]:
    """Measure a Parquet writer in fresh processes under a proved memory limit."""
    try:
        from pytest_spillway.measuring import ParquetBenchmark
    except ModuleNotFoundError as error:
        pytest.fail(
            f"parquet_benchmark needs {error.name}: pip install 'spillway[bench]' pytest-benchmark",
            pytrace=False,
        )
    with ParquetBenchmark(request, benchmark) as measure:
        yield measure
