# ruff: noqa: T201 - what they print is what the test waits for
"""Writers that run in processes of their own: ``python -m programs NAME FOLDER ...``."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import resource
import signal
import sys
import tempfile
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq

import spillway.delta
from spillway.errors import CommitUnknown

SCHEMA = pa.schema({"writer": pa.string(), "number": pa.int64()})


def batch(writer: str, number: int, rows: int = 1) -> pa.Table:
    return pa.table({"writer": [writer] * rows, "number": [number] * rows}, schema=SCHEMA)


def many(folder: str, name: str, threads: str) -> None:
    """Append once from each of many threads, all at the same time."""
    table = spillway.delta.open(folder)
    written = threading.Barrier(int(threads))

    def one(number: int) -> None:
        with table.append() as append:
            append.write(batch(name, number))
            written.wait()

    print("ready", flush=True)
    sys.stdin.readline()
    workers = [threading.Thread(target=one, args=(number,)) for number in range(int(threads))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def endless(folder: str, name: str, pause: str) -> None:
    """Append as long as somebody waits for it, and say so after each acknowledgement."""
    table = spillway.delta.open(folder)
    number, parent = 0, os.getppid()
    while os.getppid() == parent:
        with table.append() as append:
            append.write(batch(name, number))
        print(number, flush=True)
        number += 1
        time.sleep(float(pause))


# Files that a process may open beside those it has: fewer than its threads want at once.
_FILES_LEFT = 12


def scarce(folder: str, limit: str, threads: str, appends: str, coalesce: str) -> None:
    """Append from many threads of a process that may not have more threads, or hardly more files."""
    if os.geteuid() == 0:
        # Root may have as many threads as it likes.
        os.setgid(65534)
        os.setuid(65534)
    table = spillway.delta.create(folder, SCHEMA)
    said: list[tuple[str, int]] = []
    errors: list[str] = []
    gate = threading.Event()

    def some(name: str) -> None:
        gate.wait()
        for number in range(int(appends)):
            try:
                with table.append(coalesce=bool(coalesce)) as append:
                    append.write(batch(name, number))
            except BaseException as error:  # noqa: BLE001 - a panic too
                errors.append(told(error))
            else:
                said.append((name, number))

    workers = [threading.Thread(target=some, args=(f"w{number}",)) for number in range(int(threads))]
    for worker in workers:
        worker.start()
    if limit == "threads":
        resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
    else:
        most = len(list(Path("/proc/self/fd").iterdir())) + _FILES_LEFT
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    gate.set()
    for worker in workers:
        worker.join()
    print(json.dumps({"said": said, "errors": errors}))


def told(error: BaseException) -> str:
    """The kind of an error, with what the operating system calls it."""
    text = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
    return f"{type(error).__name__}: {text}"


def at_once(folder: str, threads: str) -> None:
    """Append once from each of many threads, all at the same time."""
    table = spillway.delta.open(folder)
    said: list[tuple[str, int]] = []
    errors: list[str] = []
    barrier = threading.Barrier(int(threads))

    def one(name: str) -> None:
        try:
            with table.append() as append:
                append.write(batch(name, 0))
                barrier.wait()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told
            errors.append(told(error))
        else:
            said.append((name, 0))

    workers = [threading.Thread(target=one, args=(f"w{number}",)) for number in range(int(threads))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    print(json.dumps({"said": said, "errors": errors}))


def spread(folder: str, partitions: str) -> None:
    """Append a row to each of many partitions, all by one commit."""
    names = [f"w{number}" for number in range(int(partitions))]
    with spillway.delta.open(folder).append() as append:
        append.write(pa.table({"writer": names, "number": [0] * len(names)}, schema=SCHEMA))
    print(json.dumps({"version": append.version}))


def in_turn(folder: str) -> None:
    """Append three times to one partition, the last time after another engine has appended."""
    table = spillway.delta.open(folder)
    for number in range(3):
        if number == 2:
            deltalake.write_deltalake(folder, batch("other", 0), mode="append")
        with table.append() as append:
            append.write(batch("w", number))
    print(json.dumps({"version": append.version}))


def detach(folder: str) -> None:
    """Write files for another process to commit, and say what came of it."""
    append = spillway.delta.open(folder).append()
    append.write(pa.table({"writer": ["a", "b"], "number": [1, 2]}, schema=SCHEMA))
    try:
        print(json.dumps({"adds": json.loads(append.detach())["adds"]}))
    except OSError as error:
        print(json.dumps({"error": told(error)}))


def doubt(folder: str) -> None:
    """Append, ask what became of it, and append again; and the same once the table was opened again."""
    table = spillway.delta.open(folder)
    first = table.append()
    first.write(batch("first", 0))
    said: dict[str, object] = {}
    try:
        said["first"] = first.commit()
    except CommitUnknown:
        said["first"] = "CommitUnknown"
    except OSError as error:
        said["first"] = told(error)
    said["token"] = token = first.token
    del first
    for suffix in ("", " of a table opened again"):
        if token is not None:
            said[f"outcome{suffix}"] = table.outcome(token).status
        try:
            with table.append() as append:
                append.write(batch("next", 0))
            said[f"next{suffix}"] = append.version
        except OSError as error:
            said[f"next{suffix}"] = told(error)
        del append, table
        gc.collect()
        table = spillway.delta.open(folder)
    said["version"] = table.version
    print(json.dumps(said))


def resident(line: str) -> int:
    """Bytes of this process in memory, now (``VmRSS``) or at most (``VmHWM``)."""
    (text,) = [each for each in Path("/proc/self/status").read_text().splitlines() if each.startswith(line)]
    return int(text.split()[1]) << 10


def one(folder: str, app_id: str | None = None) -> None:
    """Append a row, and tell by how many bytes the process has grown over a first append elsewhere."""
    with (
        tempfile.TemporaryDirectory() as elsewhere,
        spillway.delta.create(f"{elsewhere}/table", SCHEMA).append() as append,
    ):
        append.write(batch("one", 0))
    # The peak counts from here on.
    Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    by: dict[str, Any] = {} if app_id is None else {"app_id": app_id, "app_version": 1}
    with spillway.delta.open(folder).append(**by) as append:
        append.write(batch("one", 0))
    grown, most = resident("VmRSS") - before, resident("VmHWM") - before
    print(json.dumps({"version": append.version, "repeated": append.repeated, "grown": grown, "most": most}))


def checkpoint(folder: str) -> None:
    """Write a checkpoint."""
    print(json.dumps({"version": spillway.delta.open(folder).checkpoint()}))


def deletes(folder: str, number: str, processes: str, turns: str) -> None:
    """Delete a hundred rows of its own in each turn, beside other processes, and say how many they were."""
    table = spillway.delta.open(folder)
    for turn in range(int(turns)):
        first = (turn * int(processes) + int(number)) * 100
        print(table.delete([("id", ">=", first), ("id", "<", first + 100)]).rows)


def endless_deletes(folder: str, first: str, step: str) -> None:
    """Delete rows, a number of each file at a time, as long as somebody waits, and say so after each."""
    table = spillway.delta.open(folder)
    number, parent = int(first), os.getppid()
    while os.getppid() == parent:
        table.delete([("id", "=", number)])
        print(number, flush=True)
        number += int(step)


def endless_updates(folder: str, first: str) -> None:
    """Move rows to another partition, a number of each file at a time, as long as somebody waits."""
    table = spillway.delta.open(folder)
    number, parent = int(first), os.getppid()
    while os.getppid() == parent:
        table.update([("id", "=", number), ("part", "!=", "moved")], {"part": "moved"})
        print(number, flush=True)
        number += 1


def endless_merges(folder: str, first: str) -> None:
    """Move rows to another partition by their key, and insert another, as long as somebody waits."""
    table = spillway.delta.open(folder)
    number, parent = int(first), os.getppid()
    while os.getppid() == parent:
        table.merge(pa.table({"part": ["moved", "moved"], "id": [number, 10_000 + number]}), "id")
        print(number, flush=True)
        number += 1


def endless_upkeep(folder: str, first: str) -> None:
    """Delete a row, append another, compact and vacuum, as long as somebody waits; say so after each turn."""
    table = spillway.delta.open(folder)
    number, parent = int(first), os.getppid()
    while os.getppid() == parent:
        table.delete([("id", "=", number)])
        with table.append() as append:
            append.write(pa.table({"part": ["a"], "id": [1000 + number]}))
        table.optimize()
        table.purge()
        table.vacuum(retention=timedelta(0), dry_run=False, enforce_retention=False)
        print(number, flush=True)
        number += 1


def awaits(folder: str, way: str) -> None:
    """Begin a commit that a task waits for, and end before it has."""
    table = spillway.delta.open(folder)
    with table.append() as first:
        first.write(batch("a", 0))
    append = table.append()
    append.write(batch("a", 1))
    # A version that cannot be read: nobody commits.
    Path(folder, "_delta_log", f"{2:020}.json").symlink_to("nowhere")

    async def run() -> None:
        before = table.commit_stats().attempts
        task = asyncio.ensure_future(append.commit_async())
        while table.commit_stats().attempts == before:
            await asyncio.sleep(0.01)
        print("ending", flush=True)
        assert not task.done()

    if way == "cancelled":
        asyncio.run(run())
        return
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)
    loop.run_until_complete(run())


class ToldError(Exception):
    """Raised by the handler of a signal."""


def reads_a_pipe(folder: str, sign: str) -> None:
    """Scan a file, and a pipe that says nothing, which a thread reads ahead, and be told to stop."""
    table = spillway.delta.create(folder, SCHEMA)
    for name in ("first", "second"):
        path = Path(folder, f"{name}.parquet")
        pq.write_table(batch(name, 0, rows=20_000), path)
        table.commit(adds=[spillway.delta.AddFile(path.name, path.stat().st_size)])
    scan = table.scan()
    last = Path(folder, scan.files[-1].path)
    last.unlink()
    os.mkfifo(last)

    def tell(*_: object) -> None:
        raise ToldError

    signal.signal(signal.SIGTERM, tell)
    threading.Thread(target=stops_a_reader, args=(signal.Signals[sign],), daemon=True).start()
    stream = pa.RecordBatchReader.from_stream(scan)
    raised = []
    for number, turn in enumerate((stream.read_all, lambda: spin(1.0), table.files, table.scan)):
        try:
            try:
                turn()
            except pa.ArrowException:
                # It says that a signal came; Python raises once it runs again.
                spin(5.0)
        except (KeyboardInterrupt, ToldError) as error:
            raised.append(f"{number} {type(error).__name__}")
    print(*raised, flush=True)
    os._exit(0)


def spin(seconds: float) -> None:
    """Run Python for a time, as a program does that goes on."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def stops_a_reader(sign: signal.Signals) -> None:
    """Send this process a signal once a thread reads ahead, and end it if none does."""
    end = time.monotonic() + 30.0
    while not any(is_reading_ahead(task) for task in Path("/proc/self/task").iterdir()):
        if time.monotonic() > end:
            print("no thread reads ahead", flush=True)
            os._exit(1)
        time.sleep(0.01)
    time.sleep(0.2)
    os.kill(os.getpid(), sign)


def is_reading_ahead(task: Path) -> bool:
    """True of a thread that waits for a pipe."""
    try:
        name, state = (task / "comm").read_text(), (task / "stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return name == "spillway-scan\n" and state == "S"


if __name__ == "__main__":
    sys.path.append(str(Path(__file__).parents[2]))
    import tests.without_pandas  # noqa: F401

    programs = {
        "one": one,
        "checkpoint": checkpoint,
        "many": many,
        "endless": endless,
        "scarce": scarce,
        "at_once": at_once,
        "spread": spread,
        "in_turn": in_turn,
        "detach": detach,
        "doubt": doubt,
        "deletes": deletes,
        "endless_deletes": endless_deletes,
        "endless_updates": endless_updates,
        "endless_merges": endless_merges,
        "endless_upkeep": endless_upkeep,
        "reads_a_pipe": reads_a_pipe,
        "awaits": awaits,
    }
    programs[sys.argv[1]](*sys.argv[2:])
