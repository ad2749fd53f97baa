"""The study's matrix: every writer of Arrow rows, by rows and by the form in which rows arrive.

Each round is a process of its own, with one core and a proved memory limit. An engine that did not write the
file reads it back. Within a group, of one number of rows and one mode, times compare. ``pytest bench``
measures; with ``--benchmark-disable`` each writer writes the fewest rows once, with all assertions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spillway import backends

if TYPE_CHECKING:
    import pytest
    from pytest_benchmark.fixture import BenchmarkFixture

    from pytest_spillway import ParquetBenchmark

CHECKED = [(10_000, "batches"), (10_000, "table")]
MEASURED = [(10_000, "batches"), (100_000, "batches"), (100_000, "batches-retained"), (100_000, "table")]
MEMORY = "512MB"
WITH_A_POOL = {"polars", "duckdb"}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    is_checked = metafunc.config.getoption("benchmark_disable", default=True)
    metafunc.parametrize(("rows", "mode"), CHECKED if is_checked else MEASURED)
    metafunc.parametrize("writer", backends.with_modes(["batches", "table"]))


def test_write(
    parquet_benchmark: ParquetBenchmark, benchmark: BenchmarkFixture, writer: str, rows: int, mode: str
) -> None:
    benchmark.group = f"{rows:,} rows, {mode}"
    found = parquet_benchmark(writer, rows=rows, mode=mode, memory=MEMORY)
    assert found["limit"]["proved"]
    assert found["read_back_by"]
    assert (found["writer"], found["rows"]) == (writer, rows)
    assert set(found["pools"].values()) == {1}, found["pools"]
    assert {"pyarrow-cpu", "pyarrow-io", *({writer} & WITH_A_POOL)} <= set(found["pools"])
    assert 0 < found["file_bytes"] < found["arrow_bytes"]
