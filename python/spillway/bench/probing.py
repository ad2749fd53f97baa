"""The writes beside a probe, after all timing: what GIL and garbage collector did, and what each probe costs.

A probe that takes time during the write would tax those who release the GIL. So the samples of the tables are
taken without any, and each probe has writes of its own, with writes without one in the shuffled blocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from spillway.backends import SPARK_LIBRARY, library
from spillway.bench.plan import largest_cells
from spillway.bench.record import PROBE_SCHEMA, PROBES, SCHEMA_VERSION, Probe
from spillway.bench.sample import outcome_of, result_of
from spillway.harness import records
from spillway.harness.limits import Unlimited
from spillway.harness.schedule import schedule

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from spillway.bench.plan import Cell
    from spillway.bench.progress import Progress
    from spillway.bench.record import ProbeSample
    from spillway.bench.sample import SampleTaker
    from spillway.harness.schedule import Slot

__all__ = ["probe_backends", "probe_once"]

_KINDS: tuple[Probe, ...] = get_args(Probe)


def probe_backends(
    folder: Path, taker: SampleTaker, cells: Sequence[Cell], blocks: int, progress: Progress
) -> None:
    """Write the largest cells beside each probe and beside none, once a block, and append what lacks.

    Writers in a JVM are left out: Python waits for them, and has nothing to collect.
    """
    in_python = [cell for cell in cells if library(cell.backend) != SPARK_LIBRARY]
    pairs = [(cell, probe) for cell in largest_cells(in_python) for probe in _KINDS]
    done = {(each["block"], each["position"]) for each in records.read_lines(folder / PROBES)}
    slots = schedule(pairs, blocks=blocks, seed=taker.seed)
    left = [slot for slot in slots if (slot.block, slot.position) not in done]
    progress.probing(len(left))
    for slot in left:
        progress.probe_begins(*slot.cell)
        record = probe_once(taker, slot)
        PROBE_SCHEMA.check(record)
        records.append(folder / PROBES, record)
        progress.probe_ended()


def probe_once(taker: SampleTaker, slot: Slot[tuple[Cell, Probe]]) -> ProbeSample:
    """Write once beside one probe, under no limit; the write is not timed for the tables."""
    cell, probe = slot.cell
    with Unlimited().limit(0) as memory_limit:
        ended, _ = taker.run_worker(cell, memory_limit, probe=probe)
    taker.files.discard_fresh()
    outcome, result = outcome_of(ended), result_of(ended)
    return {
        "schema_version": SCHEMA_VERSION,
        "run_id": taker.run_id,
        "block": slot.block,
        "position": slot.position,
        "cell": cell.as_dict(),
        "probe": probe,
        "outcome": outcome,
        "wall_seconds": result["wall_seconds"] if outcome == "ok" else None,
        "gil": result["gil"] if outcome == "ok" else None,
        "gc": result["gc"] if outcome == "ok" else None,
    }
