"""From options to cells: what will be measured, decided and checked before anything runs.

A process setting changes what a user can change without touching the writer: the thresholds of the garbage
collector, the memory pool of Arrow, the settings of malloc, the share of processor time. A library that does
not use the changed setting is still measured: that there is no difference is a finding. Records call it
`arm`.
"""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated

from spillway._options import require_counts, require_distinct
from spillway._wording import counted, joined
from spillway.backends import CODECS, OWN_LIBRARY, Mode, library
from spillway.backends import names as backend_names
from spillway.errors import OptionError
from spillway.harness.limits import LIMIT_KINDS
from spillway.harness.records import LATER, Keywords, Positive, Signed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

DEFAULT_PROCESS = "default"
"""The name of the default process setting."""

_POOL = "ARROW_DEFAULT_MEMORY_POOL"
_QUOTA = re.compile(r"quota-([1-9]\d{0,4})")
_MIB = 1 << 20


@dataclass(frozen=True)
class ProcessSetting:
    """A change to the measured process.

    Attributes:
        words: The change in words; empty for the default.
        environment: Variables of its environment.
        gc_threshold: Thresholds of Python's garbage collector; None for Python's own.
        cores: Cores whose time it may take, 1.5 for one and a half; None for all that it is pinned to.
        cold: True if the measured write is the first of the process. A JVM is warm in any case.
    """

    words: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    gc_threshold: tuple[int, int, int] | None = None
    cores: float | None = None
    cold: bool = False

    def changes(self, threads: int) -> bool:
        """Return true if a process pinned to this number of cores could exceed its processor quota."""
        return self.cores is None or self.cores < threads


def _pool(name: str) -> ProcessSetting:
    return ProcessSetting(f"Arrow's pool {name}", {_POOL: name})


_SETTINGS = {
    DEFAULT_PROCESS: ProcessSetting(),
    "gc-aggressive": ProcessSetting("garbage collected after 50 objects", gc_threshold=(50, 5, 5)),
    **{f"pool-{name}": _pool(name) for name in ("system", "mimalloc", "jemalloc")},
    "malloc-one-arena": ProcessSetting("malloc with one arena", {"MALLOC_ARENA_MAX": "1"}),
    # Set, these thresholds stay as they are: glibc lets its own grow with the blocks that are freed.
    "malloc-trim": ProcessSetting(
        "malloc that gives back from 128 KiB on",
        {"MALLOC_TRIM_THRESHOLD_": str(_MIB // 8), "MALLOC_MMAP_THRESHOLD_": str(_MIB // 8)},
    ),
    "malloc-keep": ProcessSetting(
        "malloc that gives back only above 1 GiB",
        {"MALLOC_TRIM_THRESHOLD_": str(1024 * _MIB), "MALLOC_MMAP_MAX_": "0"},
    ),
    "cold": ProcessSetting("no write before", cold=True),
}
PROCESS_NAMES = (*_SETTINGS, "quota-PERCENT")
"""The process settings by name, the last of them a pattern."""


def process_setting(name: str) -> ProcessSetting:
    """The process setting of this name; ``quota-150`` is one and a half cores' time.

    Raises:
        OptionError: No process setting has this name.
    """
    quota = _QUOTA.fullmatch(name)
    if quota is not None:
        return ProcessSetting(f"a quota of {quota[1]} % of a core", cores=int(quota[1]) / 100)
    if name not in _SETTINGS:
        raise OptionError(
            f"--process-setting {name}: choose from: {', '.join(PROCESS_NAMES)}, as in quota-150"
        )
    return _SETTINGS[name]


def how_to_have(name: str) -> list[str]:
    """A line that says how to apply this process setting in your own program; empty for the default."""
    found = process_setting(name)
    variables = " ".join(f"{key}={value}" for key, value in found.environment.items())
    steps = [f"start Python with {variables}"] if variables else []
    steps += [f"call gc.set_threshold{found.gc_threshold}"] if found.gc_threshold else []
    steps += (
        [f"start it by systemd-run --scope -p CPUQuota={found.cores:.0%}"] if found.cores is not None else []
    )
    steps += ["write nothing else in the process"] if found.cold else []
    return [f"Measured with {found.words}: {', '.join(steps)}."] if steps else []


def require_process_settings(names: Iterable[str], elsewhere: Sequence[str] | None = None) -> None:
    """Refuse a pool that the build of pyarrow lacks: it would warn, and take another one.

    Args:
        names: The process settings.
        elsewhere: The pools of another environment's pyarrow; by default those of this one are looked at.

    Raises:
        OptionError: It lacks one.
    """
    wanted = {
        name: pool for name in names if (pool := process_setting(name).environment.get(_POOL)) is not None
    }
    if not wanted:
        return
    built = _pools() if elsewhere is None else elsewhere
    for name, pool in wanted.items():
        if pool not in built:
            raise OptionError(
                f"--process-setting {name}: this build of pyarrow has no such pool: it has {', '.join(built)}"
            )


def _pools() -> Sequence[str]:
    import pyarrow as pa

    return pa.supported_memory_backends()


DEFAULT_ROWS = (10_000, 25_000, 50_000, 100_000, 200_000, 400_000)
MODES: tuple[Mode, ...] = ("batches", "batches-retained", "table", "rows", "rows-json", "ndjson")
DEFAULT_MODES: tuple[Mode, ...] = ("batches", "batches-retained", "table")
# Beside "batches", these are measured at the most rows alone.
_AT_THE_MOST_ROWS = frozenset({"batches-retained", "table"})
_A_PAIR = 2
_DEFAULT_LEVELS = {"zstd": 1, "gzip": 6, "brotli": 1}


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One backend at one setting. Two samples of equal cells may be compared; nothing else may.

    Attributes:
        backend: Its name.
        mode: "batches" arrive one at a time, and the producer reuses them after each call;
            "batches-retained", which a writer may keep; an existing "table"; or, a chunk at a time, dicts
            that share their keys ("rows") or come fresh from JSON ("rows-json"), or "ndjson".
        dataset: A dataset's name, or "file" for the user's own.
        rows: Rows written.
        chunk_rows: Rows per record batch of the input.
        row_group_rows: Maximum rows per row group.
        codec: Parquet's name of the codec.
        level: Its level, or None if it has none.
        memory_bytes: The limit on the whole process, or None.
        limit_kind: How the limit is set, "none" without one.
        threads: Cores the process is pinned to, and threads each pool may use.
        arm: The process setting, by its name in ``--process-setting``.
        python: The Python environment of the process, by its name in ``--python``; empty for the bench's own.
    """

    backend: str
    mode: Mode
    dataset: str
    rows: Positive
    chunk_rows: Positive
    row_group_rows: Positive
    codec: str
    level: Signed | None
    memory_bytes: Positive | None
    limit_kind: Annotated[str, Keywords(enum=["none", *LIMIT_KINDS])]
    threads: Positive
    arm: str = field(default=DEFAULT_PROCESS, metadata=LATER)
    python: str = field(default="", metadata=LATER)

    @property
    def without_limit(self) -> Cell:
        """The cell of passes, which have none of the run's memory limits."""
        return replace(self, memory_bytes=None, limit_kind="none")

    @property
    def input(self) -> tuple[str, int]:
        """The key of its input: the dataset and the rows of a batch."""
        return self.dataset, self.chunk_rows

    @property
    def words(self) -> str:
        """The cell for people, without what all cells of most runs share."""
        return f"{self.backend}, {self.mode}, {counted(self.rows, 'row')}"


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of one run; `Cell` describes the fields that they share.

    Attributes:
        rows: Row counts; None for all rows of the user's own, until `with_rows_of` says how many they are.
        at_most: The most rows to take of a file whose rows are measured as they are, without `rows`.
        table_rows: Row counts of mode "table"; None for the largest of `rows` if mode "batches" is measured
            too, else for `rows`.
        samples: Processes per cell, fixed before looking; with a precision the most.
        precision: Stop once the 95 % interval of each cell's median speed reaches no further than this share
            of it to both sides; None to take all samples.
        budget_minutes: Minutes after which a run with a precision takes no further block.
        seed: Seed of the dataset and of the order of samples.
        timeout: Seconds one sample may take.
        probes: Number of writes with each probe, and without one, of each backend at its largest number of
            rows; 0 for none.
        arms: Process settings; a quota is left out if the cores cannot exceed it.
        least_memory: Number of writes that confirm each side of the least memory limit that each backend
            survives at its largest number of rows; 0 to skip the search.
        pairs: Number of writes of each backend that share a core with a write of the base, at its largest
            number of rows; 0 for none.
        pythons: The names of two Python environments in which each backend is measured, the old one first;
            empty for the bench's own.
    """

    backends: tuple[str, ...]
    rows: tuple[int, ...] | None = DEFAULT_ROWS
    at_most: int | None = None
    table_rows: tuple[int, ...] | None = None
    modes: tuple[Mode, ...] = DEFAULT_MODES
    datasets: tuple[str, ...] = ("logs",)
    chunk_rows: tuple[int, ...] = (10_000,)
    row_group_rows: tuple[int, ...] = (1_048_576,)
    codecs: tuple[str, ...] = ("zstd",)
    level: int | None = None
    memory: tuple[int | None, ...] = (None,)
    limit_kind: str = "none"
    threads: tuple[int, ...] = (1,)
    samples: int = 3
    precision: float | None = None
    budget_minutes: float = 10.0
    seed: int = 1
    timeout: float = 300.0
    probes: int = 1
    arms: tuple[str, ...] = (DEFAULT_PROCESS,)
    least_memory: int = 0
    pairs: int = 0
    pythons: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_distinct(
            {
                "--backend": self.backends,
                "--rows": self.rows or (),
                "--table-rows": self.table_rows or (),
                "--mode": self.modes,
                "--dataset": self.datasets,
                "--chunk-rows": self.chunk_rows,
                "--row-group-rows": self.row_group_rows,
                "--codec": self.codecs,
                "--memory": self.memory,
                "--cores": self.threads,
                "--process-setting": self.arms,
            }
        )
        require_counts(
            {
                "--rows": (1,) if self.rows is None else self.rows,
                "--table-rows": self.table_rows or (1,),
                "--chunk-rows": self.chunk_rows,
                "--row-group-rows": self.row_group_rows,
                "--cores": self.threads,
                "--samples": (self.samples,),
            }
        )
        if not self.modes or set(self.modes) - set(MODES):
            raise OptionError(f"--mode takes {joined(MODES)}, not {joined(self.modes)}")
        # After the modes: which backends there are to choose from depends on them.
        _check_backends(self.backends)
        if self.precision is not None and not 0 < self.precision < 1:
            raise OptionError(f"--precision takes a share between 0 and 100 %, not {self.precision:.0%}")
        _check_times(self.budget_minutes, self.timeout)
        counts = {"--probes": self.probes, "--least-memory": self.least_memory, "--pairs": self.pairs}
        for option, count in counts.items():
            if count < 0:
                raise OptionError(f"{option} takes a whole number from 0 up, not {count}")
        _check_pairs(self.pairs, self.backends, self.threads)
        _check_pythons(self.pythons)
        for option, names in (("--dataset", self.datasets), ("--codec", self.codecs)):
            if not names:
                raise OptionError(f"{option} is empty: give at least one value")
        for codec in self.codecs:
            resolve_level(codec, self.level)
        _check_processes(self.arms, max(self.threads))

    def rows_of(self, mode: Mode) -> tuple[int, ...]:
        """The row counts this mode is measured at."""
        if mode == "table" and self.table_rows is not None:
            return self.table_rows
        if self.rows is None:
            raise RuntimeError("the rows of the input are not counted yet")
        is_beside = mode in _AT_THE_MOST_ROWS and "batches" in self.modes
        return (max(self.rows),) if is_beside else self.rows

    @property
    def most_rows(self) -> int | None:
        """The largest input any cell needs; None for all that there is."""
        if self.rows is None:
            return None
        return max(rows for mode in self.modes for rows in self.rows_of(mode))

    def with_rows_of(self, available: int) -> Options:
        """These options with the number of rows of an input instead of "all rows".

        Raises:
            OptionError: `table_rows` asks for more.
        """
        counted = self if self.rows is not None else replace(self, rows=(available,))
        most = counted.most_rows
        if most is not None and most > available:
            raise OptionError(f"--table-rows {most:,}: the input has {available:,}; ask for fewer")
        return counted


def plan_cells(options: Options) -> list[Cell]:
    """All cells of a run, in a fixed order."""
    return [
        Cell(
            backend=backend,
            mode=mode,
            dataset=dataset,
            rows=rows,
            chunk_rows=chunk_rows,
            row_group_rows=row_group_rows,
            codec=codec,
            level=resolve_level(codec, options.level),
            memory_bytes=memory,
            limit_kind="none" if memory is None else options.limit_kind,
            threads=threads,
            arm=arm,
            python=python,
        )
        for dataset, codec, chunk_rows, row_group_rows, threads, arm, mode, memory in itertools.product(
            options.datasets,
            options.codecs,
            options.chunk_rows,
            options.row_group_rows,
            options.threads,
            options.arms,
            options.modes,
            options.memory,
        )
        if process_setting(arm).changes(threads)
        for rows in options.rows_of(mode)
        for backend in options.backends
        for python in options.pythons or ("",)
    ]


def largest_cells(cells: Sequence[Cell]) -> list[Cell]:
    """The cells with the most rows for each backend, Python, mode, dataset, codec and process setting.

    They are those of untimed passes, which have no memory limit.
    """
    largest = {
        (cell.backend, cell.python, cell.mode, cell.dataset, cell.codec, cell.arm): cell
        for cell in sorted((each.without_limit for each in cells), key=lambda cell: cell.rows)
    }
    return list(largest.values())


def base_of(backends: Iterable[str]) -> str | None:
    """The backend that others are compared with: the first of our own, else the first; None without any."""
    names = list(dict.fromkeys(backends))
    return next((name for name in names if library(name) == OWN_LIBRARY), names[0] if names else None)


def resolve_level(codec: str, level: int | None) -> int | None:
    """The level to ask every backend for; a codec with levels always gets one, so that all use the same.

    Raises:
        OptionError: The codec is unknown, or does not have this level.
    """
    if codec not in CODECS:
        raise OptionError(f"--codec {codec} is not known; choose from: {', '.join(CODECS)}")
    levels = CODECS[codec]
    if level is None:
        return _DEFAULT_LEVELS.get(codec)
    if levels is None:
        raise OptionError(f"--codec {codec} has no levels: leave --level out")
    if level not in levels:
        raise OptionError(f"--level {level}: {codec} takes {levels[0]} to {levels[-1]}")
    return level


def _check_backends(backends: Sequence[str]) -> None:
    known = backend_names()
    unknown = [name for name in backends if name not in known]
    if unknown:
        meant = [name for name in known if name.startswith(tuple(f"{each}-" for each in unknown))]
        hint = f": did you mean {' or '.join(meant)}?" if meant else ""
        raise OptionError(f"there is no backend {joined(unknown)}{hint}; choose from: {', '.join(known)}")
    if not backends:
        raise OptionError(f"no backend to measure; choose from: {', '.join(known)}")


def _check_times(budget_minutes: float, timeout: float) -> None:
    if not 0 < budget_minutes < math.inf:
        raise OptionError(f"--budget takes minutes above 0, not {budget_minutes:g}")
    if not 0 < timeout < math.inf:
        raise OptionError(f"--timeout takes seconds above 0, not {timeout:g}")


def _check_pairs(pairs: int, backends: Sequence[str], threads: Sequence[int]) -> None:
    if pairs and len(set(backends)) < _A_PAIR:
        raise OptionError("--pairs: it takes two to compare: name another --backend, or leave --pairs out")
    if pairs and 1 not in threads:
        raise OptionError("--pairs: both of a pair are on one core: add 1 to --cores, or leave it out")


def _check_pythons(pythons: Sequence[str]) -> None:
    if len(pythons) not in {0, _A_PAIR}:
        raise OptionError(
            f"--python: it takes two environments to compare, not {len(pythons)}: give old=PATH and new=PATH"
        )


def _check_processes(names: Sequence[str], threads: int) -> None:
    if not names:
        raise OptionError("--process-setting is empty: give at least one value")
    for name in names:
        if not process_setting(name).changes(threads):
            raise OptionError(
                f"--process-setting {name}: {threads} of --cores take no more time than that: ask for more "
                f"cores, or for a quota below {100 * threads}"
            )
