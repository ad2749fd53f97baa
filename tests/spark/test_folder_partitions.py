"""`where` over a folder: conditions on what the names of its folders say, as on a Delta table's columns."""

from __future__ import annotations

import datetime as dt
import decimal
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import spillway
from spillway.errors import OptionError
from spillway.spark.folder_contents import where_holds
from spillway.spark.run import job_of
from spillway.spark.write_job import Target

from ..conditions import COMPARE
from ..counts import examples

KINDS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "long": (pa.int64(), [-3, 0, 7, 10]),
    "text": (pa.string(), ["a", "b c", "d/%41", "e=1", "'"]),
    "date": (pa.date32(), [dt.date(2026, 1, day) for day in (1, 2, 31)]),
    "time": (pa.timestamp("us"), [dt.datetime(2026, 1, 2, 3, 4, 5), dt.datetime(2026, 1, 2, microsecond=7)]),  # noqa: DTZ001 - a type without zone
    "zoned": (pa.timestamp("us", "UTC"), [dt.datetime(2026, 1, 2, 3, tzinfo=dt.UTC)]),
    "flag": (pa.bool_(), [True, False]),
}


def target(path: str, schema: pa.Schema, where: Any, **options: Any) -> Target:
    columns = [name for name in schema.names if name != "id"]
    given = {"table": "parquet", "overwrite": True, "options": {}, "partition_by": columns, "where": where}
    return Target.of(path, schema, **(given | options))


def holds(value: Any, sign: str, wanted: Any) -> bool:
    """A condition by the words of the guide."""
    if wanted is None:
        return (value is None) is (sign == "=")
    if value is None:
        return False
    return value in wanted if sign == "in" else COMPARE[sign](value, wanted)


@st.composite
def cases(draw: st.DrawFn) -> tuple[pa.Table, list[tuple[str, str, Any]]]:
    kinds = {
        name: KINDS[draw(st.sampled_from(sorted(KINDS)))] for name in ("x", "ö")[: draw(st.integers(1, 2))]
    }
    rows = draw(
        st.lists(
            st.fixed_dictionaries(
                {name: st.none() | st.sampled_from(some) for name, (_, some) in kinds.items()}
            ),
            min_size=1,
            max_size=6,
        )
    )
    conditions = []
    for name, (kind, some) in kinds.items():
        ordered = [] if pa.types.is_boolean(kind) else ["<", "<=", ">", ">="]
        sign = draw(st.sampled_from(["=", "!=", "in", *ordered]))
        nulls = st.none() if sign in {"=", "!="} else st.nothing()
        one = st.sampled_from(some)
        conditions.append((name, sign, draw(st.lists(one, min_size=1) if sign == "in" else nulls | one)))
    schema = pa.schema([*((name, kind) for name, (kind, _) in kinds.items()), ("id", pa.int64())])
    data = [{**row, "id": number} for number, row in enumerate(rows)]
    return pa.Table.from_pylist(data, schema), conditions


@settings(max_examples=examples(0.2))
@given(cases())
def test_the_folders_in_which_conditions_hold_are_those_of_their_rows(
    case: tuple[pa.Table, list[tuple[str, str, Any]]],
) -> None:
    rows, conditions = case
    with tempfile.TemporaryDirectory() as scratch:
        to = Path(scratch, "to")
        one = target(str(to), rows.schema, conditions)
        spillway.write_dataset(rows, to, partition_by=one.partition_by)
        names = [file.relative_to(to).as_posix() for file in to.rglob("*.parquet")]
        chosen = where_holds(one, names)
        found = [
            number
            for name in chosen
            for number in ds.dataset(to / name).to_table(columns=["id"])["id"].to_pylist()
        ]
        wanted = [
            row["id"]
            for row in rows.to_pylist()
            if all(holds(row[name], sign, value) for name, sign, value in conditions)
        ]
        assert sorted(found) == wanted


DAYS = pa.schema({"day": pa.date32(), "price": pa.decimal128(9, 2), "id": pa.int64()})


@pytest.mark.parametrize("price", [pa.decimal128(9, 2), pa.decimal64(9, 2)], ids=str)
def test_conditions_in_sql_are_those_of_a_delta_table(price: pa.DataType) -> None:
    days = DAYS.set(1, pa.field("price", price))
    names = [f"day=2026-01-0{day}/price={price}/a.parquet" for day in (1, 2) for price in ("1.50", "2.00")]
    names.append("day=__HIVE_DEFAULT_PARTITION__/price=1.50/a.parquet")
    for where, wanted in {
        "day = DATE '2026-01-01' AND price < 2": names[:1],
        "day IS NULL OR price = 2.00": [names[1], names[3], names[4]],
        "day > DATE '2030-01-01'": [],
    }.items():
        # A summary has the footers of files that are replaced.
        assert where_holds(target("/to", days, where), [*names, "_metadata"]) == [*wanted, "_metadata"]


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("day=2026-01-01/a.parquet", "day IS NULL"),
        ("a.parquet", "day IS NULL"),
        ("price=1.50/day=2026-01-01/a.parquet", "day IS NULL"),
        ("day=monday/price=1.50/a.parquet", "day IS NULL"),
        ("day=2026-01-01/price=1.50/a.parquet", "id = 1"),
        ("day=2026-01-01/price=1.50/a.parquet", "day ="),
        ("day=2026-01-01/price=1.50/a.parquet", [("day", "=", "monday")]),
    ],
)
def test_what_no_condition_can_decide_is_refused(name: str, where: Any) -> None:
    with pytest.raises(OptionError, match="where") as caught:
        where_holds(target("/to", DAYS, where), [name])
    assert caught.value.option == "where"


def test_a_type_that_no_name_of_a_folder_is_cast_to_is_refused() -> None:
    clock = pa.schema({"at": pa.time32("s"), "id": pa.int64()})
    with pytest.raises(OptionError, match="time32"):
        where_holds(target("/to", clock, "at IS NULL"), ["at=__HIVE_DEFAULT_PARTITION__/a.parquet"])


def test_a_condition_is_refused_before_a_row_is_written(tmp_path: Path) -> None:
    spaced = pa.schema({"a day": pa.date32(), "id": pa.int64()})
    refused: list[tuple[Any, ...]] = [
        (DAYS, "id = 1", {}),
        (DAYS, "day =", {}),
        (DAYS, "day IS NULL", {"partition_by": ()}),
        # A Delta table has no such name.
        (spaced, "`a day` IS NULL", {}),
    ]
    for schema, where, options in refused:
        with pytest.raises(OptionError, match="where"):
            job_of(target(str(tmp_path / "to"), schema, where, **options)).begin()
    assert list(tmp_path.iterdir()) == []


#: Values of columns with the name that another writer gives the folder of the same value.
OTHER_NAMES = [
    (pa.int64(), 1, "01"),
    (pa.int64(), -3, "-3"),
    (pa.float64(), 1.5, "1.50"),
    (pa.float64(), 1e10, "1.0E10"),
    (pa.decimal128(5, 2), decimal.Decimal("1.50"), "1.5"),
    (pa.date32(), dt.date(2026, 1, 2), "2026-01-02"),
    (pa.timestamp("us"), dt.datetime(2026, 1, 2, 3), "2026-01-02 03%3A00%3A00.000"),  # noqa: DTZ001 - a type without zone
    (pa.timestamp("us", "UTC"), dt.datetime(2026, 1, 2, 3, tzinfo=dt.UTC), "2026-01-02T04:00:00+01:00"),
    (pa.string(), "a b/c", "a%20b%2Fc"),
    (pa.string(), None, "__HIVE_DEFAULT_PARTITION__"),
]


def dynamic(to: Path, kind: pa.DataType, value: Any) -> None:
    """Replace a partition with one row, numbered 2."""
    rows = pa.record_batch({"x": pa.array([value], kind), "id": [2]})
    given = {"table": "parquet", "overwrite": True, "partition_by": "x", "partition_overwrite": "dynamic"}
    job = job_of(Target.of(str(to), rows.schema, options={}, **given))
    job.begin()
    job.commit([job.write([rows], 0, 0)])


@pytest.mark.parametrize(("kind", "value", "name"), OTHER_NAMES, ids=str)
def test_a_dynamic_overwrite_replaces_a_partition_whose_folder_another_writer_named(
    tmp_path: Path, kind: pa.DataType, value: Any, name: str
) -> None:
    for folder, number in ((f"x={name}", 1), ("x=other", 0)):
        (tmp_path / folder).mkdir()
        pq.write_table(pa.table({"id": [number]}), tmp_path / folder / "old.parquet")
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        shutil.rmtree(tmp_path / "x=other")
        (tmp_path / "x=2026-01-01 00:00:00Z").mkdir()
        pq.write_table(pa.table({"id": [0]}), tmp_path / "x=2026-01-01 00:00:00Z" / "old.parquet")
    dynamic(tmp_path, kind, value)
    found = [pq.read_table(file, partitioning=None)["id"].to_pylist() for file in tmp_path.rglob("*.parquet")]
    assert sorted(found) == [[0], [2]]


def test_a_dynamic_overwrite_refuses_folders_of_timestamps_in_an_unknown_zone(tmp_path: Path) -> None:
    (tmp_path / "x=2026-01-02 03%3A00%3A00").mkdir()
    pq.write_table(pa.table({"id": [1]}), tmp_path / "x=2026-01-02 03%3A00%3A00" / "old.parquet")
    with pytest.raises(OptionError, match="without a time zone"):
        dynamic(tmp_path, pa.timestamp("us", "UTC"), dt.datetime(2026, 1, 2, 3, tzinfo=dt.UTC))
    assert [file.name for file in tmp_path.rglob("*.parquet") if "_spillway_jobs" not in file.parts] == [
        "old.parquet"
    ]
