"""Bloom filters: where they are, what they hold, and that DuckDB loses no row by them."""

from __future__ import annotations

import datetime as dt
import io
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import spillway

from ..counts import examples

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 4_000
EPOCH = dt.datetime(2026, 1, 1)  # noqa: DTZ001 - a time without a zone
COLUMNS: dict[str, pa.Array] = {
    "int": pa.array([None if i % 9 == 0 else i * 37 for i in range(ROWS)], pa.int32()),
    "long": pa.array([i * 7_919_000_003 for i in range(ROWS)], pa.int64()),
    "few": pa.array([i % 50 * 2 for i in range(ROWS)], pa.int64()),
    "double": pa.array([i / 8 for i in range(ROWS)], pa.float64()),
    "text": pa.array([None if i % 4 == 0 else f"name {i % 1_000}" for i in range(ROWS)]),
    "words": pa.array([f"word {i % 300}" for i in range(ROWS)]).dictionary_encode(),
    "bytes": pa.array([i.to_bytes(3, "big") for i in range(ROWS)], pa.binary()),
    "date": pa.array([dt.date(2020, 1, 1) + dt.timedelta(days=i) for i in range(ROWS)]),
    "time": pa.array([EPOCH + dt.timedelta(minutes=i) for i in range(ROWS)], pa.timestamp("us")),
    "decimal": pa.array([Decimal(i) / 100 for i in range(ROWS)], pa.decimal128(30, 2)),
}


def write(table: pa.Table, path: Path, **options: Any) -> None:
    spillway.write_parquet(table, path, row_group_rows=1_000, **options)


def probe(path: Path, column: str, value: str) -> list[bool]:
    """For each row group, True if its filter excludes a value, as DuckDB computes it."""
    with duckdb.connect() as connection:
        probed = connection.sql(f"from parquet_bloom_probe('{path}', '{column}', {value})")
        return [row[0] for row in probed.select("bloom_filter_excludes").fetchall()]


def test_filters_are_where_the_footer_says(tmp_path: Path) -> None:
    write(pa.table(COLUMNS), tmp_path / "a.parquet", bloom_filter=True)
    report = spillway.inspect_file(tmp_path / "a.parquet")
    columns = [column for group in report.row_groups for column in group.columns]
    assert len(columns) == 4 * len(COLUMNS)
    assert all(column.bloom_filter and column.bloom_filter_bytes for column in columns)
    assert pq.read_table(tmp_path / "a.parquet").num_rows == ROWS


@pytest.mark.parametrize(
    ("column", "there", "missing"),
    [
        ("long", "7919000003", "7919000004"),
        ("int", "37::integer", "38::integer"),
        ("few", "10", "11"),
        ("double", "0.125::double", "0.126::double"),
        ("text", "'name 1'", "'name x'"),
        ("words", "'word 7'", "'word x'"),
        ("bytes", "'\\x00\\x00\\x01'::blob", "'\\x09\\x09\\x09\\x09'::blob"),
    ],
)
def test_a_value_that_is_there_is_never_excluded_and_another_is(
    tmp_path: Path, column: str, there: str, missing: str
) -> None:
    path = tmp_path / "a.parquet"
    write(pa.table(COLUMNS), path, bloom_filter=[column])
    assert not probe(path, column, there)[0]
    assert all(probe(path, column, missing))


@settings(max_examples=examples(0.1), deadline=None)
@given(st.data())
def test_no_row_is_lost_by_a_filter(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("bloom")
    table = pa.table(COLUMNS)
    write(table, folder / "with.parquet", bloom_filter=True)
    write(table, folder / "without.parquet")
    name = data.draw(st.sampled_from([name for name in COLUMNS if name != "bytes"]))
    value = table[name][data.draw(st.integers(0, ROWS - 1))].as_py()
    with duckdb.connect() as connection:
        counts = [
            connection.read_parquet(str(folder / file))
            .filter(duckdb.ColumnExpression(name) == duckdb.ConstantExpression(value))
            .aggregate("count(*)")
            .fetchall()
            for file in ("with.parquet", "without.parquet")
        ]
    assert counts[0] == counts[1]


def test_both_zeros_and_every_nan_are_found(tmp_path: Path) -> None:
    values = [-0.0, float("nan"), *[i / 3 + 1 for i in range(2_000)]]
    table = pa.table({"x": pa.array(values), "pad": pa.array([float(i) + 5 for i in range(2_002)])})
    path = tmp_path / "a.parquet"
    spillway.write_parquet(table, path, bloom_filter=["x"])
    assert probe(path, "x", "0.0::double") == [False]
    assert probe(path, "x", "'nan'::double") == [False]


@pytest.mark.parametrize("fpp", [0.5, 0.05, 0.001])
def test_a_filter_is_wrong_about_as_often_as_it_may(tmp_path: Path, fpp: float) -> None:
    path = tmp_path / "a.parquet"
    values = pa.array([i * 1_000_003 for i in range(40_000)], pa.int64())
    spillway.write_parquet(pa.table({"n": values}), path, bloom_filter={"n": fpp})
    with duckdb.connect() as connection:
        probes = [
            connection.sql(f"from parquet_bloom_probe('{path}', 'n', {miss * 1_000_003 + 1}::bigint)")
            for miss in range(400)
        ]
        wrong = sum(not probe.select("bloom_filter_excludes").fetchall()[0][0] for probe in probes)
    assert wrong / 400 <= fpp * 1.5 + 0.01


def test_leaves_of_nested_columns_have_them_too(tmp_path: Path) -> None:
    rows = [{"tags": [f"t{i}", "all"], "at": {"x": i}} for i in range(2_000)]
    path = tmp_path / "a.parquet"
    spillway.write_parquet(pa.Table.from_pylist(rows), path, bloom_filter=["tags.list.element", ("at", "x")])
    columns = spillway.inspect_file(path).row_groups[0].columns
    assert {column.path for column in columns if column.bloom_filter} == {"tags.list.element", "at.x"}
    assert pq.read_table(path).num_rows == 2_000


def test_booleans_have_none(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    spillway.write_parquet(pa.table({"b": [True, None], "n": [1, 2]}), path, bloom_filter=True)
    assert [column.bloom_filter for column in spillway.inspect_file(path).row_groups[0].columns] == [
        False,
        True,
    ]


def test_a_boolean_column_that_is_named_is_refused() -> None:
    table = pa.table({"b": [True, None], "n": [1, 2]})
    with pytest.raises(spillway.OptionError, match=r'"b".*booleans'):
        spillway.write_parquet(table, io.BytesIO(), bloom_filter=["n", "b"])


def test_a_small_filter_follows_the_different_values(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pa.table({"few": [i % 3 for i in range(50_000)], "many": list(range(50_000))})
    spillway.write_parquet(table, path, bloom_filter=True)
    few, many = (
        column.bloom_filter_bytes or 0 for column in spillway.inspect_file(path).row_groups[0].columns
    )
    assert few < 100
    assert 40_000 < many < 200_000


@pytest.mark.parametrize(
    ("rule", "error", "says"),
    [
        ({"n": 0.0}, spillway.OptionError, "between 0 and 1"),
        ({"n": 1.5}, spillway.OptionError, "between 0 and 1"),
        (["m"], spillway.OptionError, 'it has "n"'),
        ("n", TypeError, "a list of column paths"),
        (3, TypeError, "a list of column paths"),
    ],
)
def test_a_rule_that_is_none_is_refused(rule: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        spillway.write_parquet(pa.table({"n": [1]}), io.BytesIO(), bloom_filter=rule)
