"""Destinations of files: paths of every sort, pipes, devices, file objects that misbehave, and several
writers at once.
"""

from __future__ import annotations

import gc
import io
import os
import stat
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import spillway

from .programs import run

if TYPE_CHECKING:
    from collections.abc import Callable

    from .conftest import OldFile

TABLE = pa.table({"n": range(1000)})


def expected() -> bytes:
    out = io.BytesIO()
    spillway.write_parquet(TABLE, out)
    return out.getvalue()


def test_a_missing_folder_is_found_out_before_any_row(tmp_path: Path) -> None:
    path = tmp_path / "not there" / "data.parquet"
    with pytest.raises(FileNotFoundError, match="not there") as caught:
        spillway.ParquetWriter(path)
    assert caught.value.errno is not None
    assert not path.parent.exists()


def test_a_folder_is_no_destination(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match=tmp_path.name):
        spillway.ParquetWriter(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_no_folder(place: OldFile) -> None:
    with pytest.raises(NotADirectoryError, match="below"):
        spillway.ParquetWriter(place.path / "below")
    assert place.is_untouched()


@pytest.mark.parametrize("bad", ["", "nul\x00byte"], ids=repr)
def test_paths_that_are_none_are_errors(bad: str) -> None:
    with pytest.raises((OSError, ValueError)):
        spillway.ParquetWriter(bad)


NAMES = [
    "żółć and spaces 🦀.parquet",
    "new\nline.parquet",
    "-rf.parquet",
    "%41$HOME'\".parquet",
    "x" * 247 + ".parquet",
    "ż" * 127 + "x",
    ".hidden",
    os.fsdecode(b"not \xff utf-8.parquet"),
]


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_any_name_that_the_file_system_takes_is_taken(tmp_path: Path, name: str) -> None:
    assert len(os.fsencode(name)) <= 255
    spillway.write_parquet(TABLE, tmp_path / name)
    assert os.listdir(tmp_path) == [name]  # noqa: PTH208 - names as the system has them
    assert (tmp_path / name).read_bytes() == expected()


def test_a_name_that_is_too_long_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="x" * 20):
        spillway.ParquetWriter(tmp_path / ("x" * 256))


def test_relative_paths_belong_to_the_folder_of_their_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    monkeypatch.chdir(tmp_path / "a")
    with spillway.ParquetWriter("data.parquet") as writer:
        writer.write(TABLE)
        monkeypatch.chdir(tmp_path / "b")
    assert pq.read_table(tmp_path / "a" / "data.parquet").equals(TABLE)
    assert list((tmp_path / "b").iterdir()) == []


def test_a_symbolic_link_stays_a_link(place: OldFile, tmp_path: Path) -> None:
    link = tmp_path / "link.parquet"
    link.symlink_to(place.path)
    spillway.write_parquet(TABLE, link)
    assert link.is_symlink()
    assert pq.read_table(place.path).equals(TABLE)
    assert place.names() == [place.path.name]


def test_a_dangling_link_gets_its_target(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link.parquet").symlink_to(Path("there") / "new.parquet")
    spillway.write_parquet(TABLE, tmp_path / "link.parquet")
    assert (tmp_path / "link.parquet").is_symlink()
    assert [entry.name for entry in (tmp_path / "there").iterdir()] == ["new.parquet"]
    assert pq.read_table(tmp_path / "there" / "new.parquet").equals(TABLE)


def test_a_link_to_nowhere_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "link.parquet").symlink_to(tmp_path / "missing" / "new.parquet")
    with pytest.raises(FileNotFoundError, match=r"link|missing"):
        spillway.write_parquet(TABLE, tmp_path / "link.parquet")


def test_links_in_a_circle_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="a"):
        spillway.write_parquet(TABLE, tmp_path / "a")


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_the_mode_follows_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        spillway.write_parquet(TABLE, tmp_path / "a.parquet")
    finally:
        os.umask(before)
    assert (tmp_path / "a.parquet").stat().st_mode & 0o777 == 0o666 & ~umask


#: Ways to name a file of this machine: the file system, and the path on it.
LOCAL: dict[str, Callable[[Path], tuple[Any, str]]] = {
    "path": lambda path: (None, str(path)),
    "URL": lambda path: (None, f"file://{path}"),
    "arrow": lambda path: (pyarrow.fs.LocalFileSystem(), str(path)),
    "arrow below": lambda path: (
        pyarrow.fs.SubTreeFileSystem(str(path.parent), pyarrow.fs.LocalFileSystem()),
        path.name,
    ),
    "fsspec": lambda path: (LocalFileSystem(), str(path)),
    "fsspec below": lambda path: (DirFileSystem(str(path.parent), LocalFileSystem()), path.name),
}


@pytest.mark.parametrize("way", LOCAL)
@given(mode=st.integers(0, 0o777), umask=st.sampled_from([0o022, 0o077, 0o002]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(mode=0o600, umask=0o022)
def test_a_file_that_is_replaced_keeps_its_mode_and_nobody_else_reads_its_successor(
    tmp_path: Path, way: str, mode: int, umask: int
) -> None:
    path = tmp_path / "a.parquet"
    path.unlink(missing_ok=True)
    path.touch()
    path.chmod(mode)
    filesystem, name = LOCAL[way](path)
    before = os.umask(umask)
    try:
        with spillway.ParquetWriter(name, TABLE.schema, filesystem=filesystem) as writer:
            (sibling,) = (entry for entry in tmp_path.iterdir() if entry != path)
            assert stat.S_IMODE(sibling.stat().st_mode) & ~mode == 0
            writer.write(TABLE)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("way", LOCAL)
def test_a_file_that_is_replaced_keeps_its_owner_and_group(tmp_path: Path, way: str) -> None:
    path = tmp_path / "a.parquet"
    path.touch()
    # Only root may give files away; others have one of their own groups.
    owner, group = (12_345, 23_456) if os.geteuid() == 0 else (os.geteuid(), os.getgroups()[-1])
    os.chown(path, owner, group)
    path.chmod(0o640)
    filesystem, name = LOCAL[way](path)
    spillway.write_parquet(TABLE, name, filesystem=filesystem)
    found = path.stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (owner, group, 0o640)


@pytest.mark.parametrize("folder_mode", [0o755, 0o777, 0o1755, 0o1777])
@pytest.mark.parametrize("owner", ["own", "folder's", "other"])
def test_a_link_that_somebody_else_put_into_a_folder_for_all_is_not_followed(
    tmp_path: Path, place: OldFile, folder_mode: int, owner: str
) -> None:
    """Whoever writes /tmp/a.parquet means a file there, and not one that another user chose."""
    folder = tmp_path / "for all"
    folder.mkdir()
    link = folder / "a.parquet"
    link.symlink_to(place.path)
    own, folders, other = os.geteuid(), 12_345, 23_456
    is_root = own == 0
    if is_root:
        os.chown(folder, folders, -1)
        os.chown(link, {"own": own, "folder's": folders, "other": other}[owner], -1, follow_symlinks=False)
    folder.chmod(folder_mode)
    if is_root and owner == "other" and folder_mode == 0o1777:
        with pytest.raises(PermissionError, match=r"a\.parquet"):
            spillway.write_parquet(TABLE, link)
        assert place.is_untouched()
    else:
        spillway.write_parquet(TABLE, link)
        assert pq.read_table(place.path).equals(TABLE)


def test_a_pipe_gets_the_whole_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    spillway.write_parquet(TABLE, tmp_path / "pipe")
    reader.join(timeout=120)
    assert received == [expected()]
    assert [entry.name for entry in tmp_path.iterdir()] == ["pipe"]


@pytest.mark.parametrize("kind", ["unlinked", "memory"])
def test_a_file_without_a_path_is_written_by_its_descriptor(tmp_path: Path, kind: str) -> None:
    with tempfile.TemporaryFile(dir=tmp_path) as unlinked, os.fdopen(os.memfd_create("m"), "wb") as memory:
        file: Any = unlinked if kind == "unlinked" else memory
        file.write(b"x" * 100_000)  # what is there gives way
        file.flush()
        spillway.write_parquet(TABLE, f"/dev/fd/{file.fileno()}")
        assert os.pread(file.fileno(), 1 << 20, 0) == expected()
    assert not list(tmp_path.iterdir())


def test_a_pipe_is_written_by_its_descriptor() -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as pipe, ThreadPoolExecutor(1) as threads:
        received = threads.submit(pipe.read)
        spillway.write_parquet(TABLE, f"/dev/fd/{writing}")
        os.close(writing)
        assert received.result(timeout=120) == expected()


def test_a_pipe_whose_reader_leaves_is_an_error(tmp_path: Path) -> None:
    found = run(
        """
        import os, json, sys, threading
        import numpy as np, pyarrow as pa, spillway
        os.mkfifo(sys.argv[1])
        threading.Thread(target=lambda: os.close(os.open(sys.argv[1], os.O_RDONLY))).start()
        try:
            table = pa.table({"n": np.random.default_rng(0).integers(0, 2**62, 500_000)})
            spillway.write_parquet(table, sys.argv[1], compression="uncompressed", row_group_rows=10_000)
            answer = None
        except BrokenPipeError as error:
            answer = str(error)
        print(json.dumps(answer))
        """,
        tmp_path / "pipe",
    )
    assert found is not None
    assert "pipe" in found


def test_the_last_of_two_writers_on_one_path_wins_and_both_are_whole(place: OldFile) -> None:
    first = spillway.ParquetWriter(place.path, row_group_rows=10)
    second = spillway.ParquetWriter(place.path, row_group_rows=10)
    for writer, start in ((first, 0), (second, 5000)):
        for _ in range(3):
            writer.write(pa.table({"n": range(start, start + 25)}))
    assert place.path.read_bytes() == place.before
    second.close()
    assert pq.read_table(place.path).column("n").to_pylist() == [*range(5000, 5025)] * 3
    first.close()
    assert pq.read_table(place.path).column("n").to_pylist() == [*range(25)] * 3
    assert place.names() == [place.path.name]


def test_a_file_may_be_rewritten_from_itself(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    spillway.write_parquet(TABLE, path)
    file = pq.ParquetFile(path, memory_map=True)
    spillway.write_parquet(pa.RecordBatchReader.from_batches(TABLE.schema, file.iter_batches(7)), path)
    assert pq.read_table(path).equals(TABLE)


def test_readers_of_the_old_file_keep_it(place: OldFile) -> None:
    with place.path.open("rb") as reader:
        spillway.write_parquet(TABLE, place.path)
        assert reader.read() == place.before


class OwnError(Exception):
    pass


class Misbehaving:
    """A file object whose `write` answers as it is told, from the given call on."""

    def __init__(self, answer: Callable[[bytes], Any], after: int = 0) -> None:
        self.taken = io.BytesIO()
        self._answer = answer
        self._after = after

    def write(self, data: bytes) -> Any:
        self._after -= 1
        return self.taken.write(data) if self._after >= 0 else self._answer(bytes(data))


def _raise(_: bytes) -> Any:
    raise OwnError("the object's own trouble")


@pytest.mark.parametrize("after", [0, 1, 3])
def test_the_exception_of_a_file_object_comes_through(after: int) -> None:
    out = Misbehaving(_raise, after)
    writer = None
    with pytest.raises(OwnError, match="own trouble"):  # noqa: PT012 - any step may be the one that writes
        writer = spillway.ParquetWriter(out, compression="uncompressed", row_group_rows=100)
        for _ in range(20):
            writer.write(TABLE)
        writer.close()
    if writer is not None:
        with pytest.raises(spillway.ClosedError):
            writer.write(TABLE)


def test_a_file_object_that_takes_a_byte_at_a_time_gets_all() -> None:
    class Slow(io.BytesIO):
        def write(self, data: Any) -> int:
            return super().write(bytes(data)[:1])

    out = Slow()
    spillway.write_parquet(TABLE, out)
    assert out.getvalue() == expected()


def test_a_file_object_that_answers_nothing_takes_all() -> None:
    taken = io.BytesIO()
    out = Misbehaving(lambda data: taken.write(data) and None)
    spillway.write_parquet(TABLE, out)
    assert taken.getvalue() == expected()


@pytest.mark.parametrize("count", [0, -1, 10**9, "three", 2.5, 10**30])
def test_a_file_object_that_answers_nonsense_is_an_error(count: Any) -> None:
    with pytest.raises((OSError, ValueError, TypeError, OverflowError)) as caught:
        spillway.write_parquet(TABLE, Misbehaving(lambda _: count))
    assert str(caught.value)


def test_a_closed_file_object_is_an_error() -> None:
    out = io.BytesIO()
    out.close()
    with pytest.raises(ValueError, match="closed"):
        spillway.write_parquet(TABLE, out)


def test_a_text_file_is_an_error_that_says_so(tmp_path: Path) -> None:
    with (tmp_path / "a.txt").open("w") as text, pytest.raises(TypeError, match=r"str|text|binary"):
        spillway.write_parquet(TABLE, text)


@pytest.mark.parametrize("thing", [None, 5, object(), b"bytes.parquet"])
def test_what_is_no_destination_is_refused(thing: Any) -> None:
    with pytest.raises(TypeError, match="path"):
        spillway.ParquetWriter(thing)


def test_a_file_object_is_written_from_where_it_stands_and_left_open() -> None:
    out = io.BytesIO()
    out.write(b"prefix")
    spillway.write_parquet(TABLE, out)
    assert not out.closed
    assert out.getvalue() == b"prefix" + expected()


def test_a_file_object_may_look_at_the_writer_while_it_is_written_to() -> None:
    """Bytes handed to `write` stay as they were, and calling back neither deadlocks nor corrupts."""
    found = run(
        """
        import io, json
        import pyarrow as pa, spillway
        kept = []
        class Curious:
            def write(self, data):
                kept.append(data)
                writer.closed
                try:
                    writer.write(pa.table({"n": [1]}))
                except Exception as error:
                    problems.add(type(error).__name__)
        problems = set()
        writer = spillway.ParquetWriter(Curious(), pa.schema([("n", pa.int64())]), row_group_rows=100)
        writer.write(pa.table({"n": range(1000)}))
        writer.close()
        whole = b"".join(bytes(part) for part in kept)
        import pyarrow.parquet as pq
        print(json.dumps([sorted(problems), pq.ParquetFile(pa.BufferReader(whole)).metadata.num_rows]))
        """
    )
    assert found[0], "a write from within a write has to be refused"
    assert found[1] == 1000


def test_threads_may_share_a_writer(tmp_path: Path) -> None:
    threads, batches, rows = 8, 30, 37

    def work(number: int) -> None:
        for index in range(batches):
            writer.write(
                pa.table({"thread": [number] * rows, "batch": [index] * rows, "row": list(range(rows))})
            )

    with spillway.ParquetWriter(tmp_path / "a.parquet", row_group_rows=100) as writer:
        workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    columns = pq.read_table(tmp_path / "a.parquet").to_pydict()
    assert columns["row"] == list(range(rows)) * threads * batches, "a batch was torn"
    seen: dict[int, list[int]] = {number: [] for number in range(threads)}
    for start in range(0, len(columns["row"]), rows):
        seen[columns["thread"][start]].append(columns["batch"][start])
    assert seen == {number: list(range(batches)) for number in range(threads)}, (
        "a thread's batches changed order"
    )


def test_no_lock_is_held_while_a_producer_is_asked() -> None:
    """A producer that waits for another thread's write to the same writer would otherwise wait for ever."""
    found = run(
        """
        import io, json, threading
        import pyarrow as pa, pyarrow.parquet as pq, spillway
        schema = pa.schema([("n", pa.int64())])
        done = threading.Event()
        def batches():
            yield pa.record_batch({"n": [1]})
            threading.Thread(target=other).start()
            if not done.wait(20):
                raise RuntimeError("the other thread could not write")
            yield pa.record_batch({"n": [3]})
        def other():
            writer.write(pa.table({"n": [2]}))
            done.set()
        out = io.BytesIO()
        with spillway.ParquetWriter(out, schema) as writer:
            writer.write(pa.RecordBatchReader.from_batches(schema, batches()))
        file = pq.ParquetFile(pa.BufferReader(out.getvalue()))
        print(json.dumps(file.read(use_threads=False).column("n").to_pylist()))
        """
    )
    assert found == [1, 2, 3]


def test_a_producer_that_writes_to_its_own_writer_does_not_hang() -> None:
    found = run(
        """
        import io, json
        import pyarrow as pa, pyarrow.parquet as pq, spillway
        schema = pa.schema([("n", pa.int64())])
        def batches():
            yield pa.record_batch({"n": [1]})
            writer.write(pa.table({"n": [2]}))
            yield pa.record_batch({"n": [3]})
        out = io.BytesIO()
        try:
            with spillway.ParquetWriter(out, schema) as writer:
                writer.write(pa.RecordBatchReader.from_batches(schema, batches()))
            file = pq.ParquetFile(pa.BufferReader(out.getvalue()))
            answer = file.read(use_threads=False).column("n").to_pylist()
        except Exception as error:
            answer = [type(error).__name__, str(error)]
        print(json.dumps(answer))
        """
    )
    assert found == [1, 2, 3] or isinstance(found[1], str)


def test_a_thousand_open_writers_cost_little_each(
    tmp_path: Path, record_testsuite_property: Callable[[str, object], None]
) -> None:
    found = run(
        """
        import json, resource, sys
        import pyarrow as pa, spillway
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
        table = pa.table({"id": range(10), "word": ["w"] * 10, "real": [0.5] * 10})
        def resident():
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * resource.getpagesize()
        def opened(number):
            writer = spillway.ParquetWriter(f"{sys.argv[1]}/{number}.parquet", table.schema)
            writer.write(table)
            return writer
        warm = opened("warm")
        warm.close()
        before = resident()
        writers = [opened(number) for number in range(1000)]
        each = (resident() - before) / 1000
        for writer in writers:
            writer.close()
        print(json.dumps({"each": each, "rows": sum(writer.result.rows for writer in writers)}))
        """,
        tmp_path,
    )
    record_testsuite_property("bytes_per_open_writer", found["each"])
    assert found["rows"] == 10_000
    assert len(list(tmp_path.iterdir())) == 1001
    assert found["each"] < 64 * 1024


def test_many_writers_that_are_dropped_leave_no_descriptor(tmp_path: Path) -> None:
    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    gc.collect()  # what other tests left must not go meanwhile
    before = descriptors()
    for number in range(50):
        writer = spillway.ParquetWriter(tmp_path / f"{number}.parquet", TABLE.schema)
        writer.write(TABLE)
        if number % 2:
            writer.close()
        del writer
    gc.collect()
    assert descriptors() == before
    assert len(list(tmp_path.iterdir())) == 25
