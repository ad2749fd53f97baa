"""Outputs: files, folders and tables appear whole, and nothing that is there is replaced unasked."""

from __future__ import annotations

from typing import TYPE_CHECKING
from unittest import mock

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow.dataset import HivePartitioning

import spillway
import spillway.delta
from spillway.errors import CommitUnknown
from spillway.shell import Job, outputs, sized
from spillway.shell.job import LEAST_MEMORY, Memory
from spillway.shell.outputs import FileOutput, open_output

from .conftest import ROWS, TABLE, encoded, names, refused, run, written

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.parquet"
    path.write_bytes(encoded("parquet"))
    return path


def delta_rows(place: Path) -> list[dict[str, object]]:
    return pa.table(spillway.delta.open(place).scan()).sort_by("id").to_pylist()


def test_a_file_that_is_there_is_replaced_on_request_alone(rows: Path, out: Path) -> None:
    (out / "out.parquet").write_bytes(b"old")
    assert f"{out / 'out.parquet'} already exists: pass --mode overwrite" in refused(
        rows, out / "out.parquet"
    )
    assert (out / "out.parquet").read_bytes() == b"old"
    assert written(rows, "--mode", "overwrite", out / "out.parquet").to_pylist() == ROWS


@pytest.mark.parametrize("mode", ["error", "overwrite"])
def test_a_file_that_appears_while_rows_are_written_is_replaced_on_request_alone(
    rows: Path, out: Path, mode: str
) -> None:
    write = FileOutput.write

    def another_appears(output: FileOutput, batch: pa.RecordBatch) -> None:
        write(output, batch)
        (out / "out.parquet").write_bytes(b"of another")

    with mock.patch.object(FileOutput, "write", another_appears):
        result = run(rows, out / "out.parquet", "--mode", mode)
    if mode == "error":
        assert result.exit_code == 2
        assert "already exists: pass --mode overwrite" in " ".join(result.stderr.split())
        assert (out / "out.parquet").read_bytes() == b"of another"
    else:
        assert pq.read_table(out / "out.parquet").to_pylist() == ROWS
    assert names(out) == {"out.parquet"}


@pytest.mark.parametrize("level", ["footer", "pages", "values"])
def test_files_that_are_read_back_have_checksums(rows: Path, out: Path, level: str) -> None:
    assert written(rows, "--verify", level, out / "out.parquet").to_pylist() == ROWS
    report = spillway.inspect_file(out / "out.parquet", pages=True)
    pages = [page for group in report.row_groups for column in group.columns for page in column.pages or ()]
    assert pages
    assert all(page.checksum for page in pages)
    assert '"footer", "pages", "values"' in refused(rows, out / "other.parquet", "--verify", "all")


def test_a_folder_with_files_is_replaced_on_request_alone(rows: Path, out: Path) -> None:
    (out / "part-00000.parquet").write_bytes(b"old")
    assert "is not empty: pass --mode append" in refused(rows, out, "--partition-by", "name")
    assert names(out) == {"part-00000.parquet"}
    assert run(rows, out, "--partition-by", "name", "--mode", "overwrite").exit_code == 0
    assert pq.read_table(out).num_rows == len(ROWS)


@pytest.mark.parametrize("options", [["--partition-by", "name"], ["--to-delta"]], ids=["folder", "table"])
def test_rows_are_added_or_refused_as_the_mode_says(rows: Path, out: Path, options: list[str]) -> None:
    def found() -> int:
        return len(delta_rows(out / "to")) if "--to-delta" in options else pq.read_table(out / "to").num_rows

    # Nothing is there yet.
    assert run(rows, out / "to", *options, "--mode", "error").exit_code == 0
    assert found() == len(ROWS)
    assert "pass --mode" in refused(rows, out / "to", *options, "--mode", "error")
    assert found() == len(ROWS)
    assert run(rows, out / "to", *options, "--mode", "append").exit_code == 0
    assert found() == 2 * len(ROWS)


def test_a_file_takes_no_more_rows(rows: Path, out: Path) -> None:
    (out / "out.parquet").write_bytes(encoded("parquet"))
    assert "not to a Parquet file" in refused(rows, out / "out.parquet", "--mode", "append")
    assert "already exists" in refused(rows, out / "out.parquet", "--mode", "error")
    assert (out / "out.parquet").read_bytes() == encoded("parquet")


@pytest.mark.parametrize("options", [[], ["--mode", "overwrite"]])
def test_what_is_read_is_not_written(rows: Path, options: list[str]) -> None:
    assert "is both an input and the output" in refused(rows, rows, *options)
    assert "is both an input and the output" in refused(rows, rows.parent, "--partition-by", "name", *options)
    assert rows.read_bytes() == encoded("parquet")
    assert names(rows.parent) == {"rows.parquet"}


def test_a_file_url_is_a_path(rows: Path, out: Path) -> None:
    (out / "out.parquet").write_bytes(b"old")
    assert "already exists: pass --mode overwrite" in refused(rows, f"file://{out}/out.parquet")
    assert (out / "out.parquet").read_bytes() == b"old"
    assert "is both an input and the output" in refused(rows, f"FILE://{rows}", "--mode", "overwrite")
    assert "is both an input and the output" in refused(rows, f"file://localhost{rows.parent}", "--to-delta")
    assert rows.read_bytes() == encoded("parquet")
    assert run(rows, f"file://{out}/new.parquet").exit_code == 0
    assert pq.ParquetFile(out / "new.parquet").read().to_pylist() == ROWS


def test_a_folder_is_no_file(rows: Path, out: Path) -> None:
    assert "is a folder: name a file in it" in refused(rows, out)


def test_a_missing_folder_is_named(rows: Path, out: Path) -> None:
    assert "No such file or directory" in refused(rows, out / "missing" / "out.parquet")
    assert names(out) == set()


def test_a_folder_that_takes_no_files_is_named(rows: Path, out: Path) -> None:
    (out / "file").write_bytes(b"")
    assert f"{out / 'file'}" in refused(rows, out / "file" / "out.parquet")
    assert names(out) == {"file"}


@pytest.mark.parametrize("option", ["--partition-by", "--bloom-filter", "--sorting-columns"])
def test_a_list_of_columns_that_names_none_is_refused(rows: Path, out: Path, option: str) -> None:
    assert "names no column" in refused(rows, out / "out.parquet", option, " , ")


def test_an_output_alone_is_no_job(rows: Path) -> None:
    assert "name inputs, and then the output" in refused(rows)
    assert "standard output takes one file" in refused(rows, "-", "--to-delta")


@pytest.mark.parametrize("memory", ["4MB", "256MB"])
def test_partitions_are_folders(rows: Path, out: Path, memory: str) -> None:
    result = run(rows, out / "rows", "--partition-by", "name", "--memory", memory)
    assert result.exit_code == 0, result.output
    assert "300 rows from" in result.stderr
    if memory == "256MB":  # with less, files are closed and their partitions go on in others
        assert "in 6 files written to" in result.stderr
    found = pa.dataset.dataset(out / "rows", partitioning=HivePartitioning.discover()).to_table()
    found = found.sort_by("id").select(TABLE.column_names)
    assert found.to_pylist() == ROWS


def test_a_table_is_made_and_appended_to(rows: Path, out: Path) -> None:
    table = out / "table"
    result = run(rows, table, "--to-delta", "--partition-by", "name")
    assert result.exit_code == 0, result.output
    assert "version 0" in result.stderr
    assert "in 6 files" in result.stderr
    assert delta_rows(table) == ROWS
    assert run(rows, table, "--to-delta").exit_code == 0
    assert len(delta_rows(table)) == 2 * len(ROWS)
    assert run(rows, table, "--to-delta", "--mode", "overwrite").exit_code == 0
    assert delta_rows(table) == ROWS
    assert spillway.delta.open(table).partition_columns == ["name"]


def test_rows_that_are_committed_are_said_to_be_also_where_the_table_cannot_be_opened_again(
    out: Path,
) -> None:
    output = open_output(Job((), str(out / "table"), Memory(LEAST_MEMORY), to_delta=True), TABLE.schema)
    assert output.left() == f"{out / 'table'} is as it was"
    with output.writing():
        output.write(TABLE.to_batches()[0])
    (out / "table" / "_delta_log").rename(out / "table" / "elsewhere")
    assert output.written() == (None, None, f"{out / 'table'}, version 0")
    assert output.left() == f"the rows are in {out / 'table'}, version 0"


def test_an_interrupt_after_the_commit_does_not_deny_it(
    rows: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(outputs.TableOutput, "written", interrupted)
    result = run(rows, out / "table", "--to-delta")
    assert result.exit_code == 130, result.output
    assert f"interrupted: the rows are in {out / 'table'}, version 0" in " ".join(result.stderr.split())
    assert delta_rows(out / "table") == ROWS


def test_a_commit_that_nobody_can_tell_of_has_a_status_of_its_own(
    rows: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(_: object, timeout: float | None = None) -> int:
        raise CommitUnknown(f"the time was up after {timeout} s", token="a token")  # noqa: S106 - it opens nothing

    spillway.delta.create(out / "table", TABLE.schema)
    monkeypatch.setattr(spillway.delta.Append, "commit", unknown)
    result = run(rows, out / "table", "--to-delta")
    assert result.exit_code == 3, result.output
    said = " ".join(result.stderr.split())
    assert f"it is not known yet whether the rows are in {out / 'table'}: the time was up" in said
    assert "Do not write them again before spillway.delta.open(...).outcome('a token')" in said


@pytest.mark.parametrize("partition", [[], ["--partition-by", "name"]], ids=["file", "folder"])
def test_an_interrupt_after_the_last_row_says_where_rows_are(
    rows: Path, out: Path, monkeypatch: pytest.MonkeyPatch, partition: list[str]
) -> None:
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    kind = outputs.FolderOutput if partition else outputs.FileOutput
    monkeypatch.setattr(kind, "written", interrupted)
    result = run(rows, out / "rows", *partition)
    assert result.exit_code == 130, result.output
    assert f"interrupted: all rows are in {out / 'rows'}" in " ".join(result.stderr.split())
    assert (out / "rows").exists()


def test_rows_that_do_not_fit_a_table_leave_it_as_it_was(rows: Path, out: Path) -> None:
    spillway.delta.create(out / "table", pa.schema({"other": pa.int64()}))
    before = names(out / "table")
    refused(rows, out / "table", "--to-delta")
    assert names(out / "table") == before
    assert spillway.delta.open(out / "table").version == 0


def test_a_table_keeps_its_partitions(rows: Path, out: Path) -> None:
    spillway.delta.create(out / "table", TABLE.schema)
    said = refused(rows, out / "table", "--to-delta", "--partition-by", "name")
    assert "is a table partitioned by no column" in said


def test_no_rows_are_a_file_with_columns(tmp_path: Path, out: Path) -> None:
    (tmp_path / "rows.parquet").write_bytes(encoded("parquet", TABLE.slice(0, 0)))
    assert written(tmp_path / "rows.parquet", out / "out.parquet").schema.equals(TABLE.schema)
    assert run(tmp_path / "rows.parquet", out / "table", "--to-delta").exit_code == 0
    assert delta_rows(out / "table") == []


def test_options_reach_the_writer(rows: Path, out: Path) -> None:
    options = ["--codec", "gzip", "--level", "9", "--row-group-rows", "100", "--bloom-filter", "name"]
    assert run(rows, out / "out.parquet", *options, "--sorting-columns", "id").exit_code == 0
    report = spillway.inspect_file(out / "out.parquet")
    assert [group.rows for group in report.row_groups] == [100, 100, 100]
    for group in report.row_groups:
        assert {column.codec for column in group.columns} == {"GZIP"}
        assert [column.path for column in group.columns if column.bloom_filter] == ["name"]
    footer = pq.read_metadata(out / "out.parquet")
    assert footer.row_group(0).sorting_columns == (pq.SortingColumn(0),)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--sorting-columns", "id:descending"], "comes before the one in front of it"),
        (["--sorting-columns", "id:up"], "NAME:ascending or NAME:descending"),
        (["--codec", "lzo"], 'compression="lzo" is not accepted'),
        (["--memory", "1MB"], "give at least 4MB"),
        (["--memory", "much"], "not an amount of memory"),
        (["--on-error", "ignore"], "choose raise or skip"),
        (["--storage-option", "AWS_REGION=x"], "storage_options"),
    ],
)
def test_options_that_are_not_accepted_are_named(
    rows: Path, out: Path, options: list[str], reason: str
) -> None:
    assert reason in refused(rows, out / "out.parquet", *options)
    assert names(out) == set()


def test_memory_that_is_too_little_for_the_columns_is_said(tmp_path: Path, out: Path) -> None:
    wide = pa.table({f"c{number}": [number] for number in range(300)})
    pq.write_table(wide, tmp_path / "wide.parquet")
    said = refused(tmp_path / "wide.parquet", out / "out.parquet", "--memory", "4MB")
    assert "--memory 4000000: its share for files is too little" in said
    assert written(tmp_path / "wide.parquet", "--memory", "16MB", out / "out.parquet").equals(wide)


@given(limit=st.integers(LEAST_MEMORY, 1 << 36), columns=st.integers(1, 4_000))
def test_the_shares_of_the_memory_are_within_it(limit: int, columns: int) -> None:
    memory = Memory(limit)
    number, each = memory.open_files(columns)
    assert 1 <= number <= 64
    assert number * each <= memory.writer
    # Read, kept until it is whole lines, parsed, and as columns.
    assert memory.writer + 4 * max(memory.block, memory.slice) + memory.line <= limit


def test_nothing_is_said_when_nothing_is_asked(rows: Path, out: Path) -> None:
    result = run(rows, out / "out.parquet", "--quiet")
    assert (result.exit_code, result.output) == (0, "")


def test_the_summary_says_what_was_done(rows: Path, out: Path) -> None:
    result = run(rows, out / "out.parquet")
    assert result.stdout == ""
    size = (out / "out.parquet").stat().st_size
    assert (
        f"300 rows from {sized(len(encoded('parquet')))} of 1 file; {sized(size)} in 1 file" in result.stderr
    )


@pytest.mark.parametrize(
    ("size", "written"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (2_340_000, "2.3 MB"), (10**16, "10000.0 TB")],
)
def test_sizes_are_written_in_thousands(size: int, written: str) -> None:
    assert sized(size) == written


def test_a_job_checks_its_options_before_anything_is_read() -> None:
    with pytest.raises(spillway.OptionError, match="compression"):
        Job(("nothing",), "out", Memory(LEAST_MEMORY), options={"compression": "lzo"})


def test_a_partitioned_table_of_too_many_columns_is_refused(tmp_path: Path, out: Path) -> None:
    wide = pa.table({f"c{number}": [number] for number in range(300)})
    pq.write_table(wide, tmp_path / "wide.parquet")
    said = refused(tmp_path / "wide.parquet", out / "table", "--to-delta", "--partition-by", "c0")
    assert "has up to 64 files open: give at least" in said
    assert names(out) == set()
