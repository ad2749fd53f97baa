"""The code that a search hands out writes what it says, for every library, type and kind of name."""

from __future__ import annotations

import ast
import datetime as dt
import decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spillway.tune.writers import DICTIONARY, LIBRARYS_OWN, WRITERS, Choice, Codec, ColumnChoice

from ..counts import examples

ROWS = 40
ZSTD = Codec("zstd", 1)


@pytest.fixture(scope="module")
def table():
    day = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    return pa.table(
        {
            "whole": pa.array(range(ROWS), pa.int64()),
            "text": [f"text {n % 7}" for n in range(ROWS)],
            "real": [n / 7 for n in range(ROWS)],
            "flag": [n % 3 == 0 for n in range(ROWS)],
            "time": pa.array([day + dt.timedelta(seconds=n) for n in range(ROWS)], pa.timestamp("us", "UTC")),
            "price": pa.array([decimal.Decimal(n) / 100 for n in range(ROWS)], pa.decimal128(12, 2)),
            "a list": pa.array([[n, n + 1] for n in range(ROWS)], pa.list_(pa.int32())),
            'quo"ted': [None if n % 2 else "x" for n in range(ROWS)],
        }
    )


def write(code, table, path):
    exec(compile(code, "<code>", "exec"), {"table": table, "path": str(path)})  # noqa: S102 - as pasted
    return path


def plain(table):
    """The values of a table, whatever Arrow types a library stores beside them."""
    return table.to_pylist()


@pytest.mark.parametrize("name", WRITERS)
def test_the_defaults_are_written_and_read_back(name, table, tmp_path):
    path = write(WRITERS[name].default(), table, tmp_path / "default.parquet")
    assert plain(pq.read_table(path)) == plain(table)


@pytest.mark.parametrize("name", WRITERS)
def test_a_codec_and_row_groups_for_all_columns_are_in_the_file(name, table, tmp_path):
    many = pa.concat_tables([table] * 200)
    rows = 4096 if name == "duckdb" else 3000
    code = WRITERS[name].code(many.schema, Choice(ZSTD, row_group_rows=rows))
    metadata = pq.read_metadata(write(code, many, tmp_path / "file.parquet"))
    assert metadata.num_row_groups > 1
    assert {metadata.row_group(0).column(at).compression for at in range(metadata.num_columns)} == {"ZSTD"}


@pytest.mark.parametrize("name", [name for name, writer in WRITERS.items() if writer.of_columns])
def test_each_column_gets_its_codec_and_encoding(name, table, tmp_path):
    writer = WRITERS[name]
    columns = {
        field.name: ColumnChoice(writer.of_columns[at % 5], writer.encodings(field.type)[-1])
        for at, field in enumerate(table.schema)
    }
    path = write(writer.code(table.schema, Choice(ZSTD, columns)), table, tmp_path / "file.parquet")
    assert plain(pq.read_table(path)) == plain(table)
    group = pq.read_metadata(path).row_group(0)
    for chunk in (group.column(at) for at in range(group.num_columns)):
        asked = columns.get(chunk.path_in_schema)
        if asked is not None and asked.encoding not in {DICTIONARY, LIBRARYS_OWN}:
            assert asked.encoding in chunk.encodings
            codec = asked.codec.name.upper().removesuffix("_RAW")
            assert chunk.compression.removesuffix("_RAW") == codec


@settings(max_examples=examples(0.1), deadline=None)
@given(st.data())
@pytest.mark.parametrize("name", [name for name, writer in WRITERS.items() if writer.of_columns])
def test_any_choice_is_code_that_writes_the_rows(name, table, tmp_path_factory, data):
    writer = WRITERS[name]
    columns = {
        field.name: ColumnChoice(
            data.draw(st.sampled_from(writer.of_columns)),
            data.draw(st.sampled_from(writer.encodings(field.type))),
        )
        for field in table.schema
    }
    choice = Choice(
        ZSTD,
        columns,
        data.draw(st.sampled_from((None, *writer.row_groups))),
        data.draw(st.sampled_from((None, *writer.pages))),
    )
    code = writer.code(table.schema, choice)
    assert max(map(len, code.splitlines())) <= 100
    path = write(code, table, tmp_path_factory.mktemp("any") / "file.parquet")
    assert plain(pq.read_table(path)) == plain(table)


@given(st.lists(st.text(min_size=1, max_size=30), min_size=1, max_size=12, unique=True))
@example([f"column\tname\t{n}" for n in range(6)])
@example(["a\rc", "a\u2028b"])
@pytest.mark.parametrize("name", [name for name, writer in WRITERS.items() if writer.of_columns])
def test_names_of_any_characters_are_literals_of_the_code(name, columns):
    writer = WRITERS[name]
    schema = pa.schema([(column, pa.int64()) for column in columns])
    chosen = {
        column: ColumnChoice(writer.of_columns[0], writer.encodings(pa.int64())[-1]) for column in columns
    }
    code = writer.code(schema, Choice(ZSTD, chosen))
    literals = {node.value for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Constant)}
    assert set(columns) <= literals
