"""Advice from a run: which writer, which batch size, and how many workers and machines a load takes.

A worker is one process with the cores of the measured setting. It is planned to be busy for 70 % of the time,
so that its queue stays short. Its memory is the peak of the process, without the mapped input but with the
batch of rows that arrives.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from statistics import median
from typing import TYPE_CHECKING, Any

from spillway.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spillway.bench.summary import CellSummary, RunSummary, Setting

BUSY = 0.7
"""The share of time that a worker is planned to be busy."""


@dataclass(frozen=True)
class Demand:
    """The load, and the machines that are available.

    Attributes:
        rows_per_second: Rows that arrive.
        memory_bytes: Memory of a machine.
        cores: Cores of a machine.
        price: Price of a machine for a month, in any currency.
        batch_rows: Rows of a file; of any measured size for None.
    """

    rows_per_second: float
    memory_bytes: int
    cores: int
    price: float
    batch_rows: int | None = None


@dataclass(frozen=True)
class Plan:
    """One writer with one batch size under the demand.

    Attributes:
        cell: The measured cell.
        worker_bytes: Memory of a worker.
        speed: Rows per second of a worker that is always busy: median, and the ends of its interval.
        workers: Workers that the demand takes: by the median, and by the slow and the fast end.
        workers_per_machine: How many workers fit into a machine; 0 if not even one does.
        machines: Machines by the median; None if no worker fits.
        cost: Their price for a month; None likewise.
        limited_by: "memory" or "cores": what keeps more workers from a machine.
        seconds_to_fill: Time in which a worker's share of rows fills a batch.
    """

    cell: CellSummary
    worker_bytes: float
    speed: tuple[float, float, float]
    workers: tuple[int, int, int]
    workers_per_machine: int
    machines: int | None
    cost: float | None
    limited_by: str
    seconds_to_fill: float

    @property
    def is_sure(self) -> bool:
        """True if both ends of the interval take as many workers."""
        return self.workers[1] == self.workers[2]

    @property
    def machine_bounds(self) -> tuple[int, int]:
        """The fewest and the most machines: at the fast and at the slow end of the speed."""
        fitting = max(1, self.workers_per_machine)
        return ceil(self.workers[2] / fitting), ceil(self.workers[1] / fitting)


def advise(run: RunSummary, setting: Setting, demand: Demand) -> list[Plan]:
    """The plans of a setting, the cheapest first; those that do not fit a machine last.

    Raises:
        OptionError: No writer wrote the right rows, or none was measured near the requested batch size.
    """
    cells = [each for each in run.of(setting) if each.is_right and each.rows_per_second is not None]
    if not cells:
        raise OptionError(f"run {run.run_id}: no writer wrote the right rows in this setting")
    if demand.batch_rows is not None:
        cells = _near(cells, demand.batch_rows)
    plans = [_plan(each, demand) for each in cells]
    return sorted(plans, key=_order)


def best_of(plans: Sequence[Plan]) -> list[Plan]:
    """The best plan of each backend, the cheapest first."""
    found: dict[str, Plan] = {}
    for each in plans:
        found.setdefault(each.cell.cell.backend, each)
    return list(found.values())


def _order(plan: Plan) -> tuple[bool, float, int, float]:
    """By cost; of one cost by the workers that are enough at the slow end, and then by memory."""
    return plan.cost is None, plan.cost or 0.0, plan.workers[1], plan.worker_bytes


def _near(cells: Sequence[CellSummary], batch: int) -> list[CellSummary]:
    """The cells of the measured number of rows that is nearest, within a factor of two."""
    counts = {each.cell.rows for each in cells}
    nearest = min(counts, key=lambda rows: max(rows / batch, batch / rows))
    if max(nearest / batch, batch / nearest) > 2:  # noqa: PLR2004 - the factor said
        known = ", ".join(f"{rows:,}" for rows in sorted(counts))
        raise OptionError(
            f"--batch {batch:,}: the run has {known} rows, none within a factor of two: measure it by "
            f"`spillway bench --rows {batch}`"
        )
    return [each for each in cells if each.cell.rows == nearest]


def _plan(cell: CellSummary, demand: Demand) -> Plan:
    found = cell.rows_per_second
    assert found is not None  # noqa: S101 - of `advise`
    speed = (found.median, found.low, found.high)
    workers = tuple(ceil(demand.rows_per_second / (BUSY * each)) for each in speed)
    memory = median(_worker_bytes(sample) for sample in cell.good)
    by_memory, by_cores = int(demand.memory_bytes // memory), demand.cores // cell.cell.threads
    fitting = min(by_memory, by_cores)
    machines = ceil(workers[0] / fitting) if fitting else None
    return Plan(
        cell=cell,
        worker_bytes=memory,
        speed=speed,
        workers=(workers[0], workers[1], workers[2]),
        workers_per_machine=fitting,
        machines=machines,
        cost=None if machines is None else machines * demand.price,
        limited_by="memory" if by_memory < by_cores else "cores",
        seconds_to_fill=cell.cell.rows / (demand.rows_per_second / workers[0]),
    )


def _worker_bytes(sample: dict[str, Any]) -> float:
    """The most that a process holds: its own memory before the write, its growth, rows that arrive.

    Of a writer in a JVM it is the most of both processes, which hold their rows themselves.
    """
    memory, cell, jvm = sample["memory"], sample["cell"], sample.get("jvm")
    if jvm:
        return float(jvm["both_peak_bytes"])
    # These modes hold all rows until the last is written.
    whole = cell["mode"] in {"table", "batches-retained"}
    share = 1.0 if whole else min(1.0, cell["chunk_rows"] / cell["rows"])
    arrives = sample["throughput"]["arrow_bytes"] * share
    before = memory["before"]
    own = before["anon"] or before["rss"]  # an external program says the sum alone
    return float(own + memory["growth_bytes"] + arrives)
