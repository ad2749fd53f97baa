"""Damaged, forbidden and obstructing files are named in the error, and nothing is written."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import spillway.delta
from spillway.errors import (
    ConstraintError,
    CorruptLogError,
    OptionError,
    SchemaError,
    TableNotFoundError,
    UnsupportedTableError,
    VersionNotFoundError,
)

from .conftest import read_deltalake

if TYPE_CHECKING:
    from pathlib import Path

DATA = pa.table({"id": [1, 2]})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A table of three versions."""
    folder = tmp_path / "table"
    spillway.delta.write(folder, DATA)
    spillway.delta.write(folder, DATA, mode="append")
    return folder


def version_file(folder: Path, version: int) -> Path:
    return folder / "_delta_log" / f"{version:020}.json"


def listing(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_gap_in_the_log_is_named(folder: Path) -> None:
    version_file(folder, 1).unlink()
    before = listing(folder)
    with pytest.raises(CorruptLogError, match=r"00000000000000000001\.json.*gap"):
        spillway.delta.write(folder, DATA, mode="append")
    assert listing(folder) == before


@pytest.mark.parametrize("text", ["{", "[]\n", '{"add": {"path": 1}}\n', '{"metaData": {}}\n', "\xff\xfe"])
def test_a_damaged_version_is_named(folder: Path, text: str) -> None:
    version_file(folder, 1).write_bytes(text.encode("latin-1"))
    before = listing(folder)
    with pytest.raises(CorruptLogError, match=r"00000000000000000001\.json"):
        spillway.delta.write(folder, DATA, mode="append")
    assert listing(folder) == before


def test_a_damaged_checkpoint_is_named(folder: Path) -> None:
    spillway.delta.open(folder).checkpoint()
    checkpoint = next((folder / "_delta_log").glob("*.checkpoint.parquet"))
    checkpoint.write_bytes(b"PAR1 and no more")
    version_file(folder, 0).unlink()
    with pytest.raises(CorruptLogError, match="checkpoint"):
        spillway.delta.open(folder)


@pytest.mark.parametrize(
    ("protocol", "match"),
    [
        (
            {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["x"], "writerFeatures": ["x"]},
            "x",
        ),
        ({"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["identityColumns"]}, "identity"),
        (
            {
                "minReaderVersion": 1,
                "minWriterVersion": 7,
                "writerFeatures": ["rowTracking"],
            },
            "rowTracking without domainMetadata",
        ),
        ({"minReaderVersion": 2, "minWriterVersion": 6}, "writer version 6"),
        ({"minReaderVersion": 1, "minWriterVersion": 6}, "writer version 6"),
    ],
)
def test_features_that_are_not_built_are_named(folder: Path, protocol: object, match: str) -> None:
    version_file(folder, 3).write_text(json.dumps({"protocol": protocol}) + "\n")
    before = listing(folder)
    with pytest.raises(UnsupportedTableError, match=match):
        spillway.delta.write(folder, DATA, mode="append")
    assert listing(folder) == before


def test_constraints_are_not_broken(folder: Path) -> None:
    body = version_file(folder, 0).read_text()
    version_file(folder, 0).write_text(
        body.replace('"configuration":{}', '"configuration":{"delta.constraints.c":"ID > 5"}')
    )
    before = listing(folder)
    with pytest.raises(ConstraintError, match=r"the constraint c CHECK \(ID > 5\)"):
        spillway.delta.write(folder, DATA, mode="append")
    assert listing(folder) == before


def test_a_foreign_file_at_the_next_version_is_not_overwritten(folder: Path) -> None:
    table = spillway.delta.open(folder)
    append = table.append()
    append.write(DATA)
    version_file(folder, 3).write_text("not a commit\n")
    before = [path for path in listing(folder) if not path.endswith(".parquet")]
    with pytest.raises(CorruptLogError):
        append.commit()
    assert [path for path in listing(folder) if not path.endswith(".parquet")] == before
    assert version_file(folder, 3).read_text() == "not a commit\n"


def test_a_foreign_commit_at_the_next_version_is_gone_past(folder: Path) -> None:
    table = spillway.delta.open(folder)
    append = table.append()
    append.write(DATA)
    version_file(folder, 3).write_text('{"commitInfo":{"operation":"OPTIMIZE"}}\n')
    assert append.commit() == 4


READ_ONLY = """
import os, sys
import pyarrow as pa
import spillway.delta, spillway.errors
rows = pa.table({"id": [1]})
if os.geteuid() == 0:
    os.setgid(65534); os.setuid(65534)
try:
    spillway.delta.write(sys.argv[1], rows, mode="append")
except PermissionError as error:
    assert sys.argv[1] in str(error), error
    print("refused")
"""


def test_a_read_only_folder_is_named(open_to_all: Path) -> None:
    folder = open_to_all / "table"
    spillway.delta.write(folder, DATA, mode="append")
    for path in [*folder.rglob("*"), folder]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = listing(folder)
    done = subprocess.run(
        [sys.executable, "-c", READ_ONLY, str(folder)], capture_output=True, text=True, check=False
    )
    assert done.stdout == "refused\n", done.stderr
    assert listing(folder) == before


def test_a_version_that_is_not_there_is_named(folder: Path) -> None:
    with pytest.raises(VersionNotFoundError, match="no version 9"):
        spillway.delta.open(folder).files(9)
    with pytest.raises(VersionNotFoundError):
        spillway.delta.open(folder).files(-1)


def test_a_folder_without_a_log_is_no_table(tmp_path: Path) -> None:
    (tmp_path / "t" / "_delta_log").mkdir(parents=True)
    for path in (tmp_path / "t", tmp_path / "missing"):
        with pytest.raises(TableNotFoundError, match="not a Delta table"):
            spillway.delta.open(path)


def test_a_table_that_was_replaced_is_another_table(folder: Path, tmp_path: Path) -> None:
    table = spillway.delta.open(folder)
    append = table.append()
    append.write(DATA)
    folder.rename(tmp_path / "old")
    spillway.delta.write(folder, pa.table({"name": ["x"]}), mode="append")
    with pytest.raises(TableNotFoundError, match="open it again"):
        append.commit()
    for ask in (lambda: table.version, table.files, table.append, table.truncate, table.checkpoint):
        with pytest.raises(TableNotFoundError, match="open it again"):
            ask()
    again = spillway.delta.open(folder)
    assert (again.version, again.schema.names) == (1, ["name"])
    assert read_deltalake(folder)["name"].to_pylist() == ["x"]


@pytest.mark.parametrize("inside", [False, True], ids=["the folder", "what is in it"])
def test_a_table_that_was_made_anew_is_another_table(folder: Path, *, inside: bool) -> None:
    table = spillway.delta.open(folder)
    if inside:
        for file in (folder / "_delta_log").iterdir():
            file.unlink()
    else:
        shutil.rmtree(folder)
    spillway.delta.create(folder, DATA.schema)
    with pytest.raises(TableNotFoundError, match="open it again"):
        assert table.files()
    assert spillway.delta.open(folder).version == 0


def test_a_table_that_was_moved_back_is_the_same_table(folder: Path, tmp_path: Path) -> None:
    table = spillway.delta.open(folder)
    shutil.copytree(folder, tmp_path / "copy")
    folder.rename(tmp_path / "old")
    with pytest.raises(TableNotFoundError):
        table.files()
    (tmp_path / "copy").rename(folder)
    with table.append() as append:
        append.write(DATA)
    assert append.version == 3


def test_a_missing_data_file_fails_its_own_commit(folder: Path) -> None:
    table = spillway.delta.open(folder)
    with pytest.raises(FileNotFoundError, match=r"missing\.parquet"):
        table.commit(adds=[spillway.delta.AddFile(path="missing.parquet", size=1)])
    with pytest.raises((OptionError, CorruptLogError), match="inside the table"):
        table.commit(adds=[spillway.delta.AddFile(path="../outside.parquet", size=1)])
    assert table.version == 2


def test_a_null_where_none_may_be_is_refused(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("x", pa.int64())])
    table = spillway.delta.create(tmp_path / "t", schema)
    with pytest.raises(SchemaError), table.append() as append:
        append.write(pa.table({"id": pa.array([None], pa.int64()), "x": [1]}))
    with pytest.raises(SchemaError, match=r"no column .id."), table.append() as append:
        append.write(pa.table({"x": [1]}))
    assert table.version == 0
