"""Writes in pairs, after all samples: two processes take turns on one core, and so meet the same machine.

The speed of a shared host varies by some per cent from one second to the next. Samples that are taken one
after the other show that as a difference of writers. Two processes that share a core change places every few
milliseconds: what slows the core down slows both, and the ratio of their processor time hardly varies.
"""

from __future__ import annotations

import os
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import replace
from threading import Event
from typing import TYPE_CHECKING

from spillway.backends import SPARK_LIBRARY, library
from spillway.bench.outputs import OutputFiles
from spillway.bench.plan import base_of, largest_cells
from spillway.bench.record import PAIR_SCHEMA, PAIRS, SCHEMA_VERSION
from spillway.bench.sample import Meeting, outcome_of, result_of
from spillway.harness import records
from spillway.harness.limits import Unlimited
from spillway.harness.schedule import schedule

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from spillway.bench.plan import Cell
    from spillway.bench.progress import Progress
    from spillway.bench.record import PairSample
    from spillway.bench.sample import SampleTaker
    from spillway.harness.schedule import Slot
    from spillway.harness.spawn import ProcessResult

__all__ = ["measure_pairs"]

_FOLDER = "outputs-beside"
_MEETING = "meeting"


def measure_pairs(
    folder: Path, taker: SampleTaker, cells: Sequence[Cell], blocks: int, progress: Progress
) -> None:
    """Write each largest cell on one core beside that of the base, once a block, and append what lacks.

    Writers in a JVM are left out: their compiler and collector work in threads that outlast a write.
    """
    done = {(each["block"], each["position"]) for each in records.read_lines(folder / PAIRS)}
    slots = schedule(_pairs(cells), blocks=blocks, seed=taker.seed)
    left = [slot for slot in slots if (slot.block, slot.position) not in done]
    progress.pairing(len(left))
    # Two on a core take twice the time of one.
    taker = replace(taker, timeout=2 * taker.timeout)
    with _beside(taker, folder / _FOLDER) as other:
        for slot in left:
            progress.pair_begins(*slot.cell)
            record = _take(taker, other, slot)
            PAIR_SCHEMA.check(record)
            records.append(folder / PAIRS, record)
            progress.pair_ended()


def _pairs(cells: Sequence[Cell]) -> list[tuple[Cell, Cell]]:
    """The cell of the base and another one of its setting, for each of the others."""
    of_one_core = [cell for cell in cells if cell.threads == 1 and library(cell.backend) != SPARK_LIBRARY]
    largest = largest_cells(of_one_core)
    base = base_of([cell.backend for cell in largest])
    return [
        (same, cell)
        for cell in largest
        if base not in {None, cell.backend} and (same := replace(cell, backend=str(base))) in largest
    ]


@contextmanager
def _beside(taker: SampleTaker, folder: Path) -> Iterator[SampleTaker]:
    """The same taker for the other process of a pair, whose files are in a folder of their own."""
    files = OutputFiles(folder)
    try:
        yield replace(taker, files=files)
    finally:
        files.remove()


def _take(taker: SampleTaker, other: SampleTaker, slot: Slot[tuple[Cell, Cell]]) -> PairSample:
    base, cell = slot.cell
    # Folders may differ, too: each writes into either.
    places = (taker, other) if slot.block // 2 % 2 == 0 else (other, taker)
    pair = list(zip(places, (base, cell), strict=True))
    # The first one sleeps until the other is there, and wakes with colder caches: each in turn.
    order = slice(None, None, -1 if slot.block % 2 else 1)
    ended = _write_both(*pair[order])[order]
    for each in (taker, other):
        each.files.discard_fresh()
    outcomes = [outcome_of(each) for each in ended]
    results = [result_of(each) for each in ended]
    # One that failed left the core to the other.
    seconds = [result["processor_seconds"] if outcomes == ["ok", "ok"] else None for result in results]
    return {
        "schema_version": SCHEMA_VERSION,
        "run_id": taker.run_id,
        "block": slot.block,
        "position": slot.position,
        "cell": cell.as_dict(),
        "base": base.backend,
        "outcome": outcomes[1],
        "base_outcome": outcomes[0],
        "processor_seconds": seconds[1],
        "base_processor_seconds": seconds[0],
    }


def _write_both(*both: tuple[SampleTaker, Cell]) -> list[ProcessResult]:
    """Two processes that begin their writes at the same moment, to their ends."""
    called_off = Event()
    with ThreadPoolExecutor(len(both)) as threads, _fifo(both[0][0].files.fresh) as place:
        try:
            running = [
                threads.submit(_write, taker, cell, Meeting(place, index == 0, called_off))
                for index, (taker, cell) in enumerate(both)
            ]
            wait(running, return_when=FIRST_COMPLETED)
            # One that comes to meet another that has failed meets the bench.
            with os.fdopen(os.open(place, os.O_RDWR | os.O_NONBLOCK), "rb"):
                return [each.result() for each in running]
        except BaseException:
            called_off.set()
            raise


@contextmanager
def _fifo(beside: Path) -> Iterator[Path]:
    place = beside.with_name(_MEETING)
    os.mkfifo(place)
    try:
        yield place
    finally:
        place.unlink()


def _write(taker: SampleTaker, cell: Cell, meeting: Meeting) -> ProcessResult:
    with Unlimited().limit(0) as memory_limit:
        ended, _ = taker.run_worker(cell, memory_limit, meeting=meeting)
    return ended
