"""The costs of a disk are found again in races that they made; tables say how far a simulation is off."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillway.race.model import Cell

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
KINDS = ("read_version", "list_intents", "put_version", "sync_data", "sync_log")
microseconds = st.integers(50, 5_000)


@pytest.fixture(scope="module", autouse=True)
def scripts() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "scripts"))
        yield
        for name in ("scale_disk", "scale_tables"):
            sys.modules.pop(name, None)


def race(processes: int, effects: dict[str, tuple[int, int]], **more: Any) -> dict[str, Any]:
    """A race of one append after the other, by the count of each effect and its microseconds."""
    cell = Cell(
        committer="spillway", workload="append-only", writers=processes, processes=processes, appends=100
    )
    times = {
        kind: {"count": count, "total_seconds": count * each / 1e6, "longest_seconds": each / 1e6}
        for kind, (count, each) in effects.items()
    }
    return {"cell": asdict(cell), "effects": times, "acknowledged": 100, "table": {"versions": 100}, **more}


@given(
    times=st.lists(microseconds, min_size=len(KINDS), max_size=len(KINDS)),
    announcing=microseconds,
    own=st.tuples(microseconds, microseconds, microseconds),
    share=st.sampled_from([0.0, 0.25, 0.5]),
)
def test_the_costs_of_a_race_are_those_that_it_was_made_of(
    times: list[int], announcing: int, own: tuple[int, int, int], share: float
) -> None:
    import scale_disk  # noqa: PLC0415 - of a folder of programs

    prepare, write, beside = own
    effects = dict(zip(KINDS, times, strict=True))
    wait = write + sum(times)
    synced = sum(effects[kind] for kind in KINDS[2:])
    processor = prepare + wait - (1 - share) * synced + beside
    one = race(
        1,
        {"find_tip": (1, 0), **{kind: (100, each) for kind, each in effects.items()}},
        seconds=(prepare + wait) * 100 / 1e6,
        wait_seconds=[wait / 1e6] * 101,
        processor_seconds=processor * 100 / 1e6,
    )
    # What two processes took for effects of one alone says nothing: they were in each other's way.
    two = race(2, {"put_version": (100, 9_999), "put_intent": (50, announcing), "read_intents": (9, 70)})
    waits = dict(zip((*KINDS[2:], "sync_again"), (3, 5, 2, 1), strict=True))
    probe = scale_disk.Probe(cpu_share=share, side_by_side=4, waits=waits, again_us=12.0, entry_us=3.0)
    disk, work = scale_disk.calibrated([two, one], probe)
    for kind in KINDS[2:]:
        assert disk[kind]["cpu_us"] + disk[kind]["disk_us"] == pytest.approx(effects[kind], abs=2)
        assert disk[kind]["waits"] == waits[kind]
        assert disk[kind]["cpu_us"] == pytest.approx(share * effects[kind], abs=1)
    found = (disk["read_version_us"], disk["list_intents_us"], disk["put_intent_us"], disk["read_intent_us"])
    assert found == (effects["read_version"], effects["list_intents"], announcing, 70)
    expected = {"prepare_us": prepare, "write_us": write, "version_us": beside}
    assert work == {name: pytest.approx(each, abs=3) for name, each in expected.items()}


def report(name: str, **more: Any) -> dict[str, Any]:
    kinds = ("get", "head", "list", "conditional_put", "put_intent", "put_data", "delete")
    return {
        "scenario": {"name": name},
        "seconds": 10.0,
        "appends": 500,
        "appends_per_second": 50.0,
        "wait_seconds": {"median": 0.1, "p99": 0.2, "longest": 0.3},
        "versions": 100,
        "attempts": 150,
        "most_lost": 2,
        "requests": dict.fromkeys(kinds, 100),
        "requests_an_hour": 1e6,
        "usd_an_hour": 1.25,
        "usd_a_million": 7.5,
        "cpu_seconds": 4.0,
        **more,
    }


def written(folder: Path, name: str, lines: list[dict[str, Any]]) -> None:
    (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_the_tables_say_how_far_a_simulation_is_off(tmp_path: Path) -> None:
    import scale_tables  # noqa: PLC0415 - of a folder of programs

    held = race(8, {}, appends_per_second=40.0, wait_seconds=[0.2] * 101, attempts=100, processor_seconds=4.0)
    words = Cell(**held["cell"]).words
    names = (words, "endless: 8 in 8", "burst: 8 in 8", "rate: every 60 s", "change: nothing", "change: all")
    written(tmp_path, "races.jsonl", [held] * 3)
    written(tmp_path, scale_tables.CELLS, [report(name) for name in names])
    machine = {"cpu_model": "x", "usable_cores": 2, "memory_bytes": 0, "kernel": "6", "git": None}
    (tmp_path / "environment.json").write_text(json.dumps(machine))
    disk = {"disk": {"find_tip_us": 5, "sync_log": {"cpu_us": 1, "disk_us": 2}}, "work": {"parse_ns": 7}}
    (tmp_path / scale_tables.DISK).write_text(json.dumps(disk))
    blocks = scale_tables.tables(tmp_path)
    assert (
        "| 8 writers in 8 processes x 100 appends | appends/s | 40 | 50 | +25% |" in blocks["scale_compared"]
    )
    assert "|  | median wait, ms | 200 | 100 | -50% |" in blocks["scale_compared"]
    assert "Medians of 3 races" in blocks["scale_compared"]
    assert "| sync log, disk | 2 us |" in blocks["scale_costs"]
    assert "| all | 50 | 1.00 |" in blocks["scale_changes"]
    sources = {"scale_source", "scale_store_source"}
    assert all("| --- |" in blocks[name] for name in set(scale_tables.BLOCKS) - sources)


def test_each_part_of_the_page_is_that_of_the_newest_run_which_has_it(tmp_path: Path) -> None:
    import scale_tables  # noqa: PLC0415 - of a folder of programs

    machine = {"cpu_model": "x", "usable_cores": 2, "memory_bytes": 0, "kernel": "6", "git": None}
    groups = ("endless: 8 in 8", "burst: 8 in 8", "rate: every 60 s", "change: nothing")
    for name in ("1", "2", "3"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "environment.json").write_text(json.dumps(machine))
    held = race(8, {}, appends_per_second=40.0, wait_seconds=[0.2] * 101, attempts=100, processor_seconds=4.0)
    for name in ("1", "3"):
        written(tmp_path / name, "races.jsonl", [held])
        written(tmp_path / name, scale_tables.CELLS, [report(Cell(**held["cell"]).words)])
        (tmp_path / name / scale_tables.DISK).write_text('{"disk": {}, "work": {}}')
    for name in ("1", "2"):
        with (tmp_path / name / scale_tables.CELLS).open("a") as cells:
            cells.writelines(json.dumps(report(group)) + "\n" for group in groups)
    blocks = scale_tables.page([tmp_path / name for name in ("1", "2", "3")])
    assert "results/scale/3`" in blocks["scale_source"]
    assert "results/scale/2`" in blocks["scale_store_source"]
    assert set(scale_tables.page([]).values()) == {scale_tables.NO_RUN}


def test_the_pages_have_every_table() -> None:
    import scale_tables  # noqa: PLC0415 - of a folder of programs

    pages = [ROOT / "docs" / page for page in ("design/scale.md", "guide/many-writers.md")]
    text = "".join(page.read_text() for page in pages)
    assert all(f"<!-- results: {name} -->" in text for name in scale_tables.BLOCKS)
