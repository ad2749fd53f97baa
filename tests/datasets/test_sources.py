"""Files, folders and globs of the user's own: which are found, and that no row and no value is lost."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import spillway.delta
from spillway import datasets
from spillway.datasets import FileSource, TextOptions
from spillway.errors import CorruptFileError, OptionError
from spillway.reading import files
from spillway.reading.text import Utf8Stream

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS = [{"id": number, "name": f"name {number % 7}"} for number in range(100)]
IN_A_FOLDER = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=settings.default.max_examples // 4,
)


@pytest.fixture
def prepared(tmp_path: Path) -> Callable[..., pa.Table]:
    """The rows of what was typed, as the bench gets them."""

    def prepare(typed: object, **text: str) -> pa.Table:
        source = FileSource(str(typed), TextOptions(**text))
        path = datasets.prepare(source, chunk_rows=7, cache=tmp_path / "cache").path
        return pa.ipc.open_file(pa.memory_map(str(path))).read_all()

    return prepare


def csv_of(rows: list[dict[str, object]], delimiter: str = ",") -> bytes:
    sink = io.BytesIO()
    pa.csv.write_csv(
        pa.Table.from_pylist(rows),
        sink,
        pa.csv.WriteOptions(delimiter=delimiter, quoting_style="needed"),
    )
    return sink.getvalue()


def ndjson_of(rows: list[dict[str, object]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def compressed(content: bytes, codec: str) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        stream.write(content)
    return sink.getvalue().to_pybytes()


def parts_of(folder: Path, parts: list[list[dict[str, object]]], suffix: str = ".parquet") -> Path:
    """A folder with a file for each part."""
    folder.mkdir(parents=True, exist_ok=True)
    for place, rows in enumerate(parts):
        path = folder / f"part-{place:03}{suffix}"
        if suffix == ".parquet":
            pq.write_table(pa.Table.from_pylist(rows), path)
        else:
            path.write_bytes(csv_of(rows) if suffix == ".csv" else ndjson_of(rows))
    return folder


@pytest.mark.parametrize("codec", ["gzip", "zstd", "bz2", "lz4"])
@pytest.mark.parametrize("name", ["rows.csv", "rows.tsv", "rows.ndjson"])
def test_compressed_text_is_read_by_what_it_holds(
    tmp_path: Path, prepared: Callable[..., pa.Table], name: str, codec: str
) -> None:
    content = {
        "rows.csv": csv_of(ROWS),
        "rows.tsv": csv_of(ROWS, "\t"),
        "rows.ndjson": ndjson_of(ROWS),
    }[name]
    suffix = {"gzip": "gz", "zstd": "zst"}.get(codec, codec)
    (tmp_path / f"{name}.{suffix}").write_bytes(compressed(content, codec))
    assert prepared(tmp_path / f"{name}.{suffix}").to_pylist() == ROWS


def test_compressed_text_that_ends_too_early_is_refused(
    tmp_path: Path, prepared: Callable[..., pa.Table]
) -> None:
    whole = compressed(csv_of([{"id": n * 7919 % 10007} for n in range(50_000)]), "gzip")
    (tmp_path / "rows.csv.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CorruptFileError, match=r"rows\.csv\.gz cannot be read"):
        prepared(tmp_path / "rows.csv.gz")


def test_parquet_that_is_compressed_as_a_whole_is_refused(
    tmp_path: Path, prepared: Callable[..., pa.Table]
) -> None:
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "rows.parquet")
    packed = tmp_path / "rows.parquet.gz"
    packed.write_bytes(compressed((tmp_path / "rows.parquet").read_bytes(), "gzip"))
    with pytest.raises(OptionError, match="decompress it"):
        prepared(packed)


@pytest.mark.parametrize(("delimiter", "typed"), [(";", ";"), ("|", "|"), ("\t", "tab"), ("\t", "\\t")])
def test_a_delimiter_is_advised_and_then_taken(
    tmp_path: Path, prepared: Callable[..., pa.Table], delimiter: str, typed: str
) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(csv_of(ROWS, delimiter))
    with pytest.raises(OptionError, match=r"rows\.csv.*not separated by ','.*--delimiter ('.'|tab)"):
        prepared(path)
    assert prepared(path, delimiter=typed).to_pylist() == ROWS


def test_a_single_column_needs_no_delimiter(tmp_path: Path, prepared: Callable[..., pa.Table]) -> None:
    (tmp_path / "rows.csv").write_text("a;b\n1;2\n")
    assert prepared(tmp_path / "rows.csv", delimiter=",").to_pylist() == [{"a;b": "1;2"}]
    (tmp_path / "rows.csv").write_text("a\n1\n")
    assert prepared(tmp_path / "rows.csv").to_pylist() == [{"a": 1}]


@pytest.mark.parametrize("delimiter", ["", "ab", "é", '"', "\n"])
def test_what_is_no_delimiter_is_refused(delimiter: str) -> None:
    with pytest.raises(OptionError, match="give one ASCII character"):
        TextOptions(delimiter=delimiter)


def test_an_encoding_that_is_none_is_refused() -> None:
    for encoding in ("klingon", "base64"):
        with pytest.raises(OptionError, match=f"{encoding}.*latin-1, cp1252"):
            TextOptions(encoding=encoding)


@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("rows.csv", "id,name\n1,Anna\n2,Müller\n", (18, 3)),
        ("rows.csv", "id,größe\n1,2\n", (5, 1)),
        ("rows.tsv", "id\tname\n1\tJosé\n", (13, 2)),
        ("rows.ndjson", '{"id": 1}\n{"name": "Müller"}\n', (21, 2)),
    ],
)
def test_text_that_is_not_utf8_is_refused_with_its_place_and_read_with_its_encoding(
    tmp_path: Path, prepared: Callable[..., pa.Table], name: str, text: str, place: tuple[int, int]
) -> None:
    (tmp_path / name).write_bytes(text.encode("latin-1"))
    with pytest.raises(CorruptFileError) as caught:
        prepared(tmp_path / name)
    offset, line = place
    byte = text.encode("latin-1")[offset]
    assert f"{name} is not UTF-8: byte 0x{byte:02X} at offset {offset}, line {line}." in str(caught.value)
    assert "--encoding" in str(caught.value)
    assert "iconv" in str(caught.value)
    assert not list(tmp_path.glob("cache/*"))
    (tmp_path / f"utf8-{name}").write_text(text)
    assert prepared(tmp_path / name, encoding="latin-1").equals(prepared(tmp_path / f"utf8-{name}"))


def test_text_that_is_not_utf8_far_from_its_beginning_is_refused(
    tmp_path: Path, prepared: Callable[..., pa.Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_TEXT_BLOCK_BYTES", 1 << 12)
    content = csv_of(ROWS * 100) + b"7,M\xfcller\n"
    (tmp_path / "rows.csv").write_bytes(content)
    with pytest.raises(CorruptFileError, match=f"0xFC at offset {len(content) - 6:,}, line 10,002"):
        prepared(tmp_path / "rows.csv")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("name", ["rows.csv", "rows.ndjson"])
def test_utf_16_is_refused_by_name_and_read_with_it(
    tmp_path: Path, prepared: Callable[..., pa.Table], name: str, encoding: str
) -> None:
    text = (csv_of(ROWS) if name == "rows.csv" else ndjson_of(ROWS)).decode()
    (tmp_path / name).write_bytes(text.encode(encoding))
    with pytest.raises(CorruptFileError, match=f"{name} is not UTF-8.*--encoding {encoding}[;,]"):
        prepared(tmp_path / name)
    assert prepared(tmp_path / name, encoding=encoding).to_pylist() == ROWS


def test_bytes_that_are_no_text_are_refused(tmp_path: Path, prepared: Callable[..., pa.Table]) -> None:
    (tmp_path / "rows.csv").write_bytes(bytes(300))
    with pytest.raises(CorruptFileError, match="is not text"):
        prepared(tmp_path / "rows.csv")
    (tmp_path / "rows.csv").write_bytes(b"a,b\n" + bytes(range(256)))
    with pytest.raises(CorruptFileError, match="is not UTF-8: byte 0x80 at offset 132"):
        prepared(tmp_path / "rows.csv")


def test_what_can_be_read_only_once_is_refused(tmp_path: Path, prepared: Callable[..., pa.Table]) -> None:
    os.mkfifo(tmp_path / "rows.csv")
    for typed in (tmp_path / "rows.csv", "-", "/dev/null"):
        with pytest.raises(OptionError, match="save them first"):
            prepared(typed)


@pytest.mark.parametrize("text", [{"delimiter": ";"}, {"encoding": "latin-1"}])
def test_options_of_text_are_refused_for_other_formats(
    tmp_path: Path, prepared: Callable[..., pa.Table], text: dict[str, str]
) -> None:
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "rows.parquet")
    with pytest.raises(OptionError, match=r"is for CSV.*rows.parquet is Parquet"):
        prepared(tmp_path / "rows.parquet", **text)


TEXT = st.text(st.characters(codec="utf-16", exclude_categories=("Cs",)), max_size=60)


@given(TEXT, st.integers(1, 9), st.sampled_from([None, "utf-8", "utf-16", "utf-32-be"]))
def test_text_is_the_same_however_it_is_read(text: str, size: int, encoding: str | None) -> None:
    stream = Utf8Stream(io.BytesIO(text.encode(encoding or "utf-8")), Path("rows.csv"), encoding)
    parts = list(iter(lambda: stream.read(size), b""))
    assert b"".join(parts) == text.encode()
    assert max(map(len, parts), default=0) <= size


@given(
    TEXT, TEXT, st.sampled_from([b"\xff", b"\x80", b"\xc3", b"\xe2\x82", b"\xed\xa0\x80"]), st.integers(1, 9)
)
def test_the_first_byte_that_is_no_text_is_found_however_it_is_read(
    before: str, after: str, wrong: bytes, size: int
) -> None:
    start = before.encode()
    stream = Utf8Stream(io.BytesIO(start + wrong + after.encode()), Path("rows.csv"), None)
    with pytest.raises(CorruptFileError) as caught:
        list(iter(lambda: stream.read(size), b""))
    line = start.count(b"\n") + 1
    assert f"byte 0x{wrong[0]:02X} at offset {len(start):,}, line {line:,}." in str(caught.value)


VALUES = st.none() | st.integers(-9, 9)
PART = st.lists(
    st.fixed_dictionaries({"a": VALUES}, optional={"b": VALUES, "c": VALUES}), min_size=1, max_size=9
)


@IN_A_FOLDER
@given(st.lists(PART, min_size=1, max_size=4))
def test_files_of_a_folder_are_one_table_with_the_columns_of_all(
    tmp_path_factory: pytest.TempPathFactory, parts: list[list[dict[str, int | None]]]
) -> None:
    folder = tmp_path_factory.mktemp("parts")
    wanted = pl.concat(
        [pl.from_arrow(pa.Table.from_pylist(_same_keys(part))) for part in parts], how="diagonal_relaxed"
    )
    for suffix in (".parquet", ".ndjson"):
        typed = parts_of(folder / suffix[1:], [_same_keys(part) for part in parts], suffix)
        path = datasets.prepare(typed, chunk_rows=4, cache=folder / "cache").path
        rows = pa.ipc.open_file(pa.memory_map(str(path))).read_all().to_pylist()
        assert rows == wanted.to_dicts()


def _same_keys(part: list[dict[str, int | None]]) -> list[dict[str, int | None]]:
    keys = list(dict.fromkeys(key for row in part for key in row))
    return [{key: row.get(key) for key in keys} for row in part]


def test_partitions_of_hive_are_columns_as_pyarrow_reads_them(
    tmp_path: Path, prepared: Callable[..., pa.Table]
) -> None:
    table = pa.table(
        {"year": [2023, 2023, 2024, 2024], "city": ["a b", "ü", "a b", None], "value": [1.5, 2.5, 3.5, 4.5]}
    )
    pa.dataset.write_dataset(
        table,
        tmp_path / "hive",
        format="parquet",
        partitioning=pa.dataset.partitioning(table.select(["year", "city"]).schema, flavor="hive"),
    )
    wanted = pa.dataset.dataset(tmp_path / "hive", partitioning="hive").to_table()
    for typed in (tmp_path / "hive", f"{tmp_path}/hive/year=*", f"{tmp_path}/hive/**/*.parquet"):
        found = prepared(typed)
        assert found.column_names == ["value", "year", "city"]
        assert found.sort_by("value").to_pylist() == wanted.sort_by("value").to_pylist()


def test_a_partition_that_is_a_column_too_is_read_from_the_file(
    tmp_path: Path, prepared: Callable[..., pa.Table]
) -> None:
    parts_of(tmp_path / "hive" / "year=2024", [[{"year": 24, "value": 1}]])
    assert prepared(tmp_path / "hive").to_pylist() == [{"year": 24, "value": 1}]


def test_progress_begins_before_the_files_are_looked_at(tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    folder = parts_of(tmp_path / "parts", [ROWS, ROWS])
    datasets.prepare(folder, chunk_rows=150, cache=tmp_path, progress=lambda *call: calls.append(call))
    assert calls == [(0, 0), (150, 200), (200, 200)]


def test_a_glob_names_files_in_order_and_leaves_the_others(
    tmp_path: Path, prepared: Callable[..., pa.Table]
) -> None:
    parts_of(tmp_path, [ROWS[:10], ROWS[10:30], ROWS[30:]], ".csv")
    (tmp_path / "other.csv").write_text("x\n1\n")
    assert prepared(f"{tmp_path}/part-*.csv").to_pylist() == ROWS
    assert prepared(f"{tmp_path}/part-00[12].csv").to_pylist() == ROWS[10:]


def test_a_file_whose_name_looks_like_a_glob_is_read(
    tmp_path: Path, prepared: Callable[..., pa.Table]
) -> None:
    (tmp_path / "rows[1].csv").write_bytes(csv_of(ROWS))
    assert prepared(tmp_path / "rows[1].csv").to_pylist() == ROWS


def test_what_spark_leaves_beside_the_data_is_left(tmp_path: Path, prepared: Callable[..., pa.Table]) -> None:
    folder = parts_of(tmp_path / "out", [ROWS[:50], ROWS[50:]], ".csv")
    (folder / "_SUCCESS").touch()
    (folder / "part-000a.csv").touch()  # a partition without rows
    (folder / ".part-000.csv.crc").write_bytes(b"crc\0\0")
    (folder / "README.txt").write_text("hello")
    (folder / "_temporary").mkdir()
    (folder / "_temporary" / "part-9.csv").write_text("id,name\n1,twice\n")
    assert prepared(folder).to_pylist() == ROWS


def test_csv_files_that_differ_in_types_are_widened_and_text_where_nothing_else_does(
    tmp_path: Path, prepared: Callable[..., pa.Table]
) -> None:
    parts = [[{"n": 1, "zip": 10115, "b": "x"}], [{"zip": "EC1A", "n": 1.5}]]
    assert prepared(parts_of(tmp_path / "parts", parts, ".csv")).to_pylist() == [
        {"n": 1.0, "zip": "10115", "b": "x"},
        {"n": 1.5, "zip": "EC1A", "b": None},
    ]


def test_files_that_do_not_go_together_are_refused_by_file_and_column(
    tmp_path: Path, prepared: Callable[..., pa.Table]
) -> None:
    folder = parts_of(tmp_path / "parts", [[{"a": 1}], [{"a": "x"}]])
    with pytest.raises(OptionError, match=r"part-001\.parquet: column a is string, and int64 in the files"):
        prepared(folder)


def test_a_change_of_one_file_or_of_an_option_is_another_input(
    tmp_path: Path, prepared: Callable[..., pa.Table]
) -> None:
    folder = parts_of(tmp_path / "parts", [])
    (folder / "part-000.csv").write_text("a;b\n1;2\n")
    (folder / "part-001.csv").write_text("a;b\n3;4\n")
    assert prepared(folder, delimiter=",").to_pylist() == [{"a;b": "1;2"}, {"a;b": "3;4"}]
    assert prepared(folder, delimiter=";").to_pylist() == [{"a": 1, "b": 2}, {"a": 3, "b": 4}]
    (folder / "part-001.csv").write_text("a;b\n5;66\n")
    assert prepared(folder, delimiter=";").to_pylist() == [{"a": 1, "b": 2}, {"a": 5, "b": 66}]


@pytest.mark.parametrize(
    "typed",
    [
        "s3://bucket/rows.parquet",
        "https://example.com/rows.csv",
        "absent.csv",
        "absent-*.csv",
        "empty",
        "texts",
    ],
)
def test_what_cannot_be_read_says_what_is_accepted_and_repeats_what_was_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prepared: Callable[..., pa.Table], typed: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    parts_of(Path("texts"), []).joinpath("notes.txt").write_text("hello")
    with pytest.raises((OptionError, FileNotFoundError)) as caught:
        prepared(typed)
    said = str(caught.value)
    assert said.startswith(typed)
    assert "Errno" not in said
    for accepted in ("a folder", "glob", "Parquet", "Arrow IPC", ".tsv", ".jsonl", ".gz, .zst"):
        assert accepted in said


def test_a_folder_of_several_formats_is_refused_with_their_counts(
    tmp_path: Path, prepared: Callable[..., pa.Table]
) -> None:
    parts_of(tmp_path / "mixed", [ROWS, ROWS])
    parts_of(tmp_path / "mixed", [ROWS], ".csv")
    with pytest.raises(
        OptionError, match="1 of CSV and 2 of Parquet: name the files of one format with a quoted glob"
    ):
        prepared(tmp_path / "mixed")
    assert prepared(f"{tmp_path}/mixed/*.csv").to_pylist() == ROWS


def test_a_delta_table_is_no_folder_of_files(tmp_path: Path, prepared: Callable[..., pa.Table]) -> None:
    table = pa.table({"a": [1, 2]})
    spillway.delta.write(str(tmp_path / "table"), table)
    with pytest.raises(OptionError, match="is a Delta table"):
        prepared(tmp_path / "table")
    with pytest.raises(OptionError, match="table is a Delta table"):
        prepared(tmp_path)
    assert prepared(tmp_path / "table" / "*.parquet").to_pylist() == [{"a": 1}, {"a": 2}]


def test_a_json_array_is_refused_with_what_makes_lines_of_it(
    tmp_path: Path, prepared: Callable[..., pa.Table]
) -> None:
    (tmp_path / "rows.json").write_text(json.dumps(ROWS, indent=1))
    with pytest.raises(OptionError, match=r"rows\.json holds a JSON array; NDJSON is read.*jq -c"):
        prepared(tmp_path / "rows.json")
