"""NDJSON in chunks and files becomes what its lines say, and a bad line is named."""

from __future__ import annotations

import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.json
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import spillway

from ..beats import lets_others_run
from .conftest import write_ndjson, write_rows

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("score", pa.float64()),
        ("tags", pa.list_(pa.string())),
        ("at", pa.struct({"x": pa.int32(), "y": pa.bool_()})),
    ]
)
ROWS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "id": st.none() | st.integers(-(2**63), 2**63 - 1),
            "name": st.none() | st.text(st.characters(exclude_categories=("Cs",))),
            "score": st.none() | st.floats(allow_nan=False, allow_infinity=False),
            "tags": st.none() | st.lists(st.none() | st.text(st.characters(exclude_categories=("Cs",)))),
            "at": st.none()
            | st.fixed_dictionaries({"x": st.integers(-(2**31), 2**31 - 1), "y": st.none() | st.booleans()}),
        },
    )
)


@given(ROWS, st.booleans(), st.sampled_from([(",", ":"), (", ", " : ")]))
def test_lines_are_what_the_same_dicts_are(
    rows: list[dict[str, Any]],
    ascii_only: bool,  # noqa: FBT001
    separators: tuple[str, str],
) -> None:
    lines = "".join(json.dumps(row, ensure_ascii=ascii_only, separators=separators) + "\n" for row in rows)
    assert write_ndjson(lines.encode(), SCHEMA).equals(write_rows(rows, SCHEMA))


DOCUMENT = (
    '\ufeff{"id": 1, "name": "caf\u00e9 \\ud83d\\ude00", "score": 1.5e3}\r\n'
    "\n"
    '{"score": null, "tags": ["a", null], "id": -2}\r\n'
    '{"at": {"x": 5, "y": true}, "name": "\u4e2d"}'
).encode()
EXPECTED = [
    {"id": 1, "name": "café 😀", "score": 1500.0, "tags": None, "at": None},
    {"id": -2, "name": None, "score": None, "tags": ["a", None], "at": None},
    {"id": None, "name": "中", "score": None, "tags": None, "at": {"x": 5, "y": True}},
]


def test_a_chunk_may_end_at_any_byte() -> None:
    for place in range(len(DOCUMENT) + 1):
        file = io.BytesIO()
        with spillway.ParquetWriter(file, SCHEMA) as writer:
            writer.write_ndjson(DOCUMENT[:place])
            writer.write_ndjson(DOCUMENT[place:])
        assert pq.read_table(file).to_pylist() == EXPECTED, place


@pytest.mark.parametrize("schema", [SCHEMA, None])
def test_every_byte_may_be_a_chunk(schema: pa.Schema | None) -> None:
    text = b'{"id":1,"name":"a"}\n{"id":2,"name":"b"}'
    file = io.BytesIO()
    with spillway.ParquetWriter(file, schema) as writer:
        written = [writer.write_ndjson(bytes([byte])) for byte in text]
    assert sum(written) == 1, "the second row comes when the writer is closed"
    assert pq.read_table(file).select(["id", "name"]).to_pylist() == [
        {"id": 1, "name": "a"},
        {"id": 2, "name": "b"},
    ]


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview, io.BytesIO])
@pytest.mark.parametrize("schema", [SCHEMA, None])
def test_bytes_and_files_are_taken(wrap: Any, schema: pa.Schema | None) -> None:
    text = b'{"id":1,"name":"a"}\n{"id":2,"name":"b"}'
    assert write_ndjson(wrap(text), schema).column("id").to_pylist() == [1, 2]


def test_a_file_is_read_to_its_end_which_ends_its_last_line() -> None:
    text = b"".join(b'{"id":%d,"name":"%s"}\n' % (i, b"x" * (i % 700)) for i in range(10_000))
    for schema in (SCHEMA, None):
        file = io.BytesIO()
        with spillway.ParquetWriter(file, schema) as writer:
            assert writer.write_ndjson(io.BytesIO(text[:-1])) == 10_000
        assert pq.read_table(file)["id"].to_pylist() == list(range(10_000))


@pytest.mark.parametrize("source", ["text", 5, None, io.StringIO("{}")])
def test_what_has_no_bytes_is_a_type_error(source: Any) -> None:
    with pytest.raises(TypeError, match="bytes"):
        write_ndjson(source, SCHEMA)


def test_what_a_file_raises_comes_through() -> None:
    class Broken:
        def read(self, _size: int) -> bytes:
            raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        write_ndjson(Broken(), SCHEMA)


LINES = b'{"id":1}\n\n{"id":"two"}\n{"id":3}\n'


def test_a_bad_line_is_named_and_no_row_of_its_chunk_is_kept() -> None:
    file = io.BytesIO()
    with spillway.ParquetWriter(file, SCHEMA) as writer:
        writer.write_ndjson(b'{"id":0}\n{"id')
        with pytest.raises(spillway.RowError, match=r'row 2, field "id" \(line 5\)') as caught:
            writer.write_ndjson(b'":0}\n' + LINES)
        # The chunk left no trace: mended, it may come again.
        writer.write_ndjson(b'":0}\n' + LINES.replace(b'"two"', b"2"))
    error = caught.value
    assert (error.row, error.field, error.line, error.raw) == (2, "id", 5, b'{"id":"two"}')
    assert pq.read_table(file)["id"].to_pylist() == [0, 0, 1, 2, 3]


def test_skipping_keeps_exactly_the_good_lines() -> None:
    assert write_ndjson(LINES, SCHEMA, on_error="skip")["id"].to_pylist() == [1, 3]
    heard: list[spillway.RowError] = []
    assert write_ndjson(io.BytesIO(LINES), SCHEMA, on_error=heard.append)["id"].to_pylist() == [1, 3]
    assert [(error.row, error.line, error.raw) for error in heard] == [(1, 3, b'{"id":"two"}')]


def test_what_a_callback_raises_ends_the_call_and_the_rows_before_are_kept() -> None:
    def give_up(error: spillway.RowError) -> None:
        raise LookupError(error.line)

    file = io.BytesIO()
    with spillway.ParquetWriter(file, SCHEMA) as writer, pytest.raises(LookupError, match="3"):
        writer.write_ndjson(LINES, on_error=give_up)
    assert pq.read_table(file)["id"].to_pylist() == [1]


def test_a_bad_last_line_is_told_when_the_writer_is_closed() -> None:
    file = io.BytesIO()
    writer = spillway.ParquetWriter(file, SCHEMA)
    assert writer.write_ndjson(b'{"id":1}\n{"id":') == 1
    with pytest.raises(spillway.RowError, match="the end of the line"):
        writer.close()
    assert not writer.closed
    writer.close()
    assert pq.read_table(file)["id"].to_pylist() == [1]


@pytest.mark.parametrize("text", [b'{"id":', b'{"id":1}\n{"id":'])
def test_a_bad_last_line_goes_where_bad_lines_of_its_call_go(text: bytes) -> None:
    heard: list[spillway.RowError] = []
    good = text.count(b"\n")
    for on_error in (heard.append, "skip"):
        assert write_ndjson(text, SCHEMA, on_error=on_error).num_rows == good
    assert [error.raw for error in heard] == [b'{"id":']


@pytest.mark.parametrize(
    "value", ["NaN", "Infinity", "-Infinity", "nan", "01", "1.", ".5", "+1", "0x1", "1e999"]
)
def test_what_is_no_number_in_json_is_refused(value: str) -> None:
    with pytest.raises(spillway.RowError):
        write_ndjson(b'{"score":%s}\n' % value.encode(), SCHEMA)


def test_bytes_that_are_no_text_are_refused_by_their_place() -> None:
    with pytest.raises(spillway.RowError, match=r"row 1 \(line 2\): not UTF-8 from byte 9 of the line on"):
        write_ndjson(b'{"name":"a"}\n{"name":"\xff"}\n', SCHEMA)


def test_nesting_is_bounded() -> None:
    deep = b'{"id":1,"deep":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n"
    with pytest.raises(spillway.RowError, match="levels of nesting"):
        write_ndjson(deep, SCHEMA, extra="ignore")
    with pytest.raises(spillway.RowError, match="levels of nesting"):
        write_ndjson(deep)


DEEP = "[" * 130 + "]" * 130
#: Values that no schema makes good, and what is said of them.
UNREADABLE = {
    DEEP: "levels of nesting",
    '{"k":' * 200 + "1" + "}" * 200: "levels of nesting",
    '{"k": [1, 2}': "not JSON",
    "tru": "not JSON",
    '"open': "not JSON",
}


@pytest.mark.parametrize("value", UNREADABLE)
@pytest.mark.parametrize(
    "line", ['{{"x": {}}}', '{{"a": 1, "x": {}}}', '{{"x": {}, "a": 1}}', '{{"n": {{"x": {}}}}}']
)
@pytest.mark.parametrize("before", ["", '{"b": 2}\n', '{"a": 1}\n'])
def test_without_a_schema_an_unreadable_line_is_told_by_what_is_wrong_with_it(
    value: str, line: str, before: str
) -> None:
    with pytest.raises(spillway.RowError, match=UNREADABLE[value]) as caught:
        write_ndjson(f"{before}{line.format(value)}\n".encode())
    assert caught.value.row == before.count("\n")


@pytest.mark.parametrize("value", ['[1, "x"]', '[{"y": 1}, {"y": "z"}]', '{"y": [1, [2]]}'])
def test_without_a_schema_values_that_do_not_go_together_are_told_by_their_field(value: str) -> None:
    with pytest.raises(spillway.RowError) as caught:
        write_ndjson(f'{{"a": 1, "x": {value}}}\n'.encode())
    assert caught.value.field.startswith("x")


def test_a_line_of_ten_megabytes_is_a_line() -> None:
    long = "0123456789" * 1_000_000
    for text in (long, long + "\n\u00e9"):
        table = write_ndjson(io.BytesIO(json.dumps({"name": text}).encode() + b'\n{"name":"b"}\n'))
        assert table["name"].to_pylist() == [text, "b"]


@given(st.binary(max_size=200))
def test_no_bytes_do_harm(noise: bytes) -> None:
    text = b'{"id":1}\n' + noise.replace(b"\n", b"") + b'\n{"id":2}\n'
    ids = write_ndjson(text, SCHEMA, on_error="skip", extra="ignore")["id"].to_pylist()
    assert [ids[0], ids[-1]] == [1, 2]


def test_times_are_text_or_integers_in_the_columns_unit() -> None:
    schema = pa.schema([("t", pa.timestamp("ms", "UTC")), ("d", pa.date32()), ("n", pa.decimal128(6, 2))])
    text = b'{"t":"1969-12-31T23:59:59.999999Z","d":"1969-12-31","n":12.5}\n{"t":-1,"d":-1,"n":"12.50"}\n'
    rows = write_ndjson(text, schema).to_pylist()
    assert rows[0] == rows[1]


def test_maps_are_objects_or_pairs() -> None:
    schema = pa.schema([("m", pa.map_(pa.int64(), pa.string()))])
    text = b'{"m":{"1":"a","2":null}}\n{"m":[[1,"a"],[2,null]]}\n'
    assert write_ndjson(text, schema)["m"].to_pylist() == [[(1, "a"), (2, None)]] * 2


def test_a_schema_is_inferred_as_pyarrow_infers_it() -> None:
    text = b'{"i":1,"f":1,"s":"x","n":null,"l":[1],"o":{"a":true}}\n{"i":2,"f":0.5,"l":[],"o":null}\n'
    ours, theirs = write_ndjson(text), pyarrow.json.read_json(io.BytesIO(text))
    assert ours.drop(["n", "l"]).to_pylist() == theirs.drop(["n", "l"]).to_pylist()
    assert ours.schema.field("l").type.value_type == pa.int64()
    assert ours.schema.field("n").type == pa.string()


def test_lines_that_no_schema_holds_are_named() -> None:
    with pytest.raises(spillway.SchemaError, match=r'row 1, field "a": .*it is text, and was an integer'):
        write_ndjson(b'{"a":1}\n{"a":"x"}\n')


@pytest.mark.parametrize(
    ("line", "field"), [(b'{"x":"a","x":"b"}\n', "x"), (b'{"x":{"y":1,"y":2}}\n', "x.y")]
)
def test_a_line_with_a_key_twice_says_nothing_of_the_schema(line: bytes, field: str) -> None:
    table = write_ndjson(line + b'{"x":1}\n', on_error="skip")
    assert table.to_pylist() == [{"x": 1}]
    with pytest.raises(spillway.RowError, match="the key comes twice") as caught:
        write_ndjson(line)
    assert caught.value.field == field


def test_other_threads_run_while_lines_are_parsed() -> None:
    text = b'{"id":1,"name":"some text"}\n' * 1_000_000
    with spillway.ParquetWriter("/dev/null", SCHEMA) as writer:
        assert lets_others_run(lambda: writer.write_ndjson(text))
