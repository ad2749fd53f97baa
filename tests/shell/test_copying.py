"""`--copy-row-groups`: files joined and split, whose rows are not read."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spillway._rewrite import split
from spillway.shell import Progress

from .conftest import TABLE, encoded, names, refused, run, written

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of two files with several row groups each, compressed as nobody asks for."""
    folder = tmp_path / "in"
    folder.mkdir()
    for name in ("a", "b"):
        pq.write_table(TABLE, folder / f"{name}.parquet", row_group_size=100, compression="brotli")
    return folder


def test_files_are_joined_as_they_are(folder: Path, out: Path) -> None:
    both = pa.concat_tables([TABLE, TABLE])
    result = run(folder, out / "both.parquet", "--copy-row-groups")
    assert result.exit_code == 0, result.output
    assert "600 rows from" in result.stderr
    assert pq.read_table(out / "both.parquet").equals(both)
    assert pq.read_metadata(out / "both.parquet").row_group(5).column(0).compression == "BROTLI"
    again = [folder / "a.parquet", folder / "b.parquet", out / "both.parquet"]
    assert "already exists" in refused(*again, "--copy-row-groups")
    assert written("--mode", "overwrite", "--copy-row-groups", *again).equals(both)
    assert names(out) == {"both.parquet"}


def test_a_file_goes_to_standard_output(folder: Path) -> None:
    result = run(folder, "-", "--copy-row-groups")
    assert result.exit_code == 0, result.output
    assert pq.read_table(io.BytesIO(result.stdout_bytes)).num_rows == 600


def test_a_file_is_split_into_a_folder(folder: Path, out: Path) -> None:
    result = run(folder, out, "--copy-row-groups", "--max-file-row-groups", "4")
    assert result.exit_code == 0, result.output
    assert "in 2 files written" in result.stderr
    assert pq.read_table(out).equals(pa.concat_tables([TABLE, TABLE]))
    split = [folder, out, "--copy-row-groups", "--max-file-bytes", "10kB"]
    assert "is not empty" in refused(*split)
    assert run(*split, "--mode", "append").exit_code == 0
    assert pq.read_table(out).num_rows == 1_200
    assert run(*split, "--mode", "overwrite").exit_code == 0
    assert pq.read_table(out).num_rows == 600
    assert all(path.stat().st_size <= 10_000 for path in out.iterdir())


def test_a_file_that_appears_while_row_groups_are_copied_stays(folder: Path, out: Path) -> None:
    def another_appears(*_: object) -> None:
        (out / "both.parquet").write_bytes(b"of another")

    with mock.patch.object(Progress, "show", another_appears):
        message = refused(folder, out / "both.parquet", "--copy-row-groups")
    assert "already exists: pass --mode overwrite" in message
    assert (out / "both.parquet").read_bytes() == b"of another"


def test_a_copy_that_is_interrupted_at_its_end_does_not_say_that_nothing_came(
    folder: Path, out: Path
) -> None:
    def late(*arguments: Any, **keywords: Any) -> None:
        split(*arguments, **keywords)
        raise KeyboardInterrupt

    with mock.patch("spillway.shell.job.split", late):
        result = run(folder, out, "--copy-row-groups", "--max-file-row-groups", "4")
    assert result.exit_code == 130
    assert "is as it was, or complete: look there before you copy again" in " ".join(result.stderr.split())
    assert pq.read_table(out).num_rows == 600


def test_what_does_not_go_with_a_copy_is_refused(folder: Path, out: Path, tmp_path: Path) -> None:
    place = out / "a.parquet"
    for option in (
        ["--codec", "gzip"],
        ["--level", "3"],
        ["--bloom-filter", "id"],
        ["--partition-by", "id"],
        ["--to-delta"],
        ["--rewrite"],
        ["--row-group-rows", "10"],
        ["--verify", "pages"],
    ):
        assert "cannot be combined with" in refused(folder, place, "--copy-row-groups", *option)
    for option in (["--max-file-bytes", "1MB"], ["--max-file-row-groups", "1"]):
        assert "--copy-row-groups" in refused(folder, place, *option)
    assert "--max-file-bytes" in refused(folder, out, "--copy-row-groups", "--max-file-bytes", "much")
    assert "standard output" in refused(folder, "-", "--copy-row-groups", "--max-file-row-groups", "1")
    assert "is both an input and the output" in refused(
        folder, folder / "a.parquet", "--copy-row-groups", "--mode", "overwrite"
    )
    (tmp_path / "rows.csv").write_bytes(encoded("csv"))
    assert "is for Parquet files" in refused(tmp_path / "rows.csv", place, "--copy-row-groups")
    days = tmp_path / "days"
    (days / "day=1").mkdir(parents=True)
    pq.write_table(TABLE, days / "day=1" / "a.parquet")
    assert "values of day" in refused(days, place, "--copy-row-groups")
    pq.write_table(TABLE.select(["id"]), folder / "b.parquet")
    assert 'b.parquet: column "name" is missing' in refused(folder, place, "--copy-row-groups")
    assert names(out) == set()
