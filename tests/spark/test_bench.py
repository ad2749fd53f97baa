"""``spillway bench`` with Spark: its own writers as backends, and samples on the executors of a cluster."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from typer.testing import CliRunner

from spillway.bench.record import SAMPLES, SCHEMA, VALIDATION
from spillway.cli.app import app
from spillway.harness import records

from ..pipeline.workers import lives
from .cluster import BASE_PYTHON

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spillway.spark import Packed

    from .cluster import Cluster

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
SPILLWAY = Path(sys.executable).with_name("spillway")
SECONDS = 500
WORKER = str(Path("bench", "worker", "main.py"))


def command(disk: Path, *options: str) -> list[str]:
    return [str(SPILLWAY), "bench", "--out", str(disk / "runs"), "--no-trace", "--probes", "0", *options]


def environment(disk: Path, **more: str) -> dict[str, str]:
    return {**os.environ, "SPILLWAY_CACHE": str(disk / "cache"), "COLUMNS": "200", **more}


def bench(disk: Path, *options: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(disk, *options),
        env=environment(disk, **more),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def on(cluster: Cluster, *options: str) -> list[str]:
    small = ["--conf", "spark.executor.memory=512m", "--conf", "spark.executorEnv.PYTHONNOUSERSITE=1"]
    return ["--on", cluster.master, *small, *options]


def run_of(disk: Path) -> tuple[Path, list[dict[str, Any]]]:
    """The folder of the only run, and its samples."""
    (folder,) = (disk / "runs").iterdir()
    samples = records.read_lines(folder / SAMPLES)
    for sample in samples:
        SCHEMA.check(sample)
    return folder, samples


@pytest.fixture
def place(disk: Path, tmp_path: Path) -> Path:
    """A folder of a test, on a disk."""
    folder = disk / tmp_path.name
    folder.mkdir()
    return folder


# Each sample is a JVM and ten writes before the one that counts.
IN_A_JVM = ("spark-parquet", "spark-delta")


# In continuous integration another backend is warm in its JVM (bench/test_in_jvm.py), reports tell of one
# (bench/test_elsewhere.py), and Spark's own writers write the rows that are given (backends/test_spark.py).
@pytest.mark.soak
def test_sparks_own_writers_are_measured_warm_and_validated(place: Path) -> None:
    backends = ("spillway", *IN_A_JVM)
    options = ["--backend", ",".join(backends), "--rows", "200", "--mode", "batches", "--memory", "1GB"]
    done = bench(place, *options, "--samples", "1", "--validate", "pyarrow")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(backends)} of {len(backends)}" in done.stdout
    folder, samples = run_of(place)
    by_backend = {sample["cell"]["backend"]: sample for sample in samples}
    assert {sample["outcome"] for sample in samples} == {"ok"}
    assert by_backend["spillway"]["jvm"] is None
    for name in IN_A_JVM:
        sample = by_backend[name]
        jvm = sample["jvm"]
        assert jvm["warm_up"]["rows"] == 200
        assert len(jvm["warm_up"]["seconds"]) == 10
        assert 0 < jvm["heap"]["live_after_bytes"] <= jvm["heap"]["peak_bytes"] <= jvm["heap"]["limit_bytes"]
        assert jvm["both_peak_bytes"] - jvm["rss_peak_bytes"] == sample["memory"]["after"]["high_water"]
        assert jvm["collectors"]
        assert 0 < jvm["hand_over_seconds"] < sample["use"]["wall_seconds"]
        # That of the JVM is in it: Python alone hands over, and waits.
        assert sample["use"]["bytes_written"] > sample["output"]["bytes"]
    report = (folder / "report.md").read_text()
    rows = {line.split("|")[1].strip(): line.split("|") for line in report.splitlines() if "| ok |" in line}
    assert {rows[name][5].strip() for name in IN_A_JVM} == {"-"}
    assert rows["spillway"][5].strip() != "-"
    assert "Without peak MB are writers in a JVM" in report
    assert "spark-delta, medians: the JVM and Python had" in report
    assert not [each for each in folder.iterdir() if each.name == "outputs"]


def test_samples_of_a_cluster_name_their_hosts_and_merge_into_one_run(cluster: Cluster, place: Path) -> None:
    options = ["--backend", "spillway,pyarrow-streaming", "--rows", "1000", "--mode", "batches"]
    # A canary proves the limit on each host, and takes all of it.
    more = ["--samples", "2", "--validate", "pyarrow", "--pack", "--memory", "512MB"]
    # Both executors are waited for: the one that comes first would take both blocks.
    registered = {"minRegisteredResourcesRatio": "1", "maxRegisteredResourcesWaitingTime": "500s"}
    both = ["--conf", "spark.cores.max=2"]
    both += [
        part for name, value in registered.items() for part in ("--conf", f"spark.scheduler.{name}={value}")
    ]
    done = bench(place, *on(cluster, *options, *more, *both), PYSPARK_PYTHON=str(BASE_PYTHON))
    assert done.returncode == 0, done.stdout + done.stderr
    folder, samples = run_of(place)
    assert len(samples) == 4
    assert {sample["outcome"] for sample in samples} == {"ok"}
    # Two blocks, each on one host.
    hosts = {sample["block"]: sample["placement"]["host"] for sample in samples}
    assert sorted(hosts.values()) == ["host-1", "host-2"]
    assert all(sample["placement"]["host"] == hosts[sample["block"]] for sample in samples)
    assert {sample["cell"]["limit_kind"] for sample in samples} != {"none"}

    described = records.read_json(folder / records.ENVIRONMENT)["hosts"]
    assert [host["host"] for host in described] == ["host-1", "host-2"]
    for host in described:
        assert host["cpu_model"]
        assert [proof["holds"] for proof in host["limit_proofs"]] == [True]
    contents = {sample["output"]["content_hash"] for sample in samples}
    verdicts = records.read_lines(folder / VALIDATION)
    assert {verdict["content_hash"] for verdict in verdicts} == contents
    assert {verdict["outcome"] for verdict in verdicts} == {"ok"}
    report = (folder / "report.md").read_text()
    for name in ("host-1", "host-2"):
        assert f"- {name}: " in report
    assert "2 samples in 1 block by 1 executor; limit of 512 MB" in report
    everything = report + json.dumps(samples) + json.dumps(described)
    assert "127.0.0." not in everything
    assert str(place) not in everything


def descendants(cluster: Cluster) -> Iterator[psutil.Process]:
    """The processes below the daemons of a cluster."""
    for daemon in cluster.processes[1:]:
        yield from psutil.Process(daemon).children(recursive=True)


def measured(cluster: Cluster) -> list[psutil.Process]:
    """The measured processes that executors have started."""
    found = []
    for process in descendants(cluster):
        try:
            if any(word.endswith(WORKER) for word in process.cmdline()):
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found


# In continuous integration Ctrl-C ends a bench here (cli/test_bench.py), and a job (test_interrupt.py).
@pytest.mark.soak
def test_ctrl_c_leaves_no_process_on_any_worker(cluster: Cluster, packed: Packed, place: Path) -> None:
    options = ["--backend", "pyarrow-streaming", "--rows", "20000", "--mode", "batches", "--samples", "40"]
    # The archive that is there, in place of one by --pack, which the test above has.
    archive = [word for name, value in packed.settings.items() for word in ("--conf", f"{name}={value}")]
    started = command(place, *on(cluster, *options, "--validate", "none", "--memory", "none", *archive))
    with subprocess.Popen(
        started,
        env=environment(place, PYSPARK_PYTHON=str(BASE_PYTHON)),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as program:
        while not (seen := measured(cluster)):
            assert program.poll() is None, program.communicate()
            time.sleep(0.1)  # looking at all processes is dear
        below = list(descendants(cluster))
        program.send_signal(signal.SIGINT)
        out, _ = program.communicate(timeout=SECONDS)
    assert program.returncode == 130, out
    assert seen
    deadline = time.monotonic() + 60
    while left := [each for each in below if lives(each)]:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)
    assert not measured(cluster)


SMALL = ("--validate", "none", "--rows", "1000", "--mode", "batches")


def refused(disk: Path, *options: str, **more: str) -> str:
    """The reason why it is not run, which is said before Spark starts."""
    words = command(disk, *options, *SMALL)[1:]
    done = CliRunner().invoke(app, words, env=environment(disk, **more))
    assert done.exit_code == 2, done.output
    assert not (disk / "runs").exists()
    return done.stderr


def test_executors_without_the_wheel_are_one_clear_error(cluster: Cluster, place: Path) -> None:
    # One executor says as much as two.
    options = on(cluster, "--backend", "spillway", *SMALL, "--conf", "spark.cores.max=1")
    done = bench(place, *options, PYSPARK_PYTHON=str(BASE_PYTHON))
    assert done.returncode == 2, done.stdout
    assert "Traceback" not in done.stderr
    assert not (place / "runs").exists()
    assert "executors have no Spillway" in done.stderr
    assert "send it with --pack" in done.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--on", "spark://127.0.0.1:1"], "--on spark://127.0.0.1:1: no master answers at this address"),
        (["--on", "local[2]"], "is this machine: leave --on out"),
        (["--on", "127.0.0.1:7077"], "is not the address of a master"),
        (["--on", "spark://h:1", "--backend", "spark-delta"], "would start another Spark"),
        (["--on", "spark://h:1", "--least-memory", "2"], "leave it out, or measure without --on"),
        (["--on", "spark://h:1", "--samples", "auto"], "takes blocks in parallel: give a number"),
        (["--pack"], "name their cluster with --on"),
    ],
)
def test_what_no_cluster_can_do_is_refused(place: Path, options: list[str], said: str) -> None:
    backend = [] if "--backend" in options else ["--backend", "pyarrow-streaming"]
    assert said in refused(place, *options, *backend)


def test_without_java_the_reason_is_in_the_refusal(place: Path) -> None:
    said = refused(place, "--backend", "spark-parquet", JAVA_HOME="/nowhere")
    assert "spark-parquet: JAVA_HOME is '/nowhere', which holds no bin/java" in said
