"""Options become cells, cells become an order; what cannot be is refused with what can."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillway.bench.plan import Options, plan_cells
from spillway.errors import OptionError
from spillway.harness.schedule import schedule

BACKENDS = ("spillway", "polars", "duckdb")


def test_the_default_run_is_batches_at_six_sizes_and_other_modes_at_the_largest():
    cells = plan_cells(Options(backends=BACKENDS))
    batches = sorted({cell.rows for cell in cells if cell.mode == "batches"})
    assert batches == [10_000, 25_000, 50_000, 100_000, 200_000, 400_000]
    assert {cell.rows for cell in cells if cell.mode != "batches"} == {400_000}
    assert {cell.mode for cell in cells} == {"batches", "batches-retained", "table"}
    assert len(cells) == 8 * len(BACKENDS)


def test_the_table_mode_alone_is_measured_at_all_sizes():
    cells = plan_cells(Options(backends=BACKENDS, modes=("table",), rows=(10, 20)))
    assert {cell.rows for cell in cells} == {10, 20}


def test_every_limit_is_a_cell_of_its_own():
    options = Options(
        backends=("spillway",), rows=(10,), modes=("batches",), memory=(None, 10**9), limit_kind="cgroup-v1"
    )
    assert [(cell.memory_bytes, cell.limit_kind) for cell in plan_cells(options)] == [
        (None, "none"),
        (10**9, "cgroup-v1"),
    ]


def test_datasets_codecs_and_cores_are_dimensions():
    options = Options(
        backends=("spillway",),
        rows=(10,),
        modes=("batches",),
        datasets=("logs", "wide:10"),
        codecs=("zstd", "snappy", "gzip"),
        threads=(1, 2),
    )
    cells = plan_cells(options)
    assert {(cell.dataset, cell.codec, cell.level, cell.threads) for cell in cells} == {
        (dataset, codec, level, threads)
        for dataset in ("logs", "wide:10")
        for codec, level in (("zstd", 1), ("snappy", None), ("gzip", 6))
        for threads in (1, 2)
    }
    assert len(cells) == 12


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"backends": ("parquet-cpp",)}, "choose from: spillway"),
        ({"backends": ()}, "choose from: spillway"),
        ({"rows": (0,)}, "--rows"),
        ({"rows": ()}, "--rows"),
        ({"samples": 0}, "--samples"),
        ({"chunk_rows": (-1,)}, "--chunk-rows"),
        ({"codecs": ("zstd", "lzo")}, "zstd, gzip"),
        ({"codecs": ()}, "--codec"),
        ({"codecs": ("snappy",), "level": 1}, "leave --level out"),
        ({"codecs": ("zstd",), "level": 23}, "1 to 22"),
        ({"datasets": ()}, "--dataset"),
        ({"threads": (1, 0)}, "--cores"),
        ({"modes": ("stream",)}, "batches, batches-retained, table"),
        ({"timeout": 0}, "--timeout"),
    ],
)
def test_an_option_that_cannot_be_says_what_can(change, words):
    with pytest.raises(OptionError, match=words):
        Options(**{"backends": BACKENDS, **change})


@pytest.mark.parametrize(("codec", "level"), [("zstd", 1), ("gzip", 6), ("brotli", 1), ("snappy", None)])
def test_a_codec_with_levels_always_gets_one(codec, level):
    cells = plan_cells(Options(backends=BACKENDS, codecs=(codec,)))
    assert {cell.level for cell in cells} == {level}


@given(st.integers(1, 5), st.integers(0, 2**32))
def test_each_block_holds_every_cell_once_and_the_seed_decides_the_order(blocks, seed):
    cells = plan_cells(Options(backends=BACKENDS))
    slots = list(schedule(cells, blocks=blocks, seed=seed))
    for block in range(blocks):
        in_block = [slot for slot in slots if slot.block == block]
        assert {slot.cell for slot in in_block} == set(cells)
        assert [slot.position for slot in in_block] == list(range(len(cells)))
    assert slots == list(schedule(cells, blocks=blocks, seed=seed))


def test_blocks_are_not_all_in_one_order():
    cells = plan_cells(Options(backends=BACKENDS))
    slots = list(schedule(cells, blocks=2, seed=1))
    assert [slot.cell for slot in slots if slot.block == 0] != [
        slot.cell for slot in slots if slot.block == 1
    ]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"timeout": float("inf")}, "--timeout takes seconds"),
        ({"timeout": float("nan")}, "--timeout takes seconds"),
        ({"budget_minutes": float("inf")}, "--budget takes minutes"),
        ({"rows": (10, 10)}, "--rows has 10 twice"),
    ],
)
def test_times_are_finite_and_no_value_comes_twice(change, says):
    with pytest.raises(OptionError, match=says):
        Options(backends=("spillway",), **change)
