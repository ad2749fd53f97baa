"""Files, folders, globs and pipes of every format and compression: no row and no value is lost."""

from __future__ import annotations

import datetime as dt
import decimal
import io
import json
import os
import re
import signal
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.console import Console

import spillway
from spillway.errors import CorruptFileError, OptionError, SchemaError
from spillway.reading import text as reading_text
from spillway.reading.files import open_pipe, open_rows
from spillway.reading.sources import FileSource, find_files, open_files
from spillway.reading.text import Quotes, TextOptions, interruptible
from spillway.shell import Job, Progress, run_write
from spillway.shell.job import Memory

from .conftest import CODECS, TABLE, compressed, encoded, names, refused, rows_as, run, written

if TYPE_CHECKING:
    from collections.abc import Iterator

FORMATS = ("parquet", "arrow", "arrows", "csv", "ndjson")


@pytest.mark.parametrize("suffix", CODECS)
@pytest.mark.parametrize("form", FORMATS)
def test_a_file_is_written_row_by_row(tmp_path: Path, form: str, suffix: str) -> None:
    path = tmp_path / f"rows.{form}{suffix}"
    path.write_bytes(compressed(encoded(form), CODECS[suffix]))
    if suffix and form not in {"csv", "ndjson"}:
        assert "compressed as a whole" in refused(path, tmp_path / "out.parquet")
    else:
        assert written(path, tmp_path / "out.parquet").to_pylist() == rows_as(form)


@pytest.mark.parametrize("suffix", CODECS)
@pytest.mark.parametrize("form", FORMATS)
def test_standard_input_is_told_by_its_first_bytes(tmp_path: Path, form: str, suffix: str) -> None:
    content = compressed(encoded(form), CODECS[suffix])
    assert written("-", tmp_path / "out.parquet", stdin=content).to_pylist() == rows_as(form)


def of_duckdb(path: Path) -> None:
    duckdb.sql(f"COPY (SELECT {{'a b.c': INTERVAL 3 DAY}} AS within) TO '{path}' (FORMAT parquet)")


def of_extension(path: Path, name: str, *, is_stored: bool = False) -> None:
    parts = {"metadata": b"\x01\x00\x00", "value": b"\x00"}
    value, kind = {
        "geoarrow.wkb": (b"\x01" + b"\x01\x00\x00\x00" + bytes(16), pa.binary()),
        "arrow.parquet.variant": (parts, pa.struct(dict.fromkeys(parts, pa.binary()))),
    }[name]
    marks = {"ARROW:extension:name": name, "ARROW:extension:metadata": ""}
    schema = pa.schema([pa.field("a b.c", kind, metadata=marks)])
    spillway.write_parquet(pa.table({"a b.c": [value]}, schema=schema), path, store_schema=is_stored)


LOST = {
    "Interval": of_duckdb,
    "Geometry": partial(of_extension, name="geoarrow.wkb"),
    "Variant": partial(of_extension, name="arrow.parquet.variant"),
}


@pytest.mark.parametrize("kind", LOST)
def test_a_type_of_parquet_that_would_be_lost_is_refused(tmp_path: Path, kind: str) -> None:
    path, out = tmp_path / "in.parquet", tmp_path / "out.parquet"
    LOST[kind](path)
    for message in (refused(path, out), refused("-", out, stdin=path.read_bytes())):
        assert re.search(rf"column (within\.)?a b\.c is {kind}, .*--copy-row-groups", message)
    assert not out.exists()
    assert run(path, out, "--copy-row-groups").exit_code == 0
    assert kind in str(pq.read_metadata(out).schema)


@pytest.mark.parametrize("name", ["geoarrow.wkb", "arrow.parquet.variant"])
def test_a_type_that_the_stored_schema_names_is_kept(tmp_path: Path, name: str) -> None:
    of_extension(tmp_path / "in.parquet", name, is_stored=True)
    written(tmp_path / "in.parquet", tmp_path / "out.parquet")
    before, after = (str(pq.read_metadata(tmp_path / f"{each}.parquet").schema) for each in ("in", "out"))
    assert before.splitlines()[1:] == after.splitlines()[1:]


TABLES = {"_delta_log/0.json": "a Delta table", ".hoodie/x": "a Hudi table", "_spark_metadata/0": "a stream"}


@pytest.mark.parametrize("log", TABLES)
@pytest.mark.parametrize("inside", ["", "day=1"])
def test_a_folder_whose_files_a_log_lists_is_not_read_as_plain_files(
    tmp_path: Path, log: str, inside: str
) -> None:
    folder = tmp_path / "t" / inside
    folder.mkdir(parents=True)
    (folder / "part.parquet").write_bytes(encoded("parquet"))
    (tmp_path / "t" / log).parent.mkdir()
    (tmp_path / "t" / log).write_text("{}")
    for arguments in ([folder, tmp_path / "out.parquet"], ["--rewrite", folder]):
        message = refused(*arguments)
        assert f"{tmp_path / 't'} is " in message
        assert "files that are no longer part of it" in message
    assert "table" in refused("--rewrite", folder / "part.parquet")
    written(folder / "part.parquet", tmp_path / "named.parquet")


def test_two_stars_match_no_hidden_files_unless_the_pattern_names_them(tmp_path: Path) -> None:
    for name in ("a.parquet", "day=1/b.parquet", "_temporary/0/c.parquet"):
        path = tmp_path / "t" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encoded("parquet"))
    for pattern, files in (("t/**/*.parquet", 2), ("t/_temporary/**/*.parquet", 1)):
        result = run(tmp_path / pattern, tmp_path / f"{files}.parquet")
        assert f"of {files} file" in result.stderr


def test_a_partition_column_that_begins_with_an_underscore_hides_no_rows(tmp_path: Path) -> None:
    spillway.write_dataset(pa.table({"_day": [1, 2], "id": [10, 20]}), tmp_path / "d", partition_by="_day")
    read = written(tmp_path / "d", tmp_path / "flat.parquet")
    assert read.sort_by("id").to_pylist() == [{"id": 10, "_day": 1}, {"id": 20, "_day": 2}]


def test_an_input_that_is_gone_once_its_rows_are_written_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / "rows.ndjson"
    path.write_bytes(encoded("ndjson"))
    size = path.stat().st_size

    class Consuming(Progress):
        def show(self, rows: int, done: float | None = None) -> None:
            super().show(rows, done)
            path.unlink(missing_ok=True)

    job = Job((str(path),), str(tmp_path / "out.parquet"), Memory(64_000_000))
    done = run_write(job, Consuming(Console(quiet=True)))
    assert (done.bytes_read, done.rows) == (size, TABLE.num_rows)


@given(cut=st.integers(1, 4096), form=st.sampled_from(FORMATS))
def test_a_pipe_may_come_in_pieces_of_any_size(cut: int, form: str) -> None:
    content = encoded(form)

    class Dripping:
        place = 0

        def read(self, size: int) -> bytes:
            taken = content[self.place : self.place + min(size, cut)]
            self.place += len(taken)
            return taken

    pipe = open_pipe(Dripping(), "a pipe", TextOptions())
    with pipe.rows(TextOptions(), block_bytes=1 << 20) as rows:
        assert pa.Table.from_batches(rows.batches, rows.schema).to_pylist() == rows_as(form)
    assert pipe.source.taken == len(content)


def test_a_named_pipe_is_read_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    content = encoded("csv")
    filling = threading.Thread(target=pipe.write_bytes, args=(content,), daemon=True)
    filling.start()
    result = written(pipe, tmp_path / "out.parquet")
    filling.join(60)
    assert result.to_pylist() == rows_as("csv")


@pytest.fixture
def unheard() -> Iterator[None]:
    """Handlers of Python that do nothing, as if their exception went under in a finalizer."""
    numbers = (signal.SIGINT, signal.SIGUSR1)
    before = [signal.signal(number, lambda *_: None) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.usefixtures("unheard")
def test_an_interrupt_ends_the_wait_for_a_pipe_and_other_signals_do_not() -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as file, os.fdopen(writing, "wb", buffering=0) as filling:
        filling.write(b"some")
        with interruptible(file) as pipe:
            os.kill(os.getpid(), signal.SIGUSR1)
            assert pipe.read(10) == b"some"
            os.kill(os.getpid(), signal.SIGINT)
            with pytest.raises(KeyboardInterrupt):
                pipe.read(10)
        # A thread that reads ahead finds the end.
        assert pipe.read(10) == b""


@pytest.mark.parametrize("form", FORMATS)
def test_folders_globs_and_lists_of_files_are_one_stream_in_their_order(tmp_path: Path, form: str) -> None:
    folder = tmp_path / "days"
    folder.mkdir()
    for number in range(3):
        part = TABLE.slice(number * 100, 100)
        (folder / f"{number}.{form}").write_bytes(encoded(form, part))
    listed = sorted(folder.iterdir())
    for inputs in ([folder], [folder / f"*.{form}"], listed):
        assert written(*inputs, "--mode", "overwrite", tmp_path / "out.parquet").to_pylist() == rows_as(form)
    backwards = written(*reversed(listed), "--mode", "overwrite", tmp_path / "out.parquet")
    assert backwards["id"].to_pylist() == [*range(200, 300), *range(100, 200), *range(100)]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("output", ["file", "folder"])
def test_keys_in_the_names_of_folders_are_columns(tmp_path: Path, form: str, output: str) -> None:
    for day in (1, 2):
        folder = tmp_path / "days" / f"day={day}"
        folder.mkdir(parents=True)
        (folder / f"rows.{form}").write_bytes(encoded(form, TABLE.slice(day * 10, 10)))
    expected = [{**row, "day": day} for day in (1, 2) for row in rows_as(form)[day * 10 : day * 10 + 10]]
    if output == "file":
        assert written(tmp_path / "days", tmp_path / "out.parquet").to_pylist() == expected
        # As a shell makes them of days/day=*/rows.
        files = sorted((tmp_path / "days").rglob(f"*.{form}"))
        assert written(*files, tmp_path / "listed.parquet").to_pylist() == expected
    else:
        result = run(tmp_path / "days", tmp_path / "out", "--partition-by", "day")
        assert result.exit_code == 0, result.output
        assert pq.read_table(tmp_path / "out").sort_by("id").select(["id", "day"]).to_pylist() == [
            {"id": row["id"], "day": row["day"]} for row in expected
        ]


@pytest.mark.parametrize("kind", ["int32", "int64", "string"])
@pytest.mark.parametrize("form", ["csv", "ndjson"])
def test_keys_of_folders_that_a_schema_lists_have_its_types(tmp_path: Path, form: str, kind: str) -> None:
    for day in (1, 2):
        folder = tmp_path / "days" / f"day={day}"
        folder.mkdir(parents=True)
        (folder / f"rows.{form}").write_bytes(encoded(form, pa.table({"id": [day * 10]})))
    types = pa.schema([pa.field("day", kind, nullable=False), pa.field("id", pa.int64())])
    pq.write_table(types.empty_table(), tmp_path / "types.parquet")
    result = written(tmp_path / "days", "--schema", tmp_path / "types.parquet", tmp_path / "out.parquet")
    assert result.schema.field("day").type == kind
    day_of = str if kind == "string" else int
    assert result.select(["day", "id"]).to_pylist() == [
        {"day": day_of(day), "id": day * 10} for day in (1, 2)
    ]


@pytest.mark.parametrize("form", ["csv", "ndjson"])
def test_a_name_of_a_folder_that_is_no_value_of_its_column_is_refused(tmp_path: Path, form: str) -> None:
    (tmp_path / "day=monday").mkdir()
    (tmp_path / "day=monday" / f"rows.{form}").write_bytes(encoded(form, pa.table({"id": [1]})))
    (tmp_path / "types.json").write_text('{"id": "int64", "day": "int32"}')
    said = refused(
        tmp_path / "day=*" / f"*.{form}", "--schema", tmp_path / "types.json", tmp_path / "out.parquet"
    )
    assert "a folder is named day=monday, and column day is int32" in said
    assert names(tmp_path) == {"day=monday", "types.json"}


def test_lines_that_have_the_key_of_their_folder_keep_their_values(tmp_path: Path) -> None:
    (tmp_path / "day=1").mkdir()
    (tmp_path / "day=1" / "rows.ndjson").write_text('{"day": 7}\n{"day": null}\n')
    result = written(tmp_path / "day=*" / "*.ndjson", tmp_path / "out.parquet")
    assert result.to_pylist() == [{"day": 7}, {"day": 1}]


def test_columns_of_several_files_are_matched_by_name(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("a,b\n1,x\n")
    (tmp_path / "2.csv").write_text("c,a\n0.5,2\n")
    assert written(tmp_path / "*.csv", tmp_path / "out.parquet").to_pylist() == [
        {"a": 1, "b": "x", "c": None},
        {"a": 2, "b": None, "c": 0.5},
    ]


def test_columns_that_do_not_go_together_are_named_with_their_file(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"a": ["x"]}), tmp_path / "2.parquet")
    said = refused(tmp_path / "1.parquet", tmp_path / "2.parquet", tmp_path / "out.parquet")
    assert f"{tmp_path / '2.parquet'}: column a is string, and int64 in the files before" in said
    assert names(tmp_path) == {"1.parquet", "2.parquet"}


def test_files_of_two_formats_are_refused(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("a\n1\n")
    (tmp_path / "2.ndjson").write_text('{"a": 1}\n')
    said = refused(tmp_path / "1.csv", tmp_path / "2.ndjson", tmp_path / "out.parquet")
    assert (
        f"{tmp_path / '2.ndjson'} is NDJSON, and {tmp_path / '1.csv'} is CSV: name files of one format"
        in said
    )


def test_a_pipe_is_read_alone(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("a\n1\n")
    said = refused("-", tmp_path / "1.csv", tmp_path / "out.parquet", stdin=b"a\n1\n")
    assert "- is a pipe, which must be the only input" in said


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "standard input is empty"),
        (bytes(600), "not text"),
        ("a,b\n1,2\n".encode("utf-16"), "pass --encoding utf-16"),
        (b'[{"a": 1}]', "holds a JSON array"),
        (b"PARE" + bytes(20), "encrypted Parquet"),
        (b"\n \n", "standard input"),
    ],
    ids=["empty", "binary", "utf-16", "array", "encrypted", "blank"],
)
def test_what_is_no_input_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    assert reason in refused("-", tmp_path / "out.parquet", stdin=content)
    assert names(tmp_path) == set()


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
@pytest.mark.parametrize("form", ["parquet", "arrow", "arrows", "ndjson", "csv"])
@pytest.mark.parametrize("piped", [False, True], ids=["file", "pipe"])
def test_an_input_that_is_cut_off_leaves_no_file(
    tmp_path: Path,
    out: Path,
    form: str,
    suffix: str,
    piped: bool,  # noqa: FBT001 - of pytest
) -> None:
    if not suffix and form == "csv":
        content = encoded(form)[:-20] + b',"'  # a row that ends in the middle
    elif not suffix and form == "ndjson":
        content = encoded(form)[:-20]  # a line that ends in the middle
    else:
        content = compressed(encoded(form), CODECS[suffix])[:-40]
    path = tmp_path / f"rows.{form}{suffix}"
    path.write_bytes(content)
    result = run("-" if piped else path, out / "out.parquet", stdin=content if piped else None)
    assert result.exit_code == 2, result.output
    assert ("standard input" if piped else str(path)) in " ".join(result.stderr.split())
    assert names(out) == set()


def test_text_without_a_name_that_tells_is_what_the_option_says(tmp_path: Path) -> None:
    (tmp_path / "rows.log").write_text("a;b\n1;x\n")
    result = written(tmp_path / "rows.log", "--format", "csv", "--delimiter", ";", tmp_path / "out.parquet")
    assert result.to_pylist() == [{"a": 1, "b": "x"}]
    assert "choose csv or ndjson" in refused(tmp_path / "rows.log", "--format", "xml", tmp_path / "x.parquet")


def test_text_of_another_encoding_is_read_with_its_name(tmp_path: Path) -> None:
    for form, text in {"csv": "a\nMüller\n", "ndjson": '{"a": "Müller"}\n'}.items():
        (tmp_path / f"rows.{form}").write_bytes(text.encode("latin-1"))
        result = written(
            tmp_path / f"rows.{form}",
            "--encoding",
            "latin-1",
            "--mode",
            "overwrite",
            tmp_path / "out.parquet",
        )
        assert result.to_pylist() == [{"a": "Müller"}]
        piped = written(
            *("-", "--encoding", "latin-1", "--mode", "overwrite", tmp_path / "out.parquet"),
            stdin=text.encode("latin-1"),
        )
        assert piped.to_pylist() == [{"a": "Müller"}]


SCHEMA = {
    "id": "int16",
    "at": "timestamp[us, tz=UTC]",
    "cost": "decimal(9, 2)",
    "tags": ["string"],
    "http": {"status": "int16", "ok": "bool"},
}
TYPES = pa.schema(
    {
        "id": pa.int16(),
        "at": pa.timestamp("us", tz="UTC"),
        "cost": pa.decimal128(9, 2),
        "tags": pa.list_(pa.string()),
        "http": pa.struct({"status": pa.int16(), "ok": pa.bool_()}),
    }
)


@pytest.mark.parametrize("form", ["json", "parquet", "arrow", "arrows"])
def test_types_of_text_come_from_a_file(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"schema.{form}"
    path.write_bytes(json.dumps(SCHEMA).encode() if form == "json" else encoded(form, TYPES.empty_table()))
    line = {"id": 1, "at": "2026-11-22T08:30:00Z", "cost": "1.50", "tags": ["a"], "http": {"status": 200}}
    stdin = json.dumps(line).encode()
    assert written("-", "--schema", path, tmp_path / "out.parquet", stdin=stdin).schema.equals(TYPES)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("no json", "give a Parquet or Arrow file, or JSON"),
        ("[]", "lists no columns"),
        ('{"a": "int65"}', 'column a has "int65", which is not a type'),
        ('{"a": {"b": ["no"]}}', 'column a.b has "no", which is not a type'),
    ],
)
def test_a_file_without_a_schema_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "schema").write_text(text)
    said = refused("-", "--schema", tmp_path / "schema", tmp_path / "out.parquet", stdin=b'{"a": 1}')
    assert reason in said


def test_the_schema_of_csv_lists_its_columns(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
    for listed, reason in (
        ('{"a": "string"}', "has a column b, which --schema does not list"),
        ('{"a": "string", "b": "int8", "c": "int8"}', "--schema lists a column c"),
    ):
        (tmp_path / "schema.json").write_text(listed)
        assert reason in refused(
            tmp_path / "rows.csv", "--schema", tmp_path / "schema.json", tmp_path / "out.parquet"
        )
    (tmp_path / "schema.json").write_text('{"a": "string", "b": "int8"}')
    result = written(tmp_path / "rows.csv", "--schema", tmp_path / "schema.json", tmp_path / "out.parquet")
    assert result.to_pylist() == [{"a": "1", "b": 2}]


def test_a_value_of_csv_that_does_not_fit_is_named_with_its_row(tmp_path: Path) -> None:
    lines = "".join(f"{number}\n" for number in range(200_000))
    (tmp_path / "rows.csv").write_text(f"a\n{lines}x\n")
    said = refused(tmp_path / "rows.csv", "--memory", "4MB", tmp_path / "out.parquet")
    assert "rows.csv" in said
    assert "invalid value 'x'" in said
    assert "Row #200002" in said
    assert "--schema FILE" in said


def test_options_for_another_format_are_refused(tmp_path: Path) -> None:
    (tmp_path / "rows.parquet").write_bytes(encoded("parquet"))
    (tmp_path / "schema.json").write_text('{"a": "int8"}')
    inputs = [tmp_path / "rows.parquet", tmp_path / "out.parquet"]
    assert "--schema is for CSV and NDJSON" in refused(*inputs, "--schema", tmp_path / "schema.json")
    assert "--on-error skip is for CSV and NDJSON" in refused(*inputs, "--on-error", "skip")
    assert "--delimiter is for CSV" in refused(*inputs, "--delimiter", ";")
    assert names(tmp_path) == {"rows.parquet", "schema.json"}


@pytest.mark.parametrize("values", [["x" * 100_000] * 300, [f"{number}" * 1000 for number in range(2_000)]])
def test_batches_of_parquet_are_as_large_as_a_block(tmp_path: Path, values: list[str]) -> None:
    table = pa.table({"id": range(len(values)), "text": values})
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=len(values) // 2 + 1)
    block = 1 << 20
    with open_rows(tmp_path / "rows.parquet", block_bytes=block) as rows:
        batches = list(rows.batches)
    assert max(batch.nbytes for batch in batches) <= 2 * block
    assert len(batches) < 100
    assert pa.Table.from_batches(batches).equals(table)


def test_files_that_are_not_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "days").mkdir()
    (tmp_path / "days" / "1.csv").write_text("a\n1\n")
    (tmp_path / "days" / "notes.txt").write_text("some notes\n")
    (tmp_path / "days" / "empty.txt").write_text("")
    result = run(tmp_path / "days", tmp_path / "out.parquet")
    assert result.exit_code == 0, result.output
    said = " ".join(result.stderr.split())
    assert f"not read: 1 file of no known format, {tmp_path / 'days' / 'notes.txt'}" in said
    said = refused(tmp_path / "days" / "*", tmp_path / "other.parquet")
    assert f"1 file of no known format, {tmp_path / 'days' / 'notes.txt'}" in said
    assert names(tmp_path) == {"days", "out.parquet"}


def test_only_empty_fields_of_csv_are_null(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a,b,c\nNA,null,1\nNaN,x,\n")
    assert written(tmp_path / "rows.csv", tmp_path / "out.parquet").to_pylist() == [
        {"a": "NA", "b": "null", "c": 1},
        {"a": "NaN", "b": "x", "c": None},
    ]


@pytest.mark.parametrize("form", ["csv", "ndjson"])
@pytest.mark.parametrize("value", [2**63 + 1, 2**64 - 1])
def test_integers_of_64_bits_are_not_rounded(tmp_path: Path, form: str, value: int) -> None:
    rows = [{"a": 1}, {"a": value}]
    text = f"a\n1\n{value}\n" if form == "csv" else "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / f"rows.{form}").write_text(text)
    assert written(tmp_path / f"rows.{form}", tmp_path / "out.parquet").to_pylist() == rows


def test_integers_that_no_type_holds_are_text_in_csv_and_refused_in_ndjson(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(f"a\n-1\n{2**64}\n")
    (tmp_path / "rows.ndjson").write_text(f'{{"a": [-1, {2**64}]}}\n')
    found = written(tmp_path / "rows.csv", tmp_path / "out.parquet")["a"].to_pylist()
    assert found == ["-1", str(2**64)]
    assert f"a[] has integers from -1 to {2**64}" in refused(
        tmp_path / "rows.ndjson", tmp_path / "other.parquet"
    )


@pytest.mark.parametrize("form", FORMATS)
def test_one_file_in_a_folder_with_a_key_has_its_column(tmp_path: Path, form: str) -> None:
    (tmp_path / "day=1").mkdir()
    (tmp_path / "day=1" / f"x.{form}").write_bytes(encoded(form, pa.table({"id": [5]})))
    result = written(tmp_path / "day=1" / f"x.{form}", tmp_path / "out.parquet")
    assert result.to_pylist() == [{"id": 5, "day": 1}]


@pytest.mark.parametrize("text", ["a,b", "a,b\n", "a,b\r\n", "\n\na,b"])
@pytest.mark.parametrize("is_piped", [False, True], ids=["file", "pipe"])
def test_the_names_of_columns_alone_are_a_table_without_rows(
    tmp_path: Path, text: str, *, is_piped: bool
) -> None:
    (tmp_path / "rows.csv").write_bytes(text.encode())
    source, stdin = ("-", text.encode()) if is_piped else (tmp_path / "rows.csv", None)
    found = written(source, tmp_path / "out.parquet", stdin=stdin)
    assert found.column_names == ["a", "b"]
    assert found.num_rows == 0


@pytest.mark.parametrize("text", ["", "\n", "\r\n\r\n", "\ufeff\n"])
def test_a_csv_without_a_line_is_empty_and_no_reader_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    # Arrow's thread that reads ahead may never end when its reader finds no columns.
    monkeypatch.setattr(pa.csv, "open_csv", None)
    (tmp_path / "rows.csv").write_bytes(text.encode())
    assert f"{tmp_path / 'rows.csv'} is empty" in refused(tmp_path / "rows.csv", tmp_path / "out.parquet")


@given(
    values=st.lists(st.none() | st.integers(-(2**40), 2**40)),
    end=st.sampled_from(["\n", "\r\n"]),
    around=st.sampled_from([("a", ""), ('"a,b"', "\n"), ('\n"a""\nb"', ""), ("\r\n\na", "\r\n")]),
    block=st.sampled_from([64, 100, 1 << 20]),
)
def test_empty_lines_of_a_csv_of_one_column_are_rows(
    tmp_path_factory: pytest.TempPathFactory,
    values: list[int | None],
    end: str,
    around: tuple[str, str],
    block: int,
) -> None:
    path = tmp_path_factory.getbasetemp() / "one-column.csv"
    first, last = around
    values = [7, *values, 7]  # so that the column has a type, and the last line is none that is empty
    lines = [first, *("" if each is None else str(each) for each in values)]
    path.write_bytes((end.join(lines) + last).encode())
    with open_rows(path, TextOptions(is_exact=block < 100), block_bytes=block) as rows:
        (column,) = pa.Table.from_batches(rows.batches, rows.schema).columns
    assert column.to_pylist() == values


@given(
    values=st.lists(st.text('x\r\n"', min_size=1, max_size=9), min_size=1),
    begin=st.sampled_from(["", "\n", "\r\n\n"]),
    block=st.sampled_from([64, 67, 1 << 20]),
)
def test_a_value_in_quotes_keeps_its_ends_of_lines_wherever_a_block_ends(
    tmp_path_factory: pytest.TempPathFactory, values: list[str], begin: str, block: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "lines.csv"
    values = values * (1 + 200 // len(values))
    quoted = "".join(f'"{value.replace(chr(34), chr(34) * 2)}","k"\r\n' for value in values)
    path.write_bytes(f"{begin}text,key\r\n{quoted}".encode())
    with open_rows(path, TextOptions(is_exact=False), block_bytes=block) as rows:
        assert pa.Table.from_batches(rows.batches, rows.schema)["text"].to_pylist() == values


def test_an_empty_last_line_is_a_row_of_one_column_and_none_of_several(tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text("a\n1\n\n")
    (tmp_path / "text.csv").write_text("a\nx\n\nz\n")
    (tmp_path / "two.csv").write_text("a,b\n\n1,2\n\n")
    assert written(tmp_path / "one.csv", tmp_path / "1.parquet")["a"].to_pylist() == [1, None]
    assert written(tmp_path / "text.csv", tmp_path / "2.parquet")["a"].to_pylist() == ["x", "", "z"]
    assert written(tmp_path / "two.csv", tmp_path / "3.parquet").to_pylist() == [{"a": 1, "b": 2}]


HALVES = st.integers(-(2**53), 2**53).map(lambda number: f"{number / 2}")
INTEGERS = st.sampled_from([24, 53, 63, 64, 70, 1100]).flatmap(
    lambda bits: st.integers(2**bits - 9, 2**bits + 9)
)
NUMBERS = st.lists(HALVES | INTEGERS.map(str) | INTEGERS.map("-{}".format) | st.sampled_from(["", "nan"]))


@given(
    texts=NUMBERS, kind=st.sampled_from(["double", "float", None]), block=st.sampled_from([1_000, 1 << 20])
)
def test_no_integer_of_csv_is_rounded(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], kind: str | None, block: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "rounded.csv"
    texts = ["0.5", *texts]
    path.write_text("n,a\n" + "".join(f"{place},{text}\n" for place, text in enumerate(texts)))
    schema = None if kind is None else pa.schema({"n": pa.int64(), "a": pa.type_for_alias(kind)})
    width = np.float32 if kind == "float" else np.float64
    with np.errstate(over="ignore"):
        values = [width(text) if text else None for text in texts]
    rounded = [
        place
        for place, (text, value) in enumerate(zip(texts, values, strict=True))
        if text.strip("-").isdigit() and value is not None and (np.isinf(value) or int(value) != int(text))
    ]
    with open_rows(path, TextOptions(is_exact=True), schema=schema, block_bytes=block) as rows:
        if rounded:
            with pytest.raises(SchemaError) as caught:
                list(rows.batches)
            assert f"{path}, row {rounded[0] + 2:,}: column a is {kind or 'double'}" in str(caught.value)
            assert f"integer {texts[rounded[0]][:40]}" in str(caught.value)
        else:
            found = pa.Table.from_batches(rows.batches, rows.schema)["a"].to_pylist()
            assert str(found) == str([None if value is None else float(value) for value in values])


@pytest.mark.parametrize(
    ("lines", "kind"),
    [("9007199254740993\n1.5\n", None), ("9007199254740993\n", "double"), ("16777217\n", "float")],
)
def test_an_integer_of_csv_that_would_be_rounded_is_named(
    tmp_path: Path, lines: str, kind: str | None
) -> None:
    (tmp_path / "rows.csv").write_text(f"a\n{lines}")
    (tmp_path / "schema.json").write_text(json.dumps({"a": kind}))
    options = [] if kind is None else ["--schema", tmp_path / "schema.json"]
    said = refused(tmp_path / "rows.csv", *options, tmp_path / "out.parquet")
    assert f"rows.csv, row 2: column a is {kind or 'double'}, which cannot hold the integer" in said
    assert lines.split(maxsplit=1)[0] in said
    assert "--schema FILE" in said
    (tmp_path / "schema.json").write_text('{"a": "decimal(38, 1)"}')
    found = written(tmp_path / "rows.csv", "--schema", tmp_path / "schema.json", tmp_path / "out.parquet")
    assert found["a"].to_pylist() == [decimal.Decimal(line) for line in lines.split()]


def test_an_integer_of_one_csv_is_not_rounded_for_the_floats_of_another(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("a\n9007199254740993\n")
    (tmp_path / "2.csv").write_text("a\n1.5\n")
    for order in ("12", "21"):
        said = refused(*(tmp_path / f"{name}.csv" for name in order), tmp_path / "out.parquet")
        assert f"{tmp_path / '1.csv'}, row 2: column a is double" in said
    (tmp_path / "1.csv").write_text("a\n9007199254740992\n")
    found = written(tmp_path / "1.csv", tmp_path / "2.csv", tmp_path / "out.parquet")
    assert found["a"].to_pylist() == [2.0**53, 1.5]


def test_a_text_that_is_no_float_is_named_with_its_row(tmp_path: Path) -> None:
    good = "".join(f"{number / 4},x\n" for number in range(60_000))
    (tmp_path / "rows.csv").write_text(f"a,b\n1\n{good}\n2\n 1.5\t,x\n1,5,x\n3\n1_5,x\n4\n")
    said = refused(
        *(tmp_path / "rows.csv", "--memory", "4MB", "--on-error", "skip", tmp_path / "out.parquet"),
    )
    assert "In CSV column #0: Row #60007: CSV conversion error to double: invalid value '1_5'" in said
    assert "--schema FILE" in said


@pytest.mark.parametrize("options", [[], ["--on-error", "skip"]])
def test_long_integers_are_kept_in_a_text_of_many_blocks(tmp_path: Path, options: list[str]) -> None:
    ids = [2**63 + number for number in range(60_000)]
    (tmp_path / "rows.csv").write_text("id,a,b\n" + "".join(f"{each},{each % 7 / 4},x\n" for each in ids))
    found = written(tmp_path / "rows.csv", "--memory", "4MB", *options, tmp_path / "out.parquet")
    assert found["id"].to_pylist() == ids
    assert found["a"].to_pylist() == [each % 7 / 4 for each in ids]


@pytest.mark.parametrize("is_piped", [False, True], ids=["file", "pipe"])
def test_two_columns_of_csv_of_one_name_are_refused(tmp_path: Path, *, is_piped: bool) -> None:
    content = b"a,b,a\n1,2,3\n"
    (tmp_path / "rows.csv").write_bytes(content)
    source = "-" if is_piped else tmp_path / "rows.csv"
    said = refused(source, tmp_path / "out.parquet", stdin=content if is_piped else None)
    assert "the first line names the column 'a' twice" in said
    assert names(tmp_path) == {"rows.csv"}


@given(
    text=st.text(st.sampled_from('",\n\na ;'), max_size=30).map("a{}".format),
    cuts=st.integers(1, 40),
    window=st.sampled_from([3, 7, 16 << 10]),
)
@example(text='a,"\n""";', cuts=1, window=3)
@example(text='a,"\n","', cuts=1, window=3)
def test_quotes_are_followed_as_arrow_follows_them(text: str, cuts: int, window: int) -> None:
    """As the oracle: within quotes, a line more is a part of the last value, and else a row."""

    def rows(content: str) -> list[list[str]]:
        found: list[list[str]] = []
        parse = pa.csv.ParseOptions(
            newlines_in_values=True, invalid_row_handler=lambda row: found.append([row.text]) or "skip"
        )
        names = [str(number) for number in range(40)]
        read = pa.csv.ReadOptions(column_names=names, use_threads=False)
        with suppress(pa.ArrowInvalid):
            pa.csv.read_csv(io.BytesIO(content.encode()), read_options=read, parse_options=parse)
        return found

    data = text.encode()
    with mock.patch.object(reading_text, "_WINDOW_BYTES", window):
        quotes = Quotes(Path("rows.csv"), ",")
        said = ""
        try:
            for start in range(0, len(data), cuts):
                quotes.feed(data[start : start + cuts])
            quotes.end()
        except CorruptFileError as error:
            said = str(error)
    if "one that text or a blank follows" in said:
        assert re.search(r'"(?:[^"]|"")*\n(?:[^"]|"")*"[^",\n]', text)
        return
    assert bool(said) == (rows(f"{text}\nmore\n")[-1] != ["more"])
    if said:
        line = int(said.partition("in line ")[2].split()[0])
        ends = [at for at, letter in enumerate(text) if letter == '"' and text[:at].count("\n") == line - 1]
        # Before one of the line's quotes, all are closed.
        assert any(not text[:at] or rows(f"{text[:at]}\nmore\n")[-1] == ["more"] for at in ends)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('a,b\n1,"unclosed\n2,x\n', 2),
        ('\n\na,b\n0,"x\ny"\n1,"unclosed\n2,x\n', 6),
        ('a,b\n1,"unclosed\n2,"x"\n3,y\n', 2),
        ('a,b\n"1,x\n2,y\n', 2),
        ('a,b\n1,""",x\n', 2),
        ('a,b\n1,5"\n2,"x\n', 3),
    ],
)
@pytest.mark.parametrize("options", [[], ["--on-error", "skip"]])
@pytest.mark.parametrize("is_piped", [False, True], ids=["file", "pipe"])
def test_a_quote_that_is_not_closed_is_refused_with_its_line(
    tmp_path: Path, text: str, line: int, options: list[str], *, is_piped: bool
) -> None:
    (tmp_path / "rows.csv").write_text(text)
    source, stdin = ("-", text.encode()) if is_piped else (tmp_path / "rows.csv", None)
    said = refused(source, *options, tmp_path / "out.parquet", stdin=stdin)
    assert f"the quote that opens a value in line {line} " in said
    assert names(tmp_path) == {"rows.csv"}


def test_a_quote_that_is_not_closed_before_many_lines_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text('a,b\n1,x\n2,"y\n' + "3,z\n" * 400_000)
    said = refused(tmp_path / "rows.csv", "--memory", "4MB", tmp_path / "out.parquet")
    assert "the quote that opens a value in line 3 is not closed" in said


def test_values_with_line_breaks_in_quotes_and_quotes_within_values_are_kept(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text('a,b\n"x\n""y""\n,",5"\n"",6" 7"\n"q"r,"\n"\n')
    assert written(tmp_path / "rows.csv", tmp_path / "out.parquet").to_pylist() == [
        {"a": 'x\n"y"\n,', "b": '5"'},
        {"a": "", "b": '6" 7"'},
        {"a": "qr", "b": "\n"},
    ]


DECIMAL = decimal.Decimal
LISTS = [pa.list_(pa.field("element", kind)) for kind in (pa.uint64(), pa.int64())]
KINDS = {
    **{
        getattr(pa, f"{sign}int{bits}")(): st.integers(
            -(2 ** (bits - 1)) if not sign else 0, 2 ** (bits - (not sign)) - 1
        )
        for sign in ("", "u")
        for bits in (8, 16, 32, 64)
    },
    pa.float32(): st.floats(width=32, allow_nan=False),
    pa.float64(): st.floats(allow_nan=False),
    **{
        pa.decimal128(*kind): st.integers(-(10 ** kind[0]) + 1, 10 ** kind[0] - 1).map(
            lambda digits, scale=kind[1]: DECIMAL(digits).scaleb(-scale, decimal.Context(prec=80))
        )
        for kind in ((3, 2), (20, 0), (38, 10), (38, 38))
    },
}


@st.composite
def columns(draw: st.DrawFn) -> pa.Array[Any]:
    kind = draw(st.sampled_from(list(KINDS)))
    return pa.array(draw(st.lists(st.none() | KINDS[kind], max_size=3)), kind)


@given(parts=st.lists(columns(), min_size=2, max_size=3), is_nested=st.booleans())
def test_numbers_of_several_files_are_all_kept_or_refused(
    tmp_path_factory: pytest.TempPathFactory, parts: list[pa.Array[Any]], *, is_nested: bool
) -> None:
    folder = tmp_path_factory.mktemp("numbers")
    wanted: list[Any] = []
    for place, part in enumerate(parts):
        wanted += part.to_pylist()
        column = pa.StructArray.from_arrays([part], ["x"]) if is_nested else part
        pq.write_table(pa.table({"a": column}), folder / f"{place}.parquet")
    source = FileSource(str(folder))
    found = None
    try:
        with open_files(source, find_files(source)) as rows:
            found = pa.Table.from_batches(rows.batches, rows.schema)["a"].to_pylist()
    except (OptionError, SchemaError) as error:
        said = str(error)
    except CorruptFileError as error:
        said = f"column a is in a struct: {error}" if is_nested else ""
    if found is None:
        assert "column a is" in said
        return
    assert [each["x"] for each in found] == wanted if is_nested else found == wanted


@pytest.mark.parametrize(
    ("first", "second", "kind"),
    [
        (pa.array([DECIMAL("1.25")]), pa.array([7]), pa.decimal128(21, 2)),
        (pa.array([DECIMAL(10) ** 37]), pa.array([DECIMAL("0.5")]), pa.decimal256(39, 1)),
        (pa.array([2**32 - 1], pa.uint32()), pa.array([-1], pa.int8()), pa.int64()),
        (pa.array([2**31 - 1], pa.int32()), pa.array([0.5], pa.float32()), pa.float64()),
        (pa.array([2**53]), pa.array([1.5]), pa.float64()),
        (pa.array([2**60]), pa.array([1.5]), pa.float64()),
        (pa.array([255], pa.uint8()), pa.array([1.5], pa.float16()), pa.float16()),
    ],
)
def test_numbers_of_two_files_have_a_type_that_holds_both(
    tmp_path: Path, first: pa.Array[Any], second: pa.Array[Any], kind: pa.DataType
) -> None:
    for number, column in enumerate((first, second)):
        pq.write_table(pa.table({"a": column}), tmp_path / f"{number}.parquet")
    found = written(tmp_path / "0.parquet", tmp_path / "1.parquet", tmp_path / "out.parquet")["a"]
    assert found.type == kind
    assert found.to_pylist() == [first[0].as_py(), second[0].as_py()]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (pa.array([DECIMAL("12345678901234567.89")]), pa.array([1.5])),
        (pa.array([2**64 - 1], pa.uint64()), pa.array([-1])),
        (pa.array([[2**64 - 1]], LISTS[0]), pa.array([[-1]], LISTS[1])),
        (
            pa.array([[DECIMAL("9007199254740993.1")]], pa.large_list(pa.decimal128(20, 1))),
            pa.array([[1.5]], pa.large_list(pa.float64())),
        ),
        (
            pa.array([[("k", DECIMAL("1.1"))]], pa.map_(pa.string(), pa.decimal128(20, 1))),
            pa.array([[("k", 1.5)]], pa.map_(pa.string(), pa.float64())),
        ),
    ],
)
def test_numbers_that_no_type_holds_are_refused_with_both_files(
    tmp_path: Path, first: pa.Array[Any], second: pa.Array[Any]
) -> None:
    for number, column in enumerate((first, second)):
        pq.write_table(pa.table({"a": column}), tmp_path / f"{number}.parquet")
    said = refused(tmp_path / "0.parquet", tmp_path / "1.parquet", tmp_path / "out.parquet")
    kinds = [pq.read_schema(tmp_path / f"{number}.parquet").field("a").type for number in (0, 1)]
    assert f"{tmp_path / '1.parquet'}: column a is {kinds[1]}, and {kinds[0]} in the files before" in said
    assert str(tmp_path / "0.parquet") in said


def test_a_long_integer_is_not_rounded_for_the_floats_of_another_file(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [2**53 + 1]}), tmp_path / "0.parquet")
    pq.write_table(pa.table({"a": [1.5]}), tmp_path / "1.parquet")
    said = refused(tmp_path / "0.parquet", tmp_path / "1.parquet", tmp_path / "out.parquet")
    assert f"{tmp_path / '0.parquet'}: column a is int64, and double in other files" in said
    assert str(2**53 + 1) in said


def test_a_long_integer_in_a_list_is_not_rounded_either(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [[2**53 + 1]]}), tmp_path / "0.parquet")
    pq.write_table(pa.table({"a": [[1.5]]}), tmp_path / "1.parquet")
    said = refused(tmp_path / "0.parquet", tmp_path / "1.parquet", tmp_path / "out.parquet")
    assert f"{tmp_path / '0.parquet'}: column a is list<element: int64>" in said
    assert str(2**53 + 1) in said


@pytest.mark.parametrize("number", ["0" * 4_400 + "9007199254740993", "1" * 5_000])
def test_integers_of_thousands_of_digits_are_text_or_refused(tmp_path: Path, number: str) -> None:
    (tmp_path / "1.csv").write_text(f"a\n{number}\n")
    (tmp_path / "2.csv").write_text(f"a\n1.5\n{number}\n")
    found = written(tmp_path / "1.csv", tmp_path / "out.parquet")["a"].to_pylist()
    assert [str(value).lstrip("0") for value in found] == [number.lstrip("0")]
    assert "cannot hold the integer" in refused(tmp_path / "2.csv", tmp_path / "other.parquet")


def test_unsigned_and_negative_integers_of_two_csv_files_are_text(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text(f"a\n{2**64 - 1}\n")
    (tmp_path / "2.csv").write_text("a\n-1\n")
    found = written(tmp_path / "1.csv", tmp_path / "2.csv", tmp_path / "out.parquet")
    assert found["a"].to_pylist() == [str(2**64 - 1), "-1"]


@pytest.mark.parametrize(
    ("form", "options"), [*((form, []) for form in FORMATS), ("parquet", ["--copy-row-groups"])]
)
def test_a_file_that_two_arguments_name_is_read_twice(
    tmp_path: Path, out: Path, form: str, options: list[str]
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    path = folder / f"rows.{form}"
    path.write_bytes(encoded(form))
    for number, second in enumerate((path, folder / f"*.{form}", folder)):
        result = written(path, second, *options, out / f"{number}.parquet")
        assert result.to_pylist() == rows_as(form) * 2
    # What one argument names several times is there once.
    assert written(tmp_path / "[i]*" / "**", *options, out / "3.parquet").to_pylist() == rows_as(form)


def test_a_file_of_a_folder_with_a_key_has_its_value_however_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "day=1").mkdir()
    (tmp_path / "day=1" / "rows.csv").write_text("a\n5\n")
    spellings = tmp_path / "day=1" / "rows.csv", "day=1/rows.csv"
    found = written(*spellings, tmp_path / "out.parquet")
    assert found.to_pylist() == [{"a": 5, "day": 1}] * 2


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-be"])
def test_ndjson_through_a_pipe_is_recognised_behind_its_byte_order_mark(
    tmp_path: Path, encoding: str
) -> None:
    content = '{"a":1,"b":2}\n{"a":3,"b":4}\n'.encode(encoding)
    options = [] if encoding == "utf-8-sig" else ["--encoding", encoding]
    found = written("-", *options, tmp_path / "out.parquet", stdin=content)
    assert found.to_pylist() == [{"a": 1, "b": 2}, {"a": 3, "b": 4}]


@pytest.mark.parametrize(("text", "kind"), [("1e400", None), ("-1e400", "double"), ("1e39", "float")])
def test_a_finite_number_of_csv_does_not_become_infinite(tmp_path: Path, text: str, kind: str | None) -> None:
    (tmp_path / "rows.csv").write_text(f"a\n{text}\n1.5\ninf\n")
    (tmp_path / "schema.json").write_text(json.dumps({"a": kind}))
    options = [] if kind is None else ["--schema", tmp_path / "schema.json"]
    assert f"cannot hold the number {text} exactly" in refused(
        tmp_path / "rows.csv", *options, tmp_path / "o"
    )


def test_files_whose_types_do_not_go_together_are_refused_without_a_traceback(tmp_path: Path) -> None:
    for name, field in (("1", pa.field("x", pa.int64(), nullable=False)), ("2", pa.field("y", pa.int64()))):
        kind = pa.struct([field])
        pq.write_table(pa.table({"a": pa.array([{field.name: 1}], kind)}), tmp_path / f"{name}.parquet")
    result = run(tmp_path / "1.parquet", tmp_path / "2.parquet", tmp_path / "out.parquet")
    assert result.exit_code == 2, result.output


@pytest.mark.parametrize("is_piped", [True, False])
@pytest.mark.parametrize("nested", [True, False])
def test_times_of_int96_that_nanoseconds_cannot_hold_are_refused(
    tmp_path: Path, *, nested: bool, is_piped: bool
) -> None:
    def file_of(times: list[dt.datetime | None]) -> bytes:
        values: list[Any] = [[time] if time else None for time in times] if nested else times
        kind = pa.timestamp("us")
        rows = pa.table({"t": pa.array(values, pa.list_(kind) if nested else kind), "n": range(len(times))})
        pq.write_table(
            rows, tmp_path / "in.parquet", use_deprecated_int96_timestamps=True, store_schema=False
        )
        return (tmp_path / "in.parquet").read_bytes()

    fine = [dt.datetime(1960, 1, 1, microsecond=7), None, dt.datetime(2026, 1, 1)] * 3_000  # noqa: DTZ001 - a type without zone
    source = "-" if is_piped else tmp_path / "in.parquet"
    content = file_of(fine)
    found = written(source, tmp_path / "out.parquet", stdin=content if is_piped else None)
    times = [each if each is None or not nested else each[0] for each in found["t"].to_pylist()]
    assert times == fine
    content = file_of([*fine, dt.datetime(9999, 12, 31)])  # noqa: DTZ001 - as above
    said = refused(source, tmp_path / "other.parquet", stdin=content if is_piped else None)
    assert "column t has times before 1677 or after 2262" in said


def test_hexadecimal_text_of_csv_is_no_integer(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("id,n\n0xFFFFFFFFFFFFFFFF,1\n0x0A,2\n007,0\n")
    found = written(tmp_path / "rows.csv", tmp_path / "out.parquet")
    assert found.to_pydict() == {"id": ["0xFFFFFFFFFFFFFFFF", "0x0A", "007"], "n": [1, 2, 0]}
    (tmp_path / "rows.csv").write_text("id,n\n0xFF,1\n")
    (tmp_path / "schema.json").write_text('{"id": "int8", "n": "int64"}')
    said = refused(tmp_path / "rows.csv", "--schema", tmp_path / "schema.json", tmp_path / "other.parquet")
    assert "column id is int8, and has the text 0xFF" in said


@pytest.mark.parametrize(("suffix", "line"), [("csv", "id\n{}\n"), ("ndjson", '{{"id": {}}}\n')])
def test_names_of_folders_that_are_declared_as_text_keep_their_zeros(
    tmp_path: Path, suffix: str, line: str
) -> None:
    for number, name in enumerate(("01234", "90210")):
        (tmp_path / "in" / f"zip={name}").mkdir(parents=True)
        (tmp_path / "in" / f"zip={name}" / f"a.{suffix}").write_text(line.format(number))
    (tmp_path / "schema.json").write_text('{"id": "int64", "zip": "string"}')
    found = written("--schema", tmp_path / "schema.json", "--", tmp_path / "in", tmp_path / "out.parquet")
    assert found["zip"].to_pylist() == ["01234", "90210"]


@pytest.mark.parametrize(
    "content", ["PARENT_ID,NAME\n1,a\n", "PARE\n1\n", "PAR1,x\n1,2\n", "ARROW1,x\n1,2\n"]
)
def test_a_header_that_begins_as_another_format_is_that_of_csv(tmp_path: Path, content: str) -> None:
    (tmp_path / "in.csv").write_text(content)
    assert written(tmp_path / "in.csv", tmp_path / "out.parquet").num_rows == 1
    assert written("--format", "csv", "-", tmp_path / "piped.parquet", stdin=content.encode()).num_rows == 1


@pytest.mark.parametrize(
    "kind", [pa.string_view(), pa.list_(pa.int64()), pa.dictionary(pa.int8(), pa.string())]
)
def test_a_type_that_csv_is_not_read_as_is_refused_with_its_column(tmp_path: Path, kind: pa.DataType) -> None:
    """Before Arrow reads ahead: its thread may wait for itself when such a reader ends."""
    (tmp_path / "in.csv").write_text("a\nabc\n")
    with pa.OSFile(str(tmp_path / "schema.arrow"), "wb") as file:
        pa.ipc.new_file(file, pa.schema({"a": kind})).close()
    words = refused(tmp_path / "in.csv", tmp_path / "out.parquet", "--schema", tmp_path / "schema.arrow")
    assert "column a is declared as" in words


def test_lines_that_are_not_converted_to_a_declared_type_are_refused(tmp_path: Path) -> None:
    (tmp_path / "in.ndjson").write_text('{"p": 1, "a": 5}\n')
    schema = pa.schema({"p": pa.int32(), "a": pa.dictionary(pa.int8(), pa.int32())})
    with pa.OSFile(str(tmp_path / "schema.arrow"), "wb") as file:
        pa.ipc.new_file(file, schema).close()
    given = ("--schema", tmp_path / "schema.arrow", "--partition-by", "p")
    assert "rows are not converted to" in refused(tmp_path / "in.ndjson", tmp_path / "out", *given)
