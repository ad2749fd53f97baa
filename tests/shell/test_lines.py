"""NDJSON: the same rows as DuckDB reads, wherever they go, and the place of each line that does not fit."""

from __future__ import annotations

import io
import json
import re
import tempfile
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import spillway.delta
from spillway.shell.schemas import inferred, slices

from ..counts import examples
from .conftest import ROWS, encoded, names, refused, run, written

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
VALUES = {
    "id": st.none() | st.integers(-(2**63), 2**63 - 1),
    "price": st.none() | st.floats(allow_nan=False, allow_infinity=False).map(lambda value: value + 0.0),
    "name": st.none() | TEXT,
    "is_new": st.none() | st.booleans(),
    "tags": st.none() | st.lists(TEXT, max_size=3),
}
COLUMNS = {"id": "BIGINT", "price": "DOUBLE", "name": "VARCHAR", "is_new": "BOOLEAN", "tags": "VARCHAR[]"}
# A first line that has a value in each column.
FULL = {"id": 1, "price": 0.5, "name": "x", "is_new": True, "tags": ["a"]}
LINES = st.lists(
    st.fixed_dictionaries(VALUES).flatmap(
        lambda row: st.sets(st.sampled_from(sorted(row))).map(
            lambda dropped: {name: value for name, value in row.items() if name not in dropped}
        )
    )
)


@settings(max_examples=examples(0.3))
@given(
    rows=LINES,
    end=st.sampled_from(["\n", "\r\n"]),
    last=st.sampled_from(["", "\n"]),
    escapes=st.integers(0, 1),
)
def test_rows_are_those_that_duckdb_reads(
    rows: list[dict[str, Any]], end: str, last: str, escapes: int
) -> None:
    text = end.join(json.dumps(row, ensure_ascii=bool(escapes)) for row in [FULL, *rows]) + last
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.ndjson"
        path.write_bytes(text.encode())
        found = written(path, Path(folder) / "out.parquet")
        with duckdb.connect() as engine:
            expected = engine.execute(
                "select * from read_json(?, format='newline_delimited', columns=?)", [str(path), COLUMNS]
            ).fetchall()
    assert [tuple(row.values()) for row in found.to_pylist()] == expected


@given(data=st.binary(max_size=200).map(lambda data: data.replace(b"\xef", b"")), size=st.integers(1, 300))
def test_slices_are_all_bytes_in_whole_lines(data: bytes, size: int) -> None:
    found = list(slices(io.BytesIO(data), Path("rows"), size, 1000))
    whole = b"".join(piece.data for piece in found)
    assert whole == (data if data.endswith(b"\n") or not data else data + b"\n")
    assert all(piece.data.endswith(b"\n") for piece in found)
    assert [piece.before for piece in found] == [
        b"".join(each.data for each in found[:place]).count(b"\n") for place in range(len(found))
    ]


def test_a_byte_order_mark_is_no_part_of_the_first_line_of_any_file(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / f"{number}.ndjson").write_bytes(b"\xef\xbb\xbf" + f'{{"a": {number}}}\n'.encode())
    assert written(tmp_path / "*.ndjson", tmp_path / "out.parquet").to_pylist() == [{"a": 1}, {"a": 2}]


def test_a_last_line_without_an_end_does_not_run_into_the_next_file(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / f"{number}.ndjson").write_text(f'{{"a": {number}}}')
    assert written(tmp_path / "*.ndjson", tmp_path / "out.parquet").to_pylist() == [{"a": 1}, {"a": 2}]


def test_types_are_those_of_the_first_lines() -> None:
    lines = [
        {"a": None, "b": 1, "c": "2026-11-22", "d": [], "e": {"x": 1}},
        {"a": None, "b": 0.5, "c": "2026-11-22 08:30:00", "d": [None], "e": {"y": []}},
    ]
    sample = "".join(json.dumps(line) + "\n" for line in lines).encode()
    expected = {
        "a": pa.string(),
        "b": pa.float64(),
        "c": pa.string(),
        "d": pa.list_(pa.string()),
        "e": pa.struct({"x": pa.int64(), "y": pa.list_(pa.string())}),
    }
    assert inferred(sample, "rows").equals(pa.schema(expected))
    # A bad line is passed over here, and found when it is written.
    assert inferred(sample + b"{no\n", "rows").names == ["a", "b", "c", "d", "e"]


def test_values_of_which_no_type_holds_all_are_named(tmp_path: Path) -> None:
    said = refused("-", tmp_path / "out.parquet", stdin=b'{"a": 1}\n{"a": "x"}\n')
    assert "standard input, line 2: a: no type can be inferred: it is text, and was an integer" in said
    assert "--schema FILE" in said
    assert "schema=" not in said


def test_values_that_do_not_go_together_are_named_with_their_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "1.ndjson").write_text('\n{"a": 1}\n{no\n')
    (tmp_path / "2.ndjson").write_text('{"a": 2}\n  \n{"a": "x"}\n')
    said = refused(tmp_path / "*.ndjson", tmp_path / "out.parquet")
    assert f"{tmp_path / '2.ndjson'}, line 3: a: no type can be inferred" in said


@pytest.mark.parametrize("options", [[], ["--on-error", "skip"]])
@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"a": 1e400}', "a: 1e400 is out of range for a float"),
        ('{"a": 1, "a": 2}', "a: the key comes twice"),
        ("5", "not JSON: expected an object"),
    ],
)
def test_lines_of_which_none_is_good_are_refused_with_the_first_reason(
    tmp_path: Path, line: str, reason: str, options: list[str]
) -> None:
    (tmp_path / "rows.ndjson").write_text(f"\n{line}\n{line}\n")
    said = refused(tmp_path / "rows.ndjson", *options, tmp_path / "out.parquet")
    assert f"{tmp_path / 'rows.ndjson'}, line 2: {reason}" in said
    assert "schema" not in said


@pytest.mark.parametrize(
    "text", [b'{"a": NaN}', b'{"a": "\xff"}', b'{"a": "\\ud800"}', b'{"a": 1', b'{"a": 1, "a": 2}']
)
def test_a_line_that_no_schema_makes_good_is_refused_without_that_advice(tmp_path: Path, text: bytes) -> None:
    said = refused("-", tmp_path / "out.parquet", stdin=b'{"a": 1}\n' + text + b"\n")
    assert "standard input, line 2: " in said
    assert "schema" not in said
    assert "--on-error skip" in said


def rows_of(place: Path, output: str) -> list[dict[str, Any]]:
    """The rows of an output, in the order of their numbers."""
    if output == "table":
        table = pa.table(spillway.delta.open(place).scan())
    else:
        table = pq.read_table(place, partitioning=None)
    return sorted(table.select(["id"]).to_pylist(), key=lambda row: row["id"])


OUTPUTS = {"file": [], "folder": ["--partition-by", "kind"], "table": ["--to-delta"]}
GOOD = [{"id": number, "kind": f"k{number % 3}"} for number in range(2_000)]


def spoilt(tmp_path: Path, bad: dict[int, str]) -> list[Path]:
    """Two files of a thousand lines each; in the second, lines by their number are bad."""
    paths = []
    for number in (0, 1):
        lines = [json.dumps(row) for row in GOOD[number * 1_000 : number * 1_000 + 1_000]]
        if number == 1:
            for line, text in bad.items():
                lines[line - 1] = text
        paths.append(tmp_path / f"{number}.ndjson")
        paths[-1].write_text("\n".join(lines))
    return paths


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"id": "x"}', "id: expected"),
        ('{"id": 1, "more": 2}', "more: the schema has no such key;"),
        ('{"id": 1', ":"),
    ],
    ids=["value", "key", "json"],
)
def test_a_line_that_does_not_fit_is_named_with_its_file(
    tmp_path: Path, out: Path, output: str, text: str, reason: str
) -> None:
    paths = spoilt(tmp_path, {700: text})
    (tmp_path / "schema.json").write_text('{"id": "int64", "kind": "string"}')
    said = refused(*paths, out / "place", *OUTPUTS[output], "--schema", tmp_path / "schema.json")
    assert f"{paths[1]}, line 700: " in said
    assert reason in said.partition("line 700: ")[2]
    assert "--schema FILE" not in said
    assert "--on-error skip" in said
    assert names(out) == set()


@pytest.mark.parametrize("output", OUTPUTS)
def test_bad_lines_that_are_skipped_are_counted_and_named(tmp_path: Path, out: Path, output: str) -> None:
    bad = dict.fromkeys(range(100, 800, 100), '{"id": "x"}')
    paths = spoilt(tmp_path, bad)
    result = run(*paths, out / "place", *OUTPUTS[output], "--on-error", "skip")
    assert result.exit_code == 0, result.output
    said = " ".join(result.stderr.split())
    assert re.findall(r"left out: \S+, line (\d+)", said) == ["100", "200", "300", "400", "500"]
    assert "7 lines left out" in said
    assert "1,993 rows" in said
    left = {number - 1 + 1_000 for number in bad}
    assert rows_of(out / "place", output) == [{"id": row["id"]} for row in GOOD if row["id"] not in left]


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("is_piped", [False, True], ids=["files", "pipe"])
def test_rows_of_csv_with_other_fields_that_are_skipped_are_counted_and_named(
    tmp_path: Path, out: Path, output: str, *, is_piped: bool
) -> None:
    bad = {number: "1,k1,more" if number % 200 == 0 else "1" for number in range(100, 800, 100)}
    lines = [f"{row['id']},{row['kind']}" for row in GOOD]
    for number, text in bad.items():
        lines[number - 2] = text  # the first line of the file has the names
    content = "\n".join(["id,kind", *lines])
    halves = tmp_path / "0.csv", tmp_path / "1.csv"
    inputs = ["-"] if is_piped else [*map(str, halves)]
    for path in halves:
        path.write_text(content)
    place, options = out / "place", [*OUTPUTS[output], "--memory", "16MB", "--on-error", "skip"]
    result = run(*inputs, place, *options, stdin=content.encode() if is_piped else None)
    assert result.exit_code == 0, result.output
    said = " ".join(result.stderr.split())
    name = "standard input" if is_piped else str(halves[0])
    assert f"left out: {name}, row 100: it has 1 field where 2 are expected" in said
    assert f"left out: {name}, row 200: it has 3 fields where 2 are expected" in said
    assert re.findall(r"left out: .+?, row (\d+)", said) == ["100", "200", "300", "400", "500"]
    assert f"{7 * len(inputs)} rows left out" in said
    good = [row["id"] for place, row in enumerate(GOOD, 2) if place not in bad]
    assert [row["id"] for row in rows_of(out / "place", output)] == sorted(good * len(inputs))


def test_a_row_of_csv_with_other_fields_ends_the_command_with_its_row(tmp_path: Path, out: Path) -> None:
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n3\n")
    said = refused(tmp_path / "rows.csv", out / "rows.parquet")
    assert "rows.csv" in said
    assert "Row #3: Expected 2 columns, got 1" in said
    assert "--on-error skip" in said
    assert names(out) == set()


@pytest.mark.parametrize("output", OUTPUTS)
def test_text_is_no_number_of_a_column_whose_type_was_inferred(
    tmp_path: Path, out: Path, output: str
) -> None:
    lines = "".join(f'{{"id": {number}, "kind": "{"x" * 90}"}}\n' for number in range(20_000))
    (tmp_path / "rows.ndjson").write_text(lines + '{"id": "007", "kind": ""}\n')
    said = refused(tmp_path / "rows.ndjson", out / "place", "--memory", "4MB", *OUTPUTS[output])
    assert 'rows.ndjson, line 20,001: id: expected an integer, found the text "007"; its type was inf' in said
    types = tmp_path / "types.json"
    types.write_text('{"id": "int64", "kind": "string"}')
    result = run(tmp_path / "rows.ndjson", out / "place", *OUTPUTS[output], "--schema", types)
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("first", "later"),
    [
        ('{"a": 1}', '{"a": 2.5}'),
        ('{"a": null}', '{"a": 7}'),
        ('{"a": 1}', '{"a": 1, "b": 2}'),
        ('{"a": 1}', '{"a": 18446744073709551615}'),
    ],
    ids=["float", "null", "key", "large"],
)
@pytest.mark.parametrize(
    "bad", ["oops", '{"a": NaN}', "[1]", '{"a": 1', '{"a": 1, "a": 2}', r'{"a": "\ud800"}']
)
def test_a_bad_line_takes_no_good_one_with_it(tmp_path: Path, first: str, later: str, bad: str) -> None:
    lines = [*[first] * 1_500, *[later] * 1_000]
    (tmp_path / "rows.ndjson").write_text("\n".join([*lines, bad]))
    result = run(tmp_path / "rows.ndjson", tmp_path / "out.parquet", "--on-error", "skip")
    assert result.exit_code == 0, result.output
    assert "1 line left out" in result.stderr
    found = pq.read_table(tmp_path / "out.parquet")["a"].to_pylist()
    assert found == [json.loads(line)["a"] for line in lines]


def test_a_key_that_comes_after_the_sample_is_no_silent_loss(tmp_path: Path) -> None:
    lines = "".join(f'{{"id": {number}, "text": "{"x" * 90}"}}\n' for number in range(20_000))
    (tmp_path / "rows.ndjson").write_text(lines + '{"id": 1, "late": 2}\n')
    said = refused(tmp_path / "rows.ndjson", "--memory", "4MB", tmp_path / "out.parquet")
    assert "rows.ndjson, line 20,001: late: the schema has no such key" in said
    assert "--schema FILE" in said
    assert names(tmp_path) == {"rows.ndjson"}


def test_a_line_longer_than_its_share_of_the_memory_is_refused(tmp_path: Path) -> None:
    long = json.dumps({"a": "x" * 600_000})
    said = refused("-", "--memory", "4MB", tmp_path / "out.parquet", stdin=f'{{"a": "y"}}\n{long}\n'.encode())
    assert "standard input: line 2 has over 500,000 bytes, an eighth of --memory" in said
    assert written("-", "--memory", "32MB", tmp_path / "out.parquet", stdin=long.encode()).num_rows == 1


@pytest.mark.parametrize("output", OUTPUTS)
def test_rows_are_the_same_wherever_they_go(tmp_path: Path, out: Path, output: str) -> None:
    keyed = [{**row, "kind": f"k{row['id'] % 3}"} for row in ROWS]
    (tmp_path / "rows.ndjson").write_bytes(encoded("ndjson", pa.Table.from_pylist(keyed)))
    assert run(tmp_path / "rows.ndjson", out / "place", *OUTPUTS[output]).exit_code == 0
    if output == "table":
        found = pa.table(spillway.delta.open(out / "place").scan())
    else:
        found = pq.read_table(out / "place")
    found = found.select(["id", "name", "price", "kind"]).sort_by("id")
    assert [{**row, "kind": str(row["kind"])} for row in found.to_pylist()] == keyed


def test_seconds_given_as_a_type_reach_a_folder(tmp_path: Path) -> None:
    (tmp_path / "schema.json").write_text('{"at": "timestamp[s]", "kind": "string"}')
    line = b'{"at": "2026-11-22T08:30:00", "kind": "a"}\n'
    result = run(
        *("-", tmp_path / "out", "--partition-by", "kind", "--schema", tmp_path / "schema.json"), stdin=line
    )
    assert result.exit_code == 0, result.output
    (moment,) = pq.read_table(tmp_path / "out")["at"].to_pylist()
    assert moment.isoformat() == "2026-11-22T08:30:00"
