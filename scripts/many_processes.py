"""Race many processes, of Spillway and of others, on a disk and on an S3 server as slow as S3 Standard.

    make .build/minio && make -C bench/go
    python scripts/many_processes.py runs/processes --record

Each process appends 10 rows once a second, at random times that are drawn beforehand (an open loop), to a
table that all share. The server is MinIO, behind `bench/go/cmd/distant-store`, which adds the latencies that
`docs/design/scale.md` has sources for. MinIO and the proxy share the cores with the writers, so cells in
which the cores were busy say what this machine can do, and not what a store can.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from spillway.harness import records
from spillway.harness.environment import processor_seconds
from spillway.harness.report import checkout, machine, plain_table
from spillway.race.cell import Progress
from spillway.race.model import Cell
from spillway.race.record import RACES
from spillway.race.run import Options, hold_races

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spillway.harness.schedule import Slot

_ROOT = Path(__file__).resolve().parent.parent
RESULTS = _ROOT / "results" / "processes"
_PROXY = _ROOT / "bench" / "go" / "bin" / "distant-store"
_PLACES = ("disk", "store")
_REQUESTS = "requests.json"
_BUCKET = "races"
_SECONDS = 20.0
_BUSY = 0.8
"""The share of the cores from which on a cell is marked."""
_PROCESSES = {"spillway": (10, 50, 100, 200), "delta-rs-retry": (10, 50, 100, 200)}
_ON_DISK_ALONE = {"lance": (10, 50), "pyiceberg": (10, 50)}


def cells(place: str) -> list[Cell]:
    """The races of a place: as many appends a second as processes."""
    return [
        Cell(
            committer=committer,
            workload="append-only",
            writers=processes,
            processes=processes,
            seconds=_SECONDS,
            rate=float(processes),
        )
        for committer, numbers in (_PROCESSES | (_ON_DISK_ALONE if place == "disk" else {})).items()
        for processes in numbers
    ]


class _Watching(Progress):
    """Has the store be distant while writers are at work, and notes what they asked it for.

    Args:
        endpoint: The URL of the proxy.
        servers: The processes of the store and of the proxy.
    """

    def __init__(self, endpoint: str, servers: tuple[int, ...]) -> None:
        super().__init__(Console(stderr=True))
        self._endpoint = endpoint
        self._servers = servers
        self._before = 0.0
        self.asked: dict[str, Any] = {}

    def started(self) -> None:
        """Begin to count."""
        super().started()
        self._before = self._processor_seconds()
        self._ask("begin")

    def checking(self, slot: Slot[Cell]) -> None:
        """Keep the counts."""
        requests = json.loads(self._ask("end"))
        seconds = self._processor_seconds() - self._before
        self.asked[f"{slot.block}-{slot.position}"] = {"requests": requests, "processor_seconds": seconds}
        super().checking(slot)

    def _ask(self, what: str) -> bytes:
        with urllib.request.urlopen(f"{self._endpoint}/-/{what}") as answer:  # noqa: S310 - on the loopback
            body: bytes = answer.read()
        return body

    def _processor_seconds(self) -> float:
        return sum(map(processor_seconds, self._servers))


@contextlib.contextmanager
def _distant_store() -> Iterator[tuple[dict[str, str], _Watching]]:
    """A bucket of MinIO behind the proxy: its storage options, and what counts the requests to it."""
    sys.path.insert(0, str(_ROOT))
    from tests.stores.server import minio  # noqa: PLC0415 - how it is started is said once

    with tempfile.TemporaryDirectory(dir=_ROOT / ".build") as folder, minio(Path(folder)) as server:
        options = server.bucket(_BUCKET).options()
        command = [_PROXY, "--to", options["AWS_ENDPOINT_URL"]]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as proxy:
            assert proxy.stdout is not None
            endpoint = f"http://{proxy.stdout.readline().strip()}"
            try:
                watching = _Watching(endpoint, (server.pid, proxy.pid))
                yield {**options, "AWS_ENDPOINT_URL": endpoint}, watching
            finally:
                proxy.terminate()


def hold(folder: Path, place: str, options: Options) -> None:
    """Hold the races of a place, and leave their records and requests in a folder."""
    with contextlib.ExitStack() as stack:
        storage_options: dict[str, str] = {}
        progress, watching = Progress(Console(stderr=True)), None
        if place == "store":
            storage_options, watching = stack.enter_context(_distant_store())
        finished = hold_races(
            cells(place),
            options,
            store=None if watching is None else f"s3://{_BUCKET}/tables",
            storage_options=storage_options,
            out=folder,
            progress=watching or progress,
        )
        for name in (RACES, records.ENVIRONMENT):
            shutil.move(finished.folder / name, folder / name)
        shutil.rmtree(finished.folder)
        if watching is not None:
            records.write_json(folder / _REQUESTS, watching.asked)
        if finished.error is not None or finished.interrupted:
            raise SystemExit(finished.error or "interrupted")


def block() -> str:
    """The record, for its page."""
    if not RESULTS.exists():
        return "No run is on record yet."
    environment = records.read_json(RESULTS / _PLACES[0] / records.ENVIRONMENT)
    return f"{table(RESULTS)}\n\n{machine(environment)}. {' '.join(checkout(environment))}"


def table(run: Path) -> str:
    """The table of a run."""
    rows = [row for place in _PLACES if (run / place).exists() for row in _rows(run / place, place)]
    heads = ("on", "committer", "processes", "due/s", "acknowledged/s", "response p50, s", "p99, s", "failed")
    return plain_table((*heads, "attempts an append", "requests an append", "cores busy"), rows)


def _rows(folder: Path, place: str) -> Iterator[list[str]]:
    asked = records.read_json(folder / _REQUESTS) if (folder / _REQUESTS).exists() else {}
    cores = records.read_json(folder / records.ENVIRONMENT)["usable_cores"]
    for race in sorted(records.read_lines(folder / RACES), key=lambda race: _order(race["cell"])):
        cell, loop, count = race["cell"], race["open_loop"], race["acknowledged"]
        store = asked.get(f"{race['block']}-{race['position']}", {"requests": {}, "processor_seconds": 0.0})
        requests = sum(store["requests"].values())
        # Processes that were stopped at the limit do not say what they took.
        busy = None
        if race["processor_seconds"] is not None and not race["still_waiting"]:
            busy = (race["processor_seconds"] + store["processor_seconds"]) / race["seconds"] / cores
        response = loop["response_seconds"]
        yield [
            "disk" if place == "disk" else "MinIO, latencies of S3",
            cell["committer"],
            f"{cell['processes']}",
            f"{loop['offered_per_second']:.0f}",
            f"{loop['achieved_per_second']:.1f}",
            f"{response[50]:.2f}",
            f"{response[99]:.2f}",
            f"{race['failed'] + race['still_waiting']}",
            f"{race['attempts'] / count:.2f}" if count and race["attempts"] else "-",
            f"{requests / count:.1f}" if requests and count else "-",
            "-" if busy is None else f"{busy:.0%}{' !' if busy > _BUSY else ''}",
        ]


def _order(cell: dict[str, Any]) -> tuple[str, int]:
    return str(cell["committer"]), int(cell["processes"])


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--place", choices=_PLACES, action="append", help="both by default")
    parser.add_argument("--samples", type=int, default=1, help="races of each cell")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", action="store_true", help="keep the run in results/processes/")
    given = parser.parse_args()
    options = Options(
        committers=("spillway",), writers=(1,), samples=given.samples, seed=given.seed, time_limit=60.0
    )
    for place in given.place or _PLACES:
        (given.folder / place).mkdir(parents=True)
        hold(given.folder / place, place, options)
        if given.record:
            shutil.rmtree(RESULTS / place, ignore_errors=True)
            shutil.copytree(given.folder / place, RESULTS / place)
    print(table(given.folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
