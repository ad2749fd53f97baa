"""One traced write per backend, mode, dataset and codec, after all timing: what is allocated, and when."""

from __future__ import annotations

import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from spillway.bench.plan import largest_cells
from spillway.bench.record import ALLOCATION_SCHEMA, ALLOCATIONS, SCHEMA_VERSION
from spillway.bench.sample import outcome_of, result_of
from spillway.harness import records
from spillway.harness.limits import Unlimited
from spillway.harness.probes.memray_pass import ENVIRONMENT, INVISIBLE, read_curve

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spillway.bench.plan import Cell
    from spillway.bench.progress import Progress
    from spillway.bench.record import Allocations
    from spillway.bench.sample import SampleTaker
    from spillway.harness.probes.memray_pass import AllocationCurve

__all__ = ["trace_backends"]

_TRACER = "memray"


def trace_backends(folder: Path, taker: SampleTaker, cells: Sequence[Cell], progress: Progress) -> None:
    """Trace the largest cells, without a limit, and append the curves that lack."""
    names = ("backend", "mode", "dataset", "codec", "python")
    done = {tuple(each.get(name, "") for name in names) for each in records.read_lines(folder / ALLOCATIONS)}
    # A tracer sees the same allocations whatever the process setting, and in the pool of its own choice.
    as_they_are = [cell for cell in cells if cell.arm == cells[0].arm]
    largest = [
        cell
        for cell in largest_cells(as_they_are)
        if tuple(getattr(cell, name) for name in names) not in done
    ]
    progress.tracing(len(largest))
    for cell in largest:
        progress.trace_begins(cell)
        record = _record(taker, cell)
        ALLOCATION_SCHEMA.check(record)
        records.append(folder / ALLOCATIONS, record)
        progress.trace_ended()


def _record(taker: SampleTaker, cell: Cell) -> Allocations:
    seconds, curve = None, None
    reason = INVISIBLE.get(cell.backend) or _cannot_trace(taker, cell)
    if reason is None:
        seconds, curve, reason = _trace(taker, cell)
    return {
        "schema_version": SCHEMA_VERSION,
        "run_id": taker.run_id,
        "backend": cell.backend,
        "mode": cell.mode,
        "dataset": cell.dataset,
        "codec": cell.codec,
        "rows": cell.rows,
        "chunk_rows": cell.chunk_rows,
        "row_group_rows": cell.row_group_rows,
        "python": cell.python,
        "reason": reason,
        "wall_seconds": seconds,
        "curve": curve,
    }


def _cannot_trace(taker: SampleTaker, cell: Cell) -> str | None:
    """Why the environment of a cell cannot trace for this one; None if it can. A trace's form varies."""
    if not cell.python:
        return None
    found, own = taker.pythons[cell.python].version_of(_TRACER), version(_TRACER)
    if found is None:
        return f"{_TRACER} is not installed in the environment {cell.python}"
    return None if found == own else f"the environment {cell.python} has {_TRACER} {found}, and not {own}"


def _trace(taker: SampleTaker, cell: Cell) -> tuple[float | None, AllocationCurve | None, str | None]:
    """The length of a traced write and its curve, or the reason why there is none."""
    with (
        tempfile.TemporaryDirectory(prefix="spillway-trace-") as scratch,
        Unlimited().limit(0) as memory_limit,
    ):
        trace = Path(scratch) / "trace.bin"
        ended, _ = taker.run_worker(cell, memory_limit, memray=trace, environment=ENVIRONMENT)
        taker.files.discard_fresh()
        outcome = outcome_of(ended)
        if outcome != "ok":
            return None, None, f"the traced write ended as {outcome}"
        return result_of(ended)["wall_seconds"], read_curve(trace), None
