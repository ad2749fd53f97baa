"""The pytest plugin: what a project that uses ``parquet_benchmark`` sees of it."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pytest_spillway.figures import _sizes_line
from spillway.backends.function import ArrowStream, Function, describe
from spillway.errors import OptionError
from spillway.harness.probes.process import thread_environment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Only a test that asks for longer: a child starts in a second, and a busy machine has it wait.
pytestmark = pytest.mark.timeout(600)

WRITERS = """
import os
import pyarrow as pa
import pyarrow.parquet as pq

def read(data):
    # pyarrow.table would load pandas, which takes as long as all else that the process does.
    return pa.RecordBatchReader.from_stream(data).read_all()

def good(data, path):
    reader = pa.RecordBatchReader.from_stream(data)
    with pq.ParquetWriter(path, reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)

def raises(data, path):
    raise RuntimeError("planted")

def raises_later(data, path):
    table = read(data)
    if table.num_rows > 100:
        raise OSError("planted later")
    pq.write_table(table, path)

def loses(data, path):
    pq.write_table(read(data).slice(1), path)

def changes(data, path):
    table = read(data)
    first = table.column(0).to_pylist()
    swapped = pa.array([first[1], first[0], *first[2:]], table.schema.field(0).type)
    pq.write_table(table.set_column(0, table.schema.field(0), swapped), path)

def writes_nothing(data, path):
    pass

def takes_all(data, path):
    table = read(data)
    held = bytearray(600_000_000) if table.num_rows > 100 else None
    pq.write_table(table, path)

def exits(data, path):
    os._exit(7)
"""
BASELINE = """
import time

def test_pair(benchmark):
    benchmark.pedantic(time.sleep, (0.1,))

def test_slow(benchmark):
    benchmark.pedantic(time.sleep, (0.1,))
"""
"""What a comparison is with: 0.1 s for each of the tests that follow."""
MEASURED = """
import time
import pyarrow.parquet as pq
import pytest
import writers

def slow(data, path):
    table = writers.read(data)
    until = time.process_time() + 0.3
    while table.num_rows > 100 and time.process_time() < until:
        pass
    pq.write_table(table, path)

@pytest.mark.benchmark(timer=time.perf_counter)
def test_pair(parquet_benchmark):
    found = parquet_benchmark(writers.good, rows=2_000, memory="512MB", against="pyarrow-streaming", rounds=6)
    assert found["against"]["pairs"] == 6

@pytest.mark.benchmark(group="mine", min_rounds=1)
def test_slow(parquet_benchmark):
    parquet_benchmark(slow, rows=500)

def test_broken(parquet_benchmark):
    parquet_benchmark(writers.raises, rows=500, rounds=1)

def test_unrelated():
    pass
"""
CHECKED = """
import os
import pathlib
from pyarrow.parquet import write_table
import pytest
import writers

class Writers:
    @staticmethod
    def write(data, path):
        write_table(writers.read(data), path)
        with open(os.environ["CALLS"], "a") as calls:
            calls.write("called\\n")

def test_own(parquet_benchmark):
    parquet_benchmark(Writers.write, rows=500)

def test_file(parquet_benchmark):
    found = parquet_benchmark("duckdb", data=pathlib.Path(__file__).with_name("rows.parquet"))
    assert (found["data"], found["rows"]) == ("rows.parquet", 500)
    assert found["read_back_by"] != ["duckdb"]

@pytest.mark.parametrize("name", ["raises", "raises_later", "loses", "changes", "writes_nothing", "exits"])
def test_fails(parquet_benchmark, name):
    parquet_benchmark(getattr(writers, name), rows=2_000)

def test_fails_by_the_limit(parquet_benchmark):
    parquet_benchmark(writers.takes_all, rows=2_000, memory="512MB")

def test_lambda(parquet_benchmark):
    parquet_benchmark(lambda data, path: None)

def test_late(request):
    request.getfixturevalue("parquet_benchmark")(writers.good, rows=500)
"""
PACKAGED = """
from writers import read
from .helpers import write_table

class Writers:
    @staticmethod
    def write(data, path):
        write_table(read(data), path)

def test_packaged(parquet_benchmark):
    parquet_benchmark(Writers.write, rows=500)
"""
NAMES = ("raises", "raises_later", "loses", "changes", "writes_nothing", "exits")


def run_pytest(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run pytest on a project, as its users do: no variable is left of the run that this test is in."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in thread_environment(1) and not name.startswith("PYTEST_")
    }
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:hypothesispytest", *arguments],
        cwd=folder,
        env={**environment, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=550,
    )


@pytest.fixture(scope="module")
def project(module_disk_folder: Path) -> Path:
    """A project with writers, good and bad, tests that measure them, and tests that check them alone."""
    files = {
        "pytest.ini": "[pytest]\n",
        "writers.py": WRITERS,
        "test_measured.py": BASELINE,
        "checked/test_checked.py": CHECKED,
        "checked/package/__init__.py": "",
        "checked/package/helpers.py": "from pyarrow.parquet import write_table\n",
        "checked/package/test_packaged.py": PACKAGED,
    }
    for name, text in files.items():
        path = module_disk_folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    pq.write_table(pa.table({"n": range(500)}), module_disk_folder / "checked" / "rows.parquet")
    return module_disk_folder


class Run:
    """A run of some tests of the project: its output, its outcomes, and its JSON file."""

    def __init__(self, project: Path, *arguments: str, **variables: str) -> None:
        results = project / "out.xml"
        done = run_pytest(
            project,
            *arguments,
            f"--junitxml={results}",
            f"--basetemp={project / 'temporary'}",
            **variables,
        )
        self.output, self.errors = done.stdout, done.stderr
        cases = {case.get("name"): case for case in ET.parse(results).iter("testcase")}  # noqa: S314
        self.failures = {
            name: failure.get("message", "") + (failure.text or "")
            for name, case in cases.items()
            for failure in case.iter("failure")
        }
        self.passed = {
            name for name, case in cases.items() if not {each.tag for each in case} & {"failure", "error"}
        }
        written = project / "out.json"
        found = json.loads(written.read_text())["benchmarks"] if written.exists() else []
        written.unlink(missing_ok=True)
        self.benchmarks: dict[str, dict[str, Any]] = {each["name"]: each for each in found}
        self.left = [path.name for path in (project / "temporary").rglob("*.parquet")]


STORED = "--benchmark-storage=stored"


@pytest.fixture(scope="module")
def measured(project: Path) -> Run:
    """A run that is compared with an earlier one. It counts processor time where no marker has a timer."""
    assert run_pytest(project, "test_measured.py", STORED, "--benchmark-save=first").returncode == 0
    (project / "test_measured.py").write_text(MEASURED)
    return Run(
        project,
        *("test_measured.py", "--benchmark-json=out.json", "--benchmark-timer=time.process_time"),
        *(STORED, "--benchmark-save=second", "--benchmark-compare=0001", "--benchmark-compare-fail=min:0.1"),
    )


@pytest.fixture(scope="module")
def checked(project: Path) -> Run:
    """All checks in two processes of xdist, which switches benchmarks off."""
    return Run(project, "checked", "--import-mode=importlib", "-n", "2", CALLS=str(project / "calls"))


def test_a_test_that_fails_is_no_benchmark(measured: Run) -> None:
    assert set(measured.benchmarks) == {"test_pair", "test_slow"}
    assert set(measured.failures) == {"test_broken"}


def test_seconds_are_those_of_the_measured_processes(measured: Run) -> None:
    each = measured.benchmarks["test_pair"]
    assert each["stats"]["data"] == pytest.approx(each["extra_info"]["seconds"])
    assert min(each["stats"]["data"]) > 0
    assert each["options"]["timer"] == "measured_seconds"


def test_a_timer_of_processor_time_has_that_counted(measured: Run) -> None:
    each = measured.benchmarks["test_slow"]
    assert each["stats"]["data"] == pytest.approx(each["extra_info"]["processor_seconds"])
    assert each["stats"]["data"][0] > 0.3
    assert each["options"]["timer"] == "processor_seconds"


def test_a_pair_has_a_ratio_with_its_interval(measured: Run) -> None:
    pair = measured.benchmarks["test_pair"]
    against = pair["extra_info"]["against"]
    assert (against["writer"], against["pairs"], len(against["seconds"])) == ("pyarrow-streaming", 6, 6)
    assert 0 < against["low"] <= against["ratio"] <= against["high"]
    assert pair["stats"]["rounds"] == 6


def test_extra_info_has_memory_collector_gil_and_host(measured: Run) -> None:
    found = measured.benchmarks["test_pair"]["extra_info"]
    for each in (found, found["against"]):
        assert each["peak_rss_bytes"] > each["peak_growth_bytes"] > 0
        assert each["cgroup_peak_bytes"] > 0
        assert each["allocated_bytes"] > 0
        assert each["file_bytes"] > 0
        assert each["gc_runs"] >= 0
        assert each["gc_pause_seconds"] >= 0
        assert each["gil_gap_seconds"] > 0
    assert found["limit"]["bytes"] == 512_000_000
    assert found["limit"]["proved"] is True
    assert {"spillway", "pyarrow"} <= set(found["host"]["libraries"])
    assert found["host"]["cpu_model"]


def test_files_are_read_back_by_another_engine(measured: Run) -> None:
    readers = measured.benchmarks["test_pair"]["extra_info"]["read_back_by"]
    assert readers
    assert "pyarrow" not in readers


def test_options_of_the_marker_stay(measured: Run) -> None:
    marked = measured.benchmarks["test_slow"]
    assert (marked["group"], marked["stats"]["rounds"]) == ("mine", 1)


def test_without_measuring_good_writers_pass_and_others_fail(checked: Run) -> None:
    assert checked.passed == {"test_own", "test_packaged", "test_file"}
    failing = {f"test_fails[{name}]" for name in NAMES}
    assert set(checked.failures) == {*failing, "test_fails_by_the_limit", "test_lambda", "test_late"}
    assert "too late to measure" in checked.failures["test_late"]
    assert "read back by " in checked.output


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("test_fails[raises]", "in raises\n"),
        ("test_fails[raises_later]", "in raises_later\n"),
        ("test_fails[loses]", "1,999 rows"),
        ("test_fails[changes]", "row 0"),
        ("test_fails[writes_nothing]", "no file"),
        ("test_fails[exits]", "exit status 7"),
        ("test_fails_by_the_limit", "memory limit of 512 MB"),
    ],
)
def test_a_failure_says_how_the_child_failed(checked: Run, name: str, said: str) -> None:
    message = checked.failures[name]
    assert said in message
    # Of the plugin's own code and pytest-benchmark's nothing is shown.
    assert "fixture.py" not in message


def test_the_summary_shows_the_limit_and_the_reader(measured: Run) -> None:
    _, _, summary = measured.output.partition("- parquet_benchmark -")
    assert "limit 512 MB by " in summary
    assert "proved" in summary
    assert "read back by " in summary
    assert "the time of pyarrow-streaming" in summary


def test_no_output_stays(measured: Run, checked: Run) -> None:
    assert not measured.left
    assert not checked.left


def test_a_regression_fails_the_comparison_and_nothing_else_does(project: Path, measured: Run) -> None:
    _, _, regressed = measured.errors.partition("Performance has regressed")
    assert "test_slow" in regressed
    assert "test_pair" not in regressed
    listed = subprocess.run(
        [sys.executable, "-m", "pytest_benchmark", "--storage=stored", "compare", "--columns=min"],
        cwd=project,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    ).stdout
    assert "test_slow (0001_first)" in listed
    assert "test_slow (0002_second)" in listed


def test_disabled_benchmarks_write_once_and_still_check(project: Path) -> None:
    calls = project / "calls"
    calls.unlink(missing_ok=True)
    chosen = ("checked", "-k", "test_own or test_packaged or changes")
    done = run_pytest(project, *chosen, "--import-mode=prepend", "--benchmark-disable", CALLS=str(calls))
    assert "1 failed, 2 passed" in done.stdout
    # The warm-up and the write.
    assert calls.read_text().split() == ["called", "called"]


def test_only_and_skip_know_the_fixture(project: Path) -> None:
    skipped = run_pytest(project, "-k", "test_pair or test_unrelated", "--benchmark-skip")
    assert "1 passed, 1 skipped" in skipped.stdout
    only = run_pytest(project, "-k", "test_unrelated", "--benchmark-only")
    assert "1 skipped" in only.stdout


def test_without_pytest_benchmark_the_fixture_says_what_to_install(project: Path) -> None:
    done = run_pytest(project, "-k", "test_pair", "-p", "no:benchmark")
    assert done.returncode == 1
    assert "pip install 'spillway[bench]' pytest-benchmark" in done.stdout


def test_unrelated_tests_import_nothing_but_pytest(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_plain.py").write_text("def test_unrelated():\n    import colorsys\n")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [
            *(sys.executable, "-X", "importtime", "-m", "pytest", "-s", "--trace-config"),
            *("-p", "no:cacheprovider", "-p", "no:benchmark", "test_plain.py"),
        ],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if "|" in line}
    assert "pytest_spillway" in done.stdout
    assert "colorsys" in imported
    heavy = {"spillway", "pytest_benchmark", "pyarrow", "polars", "duckdb"}
    assert not {name.partition(".")[0] for name in imported} & heavy


def top_level(data: Any, path: Path) -> None:
    pq.write_table(pa.table(data), path)


def of_three(data: Any, path: Path, more: int) -> None:
    """A function that takes more than it is given."""


def lazily(data: Any, path: Path) -> Iterator[None]:
    yield pq.write_table(pa.table(data), path)


class Writers:
    def bound(self, data: Any, path: Path) -> None:
        """A method that needs its object."""

    def __call__(self, data: Any, path: Path) -> None:
        """An object that can be called."""


def nested() -> Any:
    def inner(data: Any, path: Path) -> None:
        """A function that closes over nothing, and has no name that can be imported."""

    return inner


@pytest.mark.parametrize(
    "function",
    [
        lambda _data, _path: None,
        nested(),
        functools.partial(of_three, more=1),
        Writers().bound,
        Writers(),
        Writers,
        of_three,
        lazily,
    ],
    ids=["lambda", "nested", "partial", "bound", "object", "class", "arguments", "generator"],
)
def test_functions_that_a_child_cannot_call_are_refused(tmp_path: Path, function: Any) -> None:
    with pytest.raises(OptionError):
        describe(function, tmp_path / "writer.json")


def test_a_function_is_named_by_the_file_that_describes_it(tmp_path: Path) -> None:
    name = describe(top_level, tmp_path / "writer.json")
    assert name == f"function:{tmp_path / 'writer.json'}"
    described = json.loads((tmp_path / "writer.json").read_text())
    assert described["qualified_name"] == "top_level"
    assert described["modules"][-1]["file"] == __file__


def test_a_stream_gives_its_batches_once() -> None:
    batches = pa.table({"n": range(10)}).to_batches(max_chunksize=4)
    stream = ArrowStream(batches[0].schema, batches)
    assert pa.table(stream)["n"].to_pylist() == list(range(10))
    with pytest.raises(ValueError, match="once"):
        pa.table(stream)
    assert not hasattr(stream, "schema")


def test_a_function_backend_has_the_one_mode_of_streams() -> None:
    assert Function.modes == {"batches-retained"}


def test_small_files_have_a_size():
    found = {"writer": "mine", "peak_rss_bytes": 123_456_789, "peak_growth_bytes": None, "file_bytes": 1_234}
    assert _sizes_line(found) == "mine: peak RSS 123 MB (grew by unknown), file 0.00123 MB"
