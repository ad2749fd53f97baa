"""`Table.to_polars` gives the rows that polars finds in the whole table, and reads less."""

from __future__ import annotations

import datetime as dt
import functools
import operator
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import spillway.delta
from spillway.delta._polars import where_of

from .logs import add_of, make_log, metadata_of, needs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

START = dt.datetime(2026, 11, 20, tzinfo=dt.UTC)
PARTS = ["a", "it's", "c\\d", "", None]
SCHEMA = pa.schema(
    {
        "part": pa.string(),
        "small": pa.int16(),
        "whole": pa.int64(),
        "odd`name": pa.string(),
        "day": pa.date32(),
        "time": pa.timestamp("us", "UTC"),
        "clock": pa.timestamp("us"),
        "real": pa.float64(),
        "level": pa.float64(),
        "single": pa.float32(),
        "price": pa.decimal128(12, 2),
        "flag": pa.bool_(),
        "raw": pa.binary(),
        "deep": pa.struct({"x": pa.int64()}),
        "many": pa.list_(pa.int64()),
    }
)
REALS = [0.0, -0.0, 0.1, -2.5, float("nan"), float("inf"), -float("inf"), 2.0**53, 1e-300]


def row(number: int) -> dict[str, Any]:
    """A row with a null in one column of most rows."""
    time = START + dt.timedelta(hours=number, microseconds=number % 7)
    whole = {
        "part": PARTS[number % len(PARTS)],
        "small": number - 50,
        "whole": (number - 50) * 2**56,
        "odd`name": ["", "x", "it's", "back\\slash", "ä", "z" * 70][number % 6] + str(number // 20),
        "day": (START + dt.timedelta(days=number)).date(),
        "time": time,
        "clock": time.replace(tzinfo=None),
        "real": REALS[number % len(REALS)],
        "level": number / 8,
        "single": REALS[number % 4],
        "price": number,
        "flag": number % 3 == 0,
        "raw": bytes([number]),
        "deep": {"x": number},
        "many": [number],
    }
    return whole | {SCHEMA.names[number % 23]: None} if number % 23 < len(SCHEMA.names) else whole


ROWS = 120
WHOLE = pa.Table.from_pylist([row(number) for number in range(ROWS)], SCHEMA)


@pytest.fixture(scope="module")
def table() -> Iterator[spillway.delta.Table]:
    """Rows in partitions and several files, some of them marked as deleted."""
    with tempfile.TemporaryDirectory() as name:
        properties = {"delta.enableDeletionVectors": "true"}
        made = spillway.delta.create(Path(name) / "t", SCHEMA, partition_by="part", properties=properties)
        for first in range(0, ROWS, 30):
            with made.append(row_group_rows=4) as append:
                append.write(WHOLE.slice(first, 30))
        assert made.delete("small in (-40, -25, 0, 11)").rows == 4
        yield made


@pytest.fixture(scope="module")
def whole(table: spillway.delta.Table) -> pl.DataFrame:
    found = pl.from_arrow(pa.table(table.scan()))
    assert isinstance(found, pl.DataFrame)
    assert found.height == ROWS - 4
    return found


COMPARE: list[Callable[[Any, Any], pl.Expr]] = [
    operator.eq,
    operator.ne,
    operator.lt,
    operator.le,
    operator.gt,
    operator.ge,
    pl.Expr.eq_missing,
    pl.Expr.ne_missing,
]
COMPARED = [name for name in SCHEMA.names if name not in {"deep", "many"}]


def values(name: str) -> st.SearchStrategy[Any]:
    return st.sampled_from([value for value in WHOLE[name].to_pylist() if value is not None])


@st.composite
def leaves(draw: st.DrawFn) -> pl.Expr:  # noqa: PLR0911 - one for each form
    name = draw(st.sampled_from(COMPARED))
    column = pl.col(name)
    match draw(st.integers(0, 8)):
        case 0:
            return draw(st.sampled_from([column.is_null(), column.is_not_null()]))
        case 1:
            among: list[Any] = draw(st.lists(values(name), max_size=4))
            kind = pl.Series("", among, dtype=pl.DataFrame(WHOLE.select([name])).schema[name])
            return column.is_in(kind.implode())
        case 2 if name != "flag":
            closed = draw(st.sampled_from(["both", "left", "right", "none"]))
            ends = [pl.lit(draw(values(name))) for _ in range(2)]
            return column.is_between(*ends, closed=closed)
        case 3:
            return pl.col("flag")
        case 4:
            return draw(st.sampled_from(COMPARE))(pl.col("small"), pl.col("whole"))
        case 5:
            # What a scan cannot know.
            return draw(
                st.sampled_from(
                    [
                        pl.col("whole") % 3 == 1,
                        pl.col("deep").struct.field("x") > 40,
                        pl.col("odd`name").str.contains("x"),
                        pl.col("many").list.first() < 60,
                        pl.col("small").cast(pl.Int8, strict=False) > 3,
                        pl.lit(True),  # noqa: FBT003 - a literal
                    ]
                )
            )
        case 6:
            number = draw(st.sampled_from([0, 0.0, -0.0, 0.1, -2.5, 3, 2**53 + 1, float("nan")]))
            return draw(st.sampled_from(COMPARE))(
                pl.col(draw(st.sampled_from(["real", "single", "small"]))), number
            )
        case 7:
            return draw(st.sampled_from(COMPARE))(pl.lit(draw(values(name))), column)
        case _:
            return draw(st.sampled_from(COMPARE))(column, draw(values(name)))


def predicates() -> st.SearchStrategy[pl.Expr]:
    return st.recursive(
        leaves(),
        lambda inner: st.one_of(
            inner.map(operator.inv),
            st.tuples(inner, inner).map(lambda both: both[0] & both[1]),
            st.tuples(inner, inner).map(lambda both: both[0] | both[1]),
        ),
        max_leaves=5,
    )


Step = Any


def steps() -> st.SearchStrategy[list[Step]]:
    """Steps of a query: each takes a frame and returns another."""
    filters = predicates().map(lambda predicate: lambda frame: frame.filter(predicate))
    heads = st.integers(0, 130).map(lambda length: lambda frame: frame.head(length))
    return st.lists(st.one_of(filters, filters, heads), min_size=1, max_size=3)


@given(
    query=steps(),
    columns=st.none() | st.lists(st.sampled_from(SCHEMA.names), min_size=1, max_size=3, unique=True),
    engine=st.sampled_from(["in-memory", "streaming"]),
)
def test_a_query_finds_the_rows_that_it_finds_in_the_whole_table(
    table: spillway.delta.Table,
    whole: pl.DataFrame,
    query: list[Step],
    columns: list[str] | None,
    engine: Any,
) -> None:
    def asked(frame: pl.LazyFrame) -> pl.DataFrame:
        for step in query:
            frame = step(frame)
        return frame.select(columns or pl.all()).collect(engine=engine)

    assert_frame_equal(asked(table.to_polars()), asked(whole.lazy()))


# Each is false for all rows of some of the 20 files: four appends to five partitions.
PUSHED = {
    "equal": pl.col("whole") == -50 * 2**56,
    "of a partition": pl.col("part") == "it's",
    "and": (pl.col("small") < -30) & (pl.col("whole") % 2 == 0),
    "or": (pl.col("small") < -30) | (pl.col("day") > dt.date(2027, 3, 10)),
    "not": ~(pl.col("small") > -30),
    "between": pl.col("time").is_between(START, START + dt.timedelta(hours=5)),
    "without a zone": pl.col("clock") < START.replace(tzinfo=None) + dt.timedelta(hours=5),
    "in": pl.col("day").is_in([dt.date(2026, 11, 20), dt.date(2026, 11, 21)]),
    "a text in": pl.col("part").is_in(["a", "nothing"]),
    "null": pl.col("part").is_null(),
    "a literal first": pl.lit(-30, pl.Int16) > pl.col("small"),
    "doubles": pl.col("level") == 2.5,
}


@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(["==", ">=", "<=", "between", "in"]))
@example(94.24502837770503, "==")
def test_a_double_of_a_predicate_keeps_all_of_its_digits(value: float, sign: str) -> None:
    column = pl.col("real")
    predicate = {
        "==": column == value,
        ">=": column >= value,
        "<=": column <= value,
        "between": column.is_between(value, value),
        "in": column.is_in([value]),
    }[sign]
    condition = where_of(predicate, pl.Schema({"real": pl.Float64()}))
    found = re.findall(r"-?\d\.\d+e[+-]\d+", condition)
    assert bool(found) == (value != 0)
    assert {float(digits) for digits in found} <= {value}


@pytest.mark.parametrize("name", PUSHED)
def test_a_condition_leaves_out_files(table: spillway.delta.Table, name: str) -> None:
    frame = table.to_polars()
    asked: list[str] = []

    def noted(columns: Any, predicate: pl.Expr | None, *_: Any) -> Any:
        asked.append("" if predicate is None else where_of(predicate, frame.collect_schema()))
        yield pl.DataFrame(schema=frame.collect_schema()).select(columns or pl.all())

    plan = pl.io.plugins.register_io_source(noted, schema=frame.collect_schema())
    plan.filter(PUSHED[name]).collect()
    (condition,) = asked
    scan = table.scan(where=condition)
    assert scan.skipped_files > 0, condition


def test_a_frame_reads_the_columns_and_rows_that_a_query_needs(
    table: spillway.delta.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    scanned: list[list[str]] = []
    real = spillway.delta.Table.scan

    def noted(self: Any, columns: list[str], **more: Any) -> object:
        scanned.append(columns)
        return real(self, columns, **more)

    frame = table.to_polars()
    monkeypatch.setattr(spillway.delta.Table, "scan", noted)
    assert frame.select("day").head(3).collect().height == 3
    assert frame.filter(pl.col("small") > 0).select("whole").collect().width == 1
    assert frame.select(pl.len()).collect().item() == ROWS - 4
    assert frame.collect().width == len(SCHEMA)
    assert scanned[0] == ["day"]
    assert set(scanned[1]) == {"small", "whole"}
    assert len(scanned[2]) == 1
    assert scanned[3] == SCHEMA.names


def test_a_frame_is_read_in_another_process(table: spillway.delta.Table) -> None:
    frame = table.to_polars().filter(pl.col("small") > 0)
    program = "import polars, sys; print(polars.LazyFrame.deserialize(sys.stdin.buffer).collect().height)"
    done = subprocess.run(
        [sys.executable, "-c", program], input=frame.serialize(), capture_output=True, check=False
    )
    assert int(done.stdout) == frame.collect().height, done.stderr


def test_a_frame_stays_at_its_version(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "t", pa.schema({"n": pa.int64()}))
    empty = table.to_polars()
    table.append_rows([{"n": 1}])
    one = table.to_polars()
    table.append_rows([{"n": 2}])
    assert [frame.collect().height for frame in (empty, one, table.to_polars())] == [0, 1, 2]
    assert table.to_polars(version=1).collect().rows() == [(1,)]
    assert empty.collect().schema == one.collect().schema == {"n": pl.Int64}


def test_mapped_columns_have_the_names_of_the_table(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    folder.mkdir()
    pq.write_table(pa.table({"stored": [1, 2, 3]}), folder / "part.parquet")
    mapped = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "stored"}
    fields = [{"name": "n", "type": "long", "nullable": True, "metadata": mapped}]
    metadata = metadata_of(fields, **{"delta.columnMapping.mode": "name"})
    features = needs("columnMapping", reader=("columnMapping",))
    table = make_log(folder, [features, metadata, add_of(folder / "part.parquet")])
    assert table.to_polars().filter(pl.col("n") >= 2).collect().to_dict(as_series=False) == {"n": [2, 3]}


def test_a_predicate_of_an_unknown_form_is_left_to_polars() -> None:
    schema = {"n": pl.Int64()}
    unknown = [pl.col("n").hash() > 5, pl.col("n").sum() > 3, pl.col("n").is_in([1, None]), pl.len() > 3]
    for predicate in unknown:
        assert where_of(predicate, schema) == ""
    both = functools.reduce(operator.and_, [*unknown, pl.col("n") > 3])
    assert where_of(both, schema) != ""


@pytest.mark.parametrize("year", [10183, -221])
@pytest.mark.parametrize("kind", [pl.Date(), pl.Datetime("us"), pl.Datetime("us", "UTC")], ids=str)
def test_years_that_python_does_not_have_are_left_to_polars(
    tmp_path: Path, year: int, kind: pl.DataType
) -> None:
    days = round((year - 1970) * 365.2425)
    number = days if kind == pl.Date else days * 86_400_000_000
    rows = pl.DataFrame({"at": pl.Series([number, 0]).cast(kind), "n": [1, 2]})
    spillway.delta.write(tmp_path / "t", rows)
    frame = spillway.delta.open(tmp_path / "t").to_polars()
    far = pl.lit(number).cast(kind)
    for asked in (pl.col("at") == far, pl.col("at").is_in(rows["at"].implode()), pl.col("at") > far):
        assert_frame_equal(frame.filter(asked).collect(), rows.filter(asked))
