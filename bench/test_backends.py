"""Every backend under pytest-benchmark: how long one small file takes, in this process.

For a quick comparison while changing a writer: within a group, of one dataset and mode, times compare. Every
backend has one thread. Nothing is pinned, limited or read back here; a figure to quote comes from
``spillway bench``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spillway import backends, datasets
from spillway.backends import Settings
from spillway.harness.probes.pools import set_threads, threads_in_force

from .conftest import THREADS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_benchmark.fixture import BenchmarkFixture

BATCHES = 2
MODES = ("batches", "table")
ROUNDS = 5
SETTINGS = Settings(codec="zstd", level=1, row_group_rows=1_048_576, threads=THREADS)


@pytest.fixture(scope="module", params=datasets.names())
def dataset(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def rows(dataset: str) -> list[pa.RecordBatch]:
    return list(datasets.batches(dataset, 1, BATCHES * datasets.CHUNK_ROWS))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", backends.with_modes(MODES))
def test_write(  # noqa: PLR0913, PLR0917 - what is measured, and with what
    benchmark: BenchmarkFixture,
    tmp_path: Path,
    dataset: str,
    rows: list[pa.RecordBatch],
    name: str,
    mode: str,
) -> None:
    data = [pa.Table.from_batches(rows)] if mode == "table" else rows
    path = tmp_path / "file.parquet"
    backend = backends.load(name)
    set_threads(THREADS)
    benchmark.group = f"{dataset}, {mode}"
    benchmark.extra_info["rows"] = BATCHES * datasets.CHUNK_ROWS
    benchmark.pedantic(_write, setup=_fresh(backend, path, data), rounds=ROUNDS, warmup_rounds=1)
    pools = {each["pool"]: each["threads"] for each in threads_in_force(backend)}
    benchmark.extra_info["pools"] = pools
    assert set(pools.values()) == {THREADS}, pools
    assert pq.read_metadata(path).num_rows == BATCHES * datasets.CHUNK_ROWS


def _fresh(
    backend: backends.Backend, path: Path, data: list[pa.RecordBatch]
) -> Callable[[], tuple[tuple, dict]]:
    def setup() -> tuple[tuple, dict]:
        path.unlink(missing_ok=True)
        return (backend, path, data), {}

    return setup


def _write(backend: backends.Backend, path: Path, data: list[pa.RecordBatch]) -> None:
    sink = backend.open(path, data[0].schema, SETTINGS)
    for each in data:
        sink.write(each)
    sink.close()
