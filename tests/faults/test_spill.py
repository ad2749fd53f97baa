"""A temporary file of pages that cannot be made, or fills its disk."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest

from .programs import NAMESPACE, run, with_mount

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import OldFile

# Writes more pages than the limit holds, with the temporary file in the folder of its first argument.
SPILL = """
    import json, os, sys
    import numpy as np, pyarrow as pa, spillway
    folder, path, rows = sys.argv[1], sys.argv[2], int(sys.argv[3])
    os.environ["TMPDIR"] = folder
    table = pa.table({"n": np.random.default_rng(0).integers(0, 2**62, rows)})
    writer = spillway.ParquetWriter(path, table.schema, memory_limit="1MB", compression="uncompressed")
    caught = after = None
    try:
        for start in range(0, rows, 10_000):
            writer.write(table.slice(start, 10_000))
            assert os.listdir(folder) == [], "the temporary file has a name"
        writer.close()
    except OSError as error:
        caught = [error.errno, str(error), error.filename]
        try:
            writer.write(table.slice(0, 1))
        except spillway.ClosedError as error:
            after = str(error)
    print(json.dumps({"caught": caught, "after": after, "left": sorted(os.listdir(os.path.dirname(path)))}))
"""


@pytest.mark.skipif(not NAMESPACE, reason="needs the right to mount")
def test_a_full_disk_for_temporary_files_leaves_the_old_file(tmp_path: Path, place: OldFile) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    prefix = with_mount(folder, 'mount -t tmpfs -o size=1m none "$1"')
    found = run(SPILL, folder, place.path, 400_000, prefix=prefix)
    number, message, where = found["caught"]
    assert number == errno.ENOSPC
    assert "pages that do not fit memory" in message
    assert "TMPDIR" in message
    assert where == str(folder)
    assert "discarded" in found["after"]
    assert place.is_untouched()


def test_a_folder_for_temporary_files_that_is_missing_is_named(tmp_path: Path, place: OldFile) -> None:
    found = run(SPILL.replace("os.listdir(folder)", "[]"), tmp_path / "gone", place.path, 400_000)
    number, message, where = found["caught"]
    assert number == errno.ENOENT
    assert "temporary file" in message
    assert where == str(tmp_path / "gone")
    assert place.is_untouched()


def test_a_spill_that_fits_leaves_the_new_file_alone(tmp_path: Path, place: OldFile) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    found = run(SPILL, folder, place.path, 400_000)
    assert found == {"caught": None, "after": None, "left": ["data.parquet"]}
    assert list(folder.iterdir()) == []


def test_a_process_killed_with_pages_spilled_leaves_no_temporary_file(tmp_path: Path, place: OldFile) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    died = SPILL.replace("writer.close()", "os.kill(os.getpid(), 9)")
    with pytest.raises(AssertionError, match="exit status -9"):
        run(died, folder, place.path, 400_000)
    assert list(folder.iterdir()) == []
