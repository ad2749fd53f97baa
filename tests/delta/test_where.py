"""A text in ``where`` takes the rows for which it is true in SQL, and no others; or it is refused."""

from __future__ import annotations

import datetime as dt
import json
import math
import re
import subprocess
import sys
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import spillway.delta
from spillway.delta import AddFile, ReadSet
from spillway.errors import ConcurrentAppend, OptionError

from ..counts import examples
from . import test_scans
from .conftest import rows
from .logs import line_of, read_version, write_version
from .test_constraints import LITERALS, ROWS, VALUES, condition
from .test_deletes import MARKS, NUMBERS, numbers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

SCHEMA = ROWS.append(pa.field("moment", pa.timestamp("us", "UTC"))).append(pa.field("id", pa.int64()))
NOON = dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC)
SOME: Mapping[str, list[Any]] = VALUES | {
    "name": [*VALUES["name"], "it's", "p" * 40],
    "moment": [NOON, NOON + dt.timedelta(microseconds=1), NOON - dt.timedelta(days=60)],
}
CLOCK = "TIMESTAMP '2026-01-31 12:00:00.000001'"
TEXTS: Mapping[str, list[str]] = LITERALS | {
    "name": [*LITERALS["name"], "'it''s'", f"'{'p' * 40}'", f"'{'p' * 32}'"],
    "fine": [*LITERALS["fine"], "0.00010000000000000001", "-1"],
    "exact": [*LITERALS["exact"], "7.249999999999999999"],
    "clock": [*LITERALS["clock"], CLOCK, "DATE '2026-01-31'"],
    "moment": [
        "'2026-01-31 12:00:00Z'",
        "'2026-01-31 13:00:00.000001+01:00'",
        "'2026-01-01T00:00:00+00:00'",
    ],
}
# Not of `single`: DuckDB rounds what it is compared with.
LISTS = [
    f"clock in ({CLOCK}, TIMESTAMP '2026-01-31 00:00:00')",
    "name in ('a', 'B', 'it''s', null)",
    "name not in ('', 'p')",
    "whole in (0, 7.0, 7.5, null)",
    "ratio not in (0, 7, 0.1)",
    "nest.whole in (7, -1.0)",
    "flag in (true)",
]
PARTITIONS = [None, "small", "exact", "ratio", "single", "name", "born", "clock", "flag", "moment"]


def row() -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({name: st.sampled_from([None, *values]) for name, values in SOME.items()})


def texts() -> st.SearchStrategy[str]:
    return condition(TEXTS, LISTS)


def made(
    folder: Path | str,
    appends: Sequence[Sequence[dict[str, Any]]],
    partition_by: str | None = None,
    properties: Mapping[str, str] | None = None,
) -> spillway.delta.Table:
    """A table with a version for each of these lists of rows, which get an `id` each."""
    table = spillway.delta.create(
        folder, SCHEMA, partition_by=[partition_by] if partition_by else [], properties=properties
    )
    first = 0
    for each in appends:
        with table.append(row_group_rows=3) as append:
            numbered = [row | {"id": first + n} for n, row in enumerate(each)]
            append.write(pa.Table.from_pylist(numbered, SCHEMA))
        first += len(each)
    return table


class Engine:
    """Another engine with the rows of a table.

    They are in a table of its own: it has pyarrow filter others, which orders NaN differently.
    """

    def __init__(self, table: spillway.delta.Table) -> None:
        self._connection = duckdb.connect()
        self._connection.register("given", pa.table(table.scan()))
        self._connection.execute("create table every as select * from given")

    def ids(self, condition: str) -> list[int]:
        query = f"select id from every where {condition} order by id"  # noqa: S608 - a condition of this test
        return [number for (number,) in self._connection.execute(query).fetchall()]


def ids(table: spillway.delta.Table, where: Any = ()) -> list[int]:
    return sorted(pa.table(table.scan(["id"], where=where))["id"].to_pylist())


@settings(max_examples=examples(1))
@given(
    st.lists(st.lists(row(), min_size=1, max_size=8), min_size=1, max_size=3),
    st.sampled_from(PARTITIONS),
    st.lists(texts(), min_size=1, max_size=4),
)
def test_a_text_finds_the_rows_for_which_another_engine_has_it_true(
    appends: list[list[dict[str, Any]]], partition_by: str | None, conditions: list[str]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = made(folder, appends, partition_by)
        engine = Engine(table)
        for where in conditions:
            assert ids(table, where) == engine.ids(where), where
            scan = table.scan([], where=where)
            assert len(scan.files) + scan.skipped_files == len(table.files())


@settings(max_examples=examples(0.5))
@given(
    st.lists(st.lists(row(), min_size=1, max_size=8), min_size=1, max_size=3),
    st.sampled_from(PARTITIONS),
    texts(),
    st.booleans(),
    st.booleans(),
)
def test_deletes_and_updates_by_text_change_the_rows_that_it_finds_and_no_others(
    appends: list[list[dict[str, Any]]],
    partition_by: str | None,
    where: str,
    marks: bool,  # noqa: FBT001 - hypothesis names it
    deletes: bool,  # noqa: FBT001
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = made(folder, appends, partition_by, MARKS if marks else {})
        found = Engine(table).ids(where)
        before = ids(table)
        if deletes:
            assert table.delete(where).rows == len(found), where
            assert ids(table) == sorted({*before} - {*found})
        else:
            assert table.update(where, {"id": pc.field("id") + 1000}).rows == len(found), where
            assert ids(table) == sorted(n + 1000 if n in found else n for n in before)


@settings(max_examples=examples(0.4))
@given(
    st.lists(st.lists(row(), min_size=1, max_size=8), min_size=1, max_size=3),
    st.sampled_from([None, "small", "born", "flag"]),
    st.lists(texts(), min_size=1, max_size=4),
)
def test_statistics_of_another_writer_hide_no_row(
    appends: list[list[dict[str, Any]]], partition_by: str | None, conditions: list[str]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for number, each in enumerate(appends):
            data = pa.Table.from_pylist([r | {"id": 10 * number + n} for n, r in enumerate(each)], SCHEMA)
            deltalake.write_deltalake(folder, data, mode="append", partition_by=partition_by)
        table = spillway.delta.open(folder)
        engine = Engine(table)
        for where in conditions:
            assert ids(table, where) == engine.ids(where), where


def literal(name: str, value: Any) -> str:
    """A value of the tests of scans in SQL."""
    match value:
        case None:
            return "NULL"
        case bool() | int():
            return str(value)
        case float():
            return repr(value)
        case str():
            return "'" + value.replace("'", "''") + "'"
        case dt.datetime():
            return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
        case dt.date():
            return f"DATE '{value}'"
    raise AssertionError(name)


def as_text(condition: tuple[str, str, Any]) -> str:
    """A tuple in SQL."""
    name, sign, asked = condition
    if asked is None:
        return f"{name} IS {'' if sign == '=' else 'NOT '}NULL"
    if sign == "in":
        return f"{name} IN ({', '.join(literal(name, value) for value in asked)})"
    return f"{name} {sign} {literal(name, asked)}"


def can_be_text(condition: tuple[str, str, Any]) -> bool:
    """Return whether a tuple can be said in SQL: lists have a value, and numbers are finite."""
    _, sign, asked = condition
    values = asked if sign == "in" else [asked]
    is_list = sign != "in" or bool(asked)
    return is_list and not any(isinstance(value, float) and not math.isfinite(value) for value in values)


@settings(max_examples=examples(0.5))
@given(
    st.lists(st.lists(test_scans.row(), min_size=1, max_size=12), min_size=1, max_size=3),
    st.lists(test_scans.condition().filter(can_be_text), min_size=1, max_size=3),
    st.sampled_from([None, "part", "day", "single"]),
)
def test_a_text_finds_what_the_tuples_find_that_say_the_same(
    appends: list[list[dict[str, Any]]], conditions: list[tuple[str, str, Any]], partition_by: str | None
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = spillway.delta.create(folder, test_scans.SCHEMA, partition_by=partition_by or [])
        for each in appends:
            test_scans.append(table, each, row_group_rows=5)
        by_tuples = table.scan(where=conditions)
        by_text = table.scan(where=" AND ".join(map(as_text, conditions)))
        assert rows(pa.table(by_text)) == rows(pa.table(by_tuples))


def test_a_single_is_compared_in_double_precision(tmp_path: Path) -> None:
    """As in Spark: 0.1 in single precision is more than 0.1. A tuple rounds what it is compared with."""
    schema = pa.schema({"part": pa.float32(), "x": pa.float32()})
    table = spillway.delta.create(tmp_path / "t", schema, partition_by="part")
    with table.append() as append:
        append.write(pa.table({"part": [0.1, 0.5, None], "x": [0.1, 0.5, None]}, schema))
    for name in schema.names:
        assert pa.table(table.scan(where=f"{name} > 0.1")).num_rows == 2
        assert pa.table(table.scan(where=f"{name} = 0.1")).num_rows == 0
        assert pa.table(table.scan(where=f"{name} <> 0.1")).num_rows == 2
        assert pa.table(table.scan(where=[(name, "=", 0.1)])).num_rows == 1


def test_decimals_are_compared_digit_by_digit(tmp_path: Path) -> None:
    schema = pa.schema({"price": pa.decimal128(38, 18)})
    prices = [Decimal(text) for text in ("12345678901234567890.123456789012345678", "0.000000000000000001")]
    table = spillway.delta.create(tmp_path / "t", schema)
    for price in prices:
        with table.append() as append:
            append.write(pa.table({"price": [price]}, schema))
    for text, found in [
        (f"price = {prices[0]}", 1),
        ("price > 12345678901234567890.123456789012345677", 1),
        ("price > 12345678901234567890.123456789012345678", 0),
        ("price < 0.000000000000000002", 1),
        ("price <= 0.000000000000000000", 0),
        ("price <> 0.000000000000000001", 1),
        ("price IN (0.000000000000000001, 5)", 1),
    ]:
        assert pa.table(table.scan(where=text)).num_rows == found, text
    scan = table.scan(where="price BETWEEN 1 AND 1000")
    assert (len(scan.files), scan.skipped_files) == (0, 2)
    assert len(table.scan(where="price >= 12345678901234567890").files) == 1


@pytest.fixture
def table(tmp_path: Path) -> spillway.delta.Table:
    """Two partitions, two files each, with rows in order and a struct."""
    schema = pa.schema(
        {
            "part": pa.string(),
            "n": pa.int64(),
            "day": pa.date32(),
            "of": pa.struct({"n": pa.int64(), "price": pa.decimal128(20, 2)}),
            "price": pa.decimal128(9, 2),
        }
    )
    table = spillway.delta.create(tmp_path / "table", schema, partition_by="part")
    prices = [Decimal(4 * n + 1) / 4 for n in range(200)]
    for start in (0, 100):
        span = range(start, start + 100)
        for part in "ab":
            with table.append(row_group_rows=10) as append:
                append.write(
                    pa.table(
                        {
                            "part": [part] * 100,
                            "n": range(start, start + 100),
                            "day": pa.array(range(start, start + 100), pa.int32()).cast(pa.date32()),
                            "of": [{"n": n, "price": prices[n]} if n else None for n in span],
                            "price": [prices[n] for n in span],
                        },
                        schema,
                    )
                )
    return table


@pytest.mark.parametrize(
    ("where", "files", "found"),
    [
        ("part = 'a' AND n < 50", 1, 50),
        ("part = 'a' AND n < 50 OR part = 'b' AND n >= 150", 2, 100),
        ("n = 5 OR n = 105", 4, 4),
        ("n = 5 OR n = 1005", 2, 2),
        ("n IN (7, 8, 5000) AND part <> 'b'", 1, 2),
        ("n NOT BETWEEN 0 AND 199", 0, 0),
        ("n BETWEEN 90 AND 99", 2, 20),
        ("NOT (n < 150 OR part = 'a')", 1, 50),
        ("NOT (n >= 100 AND part = 'a') AND n > 150.5", 1, 49),
        ("n IS NULL", 0, 0),
        ("NOT (n IS NOT NULL) OR n = 3", 2, 2),
        ("of.n > 150", 2, 98),
        ("of.n IS NULL", 2, 2),
        ("of IS NULL", 4, 2),
        ("day < DATE '1970-01-11'", 2, 20),
        ("DATE '1970-01-11' > day AND part IN ('a')", 1, 10),
        ("part < 'b' OR n < -1", 2, 200),
        ("part IS NULL OR NULL", 0, 0),
        ("n = n", 4, 400),
        ("n <> of.n", 4, 0),
        ("TRUE", 4, 400),
        ("FALSE OR NOT TRUE", 0, 0),
    ],
)
def test_files_are_left_out_by_whatever_combines_conditions(
    table: spillway.delta.Table, where: str, files: int, found: int
) -> None:
    scan = table.scan(where=where)
    assert (len(scan.files), scan.skipped_files) == (files, 4 - files)
    assert pa.table(scan).num_rows == found


def damaged(table: spillway.delta.Table, group: int) -> str:
    """A file of the table of which this row group cannot be read."""
    [file] = table.scan(where="part = 'a' AND n < 100").files
    path = Path(table.path) / file.path
    metadata = pq.ParquetFile(path).metadata.row_group(group)
    columns = [metadata.column(n) for n in range(metadata.num_columns)]
    begin = min(column.dictionary_page_offset or column.data_page_offset for column in columns)
    length = sum(column.total_compressed_size for column in columns)
    body = bytearray(path.read_bytes())
    body[begin : begin + length] = b"\xff" * length
    path.write_bytes(body)
    return file.path


@pytest.mark.parametrize(
    ("passes", "reads"),
    [
        ("n < 20 OR n >= 30", "n < 20 OR n >= 29"),
        ("of.n NOT BETWEEN 20 AND 29", "of.n <> 20"),
        ("day IN (DATE '1970-01-06', DATE '1970-02-06')", "day IN (DATE '1970-01-06', DATE '1970-01-26')"),
        ("part = 'b' AND n = 25 OR n = 5", "part = 'a' AND n = 25 OR n = 5"),
        ("price <= 20 OR price > 29.5", "price <= 20.25"),
        ("of.price NOT BETWEEN 20 AND 30", "of.price = 25.25"),
    ],
)
def test_row_groups_are_left_out_by_alternatives_and_by_fields(
    table: spillway.delta.Table, passes: str, reads: str
) -> None:
    path = damaged(table, 2)
    assert pa.table(table.scan(["n"], where=f"part = 'a' AND n < 100 AND ({passes})")).num_rows > 0
    with pytest.raises(Exception, match=path):
        pa.table(table.scan(["n"], where=f"part = 'a' AND n < 100 AND ({reads})"))


def test_columns_that_a_file_lacks_are_null(tmp_path: Path) -> None:
    old = pa.table({"id": [1, 2], "of": [{"x": 1}, None]})
    table = spillway.delta.create(tmp_path / "t", old.schema)
    with table.append() as append:
        append.write(old)
    new = pa.table({"id": [3], "of": [{"x": 2}], "more": [1.5], "flag": [True]})
    with table.append(schema_mode="merge") as append:
        append.write(new)
    for where, found in [
        ("more IS NULL", [1, 2]),
        ("more > 1", [3]),
        ("more > 1 OR id = 1", [1, 3]),
        ("flag", [3]),
        ("NOT flag OR more IS NULL AND of.x IS NOT NULL", [1]),
        ("more IS NULL OR flag", [1, 2, 3]),
    ]:
        assert ids(table, where) == found, where


def test_an_empty_text_of_a_partition_is_null(tmp_path: Path) -> None:
    schema = pa.schema({"part": pa.string(), "text": pa.string()})
    table = spillway.delta.create(tmp_path / "t", schema, partition_by="part")
    with table.append() as append:
        append.write(pa.table({"part": ["", None, "x"], "text": ["", None, "y"]}, schema))
    assert pa.table(table.scan(where="text = ''")).num_rows == 1
    assert pa.table(table.scan(where="part = ''")).num_rows == 0
    assert pa.table(table.scan(where="part IS NULL")).num_rows == 2


OWN_ADVICE = re.compile("did you mean |: (give|write|there are) ")

REFUSED = {
    "n <": r"at its end, it ends too early, before a column or a literal",
    "part like 'a%'": r'at character 1, "part like \'a%\'": patterns are not supported; give comparisons',
    "n IS 1": r'"1": 1 is not expected where it stands, but NULL or NOT NULL after IS; give comp',
    "part = 'a' AND nn > 5": r'at character 16, "nn > 5": there is no column nn: did you mean n\?',
    "of.m > 5": r"there is no column of\.m: did you mean of\.n\?",
    "customer = 5": r"there is no column customer: there are part, n, day, of, price",
    "N > 5": "the column N is named n here",
    "n.x = 1": r"no column n\.x: n has no fields",
    "day < '01.01.2026'": r"at character 7.*compared with '01\.01\.2026'.* no date such as '2026-01-31'",
    "day < TIMESTAMP '2026-01-01 00:00:00Z'": "give DATE '2026-01-31'",
    "n = 'x'": "give a number",
    "part = 5": "give a text",
    "of = 5": "IS NULL alone",
    'part = "a"': "write a text as 'x', and a name as `x`",
    r"part = 'a\b'": "backslash.*tuple of column, operator and value",
    "length(part) > 1": "the function length is not known",
    "n + 1 = 2": r"'\+' is not known",
    "n IN ()": r"\) is not expected",
    "n IN (1, part)": "else than literals",
    "n = 1; DROP TABLE x": "';' is not known",
    "größe = 1": "'ö' is not known: a name with it has backquotes",
    "": "it ends too early",
    "n": "no boolean",
    "n > 1 AND n": r'at character 11, "n": the column n is no boolean',
    "1 = 1": "not of a column",
}


@pytest.mark.parametrize("where", REFUSED)
def test_a_text_that_is_not_understood_is_refused_at_its_place(
    table: spillway.delta.Table, where: str
) -> None:
    for call in (
        lambda: table.scan(where=where),
        lambda: table.delete(where),
        lambda: table.update(where, {"n": 1}),
        lambda: table.commit(removes=[table.files()[0].path], read=ReadSet(where=where)),
    ):
        with pytest.raises(OptionError, match=REFUSED[where]) as refused:
            call()
        assert refused.value.option == "where"
        # What is said in particular makes what may be written in general superfluous.
        general = 'such as "status >= 100' in str(refused.value)
        assert general != bool(OWN_ADVICE.search(str(refused.value)))
    assert table.version == 4


def test_times_say_how_they_are_written(tmp_path: Path) -> None:
    schema = pa.schema({"at": pa.timestamp("us", "UTC"), "clock": pa.timestamp("us")})
    table = spillway.delta.create(tmp_path / "t", schema)
    noon = dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC)
    with table.append() as append:
        append.write(pa.table({"at": [noon], "clock": [noon.replace(tzinfo=None)]}, schema))
    for where in (
        "at = TIMESTAMP '2026-01-31 13:00:00+01:00'",
        "at IN (TIMESTAMP '2026-01-31 12:00:00Z')",
        "at > '2026-01-31T11:59:59.999999Z'",
        "clock = TIMESTAMP '2026-01-31 12:00:00'",
        "clock < '2026-01-31 12:00:00.000001' AND clock > DATE '2026-01-31'",
    ):
        assert pa.table(table.scan(where=where)).num_rows == 1, where
    for where, why in (
        ("at = '2026-01-31 12:00:00'", "no time with a zone, such as '2026-01-31 12:00:00Z'"),
        ("at < DATE '2026-01-31'", "give TIMESTAMP '2026-01-31 12:00:00Z'"),
        ("at < '2026-01-31'", "no time with a zone"),
        ("at IN ('2026-01-31 12:00:00Z')", "write TIMESTAMP before it"),
        ("clock = TIMESTAMP '2026-01-31 12:00:00Z'", "no time without a zone"),
    ):
        with pytest.raises(OptionError, match=why):
            table.scan(where=where)


PIECES = ["n", "part", "of.n", "`of`", "'a'", "5", "-1", "1e3", "0.5", "(", ")", ",", "=", "<>", "<=", "and"]
PIECES += ["or", "not", "is", "null", "in", "between", "true", "date", "timestamp", "."]
PIECES += ["'", "`", "\\", "é", '"']


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[spillway.delta.Table]:
    schema = pa.schema({"part": pa.string(), "n": pa.int64(), "of": pa.struct({"n": pa.int64()})})
    table = spillway.delta.create(tmp_path_factory.mktemp("where") / "t", schema, partition_by="part")
    with table.append() as append:
        append.write(pa.table({"part": ["a", None], "n": [5, None], "of": [{"n": 5}, None]}, schema))
    return table


@settings(max_examples=examples(3))
@given(where=st.lists(st.sampled_from(PIECES), max_size=12).map(" ".join) | st.text(max_size=40))
def test_any_text_is_understood_or_refused(shared: spillway.delta.Table, where: str) -> None:
    try:
        scan = shared.scan(where=where)
    except OptionError:
        return
    assert pa.table(scan).num_rows <= 2


@pytest.mark.parametrize(
    "where",
    [
        "(" * 30_000 + "n = 1" + ")" * 30_000,
        "not " * 15_000 + "n = 1",
        "(" * 60_000,
        "n = 1 or " * 10_000 + "n = 1",
        "(n = 1 or " * 3_000,
    ],
    ids=["parentheses", "nots", "open", "long", "alternating"],
)
def test_a_text_is_bounded_in_depth_and_length(shared: spillway.delta.Table, where: str) -> None:
    with pytest.raises(OptionError, match=r"nested deeper than 64|longer than 65536 bytes") as refused:
        shared.scan(where=where)
    assert len(str(refused.value)) < 1000


def test_the_deepest_text_fits_on_any_stack_of_python(tmp_path: Path) -> None:
    """A thread that overflows its stack takes the process down, so that this needs one of its own."""
    spillway.delta.write(tmp_path / "t", pa.table({"n": [1, 2, 3]}), mode="append")
    program = """if True:
        import sys, threading
        import pyarrow as pa
        import spillway.delta

        table, found = spillway.delta.open(sys.argv[1]), []

        def change():
            alternatives = "(n = 1 or " * 30 + "n = 2" + ")" * 30
            for where in ("(" * 64 + "n = 1" + ")" * 64, "not " * 64 + "n = 1", alternatives):
                found.append(pa.table(table.scan(where=where)).num_rows)
            table.update("(" * 64 + "n = 3" + ")" * 64, {"n": 5})
            table.delete(where="(" * 64 + "n = 1" + ")" * 64)

        threading.stack_size(256 << 10)
        thread = threading.Thread(target=change)
        thread.start()
        thread.join()
        print(found, sorted(pa.table(table.scan())["n"].to_pylist()))
    """
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "t"], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == ("[1, 1, 2] [2, 5]\n", 0), done.stderr


@pytest.mark.parametrize(
    "where",
    [
        f"{'x' * 60_000} = 1",
        f"n = {'9' * 60_000}",
        f"n = '{'x' * 60_000}'",
        f"part = 'a' '{'x' * 60_000}'",
        f"{'x' * 60_000}(n) = 1",
        f"n = 1 {'x' * 60_000}",
    ],
    ids=["name", "number", "text", "texts", "function", "word"],
)
def test_an_error_is_no_longer_than_it_has_to_be(shared: spillway.delta.Table, where: str) -> None:
    with pytest.raises(OptionError, match="where=") as refused:
        shared.scan(where=where)
    assert len(str(refused.value)) < 1500


def test_half_a_character_is_no_text(shared: spillway.delta.Table) -> None:
    with pytest.raises(OptionError, match="not valid Unicode text") as refused:
        shared.scan(where="part = '\ud800'")
    assert refused.value.option == "where"


def test_a_char_is_not_compared_and_may_be_null(tmp_path: Path) -> None:
    schema = pa.schema({"code": pa.string(), "of": pa.struct({"n": pa.int64(), "s": pa.string()})})
    table = spillway.delta.create(tmp_path / "t", schema)
    with table.append() as append:
        append.write(pa.table({"code": ["a", None], "of": [{"n": 5, "s": "x"}, None]}, schema))
    metadata = line_of(table, "metaData")
    fields = json.loads(metadata["schemaString"])
    for field, kind in zip(fields["fields"], ["char(3)", "struct<n:bigint,s:varchar(3)>"], strict=True):
        field["metadata"] = {"__CHAR_VARCHAR_TYPE_STRING": kind}
    write_version(table, 2, [{"metaData": metadata | {"schemaString": json.dumps(fields)}}])
    for where in ("code IS NULL", "of.n = 5", "code IS NOT NULL AND of.n > 4"):
        assert pa.table(table.scan(where=where)).num_rows == 1
    for where in ("code = 'a'", "of.s = 'x'", "code IN ('a')", "code < of.s"):
        with pytest.raises(OptionError, match="type char or varchar"):
            table.scan(where=where)


def test_a_long_list_is_understood(shared: spillway.delta.Table) -> None:
    many = ", ".join(map(str, range(5, 10_000)))
    assert pa.table(shared.scan(where=f"n IN ({many})")).num_rows == 1
    assert pa.table(shared.scan(where=f"n NOT IN ({many})")).num_rows == 0
    assert pa.table(shared.scan(where=" OR ".join(f"n = {n}" for n in range(5_000)))).num_rows == 1


def test_whole_files_are_chosen_by_text_over_partition_columns(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "t", NUMBERS, properties=MARKS, partition_by="part")
    for part in "abc":
        for first in (0, 10):
            with table.append() as append:
                append.write(numbers(10, part, first))
    assert table.optimize(where="part = 'a' OR part > 'b'").removed_files == 4
    assert table.history(1)[0].info["operationParameters"]["predicate"] == "[\"(part = 'a' OR part > 'b')\"]"
    removed = [line["remove"]["partitionValues"] for line in read_version(table, 7) if "remove" in line]
    assert sorted(values["part"] for values in removed) == ["a", "a", "c", "c"]
    table.delete("id = 3")
    assert table.purge(where="part IN ('a', 'b')").removed_files == 2
    written = spillway.delta.write(
        table.path, numbers(3, "b"), mode="overwrite", where="part = 'b' OR part IS NULL"
    )
    assert (written, len(ids(table, "part = 'b'")), len(ids(table))) == (table.version, 3, 3 + 2 * 19)
    with pytest.raises(OptionError, match=r"outside of what they replace, \[\"\(part = 'b'\)\"\]"):
        spillway.delta.write(table.path, numbers(3, "c"), mode="overwrite", where="part = 'b'")
    place = r'at character 15, "id = 5": .* name partition columns alone, which are part'
    for call in (table.optimize, table.purge):
        with pytest.raises(OptionError, match=place) as refused:
            call(where="part = 'a' OR id = 5")
        assert refused.value.option == "where"


def test_a_where_that_is_no_text_of_sql_makes_no_table(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match='where="part = " is not accepted') as refused:
        spillway.delta.write(tmp_path / "t", numbers(3), mode="overwrite", where="part = ")
    assert refused.value.option == "where"
    assert not (tmp_path / "t").exists()


def test_the_history_has_the_text_of_a_change(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "t", NUMBERS, properties=MARKS)
    with table.append() as append:
        append.write(numbers(100))
    table.delete("id < 3 OR id BETWEEN 7 AND 8")
    many = " OR ".join(f"id = {n}" for n in range(1000, 2000))
    table.update(f"id = 5 OR {many}", {"id": -5})
    for version, begin in ((3, "(id = 5 OR id = 1000 OR "), (2, "(id < 3 OR id BETWEEN 7 AND 8)")):
        [entry] = [entry for entry in table.history() if entry.version == version]
        [text] = json.loads(entry.info["operationParameters"]["predicate"])
        assert text.startswith(begin)
        assert len(text) < 2100


def read_before(table: spillway.delta.Table, where: str, late: Sequence[dict[str, Any]], first: int) -> bool:
    """Return whether a transaction that looked for rows has a conflict with an append of these."""
    version = table.version
    [file, *_] = table.files()
    elsewhere = spillway.delta.open(table.path)
    with elsewhere.append() as append:
        data = [row | {"id": first + n} for n, row in enumerate(late)]
        append.write(pa.Table.from_pylist(data, SCHEMA))
    try:
        table.commit(removes=[file.path], read=ReadSet(version=version, where=where))
    except ConcurrentAppend:
        return True
    return False


@settings(max_examples=examples(0.5))
@given(
    st.lists(row(), min_size=1, max_size=4),
    st.lists(row(), min_size=1, max_size=3),
    st.sampled_from(PARTITIONS),
    texts(),
)
def test_a_row_that_was_looked_for_never_comes_unseen(
    early: list[dict[str, Any]], late: list[dict[str, Any]], partition_by: str | None, where: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = made(folder, [early], partition_by)
        conflicts = read_before(table, where, late, 100)
        found = Engine(spillway.delta.open(folder)).ids(f"id >= 100 and ({where})")
        assert conflicts or not found, where


@pytest.mark.parametrize(("late", "conflicts"), [(3, True), (57, True), (50, False), (1000, False)])
def test_an_append_is_a_conflict_where_an_alternative_holds_for_it(
    tmp_path: Path,
    late: int,
    conflicts: bool,  # noqa: FBT001 - pytest names it
) -> None:
    table = spillway.delta.create(tmp_path / "t", NUMBERS)
    with table.append() as append:
        append.write(numbers(100))
    [file] = table.files()
    version = table.version
    with spillway.delta.open(table.path).append() as append:
        append.write(numbers(1, first=late))
    path = tmp_path / "t" / "new.parquet"
    pq.write_table(numbers(10, first=500), path)
    add = AddFile(path.name, path.stat().st_size)
    read = ReadSet(version=version, where="id = 3 OR id BETWEEN 55 AND 60 AND part = 'a'")
    if conflicts:
        with pytest.raises(ConcurrentAppend):
            table.commit(adds=[add], removes=[file.path], read=read)
    else:
        assert table.commit(adds=[add], removes=[file.path], read=read) == version + 2
