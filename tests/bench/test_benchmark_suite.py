"""The suite below ``bench/`` compares like with like."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from spillway.harness.probes.pools import thread_environment

from ..counts import SOAK

# Each library in one of the modes; in a soak, in both.
CHOSEN = "polars and batches or (pyarrow-buffered or duckdb) and table"
if SOAK:
    CHOSEN = "polars or pyarrow-buffered or duckdb"


def test_groups_hold_one_dataset_and_every_pool_has_one_thread(request, tmp_path):
    found = tmp_path / "found.json"
    # As a user has it: no variable says how large a pool is, or that other processes test beside this one.
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in thread_environment(1) and not name.startswith("PYTEST_")
    }
    subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "bench", "-q", "-k", CHOSEN),
            *("-p", "no:cacheprovider", f"--benchmark-json={found}"),
        ],
        cwd=request.config.rootpath,
        env=environment,
        check=True,
        timeout=240,
        capture_output=True,
    )
    benchmarks = json.loads(found.read_text())["benchmarks"]
    assert len(benchmarks) == (12 if SOAK else 6)
    assert {each["params"]["mode"] for each in benchmarks} == {"batches", "table"}
    for each in benchmarks:
        dataset, mode = each["group"].split(", ")
        assert (dataset, mode) == (each["params"]["dataset"], each["params"]["mode"])
        pools = each["extra_info"]["pools"]
        assert set(pools.values()) == {1}
        assert {"pyarrow-cpu", "pyarrow-io"} <= set(pools)
        if each["params"]["name"] in {"polars", "duckdb"}:
            assert each["params"]["name"] in pools
