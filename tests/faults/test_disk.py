"""Disks that are full, read-only or end in the middle."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest

from .programs import IS_ROOT, NAMESPACE, open_the_way_to, run, with_mount

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import OldFile

# Fills what room there is, and tells the error and what is left in the folder.
FILL = """
    import json, os, resource, sys
    from pathlib import Path
    import numpy as np, pyarrow as pa, spillway
    folder, limit, rows, row_group_rows, durable = Path(sys.argv[1]), *map(int, sys.argv[2:])
    path = folder / "data.parquet"
    spillway.write_parquet(pa.table({"old": [1]}), path)
    before = path.read_bytes()
    table = pa.table({"n": np.random.default_rng(0).integers(0, 2**62, rows)})
    if limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    writer = spillway.ParquetWriter(
        path, table.schema, compression="uncompressed", row_group_rows=row_group_rows, durable=bool(durable)
    )
    caught = after = None
    stage = "write"
    try:
        for start in range(0, rows, 10_000):
            writer.write(table.slice(start, 10_000))
        stage = "close"
        writer.close()
    except OSError as error:
        caught = {"errno": error.errno, "text": str(error), "stage": stage}
    try:
        writer.write(table.slice(0, 1))
    except spillway.ClosedError as error:
        after = str(error)
    kept = path.read_bytes() == before
    print(json.dumps({"caught": caught, "after": after, "kept": kept, "left": sorted(os.listdir(folder))}))
"""
WAYS = ["rlimit", *(["tmpfs"] if NAMESPACE else [])]


def fill(  # noqa: PLR0913 - they are the program's arguments
    folder: Path, way: str, *, rows: int, row_group_rows: int, room: int, durable: bool
) -> dict[str, object]:
    arguments = (folder, room if way == "rlimit" else 0, rows, row_group_rows, int(durable))
    prefix = with_mount(folder, f'mount -t tmpfs -o size={room} none "$1"') if way == "tmpfs" else []
    return dict(run(FILL, *arguments, prefix=prefix))


def test_this_machine_can_fill_a_real_disk() -> None:
    assert NAMESPACE or not IS_ROOT, "root may mount a tmpfs in a namespace of its own"


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_a_disk_that_fills_up_leaves_the_old_file(tmp_path: Path, way: str, durable: bool) -> None:  # noqa: FBT001
    found = fill(tmp_path, way, rows=400_000, row_group_rows=20_000, room=1 << 20, durable=durable)
    check(found, way, "write")


@pytest.mark.parametrize("way", WAYS)
def test_a_disk_that_fills_up_at_close_leaves_the_old_file(tmp_path: Path, way: str) -> None:
    found = fill(tmp_path, way, rows=400_000, row_group_rows=1_000_000, room=1 << 20, durable=False)
    check(found, way, "close")


def test_a_footer_that_does_not_fit_leaves_the_old_file(tmp_path: Path) -> None:
    """The limit lies between the end of the data and the end of the file."""
    whole = run(
        """
        import json, sys
        import numpy as np, pyarrow as pa, spillway
        table = pa.table({"n": np.random.default_rng(0).integers(0, 2**62, 10_000)})
        print(json.dumps(spillway.write_parquet(table, sys.argv[1], compression="uncompressed").bytes))
        """,
        tmp_path / "whole.parquet",
    )
    (tmp_path / "whole.parquet").unlink()
    for short in (1, 8, 40):
        found = fill(
            tmp_path, "rlimit", rows=10_000, row_group_rows=10_000, room=whole - short, durable=False
        )
        assert found["caught"] is not None
        assert found["kept"]
        assert found["left"] == ["data.parquet"]


def check(found: dict[str, object], way: str, stage: str) -> None:
    caught = found["caught"]
    assert isinstance(caught, dict), "the write seemed to succeed"
    assert caught["errno"] == (errno.EFBIG if way == "rlimit" else errno.ENOSPC)
    assert "data.parquet" in caught["text"]
    assert caught["stage"] == stage
    assert found["kept"], "the old file is gone"
    assert found["left"] == ["data.parquet"], "a temporary file is left"
    assert found["after"], "a writer that failed takes more rows"


TRY = """
    import json, os, sys
    import pyarrow as pa, spillway
    if len(sys.argv) > 2:
        os.setgroups([])
        os.setgid(int(sys.argv[2]))
        os.setuid(int(sys.argv[2]))
    try:
        spillway.write_parquet(pa.table({"n": [1]}), os.path.join(sys.argv[1], "data.parquet"))
        answer = None
    except OSError as error:
        answer = {"errno": error.errno, "kind": type(error).__name__, "text": str(error)}
    print(json.dumps({"answer": answer, "left": os.listdir(sys.argv[1])}))
"""


@pytest.mark.skipif(not NAMESPACE, reason="needs the right to mount")
def test_a_read_only_disk_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    found = run(TRY, tmp_path, prefix=with_mount(tmp_path, 'mount -t tmpfs -o ro none "$1"'))
    assert found["answer"]["errno"] == errno.EROFS
    assert "data.parquet" in found["answer"]["text"]
    assert found["left"] == []


def test_a_folder_without_permission_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o555)
    # Permissions do not bind root: then an unprivileged user tries, in a place that it can reach.
    if IS_ROOT:
        open_the_way_to(tmp_path)
        folder.chmod(0o555)
    found = run(TRY, folder, *([65534] if IS_ROOT else []))
    assert found["answer"]["kind"] == "PermissionError"
    assert found["answer"]["errno"] == errno.EACCES
    assert "data.parquet" in found["answer"]["text"]
    assert found["left"] == []


def test_a_full_device_is_a_full_disk(place: OldFile) -> None:
    found = run(
        """
        import json
        import pyarrow as pa, spillway
        try:
            table = pa.table({"n": list(range(100_000))})
            spillway.write_parquet(table, "/dev/full", compression="uncompressed")
            answer = None
        except OSError as error:
            answer = [error.errno, str(error)]
        print(json.dumps(answer))
        """
    )
    assert found[0] == errno.ENOSPC
    assert "/dev/full" in found[1]
    assert place.is_untouched()
