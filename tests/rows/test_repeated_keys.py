"""A map that has a key twice is a bad row: other engines refuse it, or lose one of its values."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import spillway

from .conftest import write_ndjson, write_rows

if TYPE_CHECKING:
    from pathlib import Path

MAPS = pa.map_(pa.string(), pa.int64())
#: Types, cells with a key twice, and what NDJSON has for them.
REPEATED: list[tuple[str, pa.DataType, Any, str]] = [
    ("pairs", MAPS, [("a", 1), ("a", 2)], '[["a", 1], ["a", 2]]'),
    ("an object", MAPS, [("a", 1), ("b", 2), ("a", 1)], '{"a": 1, "b": 2, "a": 1}'),
    ("an escape", MAPS, [("a", 1), ("a", 2)], '{"a": 1, "\\u0061": 2}'),
    ("many", MAPS, [(str(n % 50), n) for n in range(51)], json.dumps([[str(n % 50), n] for n in range(51)])),
    ("in a list", pa.list_(MAPS), [{"b": 1}, [("a", 1), ("a", 2)]], '[{"b": 1}, {"a": 1, "a": 2}]'),
    ("in a struct", pa.struct({"m": MAPS}), {"m": [("a", 1), ("a", 2)]}, '{"m": {"a": 1, "a": 2}}'),
    ("in a map", pa.map_(pa.string(), MAPS), {"k": [("a", 1), ("a", 2)]}, '{"k": {"a": 1, "a": 2}}'),
    ("text and int", pa.map_(pa.int64(), pa.int8()), {1: 1, "1": 2}, '[[1, 1], ["1", 2]]'),
    ("forms of an int", pa.map_(pa.int16(), pa.int8()), {"1": 1, "1.0": 2}, '{"1": 1, "1.0": 2}'),
    ("forms of a float", pa.map_(pa.float64(), pa.int8()), {"1": 1, "1e0": 2}, '{"1": 1, "1e0": 2}'),
    ("both zeros", pa.map_(pa.float32(), pa.int8()), [(0.0, 1), (-0.0, 2)], "[[0.0, 1], [-0.0, 2]]"),
    (
        "rounded",
        pa.map_(pa.float32(), pa.int8()),
        [(0.1, 1), (0.1000000001, 2)],
        "[[0.1, 1], [0.1000000001, 2]]",
    ),
    ("decimals", pa.map_(pa.decimal128(5, 2), pa.int8()), {Decimal(1): 1, "1.00": 2}, '{"1": 1, "1.00": 2}'),
    ("wide decimals", pa.map_(pa.decimal256(60, 2), pa.int8()), {"1": 1, "1.0": 2}, '{"1": 1, "1.0": 2}'),
    (
        "dictionary",
        pa.map_(pa.dictionary(pa.int8(), pa.string()), pa.int8()),
        [("a", 1)] * 2,
        '{"a": 1, "a": 2}',
    ),
    ("bytes", pa.map_(pa.binary(), pa.int8()), {"a": 1, b"a": 2}, '{"a": 1, "a": 2}'),
    ("fixed bytes", pa.map_(pa.binary(1), pa.int8()), {"a": 1, b"a": 2}, '{"a": 1, "a": 2}'),
    ("large text", pa.map_(pa.large_string(), pa.int8()), [("a", 1)] * 2, '{"a": 1, "a": 2}'),
    ("bools", pa.map_(pa.bool_(), pa.int8()), [(True, 1)] * 2, "[[true, 1], [true, 2]]"),
    ("dates", pa.map_(pa.date32(), pa.int8()), {1: 1, "1970-01-02": 2}, '[[1, 1], ["1970-01-02", 2]]'),
    ("times", pa.map_(pa.timestamp("s"), pa.int8()), {1: 1, "1970-01-01T00:00:01": 2}, "[[1, 1], [1, 2]]"),
    (
        "structs",
        pa.map_(pa.struct({"a": pa.int8()}), pa.int8()),
        [({"a": 1}, 1)] * 2,
        '[[{"a": 1}, 1], [{"a": 1}, 2]]',
    ),
    (
        "lists",
        pa.map_(pa.list_(pa.int8()), pa.int8()),
        [([1, None], 1)] * 2,
        "[[[1, null], 1], [[1, null], 2]]",
    ),
]


@pytest.mark.parametrize(
    ("kind", "cell", "text"), [each[1:] for each in REPEATED], ids=[each[0] for each in REPEATED]
)
def test_a_key_that_comes_twice_is_a_bad_row(kind: pa.DataType, cell: Any, text: str) -> None:
    schema = pa.schema([("m", kind), ("n", pa.int8())])
    for write, data in (
        (write_rows, [{"n": 1}, {"m": cell}, {"n": 2}]),
        (write_ndjson, f'{{"n": 1}}\n{{"m": {text}}}\n{{"n": 2}}\n'.encode()),
    ):
        bad: list[spillway.RowError] = []
        assert write(data, schema, on_error=bad.append)["n"].to_pylist() == [1, 2]  # type: ignore[operator]
        assert [(error.row, error.field[:1]) for error in bad] == [(1, "m")]
        with pytest.raises(spillway.RowError, match="twice"):
            write(data, schema)  # type: ignore[operator]


KEYS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.string(): st.text("ab", max_size=3),
    pa.int8(): st.integers(-20, 20),
    pa.int64(): st.integers(-20, 20),
    pa.float64(): st.integers(-20, 20).map(lambda number: number / 2),
}


@given(st.data())
def test_a_map_is_taken_exactly_where_its_keys_differ(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(list(KEYS)))
    maps = data.draw(st.lists(st.lists(st.tuples(KEYS[kind], st.integers(0, 9)), max_size=30), max_size=6))
    schema = pa.schema([("m", pa.map_(kind, pa.int64()))])
    good = [pairs for pairs in maps if len({key for key, _ in pairs}) == len(pairs)]
    lines = "".join(json.dumps({"m": pairs}) + "\n" for pairs in maps)
    for write, source in ((write_rows, [{"m": pairs} for pairs in maps]), (write_ndjson, lines.encode())):
        table = write(source, schema, on_error="skip")  # type: ignore[operator]
        assert table["m"].to_pylist() == good


def test_keys_of_maps_that_are_structs_keep_their_fields(tmp_path: Path) -> None:
    key = pa.struct({"ab": pa.int64(), "cd": pa.int64()})
    with spillway.ParquetWriter(tmp_path / "a.parquet", pa.schema({"m": pa.map_(key, pa.int64())})) as writer:
        for number in range(200):
            # Strings of their own, whose addresses come again.
            first, second = "".join(["a", "b"]), "".join(["c", "d"])
            made = {first: 1, second: 2} if number % 2 else {second: 2, first: 1}
            writer.write_rows([{"m": [(made, 5)]}])
            del made, first, second
    found = pq.read_table(tmp_path / "a.parquet")["m"].to_pylist()
    assert found == [[({"ab": 1, "cd": 2}, 5)]] * 200
