"""Values of conditions given as tuples: compared exactly as SQL and pyarrow compare them, or refused."""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import spillway.delta
from spillway.errors import OptionError

from .logs import make_log, metadata_of, needs, read_version, write_version

if TYPE_CHECKING:
    from pathlib import Path

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "zoned": pa.timestamp("us", "UTC"),
        "plain": pa.timestamp("us"),
        "day": pa.date32(),
        "flag": pa.bool_(),
        "name": pa.string(),
    }
)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> spillway.delta.Table:
    """Three rows, an hour from one to the next."""
    table = spillway.delta.create(tmp_path_factory.mktemp("values") / "t", SCHEMA)
    for hour in range(3):
        moment = NOON + dt.timedelta(hours=hour)
        table.append_rows([{"id": hour, "zoned": moment, "plain": moment.replace(tzinfo=None)}])
    return table


def ids(table: spillway.delta.Table, where: Any) -> list[int]:
    return sorted(pa.table(table.scan("id", where=where))["id"].to_pylist())


ZONES = st.integers(-86_399, 86_399).map(lambda seconds: dt.timezone(dt.timedelta(seconds=seconds)))


@given(
    micros=st.one_of(st.integers(-2, 2), st.integers(-(10**10), 10**10)),
    zone=ZONES,
    operator=st.sampled_from(["=", "!=", "<", "<=", ">", ">="]),
    as_text=st.booleans(),
)
def test_times_are_compared_exactly_whatever_their_zone(
    table: spillway.delta.Table, *, micros: int, zone: dt.timezone, operator: str, as_text: bool
) -> None:
    moment = NOON + dt.timedelta(microseconds=micros)
    compare: Any = {
        "=": lambda hour: hour == moment,
        "!=": lambda hour: hour != moment,
        "<": lambda hour: hour < moment,
        "<=": lambda hour: hour <= moment,
        ">": lambda hour: hour > moment,
        ">=": lambda hour: hour >= moment,
    }[operator]
    expected = [hour for hour in range(3) if compare(NOON + dt.timedelta(hours=hour))]
    aware, naive = moment.astimezone(zone), moment.replace(tzinfo=None)
    values = (aware.isoformat(" "), str(naive)) if as_text else (aware, naive)
    for column, value in zip(("zoned", "plain"), values, strict=True):
        assert ids(table, [(column, operator, value)]) == expected
        if as_text:
            assert ids(table, [(column, operator, value.replace(" ", "t"))]) == expected
    for column, value in (("zoned", aware), ("plain", naive)):
        assert ids(table, [(column, operator, pd.Timestamp(value))]) == expected


@pytest.mark.parametrize("nanoseconds", [1, 999])
@pytest.mark.parametrize("operator", ["=", "<", "in"])
@pytest.mark.parametrize("as_text", [False, True])
def test_nanoseconds_are_refused_since_a_comparison_would_round_them(
    table: spillway.delta.Table, *, nanoseconds: int, operator: str, as_text: bool
) -> None:
    for column, zone in (("zoned", "UTC"), ("plain", None)):
        moment = pd.Timestamp("2026-01-01 12:00", tz=zone) + pd.Timedelta(nanoseconds=nanoseconds)
        value = moment.isoformat() if as_text else moment
        where = [(column, operator, [value] if operator == "in" else value)]
        for refuse in (table.scan, table.delete):
            with pytest.raises(OptionError, match=rf'"{column}".* has nanoseconds.* round it first'):
                refuse(where=where) if refuse == table.scan else refuse(where)


@pytest.mark.parametrize(
    ("column", "value", "match"),
    [
        ("zoned", dt.datetime(2026, 1, 1, 12), "has no time zone, and the column has one"),  # noqa: DTZ001 - on purpose
        ("zoned", "2026-01-01 12:00:00", "has no time zone, and the column has one"),
        ("plain", NOON, "has a time zone, and the column has none"),
        ("plain", "2026-01-01 12:00:00+02:00", "has a time zone, and the column has none"),
        ("zoned", "2016-12-31T23:59:60Z", "no value of its type, timestamp"),
        ("zoned", "noon", "'noon', which is no value of its type, timestamp"),
        ("zoned", "2026-01-01T12:00:00+1", "no value of its type, timestamp"),
        ("zoned", "2026-01-01T12:00:00+25:00", "no value of its type, timestamp"),
        ("zoned", "", "'', which is no value of its type, timestamp"),
        ("zoned", dt.date(2026, 1, 1), "no value of its type, timestamp"),
        ("day", NOON, "no value of its type, date"),
        ("id", 1.5, "with 1.5, which is no value of its type, long"),
        ("id", 2**63, "with 9223372036854776000, which is no value of its type, long"),
        ("id", True, "with true, which is no value of its type, long"),
        ("flag", 1, "with 1, which is no value of its type, boolean"),
        ("name", 1, "with 1, which is no value of its type, string"),
        ("name", "\ud800", "half of a surrogate pair"),
    ],
)
def test_what_a_column_cannot_hold_is_refused_as_it_was_given(
    table: spillway.delta.Table, column: str, value: Any, match: str
) -> None:
    with pytest.raises((OptionError, ValueError), match=match):
        table.scan(where=[(column, "=", value)])


def test_an_operator_that_is_none_is_named_before_its_value(table: spillway.delta.Table) -> None:
    with pytest.raises(
        OptionError, match='the operator "like" of the condition on "id" is unknown'
    ) as caught:
        table.scan(where=[("id", "like", "a")])
    assert "in" in caught.value.accepted
    with pytest.raises(OptionError, match='"in" alone takes a list of values'):
        table.scan(where=[("id", "not in", [1])])
    with pytest.raises(TypeError, match="where is None: give a condition in SQL"):
        table.delete(None)  # type: ignore[arg-type]  # on purpose
    with pytest.raises(TypeError, match=r"set is \['id'\]: give new values by column"):
        table.update("id = 1", ["id"])  # type: ignore[arg-type]  # on purpose


def test_one_column_may_be_named_without_a_list(table: spillway.delta.Table) -> None:
    assert pa.table(table.scan("id")).column_names == ["id"]
    with pytest.raises(spillway.SchemaError, match='"di"'):
        table.scan("di")


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        (pa.struct({"x": pa.int64()}), "a struct"),
        (pa.list_(pa.int64()), "a list"),
        (pa.map_(pa.string(), pa.int64()), "a map"),
        (pa.binary(), "binary"),
    ],
)
def test_a_table_is_not_created_with_partitions_that_no_append_could_write(
    tmp_path: Path, kind: pa.DataType, shown: str
) -> None:
    schema = pa.schema({"id": pa.int64(), "p": kind})
    with pytest.raises(
        spillway.SchemaError, match=f'the partition column "p" is {shown}, and folders'
    ) as caught:
        spillway.delta.create(tmp_path / "t", schema, partition_by="p")
    assert caught.value.column == "p"
    assert not (tmp_path / "t").exists()


def test_a_tuple_compares_no_column_whose_spaces_engines_compare_differently(tmp_path: Path) -> None:
    fields: list[dict[str, Any]] = [
        {
            "name": name,
            "type": "string",
            "nullable": True,
            "metadata": {"__CHAR_VARCHAR_TYPE_STRING": f"{kind}(5)"},
        }
        for name, kind in (("c", "char"), ("v", "varchar"))
    ]
    table = make_log(tmp_path / "t", [needs("appendOnly"), metadata_of(fields)])
    table.append_rows([{"c": "ab   ", "v": "ab"}])
    for where in ([("c", "=", "ab")], [("c", "!=", "ab")], [("c", "in", ["ab"])]):
        for change in (table.scan, table.delete):
            with pytest.raises(OptionError, match="has the type char, whose spaces"):
                change(where=where)
    found: Any = table.scan(where=[("c", "!=", None), ("v", "=", "ab")])
    assert pa.table(found).num_rows == 1


def test_bounds_of_times_that_are_no_times_skip_nothing(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path, pa.schema({"at": pa.timestamp("us", "UTC")}))
    table.append_rows([{"at": NOON}])
    lines = read_version(table, 1)
    for line in lines:
        if "add" in line:
            bounds = {"at": "2020-01-01T00:00:00.a€€"}
            line["add"]["stats"] = json.dumps(
                {"numRecords": 1, "minValues": bounds, "maxValues": bounds, "nullCount": {"at": 0}}
            )
    write_version(table, 1, lines)
    found: Any = spillway.delta.open(tmp_path).scan(where="at > TIMESTAMP '2025-01-01 00:00:00Z'")
    assert pa.table(found).num_rows == 1
