"""`spillway write` as a process: interrupts, what it may not write to, and how much it grows."""

from __future__ import annotations

import io
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq
import pytest

import spillway.delta

from ..counts import count
from ..faults.programs import IS_ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

SPILLWAY = Path(sys.executable).with_name("spillway")
OUTPUTS = {"file": [], "folder": ["--partition-by", "service"], "table": ["--to-delta"]}


def lines(first: int, number: int) -> bytes:
    """Lines of logs, of which no two are the same."""
    return "".join(
        f'{{"id":{row},"service":"s{row % 11}","status":{200 + row % 7 * 50},"seconds":{row % 977 / 8},'
        f'"path":"/api/v1/items/{row * 2654435761 % 2**32:08x}","agent":"client/{row % 13}.{row % 7}",'
        f'"message":"request {row} took its time on shard {row % 101}"}}\n'
        for row in range(first, first + number)
    ).encode()


def table_of(rows: bytes) -> bytes:
    """The same rows as CSV."""
    table = pyarrow.json.read_json(io.BytesIO(rows))
    sink = io.BytesIO()
    pyarrow.csv.write_csv(table, sink)
    return sink.getvalue()


CONTENT = {"ndjson": lines(0, 10_000), "csv": table_of(lines(0, 20_000))}


@contextmanager
def writing(*arguments: object, content: bytes) -> Iterator[subprocess.Popen[bytes]]:
    """The command while it waits for more of its standard input, of which it has taken most."""
    with subprocess.Popen(
        [SPILLWAY, "write", "-", *map(str, arguments)],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # A group of its own: the signal is for it alone.
        start_new_session=True,
    ) as process:
        assert process.stdin is not None
        try:
            # A pipe holds less than that: once it is written, most of it was read.
            process.stdin.write(content)
            process.stdin.flush()
            yield process
        finally:
            with suppress(BrokenPipeError):
                process.stdin.close()
            if process.poll() is None:
                process.kill()


@pytest.mark.parametrize(
    ("output", "form", "number"),
    [
        ("file", "ndjson", signal.SIGINT),
        ("file", "csv", signal.SIGINT),
        ("folder", "ndjson", signal.SIGTERM),
        ("table", "ndjson", signal.SIGINT),
    ],
)
def test_an_interrupt_leaves_no_file(tmp_path: Path, output: str, form: str, number: signal.Signals) -> None:
    arguments = [tmp_path / "place", *OUTPUTS[output], "--memory", "4MB"]
    with writing(*arguments, content=CONTENT[form]) as process:
        process.send_signal(number)
        assert process.stderr is not None
        said = process.stderr.read().decode()
        assert process.wait() == 130, said
    assert "interrupted: " in said
    assert "is as it was" in " ".join(said.split())
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_an_interrupt_leaves_the_file_that_was_there(tmp_path: Path) -> None:
    (tmp_path / "out.parquet").write_bytes(b"old")
    arguments = [tmp_path / "out.parquet", "--mode", "overwrite", "--memory", "4MB"]
    with writing(*arguments, content=CONTENT["ndjson"]) as process:
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("out.parquet", b"old")]


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A folder that other users reach; a run of pytest that begins takes the way to its own from them."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        path.chmod(0o755)
        yield path


# A first file imports what another user might not be able to read.
AS_ANOTHER = """
    import os, sys
    from spillway.cli.app import app

    user, source, first, out = sys.argv[1:]
    app(["write", source, first], standalone_mode=False)
    os.setuid(int(user))
    app(["write", source, out])
"""


def test_a_folder_without_permission_is_named(reachable: Path) -> None:
    closed = reachable / "closed"
    closed.mkdir()
    (reachable / "rows.csv").write_text("a\n1\n")
    closed.chmod(0o555)
    # Permissions do not bind root: then an unprivileged user tries.
    done = subprocess.run(
        [
            *(sys.executable, "-c", dedent(AS_ANOTHER), str(65534 if IS_ROOT else os.geteuid())),
            *(reachable / "rows.csv", reachable / "first.parquet", closed / "out.parquet"),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 2
    assert "out.parquet: Permission denied" in " ".join(done.stderr.split())
    assert list(closed.iterdir()) == []


def test_standard_output_takes_the_bytes_of_the_file(tmp_path: Path) -> None:
    command = f"'{SPILLWAY}' write - - | cat > '{tmp_path}/out.parquet'"
    subprocess.run(
        ["bash", "-ec", command], input=lines(0, 100), check=True, timeout=120, capture_output=True
    )
    with duckdb.connect() as engine:
        assert engine.execute(
            "select count(*) from read_parquet(?)", [f"{tmp_path}/out.parquet"]
        ).fetchone() == (100,)


# Tells by how much the high-water mark of resident memory rose while the command ran.
GROWN = """
    import json, sys
    from spillway.cli.app import app

    def status(key):
        return next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith(key))

    # A file before imports all that is imported, and takes what is taken once.
    app(["write", *sys.argv[1:3], "--quiet"], standalone_mode=False)
    before = status("VmRSS")
    open("/proc/self/clear_refs", "w").write("5")
    app(["write", "-", *sys.argv[3:]], standalone_mode=False)
    print(json.dumps(status("VmHWM") - before))
"""


@pytest.mark.timeout(count(quick=300, ci=300, soak=3600))
def test_a_pipe_of_any_length_is_written_in_the_memory_that_was_given(disk: Path) -> None:
    size = count(quick=30 << 20, ci=30 << 20, soak=2_000_000_000)
    limit = count(quick=24_000_000, ci=24_000_000, soak=64_000_000)
    source, out, warm = disk / "lines.ndjson", disk / "lines.parquet", disk / "warm.parquet"
    source.write_bytes(lines(0, 100))
    process = subprocess.Popen(
        [sys.executable, "-c", dedent(GROWN), source, warm, out, "--memory", str(limit), "--quiet"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with process, source.open("ab") as file:
        assert process.stdin is not None
        process.stdin.write(source.read_bytes())
        for first in itertools.count(100, 5_000):
            block = lines(first, 5_000)
            process.stdin.write(block)
            file.write(block)
            if file.tell() >= size:
                break
        process.stdin.close()
        assert process.stdout is not None
        grown = json.loads(process.stdout.read())
    assert process.returncode == 0
    assert grown < limit
    with duckdb.connect() as engine:
        # One hash of each row; sums know nothing of their order, so the number of the row is part of it.
        digest = "select count(*), sum(hash({columns})) from {source}"
        names = engine.execute(f"describe select * from read_parquet('{out}')").fetchall()  # noqa: S608
        columns = ", ".join(name for name, *_ in names)
        engine.execute("set threads = 1")
        engine.execute("set memory_limit = '1GB'")
        read = {
            source: f"read_json('{source}', format='newline_delimited')",
            out: f"read_parquet('{out}')",
        }
        found = [
            engine.execute(digest.format(columns=columns, source=read[each])).fetchone() for each in read
        ]
    assert found[0] == found[1]
    assert found[0] is not None
    assert found[0][0] >= size // 300
    for path in (source, out, warm):
        path.unlink()


NO_ROOM = Path("/dev/full")


@pytest.mark.parametrize("output", ["file", "table"])
@pytest.mark.parametrize("error", ["full", "closed"])
def test_rows_that_are_written_are_no_failure_for_want_of_a_message(
    tmp_path: Path, output: str, error: str
) -> None:
    (tmp_path / "rows.csv").write_text("a\n1\n")
    redirected = f"2> {NO_ROOM}" if error == "full" else "2>&-"
    command = f"{SPILLWAY} write rows.csv place {' '.join(OUTPUTS[output])} {redirected}"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, check=False)
    assert done.returncode == 0
    place = tmp_path / "place"
    read = pq.read_table if output == "file" else lambda path: pa.table(spillway.delta.open(path).scan())
    assert read(place)["a"].to_pylist() == [1]


@pytest.mark.parametrize(
    ("command", "status", "said"),
    [
        ("inspect rows.parquet > /dev/full", 2, "standard output: No space left on device"),
        ("inspect --json rows.parquet > /dev/full", 2, "standard output: No space left on device"),
        ("inspect rows.parquet >&-", 141, ""),
        ("write rows.csv - >&-", 2, "Broken pipe"),
        ("write - out.parquet <&-", 2, "standard input"),
        ("write --rewrite ''", 2, "a path is empty"),
        ("write '' out.parquet", 2, "a path is empty"),
        ("write rows.csv ''", 2, "a path is empty"),
        ("write rows.csv out.parquet --encoding idna", 2, "Python knows no such text encoding"),
        ("inspect /dev/null", 2, "is not a regular file"),
    ],
)
def test_streams_and_arguments_that_are_not_there_are_named(
    tmp_path: Path, command: str, status: int, said: str
) -> None:
    (tmp_path / "rows.csv").write_text("a\n1\n")
    spillway.write_parquet({"a": [1]}, tmp_path / "rows.parquet")
    before = (tmp_path / "rows.parquet").read_bytes()
    done = subprocess.run(
        ["bash", "-c", f"{SPILLWAY} {command}"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == status, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert (tmp_path / "rows.parquet").read_bytes() == before
    assert not (tmp_path / "out.parquet").exists()
