"""Several writers that share a memory budget: the same files as by themselves, and memory within it."""

from __future__ import annotations

import io
import json
import pickle
import subprocess
import sys
from textwrap import dedent
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import spillway
from spillway import delta

from ..counts import examples

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 20_000
RANDOM = np.random.default_rng(0)
BATCH = pa.record_batch(
    {
        "noise": RANDOM.integers(0, 2**62, ROWS),
        "few": RANDOM.integers(0, 500, ROWS),
        "text": [f"{value:x}" for value in RANDOM.integers(0, 2**40, ROWS)],
    }
)


def alone(limit: int | str) -> bytes:
    file = io.BytesIO()
    spillway.write_parquet(BATCH, file, memory_limit=limit)
    return file.getvalue()


@settings(max_examples=examples(0.5), deadline=None)
@given(
    share=st.integers(500_000, 2_000_000),
    spare=st.integers(0, 3),
    steps=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 9_000)), max_size=12),
)
def test_each_file_is_that_of_its_share_whatever_others_write(
    share: int, spare: int, steps: list[tuple[int, int]]
) -> None:
    budget = spillway.MemoryBudget(share * (3 + spare), writers=3 + spare)
    files = [io.BytesIO() for _ in range(3)]
    writers = [spillway.ParquetWriter(file, BATCH.schema, memory_limit=budget) for file in files]
    starts = [0, 0, 0]
    for index, rows in steps:
        writers[index].write(BATCH.slice(starts[index], rows))
        starts[index] += rows
    for writer, start in zip(writers, starts, strict=True):
        writer.write(BATCH.slice(start))
        writer.close()
    assert budget.open_writers == 0
    expected = alone(budget.share)
    assert all(file.getvalue() == expected for file in files)


def test_a_file_spills_less_while_others_leave_their_shares() -> None:
    budget = spillway.MemoryBudget("16MB", writers=16)
    shared = {}
    for writers in (1, 2):
        files = [io.BytesIO() for _ in range(writers)]
        opened = [
            spillway.ParquetWriter(file, BATCH.schema, memory_limit=budget, row_group_bytes=1 << 30)
            for file in files
        ]
        for _ in range(3):
            for writer in opened:
                writer.write(BATCH)
        for writer in opened:
            writer.close()
        shared[writers] = opened[0].result.spilled_bytes
    assert shared[1] < shared[2]


def test_one_file_too_many_is_refused_until_another_is_closed(tmp_path: Path) -> None:
    budget = spillway.MemoryBudget("4MB", writers=2)
    first = spillway.ParquetWriter(io.BytesIO(), BATCH.schema, memory_limit=budget)
    second = spillway.ParquetWriter(io.BytesIO(), memory_limit=budget)
    assert budget.open_writers == 2
    with pytest.raises(spillway.OptionError, match="2 files at a time") as refused:
        spillway.ParquetWriter(tmp_path / "third.parquet", BATCH.schema, memory_limit=budget)
    assert refused.value.option == "memory_limit"
    assert not (tmp_path / "third.parquet").exists()
    first.write(BATCH)
    first.close()
    with spillway.ParquetWriter(io.BytesIO(), BATCH.schema, memory_limit=budget) as third:
        third.write(BATCH)
    second.abort()
    assert budget.open_writers == 0


def test_datasets_and_appends_take_a_share_for_each_open_file(tmp_path: Path) -> None:
    budget = spillway.MemoryBudget("8MB", writers=4)
    table = pa.table({"part": [0, 1, 2], "value": [1, 2, 3]})
    with spillway.DatasetWriter(tmp_path / "set", partition_by=["part"], memory_limit=budget) as writer:
        writer.write(table)
        assert budget.open_writers == 3
    assert budget.open_writers == 0
    rows = delta.write(tmp_path / "table", table, memory_limit=budget)
    assert rows is not None
    assert budget.open_writers == 0
    with (
        pytest.raises(spillway.OptionError),
        spillway.DatasetWriter(tmp_path / "more", partition_by=["part"], memory_limit=budget) as writer,
    ):
        writer.write(pa.table({"part": range(5), "value": range(5)}))
    assert budget.open_writers == 0


def test_a_budget_is_checked_when_it_is_made() -> None:
    for limit, writers in (("much", 1), (0, 1), ("1MB", 0), ("1MB", -1)):
        with pytest.raises(spillway.OptionError):
            spillway.MemoryBudget(limit, writers=writers)
    with pytest.raises(TypeError):
        spillway.MemoryBudget(1.5, writers=1)  # type: ignore[arg-type]
    budget = spillway.MemoryBudget("256MB", writers=100)
    assert (budget.limit, budget.writers, budget.share) == (256_000_000, 100, 2_560_000)
    with pytest.raises(TypeError):
        pickle.dumps(budget)
    with pytest.raises(spillway.OptionError, match="at least"):
        spillway.ParquetWriter(
            io.BytesIO(), BATCH.schema, memory_limit=spillway.MemoryBudget("1MB", writers=100)
        )


# Opens writers, gives each the same rows, and tells how much the process has grown: at most, and after close.
MEASURE = """
    import json, sys
    import numpy as np, pyarrow as pa, spillway
    writers, limit, folder = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    random = np.random.default_rng(0)
    batch = pa.record_batch({
        **{f"n{i}": random.integers(0, 2**62, 10_000) for i in range(10)},
        **{f"d{i}": random.integers(0, 500, 10_000) * 1_000_003 for i in range(20)},
    })
    def status(key):
        return next(int(l.split()[1]) << 10 for l in open("/proc/self/status") if l.startswith(key))
    memory = {} if limit == "none" else {"memory_limit": spillway.MemoryBudget(limit, writers=writers)}
    spillway.write_parquet(batch.slice(0, 1_000), f"{folder}/warm.parquet", **memory)
    before = status("VmRSS")
    open("/proc/self/clear_refs", "w").write("5")
    opened = [spillway.ParquetWriter(f"{folder}/{n}.parquet", batch.schema, **memory) for n in range(writers)]
    for writer in opened:
        writer.write(batch)
    for writer in opened:
        writer.close()
    print(json.dumps([status("VmHWM") - before, status("VmRSS") - before]))
"""


def grown(writers: int, limit: str, folder: Path) -> tuple[int, int]:
    command = [sys.executable, "-c", dedent(MEASURE), str(writers), limit, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    most, left = json.loads(done.stdout)
    return most, left


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_process_of_many_writers_stays_within_their_budget(tmp_path: Path) -> None:
    most, _ = grown(40, "64MB", tmp_path)
    assert most < 70_000_000


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_goes_back_to_the_system_when_many_writers_are_closed(tmp_path: Path) -> None:
    most, left = grown(40, "none", tmp_path)
    assert most > 120_000_000
    assert left < 80_000_000
