"""One traced write per backend and mode, after all timing, for the allocation curves."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spillway.bench.record import ALLOCATIONS, SCHEMA_VERSION
from spillway.bench.sample import outcome_of
from spillway.harness import records
from spillway.harness.limits import Unlimited
from spillway.harness.probes.memray_pass import ENVIRONMENT, INVISIBLE, read_curve

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spillway.bench.plan import Cell
    from spillway.bench.progress import Progress
    from spillway.bench.sample import SampleTaker

__all__ = ["trace_backends"]


def trace_backends(folder: Path, taker: SampleTaker, cells: Sequence[Cell], progress: Progress) -> None:
    """Trace the largest cell of each backend and mode, without a limit, and append the curves that lack."""
    largest: dict[tuple[str, str], Cell] = {}
    for cell in sorted(cells, key=lambda cell: cell.rows):
        largest[cell.backend, cell.mode] = cell
    for done in records.read_lines(folder / ALLOCATIONS):
        largest.pop((done["backend"], done["mode"]), None)
    progress.tracing(len(largest))
    for (backend, mode), cell in largest.items():
        progress.trace_begins(cell)
        record = {
            "schema_version": SCHEMA_VERSION,
            "run_id": taker.run_id,
            "backend": backend,
            "mode": mode,
            "dataset": cell.dataset,
            "codec": cell.codec,
            "rows": cell.rows,
            **(_not_applicable(INVISIBLE[backend]) if backend in INVISIBLE else _trace(taker, cell)),
        }
        records.append(folder / ALLOCATIONS, record)
        progress.trace_ended()


def _trace(taker: SampleTaker, cell: Cell) -> dict[str, Any]:
    with (
        tempfile.TemporaryDirectory(prefix="spillway-trace-") as scratch,
        Unlimited().limit(0) as memory_limit,
    ):
        trace = Path(scratch) / "trace.bin"
        ended = taker.run_worker(cell, memory_limit, memray=trace, environment=ENVIRONMENT)
        taker.files.discard_fresh()
        outcome = outcome_of(ended)
        if outcome != "ok":
            return _not_applicable(f"the traced write ended as {outcome}")
        return {"reason": None, "curve": read_curve(trace)}


def _not_applicable(reason: str) -> dict[str, Any]:
    return {"reason": reason, "curve": None}
