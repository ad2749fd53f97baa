"""Simulate how many writers a table takes, and hold the simulation to real races on this machine's disk.

    python scripts/scale.py disk runs/disk              # hold races, and simulate them: ten minutes
    python scripts/scale.py store runs/store            # simulate object stores: an hour
    python scripts/scale.py disk runs/disk --record     # and keep the run in results/scale/
    python scripts/scale.py table runs/disk

``make readme`` puts the tables of the newest runs in ``results/scale/`` into ``docs/design/scale.md``.

The committer of each simulated process is the real one (``rust/delta-sim``, the timed mode). The races of one
and of two processes say what effects cost on this disk. The processor time of the race in 64 processes says
what it costs to begin on a core that another process had. All else is compared with the simulation.

Standard error says how long each scenario took. Those of 100 and of 1,000 processes take minutes each: every
process reads every version and many announcements, and the committer's own work on them is done for real.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

import scale_disk
from scale_tables import CELLS, DISK, tables
from spillway.harness import records
from spillway.harness.environment import describe_environment, refuse_debug_build
from spillway.race.cell import Progress
from spillway.race.model import Cell
from spillway.race.record import RACES
from spillway.race.run import Options, hold_races

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SCHEMA_VERSION = 1
ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results" / "scale"
SIMULATOR = ROOT / "target" / "release" / "examples" / "scale"
HOSTS = 100
Scenario = dict[str, Any]


@dataclass(frozen=True)
class Asked:
    """The options of a run.

    Attributes:
        samples: Races of each kind, and seeds of each of them simulated.
        seed: Of the order of races, and of what is simulated on an object store.
    """

    samples: int
    seed: int


def build() -> None:
    """Build the simulator, optimised."""
    command = ["cargo", "build", "--release", "--locked", "--package", "delta-sim", "--example", "scale"]
    subprocess.run(command, check=True, cwd=ROOT)


def costs() -> dict[str, int]:
    """The nanoseconds that the committer takes for an action on this machine."""
    done = subprocess.run([SIMULATOR, "machine"], check=True, capture_output=True, text=True)
    found: dict[str, int] = json.loads(done.stdout)
    return found


def simulated(scenarios: Sequence[Scenario]) -> Iterator[dict[str, Any]]:
    """The answers for scenarios, one after the other."""
    with tempfile.TemporaryFile("w+") as lines:
        lines.writelines(json.dumps(scenario) + "\n" for scenario in scenarios)
        lines.seek(0)
        with subprocess.Popen([SIMULATOR], stdin=lines, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            yield from map(json.loads, process.stdout)
    if process.returncode:
        raise SystemExit(f"the simulator ended with status {process.returncode}")


SECONDS = 8.0
CROWD = Cell(committer="spillway", workload="append-only", writers=64, processes=64, seconds=SECONDS)
"""The race in which each process finds the cores as others left them."""


def races() -> list[Cell]:
    """The races: those that say what effects cost, and a burst and a load without end in 8 and 64 processes.

    A number of appends would end with the slowest writers alone, and the cores idle.
    """
    race = partial(Cell, committer="spillway", workload="append-only")
    return [
        race(writers=1, processes=1, appends=400),
        race(writers=2, processes=2, appends=200),
        race(writers=16, processes=1, appends=40),
        race(writers=8, processes=8, seconds=SECONDS),
        race(writers=1_024, processes=8),
        CROWD,
        race(writers=1_024, processes=64),
    ]


def hold(folder: Path, asked: Asked) -> None:
    """Hold the races, and leave their records in the folder."""
    options = Options(
        committers=("spillway",), writers=(1,), samples=asked.samples, seed=asked.seed, time_limit=120.0
    )
    finished = hold_races(
        races(),
        options,
        out=folder,
        progress=Progress(Console(stderr=True)),
    )
    shutil.move(finished.folder / RACES, folder / RACES)
    shutil.rmtree(finished.folder)


def on_disk(folder: Path, asked: Asked, cores: int, actions: dict[str, int]) -> list[Scenario]:
    """The same races, to be simulated with what they say of this disk and of these cores."""
    found = records.read_lines(folder / RACES)
    disk, own = scale_disk.calibrated(found, scale_disk.probed(folder))

    def scenario(cell: Cell, seed: int, work: dict[str, int]) -> Scenario:
        return {
            "name": cell.words,
            "seed": seed,
            "cores": cores,
            "processes": cell.processes,
            "writers": cell.writers,
            "load": _endless(0, cell.seconds) if cell.seconds else {"burst": {"appends": cell.appends}},
            "work": work,
            "store": {"disk": disk},
        }

    work = own | actions
    each = [race["processor_seconds"] / race["acknowledged"] for race in found if _is_crowd(race)]
    work["cold_us"] = cold(scenario(CROWD, asked.seed, work), statistics.median(each))
    records.write_json(folder / DISK, {"disk": disk, "work": work})
    return [scenario(cell, asked.seed + sample, work) for cell in races() for sample in range(asked.samples)]


def _is_crowd(race: dict[str, Any]) -> bool:
    return Cell(**race["cell"]) == CROWD


_ROUNDS = 4


def cold(scenario: Scenario, each_seconds: float) -> int:
    """Microseconds that a core of another process costs, for an append to take so much processor time."""
    found = 0.0
    for _ in range(_ROUNDS):
        work = scenario["work"] | {"cold_us": round(found)}
        (report,) = simulated([scenario | {"work": work}])
        missing = each_seconds * report["appends"] - report["cpu_seconds"]
        found = max(0.0, found + missing / report["cold_turns"] * 1e6)
    return round(found)


# Of a process on S3: as on the disk here, and what a signed request takes.
_WORK = {"prepare_us": 400, "write_us": 800, "request_us": 200, "version_us": 1_000}


def _spread(name: str, processes: int, writers: int, load: dict[str, Any], **more: Any) -> Scenario:
    spread = {"hosts": min(HOSTS, processes), "processes": processes, "writers": writers}
    return {"name": name, **spread, "load": load, "work": _WORK, **more}


def _endless(warm_up: float, seconds: float, each_per_second: float | None = None) -> dict[str, Any]:
    times = {"warm_up_seconds": warm_up, "seconds": seconds}
    return {"endless": times | {"each_per_second": each_per_second}}


GRID = (
    (1, 1),
    (1, 100),
    (1, 10_000),
    (10, 1_000),
    (100, 1_000),
    (100, 10_000),
    (1_000, 10_000),
    (1_000, 100_000),
)
"""Processes and writers."""


def on_s3(seed: int, actions: dict[str, int]) -> list[Scenario]:
    """The scenarios on an object store."""
    sustained = [
        _spread(f"endless: {writers:,} in {processes:,}", processes, writers, _endless(20, 40))
        for processes, writers in GRID
    ]
    bursts = [
        _spread(f"burst: {writers:,} in {processes:,}", processes, writers, {"burst": {"appends": 1}})
        for processes, writers in GRID
    ]
    rates = [
        _spread(f"rate: every {every} s", 1_000, 100_000, _endless(30, 60, 1 / every))
        for every in (3_600, 600, 60)
    ]
    changes = [
        _spread(f"change: {name}", 100, 10_000, _endless(20, 30), **change)
        for name, change in CHANGES.items()
    ]
    every = [*sustained, *bursts, *rates, *changes]
    return [scenario | {"seed": seed, "work": scenario["work"] | actions} for scenario in every]


def _store(**settings: Any) -> dict[str, Any]:
    return {"store": {"object_store": settings}}


def _time(median: float, p99: float) -> dict[str, float]:
    return {"median_ms": median, "p99_ms": p99}


CHANGES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "10 files an append: 500 members a version": {"files": 10},
    "coalescing within a process": {"coalesce": True},
    "an idle process waits 100 ms for company": {"company_ms": 100},
    "an idle process waits 1 s for company": {"company_ms": 1_000},
    "4 tables": {"tables": 4},
    "10 tables": {"tables": 10},
    "conditional PUT in half the time": _store(conditional_put=_time(31.5, 100)),
    "GET and LIST in half the time": _store(get=_time(15, 100), list=_time(25, 100)),
    "all requests in a fifth of the time": _store(
        get=_time(6, 40), put=_time(12, 40), conditional_put=_time(12.6, 40), list=_time(10, 40)
    ),
    "any number of conditional PUT on a key": _store(puts_per_key=0),
    "any number of requests on a prefix": _store(reads_per_second=0, writes_per_second=0),
    "10 prefixes of data files": _store(data_prefixes=10),
    "processes pause 20 times an hour, 1 s, one in a hundred 10 s": {
        "pauses": {"an_hour": 20, "time": _time(1_000, 10_000)}
    },
    "clocks of hosts differ by up to 5 s": {"skew_ms": 5_000},
}
"""Scenarios of 10,000 writers in 100 processes, each with what it changes."""


def run(folder: Path, asked: Asked, *, with_races: bool) -> None:
    """Take the figures of a disk or of object stores, and leave them in a folder."""
    folder.mkdir(parents=True)
    environment = describe_environment(records.new_run_id(), asked, schema_version=SCHEMA_VERSION)
    build()
    actions = costs()
    if with_races:
        refuse_debug_build()
        hold(folder, asked)
        scenarios = on_disk(folder, asked, environment["usable_cores"], actions)
    else:
        scenarios = on_s3(asked.seed, actions)
    records.write_json(folder / records.ENVIRONMENT, environment)
    for report in simulated(scenarios):
        records.append(folder / CELLS, report)


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name, what in (
        ("disk", "hold races on this disk, and simulate them"),
        ("store", "simulate object stores"),
    ):
        command = commands.add_parser(name, help=what)
        command.add_argument("folder", type=Path)
        command.add_argument("--samples", type=int, default=5)
        command.add_argument("--seed", type=int, default=1)
        command.add_argument("--record", action="store_true", help="keep the run in results/scale/")
    commands.add_parser("table", help="print the tables of a run").add_argument("folder", type=Path)
    given = parser.parse_args()
    if given.command != "table":
        run(given.folder, Asked(given.samples, given.seed), with_races=given.command == "disk")
        if given.record:
            name = records.read_json(given.folder / records.ENVIRONMENT)["run_id"]
            shutil.copytree(given.folder, RESULTS / name)
    for each in tables(given.folder).values():
        print(each, end="\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
