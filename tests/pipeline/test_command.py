"""``spillway pipeline`` as a user meets it: from options to files, record and report, and what it refuses."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import deltalake
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from spillway import datasets
from spillway.cli.app import app
from spillway.harness import records
from spillway.spark.pipeline.record import PIPELINE, SCHEMA

from ..counts import SOAK
from .workers import kill_a_writer, lives

SPILLWAY = Path(sys.executable).with_name("spillway")
SECONDS = 280


def pipeline(folder: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [SPILLWAY, "pipeline", *options],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def run_of(folder: Path) -> tuple[dict[str, Any], str]:
    """The record and the report of the only run."""
    (run,) = (folder / "runs" / "pipeline").iterdir()
    (record,) = records.read_lines(run / PIPELINE)
    SCHEMA.check(record)
    return record, (run / "report.md").read_text()


def logs(rows: int, seed: int = 1) -> pa.Table:
    return pa.Table.from_batches(datasets.batches("logs", seed, rows))


# One run for the report, the repeated task and the append, as each start of a JVM costs ten seconds or more.
# A folder of files is written through the same steps in test_steps.py, and by the command before a release.
@pytest.mark.spark
@pytest.mark.parametrize("table", ["delta", *(["parquet"] if SOAK else [])])
def test_a_pipeline_from_its_options_to_its_report_with_a_task_killed(tmp_path: Path, table: str) -> None:
    to = tmp_path / "out"
    before = logs(500, 2)
    if table == "delta":
        deltalake.write_deltalake(to, before)
    else:
        to.mkdir()
        pq.write_table(before, to / "before.parquet")
    options = ("--rows", "80K", "--partitions", "4", "--master", "local[2]", "--seed", "3", "--to", "out")
    # A folder for Spark's files that was there before stays, with what is in it.
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    (scratch / "mine").touch()
    with subprocess.Popen(
        [SPILLWAY, "pipeline", *options, "--mode", "append", "--conf", f"spark.local.dir={scratch}"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        kill_a_writer(program, to, lambda: [psutil.Process(program.pid)])
        out, err = program.communicate(timeout=SECONDS)
    assert program.returncode == 0, err
    assert "Traceback" not in err
    assert (scratch / "mine").exists()
    for line in ("Spark 4", "writing 80,000 rows of logs: ", "audited: spark-vectorized read"):
        assert line in out
    files = {each for each in to.rglob("*.parquet") if "_delta_log" not in each.parts}
    if table == "delta":
        found = deltalake.DeltaTable(to)
        assert found.version() == 1
        assert {Path(each) for each in found.file_uris()} == files
    rows = pa.concat_tables([pq.read_table(each).select(before.column_names) for each in files])
    expected = pa.concat_tables([before, logs(80_000, 3)])
    order = [("log_offset", "ascending"), ("message", "ascending")]
    assert rows.cast(expected.schema).sort_by(order).equals(expected.sort_by(order))

    record, report = run_of(tmp_path)
    assert (record["outcome"], record["seed"], record["cell"]["partitions"]) == ("ok", 3, 4)
    assert {each["stage"]: each["failed"] for each in record["tasks"]}["write"] >= 1
    assert [phase["phase"] for phase in record["phases"]] == [
        "start",
        "read",
        "write",
        "audit",
        "summarise",
        "publish",
    ]
    assert record["output"]["files"] == len(files) - 1 == 4
    assert record["audit"]["rows"] == record["summary"]["rows"] == 80_000  # without those of before
    assert record["driver"]["python_peak_bytes"] > record["driver"]["python_growth_bytes"]
    assert record["driver"]["jvm_peak_bytes"] > record["driver"]["jvm_live_bytes"] > 0
    assert str(tmp_path) not in json.dumps(record) + report
    for title in ("## Outcome", "## Stages", "## Percentiles", "## Errors by service and hour"):
        assert title in report
    assert "| checkout-api |" in report


def press(program: subprocess.Popen[str], stopped: threading.Event) -> None:
    """Press Ctrl-C again and again."""
    while not stopped.is_set():
        program.send_signal(signal.SIGINT)
        stopped.wait(0.2)


@pytest.mark.spark
def test_ctrl_c_leaves_neither_files_nor_a_version_when_it_says_so(tmp_path: Path) -> None:
    """A user who is impatient presses it again."""
    command = [
        SPILLWAY,
        "pipeline",
        "--rows",
        "100M",
        "--master",
        "local[2]",
        "--table",
        "delta",
        "--to",
        "table",
    ]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1
    ) as program:
        assert program.stdout is not None
        said = []
        for line in program.stdout:
            said.append(line)
            if line.rstrip().endswith("running") and " 0 running" not in line:
                break
        begun = psutil.Process(program.pid).children(recursive=True)
        assert list((tmp_path / "table").glob("spillway-*")), said
        stopped = threading.Event()
        impatient = threading.Thread(target=press, args=(program, stopped))
        impatient.start()
        assert program.stderr is not None
        err = next((line for line in program.stderr if "interrupted in the stage" in line), "")
        left = [each.name for each in tmp_path.iterdir()]
        running = [each for each in begun if lives(each, "java")]
        stopped.set()
        impatient.join()
        out, more = program.communicate(timeout=SECONDS)
    assert program.returncode == 130, err + more
    for said_so in ("interrupted; its tasks are being cancelled", "Spark is being stopped"):
        assert said_so in out
    assert "interrupted in the stage write: nothing was committed" in err
    assert "Traceback" not in err + more
    assert (left, running) == (["runs"], [])
    assert begun
    assert not psutil.wait_procs(begun, timeout=60)[1]
    record, report = run_of(tmp_path)
    assert (record["outcome"], record["died_in"], record["output"]) == ("interrupted", "write", None)
    assert "Nothing was committed." in report


def refused(folder: Path, *options: str, **environment: str) -> str:
    """The one line that says why it does not run."""
    before = sorted(folder.iterdir())
    done = pipeline(folder, *options, **environment)
    assert done.returncode == 2, done.stdout + done.stderr
    assert sorted(folder.iterdir()) == before
    assert "Traceback" not in done.stderr
    return " ".join(done.stderr.split())


def closed_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


def test_a_master_that_does_not_answer_is_one_clear_error(tmp_path: Path) -> None:
    master = f"spark://127.0.0.1:{closed_port()}"
    said = refused(tmp_path, "--rows", "10", "--to", "out", "--master", master)
    assert said.startswith(f"spillway pipeline: --master {master}: no master answers at this address")
    assert "run on this machine with --master 'local[*]'" in said


def test_absent_java_is_one_clear_error(tmp_path: Path) -> None:
    with without("JAVA_HOME"):
        said = refused(tmp_path, "--rows", "10", "--to", "out", PATH=str(tmp_path))
    assert "there is no java on PATH. Spark needs Java 17 or newer" in said


def test_another_pyspark_is_one_clear_error(tmp_path: Path) -> None:
    found_first = tmp_path / "site" / "pyspark-3.4.0.dist-info"
    found_first.mkdir(parents=True)
    (found_first / "METADATA").write_text("Metadata-Version: 2.1\nName: pyspark\nVersion: 3.4.0\n")
    said = refused(tmp_path, "--rows", "10", "--to", "out", PYTHONPATH=str(found_first.parent))
    assert said == (
        "spillway pipeline: PySpark 3.4.0 is installed, and 3.5 to 4.3 is needed: "
        "pip install 'spillway[spark]'"
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ["--rows", "10", "--to", "full"],
            "--to full exists: choose another place, or say with --mode append",
        ),
        (["--rows", "10", "--to", "full", "--mode", "error"], "--to full exists"),
        (["--rows", "10", "--to", "delta", "--mode", "error"], "--to delta exists"),
        (["--rows", "10", "--to", "file"], "--to file is a file: name a folder"),
        (["--rows", "10", "--to", "delta", "--table", "parquet", "--mode", "append"], "is a Delta table"),
        (["--to", "out"], "--rows is needed: the dataset logs is unlimited"),
        (["--rows", "0", "--to", "out"], "give a whole number from 1 up"),
        (["--rows", "10", "--to", "out", "--dataset", "log"], "--dataset log: choose from logs, logs-nested"),
        (["--rows", "10", "--to", "out", "--mode", "replace"], "choose from error, append, overwrite"),
        (["--rows", "10", "--to", "out", "--codec", "zip"], "zip"),
        (["--rows", "10", "--to", "out", "--master", "here"], "is not the address of a master"),
        (["--rows", "10", "--to", "out", "--pack"], "--pack is for executors elsewhere"),
        (
            ["--rows", "10", "--to", "out", "--pack", "--master", "yarn", "--dataset", "lineitem"],
            "--pack does not include the program that generates lineitem",
        ),
        (["--rows", "10", "--to", "out", "--conf", "secret"], "--conf takes NAME=VALUE"),
        (["--to", "out", "--input", "absent.csv"], "absent.csv: no such file or folder"),
        (["--to", "out", "--input", "rows.arrow"], "has no known format: give Parquet, CSV or NDJSON"),
        (["--to", "out", "--input", "rows.csv", "--check", "id"], "is not a check: write not_null(id)"),
        (["--to", "out", "--input", "rows.csv", "--transform", "absent:f"], "No module named 'absent'"),
        (["--to", "out", "--input", "rows.csv", "--bad-rows", "skip"], "choose one of 'fail', 'drop'"),
        (["--to", "out", "--rows", "10", "--check", "not_null(id)"], "are for --input"),
        (["--to", "out", "--input", "rows.csv", "--rows", "10"], "with --input, all rows are written"),
    ],
    ids=lambda each: " ".join(each[2:]) if isinstance(each, list) else None,
)
def test_what_cannot_be_run_is_said_before_spark_starts(
    places: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], said: str
) -> None:
    monkeypatch.chdir(places)
    before = sorted(places.iterdir())
    done = CliRunner().invoke(app, ["pipeline", *options])
    assert done.exit_code == 2, done.output
    assert said in " ".join(done.stderr.split())
    assert sorted(places.iterdir()) == before


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with something at every name but ``out`` and ``absent.csv``."""
    folder = tmp_path_factory.mktemp("places")
    (folder / "full").mkdir()
    (folder / "full" / "other.txt").touch()
    (folder / "file").write_text("text")
    (folder / "rows.csv").write_text("a\n1\n")
    table = pa.table({"a": [1]})
    with pa.ipc.new_file(str(folder / "rows.arrow"), table.schema) as file:
        file.write_table(table)
    deltalake.write_deltalake(folder / "delta", table)
    return folder


@contextlib.contextmanager
def without(name: str) -> Any:
    """The environment without a variable."""
    before = os.environ.pop(name, None)
    try:
        yield
    finally:
        if before is not None:
            os.environ[name] = before
