"""Writes in pairs on one core: who meets whom, what is kept of it, and what the report makes of it."""

from __future__ import annotations

import io
from dataclasses import asdict, replace
from unittest.mock import Mock

import psutil
import pytest
from rich.console import Console

from spillway.bench import passes
from spillway.bench.passes import measure_pairs
from spillway.bench.plan import Options, largest_cells
from spillway.bench.progress import Progress
from spillway.bench.ratio_tables import pair_ratios, pair_table
from spillway.bench.record import PAIR_SCHEMA, PAIRS
from spillway.bench.report import write_report
from spillway.bench.summary import read_run
from spillway.errors import OptionError
from spillway.harness import records

from .conftest import cell
from .made_runs import Writes, make_run


@pytest.fixture
def pair(taker, disk_folder):
    """Write backends in pairs with the first; the records."""

    def write(*backends: str, blocks: int = 1, **changes: object) -> list[dict]:
        cells = [cell(backend, **changes) for backend in backends]
        measure_pairs(disk_folder, taker, cells, blocks, Progress(Console(file=io.StringIO())))
        return records.read_lines(disk_folder / PAIRS)

    return write


def test_each_backend_meets_the_base_in_each_block(pair, disk_folder):
    taken = pair("polars", "spillway", "arro3", blocks=2)
    assert [(each["block"], each["position"]) for each in taken] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert sorted(each["cell"]["backend"] for each in taken) == ["arro3", "arro3", "polars", "polars"]
    for each in taken:
        PAIR_SCHEMA.check(each)
        assert (each["base"], each["outcome"], each["base_outcome"]) == ("spillway", "ok", "ok")
        assert min(each["processor_seconds"], each["base_processor_seconds"]) > 0
    assert [path.name for path in disk_folder.iterdir() if path.is_dir()] == ["outputs"]
    assert list((disk_folder / "outputs").iterdir()) == []
    assert pair("polars", "spillway", "arro3", blocks=2) == taken  # as a run that is resumed


@pytest.mark.parametrize(
    ("backend", "outcome"),
    [("raises", "library_error"), ("crashes", "segfault"), ("absent", "library_error")],
)
@pytest.mark.usefixtures("misbehaving")
def test_one_that_fails_leaves_nobody_waiting_and_no_time(pair, backend, outcome):
    (taken,) = pair("spillway", backend)
    PAIR_SCHEMA.check(taken)
    assert (taken["outcome"], taken["base_outcome"]) == (outcome, "ok")
    assert (taken["processor_seconds"], taken["base_processor_seconds"]) == (None, None)


def test_pairs_are_of_one_setting_and_of_one_core(taker, disk_folder):
    cells = [
        cell("spillway", mode="table"),
        cell("arro3"),
        cell("spillway", threads=2),
        cell("polars", threads=2),
    ]
    measure_pairs(disk_folder, taker, cells, 1, Progress(Console(file=io.StringIO())))
    assert records.read_lines(disk_folder / PAIRS) == []
    options = Options(backends=("spillway", "arro3"), pairs=3)
    for changes in ({"backends": ("spillway",)}, {"threads": (2,)}, {"pairs": -1}):
        with pytest.raises(OptionError, match="--pairs"):
            replace(options, **changes)


def test_pairs_and_probes_have_no_limit_of_the_run():
    free, limited = cell("spillway"), cell("spillway", memory_bytes=64_000_000, limit_kind="cgroup-v1")
    assert largest_cells([free, limited]) == [free]


def test_pairs_are_shown_once_where_settings_differ_in_their_limit(tmp_path):
    limits = [{"memory_bytes": limit, "limit_kind": "cgroup-v1"} for limit in (10**9, 64_000_000)]
    writes = {
        "spillway": [Writes([1e6] * 3, cell=each) for each in limits],
        # It fails under the second limit.
        "polars": [Writes([speed] * 3, cell=each) for speed, each in zip((1e6, None), limits, strict=True)],
    }
    run = make_run(tmp_path / "several", writes)
    base = {"block": 0, "base": "spillway", "outcome": "ok", "base_outcome": "ok"}
    of_polars = asdict(next(each.cell for each in run.cells if each.cell.backend == "polars"))
    times = {"processor_seconds": 2.0, "base_processor_seconds": 1.0}
    pairs = [{**base, **times, "block": block, "cell": of_polars} for block in range(6)]
    run = replace(run, pairs=pairs)
    assert sum(pair_table(run, setting) is not None for setting in run.settings) == 1


def test_a_difference_that_samples_hide_is_a_ratio_of_pairs(tmp_path):
    noise = [1.0, 1.3, 0.9, 1.1, 1.5, 0.8, 1.2, 1.0, 1.4, 0.7, 1.1, 1.3]
    made = make_run(
        tmp_path / "run",
        {
            "spillway": Writes([1e6 * each for each in noise]),
            "arro3": Writes([1e6 * each for each in noise[::-1]]),
        },
    )
    own, other = made.cells
    for block, speed in enumerate(noise):
        seconds = {"processor_seconds": 1.02 * speed, "base_processor_seconds": speed * (1 + block / 1e4)}
        record = {
            "block": block,
            "position": 0,
            "cell": asdict(other.cell),
            "base": own.cell.backend,
            **seconds,
        }
        records.append(made.folder / PAIRS, record)
    run = read_run(made.folder)
    found = pair_ratios(run, own.setting)["arro3"]
    assert found.low <= 1.02 <= found.high + 1e-3
    assert found.least_effect < 0.01
    table = pair_table(run, own.setting)
    assert [entry.text for entry in table.rows[0]][:3] == ["arro3", "1.02 [1.02, 1.02]", "12"]
    assert "in pairs on one core" in write_report(run, []).read_text()
    assert pair_table(made, own.setting) is None


@pytest.mark.parametrize("failed", [1, 3])
def test_pairs_that_failed_are_counted(tmp_path, failed):
    made = make_run(tmp_path / "run", {"spillway": Writes([1e6] * 3), "arro3": Writes([2e6] * 3)})
    own, other = made.cells
    for block in range(3):
        outcome = "timeout" if block < failed else "ok"
        seconds = None if block < failed else 1.0
        record = {
            "block": block,
            "cell": asdict(other.cell),
            "base": own.cell.backend,
            "outcome": outcome,
            "base_outcome": "ok",
            "processor_seconds": seconds,
            "base_processor_seconds": seconds,
        }
        records.append(made.folder / PAIRS, record)
    table = pair_table(read_run(made.folder), own.setting)
    assert [entry.text for entry in table.rows[0]][:3] == (
        ["arro3", "~", "2 of 3"] if failed == 1 else ["arro3", "timeout", "0 of 3"]
    )


def test_ctrl_c_ends_both_writes_of_a_pair(taker, disk_folder, monkeypatch):
    ended = []
    write = passes._write
    monkeypatch.setattr(passes, "_write", lambda *given: ended.append(write(*given)))
    monkeypatch.setattr(passes, "wait", Mock(side_effect=KeyboardInterrupt))
    cells = [cell("spillway"), cell("arro3")]
    before = set(psutil.Process().children())
    with pytest.raises(KeyboardInterrupt):
        measure_pairs(disk_folder, taker, cells, 1, Progress(Console(file=io.StringIO())))
    assert [each.timed_out for each in ended] == [True, True]
    assert set(psutil.Process().children()) <= before
    assert [path.name for path in disk_folder.iterdir()] == ["outputs"]


def test_a_backend_that_failed_once_has_no_ratio(tmp_path):
    made = make_run(tmp_path / "run", {"spillway": Writes([1e6] * 3), "arro3": Writes([2e6, None, 2e6])})
    own, other = made.cells
    seconds = {"processor_seconds": 1.0, "base_processor_seconds": 2.0}
    record = {"block": 0, "position": 0, "cell": asdict(other.cell), "base": own.cell.backend, **seconds}
    records.append(made.folder / PAIRS, record)
    assert pair_table(read_run(made.folder), own.setting) is None
