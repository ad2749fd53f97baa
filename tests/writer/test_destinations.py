"""The moment at which a file appears. Destinations under faults are in tests/faults."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import spillway.delta


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "rows.parquet"
    path.write_bytes(b"what was there before")
    return path


def alone(path: Path) -> bool:
    return [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_a_file_appears_only_when_it_is_complete(old: Path, table: pa.Table) -> None:
    with spillway.ParquetWriter(old, table.schema) as writer:
        writer.write(table)
        assert old.read_bytes() == b"what was there before"
        (sibling,) = (entry for entry in old.parent.iterdir() if entry != old)
        assert sibling.name.startswith(".")
        assert sibling.suffix != ".parquet"
    assert pq.read_table(old).equals(table)
    assert alone(old)


def test_an_exception_in_the_block_leaves_what_was_there(old: Path, table: pa.Table) -> None:
    writer = spillway.ParquetWriter(old, table.schema)

    def fail() -> None:
        with writer:
            writer.write(table)
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        fail()
    assert old.read_bytes() == b"what was there before"
    assert alone(old)
    assert writer.closed


def test_a_durable_file_is_the_same_file(tmp_path: Path, table: pa.Table) -> None:
    spillway.write_parquet(table, tmp_path / "a", durable=True)
    spillway.write_parquet(table, tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_file_object_gets_the_same_bytes_and_stays_open(tmp_path: Path, table: pa.Table) -> None:
    file = io.BytesIO()
    spillway.write_parquet(table, file)
    spillway.write_parquet(table, tmp_path / "rows.parquet")
    assert file.getvalue() == (tmp_path / "rows.parquet").read_bytes()


def test_a_device_takes_the_bytes(table: pa.Table) -> None:
    assert spillway.write_parquet(table, "/dev/null").rows == table.num_rows
    assert Path("/dev/null").is_char_device()


def test_bytes_written_grows_with_row_groups(tmp_path: Path, table: pa.Table) -> None:
    with spillway.ParquetWriter(tmp_path / "rows.parquet", table.schema) as writer:
        before = writer.bytes_written
        writer.write(table)
        writer.flush()
        after = writer.bytes_written
    assert before < after < writer.bytes_written
    assert writer.bytes_written == writer.result.bytes == (tmp_path / "rows.parquet").stat().st_size


def test_a_writer_that_failed_says_so_ever_after(table: pa.Table) -> None:
    class Broken:
        def write(self, data: bytes) -> None:
            message = f"{len(data)} bytes refused"
            raise LookupError(message)

    writer = spillway.ParquetWriter(Broken(), table.schema)
    writer.write(pa.concat_tables([table] * 10))
    with pytest.raises(LookupError, match="refused"):
        writer.flush()
    with pytest.raises(spillway.ClosedError, match="bytes refused"):
        writer.write(table)
    with pytest.raises(spillway.ClosedError, match="failed before"):
        writer.close()
    assert writer.closed


def test_a_file_object_that_calls_its_writer_gets_an_error(table: pa.Table) -> None:
    class Recursive:
        writer: spillway.ParquetWriter

        def write(self, data: bytes) -> None:
            self.writer.write(table.slice(0, len(data) % 2))

    file = Recursive()
    file.writer = spillway.ParquetWriter(file, table.schema)
    file.writer.write(table)
    with pytest.raises(RuntimeError, match="inside one of its own calls"):
        file.writer.close()


@pytest.mark.parametrize("place", ["dbfs:/mnt/t", "s3:/b/t", "hdfs:/t", Path("s3://b/t"), "ABFSS:/t"])
def test_half_of_a_url_is_no_folder(
    place: str | Path, table: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for write in (spillway.write_parquet, spillway.write_dataset):
        with pytest.raises(spillway.OptionError, match=":/ is not accepted: "):
            write(table, place)
    with pytest.raises(spillway.OptionError, match=":/ is not accepted: "):
        spillway.delta.write(place, table)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("slashes", ["/", "///"])
def test_a_url_of_a_file_is_its_path(slashes: str, table: pa.Table, tmp_path: Path) -> None:
    place = f"file:{slashes}{str(tmp_path).removeprefix('/')}"
    spillway.write_parquet(table, f"{place}/a")
    spillway.write_dataset(table, f"{place}/b")
    spillway.delta.write(f"{place}/c", table)
    assert {each.name for each in tmp_path.iterdir()} == {"a", "b", "c"}


def test_a_folder_may_have_a_colon_in_its_name(table: pa.Table, tmp_path: Path) -> None:
    (tmp_path / "12:").mkdir()
    spillway.write_parquet(table, f"{tmp_path}/12:/a")
    assert (tmp_path / "12:" / "a").exists()
