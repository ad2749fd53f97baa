"""Folders of files under faults: full and read-only disks, kills, interrupts, forks and failing renames."""

from __future__ import annotations

import json
import os
import signal
import time
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import spillway

from .programs import IS_ROOT, NAMESPACE, run, start, with_mount

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
        folder, table.schema, partition_by="k", existing="append", compression="uncompressed",
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
    for parent in [tmp_path, *tmp_path.parents[:2]]:
        parent.chmod(0o755)
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


@pytest.mark.parametrize("existing", ["append", "overwrite"])
def test_a_rename_that_fails_takes_back_those_before_it(tmp_path: Path, existing: str) -> None:
    """A file is in the way where the last partition's folder has to be."""
    spillway.write_dataset(pa.table({"k": [1, 2], "n": [1, 2]}), tmp_path / "d", partition_by="k")
    (tmp_path / "d" / "k=9").write_text("in the way")
    before = {name: _content(tmp_path / "d" / name) for name in names(tmp_path / "d")}
    with spillway.DatasetWriter(tmp_path / "d", partition_by="k", existing=existing) as writer:
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
    sent = time.monotonic()
    program.send_signal(signal.SIGINT)
    out, errors = program.communicate(timeout=60)
    assert json.loads(out) == "KeyboardInterrupt", errors
    assert time.monotonic() - sent < 20
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
