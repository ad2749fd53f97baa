"""A run as it lies on disk, summed up cell by cell. Nothing here knows of a run that goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

from spillway._wording import counted
from spillway.bench.hosts import host_warnings, hosts_of
from spillway.bench.plan import Cell
from spillway.bench.process_settings import DEFAULT_PROCESS
from spillway.bench.record import ALLOCATIONS, DISTURBED, LEAST_MEMORY, PAIRS, PROBES, SAMPLES, VALIDATION
from spillway.bench.stopping import imprecise_cells
from spillway.harness import records
from spillway.harness.host import noise_warnings
from spillway.harness.report.summary import CellOfRun, RunOfCells, estimate_of, outcomes, records_by_cell
from spillway.harness.statistics import (
    FEWEST_FOR_INTERVAL,
    FEWEST_FOR_OUTLIERS,
    Estimate,
    exact_value,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_SIZES = ("chunk_rows", "row_group_rows")
_WARM_SHARE = 0.99  # a few pages of a warm file are on the move at any time

__all__ = [
    "CellSummary",
    "Metric",
    "RunSummary",
    "Setting",
    "allocated_bytes",
    "cpu_seconds",
    "file_bytes",
    "growth",
    "read_run",
    "seconds",
    "speed",
]

Metric = Callable[[dict[str, Any]], "float | None"]


def speed(sample: dict[str, Any]) -> float:
    """Rows per second of the write."""
    return float(sample["throughput"]["rows_per_second"])


def seconds(sample: dict[str, Any]) -> float:
    """Seconds of the write."""
    return float(sample["use"]["wall_seconds"])


def growth(sample: dict[str, Any]) -> float | None:
    """Peak resident bytes of the write over its baseline; None for a JVM, whose heap has grown before."""
    return None if sample.get("jvm") else float(sample["memory"]["growth_bytes"])


def cpu_seconds(sample: dict[str, Any]) -> float:
    """Processor time of the write, the user's and the kernel's."""
    return float(sample["use"]["user_seconds"] + sample["use"]["system_seconds"])


def file_bytes(sample: dict[str, Any]) -> float:
    """Bytes of the file."""
    return float(sample["output"]["bytes"])


def allocated_bytes(sample: dict[str, Any]) -> float | None:
    """Bytes allocated from pyarrow's pool in the write, freed ones too; None without a pool."""
    pool = sample["pyarrow_pool"]
    return None if pool is None else float(pool["allocated_bytes"])


@dataclass(frozen=True)
class Setting:
    """The part that the cells of one table have in common: all but the backend and the rows."""

    dataset: str
    mode: str
    chunk_rows: int
    codec: str
    level: int | None
    threads: int
    row_group_rows: int
    memory_bytes: int | None
    limit_kind: str
    arm: str = DEFAULT_PROCESS
    python: str = ""

    @classmethod
    def of(cls, cell: Cell) -> Setting:
        """The setting of a cell."""
        return cls(**{field.name: getattr(cell, field.name) for field in fields(cls)})


@dataclass(frozen=True)
class CellSummary(CellOfRun[Setting]):
    """All samples of one cell.

    Attributes:
        cell: The cell.
        samples: Its samples in the order they were taken, failed ones too.
        wrong: The hashes of all contents of the run that a reader found wrong.
        probed: Its writes beside a probe.
        allocations: Its traced write, or None.
    """

    cell: Cell
    samples: Sequence[dict[str, Any]]
    wrong: frozenset[str] = frozenset()
    probed: Sequence[dict[str, Any]] = ()
    allocations: dict[str, Any] | None = None

    @property
    def setting(self) -> Setting:
        """All of the cell but its backend and rows."""
        return Setting.of(self.cell)

    @cached_property
    def good(self) -> list[dict[str, Any]]:
        """The samples that ended well."""
        return [sample for sample in self.samples if sample["outcome"] == "ok"]

    @property
    def outcome(self) -> str:
        """The outcomes of its samples, with those whose file was found wrong afterwards."""
        return outcomes([{"outcome": self.outcome_of(sample)} for sample in self.samples])

    @property
    def is_right(self) -> bool:
        """True if all its samples ended well, and no reader found their files wrong."""
        return self.outcome == "ok"

    def outcome_of(self, sample: dict[str, Any]) -> str:
        """The outcome of one of its samples, "wrong_output" too where readers said so later."""
        output = sample["output"]
        wrong = output is not None and output["content_hash"] in self.wrong
        return "wrong_output" if wrong else str(sample["outcome"])

    def estimate(self, metric: Metric) -> Estimate | None:
        """The estimate of a metric over the good samples; None where no sample has it."""
        return estimate_of(self.good, metric)

    def readings(self, probe: str) -> list[dict[str, Any]]:
        """The readings of a probe. In records of version 1 they are in the samples."""
        found = [write.get(probe) for write in (*self.probed, *self.good)]
        return [reading for reading in found if reading is not None]

    def by_block(self, metric: Metric) -> dict[int, float]:
        """A metric of the good samples that have it, by block."""
        return {sample["block"]: value for sample in self.good if (value := metric(sample)) is not None}

    def exact(self, name: str) -> tuple[int, bool] | None:
        """An exact metric of the output, and whether it varied."""
        values = [sample["output"][name] for sample in self.good]
        return exact_value(values) if values else None

    @property
    def rows_per_second(self) -> Estimate | None:
        """Rows per second of the write."""
        return self.estimate(speed)

    @property
    def seconds_per_row(self) -> Estimate | None:
        """Seconds of the write for each row."""
        return self.estimate(lambda sample: sample["use"]["wall_seconds"] / self.cell.rows)

    @property
    def growth(self) -> Estimate | None:
        """Peak resident bytes of the write over its baseline."""
        return self.estimate(growth)


@dataclass(frozen=True)
class RunSummary(RunOfCells[CellSummary, Setting]):
    """One run's folder.

    Attributes:
        allocations: The allocation curves.
        probes: The writes beside a probe.
        limit_trials: The writes that looked for the least memory.
        verdicts: What validation said of each distinct content.
        disturbed: The samples that were taken again, since other processes ran beside them.
        pairs: The pairs of writes at once on one core.
    """

    allocations: Sequence[dict[str, Any]]
    verdicts: Sequence[dict[str, Any]]
    probes: Sequence[dict[str, Any]] = ()
    limit_trials: Sequence[dict[str, Any]] = ()
    disturbed: Sequence[dict[str, Any]] = ()
    pairs: Sequence[dict[str, Any]] = ()

    def warnings(self) -> list[str]:
        """The caveats that a reader has to know before believing the figures."""
        return [
            *self.noise(),
            *self._watching(),
            *self._few_samples(),
            *self._imprecise(),
            *self._varying(),
            *self._outliers(),
        ]

    def noise(self) -> list[str]:
        """The ways in which the host was not quiet."""
        taken = self._taken()
        seconds = sum(sample["process_seconds"] for sample in taken)
        if hosts_of(self):
            return host_warnings(self)
        return noise_warnings(
            self.environment["load_before"],
            [sample["host"] for sample in taken],
            seconds,
            cores=self.environment["cores"],
        )

    def _taken(self) -> list[dict[str, Any]]:
        return [sample for each in self.cells for sample in each.samples]

    def _watching(self) -> list[str]:
        """The samples that were not watched as they should have been."""
        taken, warnings = self._taken(), []
        shared = sum(sample.get("shares_core", False) for sample in taken)
        if shared:
            warnings.append(
                f"{counted(shared, 'sample')} left no core to the bench, which waited on one of theirs; "
                "their memory over time was not looked at"
            )
        cold = sum(sample["input"]["resident_share_before"] < _WARM_SHARE for sample in taken)
        if cold:
            before = counted(cold, "sample")
            warnings.append(f"the input was not wholly in the page cache before {before}, and was read again")
        return warnings

    def _few_samples(self) -> list[str]:
        fewest = min((len(each.samples) for each in self.cells), default=0)
        if fewest == 1:
            none = "one sample a cell shows no spread, so there are no intervals"
            return [f"{none}: take 5 for a rough figure, 12 for one to quote"]
        if 1 < fewest < FEWEST_FOR_INTERVAL:
            coverage = 1 - 2 * 0.5**fewest
            few = f"{fewest} samples a cell are too few for a 95 % interval: intervals are the whole range"
            enough = f"take {FEWEST_FOR_INTERVAL} or more, 12 for a quoted figure"
            return [f"{few} and cover the median with {coverage * 100:.0f} %; {enough}"]
        return []

    def _imprecise(self) -> list[str]:
        precision = self.environment["options"].get("precision")
        if precision is None:
            return []
        wide = imprecise_cells(self._taken(), precision)
        missed = f"{counted(len(wide), 'cell')} {'is' if len(wide) == 1 else 'are'} less precise"
        return [f"{missed} than the {precision:.1%} asked for: the run ended before"] if wide else []

    def _varying(self) -> list[str]:
        warnings = []
        for each in self.cells:
            for name in ("bytes", "row_groups"):
                value = each.exact(name)
                if value is not None and value[1]:
                    cell = each.cell
                    warnings.append(
                        f"{cell.backend}, {cell.mode}, {counted(cell.rows, 'row')}: "
                        f"{name.replace('_', ' ')} of the file vary between samples; the largest is shown"
                    )
        return warnings

    def _outliers(self) -> list[str]:
        if all(len(each.good) < FEWEST_FOR_OUTLIERS for each in self.cells):
            return []  # which the caveat about few samples says
        found = sum(speed.outliers for each in self.cells if (speed := each.rows_per_second) is not None)
        are = "is an outlier" if found == 1 else "are outliers"
        return [f"{counted(found, 'sample')} {are} in throughput; none is dropped"] if found else []


def read_run(folder: Path) -> RunSummary:
    """Read a run's folder, whole or cut short.

    Raises:
        FileNotFoundError: The folder is not a run's.
        CorruptFileError: A line in it is damaged.
    """
    grouped = records_by_cell(folder / SAMPLES, Cell)
    environment = records.read_json(folder / records.ENVIRONMENT)
    options = environment["options"]
    places = {
        option: {name: place for place, name in enumerate(options.get(option, ()))}
        for option in ("backends", "datasets", "codecs", "arms", "pythons")
    }
    verdicts = records.read_lines(folder / VALIDATION)
    wrong = frozenset(each["content_hash"] for each in verdicts if each["outcome"] == "wrong_output")
    probes, traced = records.read_lines(folder / PROBES), records.read_lines(folder / ALLOCATIONS)
    vary = {name for name in _SIZES if len({getattr(cell, name) for cell in grouped}) > 1}
    cells = [
        CellSummary(
            cell,
            taken,
            wrong,
            [write for write in probes if Cell(**write["cell"]) == cell],
            next((each for each in traced if _is_of(each, cell, vary)), None),
        )
        for cell, taken in grouped.items()
    ]
    cells.sort(
        key=lambda each: (
            each.cell.mode,
            places["datasets"].get(each.cell.dataset, 0),
            places["codecs"].get(each.cell.codec, 0),
            each.cell.chunk_rows,
            each.cell.row_group_rows,
            each.cell.threads,
            places["arms"].get(each.cell.arm, 0),
            -(each.cell.memory_bytes or 0),
            places["pythons"].get(each.cell.python, 0),
            places["backends"][each.cell.backend],
            each.cell.rows,
        )
    )
    return RunSummary(
        folder,
        environment,
        cells,
        traced,
        verdicts,
        probes,
        records.read_lines(folder / LEAST_MEMORY),
        records.read_lines(folder / DISTURBED),
        records.read_lines(folder / PAIRS),
    )


def _is_of(traced: dict[str, Any], cell: Cell, vary: set[str]) -> bool:
    """Return true if a traced write is of this cell, its limit, process setting and threads aside.

    Early records do not say their sizes, so that where those vary in the run, nobody knows what they are of.
    """
    if vary - traced.keys():
        return False
    names = ("backend", "mode", "dataset", "codec", "python", "rows", *_SIZES)
    return all(traced[name] == getattr(cell, name) for name in names if name in traced)
