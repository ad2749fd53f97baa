"""Dates and times that Spark wrote in the calendar of before version 3.0."""

from __future__ import annotations

import datetime as dt
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import spillway.delta
from spillway.delta import when_matched_update
from spillway.errors import CommitConflict, UnsupportedTableError

from ..counts import examples
from .logs import Line, add_of, log_of, make_log, metadata_of

if TYPE_CHECKING:
    from collections.abc import Callable

UTC = dt.UTC
PROTOCOL: Line = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
MARKED = {"org.apache.spark.version": "3.5.1", "org.apache.spark.legacyDateTime": ""}
IN_UTC = {"org.apache.spark.timeZone": "UTC"}
ELSEWHERE = {"org.apache.spark.timeZone": "Europe/Stockholm"}
INT96 = {"org.apache.spark.version": "3.5.1", "org.apache.spark.legacyINT96": ""}
OLD_VERSION = {"org.apache.spark.version": "2.4.8"}
TYPES = {"n": "long", "d": "date", "ts": "timestamp"}
DATES = [
    dt.date(1, 1, 1),
    dt.date(1001, 1, 1),
    dt.date(1582, 10, 4),
    dt.date(1582, 10, 15),
    dt.date(2020, 1, 1),
]


def old_days(day: dt.date) -> int:
    """The days since the epoch of a date in the old calendar ("Converting Julian calendar date to JDN")."""
    if day >= dt.date(1582, 10, 15):
        return (day - dt.date(1970, 1, 1)).days
    shift = (14 - day.month) // 12
    year, month = day.year + 4800 - shift, day.month + 12 * shift - 3
    return day.day + (153 * month + 2) // 5 + 365 * year + year // 4 - 32083 - 2440588


def old_micros(moment: dt.datetime) -> int:
    midnight = dt.datetime(moment.year, moment.month, moment.day, tzinfo=UTC)
    return (old_days(moment.date()) * 86_400_000_000) + (moment - midnight) // dt.timedelta(microseconds=1)


def days(values: list[dt.date | None]) -> pa.Array:
    return pa.array([value and old_days(value) for value in values], pa.int32()).cast(pa.date32())


def moments(values: list[dt.datetime]) -> pa.Array:
    return pa.array(map(old_micros, values), pa.int64()).cast(pa.timestamp("us", "UTC"))


def noon(day: dt.date) -> dt.datetime:
    return dt.datetime(day.year, day.month, day.day, 12, 30, 1, 5, tzinfo=UTC)


def write_marked(
    data: pa.Table, path: Path, mark: dict[str, str], row_group_size: int = 1000, **options: Any
) -> None:
    with pq.ParquetWriter(path, data.schema, store_schema=False, **options) as writer:
        writer.write_table(data, row_group_size)
        writer.add_key_value_metadata(mark)


def made(
    folder: Path, mark: dict[str, str], columns: dict[str, pa.Array], **options: Any
) -> spillway.delta.Table:
    """The table of a writer that marks its file so, and has no statistics of it."""
    folder.mkdir()
    data = pa.table(columns)
    fields = [
        {
            "name": name,
            "type": TYPES.get(name) or kind_of(data.schema.field(name).type),
            "nullable": True,
            "metadata": {},
        }
        for name in data.column_names
    ]
    path = folder / "a.parquet"
    write_marked(data, path, mark, row_group_size=1, **options)
    return make_log(folder, [PROTOCOL, metadata_of(fields)], [add_of(path, {"numRecords": len(data)})])


def kind_of(kind: pa.DataType) -> Any:
    if pa.types.is_struct(kind):
        fields = [{"name": f.name, "type": kind_of(f.type), "nullable": True, "metadata": {}} for f in kind]
        return {"type": "struct", "fields": fields}
    if pa.types.is_list(kind):
        return {"type": "array", "elementType": kind_of(kind.value_type), "containsNull": True}
    return "date"


def column(table: spillway.delta.Table, name: str, where: Any = ()) -> list[Any]:
    return pa.table(table.scan([name], where=where))[name].to_pylist()


@pytest.mark.parametrize("mark", [MARKED, MARKED | ELSEWHERE, OLD_VERSION])
def test_dates_of_the_old_calendar(tmp_path: Path, mark: dict[str, str]) -> None:
    table = made(tmp_path / "t", mark, {"n": pa.array(range(5), pa.int64()), "d": days(DATES)})
    assert column(table, "d") == DATES
    for number, day in enumerate(DATES):
        assert column(table, "n", f"d = DATE '{day}'") == [number]
        assert column(table, "n", [("d", "<=", day)]) == list(range(number + 1))


@given(
    st.lists(
        st.dates(max_value=dt.date(1582, 10, 4)) | st.dates(dt.date(1582, 10, 15)), min_size=1, max_size=5
    )
)
@settings(max_examples=examples(0.4))
def test_any_date_of_the_old_calendar(dates: list[dt.date]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        times = moments([noon(day) for day in dates])
        table = made(Path(folder) / "t", MARKED | IN_UTC, {"d": days(list(dates)), "ts": times})
        assert column(table, "d") == dates
        assert column(table, "ts") == [noon(day) for day in dates]
        assert column(table, "d", [("ts", "=", noon(dates[0]))]) == [day for day in dates if day == dates[0]]


def test_a_day_that_the_calendar_lost_is_the_next_one(tmp_path: Path) -> None:
    # 29 February 1000, which is no leap year any more.
    table = made(tmp_path / "t", MARKED, {"d": pa.array([-354_221], pa.int32()).cast(pa.date32())})
    assert column(table, "d") == [dt.date(1000, 3, 1)]


@pytest.mark.parametrize(
    "mark", [{}, {"org.apache.spark.version": "3.5.1"}, {"org.apache.spark.legacyDateTime": ""}, INT96]
)
def test_other_files_are_as_they_are(tmp_path: Path, mark: dict[str, str]) -> None:
    times = [noon(day) for day in DATES]
    columns = {"d": pa.array(DATES), "ts": pa.array(times, pa.timestamp("us", "UTC"))}
    table = made(tmp_path / "t", mark, columns)
    assert column(table, "d") == DATES
    assert column(table, "ts") == times
    assert column(table, "d", [("ts", "=", times[1])]) == [DATES[1]]


@pytest.mark.parametrize(
    ("mark", "int96"),
    [(MARKED, False), (INT96, True), (OLD_VERSION, True), ({"org.apache.spark.version": "3.0.1"}, True)],
)
def test_timestamps_of_the_old_calendar(tmp_path: Path, mark: dict[str, str], *, int96: bool) -> None:
    times = [noon(day) for day in DATES]
    columns = {"n": pa.array(range(5), pa.int64()), "ts": moments(times)}
    table = made(tmp_path / "utc", mark | IN_UTC, columns, use_deprecated_int96_timestamps=int96)
    assert column(table, "ts") == times
    assert column(table, "n", [("ts", "=", times[1])]) == [1]
    for number, zone in enumerate(({}, ELSEWHERE)):
        table = made(tmp_path / f"{number}", mark | zone, columns, use_deprecated_int96_timestamps=int96)
        for where in ((), "n = 1", [("ts", "<", dt.datetime(1200, 1, 1, tzinfo=UTC))]):
            with pytest.raises(pa.ArrowInvalid, match="calendar"):
                column(table, "ts", where)
        assert column(table, "n") == list(range(5))
        assert column(table, "ts", "n = 4") == [times[4]]


def test_files_with_another_form_of_timestamps(tmp_path: Path) -> None:
    times = [noon(day) for day in DATES[1:]]
    columns = {"ts": moments(times)}
    table = made(tmp_path / "t", MARKED | ELSEWHERE, columns, use_deprecated_int96_timestamps=True)
    # The mark is not that of timestamps in 96 bits.
    assert column(table, "ts")[0] != times[0]
    assert column(table, "ts")[-1] == times[-1]


def test_dates_inside_others(tmp_path: Path) -> None:
    old = days([*DATES, None])
    group = pa.StructArray.from_arrays([old], ["d"])
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 2, 6], pa.int32()), old)
    table = made(tmp_path / "t", MARKED, {"g": group})
    assert column(table, "g") == [{"d": day} for day in [*DATES, None]]
    assert column(table, "g", f"g.d = DATE '{DATES[1]}'") == [{"d": DATES[1]}]
    assert column(made(tmp_path / "u", MARKED, {"l": lists}), "l") == [DATES[:2], [], [*DATES[2:], None]]


REWRITES: dict[str, Callable[[spillway.delta.Table], Any]] = {
    "optimize": lambda table: table.optimize(),
    "update": lambda table: table.update("n = 0", {"n": 10}),
    "update of all": lambda table: table.update([], {"n": pc.field("n") + 10}),
    "delete": lambda table: table.delete("n = 0"),
    "merge": lambda table: table.merge(pa.table({"n": [0, 1]}), "n", when_matched_update({"n": 10})),
}


@pytest.mark.parametrize("way", REWRITES)
def test_rows_are_not_written_again_in_the_old_calendar(tmp_path: Path, way: str) -> None:
    times = [noon(day) for day in DATES]
    columns = {"n": pa.array(range(5), pa.int64()), "d": days(DATES), "ts": moments(times)}
    table = made(tmp_path / "t", MARKED | IN_UTC, columns)
    table.append_rows([{"n": 5, "d": dt.date(2021, 1, 1), "ts": dt.datetime(2021, 1, 1, tzinfo=UTC)}])
    REWRITES[way](table)
    found = pa.table(table.scan()).to_pylist()
    assert {(row["d"], row["ts"]) for row in found} >= set(zip(DATES[1:], times[1:], strict=True))
    for file in table.files():
        read = pq.ParquetFile(tmp_path / "t" / file.path)
        assert b"org.apache.spark.legacyDateTime" not in (read.metadata.metadata or {})
        assert set(read.read()["d"].to_pylist()) <= {*DATES, dt.date(2021, 1, 1)}


@pytest.mark.parametrize("way", REWRITES)
def test_rows_of_an_unknown_zone_are_not_written_again(tmp_path: Path, way: str) -> None:
    columns = {"n": pa.array(range(5), pa.int64()), "ts": moments([noon(day) for day in DATES])}
    table = made(tmp_path / "t", MARKED | ELSEWHERE, columns)
    table.append_rows([{"n": 5, "ts": dt.datetime(2021, 1, 1, tzinfo=UTC)}])
    before = sorted(tmp_path.rglob("*.parquet"))
    with pytest.raises(UnsupportedTableError, match="calendar"):
        REWRITES[way](table)
    assert table.version == 2
    assert sorted(tmp_path.rglob("*.parquet")) == before


def test_statistics_of_a_checkpoint_in_the_old_calendar(tmp_path: Path) -> None:
    table = spillway.delta.create(
        tmp_path / "t",
        pa.schema({"d": pa.date32()}),
        properties={
            "delta.checkpoint.writeStatsAsJson": "false",
            "delta.checkpoint.writeStatsAsStruct": "true",
        },
    )
    table.append_rows([{"d": DATES[1]}])
    (path,) = [log_of(table) / f"{table.checkpoint():020}.checkpoint.parquet"]
    written = pq.read_table(path)
    actions = written.to_pylist()
    for action in actions:
        if action["add"] is not None:
            for bound in ("minValues", "maxValues"):
                action["add"]["stats_parsed"][bound]["d"] = days([DATES[1]])[0].as_py()
    write_marked(pa.Table.from_pylist(actions, written.schema), path, MARKED)
    for body in log_of(table).glob("*.json"):
        body.unlink()
    table = spillway.delta.open(tmp_path / "t")
    assert column(table, "d", [("d", "=", DATES[1])]) == [DATES[1]]


def zoned(moment: dt.datetime, offset: int) -> str:
    """A moment as delta-spark 3.2 writes it in statistics, in a zone that is this many seconds ahead."""
    clock = (moment + dt.timedelta(seconds=offset)).replace(tzinfo=None)
    minutes = abs(offset) // 60
    sign = "-" if offset < 0 else "+"
    return f"{clock.isoformat(timespec='milliseconds')}{sign}{minutes // 60:02}:{minutes % 60:02}"


def with_statistics(folder: Path, moment: dt.datetime, offset: int) -> spillway.delta.Table:
    path = folder / "a.parquet"
    folder.mkdir()
    pq.write_table(pa.table({"ts": pa.array([moment], pa.timestamp("us", "UTC"))}), path)
    field = {"name": "ts", "type": "timestamp", "nullable": True, "metadata": {}}
    bounds = {"ts": zoned(moment, offset)}
    stats = {"numRecords": 1, "minValues": bounds, "maxValues": bounds, "nullCount": {"ts": 0}}
    return make_log(folder, [PROTOCOL, metadata_of([field])], [add_of(path, stats)])


STOCKHOLM = 53 * 60 + 28


@given(
    st.datetimes(dt.datetime(1700, 1, 2), dt.datetime(1900, 1, 1)),  # noqa: DTZ001
    st.integers(60, 14 * 3600) | st.integers(-12 * 3600, -60) | st.just(STOCKHOLM),
)
@settings(max_examples=examples(0.4))
def test_bounds_whose_zone_lost_its_seconds(clock: dt.datetime, offset: int) -> None:
    moment = clock.replace(tzinfo=UTC)
    conditions = [
        [("ts", "=", moment)],
        [("ts", "<=", moment)],
        [("ts", ">=", moment)],
        [("ts", "in", [moment])],
    ]
    with tempfile.TemporaryDirectory() as folder:
        table = with_statistics(Path(folder) / "t", moment, offset)
        for where in conditions:
            assert column(table, "ts", where) == [moment]
        assert column(table, "ts", [("ts", ">", moment)]) == []
        table.set_properties(
            {"delta.checkpoint.writeStatsAsJson": "false", "delta.checkpoint.writeStatsAsStruct": "true"}
        )
        table.checkpoint()
        table = spillway.delta.open(table.path)
        for where in conditions:
            assert column(table, "ts", where) == [moment]
        assert table.delete([("ts", "=", moment)]).rows == 1


def test_conflicts_whose_zone_lost_its_seconds(tmp_path: Path) -> None:
    moment = dt.datetime(1850, 1, 1, 0, 7, 33, tzinfo=UTC)
    table = with_statistics(tmp_path / "t", moment, STOCKHOLM)
    table.set_properties({"delta.isolationLevel": "Serializable"})
    reading = spillway.delta.ReadSet(where=[("ts", "=", moment)], version=table.version)
    path = tmp_path / "t" / "late.parquet"
    pq.write_table(pa.table({"ts": pa.array([moment], pa.timestamp("us", "UTC"))}), path)
    bounds = {"ts": zoned(moment, STOCKHOLM)}
    stats = {"numRecords": 1, "minValues": bounds, "maxValues": bounds, "nullCount": {"ts": 0}}
    late = log_of(table) / f"{table.version + 1:020}.json"
    late.write_text(json.dumps(add_of(path, stats)) + "\n")
    with pytest.raises(CommitConflict):
        table.commit(read=reading, removes=["a.parquet"])
