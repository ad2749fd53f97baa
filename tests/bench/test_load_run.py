"""A run as a frame: every sample, every field, the same columns whatever the run holds."""

from __future__ import annotations

import gzip
import json
import re

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import spillway
from spillway import runs
from spillway.bench.record import SCHEMA_VERSION
from spillway.bench.resume import read_begun
from spillway.bench.summary import read_run
from spillway.bench.tables import megabytes
from spillway.errors import OptionError, SpillwayError
from spillway.harness.records import ENVIRONMENT, read_json

from .made_runs import ROOT, Writes, make_run, wrong

RESULTS = ROOT / "results"


def test_a_run_is_a_table_with_a_row_for_each_sample(tmp_path):
    make_run(tmp_path / "run", {"arro3": Writes([100.0, 101.0]), "polars": Writes([50.0, None])})
    run = spillway.load_run(tmp_path / "run")
    frame = pl.from_arrow(run)
    assert frame.select("backend", "block", "throughput_rows_per_second", "outcome").rows() == [
        ("arro3", 0, 100.0, "ok"),
        ("arro3", 1, 101.0, "ok"),
        ("polars", 0, 50.0, "ok"),
        ("polars", 1, None, "library_error"),
    ]
    assert len(run.to_pandas()) == 4
    assert duckdb.sql("SELECT count(*) FROM run WHERE output_bytes > 0").fetchall() == [(3,)]


def test_the_columns_do_not_depend_on_what_the_run_holds(tmp_path):
    make_run(tmp_path / "failed", {"polars": Writes([None])})
    assert spillway.load_run(tmp_path / "failed").schema == spillway.load_run(RESULTS / "reference").schema


def test_a_file_that_a_reader_found_wrong_has_that_outcome(tmp_path):
    content = "ab" * 32
    make_run(
        tmp_path / "run",
        {"arro3": Writes([1.0], content=content), "polars": Writes([1.0])},
        [wrong(content, 10)],
    )
    assert spillway.load_run(tmp_path / "run")["outcome"].to_pylist() == ["wrong_output", "ok"]


def test_the_page_of_the_record_has_no_speed_of_a_wrong_file(tmp_path):
    content = "ab" * 32
    writes = {"arro3": Writes([1.0], content=content), "polars": Writes([2.0, None])}
    make_run(tmp_path / "run", writes, [wrong(content, 10)])
    page = (ROOT / "docs" / "reference" / "sample-record.md").read_text()
    names = {}
    exec(page.split("```python\n")[1].split("```")[0], names)  # noqa: S102 - the page's own code
    found = [names["speeds"](str(tmp_path / "run"), backend) for backend in writes]
    assert found == [[], [2.0]]


@pytest.mark.parametrize("kind", ["reference", "race", "targets/logs"])
def test_every_kind_of_run_is_loaded_and_has_each_column_once(kind):
    table = spillway.load_run(RESULTS / kind)
    assert table.num_rows > 0
    assert len(set(table.column_names)) == table.num_columns
    assert not any(pa.types.is_null(field.type) for field in table.schema)


def test_of_a_folder_of_runs_the_newest_is_loaded():
    newest = max(path.name for path in (RESULTS / "race").iterdir())
    assert set(spillway.load_run(RESULTS / "race")["run_id"].to_pylist()) == {newest}


def test_a_run_whose_records_were_compressed_is_read_as_it_was_and_not_resumed(tmp_path):
    content = "ab" * 32
    made = {"arro3": Writes([1.0, 2.0], content=content), "polars": Writes([3.0])}
    make_run(tmp_path / "run", made, [wrong(content, 10)])
    loaded, found = spillway.load_run(tmp_path), read_run(tmp_path / "run")
    for path in list((tmp_path / "run").glob("*.jsonl")):
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    assert spillway.load_run(tmp_path).equals(loaded)
    assert read_run(tmp_path / "run") == found
    with pytest.raises(OptionError, match="its records are compressed"):
        read_begun(tmp_path / "run")


def test_a_run_of_another_version_is_read_if_it_is_older_and_never_resumed(tmp_path):
    make_run(tmp_path / "run", {"arro3": Writes([1.0])})
    environment = tmp_path / "run" / ENVIRONMENT
    described = json.loads(environment.read_text())
    environment.write_text(json.dumps({**described, "schema_version": SCHEMA_VERSION + 1}))
    for read in (read_run, read_begun):
        with pytest.raises(SpillwayError, match=f"run: its records are of version {SCHEMA_VERSION + 1}, and"):
            read(tmp_path / "run")
    environment.write_text(json.dumps({**described, "schema_version": SCHEMA_VERSION - 1}))
    assert len(read_run(tmp_path / "run").cells) == 1
    with pytest.raises(OptionError, match="an older version of the bench began it"):
        read_begun(tmp_path / "run")


@pytest.mark.parametrize(
    ("kind", "records", "column"),
    [
        ("reference", "allocations", "curve_allocated_bytes"),
        ("reference", "probes", "wall_seconds"),
        ("limits", "least_memory", "memory_bytes"),
    ],
)
def test_what_only_a_bench_records_is_loaded_by_its_name(kind, records, column):
    table = spillway.load_run(RESULTS / kind, records)
    assert table.num_rows > 0
    assert table[column].null_count < table.num_rows
    assert table["backend"].null_count == 0


def test_records_that_a_run_has_none_of_are_no_rows(tmp_path):
    make_run(tmp_path / "run", {"arro3": Writes([1.0])})
    found = spillway.load_run(tmp_path, "allocations")
    assert found.num_rows == 0
    assert found.schema == spillway.load_run(RESULTS / "reference", "allocations").schema
    with pytest.raises(OptionError, match="samples, allocations, least_memory, pairs, probes, not 'curves'"):
        spillway.load_run(tmp_path, "curves")


def test_speeds_are_over_the_fastest_writer_of_another_library(tmp_path):
    speeds = {"spillway": 8.0, "spillway-16mb": 9.0, "arro3": 4.0, "polars": 2.0}
    backends = {name: Writes([speed] * 6) for name, speed in speeds.items()}
    make_run(tmp_path / "run", {**backends, "duckdb": Writes([99.0, None])})
    frame = pl.from_arrow(runs.speed_ratios(tmp_path))
    assert frame.select("backend", "over", "ratio", "low", "high", "blocks").rows() == [
        ("spillway-16mb", "arro3", 2.25, 2.25, 2.25, 6),
        ("spillway", "arro3", 2.0, 2.0, 2.0, 6),
        ("arro3", "arro3", 1.0, 1.0, 1.0, 6),
        ("polars", "arro3", 0.5, 0.5, 0.5, 6),
    ]


def test_without_another_library_speeds_are_over_the_fastest(tmp_path):
    make_run(tmp_path / "run", {"spillway": Writes([8.0]), "spillway-16mb": Writes([4.0])})
    frame = pl.from_arrow(runs.speed_ratios(tmp_path))
    assert frame.select("backend", "over", "ratio").rows() == [
        ("spillway", "spillway", 1.0),
        ("spillway-16mb", "spillway", 0.5),
    ]


def test_a_crossover_has_no_end_where_it_may_lie_outside_what_was_measured(tmp_path):
    def writes(few, many):
        return [Writes(few, cell={"rows": 1_000}), Writes(many, cell={"rows": 4_000})]

    one, two = [1.0] * 6, [2.0] * 6
    make_run(
        tmp_path / "run",
        {
            "spillway": writes(one, two),
            "arro3": writes(two, one),
            "polars": writes([2.0] * 3, [1.9, 1.9, 2.2]),
            "duckdb": writes([0.5] * 6, one),
        },
    )
    frame = pl.from_arrow(runs.crossovers(tmp_path))
    rows = {each["other"]: each for each in frame.filter(backend="spillway").iter_rows(named=True)}
    assert (rows["arro3"]["rows"], rows["arro3"]["low"], rows["arro3"]["high"]) == pytest.approx((2000,) * 3)
    assert (rows["arro3"]["fewest"], rows["arro3"]["most"]) == (1_000, 4_000)
    assert rows["polars"]["high"] is None
    assert "duckdb" not in rows


def test_the_least_memory_is_what_the_report_says():
    frame = pl.from_arrow(runs.least_memory(RESULTS / "limits"))
    report = max((RESULTS / "limits").glob("*/report.md")).read_text()
    assert frame["survives_from_bytes"].is_sorted()
    for name, least in frame.select("backend", "survives_from_bytes").iter_rows():
        assert re.search(rf"^\| {name} \| {megabytes(least)} \(", report, flags=re.MULTILINE), name
    assert runs.least_memory(RESULTS / "reference").num_rows == 0


def test_the_source_of_figures_names_processor_commit_and_caveats():
    found = runs.source_of(RESULTS / "limits")
    environment = read_json(max((RESULTS / "limits").glob("*/environment.json")))
    for part in (environment["run_id"], environment["cpu_model"], environment["git"]["commit"][:12]):
        assert part in found
    assert "- the host was busy before the run" in found


@pytest.mark.parametrize("read", [runs.speed_ratios, runs.crossovers, runs.least_memory, runs.source_of])
def test_a_run_of_another_command_is_not_compared(read):
    with pytest.raises(OptionError, match="a run of spillway bench was expected"):
        read(RESULTS / "race")


def test_a_folder_without_runs_is_an_error(tmp_path):
    with pytest.raises(OptionError, match=r"nor a folder of runs: give the folder .* samples.jsonl"):
        spillway.load_run(tmp_path)


def test_a_race_in_the_same_folder_is_passed_over(tmp_path):
    for name, record in (("2026", "samples.jsonl"), ("2099", "races.jsonl")):
        (tmp_path / name).mkdir()
        (tmp_path / name / record).touch()
    assert runs.find_run(tmp_path).name == "2099"
    assert runs.find_run(tmp_path, "samples.jsonl").name == "2026"
