"""Let writers of several kinds commit to one Delta table at once for a time, and check what is there.

    python scripts/foreign_writers.py runs/foreign --seconds 60
    python scripts/foreign_writers.py runs/foreign --sides spillway:2,delta-rs:1
    python scripts/foreign_writers.py runs/foreign --store s3://BUCKET/PREFIX --storage-option NAME=VALUE

Each writer is a process. `spillway` and `delta-rs` append, `optimiser` calls `Table.optimize` again and
again, and `spark` appends by ``format("spillway")``. Figures of each writer are left in a new file in the
folder. Exits with 1 when an append is lost or doubled, the table is wrong in another way, or a writer made no
progress.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
from collections import Counter
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import spillway.delta
from spillway.cli.common import pairs
from spillway.harness.environment import describe_environment, refuse_debug_build
from spillway.harness.processes import redact
from spillway.harness.records import new_run_id, write_json
from spillway.race.check import check
from spillway.race.location import Location
from spillway.race.model import Cell, load, rows
from spillway.race.open_loop import quantile
from spillway.race.record import SCHEMA_VERSION
from spillway.race.run import Options

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.queues import Queue
    from multiprocessing.synchronize import Barrier

    from pyspark.sql import SparkSession

SIDES = "spillway:4,delta-rs:2,optimiser:1,spark:1"
# A JVM starts in some ten seconds, and slower on a busy machine. So may a last commit.
_PATIENCE = 180.0


def _appends(side: str, location: Location, cell: Cell, writer: int) -> Callable[[int], None]:
    own = load(side).writer(location, cell)

    def work(number: int) -> None:
        own.append(rows(cell, writer, number))

    return work


def _optimises(location: Location) -> Callable[[int], None]:
    table = spillway.delta.open(location.uri, **location.keywords)

    def work(_: int) -> None:
        if not table.optimize().removed_files:
            time.sleep(0.1)

    return work


@cache
def _session() -> SparkSession:
    from spillway.spark import local_session  # noqa: PLC0415 - PySpark is an extra

    return local_session("foreign-writers", cores=1, memory="1g")


def _appends_by_spark(location: Location, cell: Cell, writer: int) -> Callable[[int], None]:
    session = _session()

    def work(number: int) -> None:
        frame = session.createDataFrame(rows(cell, writer, number)).coalesce(1)
        to_table = frame.write.format("spillway").options(**location.storage_options)
        to_table.mode("append").save(location.uri)

    return work


def _warm_up(side: str, location: Location, cell: Cell, writer: int) -> None:
    """Work once on a table of one's own: a library's first calls are not measured."""
    own = Location(f"{location.uri}/_warm-{writer}", location.storage_options)
    load("spillway").create(own, cell)
    _begin(side, own, cell, writer)(0)
    own.files().remove()


def _begin(side: str, location: Location, cell: Cell, writer: int) -> Callable[[int], None]:
    if side == "optimiser":
        return _optimises(location)
    if side == "spark":
        return _appends_by_spark(location, cell, writer)
    return _appends(side, location, cell, writer)


class _Stage(NamedTuple):
    """The table, the cell and the channels that all writers share."""

    location: Location
    cell: Cell
    gate: Barrier
    results: Queue[dict[str, Any]]


def _write(side: str, writer: int, stage: _Stage) -> None:
    """Work for the time, and say what came of it."""
    _, cell, gate, results = stage
    _warm_up(side, stage.location, cell, writer)
    work = _begin(side, stage.location, cell, writer)
    done: list[int] = []
    waits: list[float] = []
    refused: Counter[str] = Counter()
    gate.wait(_PATIENCE)
    until = time.monotonic() + (cell.seconds or 0.0)
    number = 0
    while (begun := time.monotonic()) < until:
        try:
            work(number)
        except Exception as error:  # noqa: BLE001 - what a library raises is what it did
            refused[redact(f"{type(error).__name__}: {error}")[:200]] += 1
        else:
            done.append(number)
            waits.append(time.monotonic() - begun)
        number += 1
    results.put({"side": side, "writer": writer, "done": done, "waits": waits, "refused": dict(refused)})


def _figures(heard: dict[str, Any], seconds: float) -> dict[str, Any]:
    waits = sorted(heard["waits"])
    return {
        "side": heard["side"],
        "writer": heard["writer"],
        "done": len(waits),
        "per_second": round(len(waits) / seconds, 2),
        "wait_seconds": {
            name: round(quantile(waits, at), 3) for name, at in (("p50", 0.5), ("p99", 0.99), ("longest", 1))
        }
        if waits
        else None,
        "refused": heard["refused"],
    }


def race(location: Location, sides: list[str], seconds: float) -> dict[str, Any]:
    """Hold one race; the figures of each writer, and the verdict on the table."""
    cell = Cell(
        committer="spillway",
        workload="append-only",
        writers=len(sides),
        processes=len(sides),
        seconds=seconds,
    )
    load("spillway").create(location, cell)
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    stage = _Stage(location, cell, context.Barrier(len(sides)), results)
    processes = [
        context.Process(target=_write, args=(side, writer, stage)) for writer, side in enumerate(sides)
    ]
    for process in processes:
        process.start()
    try:
        heard = [results.get(timeout=seconds + 2 * _PATIENCE) for _ in processes]
        for process in processes:
            process.join(_PATIENCE)
    finally:
        for process in processes:
            process.kill()
    heard.sort(key=lambda each: each["writer"])
    acknowledged = [
        (each["writer"], number) for each in heard if each["side"] != "optimiser" for number in each["done"]
    ]
    verdict = check(location, cell, acknowledged)
    return {
        "seconds": seconds,
        "store": "local disk" if location.is_local else "S3",
        "writers": [_figures(each, seconds) for each in heard],
        "table": asdict(verdict),
    }


def _sides(text: str) -> list[str]:
    counts = (part.partition(":") for part in text.split(","))
    return [side for side, _, count in counts for _ in range(int(count or 1))]


def main() -> None:
    """Hold the race."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--sides", type=_sides, default=_sides(SIDES))
    parser.add_argument("--store")
    parser.add_argument("--storage-option", action="append", default=[])
    given = parser.parse_args()
    refuse_debug_build()
    run_id = new_run_id()
    given.folder.mkdir(parents=True, exist_ok=True)
    options = pairs("--storage-option", given.storage_option)
    location = Location.of(given.store or str(given.folder), options).below(f"{run_id}-table")
    environment = describe_environment(
        run_id, Options(committers=("spillway",), writers=(len(given.sides),)), schema_version=SCHEMA_VERSION
    )
    found = race(location, given.sides, given.seconds)
    write_json(given.folder / f"{run_id}.json", {"environment": environment, **found})
    print(json.dumps(found, indent=1))
    if found["table"]["problems"] or not all(each["done"] for each in found["writers"]):
        sys.exit(1)
    location.files().remove()


if __name__ == "__main__":
    main()
