"""Files are removed by the clock that dates them, which on a shared folder is not this machine's.

The clock of this machine is wrong for real: a library that is loaded before libc's answers for it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from .test_cleanup import grow, kept, number
from .test_optimize import small
from .test_vacuum import put

HOUR, DAY = 3_600, 86_400
PROGRAM = """
import sys
import spillway.delta
from spillway.errors import UnsupportedTableError

table = spillway.delta.open(sys.argv[1])
removes = {
    "clean-up": table._native.clean_up_log,
    "vacuum": lambda: len(table.vacuum(dry_run=False).files),
    "dry run": lambda: len(table.vacuum().files),
    "checkpoint": table.checkpoint,
}
try:
    print(removes[sys.argv[2]]())
except UnsupportedTableError as error:
    print("refused" if "clock of this machine" in str(error) else error)
"""


@pytest.fixture(scope="session")
def wrong_clock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("clock") / "clock.so"
    source = Path(__file__).with_name("clock.c")
    compiler = os.environ.get("CC", "cc")
    subprocess.run([compiler, "-shared", "-fPIC", "-Wall", "-o", library, source], check=True)
    return library


def removed(library: Path, folder: Path, what: str, ahead: int) -> str:
    """What a process says that removes files of a table by a clock that is so many seconds ahead."""
    environment = {**os.environ, "LD_PRELOAD": str(library), "CLOCK_AHEAD": str(ahead)}
    command = [sys.executable, "-c", PROGRAM, str(folder), what]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("ahead", [-31 * DAY, -2 * HOUR, 2 * HOUR, 31 * DAY])
def test_nothing_is_removed_while_the_clock_is_far_off(tmp_path: Path, wrong_clock: Path, ahead: int) -> None:
    table = grow(tmp_path / "t", 14)
    for what in ("clean-up", "vacuum", "dry run"):
        stray = put(tmp_path / "t", f"{what}.parquet")
        assert removed(wrong_clock, tmp_path / "t", what, ahead) == "refused"
        assert stray.exists()
    assert kept(table)[0] == list(range(15))
    assert not [path for path in (tmp_path / "t" / "_delta_log").iterdir() if path.name.startswith(".")]


def test_a_checkpoint_forgets_nothing_while_the_clock_is_far_off(tmp_path: Path, wrong_clock: Path) -> None:
    table = grow(tmp_path / "t", 2, **{"delta.setTransactionRetentionDuration": "interval 1 day"})
    with table.append(app_id="loader", app_version=1) as append:
        append.write(number(3))
    table.truncate()
    assert removed(wrong_clock, tmp_path / "t", "checkpoint", 31 * DAY) == "4"
    checkpoint = pq.read_table(tmp_path / "t" / "_delta_log" / f"{4:020}.checkpoint.parquet")
    kinds = [kind for row in checkpoint.to_pylist() for kind, action in row.items() if action is not None]
    assert (kinds.count("txn"), kinds.count("remove")) == (1, 3)


def test_a_file_is_as_old_as_the_file_system_says(tmp_path: Path, wrong_clock: Path) -> None:
    table = small(tmp_path / "t")
    week = 7 * DAY
    for name, past in (("old.parquet", week + HOUR // 4), ("young.parquet", week - HOUR // 4)):
        then = time.time() - past
        os.utime(put(tmp_path / "t", name), (then, then))
    for ahead in (HOUR // 2, -HOUR // 2):
        assert removed(wrong_clock, tmp_path / "t", "dry run", ahead) == "1"
    assert removed(wrong_clock, tmp_path / "t", "vacuum", HOUR // 2) == "1"
    assert [path.name for path in (tmp_path / "t").glob("*.parquet")] == ["young.parquet"]
    assert table.version == 5
