"""Commits that tasks of asyncio wait for: as those of threads, and no thread waits."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import spillway.delta
from spillway.errors import (
    ClosedError,
    CommitTimeoutError,
    CommitUnknown,
    MetadataChanged,
    OptionError,
    RowError,
    TableNotFoundError,
)

from ..counts import count, examples
from .conftest import read_spillway
from .programs import SCHEMA, batch

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

WAITERS = count(quick=100, ci=400, soak=10_000)
# Ends of an interpreter, each of which meets threads at another moment.
ENDS = count(quick=1, ci=4, soak=50)
# Those that take steps; one that leads and those that sync files for it; one that writes shared files; one
# that tidies.
MOST_THREADS = 16 + 1 + 7 + 1 + 1
PATIENCE = 120.0
FIRST = -1
PROGRAM = Path(__file__).with_name("programs.py")
Begin: TypeAlias = "functools.partial[spillway.delta.Append]"


@pytest.fixture
def table(tmp_path: Path) -> spillway.delta.Table:
    return spillway.delta.create(tmp_path / "table", SCHEMA, partition_by="writer")


def begun(table: spillway.delta.Table, number: int, **options: Any) -> spillway.delta.Append:
    append = table.append(**options)
    append.write(batch("a", number))
    return append


@pytest.fixture
def unseen(table: spillway.delta.Table) -> Path:
    """The second version. While it is a link that leads nowhere, it cannot be read, and nobody commits."""
    # Who has committed knows the newest version, and does not list the log.
    assert begun(table, FIRST).commit() == 1
    return Path(table.path) / "_delta_log" / f"{2:020}.json"


@pytest.fixture(params=[False, True], ids=["own files", "shared files"])
def begin(request: pytest.FixtureRequest, table: spillway.delta.Table) -> Begin:
    return functools.partial(begun, table, coalesce=bool(request.param))


def numbers(table: spillway.delta.Table) -> list[int]:
    """Those of all rows, but for the first version's."""
    found = read_spillway(Path(table.path))["number"].to_pylist()
    return sorted(number for number in found if number != FIRST)


async def until(is_so: Callable[[], bool]) -> None:
    """Wait for something that comes by itself."""
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end
        await asyncio.sleep(0.005)


async def in_an_attempt(table: spillway.delta.Table, commit: Awaitable[int]) -> asyncio.Task[int]:
    """A task that commits, once its commit has tried to write a version."""
    before = table.commit_stats().attempts
    task = asyncio.ensure_future(commit)
    assert isinstance(task, asyncio.Task)
    await until(lambda: table.commit_stats().attempts > before)
    return task


def threads() -> int:
    """The number of this library's threads."""
    found = 0
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # it has ended
            found += (task / "comm").read_text().startswith("spillway")
    return found


def files_open() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_many_wait_by_few_threads_and_share_versions(
    table: spillway.delta.Table, unseen: Path, begin: Begin
) -> None:
    asked: list[int] = []
    before, most = threading.active_count(), 0
    # Threads that tidy for tables of earlier tests end when they find nothing more to do.
    of_others = threads()

    appends = [begin(number) for number in range(WAITERS)]
    unseen.symlink_to("nowhere")

    async def one(number: int) -> int:
        asked.append(number)
        return await appends[number].commit_async(timeout=None)

    async def watch() -> None:
        nonlocal most
        await until(lambda: len(asked) == WAITERS)
        most = threads()
        assert threading.active_count() == before
        unseen.unlink()

    async def all_of_them() -> list[int]:
        versions = await asyncio.gather(watch(), *map(one, range(WAITERS)))
        return [version for version in versions if version is not None]

    versions = asyncio.run(all_of_them())
    assert 0 < most <= MOST_THREADS + of_others
    assert numbers(table) == list(range(WAITERS))
    assert sorted(set(versions)) == list(range(2, table.version + 1))
    assert table.version <= WAITERS // 8
    # Each was told the version that has its rows.
    for commit in table.history():
        if commit.version > 1 and begin.keywords["coalesce"]:
            assert int(commit.info["operationMetrics"]["numOutputRows"]) == versions.count(commit.version)


def test_a_commit_returns_its_version_and_closes_the_append(
    table: spillway.delta.Table, begin: Begin
) -> None:
    async def run() -> None:
        with begin(0) as append:
            assert await append.commit_async() == 1
        assert (append.version, append.token, append.closed) == (1, None, True)
        with pytest.raises(ClosedError, match="is committed"):
            append.write(batch("a", 1))
        with pytest.raises(ClosedError, match="is committed"):
            await append.commit_async()
        nothing = table.append(**begin.keywords)
        assert await nothing.commit_async() == 1

    asyncio.run(run())
    assert numbers(table) == [0]


def test_an_append_that_waits_takes_no_rows_and_is_not_aborted(
    table: spillway.delta.Table, unseen: Path, begin: Begin
) -> None:
    async def run() -> None:
        append = begin(0)
        unseen.symlink_to("nowhere")
        task = await in_an_attempt(table, append.commit_async())
        assert append.closed
        with pytest.raises(ClosedError, match="is being committed"):
            append.write(batch("a", 1))
        with pytest.raises(ClosedError, match="is being committed"):
            await append.commit_async()
        append.abort()
        unseen.unlink()
        assert await task == 2

    asyncio.run(run())
    assert numbers(table) == [0]


def test_a_cancelled_task_says_what_became_of_its_rows(
    table: spillway.delta.Table, unseen: Path, begin: Begin
) -> None:
    async def run() -> tuple[spillway.delta.Append, spillway.delta.Append]:
        append, other = begin(0), begun(table, 1)
        unseen.symlink_to("nowhere")
        task = await in_an_attempt(table, append.commit_async())
        others = asyncio.ensure_future(other.commit_async())
        task.cancel()
        # Once more does no harm.
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as raised:
            await task
        assert isinstance(raised.value.__cause__, CommitTimeoutError | CommitUnknown)
        assert append.version is None
        assert (append.token is not None) == isinstance(raised.value.__cause__, CommitUnknown)
        unseen.unlink()
        await others
        return append, other

    append, other = asyncio.run(run())
    with pytest.raises(ClosedError):
        append.write(batch("a", 1))
    assert other.version is not None
    outcome = None if append.token is None else table.outcome(append.token).status
    assert outcome in {None, "committed", "rejected"}
    assert numbers(table) == ([0, 1] if outcome == "committed" else [1])


def test_a_cancellation_hides_no_version(table: spillway.delta.Table, begin: Begin) -> None:
    async def run() -> spillway.delta.Append:
        append = begin(0)
        task = asyncio.ensure_future(append.commit_async())
        await asyncio.sleep(0)
        # The loop does not turn, so its task is not told of the end before it is cancelled.
        end = time.monotonic() + PATIENCE
        while append._native.version is None and time.monotonic() < end:
            time.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as raised:
            await task
        assert raised.value.__notes__ == ["the rows were already committed, in version 1"]
        return append

    assert asyncio.run(run()).version == 1
    assert numbers(table) == [0]


def test_a_timeout_of_asyncio_is_a_cancellation(table: spillway.delta.Table, unseen: Path) -> None:
    async def run() -> spillway.delta.Append:
        append = begun(table, 0)
        unseen.symlink_to("nowhere")
        before = table.commit_stats().attempts
        with pytest.raises(TimeoutError):  # noqa: PT012 - the time is up in an attempt
            async with asyncio.timeout(None) as limit:
                task = asyncio.ensure_future(append.commit_async())
                await until(lambda: table.commit_stats().attempts > before)
                limit.reschedule(asyncio.get_running_loop().time())
                await task
        return append

    append = asyncio.run(run())
    unseen.unlink()
    assert append.token is not None
    # An attempt that was under way may have succeeded as soon as the version could be seen.
    outcome = table.outcome(append.token).status
    assert outcome in {"committed", "rejected"}
    assert numbers(table) == ([0] if outcome == "committed" else [])


def test_a_deadline_holds(table: spillway.delta.Table, unseen: Path, begin: Begin) -> None:
    async def run() -> spillway.delta.Append:
        append = begin(0, timeout=0.5)
        unseen.symlink_to("nowhere")
        with pytest.raises((CommitTimeoutError, CommitUnknown)):
            await append.commit_async()
        return append

    append = asyncio.run(run())
    unseen.unlink()
    outcome = None if append.token is None else table.outcome(append.token).status
    assert outcome in {None, "committed", "rejected"}
    assert numbers(table) == ([0] if outcome == "committed" else [])


def test_no_time_is_no_commit(table: spillway.delta.Table, begin: Begin) -> None:
    append = begin(0)
    with pytest.raises((CommitTimeoutError, CommitUnknown)):
        asyncio.run(append.commit_async(timeout=0))
    assert numbers(table) == []
    assert append.token is None or table.outcome(append.token).status == "rejected"


def test_a_timeout_that_is_none_leaves_the_append_open(table: spillway.delta.Table) -> None:
    append = begun(table, 0)
    with pytest.raises(OptionError, match="timeout=-1"):
        asyncio.run(append.commit_async(timeout=-1))
    assert append.commit() == 1


def test_errors_are_those_of_a_thread(table: spillway.delta.Table, begin: Begin) -> None:
    late = begin(0)
    with table.append(schema_mode="merge") as other:
        other.write(pa.table({"writer": ["a"], "number": [1], "new": [1]}))
    with pytest.raises(MetadataChanged):
        asyncio.run(late.commit_async())
    assert (late.version, late.token, late.closed) == (None, None, True)
    assert numbers(table) == [1]
    Path(table.path, "writer=bad").write_text("no folder")
    bad = table.append(**begin.keywords)
    bad.write(batch("bad", 2))
    with pytest.raises(OSError, match="writer=bad"):
        asyncio.run(bad.commit_async())
    gone = begin(3)
    shutil.rmtree(table.path)
    with pytest.raises(TableNotFoundError):
        asyncio.run(gone.commit_async())


def test_an_unended_line_is_the_last_row(table: spillway.delta.Table) -> None:
    append = table.append()
    append.write_ndjson(b'{"writer": "a", "number": 7}\n{"writer": "a", "number": "x"}')
    with pytest.raises(RowError):
        asyncio.run(append.commit_async())
    append.write_ndjson(b'{"writer": "a", "number": 8}')
    assert asyncio.run(append.commit_async()) == 1
    assert numbers(table) == [7, 8]


def test_an_append_that_is_repeated_is_not_written_again(table: spillway.delta.Table) -> None:
    for _ in range(2):
        append = begun(table, 0, app_id="job", app_version=1)
        assert asyncio.run(append.commit_async()) == 1
    assert append.repeated
    assert numbers(table) == [0]


def test_a_table_that_changed_its_properties_is_no_conflict(table: spillway.delta.Table) -> None:
    append = begun(table, 0)
    table.set_properties({"delta.checkpointInterval": "5"})
    assert asyncio.run(append.commit_async()) == 2
    assert numbers(table) == [0]


def test_checkpoints_are_made(table: spillway.delta.Table) -> None:
    async def run() -> None:
        for number in range(10):
            await begun(table, number).commit_async()

    asyncio.run(run())
    end = time.monotonic() + PATIENCE
    while not list(Path(table.path, "_delta_log").glob("*.checkpoint.parquet")):
        assert time.monotonic() < end
        time.sleep(0.01)


def test_loops_and_threads_commit_for_each_other(table: spillway.delta.Table) -> None:
    each = WAITERS // 20
    found: dict[int, int] = {}

    async def one(number: int) -> None:
        found[number] = await begun(table, number, coalesce=bool(number % 2)).commit_async()

    async def some(first: int) -> None:
        await asyncio.gather(*map(one, range(first, first + each)))

    def threaded(first: int) -> None:
        for number in range(first, first + each):
            found[number] = begun(table, number, coalesce=bool(number % 2)).commit()

    loops = [threading.Thread(target=lambda n=n: asyncio.run(some(n * each))) for n in range(3)]
    threads = [threading.Thread(target=threaded, args=(n * each,)) for n in range(3, 6)]
    for thread in loops + threads:
        thread.start()
    for thread in loops + threads:
        thread.join(PATIENCE)
    assert sorted(found) == list(range(6 * each)) == numbers(table)
    assert sorted(set(found.values())) == list(range(1, table.version + 1))


def quiet_loop() -> asyncio.AbstractEventLoop:
    """A loop that says nothing of a task that it never ended."""
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)
    return loop


def test_a_loop_may_be_closed_before_the_commit_has_ended(
    table: spillway.delta.Table, unseen: Path, begin: Begin
) -> None:
    before = files_open()
    append = begin(0)
    unseen.symlink_to("nowhere")
    loop = quiet_loop()
    task = loop.run_until_complete(in_an_attempt(table, append.commit_async()))
    loop.close()
    unseen.unlink()
    end = time.monotonic() + PATIENCE
    while append._native.version is None:
        assert time.monotonic() < end
        time.sleep(0.01)
    del task, loop
    gc.collect()
    assert files_open() <= before
    with begun(table, 1) as other:
        pass
    assert other.version == 3
    assert numbers(table) == [0, 1]


def test_a_coroutine_that_is_closed_gives_its_commit_up(table: spillway.delta.Table, unseen: Path) -> None:
    append = begun(table, 0)
    unseen.symlink_to("nowhere")

    async def run() -> None:
        before = table.commit_stats().attempts
        commit = append.commit_async()
        commit.send(None)
        await until(lambda: table.commit_stats().attempts > before)
        commit.close()
        await until(lambda: is_closed_for_good(append))

    asyncio.run(run())
    unseen.unlink()
    assert begun(table, 1).commit() in {2, 3}
    assert 1 in numbers(table)


def is_closed_for_good(append: spillway.delta.Append) -> bool:
    try:
        append.write(batch("a", 1))
    except ClosedError as error:
        return "is being committed" not in str(error)
    return False


def test_a_forked_child_waits_for_nothing_of_its_parent(
    table: spillway.delta.Table, unseen: Path, tmp_path: Path
) -> None:
    elsewhere = spillway.delta.create(tmp_path / "elsewhere", SCHEMA)

    async def run() -> None:
        append = begun(table, 0)
        unseen.symlink_to("nowhere")
        task = await in_an_attempt(table, append.commit_async())
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            status = 1
            try:
                task.cancel()
                try:
                    await task
                except asyncio.CancelledError:
                    append.abort()
                    status = 0 if asyncio.run(begun(elsewhere, 1).commit_async()) == 1 else 2
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
        unseen.unlink()
        assert await task == 2

    asyncio.run(run())
    assert numbers(table) == [0]
    assert numbers(elsewhere) == [1]


@pytest.mark.parametrize("way", ["left", "cancelled"])
def test_an_interpreter_may_end_before_the_commit_has(tmp_path: Path, way: str) -> None:
    for number in range(1, ENDS + 1):
        folder = tmp_path / f"table-{number}"
        table = spillway.delta.create(folder, SCHEMA)
        command = [sys.executable, str(PROGRAM), "awaits", table.path, way]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert (done.returncode, done.stdout) == (0, "ending\n"), done.stderr
        (folder / "_delta_log" / f"{2:020}.json").unlink()
        assert begun(table, 1).commit() in {2, 3}


@settings(
    max_examples=examples(0.1), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    waits=st.lists(
        st.tuples(st.floats(0, 0.02), st.none() | st.floats(0, 0.02), st.booleans()), min_size=2, max_size=24
    )
)
def test_what_is_said_of_an_append_is_so(
    tmp_path_factory: pytest.TempPathFactory, waits: list[tuple[float, float | None, bool]]
) -> None:
    folder = tmp_path_factory.mktemp("said")
    table = spillway.delta.create(folder / "table", SCHEMA, partition_by="writer")

    async def one(number: int) -> bool:
        timeout, cancelled_after, coalesce = waits[number]
        append = begun(table, number, coalesce=coalesce)
        task = asyncio.ensure_future(append.commit_async(timeout=timeout))
        if cancelled_after is not None:
            asyncio.get_running_loop().call_later(cancelled_after, task.cancel)
        try:
            await task
        except (asyncio.CancelledError, CommitTimeoutError, CommitUnknown):
            pass
        else:
            assert append.version is not None
        assert append.closed or cancelled_after is not None
        if append.token is not None:
            outcome = table.outcome(append.token)
            assert outcome.status in {"committed", "rejected"}
            return outcome.status == "committed"
        return append.version is not None

    async def run() -> list[bool]:
        return await asyncio.gather(*map(one, range(len(waits))))

    found = asyncio.run(run())
    assert numbers(table) == [number for number, is_in in enumerate(found) if is_in]
    paths = {file.path for file in table.files()}
    assert paths <= {str(path.relative_to(table.path)) for path in Path(table.path).rglob("*.parquet")}
