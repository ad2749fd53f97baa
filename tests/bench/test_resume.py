"""A run that ended early goes on where it ended, and nothing of it was left running."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

import pytest
from typer.testing import CliRunner

from spillway.bench.plan import Options, plan_cells
from spillway.bench.record import DISTURBED, SAMPLES, SCHEMA_VERSION
from spillway.bench.resume import BegunRun, read_begun, slots_left
from spillway.cli.app import app
from spillway.errors import OptionError
from spillway.harness import records
from spillway.harness.limits import detect_limiters
from spillway.harness.limits.cgroup import CgroupV1, CgroupV2
from spillway.harness.schedule import schedule

OPTIONS = Options(backends=("arro3", "polars"), rows=(10, 20), modes=("batches",), samples=3)
DESCRIBED = {
    "cpu_model": "a",
    "usable_cores": 2,
    "memory_bytes": 3,
    "kernel": "k",
    "transparent_huge_pages": None,
    "malloc": [],
    "python": {},
    "libraries": [],
    "native_build": None,
    "benchmark": {},
    "absent_backends": [],
    "inputs": [{"dataset": "logs", "rows": 5, "columns": 1, "arrow_bytes": 9, "first_batch": "f"}],
}


def spillway(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def sample(slot):
    return {"block": slot.block, "position": slot.position, "cell": asdict(slot.cell)}


@pytest.mark.parametrize("taken", range(0, 13, 3))
def test_the_slots_that_are_left_and_those_that_are_done_make_the_schedule(taken):
    whole = list(schedule(plan_cells(OPTIONS), blocks=3, seed=7))
    done = json.loads(json.dumps([sample(slot) for slot in whole[:taken]]))
    assert slots_left(whole, done) == whole[taken:]


def test_the_block_of_a_disturbed_sample_is_taken_again_as_a_whole(tmp_path):
    whole = list(schedule(plan_cells(OPTIONS), blocks=3, seed=7))
    taken = [sample(slot) | {"host": {"others_seconds": 0.0, "wall_seconds": 1.0}} for slot in whole]
    for each in taken:
        records.append(tmp_path / SAMPLES, each)
    disturbed = next(each for each in taken if each["block"] == 1)
    disturbed["host"] = {"others_seconds": 100.0, "wall_seconds": 1.0}
    begun = BegunRun(tmp_path, {"cores": 2}, taken, retakes=True).without_disturbed()
    assert {each["block"] for each in begun.taken} == {0, 2}
    assert {slot.block for slot in slots_left(whole, begun.taken)} == {1}
    assert len(records.read_lines(tmp_path / DISTURBED)) == len(whole) // 3


def test_samples_of_another_order_are_not_continued():
    whole = list(schedule(plan_cells(OPTIONS), blocks=3, seed=7))
    first, second = sample(whole[0]), sample(whole[1])
    with pytest.raises(OptionError, match="another order"):
        slots_left(whole, [{**first, "cell": second["cell"]}])


def test_a_run_knows_the_options_that_it_was_begun_with(tmp_path):
    recorded = json.loads(json.dumps({name: getattr(OPTIONS, name) for name in vars(OPTIONS)}))
    assert BegunRun(tmp_path, {"options": recorded}, []).options == OPTIONS


@pytest.mark.parametrize(
    ("name", "words"),
    [("cpu_model", "the processor"), ("libraries", "the libraries"), ("benchmark", "the code that measures")],
)
def test_a_run_is_not_continued_where_something_changed(tmp_path, name, words):
    begun = BegunRun(tmp_path, DESCRIBED, [])
    assert begun.continued(DESCRIBED)["resumed"][0]["load_before"] >= 0
    with pytest.raises(OptionError, match=f"began: {words}. Its samples"):
        begun.continued({**DESCRIBED, name: "other"})


def test_a_run_is_not_continued_with_other_rows(tmp_path):
    others = [{**DESCRIBED["inputs"][0], "first_batch": "g"}]
    with pytest.raises(OptionError, match="the rows of the input"):
        BegunRun(tmp_path, DESCRIBED, []).continued({**DESCRIBED, "inputs": others})


def test_a_line_that_was_cut_short_is_no_record_and_is_cut_off(tmp_path):
    environment = {"run_id": "run", "schema_version": SCHEMA_VERSION, "afterwards": {}}
    records.write_json(tmp_path / records.ENVIRONMENT, environment)
    records.append(tmp_path / SAMPLES, {"block": 0})
    whole = (tmp_path / SAMPLES).read_bytes()
    (tmp_path / SAMPLES).write_bytes(whole + b'{"block": 1, "posi')
    assert records.read_lines(tmp_path / SAMPLES) == [{"block": 0}]
    assert read_begun(tmp_path).taken == [{"block": 0}]
    assert (tmp_path / SAMPLES).read_bytes() == whole


def test_a_folder_that_is_no_run_says_what_to_give(tmp_path):
    result = spillway("bench", "--resume", tmp_path)
    assert result.exit_code == 2
    assert "no run of the bench: give its folder" in result.output


def test_samples_are_taken_again_of_a_run_that_is_named():
    result = spillway("bench", "--retake", "--memory", "none")
    assert result.exit_code == 2
    assert "--retake: name the run with --resume" in result.output


# However busy the machine is, it is killed while its third sample is taken.
KILLED_IN_THE_THIRD = """
import os, signal, threading, time
import psutil
from spillway.bench.sample import SampleTaker
from spillway.cli import main

take, slots = SampleTaker.take, []

def kill():
    while not psutil.Process().children():
        time.sleep(0.002)
    os.kill(os.getpid(), signal.SIGKILL)

def taking(self, slot, *others, **more):
    slots.append(slot)
    if len(slots) == 3:
        threading.Thread(target=kill).start()
    return take(self, slot, *others, **more)

SampleTaker.take = taking
main()
"""


@pytest.fixture(scope="module")
def killed(module_disk_folder):
    """A run that was killed while it took the third of four samples; its process's number and its folder."""
    out = Path(tempfile.mkdtemp(dir=module_disk_folder))
    cells = ["--backend", "arro3", "--rows", "2000", "--mode", "batches", "--samples", "4"]
    shared = ["--no-trace", "--probes", "0", "--validate", "pyarrow", "--memory", "512MB", "--out", out]
    command = [sys.executable, "-c", KILLED_IN_THE_THIRD, "bench", *cells, *shared]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        process.wait(300)
    assert process.returncode == -signal.SIGKILL
    (folder,) = out.iterdir()
    assert 2 <= len(records.read_lines(folder / SAMPLES)) < 4
    return process.pid, folder


@pytest.fixture
def begun(killed, disk_folder):
    """A copy of that run, to be continued."""
    return shutil.copytree(killed[1], disk_folder / killed[1].name)


def test_a_killed_run_leaves_no_process_and_no_group(killed):
    parents = [each.parent for each in detect_limiters() if isinstance(each, CgroupV1 | CgroupV2)]
    deadline = time.monotonic() + 60
    while groups := [each for parent in parents for each in parent.glob(f"spillway-{killed[0]}-*")]:
        assert time.monotonic() < deadline, groups
        time.sleep(0.02)
    assert not _workers_of(killed[1])


def _workers_of(folder):
    """Processes that work in a run's folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                found += [entry.name] if (entry / "cwd").readlink().is_relative_to(folder) else []
            except OSError:
                continue
    return found


def test_a_killed_run_goes_on_to_the_same_samples_takes_a_disturbed_one_again_and_is_read_back(begun):
    quiet, disturbed, *_ = records.read_lines(begun / SAMPLES)
    quiet["host"]["others_seconds"] = 0.0
    disturbed["host"] |= {"others_seconds": 100.0, "wall_seconds": 1.0}
    records.replace_lines(begun / SAMPLES, [quiet, disturbed])
    result = spillway("bench", "--resume", begun, "--retake")
    assert result.exit_code == 0, result.output
    assert records.read_lines(begun / SAMPLES)[0] == quiet
    assert records.read_lines(begun / DISTURBED) == [disturbed]
    said = "1 sample was taken again, since other processes ran during some of their blocks"
    assert said in (begun / "report.md").read_text()
    taken = records.read_lines(begun / SAMPLES)
    assert sorted((each["block"], each["position"]) for each in taken) == [(n, 0) for n in range(4)]
    assert "validated by pyarrow: 1 of 1" in result.output
    assert (begun / "report.md").exists()
    assert not (begun / "outputs").exists()
    assert len(records.read_json(begun / records.ENVIRONMENT)["resumed"]) == 1


def test_a_killed_run_is_reported_as_it_is(begun):
    result = spillway("report", begun.parent)
    assert result.exit_code == 0, result.output
    assert "# Run" in (begun / "report.md").read_text()
    assert "arro3" in result.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--rows", "2000"], "leave out --rows"),
        (["--input", "my.parquet"], "does not measure your own files"),
        (["--samples", "4", "--memory", "1GB"], "leave out --memory, --samples"),
    ],
)
def test_a_run_is_continued_as_it_was_begun(begun, arguments, words):
    result = spillway("bench", "--resume", begun, *arguments)
    assert result.exit_code == 2
    assert words in result.output
