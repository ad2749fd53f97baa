"""Every call to the operating system may fail: what is told to be done is there, and else the old state is.

Files, datasets, tables and streams are written by a program whose n-th call fails (`injection.c`). What it
left is read by other engines in this process, which knows no faults, and the operation is done again.
"""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, NamedTuple

import deltalake
import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import spillway
import spillway.delta

from ..counts import SOAK, count
from . import faulty_calls
from .faulty_calls import NEW, NOISE, OLD, SECONDS, WAYS, rows
from .injection import Call, noted, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Ids = NDArray[np.int64]

PROGRAM = [sys.executable, faulty_calls.__file__]
SAMPLE = count(quick=3, ci=4, soak=0)


class Fault(NamedTuple):
    """How a call fails: the names of calls, how, with what error, and if all after it fail, too."""

    calls: str
    how: str
    number: int = 0
    lasts: bool = False

    def rule(self, nth: int) -> str:
        return rule(self.calls, nth=f"{nth}{'+' * self.lasts}", how=self.how, number=self.number)

    def can_meet(self, call: Call) -> bool:
        return self.calls == "*" or call.name in self.calls.split(",")


FAULTS = {
    "error": Fault("*", "before", errno.EIO),
    "error after the effect": Fault("*", "after", errno.EIO),
    "full disk": Fault("create,write,mkdir,link,sync,truncate", "before", errno.ENOSPC, lasts=True),
    "short write": Fault("write", "short"),
    "lost at close": Fault("close", "lost", errno.EDQUOT),
    "dead disk": Fault("*", "before", errno.EIO, lasts=True),
}
# What is moved in several steps is put back after an error. A dead disk ends it as a kill does.
IN_STEPS = {"dataset", "overwritten dataset"}
REVERTED = {name: fault for name, fault in FAULTS.items() if name != "dead disk"}


class Done(NamedTuple):
    """An operation under a fault: the error that it raised, if any, and its calls."""

    error: str | None
    calls: list[Call]


class Program:
    """The program under faults, for one operation after the other."""

    def __init__(self, library: Path, folder: Path) -> None:
        self._log = folder / "calls"
        environment = {**os.environ, "LD_PRELOAD": str(library)}
        self._process = subprocess.Popen(
            PROGRAM, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, way: str, target: Path, rules: str = "", *, timeout: float = SECONDS) -> Done:
        self._log.unlink(missing_ok=True)
        order = {"way": way, "target": str(target), "timeout": timeout, "folder": str(target.parent)}
        order |= {"rules": rules, "log": str(self._log)}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(order), file=self._process.stdin, flush=True)
        told = json.loads(self._process.stdout.readline())
        assert "error" in told, f"the process ended with {told}"
        return Done(told["error"], noted(self._log))

    def end(self) -> None:
        self._process.communicate()


@pytest.fixture(scope="module")
def program(injection: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    program = Program(injection, tmp_path_factory.mktemp("program"))
    yield program
    program.end()


def make(way: str, target: Path) -> None:
    """What is there before the operation."""
    if way in {"file", "durable file", "joined file"}:
        spillway.write_parquet(rows(OLD), target)
    elif way in IN_STEPS:
        spillway.write_dataset(rows(OLD), target, partition_by="day", metadata_file=way != "dataset")
    elif way == "stream":
        faulty_calls.micro_batch(str(target), 0, OLD)
    else:
        properties = {"delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": "true"}
        table = spillway.delta.create(
            target, faulty_calls.SCHEMA, partition_by="day", properties=properties if way == "delete" else {}
        )
        for third in (OLD[:3_000], OLD[3_000:6_000], OLD[6_000:]):
            with table.append() as append:
                append.write(rows(third))


def after(way: str, ids: Ids) -> Ids:
    """The ids that the operation leaves of those that are there."""
    new = np.arange(NEW.start, NEW.stop)
    if way in {"file", "durable file", "joined file", "overwritten dataset"}:
        return new
    if way in {"dataset", "append"}:
        return np.sort(np.concatenate([ids, new]))
    if way == "stream":
        return np.union1d(ids, new)
    return ids[NOISE[ids] >= 0.5] if way == "delete" else ids


def found(target: Path) -> Ids:
    """The ids that all readers find, each as often as it is there."""
    if (target / "_delta_log").exists():
        by_one = pa.table(deltalake.DeltaTable(str(target)).scan(columns=["id"]))
        by_other = pa.table(spillway.delta.open(target).scan(["id"]))
    else:
        files = ds.dataset(target, partitioning="hive").files
        by_one = pa.concat_tables(pq.read_table(file, columns=["id"], use_threads=False) for file in files)
        by_other = duckdb.read_parquet(files).select("id").to_arrow_table()
    ids = np.sort(by_one["id"].to_numpy())
    assert np.array_equal(ids, np.sort(by_other["id"].to_numpy())), "readers do not find the same rows"
    return ids


def check(way: str, fault: str, target: Path, done: Done) -> None:
    """What is claimed of an operation under a fault, and of the next one without."""
    old = np.arange(len(OLD))
    new, there = after(way, old), found(target)
    if done.error is None:
        assert np.array_equal(there, new), "it told of no error, and rows are missing or doubled"
        assert way != "checkpoint" or np.array_equal(by_checkpoint(target), old)
    elif way == "stream":
        # The files of a batch appear one after the other. Its manifest names them, and a replay completes it.
        assert len(there) == len(np.unique(there)), "rows are doubled"
        assert np.isin(old, there).all()
        assert np.isin(there, new).all()
    else:
        assert any(np.array_equal(there, state) for state in (old, new)), "neither the old rows nor the new"
    if fault == "short write":
        assert done.error is None, "a short write is no error"
    WAYS[way](str(target), SECONDS)
    assert np.array_equal(found(target), after(way, there)), "the next one did not do what it tells"


def by_checkpoint(target: Path) -> Ids:
    """The ids that are found where only the checkpoint stands for the versions before it."""
    copy = shutil.copytree(target, target.with_name("by checkpoint"))
    hint = json.loads((copy / "_delta_log" / "_last_checkpoint").read_text())
    for version in range(hint["version"]):
        (copy / "_delta_log" / f"{version:020}.json").unlink()
    return found(copy)


def faults_of(way: str) -> dict[str, Fault]:
    return REVERTED if way in IN_STEPS else FAULTS


def drawn(way: str, calls: list[Call], seed: int) -> list[tuple[str, int]]:
    """Faults, and the number of the call that each is to meet: all of them in a soak."""
    cases = [
        (name, nth)
        for name, fault in faults_of(way).items()
        for nth in range(1, sum(map(fault.can_meet, calls)) + 1)
    ]
    return cases if SOAK else random.Random(f"{seed} {way}").sample(cases, SAMPLE)  # noqa: S311 - of cases


@pytest.mark.timeout(3600 if SOAK else 120)
@pytest.mark.parametrize("way", WAYS)
def test_a_call_that_fails_loses_no_row_and_shows_no_half(
    program: Program, tmp_path: Path, seed: int, way: str
) -> None:
    before = tmp_path / "before"
    before.mkdir()
    make(way, before / "to")

    def copied(name: str) -> Path:
        return Path(shutil.copytree(before, tmp_path / name)) / "to"

    whole = program.run(way, copied("whole"))
    assert whole.error is None
    assert {"create", "write", "close", "rename"} <= {call.name for call in whole.calls}
    check(way, "none", tmp_path / "whole" / "to", whole)
    met, wrong = 0, []
    for name, nth in drawn(way, whole.calls, seed):
        target = copied(f"{name}-{nth}".replace(" ", "-"))
        fault = faults_of(way)[name]
        # A commit that never succeeds is tried until its end.
        done = program.run(way, target, fault.rule(nth), timeout=0.5 if fault.lasts else SECONDS)
        failed = next((call for call in done.calls if call.how), None)
        met += failed is not None
        try:
            check(way, name, target, done)
        except Exception as error:  # noqa: BLE001 - all that is wrong is told at the end
            wrong.append(f"{name} {nth}, {failed}, told {done.error!r}: {type(error).__name__}: {error}")
        else:
            shutil.rmtree(target.parent)
    # Threads make a few calls more or less.
    assert met > 0
    assert not wrong, "\n".join(wrong)


# File systems without a rename that replaces nothing, such as NFS, publish a file by a hard link.
NO_NEW_NAME = rule("rename", "*.parquet", nth="1+", number=errno.EINVAL)


@pytest.mark.parametrize("number", [errno.EIO, errno.EEXIST], ids=errno.errorcode.get)
def test_a_link_that_was_made_before_its_error_publishes_the_file_once(
    program: Program, tmp_path: Path, number: int
) -> None:
    """NFS repeats a call whose response is lost, and the repeated one finds the name taken."""
    target = tmp_path / "to"
    make("dataset", target)
    lost = rule("link", "*.parquet", how="after", number=number)
    done = program.run("dataset", target, f"{NO_NEW_NAME}\n{lost}")
    assert [call.how for call in done.calls if call.name == "link"] == ["after", "", ""]
    assert done.error is None
    assert np.array_equal(found(target), after("dataset", np.arange(len(OLD))))


def test_an_overwrite_restores_each_old_file_whose_move_is_reported_as_missing(
    program: Program, tmp_path: Path
) -> None:
    def content(target: Path) -> dict[Path, bytes]:
        return {path.relative_to(target): path.read_bytes() for path in target.rglob("*") if path.is_file()}

    for nth in (1, 2):
        target = tmp_path / str(nth) / "to"
        target.parent.mkdir()
        make("overwritten dataset", target)
        before = content(target)
        lost = rule("rename", "*.tmp", nth=str(nth), how="after", number=errno.ENOENT)
        failed = rule("rename", "*.tmp", nth=str(nth))
        done = program.run("overwritten dataset", target, f"{lost}\n{failed}")
        assert [call.how for call in done.calls if call.how] == ["after", "before"]
        assert done.error is not None
        assert content(target) == before


@pytest.mark.parametrize("way", ["file", "overwritten dataset", "stream"])
def test_what_cannot_be_synced_replaces_nothing(program: Program, tmp_path: Path, way: str) -> None:
    """Also where no durable file was asked for: a power cut would take the old rows and the new ones."""
    target = tmp_path / "to"
    make(way, target)
    done = program.run(way, target, rule("sync", nth="1+"))
    assert done.error is not None
    assert np.array_equal(found(target), np.arange(len(OLD)))


def test_a_batch_is_on_the_disk_before_its_mark(program: Program, tmp_path: Path) -> None:
    target = tmp_path / "to"
    make("stream", target)
    done = program.run("stream", target)
    assert done.error is None
    manifests = target / "_spillway_sink" / "query"

    def places(name: str, pattern: str) -> list[int]:
        """The numbers of the calls of this name about such a path."""
        calls = enumerate(done.calls)
        return [number for number, call in calls if call.name == name and PurePath(call.path).match(pattern)]

    staged = places("sync", f"{target}/_spillway_jobs/*/*/*/*.tmp")
    moved = places("rename", f"{target}/*.parquet")
    named, marked = places("sync", f"{manifests}"), places("create", f"{manifests}/*.done")
    decided = places("link", f"{manifests}/*.json")
    order = [
        ("the files", max(staged)),
        ("the manifest", places("sync", f"{manifests}/*.new")[0]),
        ("its name", decided[0]),
        ("the folder of the manifest", named[0]),
        ("the first move", min(moved)),
        ("the last move", max(moved)),
        ("the folder", [sync for sync in places("sync", f"{target}") if sync < marked[0]][-1]),
        ("the mark", marked[0]),
    ]
    assert order == sorted(order, key=lambda step: step[1])
