"""Process settings change the process as they say; quotas hold; tables tell what a change does."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

from spillway.bench.conclusion import conclude
from spillway.bench.plan import (
    DEFAULT_PROCESS,
    PROCESS_NAMES,
    Options,
    how_to_have,
    plan_cells,
    process_setting,
    require_process_settings,
)
from spillway.bench.ratio_tables import variations
from spillway.bench.record import ALLOCATIONS
from spillway.bench.report import run_tables
from spillway.bench.resume import command_of
from spillway.bench.sample import limits_of
from spillway.bench.summary import read_run
from spillway.errors import OptionError
from spillway.harness import records
from spillway.harness.limits import Unlimited, with_quota
from spillway.harness.limits.cgroup import v1_parents, v2_parents
from spillway.harness.statistics import ALPHA

from .conftest import cell
from .made_runs import Writes, make_run

POOLS = ("system", "mimalloc", "jemalloc")


def built_pools():
    import pyarrow as pa  # noqa: PLC0415 - to find out what it was built with

    return pa.supported_memory_backends()


@pytest.mark.parametrize("pool", [each for each in POOLS if each in built_pools()])
def test_a_pool_of_an_arm_is_in_force(take, pool):
    record = take("pyarrow-streaming", arm=f"pool-{pool}")
    assert record["outcome"] == "ok"
    assert record["pyarrow_pool"]["backend"] == pool
    assert record["pyarrow_pool"]["allocations"] > 0


def test_a_pool_that_pyarrow_lacks_is_refused(monkeypatch):
    monkeypatch.setattr("pyarrow.supported_memory_backends", lambda: ["system"])
    require_process_settings([DEFAULT_PROCESS, "pool-system", "malloc-trim"])
    with pytest.raises(
        OptionError, match="pool-jemalloc: this build of pyarrow has no such pool: it has system"
    ):
        require_process_settings(["pool-jemalloc"])


@pytest.mark.usefixtures("misbehaving")
@pytest.mark.parametrize("arm", [DEFAULT_PROCESS, "gc-aggressive"])
def test_the_collector_has_the_thresholds_that_were_asked_for(take, arm):
    python = subprocess.run(
        [sys.executable, "-c", "import gc; print(*gc.get_threshold())"],
        capture_output=True,
        check=True,
        timeout=60,
    )
    own = tuple(map(int, python.stdout.split()))
    thresholds = process_setting(arm).gc_threshold or own
    assert (thresholds == own) == (arm == DEFAULT_PROCESS)
    record = take("tells-its-process", arm=arm)
    assert record["account"] == [
        {"name": f"gc-{place}", "bytes": each} for place, each in enumerate(thresholds)
    ]


@pytest.mark.usefixtures("misbehaving")
@pytest.mark.parametrize(("arm", "files"), [(DEFAULT_PROCESS, 2), ("cold", 1)])
def test_the_measured_write_is_the_first_of_a_cold_process(take, arm, files):
    record = take("counts-its-files", arm=arm)
    assert record["outcome"] == "ok"
    assert record["account"] == [{"name": "files", "bytes": files}]


@pytest.mark.parametrize("name", [name for name in PROCESS_NAMES if name.startswith("malloc-")])
def test_settings_of_malloc_are_in_the_environment_of_the_process(taker, name):
    changed = process_setting(name).environment
    assert changed
    environment = taker._environment(cell("spillway", arm=name))
    assert {key: environment[key] for key in changed} == changed
    assert not changed.keys() & taker._environment(cell("spillway")).keys()


def can_have_quotas():
    """True if a group of this process has a quota, or one of its own could be made."""
    with Unlimited().limit(0) as limit:
        if limit.group is not None and (Path(limit.group) / "cpu.max").exists():
            return True
    return any((parent / "cpu.cfs_quota_us").exists() for parent in v1_parents("cpu"))


def test_a_quota_is_in_the_group_of_the_process():
    if not can_have_quotas():
        with pytest.raises(OptionError, match="does not allow quotas"), with_quota(*_unlimited(1.5)):
            pass
        return
    with limits_of(cell("spillway", threads=2, arm="quota-150"), Unlimited()) as limit:
        script = "import sys; print(open('/proc/self/cgroup').read())"
        joined = subprocess.run(
            [*limit.prefix, sys.executable, "-c", script],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        groups = [
            parent / line.rsplit("/", 1)[1]
            for line in joined.splitlines()
            for parent in (*v1_parents("cpu"), *v2_parents("cpu"))
            if f"spillway-{os.getpid()}-" in line
        ]
        quotas = [_quota(each) for each in groups if each.exists()]
    assert 1.5 in quotas
    assert not [each for each in groups if each.exists()]


def _unlimited(cores):
    with Unlimited().limit(0) as limit:
        return limit, cores


def _quota(group):
    """Cores whose time a group may take; None where it says nothing of it."""
    if (group / "cpu.max").exists():
        quota, period = (group / "cpu.max").read_text().split()
    elif (group / "cpu.cfs_quota_us").exists():
        quota, period = ((group / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
    else:
        return None
    return None if quota == "max" else int(quota) / int(period)


def test_arms_chunks_and_row_groups_are_dimensions_of_a_run():
    options = Options(
        backends=("spillway",),
        rows=(10,),
        modes=("batches",),
        chunk_rows=(1_000, 100_000),
        row_group_rows=(65_536, 1_048_576),
        arms=("default", "gc-aggressive", "pool-system"),
    )
    cells = plan_cells(options)
    assert [(each.chunk_rows, each.row_group_rows, each.arm) for each in cells] == list(
        product((1_000, 100_000), (65_536, 1_048_576), options.arms)
    )
    assert {each.input for each in cells} == {("logs", 1_000), ("logs", 100_000)}


def test_a_quota_is_measured_only_where_the_cores_could_take_more():
    options = Options(
        backends=("spillway",), rows=(10,), modes=("batches",), threads=(1, 2), arms=("default", "quota-150")
    )
    assert [(each.threads, each.arm) for each in plan_cells(options)] == [
        (1, "default"),
        (2, "default"),
        (2, "quota-150"),
    ]


@pytest.mark.parametrize(
    ("arms", "words"),
    [
        (("gc-off",), "choose from: default, gc-aggressive"),
        (("quota-0",), "as in quota-150"),
        (("quota-100",), "a quota below 100"),
        ((), "is empty"),
    ],
)
def test_a_process_setting_that_cannot_be_says_what_can(arms, words):
    with pytest.raises(OptionError, match=words):
        Options(backends=("spillway",), rows=(10,), arms=arms)


def test_the_command_of_a_run_has_its_dimensions(tmp_path):
    run = make_run(tmp_path / "run", {"spillway": Writes([1e6])})
    options = run.environment["options"]
    plain = command_of(run.environment)
    assert not {"--process-setting", "--chunk-rows", "--least-memory"} & set(plain.split())
    options |= {"arms": ["default", "pool-system"], "chunk_rows": [1_000, 10_000], "least_memory": 3}
    words = command_of(run.environment)
    assert "--process-setting default,pool-system" in words
    assert "--chunk-rows 1000,10000" in words
    assert "--least-memory 3" in words


NAMES = ("default", "pool-system", "pool-mimalloc")


@pytest.fixture
def of_settings(tmp_path):
    """A run of two backends under three process settings: one is 20 % faster, one takes half the memory."""
    speeds = {"default": 1.0, "pool-system": 1.2, "pool-mimalloc": 1.0}
    growths = {"default": 80e6, "pool-system": 80e6, "pool-mimalloc": 40e6}
    noise = [1.0, 1.01, 0.99, 1.02, 0.98, 1.0, 1.01, 0.99]
    shifted = noise[1:] + noise[:1]
    backends = {
        "arro3": [
            Writes(
                [1e6 * speeds[arm] * each for each in (noise if arm == "default" else shifted)],
                growth=growths[arm],
                cell={"arm": arm},
            )
            for arm in NAMES
        ],
        "polars": [Writes([1e6 * each for each in noise], cell={"arm": arm}) for arm in NAMES],
    }
    return make_run(tmp_path / "run", backends)


def test_a_table_tells_what_process_settings_change_in_each_backend(of_settings):
    table = run_tables(of_settings)[-1]
    assert table.title.startswith("What process settings change at")
    assert "Arrow's pool" not in table.title
    texts = {(row[0].text, row[1].text): [entry.text for entry in row[2:]] for row in table.rows}
    assert list(texts) == list(product(("arro3", "polars"), NAMES))
    assert texts["arro3", "default"][1] == texts["arro3", "default"][4] == "-"
    assert texts["arro3", "pool-system"][1].startswith("1.2")
    assert texts["arro3", "pool-mimalloc"][1] == "~"
    assert texts["arro3", "pool-mimalloc"][4].startswith("0.50")
    assert texts["polars", "pool-system"][1] == texts["polars", "pool-system"][4] == "~"
    arro3, polars = table.notes
    assert arro3.startswith("arro3: fastest with Arrow's pool system, 1.2")
    assert "leanest with Arrow's pool mimalloc, 0.50" in arro3
    assert polars == "polars: nothing is better than its defaults; no other differs significantly from it."


def test_the_verdict_compares_writers_under_one_process_setting_and_says_which_helps_each(of_settings):
    writers, settings = conclude(of_settings)
    assert "Arrow's pool" not in writers.title
    assert not [line for line in writers.lines if "pool" in line]
    assert settings.title.startswith("What process settings change at")
    arro3, polars = settings.lines
    assert arro3.startswith("arro3: fastest with Arrow's pool system, 1.2")
    assert polars == "polars: nothing is better than its defaults; no other differs significantly from it."


def test_a_verdict_on_an_arm_alone_says_how_a_program_has_it(tmp_path):
    cell = {"arm": "gc-aggressive"}
    run = make_run(
        tmp_path / "run", {"arro3": Writes([1e6] * 6, cell=cell), "polars": Writes([9e5] * 6, cell=cell)}
    )
    (found,) = conclude(run)
    assert "garbage collected after 50 objects" in found.title
    assert found.lines[-1] == (
        "Measured with garbage collected after 50 objects: call gc.set_threshold(50, 5, 5)."
    )


def test_every_arm_says_how_a_program_has_it_and_the_process_as_it_is_has_nothing_to_say():
    for name in (*PROCESS_NAMES[:-1], "quota-150"):
        assert len(how_to_have(name)) == (name != DEFAULT_PROCESS)


def test_a_writer_that_failed_as_it_is_has_no_arm_told(tmp_path):
    fields = [{"arm": arm} for arm in NAMES[:2]]
    cells = [Writes([None] * 6, cell=fields[0]), Writes([1e6] * 6, cell=fields[1])]
    *_, settings = conclude(make_run(tmp_path / "run", {"arro3": cells}))
    assert settings.lines == ["arro3: no comparison, because it failed with its defaults."]


def test_each_field_that_varies_alone_has_a_table_of_its_own(tmp_path):
    cells = [
        {"chunk_rows": chunk, "row_group_rows": groups}
        for chunk, groups in product((1_000, 10_000), (65_536, 1_048_576))
    ]
    run = make_run(tmp_path / "run", {"arro3": [Writes([1e6] * 3, cell=each) for each in cells]})
    assert [(field, len(alike), len(found)) for field, alike, found in variations(run)] == [
        ("chunk_rows", 2, 2),
        ("chunk_rows", 2, 2),
        ("row_group_rows", 2, 2),
        ("row_group_rows", 2, 2),
    ]


def test_calls_stand_beside_the_sizes_that_they_were_traced_at_alone(tmp_path):
    sizes = [{"chunk_rows": chunk} for chunk in (1_000, 10_000)]
    folder = tmp_path / "run"
    run = make_run(folder, {"arro3": [Writes([1e6] * 3, cell=each) for each in sizes]})
    names = ("backend", "mode", "dataset", "codec", "rows", "chunk_rows", "row_group_rows")
    traced = {name: getattr(run.cells[0].cell, name) for name in names}
    curve = {"seconds": [], "bytes": [], "peak_bytes": 1, "allocations": 77}
    records.append(folder / ALLOCATIONS, {**traced, "reason": None, "wall_seconds": 1.0, "curve": curve})
    (table,) = (
        each for each in run_tables(read_run(folder)) if each.title.startswith("What rows of a batch")
    )
    assert [row[-1].text for row in table.rows] == ["77", "-"]


def test_speeds_and_memories_of_a_table_are_corrected_together(tmp_path):
    """Of seven blocks the least slows: told alone, and not beside a memory that does not change."""
    speeds = [0.99e6, *(1.1e6 + 1e4 * block for block in range(6))]
    cells = [Writes([1e6] * 7), Writes(speeds, cell={"arm": "pool-system"})]
    ((_, _, (_, changed)),) = variations(make_run(tmp_path / "run", {"arro3": cells}))
    assert changed.speed.p < ALPHA <= 2 * changed.speed.p
    assert not changed.is_faster_or_slower


def test_a_run_whose_settings_do_not_vary_has_no_such_table(tmp_path):
    run = make_run(tmp_path / "run", {"arro3": [Writes([1e6] * 3), Writes([1e6] * 3, cell={"rows": 7})]})
    assert not list(variations(run))
