"""A run as it lies on disk, summed up cell by cell. Nothing here depends on a live run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from spillway._wording import and_joined, counted, shortened
from spillway.backends import OWN_LIBRARY, library
from spillway.bench.plan import DEFAULT_PROCESS, Cell
from spillway.bench.record import (
    ALLOCATIONS,
    DISTURBED,
    LEAST_MEMORY,
    PAIRS,
    PROBES,
    SAMPLES,
    SCHEMA_VERSION,
    VALIDATION,
)
from spillway.harness import records
from spillway.harness.environment import noise_warnings
from spillway.harness.records import CellOfRun, RunOfCells, outcomes, records_by_cell
from spillway.harness.report import machine
from spillway.harness.statistics import (
    FEWEST_FOR_INTERVAL,
    FEWEST_FOR_OUTLIERS,
    Estimate,
    estimate,
    estimate_of,
    exact_value,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

_SIZES = ("chunk_rows", "row_group_rows")
_WARM_SHARE = 0.99  # a few pages of a warm file are on the move at any time


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


def peak_rss(sample: dict[str, Any]) -> float:
    """Peak resident bytes of the process, and of its JVM where it has one."""
    jvm = sample.get("jvm")
    return float(jvm["both_peak_bytes"] if jvm else sample["memory"]["after"]["high_water"])


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

    @property
    def without_limit(self) -> Setting:
        """The setting of passes, which have none of the run's memory limits."""
        return replace(self, memory_bytes=None, limit_kind="none")

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
        probed: Its writes with a probe.
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

    @property
    def is_wrong(self) -> bool:
        """True if the output of any of its samples is wrong: its figures are not those of a writer."""
        return any(self.outcome_of(sample) == "wrong_output" for sample in self.samples)

    @property
    def wrong_samples(self) -> int:
        """Its samples that did not end well, or whose file a reader found wrong."""
        return sum(self.outcome_of(sample) != "ok" for sample in self.samples)

    def outcome_of(self, sample: dict[str, Any]) -> str:
        """The outcome of one of its samples; "wrong_output" also if readers found this later."""
        output = sample["output"]
        wrong = output is not None and output["content_hash"] in self.wrong
        return "wrong_output" if wrong else str(sample["outcome"])

    def estimate(self, metric: Metric) -> Estimate | None:
        """The estimate of a metric over the good samples; None if no sample has it."""
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
        probes: The writes with a probe.
        limit_trials: The writes of the search for the least memory.
        verdicts: What validation said of each distinct content.
        disturbed: The samples that were repeated because other processes ran during them.
        pairs: The pairs of writes at once on one core.
    """

    allocations: Sequence[dict[str, Any]]
    verdicts: Sequence[dict[str, Any]]
    probes: Sequence[dict[str, Any]] = ()
    limit_trials: Sequence[dict[str, Any]] = ()
    disturbed: Sequence[dict[str, Any]] = ()
    pairs: Sequence[dict[str, Any]] = ()

    def is_first_without_limit(self, setting: Setting) -> bool:
        """True for the first of the settings that differ in their limit alone, where passes are shown."""
        return setting == next(each for each in self.settings if each.without_limit == setting.without_limit)

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
                f"{counted(shared, 'sample')} used all cores, so the bench waited on a measured one; their "
                "memory over time was not looked at"
            )
        cold = sum(sample["input"]["resident_share_before"] < _WARM_SHARE for sample in taken)
        if cold:
            before = counted(cold, "sample")
            warnings.append(f"the input was not wholly in the page cache before {before}, and was read again")
        larger = {
            f"{pool['pool']} of {each.cell.backend}"
            for each in self.cells
            for sample in each.good
            for pool in sample["pools"]
            if pool["threads"] > each.cell.threads
        }
        if larger:
            warnings.append(f"thread pools were larger than --cores says: {and_joined(sorted(larger))}")
        return warnings

    def _few_samples(self) -> list[str]:
        fewest = min((len(each.good or each.samples) for each in self.cells), default=0)
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
                    warnings.append(
                        f"{each.cell.words}: "
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
        SpillwayError: A later version of Spillway measured the run.
    """
    environment = records.read_environment(folder, SCHEMA_VERSION)
    grouped = records_by_cell(folder / SAMPLES, Cell)
    options = environment["options"]
    places = {
        option: {name: place for place, name in enumerate(options.get(option, ()))}
        for option in ("backends", "datasets", "codecs", "arms", "pythons")
    }
    verdicts = records.read_lines(folder / VALIDATION)
    wrong = frozenset(each["content_hash"] for each in verdicts if each["outcome"] == "wrong_output")
    probes, traced = records.read_lines(folder / PROBES), records.read_lines(folder / ALLOCATIONS)
    cells = [
        CellSummary(
            cell,
            taken,
            wrong,
            # Probed writes are under no limit.
            [write for write in probes if Cell(**write["cell"]).without_limit == cell.without_limit],
            next((each for each in traced if _is_of(each, cell)), None),
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


def _is_of(traced: dict[str, Any], cell: Cell) -> bool:
    """Return true if a traced write is of this cell, its limit, process setting and threads aside."""
    names = ("backend", "mode", "dataset", "codec", "python", "rows", *_SIZES)
    return all(traced[name] == getattr(cell, name) for name in names if name in traced)


# The parts of a machine without which samples of two hosts are of the same kind.
_ALIKE = {
    "cpu_model": "processors",
    "usable_cores": "numbers of cores",
    "memory_bytes": "sizes of memory",
    "kernel": "kernels",
    "libraries": "libraries",
}


def hosts_of(run: RunSummary) -> list[dict[str, Any]]:
    """The hosts whose executors took samples; none for a run on one machine."""
    found: list[dict[str, Any]] = run.environment.get("hosts", [])
    return found


def host_lines(run: RunSummary) -> list[str]:
    """A line for each host: the machine, its samples, and how its limits were proved."""
    lines = []
    for host in hosts_of(run):
        taken = _taken(run, host)
        blocks = len({sample["block"] for sample in taken})
        executors = len({sample["placement"]["executor"] for sample in taken})
        proofs = "".join(
            f"; limit of {each['limit_bytes'] / 1e6:,.0f} MB ({each['kind']}) proved, a test process was "
            f"{each['ending']} at {each['died_at_bytes'] / each['limit_bytes']:.2f} of it"
            for each in host["limit_proofs"]
        )
        lines.append(
            f"{host['host']}: {machine(host)}; {counted(len(taken), 'sample')} in "
            f"{counted(blocks, 'block')} by {counted(executors, 'executor')}{proofs}."
        )
    return lines


def host_warnings(run: RunSummary) -> list[str]:
    """The noise of each host, and in what hosts differ."""
    warnings = []
    for host in hosts_of(run):
        taken = _taken(run, host)
        seconds = sum(sample["process_seconds"] for sample in taken)
        readings = [sample["host"] for sample in taken]
        found = noise_warnings(host["load_before"], readings, seconds, cores=host["cores"])
        warnings += [f"{host['host']}: {each}" for each in found]
    differences = _differences(hosts_of(run))
    if differences:
        warnings.append(
            f"hosts differ in {and_joined(differences)}: medians are of all of them; ratios are of blocks, "
            f"each of which one host took"
        )
    return warnings


def _taken(run: RunSummary, host: dict[str, Any]) -> list[dict[str, Any]]:
    samples = (sample for each in run.cells for sample in each.samples)
    return [sample for sample in samples if sample["placement"]["host"] == host["host"]]


def _differences(hosts: Sequence[dict[str, Any]]) -> list[str]:
    return [words for name, words in _ALIKE.items() if any(each[name] != hosts[0][name] for each in hosts)]


FAILED = 1
"""The exit status of a run in which Spillway's own writer failed, or no writer wrote the right rows."""

_BY_THE_LIMIT = {"oom_killed", "memory_error"}


def outcome_words(outcome: str) -> str:
    """An outcome of the samples' file in words: "wrong output"."""
    return outcome.replace("_", " ")


def reason(sample: Mapping[str, Any], most: int | None = None) -> str:
    """The reason why a sample failed, cut to `most` characters if that is given."""
    error, cell = sample["error"], sample["cell"]
    if error is not None:
        return shortened(f"{error['type']}: {error['message']}", most)
    where = f" in phase {sample['died_in']}" if sample["died_in"] else ""
    if sample["outcome"] == "oom_killed":
        if cell["memory_bytes"] is None:
            return f"killed for want of memory, by the system or by a limit around the bench{where}"
        return f"killed at the memory limit of {cell['memory_bytes'] / 1e6:,.0f} MB{where}"
    if sample["outcome"] == "timeout":
        if sample["died_in"] == "exit":
            return "its process did not end after the write, as with a thread that the library left"
        return f"not done when its time was up{where}"
    how = (
        f"died by {sample['signal']}{where}"
        if sample["signal"]
        else f"exit status {sample['exit_status']}{where}"
    )
    last = sample["stderr"].strip().splitlines()[-1:]
    return shortened(": ".join([how, *last]), most)


def failure_notes(cells: Sequence[CellSummary], most: int | None = None) -> list[str]:
    """A note for each way in which samples of a setting failed: the backend, the rows, the reason.

    Args:
        cells: The cells of the setting.
        most: Characters of each reason, all by default.
    """
    rows: dict[tuple[str, str, str], set[int]] = defaultdict(set)
    for each in cells:
        for sample in each.samples:
            if sample["outcome"] != "ok":
                key = (each.cell.backend, sample["outcome"], reason(sample, most))
                rows[key].add(each.cell.rows)
    return [
        f"{backend}, {_rows_words(found)}: {outcome_words(outcome)}: {why}"
        for (backend, outcome, why), found in rows.items()
    ]


@dataclass(frozen=True)
class WrongOutput:
    """A content that readers found wrong, and who wrote it.

    Attributes:
        backends: The backends that wrote it.
        modes: The modes in which they did.
        rows: The rows it should hold.
        readers: The readers that found it wrong.
        message: What is wrong, in the words of the first of them.
        files: The names of the files.
    """

    backends: Sequence[str]
    modes: Sequence[str]
    rows: int
    readers: Sequence[str]
    message: str
    files: Sequence[str]

    def __str__(self) -> str:
        """Say it in one sentence."""
        return (
            f"{and_joined(self.backends)} ({and_joined(self.modes)}, {counted(self.rows, 'row')}), read by "
            f"{and_joined(self.readers)}: {self.message} [{', '.join(self.files)}]"
        )


def wrong_outputs(run: RunSummary) -> list[WrongOutput]:
    """The contents that readers found wrong, those that are wrong in the same way together."""
    found: dict[tuple[int, str], list[dict[str, Any]]] = defaultdict(list)
    for verdict in run.verdicts:
        if verdict["outcome"] == "wrong_output":
            mismatch = verdict["mismatch"]
            message = "refused" if mismatch is None else mismatch["message"]
            found[verdict["rows"], message].append(verdict)
    return [_wrong_output(run, rows, message, verdicts) for (rows, message), verdicts in found.items()]


def _wrong_output(run: RunSummary, rows: int, message: str, verdicts: list[dict[str, Any]]) -> WrongOutput:
    contents = {verdict["content_hash"] for verdict in verdicts}
    writers = [each.cell for each in run.cells if any(_hash(sample) in contents for sample in each.samples)]
    return WrongOutput(
        backends=list(dict.fromkeys(cell.backend for cell in writers)),
        modes=list(dict.fromkeys(cell.mode for cell in writers)),
        rows=rows,
        readers=list(dict.fromkeys(verdict["engine"] for verdict in verdicts)),
        message=message,
        files=list(dict.fromkeys(verdict["file"] for verdict in verdicts)),
    )


def _hash(sample: dict[str, Any]) -> str | None:
    return None if sample["output"] is None else str(sample["output"]["content_hash"])


def status_of(run: RunSummary) -> int:
    """0 for a run that measured everything, even if peers failed; else `FAILED`.

    A writer of Spillway's that the memory limit ended is a finding too: the limit is the user's.
    """
    of_all, of_own = set(), set()
    for each in run.cells:
        ended = {each.outcome_of(sample) for sample in each.samples}
        of_all |= ended
        if library(each.cell.backend) == OWN_LIBRARY:
            of_own |= ended if each.cell.memory_bytes is None else ended - _BY_THE_LIMIT
    return FAILED if of_own - {"ok"} or "ok" not in of_all else 0


def _rows_words(counts: set[int]) -> str:
    return f"{and_joined([f'{count:,}' for count in sorted(counts)])} row{'' if counts == {1} else 's'}"


def imprecise_cells(samples: Iterable[dict[str, Any]], precision: float) -> list[Cell]:
    """The cells whose interval of the median speed reaches further than `precision`, or is not there yet.

    A cell that never ended well has no speed to be precise about.
    """
    speeds: dict[Cell, list[float]] = defaultdict(list)
    for sample in samples:
        if sample["outcome"] == "ok":
            speeds[Cell(**sample["cell"])].append(float(sample["throughput"]["rows_per_second"]))
    return [cell for cell, found in speeds.items() if not _is_precise(found, precision)]


def _is_precise(speeds: Sequence[float], precision: float) -> bool:
    found = estimate(speeds)
    reach = max(found.high - found.median, found.median - found.low)
    return found.n >= FEWEST_FOR_INTERVAL and reach <= precision * found.median
