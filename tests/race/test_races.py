"""`spillway race` from its command line to the files it leaves."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import pytest

from spillway.harness import records
from spillway.race import committers, worker
from spillway.race.location import Location
from spillway.race.model import Cell
from spillway.race.record import RACES, read_run
from spillway.race.report import draw_figures, write_report
from spillway.race.tables import targets_table

from ..counts import SOAK
from .conftest import ON_DISK, invoke, races_in, start

SECONDS = 120
ENDLESS = ("--committers", "spillway", "--appends", "1000000")


def await_races(out: Path, count: int) -> None:
    deadline = time.monotonic() + SECONDS
    while len(races_in(out)) < count:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def children(pid: int) -> list[int]:
    """Processes that call this one their parent."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if f"PPid:\t{pid}\n" in (entry / "status").read_text():
                    found.append(int(entry.name))
            except (FileNotFoundError, ProcessLookupError):
                continue
    return found


def await_children(process: subprocess.Popen[str], count: int) -> list[int]:
    """Its worker processes, once they append."""
    deadline = time.monotonic() + SECONDS
    while len(found := children(process.pid)) < count:
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.02)
    return found


def versions(out: Path) -> int:
    """Versions of all tables below; what is removed meanwhile is passed over."""
    logs = [
        names for folder, _, names in os.walk(out) if folder.endswith("_delta_log") and "-warm/" not in folder
    ]
    return sum(name.endswith(".json") for names in logs for name in names)


def await_versions(out: Path, count: int) -> int:
    deadline = time.monotonic() + SECONDS
    while (there := versions(out)) < count:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return there


def is_alive(pid: int) -> bool:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_every_committer_commits_every_append_once(finished: Path) -> None:
    found = records.read_lines(finished / RACES)
    assert sorted((each["cell"]["committer"], each["cell"]["writers"]) for each in found) == sorted(
        (name, writers) for name in ON_DISK for writers in (1, 4)
    )
    for each in found:
        writers = each["cell"]["writers"]
        assert each["outcome"] == "ok"
        assert each["acknowledged"] == each["table"]["present"] == writers
        assert each["table"]["rows"] == {"delta-rs": 3 * writers, "polars": 3 * writers}
        assert (each["table"]["lost"], each["table"]["doubled"], each["table"]["problems"]) == (0, 0, [])
        assert 0 < each["wait_seconds"][50] <= each["wait_seconds"][100]
        # In microseconds, from the start on.
        assert each["wait_seconds"][100] <= each["seconds"] + 1e-6
        assert each["appends_per_second"] == pytest.approx(writers / each["seconds"])
        shares = each["cell"]["committer"] in {"spillway", "spillway-coalesce"}
        if not shares:
            assert each["table"]["versions"] == writers
        assert (each["attempts"] is None) == (each["cell"]["committer"] == "delta-rs")
        assert (each["most_lost"] is None) != shares
        if shares:
            assert each["effects"]["put_version"]["count"] == each["attempts"]
            assert each["effects"]["put_version"]["longest_seconds"] > 0
        else:
            assert each["effects"] is None
        assert each["processor_seconds"] > 0


def test_a_run_leaves_its_files_and_no_table(finished: Path) -> None:
    assert {path.name for path in finished.iterdir()} == {
        "environment.json",
        "races.jsonl",
        "report.md",
        "figures",
    }
    assert len(list((finished / "figures").iterdir())) == 2


def test_the_machine_is_named_by_its_processor_alone(finished: Path) -> None:
    host = re.compile(rf"\b{re.escape(platform.node())}\b")
    for path in finished.iterdir():
        if path.is_file():
            text = path.read_text()
            assert not host.search(text)
            assert not re.search(r'"/(?:home|root|tmp|work|usr|opt|var)/', text)


def test_the_report_is_made_from_the_disk_alone(finished: Path) -> None:
    before = (finished / "report.md").read_text()
    run = read_run(finished)
    assert write_report(run, draw_figures(run)).read_text() == before


def test_the_report_says_what_is_synced_and_what_was_published(finished: Path) -> None:
    report = (finished / "report.md").read_text()
    assert "spillway: data files, their folders and the log are synced" in report
    assert "delta-rs: nothing is synced on a local disk" in report
    assert "counted by delta-rs and by polars" in report
    assert "Published and earlier figures" in report
    assert "about 350" in report
    for figure in (finished / "figures").iterdir():
        assert f"(figures/{figure.name})" in report


def test_the_report_says_no_more_of_a_table_of_another_format_than_was_checked(
    finished: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(finished, tmp_path / "run")
    found = records.read_lines(folder / RACES)
    of_lance = found[0] | {"cell": found[0]["cell"] | {"committer": "lance"}}
    of_lance["table"] = found[0]["table"] | {"rows": {"lance": 3}}
    own = "Tables of lance are no Delta tables: every row was counted by lance alone."
    for committers_of, records_of in (("both", [*found, of_lance]), ("one", [of_lance])):
        (folder / RACES).unlink()
        for each in records_of:
            records.append(folder / RACES, each)
        text = write_report(read_run(folder), []).read_text()
        assert own in text
        assert ("log was contiguous" in text) == (committers_of == "both")
        assert ("counted by delta-rs and by polars" in text) == (committers_of == "both")


def test_the_report_of_a_wrong_table_says_so_first(finished: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(finished, tmp_path / "run")
    (record, *_) = records.read_lines(folder / RACES)
    record["outcome"] = "wrong_output"
    record["table"] |= {"lost": 1, "problems": ["acknowledged, and not in the table: writer 0, append 0"]}
    records.append(folder / RACES, record)
    run = read_run(folder)
    text = write_report(run, draw_figures(run)).read_text()
    assert "**Tables are wrong:**" in text
    assert "log was contiguous" not in text
    assert "ok x1, wrong_output x1" in text


def test_targets_are_judged_by_what_was_run(finished: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(finished, tmp_path / "run")
    template = records.read_lines(folder / RACES)[0]
    cell = {
        "committer": "spillway",
        "workload": "append-only",
        "rows": 10,
        "appends": 1,
        "partitions": "own",
    }
    thousand = template | {
        "cell": cell | {"writers": 1000, "processes": 1},
        "seconds": 2.5,
        "still_waiting": 0,
        "wait_seconds": [2.4] * 101,
    }
    bundles = thousand | {"cell": cell | {"writers": 1024, "processes": 64}, "most_lost": 3}
    for record in (thousand, bundles):
        records.append(folder / RACES, record)
    lines = {row[0].text: [each.text for each in row[1:]] for row in targets_table(read_run(folder)).rows}
    assert lines["1,000 threads, own partitions"] == ["all in 3 s", "2.5", "yes"]
    assert lines["1,000 threads: longest wait"] == ["2 s", "2.4", "no"]
    assert lines["64 processes x 16 writers: most races lost by a bundle"] == ["2", "3", "no"]
    assert lines["300 writers"] == ["100 x", "not run", "-"]


def test_processes_race_too(out: Path) -> None:
    result = invoke(out, "--committers", "spillway", "--writers", "9", "--spread", "processes:3")
    assert result.exit_code == 0, result.output
    (record,) = races_in(out)
    assert (record["outcome"], record["cell"]["processes"], record["table"]["present"]) == ("ok", 3, 9)
    assert record["most_lost"] <= 2


def test_appends_follow_each_other_in_all_workloads(out: Path) -> None:
    workloads = ("--workloads", "merge,batched:20", "--partitions", "one", "--writers", "2", "--appends", "3")
    raced = ("spillway", "delta-rs") if SOAK else ("spillway",)
    result = invoke(out, "--committers", ",".join(raced), *workloads)
    assert result.exit_code == 0, result.output
    found = races_in(out)
    assert len(found) == 2 * len(raced)
    for each in found:
        assert each["table"]["present"] == 6
        assert each["table"]["rows"]["polars"] == 6 * each["cell"]["rows"]
        if each["cell"]["committer"] == "spillway":
            # A writer's appends wait for each other.
            assert each["table"]["versions"] >= 3


def test_the_time_limit_makes_a_stall_a_result(out: Path) -> None:
    result = invoke(out, *ENDLESS, "--writers", "2", "--time-limit", "3")
    assert result.exit_code == 0, result.output
    (record,) = races_in(out)
    assert record["outcome"] == "stalled"
    assert 0 < record["acknowledged"] <= record["table"]["present"]
    assert record["seconds"] == 3
    assert record["still_waiting"] == 2_000_000 - record["acknowledged"]
    assert record["table"]["lost"] == record["table"]["doubled"] == 0
    assert "stalled" in result.output


def test_writers_go_on_for_a_time_beside_noise(out: Path) -> None:
    load = (
        "--committers",
        "spillway",
        "--writers",
        "3",
        "--spread",
        "processes",
        "--seconds",
        "2",
        "--noise",
    )
    result = invoke(out, *load)
    assert result.exit_code == 0, result.output
    (record,) = races_in(out)
    assert (record["outcome"], record["still_waiting"], record["cell"]["noise"]) == ("ok", 0, True)
    assert record["acknowledged"] == record["table"]["present"] == record["table"]["rows"]["polars"] / 10 > 3
    # What was under way at the end of the time is acknowledged after it.
    assert 2 <= record["seconds"] < SECONDS
    assert len(record["each_second"]) == 2
    assert record["acknowledged"] - 3 <= sum(record["each_second"]) <= record["acknowledged"]
    (report,) = out.glob("*/report.md")
    assert (
        "appends for 2 s, in sequence, own partitions, a process each, beside a process that"
        in report.read_text()
    )
    assert "least in 1 s" in report.read_text()


def test_a_writer_without_an_answer_after_its_time_is_a_stall(out: Path) -> None:
    load = ("--committers", "spillway", "--writers", "2", "--spread", "processes")
    with start(out, *load, "--seconds", "3", "--time-limit", "2") as race:
        await_versions(out, 5)
        os.kill(await_children(race, 2)[0], signal.SIGSTOP)
        output, _ = race.communicate(timeout=SECONDS)
        assert race.returncode == 0, output
    (record,) = races_in(out)
    assert (record["outcome"], record["still_waiting"], record["seconds"]) == ("stalled", 1, 5)
    assert 0 < record["acknowledged"] <= record["table"]["present"]
    assert record["table"]["problems"] == []


def test_a_killed_process_loses_nothing_and_the_others_go_on(out: Path) -> None:
    with start(out, *ENDLESS, "--writers", "3", "--spread", "processes") as race:
        await_versions(out, 5)
        victim, *others = await_children(race, 3)
        os.kill(victim, signal.SIGKILL)
        # A version each may have been under way.
        await_versions(out, versions(out) + 6)
        for other in others:
            os.kill(other, signal.SIGKILL)
        race.communicate(timeout=SECONDS)
    (record,) = races_in(out)
    assert record["outcome"] == "failed"
    assert record["table"]["problems"] == []
    assert record["table"]["lost"] == record["table"]["doubled"] == 0
    assert "SIGKILL" in record["problem"]
    assert record["table"]["present"] >= record["acknowledged"] > 0


def test_ctrl_c_keeps_what_was_raced_and_leaves_nothing_running(out: Path) -> None:
    endless = ("--committers", "spillway", "--writers", "2", "--spread", "processes", "--samples", "500")
    with start(out, *endless) as race:
        await_races(out, 2)
        workers = await_children(race, 1)
        race.send_signal(signal.SIGINT)
        output, _ = race.communicate(timeout=SECONDS)
        assert race.returncode == 130, output
    assert 2 <= len(races_in(out)) < 100
    assert "interrupted" in output
    (folder,) = out.iterdir()
    assert (folder / "report.md").exists()
    assert not (folder / "tables").exists()
    assert not any(map(is_alive, workers))


def test_ctrl_c_in_the_first_race_leaves_no_folder(out: Path) -> None:
    with start(out, *ENDLESS, "--writers", "2") as race:
        await_versions(out, 5)
        race.send_signal(signal.SIGINT)
        output, _ = race.communicate(timeout=SECONDS)
    assert race.returncode == 130, output
    assert "interrupted during the first race" in output
    assert list(out.iterdir()) == []


def test_writers_end_with_the_race_that_started_them(out: Path) -> None:
    with start(out, *ENDLESS, "--writers", "2", "--spread", "processes") as race:
        await_versions(out, 5)
        workers = await_children(race, 2)
        race.kill()
        race.communicate(timeout=SECONDS)
    deadline = time.monotonic() + SECONDS
    while any(map(is_alive, workers)):
        assert time.monotonic() < deadline
        time.sleep(0.02)


WORKER_THEN_INTERVAL = """
import runpy, sys
usual = sys.getswitchinterval()
runpy.run_path(sys.argv.pop(), run_name="__main__")
print(sys.getswitchinterval() == usual, sys.getswitchinterval())
"""


def test_a_worker_leaves_the_switch_interval_as_it_is(tmp_path: Path) -> None:
    """A longer one makes threads wait for the interpreter that have their answer already."""
    begin, go = os.pipe()
    cell = Cell(committer="spillway", workload="append-only", writers=1)
    job = {"role": "create", "cell": asdict(cell), "location": asdict(Location(str(tmp_path / "table")))}
    command = (sys.executable, "-c", WORKER_THEN_INTERVAL, str(begin), "2", worker.__file__)
    try:
        said = subprocess.run(
            command, input=json.dumps(job), pass_fds=[begin], text=True, check=True, capture_output=True
        ).stdout
    finally:
        os.close(begin)
        os.close(go)
    assert said.split()[0] == "True", said
    assert (tmp_path / "table" / "_delta_log").is_dir()


def test_tables_are_kept_on_request_where_they_are_wanted(out: Path) -> None:
    store = out / "store"
    result = invoke(
        out / "runs", "--committers", "spillway", "--writers", "1", "--store", str(store), "--keep-tables"
    )
    assert result.exit_code == 0, result.output
    (table,) = store.iterdir()
    assert (table / "_delta_log").is_dir()


def test_help_teaches() -> None:
    text = " ".join(re.sub(r"[│\s]+", " ", invoke(Path("unused"), "--help").output).split())
    for word in ("--writers", "--spread", "batched:N", "Examples", "--targets", "stalled"):
        assert word in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--writers", "many"], "give whole numbers"),
        (["--store", "s3://bucket", "--noise"], "leave it out"),
        (["--committers", "iceberg"], "choose from"),
        (["--workloads", "delete"], "batched:N"),
        (["--spread", "hosts"], "processes:N"),
        (["--store", "gs://bucket"], "s3://BUCKET"),
        (["--store", "s3://bucket", "--storage-option", "secret"], "NAME=VALUE"),
        (["--out", "/dev/shm/spillway-race"], "choose a folder on a disk"),  # noqa: S108 - to be refused
        (["--spread", "processes", "--writers", "100000", "--committers", "spillway"], "processes:64"),
    ],
)
def test_an_option_that_cannot_be_says_what_to_do(out: Path, arguments: list[str], words: str) -> None:
    result = invoke(out, "--writers", "1", *arguments)
    assert result.exit_code == 2, result.output
    assert words in " ".join(result.output.split())
    assert "Traceback" not in result.output


def test_a_missing_library_is_a_line_in_the_report(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = committers.missing
    absent = "deltalake is not installed: pip install 'spillway[race]'"
    monkeypatch.setattr(committers, "missing", lambda name: absent if "delta-rs" in name else found(name))
    result = invoke(out, "--writers", "1", "--committers", "spillway,delta-rs")
    assert result.exit_code == 0, result.output
    (folder,) = out.iterdir()
    assert f"delta-rs, append-only, 1 writer: {absent}" in (folder / "report.md").read_text()
