"""The tables of a run of ``scripts/scale.py``, for ``docs/design/scale.md``."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from spillway.harness import records
from spillway.harness.environment import noise_warnings
from spillway.harness.report import checkout, machine
from spillway.harness.report import plain_table as _plain
from spillway.race.model import Cell
from spillway.race.record import RACES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

CELLS = "cells.jsonl"
DISK = "disk.json"
DISK_BLOCKS = ("scale_source", "scale_compared", "scale_costs", "capacity_local")
STORE_BLOCKS = (
    "scale_store_source",
    "scale_endless",
    "scale_burst",
    "scale_rates",
    "scale_changes",
    "capacity",
)
BLOCKS = (*DISK_BLOCKS, *STORE_BLOCKS)
NO_RUN = "No run is on record yet."
_AT_A_RATE = ", 100,000 in 1,000"
_WHOLE = 100
"""The least figure of which no fraction is shown."""
_MILLION = 1e6
Report = dict[str, Any]


def page(runs: Sequence[Path]) -> dict[str, str]:
    """The blocks of the page, by their names: each part is that of the newest run which has it."""
    found = dict.fromkeys(BLOCKS, NO_RUN)
    for folder in runs:
        found |= tables(folder)
    return found


def tables(folder: Path) -> dict[str, str]:
    """The blocks of a run, by their names."""
    reports = records.read_lines(folder / CELLS)
    found = {}
    if (folder / RACES).exists():
        texts = (_source(folder), _compared(folder, reports), _costs(folder), _measured(folder))
        found |= dict(zip(DISK_BLOCKS, texts, strict=True))
    if endless := _of(reports, "endless"):
        texts = (
            _source(folder),
            _grid(endless),
            _bursts(_of(reports, "burst")),
            _grid(_of(reports, "rate")),
            _changes(_of(reports, "change")),
            _capacity(endless, _of(reports, "rate")),
        )
        found |= dict(zip(STORE_BLOCKS, texts, strict=True))
    return found


def why_not_quoted(folder: Path) -> list[str]:
    """The reasons why a run is not to be quoted: its races were held on a busy host."""
    if not (folder / RACES).exists():
        return []
    races = records.read_lines(folder / RACES)
    environment = records.read_json(folder / records.ENVIRONMENT)
    seconds = sum(race["process_seconds"] for race in races)
    hosts = [race["host"] for race in races]
    return noise_warnings(environment["load_before"], hosts, seconds, cores=environment["cores"])


def _of(reports: Sequence[Report], group: str) -> list[Report]:
    return [each for each in reports if each["scenario"]["name"].startswith(f"{group}: ")]


def _label(report: Report) -> str:
    name: str = report["scenario"]["name"]
    return name.partition(": ")[2]


def _source(folder: Path) -> str:
    environment = records.read_json(folder / records.ENVIRONMENT)
    lines = [f"`results/scale/{folder.name}`, {machine(environment)}.", *checkout(environment)]
    return " ".join(lines)


@dataclass(frozen=True)
class _Measure:
    """A figure that races and simulations have alike.

    Attributes:
        name: Its name, with its unit.
        measured: That of a race.
        simulated: That of a report.
    """

    name: str
    measured: Callable[[Report], float]
    simulated: Callable[[Report], float]


def _wait(name: str, percent: int, which: str) -> _Measure:
    return _Measure(
        f"{name} wait, ms",
        lambda race: race["wait_seconds"][percent] * 1e3,
        lambda report: report["wait_seconds"][which] * 1e3,
    )


_MEASURES = (
    _Measure("appends/s", itemgetter("appends_per_second"), itemgetter("appends_per_second")),
    _wait("median", 50, "median"),
    _wait("longest", 100, "longest"),
    _Measure("versions", lambda race: race["table"]["versions"], itemgetter("versions")),
    _Measure("attempts", itemgetter("attempts"), itemgetter("attempts")),
    _Measure(
        "processor an append, ms",
        lambda race: race["processor_seconds"] / race["acknowledged"] * 1e3,
        lambda report: report["cpu_seconds"] / report["appends"] * 1e3,
    ),
)


def _races(folder: Path) -> dict[str, list[Report]]:
    """The races of a run, by what is raced."""
    races: dict[str, list[Report]] = {}
    for race in records.read_lines(folder / RACES):
        races.setdefault(Cell(**race["cell"]).words, []).append(race)
    return races


def _short(words: str) -> str:
    return words.partition("append-only, ")[2]


def _measured(folder: Path) -> str:
    """What a user plans by on a local disk: the races without their simulation."""
    measures = _MEASURES[:3]
    rows = [
        [_short(words), *(_figure(statistics.median(map(each.measured, held))) for each in measures)]
        for words, held in _races(folder).items()
    ]
    return _plain(("writers", *(each.name for each in measures)), rows)


def _compared(folder: Path, reports: Sequence[Report]) -> str:
    """The races beside their simulations, and what differs by more than is asked."""
    races = _races(folder)
    rows = []
    for words, held in races.items():
        those = [each for each in reports if each["scenario"]["name"] == words]
        for place, measure in enumerate(_MEASURES):
            measured = statistics.median(map(measure.measured, held))
            simulated = statistics.median(map(measure.simulated, those))
            race = "" if place else _short(words)
            rows.append(
                [race, measure.name, _figure(measured), _figure(simulated), _apart(measured, simulated)]
            )
    fewest = min(map(len, races.values()))
    header = ("race", "figure", "measured", "simulated", "difference")
    return f"{_plain(header, rows)}\n\nMedians of {fewest} races, and of as many seeds."


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= _WHOLE else f"{value:.3g}"


def _apart(measured: float, simulated: float) -> str:
    return f"{simulated / measured - 1:+.0%}" if measured else ""


def _costs(folder: Path) -> str:
    """The times by which the disk and the processes are simulated."""
    found = records.read_json(folder / DISK)
    rows = []
    for name, time in [*found["disk"].items(), *found["work"].items()]:
        parts = time if isinstance(time, dict) else {"": time}
        kind = name.removesuffix("_us").removesuffix("_ns").replace("_", " ")
        rows += [
            [f"{kind}{_PARTS[part]}", f"{value:,} {_unit(part or name)}".strip()]
            for part, value in parts.items()
        ]
    return _plain(("effect, or work", "time"), rows)


_PARTS = {"": "", "cpu_us": ", processor", "disk_us": ", disk", "waits": ", waits for the disk"}


def _unit(name: str) -> str:
    return {"us": "us", "ns": "ns"}.get(name.rpartition("_")[2], "")


_GRID = (
    "appends/s",
    "median wait, s",
    "longest, s",
    "versions/s",
    "appends a version",
    "attempts a version",
    "million requests/h",
    "of them LIST, PUT",
    "USD/h",
    "USD per million appends",
)


def _grid(reports: Sequence[Report]) -> str:
    """Loads that do not end, by the number of writers and of processes."""
    rows = [[_label(report), *_flow(report)] for report in reports]
    return _plain(("writers", *_GRID), rows)


def _flow(report: Report) -> list[str]:
    waits, versions = report["wait_seconds"], max(1, report["versions"])
    requests = report["requests"]
    charged = sum(requests[kind] for kind in ("list", "conditional_put", "put_intent", "put_data"))
    return [
        _figure(report["appends_per_second"]),
        *(_figure(waits[which]) for which in ("median", "longest")),
        _figure(report["versions"] / report["seconds"]),
        _figure(report["appends"] / versions),
        _figure(report["attempts"] / versions),
        _figure(report["requests_an_hour"] / _MILLION),
        _figure(charged / report["seconds"] * 3_600 / _MILLION),
        _figure(report["usd_an_hour"]),
        _figure(report["usd_a_million"]),
    ]


def _capacity(endless: Sequence[Report], rates: Sequence[Report]) -> str:
    """What a user plans by: appends, waits and costs of writers that never stop, and of some at a rate."""
    rows = [
        [f"{_label(report)}{rate}", *map(_figure, _planned(report))]
        for report, rate in [(each, "") for each in endless] + [(each, _AT_A_RATE) for each in rates]
    ]
    header = ("writers in processes", "appends/s", "median wait, s", "longest, s", "USD per million appends")
    return _plain(header, rows)


def _planned(report: Report) -> tuple[float, ...]:
    waits = report["wait_seconds"]
    return (
        report["appends_per_second"],
        waits["median"],
        waits["longest"],
        report["usd_a_million"],
    )


def _bursts(reports: Sequence[Report]) -> str:
    """Bursts, by the number of writers and of processes."""
    rows = [
        [
            _label(report),
            _figure(report["seconds"]),
            _figure(report["appends_per_second"]),
            _figure(report["wait_seconds"]["median"]),
            f"{report['versions']:,}",
            f"{report['attempts']:,}",
            f"{report['most_lost']:,}",
            _figure(report["usd_a_million"]),
        ]
        for report in reports
    ]
    header = (
        "writers",
        "all in s",
        "appends/s",
        "median wait, s",
        "versions",
        "attempts",
        "most races lost",
        "USD per million appends",
    )
    return _plain(header, rows)


def _changes(reports: Sequence[Report]) -> str:
    """One scenario with a change each, beside the scenario without one."""
    base = reports[0]["appends_per_second"]
    rows = [
        [
            _label(report),
            _figure(report["appends_per_second"]),
            f"{report['appends_per_second'] / base:.2f}",
            _figure(report["wait_seconds"]["median"]),
            _figure(report["versions"] / report["seconds"]),
            _figure(report["attempts"] / max(1, report["versions"])),
            _figure(report["usd_a_million"]),
        ]
        for report in reports
    ]
    header = (
        "change",
        "appends/s",
        "times",
        "median wait, s",
        "versions/s",
        "attempts a version",
        "USD per million appends",
    )
    return _plain(header, rows)
