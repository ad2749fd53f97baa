"""Merges update, delete and insert rows by keys."""

from __future__ import annotations

import _thread
import datetime as dt
import functools
import itertools
import json
import math
import operator
import signal
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import spillway.delta
from spillway.delta import (
    when_matched_delete,
    when_matched_update,
    when_not_matched_by_source_delete,
    when_not_matched_by_source_update,
    when_not_matched_insert,
)
from spillway.errors import (
    AppendOnlyError,
    NotArrowError,
    OptionError,
    SchemaError,
)

from .test_deletes import MARKS
from .test_updates import listing

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEMA = pa.schema({"part": pa.string(), "id": pa.int64(), "text": pa.string()})


def rows(*given: tuple[Any, ...], names: list[str] | None = None) -> pa.Table:
    names = names or SCHEMA.names
    schema = pa.schema([SCHEMA.field(name) for name in names])
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in given], schema)


def made(
    folder: Path, *given: tuple[Any, ...], properties: dict[str, str] | None = None
) -> spillway.delta.Table:
    table = spillway.delta.create(folder, SCHEMA, partition_by="part", properties=MARKS | (properties or {}))
    if given:
        with table.append() as append:
            append.write(rows(*given))
    return table


def held(table: spillway.delta.Table) -> list[tuple[Any, ...]]:
    found = pa.table(table.scan()).to_pylist()
    return sorted((tuple(row.values()) for row in found), key=repr)


def test_rows_with_keys_of_the_table_are_updated_and_others_inserted(tmp_path: Path) -> None:
    table = made(tmp_path / "t", *(("a", n, "old") for n in range(100)))
    source = rows(("a", 7, "new"), ("b", 8, "moved"), ("c", 100, "came"))
    done = table.merge(source, "id", user_metadata="why")
    assert done == spillway.delta.Merge(2, inserted=1, updated=2, deleted=0)
    expected = [("a", n, "old") for n in range(100) if n not in {7, 8}]
    assert held(table) == sorted([*expected, *(tuple(row.values()) for row in source.to_pylist())], key=repr)
    [entry] = table.history(1)
    assert (entry.operation, entry.info["userMetadata"]) == ("MERGE", "why")
    parameters = entry.info["operationParameters"]
    assert parameters["predicate"] == '["(target.id = source.id)"]'
    assert parameters["matchedPredicates"] == '[{"actionType":"update"}]'
    assert parameters["notMatchedPredicates"] == '[{"actionType":"insert"}]'
    counts = {name: int(value) for name, value in entry.info["operationMetrics"].items() if "Ms" not in name}
    assert {name: count for name, count in counts.items() if "Bytes" not in name} == {
        "numSourceRows": 3,
        "numTargetRowsInserted": 1,
        "numTargetRowsUpdated": 2,
        "numTargetRowsDeleted": 0,
        "numTargetRowsMatchedUpdated": 2,
        "numTargetRowsMatchedDeleted": 0,
        "numTargetRowsNotMatchedBySourceUpdated": 0,
        "numTargetRowsNotMatchedBySourceDeleted": 0,
        "numTargetRowsCopied": 0,
        "numOutputRows": 3,
        "numTargetFilesAdded": 3,
        "numTargetFilesRemoved": 0,
        "numTargetChangeFilesAdded": 0,
        "numTargetDeletionVectorsAdded": 1,
        "numTargetDeletionVectorsUpdated": 0,
        "numTargetDeletionVectorsRemoved": 0,
    }


def test_without_vectors_the_files_of_a_partition_become_one(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "t", SCHEMA)
    for first in (0, 10):
        with table.append() as append:
            append.write(rows(*(("a", n, "old") for n in range(first, first + 10))))
    assert table.merge(rows(("a", 3, "new"), ("a", 13, "new"), ("a", 23, "new")), "id").updated == 2
    assert len(table.files()) == 1
    expected = [("a", n, "new" if n % 10 == 3 else "old") for n in (*range(20), 23)]
    assert held(table) == sorted(expected, key=repr)


def test_what_the_source_lacks_stays_or_is_null(tmp_path: Path) -> None:
    table = made(tmp_path / "t", ("a", 1, "x"), ("b", 2, "y"))
    assert table.merge(rows(("c", 1), ("c", 3), names=["part", "id"]), "id").updated == 1
    assert held(table) == [("b", 2, "y"), ("c", 1, "x"), ("c", 3, None)]
    two = rows((2, "z"), (9, "z"), names=["id", "text"])
    assert table.merge(two, "id", when_matched_update()) == spillway.delta.Merge(3, 0, 1, 0)
    assert held(table) == [("b", 2, "z"), ("c", 1, "x"), ("c", 3, None)]
    only = table.merge(rows(("d", 2, "w")), ["id"], when_matched_update(["part"]))
    assert (only.updated, held(table)[-1]) == (1, ("d", 2, "z"))
    assert table.merge(rows(("d", 2, "u"), ("d", 4, "u")), "id", when_not_matched_insert()).inserted == 1
    assert held(table)[-2:] == [("d", 2, "z"), ("d", 4, "u")]


def test_a_column_of_the_source_says_which_rows_go(tmp_path: Path) -> None:
    table = made(tmp_path / "t", ("a", 1, "x"), ("a", 2, "x"), ("a", 3, "x"))
    changes = rows(("a", 1, "y"), ("a", 2, None), ("a", 3, "z"), ("a", 4, None), ("a", 5, "new"))
    source = changes.append_column("gone", pa.array([False, True, None, True, False]))
    gone = pc.field("source.gone")
    done = table.merge(
        source,
        "id",
        when_matched_delete(where=gone),
        when_matched_update(),
        when_not_matched_insert(where=~gone),
    )
    assert done == spillway.delta.Merge(2, inserted=1, updated=2, deleted=1)
    assert held(table) == [("a", 1, "y"), ("a", 3, "z"), ("a", 5, "new")]
    assert table.merge(changes.select(["id"]), "id", when_matched_delete()).deleted == 3
    assert held(table) == []


def test_the_first_clause_whose_condition_is_true_applies(tmp_path: Path) -> None:
    table = made(tmp_path / "t", *(("a", n, "old") for n in range(10)), ("a", None, "old"))
    source, target = pc.field("source.id"), pc.field("target.id")
    done = table.merge(
        rows(*(("b", n, f"s{n}") for n in (1, 2, 3, 4, 11, 12, 13))),
        "id",
        when_matched_update({"text": "first"}, where=source == 1),
        when_matched_delete(where=source <= 2),
        when_matched_update(
            {"text": pc.binary_join_element_wise(pc.field("target.text"), pc.field("source.text"), "+")},
            where=target == 3,
        ),
        when_not_matched_insert({"id": source, "part": "n", "text": None}, where=source == 11),
        when_not_matched_insert(["part", "id"], where=source == 12),
        when_not_matched_by_source_update({"part": "z", "id": target + 100}, where=target == 5),
        when_not_matched_by_source_delete(where=target >= 8),
        user_metadata="why",
    )
    assert done == spillway.delta.Merge(2, inserted=2, updated=3, deleted=3)
    expected = [("a", n, "old") for n in (0, 4, 6, 7, None)]
    expected += [("a", 1, "first"), ("a", 3, "old+s3"), ("z", 105, "old"), ("n", 11, None), ("b", 12, None)]
    assert held(table) == sorted(expected, key=repr)
    [entry] = table.history(1)
    parameters = entry.info["operationParameters"]
    assert json.loads(parameters["matchedPredicates"]) == [
        {"predicate": "(source.id == 1)", "actionType": "update"},
        {"predicate": "(source.id <= 2)", "actionType": "delete"},
        {"predicate": "(target.id == 3)", "actionType": "update"},
    ]
    assert json.loads(parameters["notMatchedPredicates"]) == [
        {"predicate": "(source.id == 11)", "actionType": "insert"},
        {"predicate": "(source.id == 12)", "actionType": "insert"},
    ]
    assert json.loads(parameters["notMatchedBySourcePredicates"]) == [
        {"predicate": "(target.id == 5)", "actionType": "update"},
        {"predicate": "(target.id >= 8)", "actionType": "delete"},
    ]
    metrics = entry.info["operationMetrics"]
    assert {
        name.removeprefix("numTargetRows"): int(metrics[name]) for name in metrics if "TargetRows" in name
    } == {
        "Inserted": 2,
        "Updated": 3,
        "Deleted": 3,
        "MatchedUpdated": 2,
        "MatchedDeleted": 1,
        "NotMatchedBySourceUpdated": 1,
        "NotMatchedBySourceDeleted": 2,
        "Copied": int(metrics["numTargetRowsCopied"]),
    }


def test_a_merge_may_make_the_table_what_the_source_is(tmp_path: Path) -> None:
    table = made(tmp_path / "t", *(("a", n, "old") for n in range(5)), (None, None, "old"))
    source = rows(("a", 1, "new"), ("b", 7, "new"))
    whole = (when_matched_update(), when_not_matched_insert(), when_not_matched_by_source_delete())
    assert table.merge(source, "id", *whole) == spillway.delta.Merge(2, 1, 1, 5)
    assert held(table) == [("a", 1, "new"), ("b", 7, "new")]
    assert table.merge(source.slice(0, 0), "id", *whole).deleted == 2
    assert held(table) == []


def test_columns_that_only_expressions_name_may_have_any_type(tmp_path: Path) -> None:
    table = made(tmp_path / "t", ("a", 1, "x"))
    source = pa.table(
        {"id": pa.array([1], pa.int32()), "text": [{"inner": 5}], "more": pa.array(["y"]).dictionary_encode()}
    )
    inner = pc.field("source.text", "inner")
    joined = pc.binary_join_element_wise(
        pc.field("source.more").cast(pa.string()), inner.cast(pa.string()), "-"
    )
    assert table.merge(source, "id", when_matched_update({"text": joined}, where=inner > 4)).updated == 1
    assert held(table) == [("a", 1, "y-5")]


def test_texts_like_names_of_columns_are_given_as_scalars(tmp_path: Path) -> None:
    table = made(tmp_path / "t", ("a", 1, "x"), ("a", 2, "x"))
    source = rows((1,), names=["id"])
    others = when_not_matched_by_source_update({"text": "source.text"})
    # The source has no column of this name.
    table.merge(source, "id", when_matched_update({"text": pc.scalar("source.id")}), others)
    assert held(table) == [("a", 1, "source.id"), ("a", 2, "source.text")]


def test_expressions_take_texts_of_polars(tmp_path: Path) -> None:
    table = made(tmp_path / "t", ("a", 1, "x"), ("a", 2, "x"), ("a", 3, "x"), ("a", 4, None))
    frame = pl.DataFrame({"id": [1, 2, 3, 4], "op": ["D", "U", None, "U"], "raw": [b"D"] * 4})
    frame = frame.with_columns(kind=pl.col("op").cast(pl.Categorical))
    op, kind, raw = (pc.field(f"source.{name}") for name in ("op", "kind", "raw"))
    joined = pc.binary_join_element_wise(op, pc.coalesce(pc.field("target.text"), op), "-")
    done = table.merge(
        frame,
        "id",
        when_matched_delete(where=(op == "D") & (kind == "D") & (raw == b"D")),
        when_matched_update({"text": joined}, where=op.is_valid()),
    )
    assert done == spillway.delta.Merge(2, inserted=0, updated=2, deleted=1)
    assert held(table) == [("a", 2, "U-x"), ("a", 3, "x"), ("a", 4, "U-U")]


def test_only_columns_of_the_table_are_taken(tmp_path: Path) -> None:
    table = made(tmp_path / "t", ("a", 1, "x"))
    source = pa.table({"id": [1], "extra": [1]})
    with pytest.raises(SchemaError, match=r'no column "extra": its columns are part, id, text$'):
        table.merge(source, "id", when_matched_update(["extra"]))


def test_nothing_is_computed_for_a_merge_that_is_refused_before(tmp_path: Path) -> None:
    class Job:
        """A DataFrame of Spark, as far as a merge sees it."""

        def toArrow(self) -> pa.Table:  # noqa: N802 - Spark's name
            pytest.fail("the job was run")

    table = made(tmp_path / "t", ("a", 1, "x"))
    refused: Any = "update"
    with pytest.raises(OptionError, match="not a clause"):
        table.merge(Job(), "id", refused)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="row_group_rows"):
        table.merge(Job(), "id", row_group_rows=0)  # type: ignore[arg-type]


def test_nulls_match_nothing(tmp_path: Path) -> None:
    table = made(tmp_path / "t", (None, 1, "x"), ("a", None, "x"))
    done = table.merge(rows((None, 1, "y"), ("a", None, "y"), ("a", 1, "y")), ["part", "id"])
    assert done == spillway.delta.Merge(2, inserted=3, updated=0, deleted=0)
    assert len(held(table)) == 5


@pytest.mark.parametrize(
    "keys",
    [
        [True, False],
        ["", "a", "é" * 40],
        [b"", b"\x01"],
        [Decimal("1.50"), Decimal("-1.50")],
        [dt.date(1, 1, 1), dt.date(2026, 1, 1)],
        [dt.datetime(2026, 1, 1, tzinfo=dt.UTC), dt.datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=dt.UTC)],
        [-math.inf, -1.5, 0.0, math.nan],
    ],
    ids=lambda keys: type(keys[0]).__name__,
)
@pytest.mark.parametrize("partitioned", [False, True])
def test_keys_of_every_type_are_found(tmp_path: Path, keys: list[Any], *, partitioned: bool) -> None:
    if partitioned:
        # The log has an empty text and null alike, and no folder is named after bytes.
        keys = [key for key in keys if key != "" and not isinstance(key, bytes)] or [1]
    column = pa.array(keys)
    schema = pa.schema({"key": column.type, "n": pa.int64()})
    table = spillway.delta.create(tmp_path / "t", schema, partition_by="key" if partitioned else [])
    with table.append() as append:
        append.write(pa.table({"key": column, "n": range(len(keys))}, schema))
    again = pa.array([-0.0 if key == 0 and isinstance(key, float) else key for key in keys], column.type)
    done = table.merge(pa.table({"key": again, "n": [9] * len(keys)}, schema), "key")
    assert (done.inserted, done.updated) == (0, len(keys))
    assert pa.table(table.scan())["n"].to_pylist() == [9] * len(keys)


@pytest.mark.parametrize("partition_by", ["key", []])
def test_updated_rows_keep_their_keys(tmp_path: Path, partition_by: Any) -> None:
    given = pa.table({"key": [0.0, -0.0], "n": [1, 2]})
    table = spillway.delta.create(tmp_path / "t", given.schema, partition_by=partition_by)
    with table.append() as append:
        append.write(given)
    before = sorted(map(repr, pa.table(table.scan())["key"].to_pylist()))
    assert table.merge(pa.table({"key": [-0.0], "n": [3]}), "key", when_matched_update()).updated == 2
    found = pa.table(table.scan())
    assert sorted(map(repr, found["key"].to_pylist())) == before
    assert found["n"].to_pylist() == [3, 3]


def test_many_keys_are_found_and_other_files_are_not_opened(tmp_path: Path) -> None:
    schema = pa.schema({"id": pa.int64(), "n": pa.int64()})
    table = spillway.delta.create(tmp_path / "t", schema, properties=MARKS)
    for first in range(0, 50_000, 10_000):
        with table.append(row_group_rows=1000) as append:
            append.write(pa.table({"id": range(first, first + 10_000), "n": [0] * 10_000}, schema))
    far = next(file for file in table.files() if file.stats and file.stats["minValues"]["id"] == 40_000)
    (tmp_path / "t" / far.path).unlink()
    keys = list(range(0, 30_000, 3))
    frame = pl.DataFrame({"id": keys, "n": [1] * len(keys)})
    batches = pa.table(frame).to_batches(max_chunksize=777)
    source = pa.RecordBatchReader.from_batches(batches[0].schema, iter(batches))
    assert table.merge(source, "id").updated == len(keys)
    found = pa.table(table.scan(where=[("id", "<", 30_000)])).to_pylist()
    assert {row["id"] for row in found if row["n"] == 1} == set(keys)
    assert len(found) == 30_000


def test_source_rows_that_match_one_row_are_named(tmp_path: Path) -> None:
    table = made(tmp_path / "t", ("a", 1, "x"), ("a", 2, "x"))
    twice = rows(("a", 2, "y"), ("a", 3, "y"), ("a", 2, "z"), ("a", 3, "z"))
    before = listing(table, tmp_path)
    with pytest.raises(OptionError, match="2 rows of the source have the key part=a, id=2"):
        table.merge(twice, ["part", "id"])
    assert (table.version, listing(table, tmp_path)) == (1, before)
    # Those that match nothing are inserted, as Spark does it.
    assert table.merge(twice, "id", when_not_matched_insert()).inserted == 2
    # One of two source rows changes the row; a condition leaves the other out.
    z = pc.field("source.text") == "z"
    assert table.merge(twice.slice(0, 3), "id", when_matched_update(where=z)).updated == 1
    with pytest.raises(OptionError, match="2 rows of the source have the key id=2"):
        table.merge(twice, "id", when_matched_delete(where=pc.field("source.id") == 2))
    assert table.merge(twice, "id", when_matched_delete()).deleted == 3
    assert held(table) == [("a", 1, "x")]


def test_many_source_rows_of_one_key_are_looked_at_one_by_one(tmp_path: Path) -> None:
    table = made(tmp_path / "t", ("a", 1, "x"), ("a", 2, "x"))
    source = pa.table({"id": [1] * 20_000 + [2], "n": range(20_001)})
    last = when_matched_update(
        {"text": pc.field("source.n").cast(pa.string())}, where=pc.field("source.n") > 19_998
    )
    assert table.merge(source, "id", last).updated == 2
    assert held(table) == [("a", 1, "19999"), ("a", 2, "20000")]


def test_rows_are_deleted_once_however_many_source_rows_have_their_key(tmp_path: Path) -> None:
    table = made(tmp_path / "t", *[("a", 1, "x")] * 3000, ("a", 2, "x"))
    assert table.merge(pa.table({"id": [1] * 30_000}), "id", when_matched_delete()).deleted == 3000
    assert held(table) == [("a", 2, "x")]


def test_empty_sources_and_tables(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    assert table.merge(rows(), "id") == spillway.delta.Merge(0, 0, 0, 0)
    assert table.merge(rows(("a", 1, "x")), "id") == spillway.delta.Merge(1, 1, 0, 0)
    assert table.merge(rows(), "id", when_matched_delete()) == spillway.delta.Merge(1, 0, 0, 0)
    assert table.merge(rows(("a", 5, "x")), "id", when_matched_update()) == spillway.delta.Merge(1, 0, 0, 0)


ONE = rows(("a", 1, "x"))


@pytest.mark.parametrize(
    ("source", "on", "error", "match"),
    [
        (ONE, "idd", SchemaError, 'no column "idd"'),
        (rows(("a", "x"), names=["part", "text"]), "id", OptionError, "source does not have"),
        (ONE, [], OptionError, "on names no column"),
        (ONE, ["id", "id"], OptionError, "twice"),
        (rows((1, "x"), names=["id", "text"]), "id", SchemaError, "partitioned by"),
        (pa.table({"part": ["a"], "id": [1], "more": [1]}), "id", SchemaError, "more"),
        (pa.table({"part": ["a"], "id": ["1"]}), "id", SchemaError, "id"),
        (rows(("", 1, "x")), ["part", "id"], OptionError, "empty text in the partition column"),
        ([1, 2], "id", NotArrowError, "list"),
    ],
)
def test_sources_that_do_not_fit_are_refused(
    tmp_path: Path, source: Any, on: Any, error: type[Exception], match: str
) -> None:
    refuses(made(tmp_path / "t", ("a", 1, "x")), source, on, [], error, match)


SOURCE = {name: pc.field(f"source.{name}") for name in ("part", "id", "txt")}


@pytest.mark.parametrize(
    ("clauses", "error", "match"),
    [
        (["update"], OptionError, "'update', which is not a clause"),
        ([when_matched_update(["texts"])], OptionError, "texts.*does not have"),
        ([when_matched_update({"texts": "y"})], SchemaError, 'no column "texts"'),
        ([when_matched_update({"texts": SOURCE["id"]})], SchemaError, 'no column "texts"'),
        ([when_matched_update({"id": "y"})], SchemaError, "set has a value for .*id"),
        ([when_matched_update({"id": SOURCE["part"] + 1})], OptionError, "'id'"),
        ([when_matched_update({"id": SOURCE["part"]})], OptionError, "'id'.*a"),
        ([when_matched_update({"id": pc.field("id")})], OptionError, "did you mean target.id or source.id"),
        ([when_matched_delete(where=SOURCE["txt"] == "x")], OptionError, "mean source.text"),
        ([when_matched_delete(where=SOURCE["id"])], OptionError, "int64 and not a condition"),
        ([when_not_matched_insert({"id": 1})], SchemaError, "partitioned by"),
        ([when_not_matched_insert(where=pc.field("target.id") > 0)], OptionError, r"names target\.id"),
        ([when_not_matched_by_source_delete(where=SOURCE["id"] > 0)], OptionError, r"names source\.id"),
        ([when_matched_delete(), when_matched_update()], OptionError, "never apply"),
        # Rows have fewer columns than there are, so a position may be that of another one.
        ([when_matched_delete(where=pc.field(0) == "a")], OptionError, "where that .* by its position"),
        ([when_matched_update({"text": pc.field(2)})], OptionError, "'text' that .* by its position"),
        ([when_matched_update({"text": "source.text"})], OptionError, r'pc\.field\("source\.text"\)'),
        ([when_not_matched_insert({"text": "target.id"})], OptionError, r'pc\.scalar\("target\.id"\)'),
    ],
)
def test_clauses_that_do_not_fit_are_refused(
    tmp_path: Path, clauses: list[Any], error: type[Exception], match: str
) -> None:
    refuses(made(tmp_path / "t", ("a", 1, "x")), ONE, "id", clauses, error, match)


def refuses(table: spillway.delta.Table, *merge: Any) -> None:
    """Check that a merge is refused with this error, and leaves nothing."""
    source, on, clauses, error, match = merge
    before = listing(table, Path(table.path))
    with pytest.raises(error, match=match):
        table.merge(source, on, *clauses)
    assert (table.version, listing(table, Path(table.path))) == (1, before)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: when_matched_update("text"), "list of columns"),
        (lambda: when_matched_update({}), "sets no column"),
        (lambda: when_not_matched_insert([]), "sets no column"),
        (lambda: when_not_matched_by_source_update(["text"]), "no source row"),  # type: ignore[arg-type]
        (lambda: when_matched_delete(where=True), "not a condition"),  # type: ignore[arg-type]
    ],
)
def test_clauses_that_make_no_sense_are_refused(make: Callable[[], object], match: str) -> None:
    with pytest.raises(OptionError, match=match):
        make()


def test_an_empty_text_does_not_get_into_a_partition_column_that_takes_no_null(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("part", pa.string(), nullable=False), pa.field("id", pa.int64())])
    table = spillway.delta.create(tmp_path / "t", schema, partition_by="part")
    with table.append() as append:
        append.write(pa.table({"part": ["a"], "id": [1]}, schema))
    empty = pa.table({"part": [""], "id": [2]}, schema)
    with pytest.raises(SchemaError, match=r"part.*empty text"), table.append() as append:
        append.write(empty)
    append.abort()
    with pytest.raises(SchemaError, match=r"part.*empty text"):
        table.update([("id", "=", 1)], {"part": ""})
    with pytest.raises(SchemaError, match=r"part.*empty text"):
        table.merge(empty, "id")
    files = [file for file in (tmp_path / "t").rglob("*.parquet") if "_delta_log" not in file.parts]
    assert (table.version, len(files)) == (1, 1)


def test_nulls_do_not_get_into_columns_that_take_none(tmp_path: Path) -> None:
    schema = pa.schema(
        [pa.field("id", pa.int64(), nullable=False), pa.field("n", pa.int64(), nullable=False)]
    )
    table = spillway.delta.create(tmp_path / "t", schema)
    with table.append() as append:
        append.write(pa.table({"id": [1], "n": [1]}, schema))
    before = listing(table, tmp_path)
    for source in ({"id": [1], "n": [None]}, {"id": [2], "n": [None]}):
        with pytest.raises(SchemaError, match="n"):
            table.merge(pa.table(source, pa.schema({"id": pa.int64(), "n": pa.int64()})), "id")
    assert (table.version, listing(table, tmp_path)) == (1, before)


def test_tables_that_merges_would_break_are_refused(tmp_path: Path) -> None:
    growing = made(tmp_path / "growing", ("a", 1, "x"), properties={"delta.appendOnly": "true"})
    with pytest.raises(AppendOnlyError, match=r"merge\(\)"):
        growing.merge(rows(("a", 1, "y")), "id")
    # Rows that only come are an append.
    both = rows(("a", 1, "y"), ("a", 2, "y"))
    assert growing.merge(both, "id", when_not_matched_insert()).inserted == 1
    assert held(growing) == [("a", 1, "x"), ("a", 2, "y")]


def test_a_signal_ends_the_reading_of_a_source_that_runs_no_python(tmp_path: Path) -> None:
    """The signal comes with the stream: no line of Python runs between it and the first batch."""

    class Signalled(Exception):  # noqa: N818 - it is no error
        pass

    def raise_signalled(*_: object) -> None:
        raise Signalled

    table = made(tmp_path / "t")
    stream = rows(("a", 1, "new")).to_reader()
    # The first is None, and left out.
    interrupts = map(_thread.interrupt_main, [signal.SIGINT])
    capsules = filter(None, itertools.chain(interrupts, map(operator.call, [stream.__arrow_c_stream__])))
    source: Any = SimpleNamespace(__arrow_c_stream__=functools.partial(next, capsules))
    before = signal.signal(signal.SIGINT, raise_signalled)
    try:
        with pytest.raises(Signalled) as raised:
            table.merge(source, "none of its columns")
    finally:
        signal.signal(signal.SIGINT, before)
    # Nothing was done with the rows, so nothing was found to be wrong with them.
    assert raised.value.__context__ is None
    assert table.version == 0
