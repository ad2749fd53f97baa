"""Advice follows from a run: workers from speed, machines from memory and cores, doubt from intervals."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from spillway.bench.advice import BUSY, Demand, _worker_bytes, advise, best_of
from spillway.cli.app import app
from spillway.cli.runs import _price, _rate, _setting
from spillway.errors import OptionError

from .made_runs import ROOT, Writes, make_run

GIB = 1 << 30
SPEEDS = [1000.0 + n for n in range(12)]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Three writers of one batch size: a lean one, a fast one that takes 1 GB, and one that failed."""
    writers = {
        "arro3": Writes(SPEEDS, growth=10e6),
        "polars": Writes([2 * speed for speed in SPEEDS], growth=1e9),
        "duckdb": Writes([None] * 12),
    }
    return make_run(tmp_path_factory.mktemp("advice") / "run", writers)


def plans(run, rate=10_000.0, memory=8 * GIB, cores=4, batch=None):
    demand = Demand(rate, memory, cores, 50.0, batch)
    return {each.cell.cell.backend: each for each in best_of(advise(run, run.settings[0], demand))}


def test_workers_machines_and_cost_follow_from_speed_memory_and_cores(run):
    found = plans(run)
    assert list(found) == ["polars", "arro3"]
    lean, fast = found["arro3"], found["polars"]
    assert lean.workers[0] == 15  # 10,000 / (0.7 * 1005.5) = 14.2
    assert (lean.workers_per_machine, lean.limited_by, lean.machines, lean.cost) == (4, "cores", 4, 200.0)
    assert fast.workers[0] == 8
    assert (fast.machines, fast.cost) == (2, 100.0)
    assert lean.worker_bytes < 500e6
    assert fast.worker_bytes > 1e9


def test_a_worker_holds_the_rows_that_its_mode_keeps_and_both_processes_of_a_jvm(run):
    (sample, *_) = run.cells[0].good
    rows = {**sample["cell"], "rows": 100, "chunk_rows": 10}

    def held(**more):
        return _worker_bytes({**sample, **more})

    batches = held(cell={**rows, "mode": "batches"})
    for mode in ("table", "batches-retained"):
        more = held(cell={**rows, "mode": mode}) - batches
        assert more == pytest.approx(0.9 * sample["throughput"]["arrow_bytes"])
    assert held(jvm={"both_peak_bytes": 7}) == 7


def test_memory_limits_the_workers_of_a_machine(run):
    found = plans(run, memory=3 * GIB)
    assert found["polars"].limited_by == "memory"
    assert found["polars"].workers_per_machine < 4
    assert found["arro3"].limited_by == "cores"


def test_a_worker_that_fits_no_machine_has_no_cost_and_comes_last(run):
    found = plans(run, memory=600_000_000)
    assert list(found)[-1] == "polars"
    assert (found["polars"].workers_per_machine, found["polars"].cost) == (0, None)


def test_of_plans_with_one_cost_the_one_with_fewer_workers_at_the_slow_end_comes_first(tmp_path):
    # The median of the first takes a worker less, its slow end one more; a machine has room for all.
    writers = {
        "polars": Writes([500.0] * 4 + [1100.0] * 8, growth=10e6),
        "arro3": Writes([1000.0] * 12, growth=20e6),
    }
    found = plans(make_run(tmp_path / "run", writers), rate=2900.0, memory=64 * GIB, cores=64)
    assert list(found) == ["arro3", "polars"]
    assert found["arro3"].cost == found["polars"].cost
    assert found["arro3"].workers[0] > found["polars"].workers[0]


@given(rate=st.floats(1, 1e9), memory=st.integers(10**8, 10**11), cores=st.integers(1, 64))
def test_a_plan_carries_its_load_and_no_machine_is_too_many(run, rate, memory, cores):
    for each in plans(run, rate, memory, cores).values():
        assert each.workers[0] * BUSY * each.speed[0] >= rate * (1 - 1e-9)
        assert each.workers[2] <= each.workers[0] <= each.workers[1]
        if each.machines is not None:
            assert each.machines * each.workers_per_machine >= each.workers[0]
            assert (each.machines - 1) * each.workers_per_machine < each.workers[0]
            assert each.workers_per_machine * each.worker_bytes <= memory


def test_of_several_settings_none_is_taken_silently(tmp_path):
    writers = [Writes(SPEEDS), Writes(SPEEDS, cell={"chunk_rows": 7})]
    several = make_run(tmp_path / "run", {"arro3": writers})
    with pytest.raises(OptionError, match=r"--mode table: the run has 2 settings .* They are: .*; "):
        _setting(several, "table", "default")


def test_arms_are_not_mixed_and_the_process_as_it_is_is_taken(tmp_path):
    """Under `pool-system` the slower writer would be the best: it is advised only where that is asked for."""
    writers = {
        "arro3": [Writes(SPEEDS, cell={"arm": arm}) for arm in ("default", "pool-system")],
        "polars": [
            Writes([factor * speed for speed in SPEEDS], cell={"arm": arm})
            for arm, factor in (("default", 0.5), ("pool-system", 4))
        ],
    }
    several = make_run(tmp_path / "run", writers)
    best = {}
    for arm in ("default", "pool-system"):
        setting = _setting(several, "table", arm)
        plan, *_ = advise(several, setting, Demand(1e6, 8 * GIB, 4, 50.0))
        best[arm] = (plan.cell.cell.backend, plan.cell.cell.arm)
    assert best == {"default": ("arro3", "default"), "pool-system": ("polars", "pool-system")}
    with pytest.raises(OptionError, match="--process-setting malloc-trim: the run has default, pool-system"):
        _setting(several, "table", "malloc-trim")


def test_advice_for_an_arm_says_how_a_program_has_it(tmp_path):
    make_run(tmp_path / "run", {"arro3": Writes(SPEEDS, cell={"arm": "pool-system"})})
    given = ["--rate", "1M/s", "--memory", "8GB", "--price", "50/month", "--mode", "table"]
    refused, told = (
        CliRunner().invoke(app, ["advise", str(tmp_path / "run"), *given, *more])
        for more in ([], ["--process-setting", "pool-system"])
    )
    assert refused.exit_code == 2
    assert told.exit_code == 0, told.output
    assert "start Python with ARROW_DEFAULT_MEMORY_POOL=system" in " ".join(told.output.split())


def test_a_batch_that_was_not_measured_says_how(run):
    rows = run.cells[0].cell.rows
    assert plans(run, batch=rows // 2 + 1)
    with pytest.raises(OptionError, match=f"none within a factor of two: measure it by .* --rows {3 * rows}"):
        plans(run, batch=3 * rows)


@pytest.mark.parametrize(
    ("text", "rows"), [("1M/s", 1e6), ("60K/min", 1000), ("3.6M/h", 1000), ("86.4M/day", 1000), ("5/s", 5)]
)
def test_rates(text, rows):
    assert _rate(text) == pytest.approx(rows)


def test_prices():
    assert _price("50/month") == 50
    assert _price("0.1/h") == pytest.approx(73)


def invoke(*arguments):
    given = ["--rate", "1M/s", "--memory", "2GB", "--price", "50/month", *arguments]
    return CliRunner().invoke(app, ["advise", str(ROOT / "results" / "reference"), *given])


def test_the_reference_run_gives_advice_with_its_doubt_and_its_code():
    result = invoke("--cores", "2", "--batch", "200K")
    assert result.exit_code == 0, result.output
    assert "How sure: over the interval of its speed (12 samples)" in result.output
    assert "To write so:" in result.output
    assert max(map(len, result.output[: result.output.index("batch:")].splitlines())) <= 80


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--rate", "1M"], "give rows per unit of time, such as 1M/s"),
        (["--rate", "0/s"], "give a number above 0"),
        (["--price", "50"], "as 50/month or 0.07/h"),
        (["--memory", "2 parsecs"], "--memory: '2 parsecs' is not an amount of memory"),
        (["--mode", "ndjson"], "--mode ndjson: the run has batches, "),
        (["--batch", "50M"], "measure it by `spillway bench --rows 50000000`"),
    ],
)
def test_what_cannot_be_advised_says_what_to_do(arguments, words):
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert words in " ".join(result.output.split())
