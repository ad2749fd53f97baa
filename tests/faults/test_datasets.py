"""Folders of files under faults: full and read-only disks, kills, interrupts, forks and failing renames."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import spillway

from .programs import IS_ROOT, NAMESPACE, open_the_way_to, run, start, with_mount

if TYPE_CHECKING:
    from pathlib import Path


def names(folder: Path) -> list[str]:
    return sorted(str(entry.relative_to(folder)) for entry in folder.rglob("*"))


FILL = """
    import json, os, resource, sys
    from pathlib import Path
    import numpy as np, pyarrow as pa, spillway
    folder, limit = Path(sys.argv[1]), int(sys.argv[2])
    spillway.write_dataset(pa.table({"k": [1], "n": [0]}), folder, partition_by="k")
    table = pa.table({"k": np.arange(300_000) % 7, "n": np.random.default_rng(0).integers(0, 2**62, 300_000)})
    if limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    caught = after = None
    writer = spillway.DatasetWriter(
        folder, table.schema, partition_by="k", mode="append", compression="uncompressed",
        row_group_rows=10_000, max_file_rows=30_000,
    )
    try:
        writer.write(table)
        writer.close()
    except OSError as error:
        caught = {"errno": error.errno, "text": str(error)}
    try:
        writer.write(table.slice(0, 1))
    except spillway.ClosedError as error:
        after = str(error)
    left = sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))
    print(json.dumps({"caught": caught, "after": after, "left": left}))
"""


@pytest.mark.parametrize("way", ["rlimit", *(["tmpfs"] if NAMESPACE else [])])
def test_a_disk_that_fills_up_leaves_what_was_there(tmp_path: Path, way: str) -> None:
    room = 1 << 20 if way == "tmpfs" else 100_000
    prefix = with_mount(tmp_path, f'mount -t tmpfs -o size={room} none "$1"') if way == "tmpfs" else []
    found = run(FILL, tmp_path, room if way == "rlimit" else 0, prefix=prefix)
    assert found["caught"] is not None, "the write seemed to succeed"
    assert str(tmp_path) in found["caught"]["text"]
    assert ".tmp" not in found["caught"]["text"], "a hidden file is none of the user's business"
    assert found["after"], "a writer that failed takes more rows"
    assert found["left"] == ["k=1", "k=1/part-00000.parquet"]


TRY = """
    import json, os, sys
    import pyarrow as pa, spillway
    if len(sys.argv) > 2:
        os.setgroups([])
        os.setgid(int(sys.argv[2]))
        os.setuid(int(sys.argv[2]))
    answer = None
    try:
        spillway.write_dataset(pa.table({"n": [1]}), os.path.join(sys.argv[1], "data"))
    except OSError as error:
        answer = {"kind": type(error).__name__, "text": str(error)}
    print(json.dumps({"answer": answer, "left": os.listdir(sys.argv[1])}))
"""


@pytest.mark.skipif(not NAMESPACE, reason="needs the right to mount")
def test_a_read_only_disk_is_an_error_that_names_the_folder(tmp_path: Path) -> None:
    found = run(TRY, tmp_path, prefix=with_mount(tmp_path, 'mount -t tmpfs -o ro none "$1"'))
    assert str(tmp_path / "data") in found["answer"]["text"]
    assert found["left"] == []


def test_a_folder_without_permission_is_an_error_that_names_it(tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir()
    open_the_way_to(tmp_path)
    folder.chmod(0o555)
    found = run(TRY, folder, *([65534] if IS_ROOT else []))
    assert found["answer"]["kind"] == "PermissionError"
    assert str(folder / "data") in found["answer"]["text"]
    assert found["left"] == []


def test_a_missing_parent_is_found_out_before_any_row(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="missing"):
        spillway.DatasetWriter(tmp_path / "missing" / "data")
    with pytest.raises(NotADirectoryError):
        spillway.DatasetWriter(_file(tmp_path / "file") / "data")
    with pytest.raises((NotADirectoryError, FileExistsError), match="file"):
        spillway.DatasetWriter(tmp_path / "file")
    assert names(tmp_path) == ["file"]


def _file(path: Path) -> Path:
    path.write_bytes(b"")
    return path


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_rename_that_fails_takes_back_those_before_it(tmp_path: Path, mode: str) -> None:
    """A file is in the way where the last partition's folder has to be."""
    spillway.write_dataset(pa.table({"k": [1, 2], "n": [1, 2]}), tmp_path / "d", partition_by="k")
    (tmp_path / "d" / "k=9").write_text("in the way")
    before = {name: _content(tmp_path / "d" / name) for name in names(tmp_path / "d")}
    with spillway.DatasetWriter(tmp_path / "d", partition_by="k", mode=mode) as writer:
        writer.write(pa.table({"k": [1, 5, 9], "n": [3, 4, 5]}))
        with pytest.raises(OSError, match="k=9"):
            writer.close()
        writer.abort()
    assert {name: _content(tmp_path / "d" / name) for name in names(tmp_path / "d")} == before


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


LONG = """
    import json, os, sys
    import numpy as np, pyarrow as pa, spillway
    table = pa.table({"k": np.arange(200_000) % 5, "n": np.random.default_rng(0).integers(0, 2**62, 200_000)})
    try:
        with spillway.DatasetWriter(sys.argv[1], partition_by="k", max_file_rows=10_000) as writer:
            for round in range(1000):
                writer.write(table)
                if round == 1:
                    print("writing", flush=True)
    except BaseException as error:
        print(json.dumps(type(error).__name__), flush=True)
"""


def test_control_c_leaves_nothing(tmp_path: Path) -> None:
    program = start(LONG, tmp_path / "d")
    assert program.stdout is not None
    assert program.stdout.readline() == "writing\n"
    program.send_signal(signal.SIGINT)
    # Its thousand rounds take longer by far.
    out, errors = program.communicate(timeout=120)
    assert json.loads(out) == "KeyboardInterrupt", errors
    assert names(tmp_path) == []


def test_a_killed_writer_leaves_only_what_is_hidden(tmp_path: Path) -> None:
    program = start(LONG, tmp_path / "d")
    assert program.stdout is not None
    assert program.stdout.readline() == "writing\n"
    program.kill()
    program.communicate()
    left = names(tmp_path / "d")
    assert left
    assert all(name.startswith(".spillway-") and not name.endswith(".parquet") for name in left)
    # And it is in nobody's way.
    spillway.write_dataset(pa.table({"n": [1]}), tmp_path / "d")
    assert "part-00000.parquet" in names(tmp_path / "d")


# Kills a writer that overwrites a dataset before each of its calls that change a folder, one after the other,
# and tells what readers see then. The writer is a child that is stepped from call to call.
STEPS = """
    import ctypes, json, os, platform, shutil, signal, sys
    from pathlib import Path
    import pyarrow as pa, pyarrow.parquet as pq, spillway
    folder, durable = Path(sys.argv[1]), bool(int(sys.argv[2]))
    TRACEME, SYSCALL, SETOPTIONS, SYSCALL_INFO = 0, 24, 0x4200, 0x420E
    GOOD, ENTRY = 1, 1
    CHANGES = {  # rename, mkdir, rmdir, link, unlink and their kin
        "x86_64": {82, 83, 84, 86, 87, 258, 263, 264, 265, 316},
        "aarch64": {34, 35, 37, 38, 276},
    }[platform.machine()]
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long] * 4
    def ptrace(request, pid, address, data):
        if libc.ptrace(request, pid, address, data) == -1:
            raise OSError(ctypes.get_errno(), "ptrace")
    def table(partitions):
        rows = [(k, n) for k, numbers in partitions.items() for n in numbers]
        return pa.table({"k": [k for k, _ in rows], "n": [n for _, n in rows]})
    OLD, NEW = table({1: range(4), 2: range(4, 6)}), table({2: range(10, 14), 3: range(14, 16)})
    def overwrite(before_close=lambda: None):
        with spillway.DatasetWriter(
            folder, partition_by="k", max_file_rows=2, mode="overwrite", durable=durable
        ) as writer:
            writer.write(NEW)
            before_close()
    def seen():
        files = [path for path in folder.rglob("*.parquet") if ".spillway" not in str(path)]
        tables = [pq.ParquetFile(path).read(use_threads=False) for path in files]
        return sorted(n for table in tables for n in table["n"].to_pylist())
    def killed_before(change):
        pid = os.fork()
        if pid == 0:
            ptrace(TRACEME, 0, 0, 0)
            overwrite(lambda: os.kill(os.getpid(), signal.SIGSTOP))
            os._exit(0)
        os.waitpid(pid, 0)
        ptrace(SETOPTIONS, pid, 0, GOOD)
        info = ctypes.create_string_buffer(88)
        while True:
            ptrace(SYSCALL, pid, 0, 0)
            status = os.waitpid(pid, 0)[1]
            if not os.WIFSTOPPED(status):
                return None if os.waitstatus_to_exitcode(status) == 0 else "the writer failed"
            libc.ptrace(SYSCALL_INFO, pid, len(info), ctypes.addressof(info))
            if info.raw[0] == ENTRY and int.from_bytes(info.raw[24:32], "little") in CHANGES:
                if change == 0:
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)
                    return "killed"
                change -= 1
    states = []
    for change in range(100):
        shutil.rmtree(folder, ignore_errors=True)
        spillway.write_dataset(OLD, folder, partition_by="k", max_file_rows=2)
        end = killed_before(change)
        state = {"end": end, "seen": seen()}
        overwrite()
        states.append({**state, "again": seen()})
        if end is None:
            break
    print(json.dumps({"states": states, "old": OLD["n"].to_pylist(), "new": NEW["n"].to_pylist()}))
"""


@pytest.mark.parametrize("durable", [0, 1])
def test_an_overwrite_killed_at_any_step_leaves_all_old_rows_or_all_new_ones(
    tmp_path: Path, durable: int
) -> None:
    found = run(STEPS, tmp_path / "d", durable)
    old, new, states = found["old"], found["new"], found["states"]
    assert [state["end"] for state in states] == ["killed"] * (len(states) - 1) + [None]
    assert states[-1]["seen"] == new
    both = sorted(old + new)
    for state in states:
        assert set(state["seen"]) >= set(old) or set(state["seen"]) >= set(new), state
        assert set(state["seen"]) <= set(both), state
        assert len(set(state["seen"])) == len(state["seen"]), "a row is there twice"
        assert state["again"] == new, "the same call does not put it right"
    assert [old, both, new] == [
        rows for rows in (old, both, new) if rows in [state["seen"] for state in states]
    ]


def test_a_forked_child_takes_nothing_away(tmp_path: Path) -> None:
    found = run(
        """
        import json, os, sys
        import pyarrow as pa, spillway
        table = pa.table({"k": [1, 2], "n": [1, 2]})
        writer = spillway.DatasetWriter(sys.argv[1], table.schema, partition_by="k")
        writer.write(table)
        pid = os.fork()
        if pid == 0:
            try:
                writer.write(table)
                os._exit(3)
            except spillway.ClosedError:
                writer.abort()
            del writer
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        writer.write(table)
        writer.close()
        print(json.dumps([status, writer.result.rows]))
        """,
        tmp_path / "d",
    )
    assert found == [0, 4]
    assert [os.path.basename(name) for name in names(tmp_path / "d") if "/" in name] == [  # noqa: PTH119
        "part-00000.parquet",
        "part-00000.parquet",
    ]
