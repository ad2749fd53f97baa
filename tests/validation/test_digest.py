"""The digest as Python sees it; the crate's own tests hold its properties."""

from __future__ import annotations

import decimal
import json
import pickle
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import spillway
from spillway._native import Digest, digest, row_hashes

from ..writer.tampering import Tampered
from ..writer.test_malformed import OFFSETS, VALUES

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def batch() -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"a": [3, 1, None], "b": ["x", "y", "z"]})


def test_parts_merge_into_the_whole(batch: pa.RecordBatch) -> None:
    parts = [digest(batch.slice(index, 1), first_row=index) for index in (2, 0, 1)]
    assert parts[0].merge(parts[1]).merge(parts[2]) == digest(batch)


def test_positions_say_where_rows_stand(batch: pa.RecordBatch) -> None:
    shuffled = batch.take(pa.array([2, 0, 1])).append_column("at", pa.array([2, 0, 1]))
    assert digest(shuffled, positions="at") == digest(batch)
    assert digest(batch.take(pa.array([2, 0, 1]))) != digest(batch)


@pytest.mark.parametrize("column", [pa.array([0, 1, 2], pa.int32()), pa.array([0, None, 2], pa.int64())])
def test_positions_have_to_be_whole(batch: pa.RecordBatch, column: pa.Array) -> None:
    with pytest.raises((TypeError, ValueError), match="position"):
        digest(batch.append_column("at", column), positions="at")
    with pytest.raises(ValueError, match='no column "there"'):
        digest(batch, positions="there")


def test_a_digest_travels(batch: pa.RecordBatch) -> None:
    whole = digest(batch)
    assert pickle.loads(pickle.dumps(whole)) == whole  # noqa: S301  # our own bytes
    assert Digest.from_bytes(whole.to_bytes()) == whole
    with pytest.raises(ValueError, match="cut short"):
        Digest.from_bytes(whole.to_bytes()[:-1])


def test_columns_are_told_in_json_values(batch: pa.RecordBatch) -> None:
    columns = json.loads(json.dumps(digest(batch).columns))
    assert {key: columns[0][key] for key in ("name", "type", "values", "nulls", "min", "max")} == {
        "name": "a",
        "type": "int64",
        "values": 2,
        "nulls": 1,
        "min": "1",
        "max": "3",
    }


def test_equal_rows_have_equal_hashes(batch: pa.RecordBatch) -> None:
    doubled = pa.Table.from_batches([batch, batch])
    words = row_hashes(doubled)
    assert words[:24] == words[24:] == row_hashes(batch)
    assert len({words[:8], words[8:16], words[16:24]}) == 3


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.duration("s"), 1),
        (pa.time32("s"), 1),
        (pa.timestamp("ns"), 1),
        (pa.float16(), 1.0),
        (pa.decimal256(40, 2), decimal.Decimal(1)),
    ],
    ids=str,
)
def test_rows_of_types_that_spark_does_not_have_are_hashed(kind: pa.DataType, value: object) -> None:
    words = row_hashes(pa.record_batch({"x": pa.array([value, None, value], kind)}))
    assert words[:8] == words[16:] != words[8:16]


def test_what_is_no_stream_is_refused() -> None:
    with pytest.raises(TypeError, match="list has neither __arrow_c_stream__"):
        digest([1, 2, 3])


def test_parts_of_other_columns_do_not_merge(batch: pa.RecordBatch) -> None:
    with pytest.raises(ValueError, match="expected \\[a: int64, b: string\\], got \\[a: int64\\]"):
        digest(batch).merge(digest(batch.select(["a"])))


@pytest.mark.parametrize("name", [name for name in OFFSETS | VALUES if not name.startswith("runs")])
@pytest.mark.parametrize("call", [digest, row_hashes])
def test_data_that_breaks_the_rules_of_arrow_has_no_digest(name: str, call: Callable[[Any], Any]) -> None:
    column, change, says = (OFFSETS | VALUES)[name]
    with pytest.raises(spillway.SpillwayError, match=says):
        call(Tampered(pa.record_batch({"x": column}), change))


def test_a_null_that_a_column_says_it_has_not_is_digested() -> None:
    """The digest is of what another writer has written, right or wrong."""
    column = pa.array([1, None])
    strict = pa.record_batch([column], pa.schema([pa.field("x", pa.int64(), nullable=False)]))
    assert digest(strict) == digest(pa.record_batch({"x": column}))
