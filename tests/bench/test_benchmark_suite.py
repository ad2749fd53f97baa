"""The suite below ``bench/`` compares like with like, and what it measured can be kept and shown."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from spillway.harness.probes.process import thread_environment

ROOT = Path(__file__).resolve().parents[2]
CHOSEN = "polars or pyarrow-buffered or duckdb"


def measure(folder: Path, *arguments: str) -> dict[str, Any]:
    """The JSON file of a run of the suite."""
    found = folder / "found.json"
    # As a user has it: no variable says how large a pool is, or that other processes test beside this one.
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in thread_environment(1) and not name.startswith("PYTEST_")
    }
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", *arguments, "-q", "-p", "no:cacheprovider"),
            *("--benchmark-min-rounds=1", f"--benchmark-json={found}"),
        ],
        cwd=ROOT,
        env=environment,
        check=False,
        timeout=240,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    measured: dict[str, Any] = json.loads(found.read_text())
    return measured


@pytest.fixture(scope="module")
def merges(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Merges into a small table."""
    return measure(
        tmp_path_factory.mktemp("merges"), "bench/test_merge.py", "-k", "not 1000000 and clustered"
    )


@pytest.fixture
def suite(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    import suite  # noqa: PLC0415 - of a folder of programs

    monkeypatch.delitem(sys.modules, "suite")
    return suite


# In continuous integration the suite's own assertions are these, without groups and their JSON.
@pytest.mark.soak
def test_groups_hold_one_size_and_every_pool_has_one_thread(tmp_path: Path) -> None:
    benchmarks = measure(tmp_path, "bench/test_writers.py", "-k", CHOSEN)["benchmarks"]
    assert len(benchmarks) == 12
    for each in benchmarks:
        params, measured = each["params"], each["extra_info"]
        assert each["group"] == f"{params['rows']:,} rows, {params['mode']}"
        assert (measured["writer"], measured["rows"]) == (params["writer"], params["rows"])
        assert {"pyarrow-cpu", "pyarrow-io"} <= set(measured["pools"])
        if params["writer"] in {"polars", "duckdb"}:
            assert params["writer"] in measured["pools"]


def test_ways_side_by_side_share_blocks_and_have_ratios(merges: dict[str, Any]) -> None:
    (benchmark,) = merges["benchmarks"]
    found = benchmark["extra_info"]
    samples = {
        name: {each["block"]: each["seconds"] for each in found["samples"] if each["writer"] == name}
        for name in ("spillway", "spillway, without vectors", "delta-rs")
    }
    assert all(set(of_name) == set(range(1, 13)) for of_name in samples.values())
    assert benchmark["stats"]["data"] == pytest.approx(list(samples["spillway"].values()))
    assert found["against"] == "delta-rs"
    assert set(found["ratios"]["seconds"]) == {"spillway", "spillway, without vectors"}
    for ratio in found["ratios"]["seconds"].values():
        assert 0 < ratio["low"] <= ratio["ratio"] <= ratio["high"]


def test_a_run_that_is_kept_is_the_newest_and_has_its_table(
    merges: dict[str, Any], suite: Any, tmp_path: Path
) -> None:
    (kept,) = suite.keep(merges, tmp_path)
    run = suite.newest("merge", tmp_path)
    assert run == kept
    assert run.folder.parent == tmp_path / "merge"
    assert {"run_id", "cpu_model", "libraries", "load_before"} <= set(run.environment)
    assert run.environment["options"] == {"rows": 10_000, "blocks": 12, "seed": 1}
    assert not [reason for reason in run.why_not_quoted() if "block" in reason]
    assert all(f"| {writer} | " in run.table() for writer in ("spillway", "delta-rs"))


def test_a_run_of_few_blocks_is_not_quoted(merges: dict[str, Any], suite: Any, tmp_path: Path) -> None:
    few = copy.deepcopy(merges)
    samples = few["benchmarks"][0]["extra_info"]["samples"]
    samples[:] = [each for each in samples if each["block"] > 1]
    (run,) = suite.keep(few, tmp_path)
    assert "11 blocks, not 12" in run.why_not_quoted()


def test_runs_on_record_have_tables(suite: Any) -> None:
    for kind, line in {
        "merge": "delta-rs",
        "scan": "All rows, all columns",
        "spark": "spark parquet",
    }.items():
        run = suite.newest(kind)
        assert not run.why_not_quoted()
        assert f"| {line} | " in run.table()
