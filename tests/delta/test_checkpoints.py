# ruff: noqa: S608 - the folder of a test is no attack
"""Checkpoints keep all that the log said, in the form that the table asks for."""

from __future__ import annotations

import datetime as dt
import json
import math
import shutil
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import spillway.delta
from spillway.errors import UnsupportedTableError

from ..counts import count
from .conftest import READERS, read_deltalake, rows
from .logs import line_of, needs, read_version, write_version
from .test_values import EVERY_TYPE

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..spark.process import Worker

JSON = "delta.checkpoint.writeStatsAsJson"
STRUCT = "delta.checkpoint.writeStatsAsStruct"
ONLY_STRUCT = {JSON: "false", STRUCT: "true"}
PARTITIONED = EVERY_TYPE.append_column("p", pa.array([dt.date(1, 1, 1), None, dt.date(9999, 12, 31)]))


def checkpoint_of(folder: Path) -> Path:
    (path,) = (folder / "_delta_log").glob("*.checkpoint.parquet")
    return path


def adds_of(checkpoint: Path) -> pa.Table:
    """The columns of ``add`` in a checkpoint, its rows in the order of their paths."""
    adds = pq.read_table(checkpoint, columns=["add"])["add"].combine_chunks()
    adds = adds.filter(adds.is_valid())
    return pa.Table.from_struct_array(adds).sort_by("path")


def without_old_versions(folder: Path) -> None:
    newest = max((folder / "_delta_log").glob("*.json"))
    for version in (folder / "_delta_log").glob("*.json"):
        if version != newest:
            version.unlink()


def of_delta_rs(folder: Path, data: pa.Table = PARTITIONED, **properties: str) -> Path:
    """A table by delta-rs, of which only its checkpoint knows the files."""
    deltalake.write_deltalake(folder, data, partition_by=["p"], configuration=properties)
    deltalake.write_deltalake(folder, data.slice(1), mode="append")
    deltalake.DeltaTable(folder).create_checkpoint()
    without_old_versions(folder)
    return folder


def statistics(folder: Path) -> dict[str, Any]:
    """The statistics of each file, as delta-rs reads them."""
    adds = pa.table(deltalake.DeltaTable(folder).get_add_actions(flatten=True))
    names = [name for name in adds.column_names if name.startswith(("num_records", "null_", "min", "max"))]
    return {row["path"]: {name: row[name] for name in names} for row in adds.to_pylist()}


def parsed(stats: str | None) -> Any:
    return None if stats is None else json.loads(stats, parse_float=Decimal, parse_int=Decimal)


def without_nothing(value: Any) -> Any:
    """Statistics without what they do not say, and numbers as the type of their column has them."""
    if isinstance(value, dict):
        kept = {name: without_nothing(part) for name, part in value.items()}
        return {name: part for name, part in kept.items() if part not in (None, {})}
    return value


def test_statistics_that_are_structs_only_survive_a_checkpoint(tmp_path: Path) -> None:
    folder = of_delta_rs(tmp_path / "t", **ONLY_STRUCT)
    before = statistics(folder)
    assert "stats" not in adds_of(checkpoint_of(folder)).column_names
    table = spillway.delta.open(folder)
    assert sum((file.stats or {}).get("numRecords", 0) for file in table.files()) == 5
    with table.append() as append:
        append.write(PARTITIONED.slice(0, 1))
    checkpoint_of(folder).unlink()
    (folder / "_delta_log" / "_last_checkpoint").unlink()
    assert table.checkpoint() == 2
    without_old_versions(folder)
    after = statistics(folder)
    assert {path: after[path] for path in before} == before
    assert len(after) == len(before) + 1
    assert all(row["num_records"] for row in after.values())
    assert "stats" not in adds_of(checkpoint_of(folder)).column_names
    assert spillway.delta.open(folder).files() == table.files()
    for read in READERS.values():
        assert rows(read(folder)) == rows(
            pa.concat_tables([PARTITIONED, PARTITIONED.slice(1), PARTITIONED.slice(0, 1)])
        )


SETTINGS = {
    "neither said": {},
    "both": {STRUCT: "true"},
    "structs": ONLY_STRUCT,
    "nothing": {JSON: "false", STRUCT: "false"},
    "no json": {JSON: "FALSE"},
    "indexed": {STRUCT: "true", "delta.dataSkippingNumIndexedCols": "3"},
    "named": {STRUCT: "true", "delta.dataSkippingStatsColumns": "group.y,large"},
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_checkpoints_are_those_of_the_kernel(tmp_path: Path, setting: str) -> None:
    """delta-rs writes them by delta-kernel, from the same log."""
    table = spillway.delta.create(
        tmp_path / "t", PARTITIONED.schema, partition_by="p", properties=SETTINGS[setting]
    )
    with table.append() as append:
        append.write(PARTITIONED)
    shutil.copytree(tmp_path / "t", tmp_path / "u")
    table.checkpoint()
    deltalake.DeltaTable(tmp_path / "u").create_checkpoint()
    ours, theirs = adds_of(checkpoint_of(tmp_path / "t")), adds_of(checkpoint_of(tmp_path / "u"))
    if setting == "no json":
        # Where a table says nothing of structs, Spark writes them: statistics must be somewhere.
        assert {"stats_parsed", "partitionValues_parsed"} <= set(ours.column_names)
        assert "stats" not in ours.column_names
        return
    assert set(ours.column_names) == set(theirs.column_names)
    for name in ("partitionValues_parsed", "stats_parsed"):
        if name in ours.column_names:
            found = without_nothing_of(ours[name]), types_of(ours.schema.field(name))
            for stats in (*found[0], found[1]):
                for bounds in ("minValues", "maxValues"):
                    # The kernel leaves bounds of booleans out, without which delta-rs finds no row by one.
                    stats.get(bounds, {}).pop("flag", None)
            assert found == (without_nothing_of(theirs[name]), types_of(theirs.schema.field(name)))
    if "stats" in ours.column_names:
        assert ours["stats"].to_pylist() == theirs["stats"].to_pylist()


def without_nothing_of(column: pa.ChunkedArray) -> Any:
    return [without_nothing(value) for value in column.to_pylist()]


def types_of(field: pa.Field) -> Any:
    """Types of the leaves, by name: the order of columns means nothing."""
    if pa.types.is_struct(field.type):
        return {field.type.field(n).name: types_of(field.type.field(n)) for n in range(field.type.num_fields)}
    return field.type


def rewritten(checkpoint: Path, change: Callable[[pa.Table], pa.Table], **options: Any) -> None:
    pq.write_table(change(pq.read_table(checkpoint)), checkpoint, **options)


@pytest.mark.parametrize("year", [1678, 2026])
def test_sparks_old_timestamps_are_read(tmp_path: Path, year: int) -> None:
    """Spark writes timestamps of checkpoints as INT96, unless told otherwise."""
    moment = dt.datetime(year, 2, 3, 4, 5, 6, 789_000, tzinfo=dt.UTC)
    data = pa.table({"at": pa.array([moment], pa.timestamp("us", "UTC")), "p": [1]})
    folder = of_delta_rs(tmp_path / "t", data, **ONLY_STRUCT)
    rewritten(checkpoint_of(folder), lambda table: table, use_deprecated_int96_timestamps=True)
    leaves = pq.ParquetFile(checkpoint_of(folder)).schema
    assert "INT96" in {leaves.column(n).physical_type for n in range(len(leaves))}
    (file, *_) = spillway.delta.open(folder).files()
    expected = f"{year:04}-02-03T04:05:06.789Z"
    assert file.stats is not None
    assert (file.stats["minValues"], file.stats["maxValues"]) == ({"at": expected}, {"at": expected})


@pytest.mark.parametrize("remainder", [0, 1])
def test_statistics_beside_others_are_filled_in_row_by_row(tmp_path: Path, remainder: int) -> None:
    folder = of_delta_rs(tmp_path / "t", **{STRUCT: "true"})
    expected = [parsed(json.dumps(file.stats)) for file in spillway.delta.open(folder).files()]

    def every_second(table: pa.Table) -> pa.Table:
        # By path, since delta-rs writes its files in no order: then each remainder takes the same partitions.
        table = table.take(pc.sort_indices(table["add"].combine_chunks().field("path")))
        adds = table["add"].to_pylist()
        for number, add in enumerate(adds):
            if add is not None and number % 2 == remainder:
                add["stats"] = None
        return table.set_column(
            table.column_names.index("add"), "add", pa.array(adds, table.schema.field("add").type)
        )

    rewritten(checkpoint_of(folder), every_second)
    again = spillway.delta.open(shutil.copytree(folder, tmp_path / "u"))
    found = [parsed(json.dumps(file.stats)) for file in again.files()]
    assert len(found) == 5
    for one, other in zip(found, expected, strict=True):
        assert one["numRecords"] == other["numRecords"]
        lower = [without_nothing(stats).get("minValues", {}) for stats in (one, other)]
        # delta-rs has bounds of booleans as text, which structs by the kernel do not hold; an empty group as
        # text is none in a struct.
        assert lower[0].keys() - {"flag"} == lower[1].keys() - {"flag"}


REALS = st.floats(width=64) | st.floats(width=32)
MOMENTS = st.datetimes(timezones=st.just(dt.UTC)).filter(lambda at: at.year < 9999)


@settings(max_examples=count(quick=15, ci=30, soak=10_000))
@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), min_size=1, max_size=4
    ),
    st.lists(REALS, min_size=1, max_size=4),
    st.lists(MOMENTS, min_size=1, max_size=4),
    st.lists(st.decimals(-(10**30), 10**30, places=6, allow_nan=False), min_size=1, max_size=4),
)
def test_statistics_are_the_same_as_text_and_as_structs(
    texts: list[str], reals: list[float], moments: list[dt.datetime], decimals: list[Decimal]
) -> None:
    """Whatever the values, a checkpoint of structs says what one of texts says."""
    count = max(map(len, (texts, reals, moments, decimals)))
    data = pa.table(
        {
            "text": pa.array((texts * count)[:count]),
            "real": pa.array((reals * count)[:count], pa.float64()),
            "small": pa.array((reals * count)[:count], pa.float64()).cast(pa.float32(), safe=False),
            "moment": pa.array((moments * count)[:count], pa.timestamp("us", "UTC")),
            "clock": pa.array(
                [m.replace(tzinfo=None) for m in (moments * count)[:count]], pa.timestamp("us")
            ),
            "decimal": pa.array((decimals * count)[:count], pa.decimal128(38, 6)),
            "date": pa.array([m.date() for m in (moments * count)[:count]]),
        }
    )
    with tempfile.TemporaryDirectory() as folder:
        spillway.delta.write(folder, data, properties=ONLY_STRUCT)
        table = spillway.delta.open(folder)
        (file,) = table.files()
        table.checkpoint()
        without_old_versions(Path(folder))
        log = Path(folder) / "_delta_log"
        log.joinpath(f"{1:020}.json").unlink()
        with tempfile.TemporaryDirectory() as other:
            shutil.copytree(folder, other, dirs_exist_ok=True)
            (again,) = spillway.delta.open(other).files()
    assert parsed(json.dumps(again.stats)) == parsed(json.dumps(file.stats))
    assert not any(math.isnan(v) for v in (again.stats or {})["minValues"].values() if isinstance(v, float))


@pytest.mark.spark
def test_sparks_statistics_survive_a_checkpoint(tmp_path: Path, worker: Worker) -> None:
    path = f"delta.`{tmp_path}/t`"
    worker.sql(
        f"create table {path} (id bigint, at timestamp, day date, price decimal(30, 10), p double) "
        f"using delta partitioned by (p) tblproperties ('{JSON}' = 'false', 'delta.checkpointInterval' = '3')"
    )
    for number in range(3):
        worker.sql(
            f"insert into {path} values ({number}, timestamp'1582-01-01 00:00:00.25', "
            f"date'2026-11-2{number}', 12345678901234567890.0123456789, {number}.5)"
        )
    before = statistics(tmp_path / "t")
    sparks = checkpoint_of(tmp_path / "t")
    assert "stats" not in adds_of(sparks).column_names
    for version in range(3):
        (tmp_path / "t" / "_delta_log" / f"{version:020}.json").unlink()
    table = spillway.delta.open(tmp_path / "t")
    for number in range(3):
        with table.append() as append:
            append.write(
                pa.table({"id": [9 + number], "at": [dt.datetime(2026, 1, 1, tzinfo=dt.UTC)], "day": [None],
                          "price": [None], "p": [float("nan")]}).cast(pa.schema(table.schema))
            )  # fmt: skip
    assert table.checkpoint() == 6
    sparks.unlink()
    without_old_versions(tmp_path / "t")
    after = statistics(tmp_path / "t")
    # delta-rs makes 2166 of the year in Spark's own checkpoint: INT96 by way of nanoseconds, since 1677.
    at = {"min.at", "max.at"}
    for name, said in before.items():
        assert {key: after[name][key] for key in said if key not in at} == {
            key: value for key, value in said.items() if key not in at
        }
        assert {after[name][key].isoformat() for key in at} == {"1582-01-01T00:00:00.250000+00:00"}
    assert len(after) == 6
    assert all(row["num_records"] == 1 for row in after.values())
    assert worker.sql(f"select count(*), sum(id) from {path} where price > 1") == [[3, 3]]
    assert worker.sql(f"select count(*) from {path} where p = double('NaN')") == [[3]]
    worker.sql(f"optimize {path}")
    assert worker.sql(f"select count(*) from {path} where day = '2026-11-21'") == [[1]]


UNKNOWN: dict[str, Any] = {
    "futureText": "t",
    "futureNumber": 2**62,
    "futureReal": 1.5,
    "futureFlag": False,
    "futureList": [{"a": 1}, {"a": 2}],
    "futureGroup": {"inner": {"deep": ["x"]}},
}


def foreign(folder: Path) -> spillway.delta.Table:
    """A table of a writer that knows more fields than this one, in each action."""
    table = spillway.delta.create(folder, pa.schema({"id": pa.int64()}))
    for number in (1, 2, 3):
        with table.append() as append:
            append.write(pa.table({"id": [number]}))
    adds = [line_of(table, "add", version) for version in (1, 2, 3)]
    gone = {"dataChange": True, "deletionTimestamp": 4_000_000_000_000}
    vector = {"storageType": "i", "pathOrInlineDv": "x", "sizeInBytes": 1, "cardinality": 1, "future": 1}
    metadata = line_of(table, "metaData")
    lines: list[dict[str, Any]] = [
        {"protocol": line_of(table, "protocol") | UNKNOWN},
        {"metaData": metadata | UNKNOWN | {"format": metadata["format"] | {"future": "f"}}},
        {"txn": {"appId": "etl", "version": 7} | UNKNOWN},
        {"add": adds[0] | UNKNOWN},
        {"add": adds[1] | {"futureOther": 1}},
        {"remove": {"path": adds[2]["path"]} | gone | UNKNOWN},
        {"remove": {"path": "x", "deletionVector": vector} | gone},
        {"domainMetadata": {"domain": "mine", "configuration": "{}", "removed": False} | UNKNOWN},
    ]
    write_version(table, 4, lines)
    assert table.version == 4
    return table


def actions_of(checkpoint: Path, action: str) -> list[Any]:
    column = pq.read_table(checkpoint, columns=[action])[action].to_pylist()
    return [without_nothing(body) for body in column if body is not None]


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_fields_of_other_writers_survive_checkpoints(tmp_path: Path, read: Callable[[Any], pa.Table]) -> None:
    folder = tmp_path / "t"
    table, older = foreign(folder), None
    for version in (4, 5):
        assert table.checkpoint() == version
        if older is not None:
            older.unlink()
        checkpoint = checkpoint_of(folder)
        for action in ("protocol", "metaData", "txn", "add", "remove", "domainMetadata"):
            (kept,) = [body for body in actions_of(checkpoint, action) if "futureText" in body]
            assert {name: kept[name] for name in UNKNOWN} == UNKNOWN, action
        assert [body.get("futureOther") for body in actions_of(checkpoint, "add")].count(1) == 1
        assert actions_of(checkpoint, "metaData")[0]["format"]["future"] == "f"
        vectors = [body.get("deletionVector") for body in actions_of(checkpoint, "remove")]
        assert [vector["future"] for vector in vectors if vector] == [1]
        assert {1, 2} <= set(read(folder)["id"].to_pylist())
        # Again, from what the checkpoint says alone.
        without_old_versions(folder)
        shutil.copytree(folder, tmp_path / str(version))
        folder = tmp_path / str(version)
        table = spillway.delta.open(folder)
        with table.append() as append:
            append.write(pa.table({"id": [version]}))
        older = checkpoint_of(folder)


@pytest.mark.parametrize("odd", [{}, [], [1, "a"], [[]], {"a": {}}], ids=str)
def test_fields_that_no_checkpoint_can_hold_refuse_it(tmp_path: Path, odd: Any) -> None:
    table = foreign(tmp_path / "t")
    add = line_of(table, "add", 3)
    write_version(table, 5, [{"add": add | {"futureOdd": odd}}])
    with pytest.raises(UnsupportedTableError, match=r"add\.futureOdd"):
        table.checkpoint()
    assert not list((tmp_path / "t").rglob("*.checkpoint.parquet"))
    with table.append() as append:
        append.write(pa.table({"id": [4]}))
    assert append.version == 6


def test_a_field_of_two_types_refuses_a_checkpoint(tmp_path: Path) -> None:
    table = foreign(tmp_path / "t")
    add = line_of(table, "add", 3)
    write_version(table, 5, [{"add": add | {"futureText": 1}}])
    with pytest.raises(UnsupportedTableError, match=r"add\.futureText"):
        table.checkpoint()


def test_what_a_checkpoint_must_not_hold_is_left_out(tmp_path: Path) -> None:
    """Unknown actions ask for a feature, where a checkpoint must have them."""
    table = foreign(tmp_path / "t")
    write_version(
        table, 5, [{"commitInfo": {"operation": "X", "futureField": 1}}, {"futureAction": {"a": 1}}]
    )
    table.checkpoint()
    names = pq.read_schema(checkpoint_of(tmp_path / "t")).names
    assert set(names) == {"txn", "add", "remove", "metaData", "protocol", "domainMetadata"}
    write_version(table, 6, [needs("futureFeature"), *read_version(table, 5)])
    with pytest.raises(UnsupportedTableError, match="futureFeature"):
        table.checkpoint()
    assert sorted(read_deltalake(Path(table.path))["id"].to_pylist()) == [1, 2]
