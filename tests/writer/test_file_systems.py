"""Files on file systems of pyarrow and fsspec: they appear when they are complete, or not at all."""

from __future__ import annotations

import gc
import io
import os
import zipfile
from typing import TYPE_CHECKING, Any, ClassVar

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem
from fsspec.spec import AbstractBufferedFile, AbstractFileSystem

import spillway
from spillway.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class HeldFile(AbstractBufferedFile):
    """As the files of object stores are: parts go out, and only `commit` makes them an object."""

    fs: HeldBack

    def _initiate_upload(self) -> None:
        self.parts = bytearray()

    def _upload_chunk(self, final: bool = False) -> bool:  # noqa: FBT001, FBT002 - fsspec's signature
        self.parts += self.buffer.getvalue()
        if self.autocommit and final:
            self.commit()
        return True

    def commit(self) -> None:
        self.fs.objects[self.path] = bytes(self.parts)

    def discard(self) -> None:
        self.fs.discarded.append(self.path)


class HeldBack(AbstractFileSystem):
    cachable = False

    def rm_file(self, path: str) -> None:
        del self.objects[path]

    def __init__(self) -> None:
        super().__init__()
        self.objects: dict[str, bytes] = {}
        self.discarded: list[str] = []

    def _open(self, path: str, mode: str = "rb", **options: Any) -> HeldFile:
        options.pop("block_size", None)
        return HeldFile(self, path, mode, block_size=2**16, **options)


class Kind:
    """A file system, a path on it, and how a test looks at it."""

    def __init__(self, filesystem: Any, path: str) -> None:
        self.filesystem = filesystem
        self.path = path

    def entries(self) -> list[str]:
        folder = self.path.rpartition("/")[0]
        if isinstance(self.filesystem, HeldBack):
            return sorted(self.filesystem.objects)
        if isinstance(self.filesystem, pyarrow.fs.FileSystem):
            found = self.filesystem.get_file_info(pyarrow.fs.FileSelector(folder))
            return sorted(entry.base_name for entry in found)
        return sorted(path.rpartition("/")[2] for path in self.filesystem.ls(folder, detail=False))

    def read(self) -> bytes:
        if isinstance(self.filesystem, HeldBack):
            return self.filesystem.objects[self.path]
        if isinstance(self.filesystem, pyarrow.fs.FileSystem):
            with self.filesystem.open_input_stream(self.path) as file:
                return bytes(file.read())
        return bytes(self.filesystem.cat_file(self.path))

    def put(self, content: bytes) -> None:
        if isinstance(self.filesystem, HeldBack):
            self.filesystem.objects[self.path] = content
        elif isinstance(self.filesystem, pyarrow.fs.FileSystem):
            with self.filesystem.open_output_stream(self.path) as file:
                file.write(content)
        else:
            self.filesystem.pipe_file(self.path, content)


@pytest.fixture(
    params=["arrow local", "arrow subtree", "fsspec local", "fsspec memory", "fsspec dir", "fsspec held"]
)
def kind(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kind]:
    folder = tmp_path / "there"
    folder.mkdir()
    local = pyarrow.fs.LocalFileSystem()
    memory = MemoryFileSystem()
    memory.store.clear()
    memory.makedirs("/there", exist_ok=True)
    yield {
        "arrow local": Kind(local, f"{folder}/data.parquet"),
        "arrow subtree": Kind(pyarrow.fs.SubTreeFileSystem(str(tmp_path), local), "there/data.parquet"),
        "fsspec local": Kind(LocalFileSystem(), f"{folder}/data.parquet"),
        "fsspec memory": Kind(memory, "/there/data.parquet"),
        "fsspec dir": Kind(DirFileSystem(str(tmp_path), LocalFileSystem()), "there/data.parquet"),
        "fsspec held": Kind(HeldBack(), "data.parquet"),
    }[request.param]
    memory.store.clear()


def expected(table: pa.Table) -> bytes:
    file = io.BytesIO()
    spillway.write_parquet(table, file)
    return file.getvalue()


def test_the_file_is_the_same_and_alone(kind: Kind, table: pa.Table) -> None:
    result = spillway.write_parquet(table, kind.path, filesystem=kind.filesystem)
    assert kind.read() == expected(table)
    assert kind.entries() == ["data.parquet"]
    assert result.bytes == len(expected(table))


def test_it_appears_only_when_it_is_complete(kind: Kind, table: pa.Table) -> None:
    kind.put(b"old")
    with spillway.ParquetWriter(kind.path, filesystem=kind.filesystem, row_group_rows=500) as writer:
        writer.write(table)
        assert kind.read() == b"old"
        hidden = [name for name in kind.entries() if name != "data.parquet"]
        assert all(name.startswith(".") and not name.endswith(".parquet") for name in hidden)
    assert pq.read_table(pa.BufferReader(kind.read())).equals(table)
    assert kind.entries() == ["data.parquet"]


@pytest.mark.parametrize("how", ["exception", "abort", "forgotten"])
def test_a_writer_that_gives_up_leaves_what_was_there(kind: Kind, table: pa.Table, how: str) -> None:
    def fail() -> None:
        with spillway.ParquetWriter(kind.path, filesystem=kind.filesystem, row_group_rows=500) as writer:
            writer.write(table)
            raise RuntimeError("enough")

    kind.put(b"old")
    if how == "exception":
        with pytest.raises(RuntimeError, match="enough"):
            fail()
    else:
        writer = spillway.ParquetWriter(kind.path, filesystem=kind.filesystem, row_group_rows=500)
        writer.write(table)
        if how == "abort":
            writer.abort()
        del writer
    gc.collect()
    assert kind.read() == b"old"
    assert kind.entries() == ["data.parquet"]


def test_a_file_that_is_held_back_belongs_to_no_transaction_of_others(table: pa.Table) -> None:
    store = HeldBack()
    writer = spillway.ParquetWriter("data.parquet", filesystem=store, row_group_rows=500)
    writer.write(table)
    with store.transaction:
        pass
    assert store.objects == {}
    writer.close()
    assert store.objects == {"data.parquet": store.objects["data.parquet"]}
    assert store.discarded[0].startswith("."), "only the sibling that served as a question is discarded"
    assert len(store.discarded) == 1


def test_an_error_of_the_file_system_comes_through_and_nothing_appears(table: pa.Table) -> None:
    class Full(MemoryFileSystem):
        store: ClassVar[dict[str, Any]] = {}
        pseudo_dirs: ClassVar[list[str]] = [""]

        def cp_file(self, path1: str, path2: str, **_: Any) -> None:
            message = f"no room for {path1} at {path2}"
            raise OSError(28, message)

    full = Full()
    writer = spillway.ParquetWriter("/data.parquet", filesystem=full)
    writer.write(table)
    with pytest.raises(OSError, match="no room"):
        writer.close()
    assert full.ls("/", detail=False) == []
    with pytest.raises(spillway.ClosedError):
        _ = writer.result
    with pytest.raises(spillway.ClosedError, match="no room"):
        writer.close()


class Immovable(MemoryFileSystem):
    """Files are removed, and neither moved nor copied."""

    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    mv = AbstractFileSystem.mv
    cp_file = AbstractFileSystem.cp_file


class Immutable(Immovable):
    """An entry that was made stays, as in an archive."""

    store: ClassVar[dict[str, Any]] = {}
    rm_file = AbstractFileSystem.rm_file
    _rm = AbstractFileSystem._rm
    rm = AbstractFileSystem.rm


class Coarse(MemoryFileSystem):
    """Files are moved, and removed by `rm` alone, as on Databricks and Dask."""

    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    rm_file = AbstractFileSystem.rm_file
    _rm = AbstractFileSystem._rm

    def rm(self, path: str, *_: Any, **__: Any) -> None:
        del self.store[self._strip_protocol(path)]

    def mv(self, path1: str, path2: str, *_: Any, **__: Any) -> None:
        self.store[self._strip_protocol(path2)] = self.store.pop(self._strip_protocol(path1))


@pytest.mark.parametrize("how", ["close", "abort"])
def test_a_file_system_that_removes_by_rm_alone_is_written_to(table: pa.Table, how: str) -> None:
    coarse = Coarse()
    writer = spillway.ParquetWriter("/in.parquet", filesystem=coarse)
    writer.write(table)
    getattr(writer, how)()
    assert coarse.find("/") == (["/in.parquet"] if how == "close" else [])
    coarse.store.clear()


@pytest.mark.parametrize("form", ["zip", "dirfs(zip)", "without moves", "without removal"])
def test_a_file_system_that_cannot_move_files_is_refused_with_what_to_do(
    tmp_path: Path, table: pa.Table, form: str
) -> None:
    archive = tmp_path / "a.zip"
    archived = fsspec.filesystem("zip", fo=str(archive), mode="w")
    filesystem: Any = {
        "zip": lambda: archived,
        "dirfs(zip)": lambda: DirFileSystem("sub", archived),
        "without moves": Immovable,
        "without removal": Immutable,
    }[form]()
    with pytest.raises(spillway.OptionError, match=r'filesystem\.open\("/?in\.parquet", "wb"\)'):
        spillway.write_parquet(table, "in.parquet", filesystem=filesystem)
    with filesystem.open("in.parquet", "wb") as file:
        spillway.write_parquet(table, file)
    archived.close()
    if "zip" in form:
        name = "in.parquet" if form == "zip" else "sub/in.parquet"
        with zipfile.ZipFile(archive) as made:
            assert made.namelist() == [name]
            assert made.read(name) == expected(table)
    else:
        assert filesystem.find("/") == ["/in.parquet"]
        assert filesystem.cat_file("/in.parquet") == expected(table)
        filesystem.store.clear()


@pytest.mark.parametrize("nested", [False, True])
def test_a_path_that_leads_out_of_fsspecs_folder_is_refused(
    tmp_path: Path, table: pa.Table, *, nested: bool
) -> None:
    folder = tmp_path / "tenant" / "inner"
    folder.mkdir(parents=True)
    filesystem: Any = DirFileSystem(str(folder.parent if nested else folder), LocalFileSystem())
    if nested:
        filesystem = DirFileSystem("inner", filesystem)
    out = "../../a.parquet" if nested else "../a.parquet"
    with pytest.raises(ValueError, match="escapes"):
        filesystem.open(out, "wb")
    with pytest.raises(ValueError, match="escapes"):
        spillway.write_parquet(table, out, filesystem=filesystem)
    assert list(tmp_path.rglob("*.parquet")) == []


def test_a_view_of_the_whole_file_system_takes_paths_as_they_are(
    tmp_path: Path, table: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    filesystem = pyarrow.fs.SubTreeFileSystem("", pyarrow.fs.LocalFileSystem())
    spillway.write_parquet(table, "a.parquet", filesystem=filesystem)
    assert (tmp_path / "a.parquet").read_bytes() == expected(table)


def test_a_local_file_system_makes_folders_where_it_is_told_to(tmp_path: Path, table: pa.Table) -> None:
    path = tmp_path / "new" / "a.parquet"
    spillway.write_parquet(table, f"file://{path}", filesystem=LocalFileSystem(auto_mkdir=True))
    assert path.read_bytes() == expected(table)


def test_a_missing_folder_is_the_file_systems_own_error(tmp_path: Path) -> None:
    for filesystem in (pyarrow.fs.LocalFileSystem(), LocalFileSystem()):
        with pytest.raises(FileNotFoundError, match="missing"):
            spillway.ParquetWriter(str(tmp_path / "missing" / "a.parquet"), filesystem=filesystem)
    assert list(tmp_path.iterdir()) == []


def test_a_name_with_brackets_is_no_pattern(table: pa.Table) -> None:
    memory = fsspec.filesystem("memory")
    memory.store.clear()
    spillway.write_parquet(table, "/a[1]*?.parquet", filesystem=memory)
    assert list(memory.store) == ["/a[1]*?.parquet"]
    memory.store.clear()


class MovesInto(LocalFileSystem):
    """A local file system that the writer does not know as one: `mv` onto a folder moves into it."""


@pytest.mark.parametrize(
    "filesystem",
    [
        MovesInto(),
        MemoryFileSystem(),
        pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(LocalFileSystem())),
        pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(MemoryFileSystem())),
        pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(MovesInto())),
        pyarrow.fs._MockFileSystem(),
    ],
)
def test_a_folder_is_no_destination(tmp_path: Path, table: pa.Table, filesystem: Any) -> None:
    folder = str(tmp_path / "visits")
    if isinstance(filesystem, pyarrow.fs.FileSystem):
        filesystem.create_dir(folder)
    else:
        filesystem.makedirs(folder)
    with pytest.raises(IsADirectoryError, match="visits"):
        spillway.write_parquet(table, folder, filesystem=filesystem)
    if isinstance(filesystem, pyarrow.fs.FileSystem):
        assert not filesystem.get_file_info(pyarrow.fs.FileSelector(str(tmp_path), recursive=True))[1:]
    else:
        assert filesystem.find(str(tmp_path)) == []


def test_a_file_system_in_a_transaction_is_refused(table: pa.Table) -> None:
    memory = MemoryFileSystem()
    with memory.transaction, pytest.raises(OptionError, match="transaction"):
        spillway.write_parquet(table, "/in-transaction.parquet", filesystem=memory)
    assert not memory.exists("/in-transaction.parquet")


def test_a_name_of_many_bytes_has_a_hidden_one_that_is_no_longer(tmp_path: Path, table: pa.Table) -> None:
    path = str(tmp_path / f"{'訪' * 80}.parquet")
    spillway.write_parquet(table, path, filesystem=MovesInto())
    assert pq.read_table(path).num_rows == table.num_rows


def test_what_contradicts_itself_is_refused(tmp_path: Path) -> None:
    local = pyarrow.fs.LocalFileSystem()
    with pytest.raises(spillway.OptionError, match="is a file object"):
        spillway.ParquetWriter(io.BytesIO(), filesystem=local)
    with pytest.raises(spillway.OptionError, match="when you create it"):
        spillway.ParquetWriter(str(tmp_path / "a"), filesystem=local, storage_options={})
    with pytest.raises(spillway.OptionError, match="names no file"):
        spillway.ParquetWriter(f"{tmp_path}/", filesystem=local)
    with pytest.raises(TypeError, match=r"pyarrow\.fs or fsspec, not str"):
        spillway.ParquetWriter("a", filesystem="s3")  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_a_users_own_commit_is_not_called(table: pa.Table) -> None:
    """A file object is written and left alone, whatever methods it has."""

    class Own(io.BytesIO):
        def commit(self) -> None:
            raise AssertionError("this is the user's")

        discard = commit

    file = Own()
    spillway.write_parquet(table, file)
    assert file.getvalue() == expected(table)
    spillway.ParquetWriter(file, table.schema).abort()


def test_a_file_that_does_not_block_and_takes_nothing_is_an_error() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    rows = pa.table({"a": np.random.default_rng(1).integers(0, 2**60, 50_000)})
    with (
        io.FileIO(reading),
        io.FileIO(writing, "wb") as raw,
        pytest.raises(OSError, match="takes no more bytes now"),
    ):
        spillway.write_parquet(rows, raw, compression="uncompressed")


def test_a_writer_that_is_dropped_beside_an_exception_keeps_it_and_leaves_nothing() -> None:
    """An object may be dropped while an exception is on its way, which calls of Python would lose."""
    system = MemoryFileSystem()
    schema = pa.schema({"id": pa.int64()})
    budget = spillway.MemoryBudget("8MB", writers=2)
    with pytest.raises(ZeroDivisionError):
        [spillway.ParquetWriter("/dropped/a.parquet", schema, filesystem=system), 1 / 0]
    with pytest.raises(OptionError, match="2 files at a time"):
        [
            spillway.ParquetWriter(f"/dropped/{n}.parquet", schema, filesystem=system, memory_limit=budget)
            for n in range(3)
        ]
    assert budget.open_writers == 0
    assert not system.exists("/dropped") or system.ls("/dropped") == []
