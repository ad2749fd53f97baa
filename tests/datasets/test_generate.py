from __future__ import annotations

import subprocess
import sys
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spillway import datasets
from spillway.datasets.arrow import inverse_cdf, log_uniform, pick, stream_key, words
from spillway.datasets.vocabulary import Traffic
from spillway.errors import OptionError

from ..counts import examples

ROWS = 50_000


@pytest.fixture(scope="module")
def logs() -> pa.Table:
    return pa.Table.from_batches(datasets.batches("logs", 1, ROWS))


@pytest.fixture(scope="module")
def nested() -> pa.Table:
    return pa.Table.from_batches(datasets.batches("logs-nested", 1, ROWS))


def test_another_process_makes_the_same_chunk() -> None:
    script = (
        "import hashlib; from spillway import datasets\n"
        "batch = datasets.chunk('logs-nested', 5, 3)\n"
        "print(hashlib.sha256(batch.serialize()).hexdigest())"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=60
        ).stdout
        for _ in range(2)
    }
    assert len(seen) == 1


@pytest.mark.parametrize("name", datasets.names())
def test_a_dataset_is_a_prefix_of_a_longer_one(name: str) -> None:
    short = pa.Table.from_batches(datasets.batches(name, 3, 12_345))
    long = pa.Table.from_batches(datasets.batches(name, 3, 20_000))
    assert short.num_rows == 12_345
    assert long.slice(0, 12_345).equals(short)


@given(
    name=st.sampled_from([*datasets.names(), "wide:20"]),
    seed=st.integers(-(2**63), 2**63),
    start=st.integers(0, 45_000),
    length=st.integers(0, 25_000),
)
@settings(max_examples=examples(0.3))
def test_a_range_holds_the_rows_that_the_dataset_has_there(
    name: str, seed: int, start: int, length: int
) -> None:
    stop = start + length
    chunks = range(start // datasets.CHUNK_ROWS, -(-stop // datasets.CHUNK_ROWS))
    schema = datasets.schema(name)
    whole = pa.Table.from_batches((datasets.chunk(name, seed, index) for index in chunks), schema=schema)
    made = list(datasets.row_range(name, seed, start, stop))
    assert all(batch.num_rows <= datasets.CHUNK_ROWS for batch in made)
    expected = whole.slice(start % datasets.CHUNK_ROWS, length) if length else whole.slice(0, 0)
    assert pa.Table.from_batches(made, schema=schema).equals(expected)


def test_a_range_that_begins_before_the_first_row_is_refused() -> None:
    with pytest.raises(OptionError, match="start is -1; the first row is 0"):
        list(datasets.row_range("logs", 1, -1, 5))


def test_chunks_are_made_in_any_order(logs: pa.Table) -> None:
    assert pa.Table.from_batches([datasets.chunk("logs", 1, 3)]).equals(logs.slice(30_000, 10_000))


def test_seeds_and_chunks_differ() -> None:
    parts = [
        datasets.chunk("logs", seed, index).column("message") for seed, index in [(1, 0), (2, 0), (1, 1)]
    ]
    assert not any(a.equals(b) for a, b in pairwise([*parts, parts[0]]))


def test_logs_has_52_flat_columns() -> None:
    schema = datasets.schema("logs")
    assert len(schema) == len(set(schema.names)) == 52
    assert not any(pa.types.is_nested(kind) for kind in schema.types)
    assert {str(kind) for kind in schema.types} == {
        "bool",
        "double",
        "int8",
        "int16",
        "int32",
        "int64",
        "string",
        "timestamp[us, tz=UTC]",
    }


def test_a_row_of_logs_takes_700_to_800_bytes(logs: pa.Table) -> None:
    assert 700 <= logs.nbytes / logs.num_rows <= 800


def test_nested_logs_are_the_flat_ones_and_a_list_a_struct_and_a_map(
    logs: pa.Table, nested: pa.Table
) -> None:
    assert nested.select(logs.column_names).equals(logs)
    assert pa.types.is_list(nested.schema.field("tags").type)
    assert pa.types.is_struct(nested.schema.field("http").type)
    assert pa.types.is_map(nested.schema.field("attributes").type)


@pytest.mark.parametrize("name", ["tags", "attributes"])
def test_nested_columns_hold_nulls_empties_and_several_items(nested: pa.Table, name: str) -> None:
    lengths = {None if items is None else len(items) for items in nested[name].slice(0, 5_000).to_pylist()}
    assert lengths == {None, *range(7)}


def test_nested_values_hold_nulls_at_every_level(nested: pa.Table) -> None:
    http = nested["http"].combine_chunks()
    present = http.drop_null()
    assert http.null_count > 0
    assert present.field("status").null_count > 0
    assert present.field("body").null_count > 0
    assert nested["attributes"].combine_chunks().items.null_count > 0


def test_the_keys_of_a_map_differ(nested: pa.Table) -> None:
    for entries in nested["attributes"].slice(0, 2_000).to_pylist():
        keys = [key for key, _ in entries or []]
        assert len(keys) == len(set(keys))


@pytest.mark.parametrize("column", datasets.columns("logs-nested"), ids=lambda column: column.name)
def test_nulls_are_as_frequent_as_the_table_of_columns_says(
    nested: pa.Table, column: datasets.Column
) -> None:
    present = nested[column.name].is_valid().to_numpy()
    applies = np.ones(ROWS, dtype=bool) if column.where is None else column.where(Traffic(1, 0, ROWS))
    assert not present[~applies].any()
    expected = column.nulls * applies.sum()
    deviation = 6 * (expected * (1 - column.nulls)) ** 0.5
    assert (~present[applies]).sum() == pytest.approx(expected, abs=deviation)
    assert nested.schema.field(column.name).nullable == (not present.all())


def test_null_rates_reach_from_a_tenth_of_a_percent_to_nearly_all(logs: pa.Table) -> None:
    rates = sorted(column.null_count / ROWS for column in logs.columns if column.null_count)
    assert rates[0] < 0.002
    assert rates[-1] > 0.98
    assert sum(0.1 < rate < 0.9 for rate in rates) >= 10


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("level", 5, 5),
        ("region", 5, 5),
        ("environment", 3, 3),
        ("service", 24, 24),
        ("host", 90, 120),
        ("pod", 400, 480),
        ("user_agent", 200, 272),
        ("stack_trace", 100, 600),
        ("user_id", 2_000, 2**17),
        ("http_path", 6_000, 20_000),
        ("trace_id", ROWS // 6, ROWS // 3),
        ("message", ROWS * 0.8, ROWS),
        ("score", ROWS, ROWS),
        ("log_offset", ROWS, ROWS),
    ],
)
def test_cardinalities_are_low_middle_and_high(logs: pa.Table, name: str, low: float, high: float) -> None:
    assert low <= pc.count_distinct(logs[name]).as_py() <= high


@pytest.mark.parametrize("name", ["service", "http_host", "country"])
def test_frequent_values_follow_zipfs_law(logs: pa.Table, name: str) -> None:
    counts = sorted(
        (entry["counts"] for entry in pc.value_counts(logs[name].drop_null()).to_pylist()), reverse=True
    )
    assert counts[0] / counts[1] == pytest.approx(2, rel=0.25)
    assert counts[0] / counts[2] == pytest.approx(3, rel=0.35)


def test_event_times_mostly_increase_and_lines_arrive_after_they_happen(logs: pa.Table) -> None:
    event, ingest = (logs[name].cast(pa.int64()).to_numpy() for name in ("timestamp", "ingested_at"))
    assert (ingest > event).all()
    assert (np.diff(ingest) >= 0).all()
    assert 0.5 < (np.diff(event) >= 0).mean() < 1


def test_lines_of_one_span_agree_on_who_logged_them(logs: pa.Table) -> None:
    told = logs.select(["span_id", "trace_id", "service", "pod", "host", "region", "image"]).drop_null()
    agreed = told.group_by(["span_id", "trace_id", "service", "pod", "host", "region", "image"]).aggregate([])
    assert agreed.num_rows == pc.count_distinct(told["span_id"]).as_py() < told.num_rows


def test_parent_spans_are_spans_of_the_same_trace(logs: pa.Table) -> None:
    traces: dict[str, set[str]] = {}
    for trace, span in zip(logs["trace_id"].to_pylist(), logs["span_id"].to_pylist(), strict=True):
        traces.setdefault(trace, set()).add(span)
    children = zip(logs["trace_id"].to_pylist(), logs["parent_span_id"].to_pylist(), strict=True)
    found = [parent in traces[trace] for trace, parent in children if parent is not None]
    # The parent may have logged nothing.
    assert sum(found) > len(found) / 2


def test_a_stack_trace_is_rare_has_many_lines_and_begins_with_its_error(logs: pa.Table) -> None:
    failed = logs.filter(logs["stack_trace"].is_valid()).select(["stack_trace", "error_kind"]).to_pylist()
    assert 0.005 < len(failed) / ROWS < 0.02
    for row in failed:
        assert row["stack_trace"].startswith(row["error_kind"])
        assert row["stack_trace"].count("\n") >= 6


def test_messages_have_numbers_and_no_placeholders(logs: pa.Table) -> None:
    messages = logs["message"]
    assert pc.all(pc.match_substring_regex(messages, r"\d|[a-z]{4}")).as_py()
    assert not pc.any(pc.match_substring_regex(messages, r"[{}]")).as_py()
    assert pc.mean(pc.match_substring_regex(messages, r"\d")).as_py() > 0.95


def test_two_decimal_columns_have_two_decimals(logs: pa.Table) -> None:
    for name in ("duration_ms", "amount"):
        values = logs[name].drop_null().to_numpy()
        assert (np.round(values, 2) == values).all()


def test_byte_counts_are_heavily_skewed(logs: pa.Table) -> None:
    sizes = logs["response_bytes"].to_numpy()
    assert sizes.mean() > 20 * np.median(sizes)


def test_an_unknown_dataset_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(OptionError, match=r"'lgos'.*logs, logs-nested"):
        datasets.chunk("lgos", 1, 0)
    with pytest.raises(OptionError, match="logs-nested"):
        datasets.schema("lgos")


def test_a_negative_chunk_is_refused() -> None:
    with pytest.raises(OptionError, match="negative"):
        datasets.chunk("logs", 1, -1)


@given(seed=st.integers(), counters=st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=20))
def test_a_word_depends_on_its_key_and_counter_alone(seed: int, counters: list[int]) -> None:
    key = stream_key(seed, "stream")
    together = words(key, np.array(counters, dtype=np.uint64))
    alone = [words(key, np.array([counter], dtype=np.uint64))[0] for counter in counters]
    assert together.tolist() == alone


def test_words_are_splitmix64() -> None:
    # The published sequence of seed 1234567; its first output is that of counter 1.
    drawn = words(np.uint64(1234567), np.arange(1, 4, dtype=np.uint64))
    assert drawn.tolist() == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@given(weights=st.lists(st.integers(1, 1000), min_size=1, max_size=50))
def test_an_inverse_cdf_gives_each_rank_its_share_of_slots(weights: list[int]) -> None:
    slots = np.bincount(inverse_cdf(weights), minlength=len(weights))
    exact = np.array(weights) * 2**16 / sum(weights)
    assert slots.sum() == 2**16
    assert (abs(slots - exact) < 1.0001).all()


@given(low=st.integers(0, 30), span=st.integers(1, 30), draws=st.lists(st.integers(0, 2**64 - 1), min_size=1))
def test_log_uniform_stays_between_its_powers_of_two(low: int, span: int, draws: list[int]) -> None:
    values = log_uniform(np.array(draws, dtype=np.uint64), low, low + span)
    assert all(2**low <= value < 2 ** (low + span) for value in values.tolist())


def test_pick_reads_the_upper_bits() -> None:
    table = inverse_cdf([1, 1])
    assert pick(table, np.array([0, 2**63 - 1, 2**63, 2**64 - 1], dtype=np.uint64)).tolist() == [0, 0, 1, 1]
