"""Reports of samples that a JVM wrote, or executors of a cluster took, from runs made of one real sample."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock

import pytest

from spillway.bench.conclusion import conclude
from spillway.bench.figures import draw_figures
from spillway.bench.plan import Options
from spillway.bench.record import SAMPLES, SCHEMA
from spillway.bench.report import write_html, write_report
from spillway.bench.resume import command_of, read_begun
from spillway.bench.run import _cores_here, _take_on_executors
from spillway.bench.side_tables import memory_table, probe_costs
from spillway.bench.summary import RunSummary, read_run
from spillway.bench.tables import ranking_table, rankings
from spillway.errors import OptionError
from spillway.harness import records

from .made_runs import Writes, make_run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

READING = {
    "version": "17.0.15",
    "warm_up": {"rows": 10_000, "seconds": [3.5, 0.9, 0.5]},
    "compilation_seconds": 0.25,
    "hand_over_seconds": 0.75,
    "heap": {
        "limit_bytes": 1_073_000_000,
        "live_before_bytes": 80_000_000,
        "peak_bytes": 612_000_000,
        "live_after_bytes": 95_000_000,
    },
    "collectors": [{"name": "Copy", "runs": 4, "seconds": 0.12}, {"name": "Old", "runs": 1, "seconds": 0.08}],
    "rss_before_bytes": 700_000_000,
    "rss_peak_bytes": 800_000_000,
    "both_peak_bytes": 1_234_000_000,
}


def changed(folder: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> RunSummary:
    """A run again, with each of its samples changed."""
    samples = [change(sample) for sample in records.read_lines(folder / SAMPLES)]
    (folder / SAMPLES).unlink()
    for sample in samples:
        SCHEMA.check(sample)
        records.append(folder / SAMPLES, sample)
    return read_run(folder)


@pytest.fixture
def with_jvm(tmp_path: Path) -> RunSummary:
    """A run of one writer in Python, and one in a JVM with less growth and a larger file."""
    writers = {"spillway": Writes([100.0, 101.0, 99.0]), "spark-parquet": Writes([9.0, 8.0, 9.0], growth=1e6)}
    make_run(tmp_path / "run", writers)
    return changed(
        tmp_path / "run",
        lambda each: each | {"jvm": READING if each["cell"]["backend"] == "spark-parquet" else None},
    )


def test_a_writer_in_a_jvm_has_no_growth_and_a_note_in_its_place(with_jvm: RunSummary) -> None:
    ranking = rankings(with_jvm, with_jvm.settings[0])[0]
    table = ranking_table(with_jvm, ranking)
    column = table.header.index("peak MB")
    shown = {row[0].text: row[column].text for row in table.rows}
    assert shown == {"spillway": "50.0", "spark-parquet": "-"}
    why, note = table.notes[-2:]
    assert "its heap has grown before the write that is measured" in why
    for said in (
        "the JVM and Python had 1,234 MB resident at most",
        "of a heap of 1,073 MB at most 612 MB in use, 95 MB live after the write",
        "5 collections in 200 ms (Copy, Old); compiler 0.25 s; rows to the JVM 0.75 s",
        "Not counted: 3 writes of 10,000 rows before it, 3.50 s to 0.50 s",
    ):
        assert said in note


def test_the_table_of_memory_has_both_processes_and_says_so(with_jvm: RunSummary) -> None:
    table = memory_table(with_jvm, with_jvm.settings[0])
    rows = {row[0].text: dict(zip(table.header, row, strict=True)) for row in table.rows}
    assert rows["spark-parquet"]["whole RSS"].text == "1,230"
    assert [rows["spark-parquet"][name].text for name in ("RSS", "cgroup", "huge")] == ["-", "-", "-"]
    assert rows["spillway"]["RSS"].text == "50.0"
    assert "spark-parquet: whole RSS adds the peaks of the JVM and of Python" in table.notes[-1]


def test_a_jvm_never_wins_by_memory(with_jvm: RunSummary) -> None:
    (found,) = conclude(with_jvm)
    assert found.writer == "spillway"
    assert not [line for line in found.lines if "Less memory" in line]


def test_a_report_with_a_jvm_is_drawn_and_written(with_jvm: RunSummary) -> None:
    report = write_report(with_jvm, draw_figures(with_jvm)).read_text()
    assert report.count("spark-parquet, medians: the JVM and Python had") == 1
    assert "Without peak MB are writers in a JVM" in write_html(with_jvm).read_text()


@pytest.fixture
def on_hosts(tmp_path: Path) -> RunSummary:
    """A run whose second block another host took, which was busy and has another processor."""
    folder = tmp_path / "run"
    make_run(folder, {"spillway": Writes([100.0, 90.0]), "pyarrow-buffered": Writes([50.0, 45.0])})
    environment = records.read_json(folder / records.ENVIRONMENT)
    proof = {"kind": "cgroup-v1", "limit_bytes": 10**9, "died_at_bytes": 10**9, "ending": "killed"}
    host = {**environment, "limit_proofs": [proof], "load_before": 0.0, "cores": 8}
    other = {**host, "host": "host-2", "cpu_model": "Another", "load_before": 7.5}
    described = {**environment, "hosts": [{**host, "host": "host-1"}, other]}
    records.write_json(folder / records.ENVIRONMENT, described)
    return changed(
        folder, lambda each: each | {"placement": {"host": f"host-{each['block'] + 1}", "executor": "0"}}
    )


def test_a_report_lists_hosts_with_their_samples_and_proofs(on_hosts: RunSummary) -> None:
    report = write_report(on_hosts, []).read_text()
    assert "- On the driver of a cluster, whose hosts took the samples: " in report
    assert "- host-2: Another, " in report
    took = "2 samples in 1 block by 1 executor; limit of 1,000 MB (cgroup-v1) proved"
    assert report.count(f"{took}, a test process was killed at 1.00 of it") == 2


def test_noise_and_differences_are_told_by_host(on_hosts: RunSummary) -> None:
    warnings = on_hosts.warnings()
    busy = [each for each in warnings if "busy" in each]
    assert busy == ["host-2: the host was busy before the run: load 7.5 on 8 cores"]
    assert [each for each in warnings if each.startswith("hosts differ in processors: ")]


def test_a_traced_write_on_the_driver_is_not_compared_with_samples_of_hosts(on_hosts: RunSummary) -> None:
    traced = replace(on_hosts.cells[0], allocations={"wall_seconds": 1.0})
    alone = {name: value for name, value in on_hosts.environment.items() if name != "hosts"}
    (line,) = probe_costs(replace(on_hosts, cells=[traced], environment=alone))
    assert line.startswith("memray: ")
    assert probe_costs(replace(on_hosts, cells=[traced])) == []


def test_traces_of_a_cluster_have_as_many_cores_as_there_are_here() -> None:
    here = len(os.sched_getaffinity(0))
    cluster: Any = object()
    assert _cores_here(Options(backends=("arro3",), threads=(1, here + 1)), cluster) == here
    assert _cores_here(Options(backends=("arro3",), threads=(1,)), cluster) == 1


def test_a_run_of_a_cluster_says_its_command_and_is_not_resumed(on_hosts: RunSummary) -> None:
    assert command_of(on_hosts.environment).startswith(
        "spillway bench --on spark://HOST:PORT --backend spillway,"
    )
    with pytest.raises(OptionError, match="executors of a cluster took its samples"):
        read_begun(on_hosts.folder)


def test_a_run_of_a_cluster_is_known_as_one_before_its_first_sample(tmp_path: Path) -> None:
    executors = MagicMock(hosts={})
    executors.take.side_effect = lambda *_, **__: seen.append(
        records.read_json(tmp_path / records.ENVIRONMENT)
    )
    seen: list[dict[str, Any]] = []
    options = Options(backends=("arro3",))
    _take_on_executors(executors, {"run_id": "r"}, tmp_path, MagicMock(), [], options, False, MagicMock())  # noqa: FBT003 - by place
    assert seen == [{"run_id": "r", "hosts": []}]
