"""Writers that are killed, interrupted, forked or forgotten."""

from __future__ import annotations

import gc
import io
import json
import signal
import time
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import spillway

from .programs import run, start

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from .conftest import OldFile

# On a busy machine a signal is noticed later, never earlier.
TRIES = 5
# Forks a writer twenty times and kills each at another moment; the first one lives, to time a whole write.
KILL = """
    import json, os, signal, sys, time
    import numpy as np, pyarrow as pa, spillway
    path, trials = sys.argv[1], int(sys.argv[2])
    with open(path, "rb") as file:
        old = file.read()
    rng = np.random.default_rng(0)
    table = pa.table({f"c{index}": rng.integers(0, 2**40, 100_000) for index in range(8)})
    wholes, ends, lengths = {old}, [], []
    for trial in range(4 * trials):
        pid = os.fork()
        if pid == 0:
            spillway.write_parquet(table, path, row_group_rows=10_000 + trial)
            os._exit(0)
        started = time.monotonic()
        calibrates = trial < 3
        if not calibrates:
            pause = float(rng.uniform(0, 1)) * min(lengths)
            time.sleep(pause)
            os.kill(pid, signal.SIGKILL)
        status = os.waitpid(pid, 0)[1]
        if calibrates:
            lengths.append(time.monotonic() - started)
        elif not os.WIFSIGNALED(status):
            # The machine is less busy than it was: a write takes no longer than this.
            lengths.append(pause)
        with open(path, "rb") as file:
            now = file.read()
        ends.append("killed" if os.WIFSIGNALED(status) else "lived")
        if now not in wholes:
            # New bytes have to be the whole file of this very trial.
            import pyarrow.parquet as pq
            groups = pq.ParquetFile(pa.BufferReader(now))
            assert groups.metadata.num_rows == 100_000
            assert groups.metadata.row_group(0).num_rows == 10_000 + trial, "bytes of another writer"
            assert groups.read(use_threads=False).equals(table)
            wholes.add(now)
        if ends.count("killed") == trials:
            break
    left = sorted(set(os.listdir(os.path.dirname(path))) - {os.path.basename(path)})
    print(json.dumps({"ends": ends, "left": left}))
"""


def test_a_killed_writer_leaves_the_old_file_or_a_whole_new_one(place: OldFile) -> None:
    found = run(KILL, place.path, 20)
    assert found["ends"][:3] == ["lived"] * 3
    assert found["ends"].count("killed") == 20, "hardly a writer was killed in the middle"
    for name in found["left"]:
        assert name.startswith("."), "what a killed writer leaves is hidden"
        assert not name.endswith(".parquet"), "what a killed writer leaves is no data file"


# Writes for minutes, and tells with what it stopped, and after how much time of its processor.
LONG = """
    import json, os, signal, sys, time
    import numpy as np, pyarrow as pa, spillway
    path, handler, feed = sys.argv[1:]
    if handler == "raise":
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
    rng = np.random.default_rng(0)
    table = pa.table({f"c{index}": rng.integers(0, 2**62, 2_000_000) for index in range(4)})
    try:
        with spillway.ParquetWriter(path, table.schema, compression="zstd", compression_level=19) as writer:
            print("writing", flush=True)
            if feed == "table":
                for _ in range(100):
                    writer.write(table)
            else:
                endless = (batch for _ in range(100) for batch in table.to_batches(max_chunksize=10_000))
                writer.write(pa.RecordBatchReader.from_batches(table.schema, endless))
    except BaseException as error:
        print(json.dumps({"kind": type(error).__name__, "at": time.process_time()}), flush=True)
"""


def processor_time(program: subprocess.Popen[str]) -> float:
    """Seconds that a process has computed, without those in which others had the processor."""
    # Linux has a clock for each process: clock_getcpuclockid(3).
    return time.clock_gettime((~program.pid << 3) | 2)


def interrupt(program: subprocess.Popen[str], number: signal.Signals) -> tuple[str, float]:
    """Sends the signal once the program writes; returns the rest of its output, and the time of its processor
    when the signal was sent.
    """
    assert program.stdout is not None
    try:
        assert program.stdout.readline() == "writing\n"
        begun = processor_time(program)
        while processor_time(program) < begun + 0.5:  # into the middle of a write that takes minutes
            time.sleep(0.01)
        sent = processor_time(program)
        program.send_signal(number)
        return program.communicate(timeout=60)[0], sent
    finally:
        program.kill()
        program.communicate()


@pytest.mark.parametrize("feed", ["table", "stream"])
@pytest.mark.parametrize(
    ("number", "kind"),
    [(signal.SIGINT, "KeyboardInterrupt"), (signal.SIGTERM, "SystemExit")],
    ids=["int", "term"],
)
def test_a_signal_ends_a_long_write_within_a_second(
    place: OldFile, number: signal.Signals, kind: str, feed: str
) -> None:
    def seconds() -> float:
        """The time of the processor that goes between the signal and its exception."""
        output, sent = interrupt(start(LONG, place.path, "raise", feed), number)
        answer = json.loads(output)
        assert answer["kind"] == kind
        assert place.is_untouched()
        return float(answer["at"]) - sent

    assert any(seconds() < 1 for _ in range(TRIES))


def test_a_terminated_writer_leaves_the_old_file(place: OldFile) -> None:
    program = start(LONG, place.path, "default", "table")
    interrupt(program, signal.SIGTERM)
    assert program.returncode == -signal.SIGTERM
    assert place.path.read_bytes() == place.before


def test_an_exception_inside_the_block_leaves_the_old_file(place: OldFile) -> None:
    class OwnError(Exception):
        pass

    writer = spillway.ParquetWriter(place.path, row_group_rows=10)

    def fail_in_the_middle() -> None:
        with writer:
            writer.write(pa.table({"n": range(1000)}))
            raise OwnError

    with pytest.raises(OwnError):
        fail_in_the_middle()
    assert place.is_untouched()
    assert writer.closed


def test_a_writer_that_is_dropped_leaves_the_old_file(place: OldFile) -> None:
    writer = spillway.ParquetWriter(place.path, row_group_rows=10)
    writer.write(pa.table({"n": range(1000)}))
    del writer
    gc.collect()
    assert place.is_untouched()


def test_a_writer_alive_at_exit_leaves_the_old_file(place: OldFile) -> None:
    run(
        """
        import sys
        import pyarrow as pa, spillway
        writer = spillway.ParquetWriter(sys.argv[1], row_group_rows=10)
        writer.write(pa.table({"n": range(1000)}))
        print("null")
        """,
        place.path,
    )
    assert place.is_untouched()


# A child forked in the middle of a write ends in one of several ways; then the parent goes on.
FORK = """
    import gc, json, os, sys
    import pyarrow as pa, spillway
    path, way = sys.argv[1:]
    writer = spillway.ParquetWriter(path, row_group_rows=10)
    writer.write(pa.table({"n": range(1000)}))
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        if way == "abort":
            writer.abort()
        elif way == "block":
            try:
                with writer:
                    raise RuntimeError("in the child")
            except RuntimeError:
                pass
        elif way == "exit":
            sys.exit(0)
        del writer
        gc.collect()
        os._exit(0)
    status = os.waitpid(pid, 0)[1]
    writer.write(pa.table({"n": range(1000, 2000)}))
    writer.close()
    print(json.dumps(status))
"""


@pytest.mark.parametrize("way", ["drop", "abort", "block", "exit"])
def test_a_forked_child_does_not_touch_the_parents_file(place: OldFile, way: str) -> None:
    assert run(FORK, place.path, way) == 0
    assert pq.read_table(place.path).column("n").to_pylist() == list(range(2000))
    assert place.names() == [place.path.name]


def test_a_writer_used_in_a_forked_child_does_not_corrupt_the_parents_file(place: OldFile) -> None:
    status = run(
        """
        import json, os, sys
        import pyarrow as pa, spillway
        writer = spillway.ParquetWriter(sys.argv[1], row_group_rows=10)
        writer.write(pa.table({"n": range(995)}))
        pid = os.fork()
        if pid == 0:
            try:
                writer.write(pa.table({"n": range(5000, 6000)}))
                writer.close()
            except Exception:
                os._exit(3)
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        writer.write(pa.table({"n": range(995, 2000)}))
        writer.close()
        print(json.dumps(status))
        """,
        place.path,
    )
    assert status == 3, "the child has to be told"
    assert pq.read_table(place.path).column("n").to_pylist() == list(range(2000))


def test_a_writer_is_no_reference_cycle(tmp_path: Path) -> None:
    """Dropping the last reference is enough; nothing waits for the collector."""
    gc.collect()
    gc.disable()
    try:
        writer = spillway.ParquetWriter(tmp_path / "a.parquet")
        writer.write(pa.table({"n": [1]}))
        del writer
        assert list(tmp_path.iterdir()) == []
    finally:
        gc.enable()


def test_no_reference_to_a_batch_is_kept() -> None:
    out = io.BytesIO()
    before = pa.total_allocated_bytes()
    with spillway.ParquetWriter(out) as writer:
        batch = pa.record_batch({"n": pa.array(range(100_000), pa.int64())})
        writer.write(batch)
        del batch
        assert pa.total_allocated_bytes() - before < 100_000
