"""The suite below ``bench/`` compares like with like."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from spillway.harness.probes.pools import thread_environment

from ..counts import SOAK

# Each library in one of the modes; in a soak, in all, and all sizes.
CHOSEN = "not 100000 and polars and batches or table and (pyarrow-buffered or duckdb)"
if SOAK:
    CHOSEN = "polars or pyarrow-buffered or duckdb"


def test_groups_hold_one_size_and_every_pool_has_one_thread(request, tmp_path):
    found = tmp_path / "found.json"
    # As a user has it: no variable says how large a pool is, or that other processes test beside this one.
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in thread_environment(1) and not name.startswith("PYTEST_")
    }
    subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "bench", "-q", "-k", CHOSEN, "--benchmark-min-rounds=1"),
            *("-p", "no:cacheprovider", f"--benchmark-json={found}"),
        ],
        cwd=request.config.rootpath,
        env=environment,
        check=True,
        timeout=240,
        capture_output=True,
    )
    benchmarks = json.loads(found.read_text())["benchmarks"]
    assert len(benchmarks) == (12 if SOAK else 3)
    for each in benchmarks:
        params, measured = each["params"], each["extra_info"]
        assert each["group"] == f"{params['rows']:,} rows, {params['mode']}"
        assert (measured["writer"], measured["rows"]) == (params["writer"], params["rows"])
        assert {"pyarrow-cpu", "pyarrow-io"} <= set(measured["pools"])
        if params["writer"] in {"polars", "duckdb"}:
            assert params["writer"] in measured["pools"]
