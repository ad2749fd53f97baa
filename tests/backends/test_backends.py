"""Every backend writes the same rows, and keeps to what a cell fixes."""

from __future__ import annotations

import dataclasses
import importlib
from functools import cache

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spillway import backends, datasets
from spillway.backends import Settings
from spillway.backends.sinks import PushToPull, retained
from spillway.backends.tuned_encodings import choose_encodings
from spillway.bench.plan import resolve_level
from spillway.bench.worker import inputs
from spillway.errors import OptionError, SpillwayError

ROWS = 30_000
BUILT_IN = (
    "spillway",
    "spillway-16mb",
    "pyarrow-buffered",
    "pyarrow-streaming",
    "pyarrow-streaming-tuned",
    "polars",
    "duckdb",
    "arro3",
    "arro3-tuned",
)
FROM_ROWS = ("spillway-rows", "pyarrow-rows", "polars-rows")
FROM_LINES = ("spillway-ndjson", "pyarrow-ndjson", "polars-ndjson", "duckdb-ndjson")


@cache
def made(dataset):
    """Batches of 10,000 rows. To make them takes longer than most tests."""
    return list(datasets.batches(dataset, 1, ROWS))


@pytest.fixture(params=["logs", "logs-nested"])
def rows(request):
    return made(request.param)


def settings(**changes):
    return Settings(**{"codec": "zstd", "level": 1, "row_group_rows": 1 << 20, "threads": 1, **changes})


def chunks(batches, mode):
    if mode == "table":
        return [pa.Table.from_batches(batches)]
    make = {"rows": inputs.dicts, "rows-json": inputs.dicts_from_json, "ndjson": inputs.ndjson}
    return make.get(mode, list)(batches)


def write(name, path, batches, mode="batches", **changes):
    sink = backends.load(name).open(path, batches[0].schema, settings(**changes))
    for data in chunks(batches, mode):
        sink.write(data)
    sink.close()
    return path


def test_all_built_in_backends_are_named_and_present():
    everything = (*BUILT_IN, *FROM_ROWS, *FROM_LINES)
    assert backends.names()[: len(everything)] == everything
    assert [backends.missing(name) for name in everything] == [None] * len(everything)


def test_a_mode_has_the_backends_that_take_its_data():
    assert backends.with_modes(["table"]) == BUILT_IN
    assert backends.with_modes(["rows-json"]) == FROM_ROWS
    assert backends.with_modes(["rows", "ndjson"]) == FROM_ROWS + FROM_LINES
    for name in BUILT_IN + FROM_ROWS + FROM_LINES:
        assert backends.load(name).modes == backends.modes(name)


@pytest.mark.parametrize(
    ("name", "mode"),
    [(name, mode) for name in FROM_ROWS for mode in ("rows", "rows-json")]
    + [(name, "ndjson") for name in FROM_LINES],
)
def test_rows_of_every_form_are_what_is_read(tmp_path, name, mode):
    batches = pa.Table.from_batches(datasets.batches("logs", 1, 4_000)).to_batches(2_500)
    path = write(name, tmp_path / "file.parquet", batches, mode)
    written = pa.Table.from_batches(batches)
    assert pq.read_table(path).select(written.column_names).cast(written.schema).equals(written)


@pytest.mark.parametrize("mode", ["batches", "table"])
@pytest.mark.parametrize("name", BUILT_IN)
def test_what_is_written_is_what_is_read(tmp_path, rows, name, mode):
    path = write(name, tmp_path / "file.parquet", rows, mode)
    written = pa.Table.from_batches(rows)
    assert pq.read_table(path).select(written.column_names).cast(written.schema).equals(written)


@pytest.mark.parametrize("name", BUILT_IN)
def test_row_groups_keep_to_the_cells_size(tmp_path, rows, name):
    path = write(name, tmp_path / "file.parquet", rows, row_group_rows=12_288)
    metadata = pq.read_metadata(path)
    sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    assert sum(sizes) == ROWS
    vector = 2048 if name == "duckdb" else 0  # DuckDB ends a row group with the vector that fills it
    assert max(sizes) <= 12_288 + vector


def test_pyarrow_streaming_makes_a_row_group_of_every_batch(tmp_path, rows):
    path = write("pyarrow-streaming", tmp_path / "file.parquet", rows)
    assert pq.read_metadata(path).num_row_groups == len(rows)


@pytest.mark.parametrize("name", [name for name in BUILT_IN if name != "pyarrow-streaming"])
def test_the_others_gather_batches_into_one_row_group(tmp_path, rows, name):
    path = write(name, tmp_path / "file.parquet", rows)
    assert pq.read_metadata(path).num_row_groups == 1


@pytest.mark.parametrize(
    ("codec", "said"),
    [
        ("snappy", "SNAPPY"),
        ("zstd", "ZSTD"),
        ("gzip", "GZIP"),
        ("lz4", "LZ4"),
        ("uncompressed", "UNCOMPRESSED"),
    ],
)
@pytest.mark.parametrize("name", BUILT_IN)
def test_the_codec_is_the_cells(tmp_path, name, codec, said):
    batches = made("logs")[:1]
    path = write(name, tmp_path / "file.parquet", batches, codec=codec, level=resolve_level(codec, None))
    group = pq.read_metadata(path).row_group(0)
    used = {group.column(index).compression for index in range(group.num_columns)}
    assert said in used
    assert used <= {said, "UNCOMPRESSED"}


def test_duckdb_says_which_levels_it_has_not(tmp_path):
    batches = made("logs")[:1]
    with pytest.raises(OptionError, match="gzip at level 7: it has gzip at 6"):
        write("duckdb", tmp_path / "file.parquet", batches, codec="gzip", level=7)


@pytest.mark.parametrize("name", BUILT_IN)
def test_no_rows_at_all_make_a_file(tmp_path, name):
    schema = datasets.schema("logs")
    sink = backends.load(name).open(tmp_path / "file.parquet", schema, settings())
    sink.close()
    assert pq.read_metadata(tmp_path / "file.parquet").num_rows == 0


def test_a_batch_is_copied_unless_it_may_be_retained():
    batch = pa.record_batch({"value": pa.array(range(1000))})
    copied, kept = (retained(batch, dataclasses.replace(settings(), may_retain=may)) for may in (False, True))
    addresses = [each.column(0).buffers()[1].address for each in (batch, copied, kept)]
    assert addresses[0] == addresses[2] != addresses[1]
    assert copied.equals(batch)


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_batch_is_the_callers_again_when_write_returns(tmp_path, name):
    """Overwrite each batch once it is handed over: a sink that only kept a view writes zeros."""
    starts = range(0, 5000, 1000)
    values = [bytearray(pa.array(range(start, start + 1000)).buffers()[1].to_pybytes()) for start in starts]
    schema = pa.schema([("value", pa.int64())])
    path = tmp_path / "file.parquet"
    sink = backends.load(name).open(path, schema, settings())
    for memory in values:
        array = pa.Array.from_buffers(pa.int64(), 1000, [None, pa.py_buffer(memory)])
        sink.write(pa.record_batch([array], schema=schema))
        memory[:] = bytes(len(memory))
    sink.close()
    assert pq.read_table(path).column("value").to_pylist() == list(range(5000))


def test_an_unknown_backend_names_those_there_are():
    with pytest.raises(OptionError, match="pyarrow-streaming-tuned"):
        backends.load("parquet-cpp")


def test_another_packages_backend_is_found_by_its_entry_point(tmp_path, monkeypatch):
    install(
        tmp_path,
        monkeypatch,
        "mine = third_party:Mine\nbroken = third_party:NotOne\nabsent = third_party_gone:X",
    )
    assert {"mine", "broken", "absent"} <= set(backends.names())
    assert backends.load("mine").version() == "3.1"
    assert backends.missing("mine") is None
    with pytest.raises(SpillwayError, match="is not a backend"):
        backends.load("broken")
    assert "third_party_gone" in backends.missing("absent")


def test_a_built_in_name_cannot_be_taken_over(tmp_path, monkeypatch):
    install(tmp_path, monkeypatch, "polars = third_party:Mine")
    assert backends.names().count("polars") == 1
    assert type(backends.load("polars")).__name__ == "Polars"


def install(tmp_path, monkeypatch, entry_points):
    info = tmp_path / "third_party-3.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: third-party\nVersion: 3.1\n")
    (info / "entry_points.txt").write_text(f"[spillway.backends]\n{entry_points}\n")
    (tmp_path / "third_party.py").write_text(
        "class Mine:\n"
        "    name = 'mine'\n"
        "    modes = frozenset({'batches'})\n"
        "    def version(self): return '3.1'\n"
        "    def open(self, path, schema, settings): raise NotImplementedError\n"
        "class NotOne:\n"
        "    pass\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()


def test_an_absent_library_is_named_with_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "duckdb", None)
    monkeypatch.delitem(__import__("sys").modules, "spillway.backends.duckdb", raising=False)
    with pytest.raises(ImportError, match=r"duckdb is needed .* pip install 'spillway\[bench\]'"):
        backends.load("duckdb")


def test_the_tuned_encodings_follow_the_values_not_the_names():
    n = 20_000
    table = pa.table(
        {
            "a": pa.array(range(n), pa.timestamp("us")),
            "b": pa.array(range(n)),
            "c": pa.array([value % 7 for value in range(n)]),
            "d": pa.array([f"{value:032x}" for value in range(n)]),
            "e": pa.array([f"host-{value % 5}" for value in range(n)]),
            "f": pa.array([value / 3 for value in range(n)]),
            "g": pa.array([None] * n, pa.string()),
            "h": pa.array([{"x": 1, "y": ["z"]}] * n),
        }
    )
    chosen = choose_encodings(table)
    assert chosen.encodings == {
        "a": "DELTA_BINARY_PACKED",
        "b": "DELTA_BINARY_PACKED",
        "d": "DELTA_LENGTH_BYTE_ARRAY",
    }
    assert chosen.dictionary == ["c", "e", "f", "g", "h.x", "h.y.list.element"]


@pytest.mark.parametrize("dataset", ["file", "logs"])
@pytest.mark.parametrize("name", ["pyarrow-streaming-tuned", "arro3-tuned"])
def test_the_tuned_encodings_are_in_the_file(tmp_path, name, dataset):
    batches = made("logs")
    chosen = choose_encodings(pa.Table.from_batches(batches[:1]), dataset)
    path = write(name, tmp_path / "file.parquet", batches, dataset=dataset)
    group = pq.read_metadata(path).row_group(0)
    chunks = {group.column(index).path_in_schema: group.column(index) for index in range(group.num_columns)}
    assert {"DELTA_BINARY_PACKED", "DELTA_LENGTH_BYTE_ARRAY"} <= set(chosen.encodings.values())
    for column, encoding in chosen.encodings.items():
        assert encoding in chunks[column].encodings
        assert not chunks[column].has_dictionary_page
    assert chunks["level"].has_dictionary_page


@pytest.mark.parametrize("dataset", ["logs", "logs-nested", "lineitem"])
def test_what_is_tuned_by_hand_names_columns_that_there_are(dataset, tmp_path):
    schema = datasets.prepare(dataset, rows=100, cache=tmp_path).schema
    chosen = choose_encodings(schema.empty_table(), dataset)
    assert set(chosen.encodings) <= set(schema.names)
    flat = [
        name for name, kind in zip(schema.names, schema.types, strict=True) if not pa.types.is_nested(kind)
    ]
    assert set(flat) <= set(chosen.encodings) | set(chosen.dictionary)


def test_an_error_of_the_library_reaches_the_writer_and_stays():
    def fail(reader):
        reader.read_next_batch()
        raise OSError(28, "No space left on device")

    schema = pa.schema([("value", pa.int64())])
    batch = pa.record_batch([pa.array([1])], schema=schema)
    sink = PushToPull(schema, fail)
    with pytest.raises(OSError, match="No space left"):
        sink.write(batch)
    with pytest.raises(OSError, match="No space left"):
        sink.write(batch)


def test_a_library_that_ends_early_is_noticed():
    schema = pa.schema([("value", pa.int64())])
    sink = PushToPull(schema, lambda _reader: None)
    with pytest.raises(RuntimeError, match="before the stream had ended"):
        sink.write(pa.record_batch([pa.array([1])], schema=schema))


def test_an_input_is_mapped_where_the_kernel_cannot_make_its_pages_resident(tmp_path, monkeypatch):
    batches = made("logs")
    with (
        pa.OSFile(str(tmp_path / "logs.arrow"), "wb") as file,
        pa.ipc.new_file(file, batches[0].schema) as to,
    ):
        for batch in batches:
            to.write_batch(batch)
    monkeypatch.setattr(inputs, "_POPULATE_READ", 1 << 20)  # no kernel knows it
    source = inputs.MappedInput(str(tmp_path / "logs.arrow"), sum(batch.num_rows for batch in batches))
    assert source.table().equals(pa.Table.from_batches(batches))
