"""The archive for executors: complete, the same each time, and whole or absent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import spillway
from spillway.errors import MissingExtraError, OptionError
from spillway.spark import Packed, pack
from spillway.spark.workers import requirements

from .cluster import BASE_PYTHON

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(spillway.__file__).parents[1]

USE = """
import sys
sys.path.insert(0, sys.argv[1])
import pyarrow as pa, pyarrow.parquet as pq, spillway, spillway.delta
spillway.write_parquet(pa.table({"n": [1, 2]}), "a.parquet")
with spillway.delta.create("table", pa.schema({"n": pa.int64()})).append() as append:
    append.write(pa.table({"n": [3]}))
print(pq.read_table("a.parquet")["n"].to_pylist(), spillway.__version__)
files = {getattr(module, "__file__", None) or "" for module in list(sys.modules.values())}
print(*sorted(file for file in files if "site-packages" in file))
"""

PACK = """
import sys
from spillway.spark import pack
pack(sys.argv[1])
"""

PACK_ELSEWHERE = """
import sys
sys.path.insert(0, sys.argv[1])
from spillway.spark import pack
print(*pack(sys.argv[2], say=print).folders)
"""

PACK_WITHOUT = """
import sys
sys.path.insert(0, sys.argv[1])
from spillway.spark import pack
try:
    pack("spillway.tar.gz")
except ImportError as error:
    print(type(error).__name__, error)
"""


@pytest.fixture
def members(packed: Packed) -> Iterator[list[tarfile.TarInfo]]:
    with tarfile.open(packed.path) as archive:
        yield archive.getmembers()


@pytest.fixture(scope="module")
def site(packed: Packed, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive, unpacked."""
    folder = tmp_path_factory.mktemp("site")
    with tarfile.open(packed.path) as archive:
        archive.extractall(folder, filter="data")
    return folder


def isolated(folder: Path, program: str, *arguments: str | Path) -> str:
    """The output of a program in the base interpreter, which is lent no package and no variable."""
    done = subprocess.run(
        [BASE_PYTHON, "-I", "-S", "-c", program, *arguments],
        cwd=folder,
        env={},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_interpreter_with_nothing_else_writes_files_and_tables(site: Path, tmp_path: Path) -> None:
    written, elsewhere = isolated(tmp_path, USE, site).split("\n")[:2]
    assert written == f"[1, 2] {spillway.__version__}"
    assert elsewhere == ""


def test_the_archive_holds_modules_and_nothing_of_this_machine(
    packed: Packed, members: list[tarfile.TarInfo]
) -> None:
    names = [member.name for member in members]
    assert {"spillway/__init__.py", "spillway/_native.abi3.so", "pyarrow/__init__.py"} <= set(names)
    assert len(names) == packed.files == len(set(names))
    assert not [name for name in names if "__pycache__" in name or "/tests/" in name or ".." in name]
    assert names == sorted(names)
    assert {(member.uid, member.gid, member.uname, member.gname, member.mtime) for member in members} == {
        (0, 0, "", "", 0)
    }
    assert packed.bytes == packed.path.stat().st_size


def test_another_installation_of_the_same_packages_makes_the_same_bytes(
    packed: Packed, site: Path, tmp_path: Path
) -> None:
    archive = tmp_path / "again.tgz"
    told = isolated(tmp_path, PACK_ELSEWHERE, site, archive).splitlines()
    assert told[0].startswith(f"packing {packed.files} files into {archive}")
    assert told[1].startswith(f"packed {packed.bytes / 1e6:.0f} MB")
    assert told[2] == str(site)
    assert archive.read_bytes() == packed.path.read_bytes()
    assert archive.stat().st_mode & 0o777 == 0o644


def test_settings_name_the_archive_and_the_folder_that_it_becomes(packed: Packed) -> None:
    url, _, folder = packed.settings["spark.archives"].partition("#")
    assert url == packed.path.as_uri()
    assert "," not in url
    assert packed.settings["spark.executorEnv.PYTHONPATH"] == f"./{folder}"


def test_the_path_of_the_driver_is_absolute_and_goes_on_with_its_own(
    packed: Packed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    folders = packed.environment["PYTHONPATH"].split(os.pathsep)
    assert str(PACKAGE) in folders
    assert all(Path(folder).is_absolute() for folder in folders)
    assert any((Path(folder) / "pyarrow").is_dir() for folder in folders)
    monkeypatch.setenv("PYTHONPATH", "/mine")
    assert packed.environment["PYTHONPATH"].split(os.pathsep) == [*folders, "/mine"]


def test_a_missing_folder_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"absent is not a folder: create it"):
        pack(tmp_path / "absent" / "spillway.tar.gz")


@pytest.mark.parametrize("name", ["spillway.zip", "spillway", "tar.gz.part"])
def test_a_name_that_spark_would_not_unpack_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(OptionError, match=r"does not end in \.tar\.gz or \.tgz"):
        pack(tmp_path / name)


def test_without_pyarrow_the_extra_is_named(tmp_path: Path) -> None:
    told = isolated(tmp_path, PACK_WITHOUT, PACKAGE)
    assert told.startswith("MissingExtraError pyarrow is needed to write from Spark's executors")
    assert "pip install 'spillway[spark]'" in told
    assert not list(tmp_path.iterdir())


def test_another_package_that_is_not_installed_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingExtraError, match="no-such-package is needed to write from Spark's executors"):
        pack(tmp_path / "spillway.tar.gz", also=["numpy", "no-such-package"])
    assert not list(tmp_path.iterdir())


def test_an_interrupt_leaves_what_was_there_and_no_part(tmp_path: Path) -> None:
    archive = tmp_path / "spillway.tar.gz"
    archive.write_text("the one before")
    with subprocess.Popen(
        [sys.executable, "-c", PACK, archive], stderr=subprocess.PIPE, text=True
    ) as program:
        deadline = time.monotonic() + 60
        while not any(part.stat().st_size for part in tmp_path.glob(".spillway.tar.gz.*")):
            assert program.poll() is None, "it was done before it could be interrupted"
            assert time.monotonic() < deadline, "nothing was written"
            time.sleep(0.01)
        program.send_signal(signal.SIGINT)
        _, said = program.communicate(timeout=60)
    assert "KeyboardInterrupt" in said
    assert [path.name for path in tmp_path.iterdir()] == [archive.name]
    assert archive.read_text() == "the one before"


def test_what_packages_need_is_followed_to_its_end_without_extras() -> None:
    found = requirements(["arro3-io", "polars", "duckdb"])
    assert {"arro3-io", "arro3-core", "polars", "duckdb"} <= set(found)
    assert any(name.startswith("polars-runtime") for name in found)
    assert not {"pandas", "numpy", "pyarrow"} & set(found)  # of extras alone
    assert len(found) == len(set(found))


def test_a_package_that_is_not_installed_is_named() -> None:
    with pytest.raises(MissingExtraError, match="nowhere is needed to send it to executors"):
        requirements(["nowhere"])
