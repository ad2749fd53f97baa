from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spillway import datasets
from spillway.errors import CorruptFileError, OptionError

from ..counts import examples

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TABLE = pa.table(
    {
        "id": pa.array(range(1_000), pa.int64()),
        "name": [f"name-{i % 7}" if i % 5 else None for i in range(1_000)],
        "ratio": [i / 8 for i in range(1_000)],
    }
)


def read(prepared: datasets.PreparedInput) -> pa.Table:
    return pa.ipc.open_file(pa.memory_map(str(prepared.path))).read_all()


def batch_rows(prepared: datasets.PreparedInput) -> list[int]:
    file = pa.ipc.open_file(pa.memory_map(str(prepared.path)))
    return [file.get_batch(index).num_rows for index in range(file.num_record_batches)]


def write_ipc_file(table: pa.Table, path: Path) -> None:
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=77)


def write_ipc_stream(table: pa.Table, path: Path) -> None:
    with pa.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=77)


def write_csv(table: pa.Table, path: Path) -> None:
    pyarrow.csv.write_csv(table, path)


def write_tsv(table: pa.Table, path: Path) -> None:
    pyarrow.csv.write_csv(table, path, pyarrow.csv.WriteOptions(delimiter="\t"))


def write_ndjson(table: pa.Table, path: Path) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))


WRITERS: dict[str, Callable[[pa.Table, Path], None]] = {
    "rows.parquet": lambda table, path: pyarrow.parquet.write_table(table, path, row_group_size=333),
    "parquet-without-suffix": pyarrow.parquet.write_table,
    "rows.arrow": write_ipc_file,
    "rows.arrows": write_ipc_stream,
    "rows.feather": write_ipc_file,
    "rows.csv": write_csv,
    "rows.TSV": write_tsv,
    "rows.ndjson": write_ndjson,
    "rows.jsonl": write_ndjson,
    "ndjson-without-suffix": write_ndjson,
}


def test_a_dataset_becomes_batches_of_exactly_the_size_asked_for(tmp_path: Path) -> None:
    prepared = datasets.prepare("logs", seed=2, rows=25_000, chunk_rows=4_000, cache=tmp_path)
    assert batch_rows(prepared) == [4_000] * 6 + [1_000]
    assert read(prepared).equals(pa.Table.from_batches(datasets.batches("logs", 2, 25_000)))
    assert prepared.rows == 25_000
    assert prepared.schema == datasets.schema("logs")
    assert prepared.source == "logs"
    assert 700 <= prepared.arrow_bytes / prepared.rows <= 800


def test_nested_rows_survive_rechunking(tmp_path: Path) -> None:
    prepared = datasets.prepare("logs-nested", seed=2, rows=12_000, chunk_rows=7_000, cache=tmp_path)
    read(prepared).validate(full=True)
    assert read(prepared).equals(pa.Table.from_batches(datasets.batches("logs-nested", 2, 12_000)))


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_keeps_its_rows(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    # CSV has no null for a string.
    table = TABLE.drop_columns("name") if path.suffix.lower() in {".csv", ".tsv"} else TABLE
    WRITERS[name](table, path)
    prepared = datasets.prepare(path, chunk_rows=300, cache=tmp_path / "cache")
    assert read(prepared).equals(table)
    assert batch_rows(prepared) == [300, 300, 300, 100]
    assert prepared.source == name


@pytest.mark.parametrize("name", WRITERS)
def test_the_first_rows_of_every_format_are_taken(tmp_path: Path, name: str) -> None:
    WRITERS[name](TABLE, tmp_path / name)
    prepared = datasets.prepare(str(tmp_path / name), rows=450, chunk_rows=200, cache=tmp_path / "cache")
    assert read(prepared)["id"].to_pylist() == list(range(450))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(0.3))
@given(
    sizes=st.lists(st.integers(0, 40), min_size=1, max_size=8),
    chunk_rows=st.integers(1, 60),
    rows=st.integers(1, 200),
)
def test_any_batches_are_rechunked_without_losing_a_row(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], chunk_rows: int, rows: int
) -> None:
    folder = tmp_path_factory.mktemp("rechunk")
    numbers = iter(range(sum(sizes)))
    batches = [
        pa.record_batch({"id": pa.array([next(numbers) for _ in range(size)], pa.int64())}) for size in sizes
    ]
    with pa.ipc.new_file(folder / "in.arrow", batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    if rows > sum(sizes):
        with pytest.raises(OptionError, match=r"asked for|holds no rows"):
            datasets.prepare(folder / "in.arrow", rows=rows, chunk_rows=chunk_rows, cache=folder / "cache")
        return
    prepared = datasets.prepare(folder / "in.arrow", rows=rows, chunk_rows=chunk_rows, cache=folder / "cache")
    assert read(prepared)["id"].to_pylist() == list(range(rows))
    assert set(batch_rows(prepared)[:-1]) <= {chunk_rows}


def test_dictionaries_that_differ_from_row_group_to_row_group_are_kept(tmp_path: Path) -> None:
    names = pa.chunked_array(
        [pa.array([f"{part}-{i % 9}" for i in range(100)]).dictionary_encode() for part in "abcd"]
    )
    inner = pa.chunked_array(
        [
            pa.array(
                [[f"{part}-{i % 5}"] for i in range(100)], pa.list_(pa.dictionary(pa.int32(), pa.string()))
            )
            for part in "wxyz"
        ]
    )
    table = pa.table({"name": names, "names": inner})
    with pa.ipc.new_stream(tmp_path / "rows.arrows", table.schema) as writer:
        writer.write_table(table)
    prepared = datasets.prepare(tmp_path / "rows.arrows", chunk_rows=70, cache=tmp_path / "cache")
    assert prepared.schema == table.schema
    assert read(prepared).to_pylist() == table.to_pylist()
    assert batch_rows(prepared) == [70] * 5 + [50]


def test_the_prepared_file_is_not_compressed_though_its_source_is(tmp_path: Path) -> None:
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    table = pa.table({"zeros": pa.array([0] * 100_000, pa.int64())})
    with pa.ipc.new_file(tmp_path / "rows.arrow", table.schema, options=options) as writer:
        writer.write_table(table)
    prepared = datasets.prepare(tmp_path / "rows.arrow", chunk_rows=50_000, cache=tmp_path / "cache")
    assert prepared.arrow_bytes == 800_000 <= prepared.path.stat().st_size


def test_the_second_preparation_finds_the_first(tmp_path: Path) -> None:
    first = datasets.prepare("logs", seed=1, rows=10_000, chunk_rows=10_000, cache=tmp_path)
    before = first.path.stat()
    calls: list[int] = []
    again = datasets.prepare(
        "logs",
        seed=1,
        rows=10_000,
        chunk_rows=10_000,
        cache=tmp_path,
        progress=lambda done, _: calls.append(done),
    )
    after = again.path.stat()
    assert again == first
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert calls == []


@pytest.mark.parametrize("change", [{"seed": 2}, {"rows": 9_000}, {"chunk_rows": 5_000}])
def test_other_rows_or_batches_are_another_file(tmp_path: Path, change: dict[str, int]) -> None:
    asked = {"seed": 1, "rows": 10_000, "chunk_rows": 10_000}
    first = datasets.prepare("logs", **asked, cache=tmp_path)
    second = datasets.prepare("logs", **{**asked, **change}, cache=tmp_path)
    assert first.path != second.path
    assert first.fingerprint != second.fingerprint


def test_a_changed_file_is_prepared_anew(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pyarrow.parquet.write_table(TABLE, path)
    first = datasets.prepare(path, cache=tmp_path / "cache")
    pyarrow.parquet.write_table(TABLE.slice(0, 10), path)
    assert first.rows == 1_000
    assert datasets.prepare(path, cache=tmp_path / "cache").rows == 10


def test_a_damaged_prepared_file_is_written_anew(tmp_path: Path) -> None:
    first = datasets.prepare("logs", seed=1, rows=10_000, chunk_rows=10_000, cache=tmp_path)
    whole = first.path.read_bytes()
    first.path.write_bytes(whole[: len(whole) // 2])
    assert datasets.prepare("logs", seed=1, rows=10_000, chunk_rows=10_000, cache=tmp_path) == first
    assert first.path.read_bytes() == whole


def test_progress_is_told_after_each_batch(tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    datasets.prepare(
        "logs", rows=20_000, chunk_rows=8_000, cache=tmp_path, progress=lambda *call: calls.append(call)
    )
    assert calls == [(8_000, 20_000), (16_000, 20_000), (20_000, 20_000)]


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_an_interrupted_preparation_leaves_nothing(tmp_path: Path, error: type[BaseException]) -> None:
    def interrupt(done: int, _total: int) -> None:
        if done >= 10_000:
            raise error

    with pytest.raises(error):
        datasets.prepare("logs", rows=40_000, chunk_rows=5_000, cache=tmp_path, progress=interrupt)
    assert list(tmp_path.iterdir()) == []


def test_processes_that_prepare_the_same_rows_do_not_clash(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from spillway import datasets\n"
        "prepared = datasets.prepare('logs', rows=20_000, chunk_rows=10_000, cache=Path(sys.argv[1]))\n"
        "print(prepared.fingerprint, prepared.rows)"
    )
    started = [
        subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    outputs = {process.communicate(timeout=60)[0] for process in started}
    assert [process.returncode for process in started] == [0, 0, 0]
    assert len(outputs) == 1
    assert len(list(tmp_path.iterdir())) == 1


def test_the_cache_folder_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPILLWAY_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert datasets.default_cache() == tmp_path / "xdg" / "spillway"
    monkeypatch.setenv("SPILLWAY_CACHE", str(tmp_path / "own"))
    assert datasets.default_cache() == tmp_path / "own"
    assert datasets.prepare("logs", rows=10, chunk_rows=10).path.parent == tmp_path / "own"
    monkeypatch.delenv("SPILLWAY_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert datasets.default_cache() == tmp_path / ".cache" / "spillway"


def refused(path: Path, error: type[Exception], message: str, **asked: int) -> None:
    cache = path.parent / "cache"
    with pytest.raises(error, match=message):
        datasets.prepare(path, cache=cache, **asked)
    assert not cache.exists() or list(cache.iterdir()) == []


@pytest.mark.parametrize("name", ["rows.parquet", "rows.arrow", "rows.csv", "rows.ndjson", "rows"])
def test_an_empty_file_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    refused(tmp_path / name, CorruptFileError, f"{name} is empty")


@pytest.mark.parametrize("name", ["rows.parquet", "rows.arrow", "rows.arrows"])
def test_a_truncated_file_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    WRITERS[name](TABLE, path)
    path.write_bytes(path.read_bytes()[:-3_000])
    refused(path, CorruptFileError, f"{name} cannot be read")


def test_a_damaged_page_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pyarrow.parquet.write_table(TABLE, path, compression="zstd")
    content = bytearray(path.read_bytes())
    content[60:400] = bytes(340)
    path.write_bytes(content)
    refused(path, CorruptFileError, "rows.parquet cannot be read")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("rows.csv", b"a,b\n1,2\n3\n"),
        ("rows.ndjson", b'{"a": 1}\n{"a": \n'),
        ("rows.ndjson", b"nonsense"),
    ],
)
def test_malformed_text_is_refused(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    refused(tmp_path / name, CorruptFileError, f"{name} cannot be read")


def test_a_file_without_rows_is_refused(tmp_path: Path) -> None:
    for name in ("rows.parquet", "rows.arrows", "rows.csv"):
        WRITERS[name](TABLE.slice(0, 0), tmp_path / name)
        refused(tmp_path / name, OptionError, "holds no rows")


def test_more_rows_than_a_file_holds_are_refused_with_its_count(tmp_path: Path) -> None:
    for name, write in WRITERS.items():
        write(TABLE, tmp_path / name)
        refused(tmp_path / name, OptionError, f"{name} holds 1,000 rows, fewer than the 1,001", rows=1_001)


def test_an_unknown_format_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    (tmp_path / "rows.xlsx").write_bytes(b"PK\x03\x04 whatever")
    refused(tmp_path / "rows.xlsx", OptionError, r"no known format.*Parquet, Arrow IPC.*CSV.*NDJSON")


def test_a_file_that_is_not_what_its_name_says_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rows.parquet").write_bytes(b"not parquet at all")
    refused(tmp_path / "rows.parquet", CorruptFileError, "named .parquet, but")


def test_a_source_that_is_neither_a_dataset_nor_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        FileNotFoundError, match=r"neither a dataset .logs, logs-nested, .*cities. nor a file.*lgos"
    ):
        datasets.prepare("lgos", rows=10, chunk_rows=10, cache=tmp_path)


def test_a_cache_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "occupied").touch()
    with pytest.raises(NotADirectoryError):
        datasets.prepare("logs", rows=10, chunk_rows=10, cache=tmp_path / "occupied" / "cache")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"rows": 0, "chunk_rows": 10}, "rows is 0"),
        ({"rows": 10, "chunk_rows": 0}, "chunk_rows is 0"),
        ({"chunk_rows": 10}, "rows is needed"),
    ],
)
def test_rows_that_cannot_be_had_are_refused(tmp_path: Path, asked: dict[str, int], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        datasets.prepare("logs", cache=tmp_path, **asked)
