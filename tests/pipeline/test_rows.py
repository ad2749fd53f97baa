"""Rows are cut into partitions that hold each row once, of bounded size, and made as the dataset has them."""

from __future__ import annotations

import os
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spillway import datasets
from spillway.datasets.packaged import open_lineitem
from spillway.errors import OptionError
from spillway.spark import Sink
from spillway.spark.pipeline.command import Options
from spillway.spark.pipeline.rows import (
    MOST_ROWS,
    GeneratedRows,
    LineitemRows,
    count_lineitem,
    parse_rows,
    partition_bounds,
    partitions_for,
)
from spillway.spark.session import cores_of

from ..counts import examples


@pytest.mark.parametrize(
    ("text", "rows"), [("250000", 250_000), ("250_000", 250_000), ("250K", 250_000), ("1.5m", 1_500_000)]
)
def test_rows_are_read_with_their_unit(text: str, rows: int) -> None:
    assert parse_rows(text) == rows


@pytest.mark.parametrize("text", ["", "0", "-5", "1.5", "1.0001K", "many", "1G"])
def test_what_is_no_number_of_rows_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match="give a whole number from 1 up"):
        parse_rows(text)


def test_a_local_master_has_cores_and_a_cluster_says_none() -> None:
    usable = len(os.sched_getaffinity(0))
    masters = ("local", "local[*]", "local[3]", "local[3,2]", "local[*,2]", "spark://h:7077", "yarn")
    assert [cores_of(each) for each in masters] == [1, usable, 3, 3, usable, None, None]


@pytest.mark.parametrize("master", ["", "localhost", "local[]", "local[x]", "spark://", "http://h:1"])
def test_what_is_no_master_is_refused(master: str) -> None:
    with pytest.raises(OptionError, match="is not the address of a master: write local"):
        cores_of(master)


@given(rows=st.integers(1, 10**10), partitions=st.integers(1, 300))
def test_partitions_hold_each_row_once(rows: int, partitions: int) -> None:
    bounds = [partition_bounds(rows, partitions, number) for number in range(partitions)]
    assert bounds[0][0] == 0
    assert bounds[-1][1] == rows
    assert all(before[1] == after[0] for before, after in pairwise(bounds))
    assert all(start <= stop for start, stop in bounds)


@given(rows=st.integers(1, 10**10), cores=st.integers(1, 64))
def test_a_partition_is_bounded_however_many_rows_there_are(rows: int, cores: int) -> None:
    partitions = partitions_for(rows, cores)
    sizes = [partition_bounds(rows, partitions, number) for number in {0, partitions // 2, partitions - 1}]
    assert all(stop - start <= MOST_ROWS + datasets.CHUNK_ROWS for start, stop in sizes)


@given(
    name=st.sampled_from([*datasets.names(), "wide:12"]),
    seed=st.integers(-5, 5),
    rows=st.integers(1, 25_000),
    partitions=st.integers(1, 9),
)
@settings(max_examples=examples(0.2))
def test_partitions_in_turn_are_the_rows_of_the_dataset(
    name: str, seed: int, rows: int, partitions: int
) -> None:
    source = GeneratedRows(name, seed, rows, partitions)
    made = [batch for number in range(partitions) for batch in source.make(number)]
    expected = pa.Table.from_batches(datasets.batches(name, seed, rows))
    assert pa.Table.from_batches(made, source.schema).equals(expected)


def test_parts_of_lineitem_in_turn_are_its_first_rows() -> None:
    # Each part is a start of the generator, which makes all of its text first.
    rows, parts = 40_000, 2
    source = LineitemRows(rows, tuple(count_lineitem(rows, parts, number) for number in range(parts)))
    assert sum(source.counts) > rows
    made = [batch for number in range(parts) for batch in source.make(number)]
    with open_lineitem(rows) as whole:
        expected = pa.Table.from_batches(whole.batches).slice(0, rows)
    assert pa.Table.from_batches(made, source.schema).equals(expected)


def test_options_do_not_show_their_secrets() -> None:
    secrets = {"spark.hadoop.fs.s3a.secret.key": "secret"}
    options = Options("out", rows=1, settings=secrets, storage_options=secrets)
    assert "secret" not in repr(options) + repr(Sink("s3://bucket/out", storage_options=secrets))
