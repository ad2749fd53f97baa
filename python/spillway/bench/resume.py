"""Runs that ended early: the command that began one, and the samples that it lacks.

The order of samples follows from cells and seed, so that a run knows which are left. What was measured on
another machine, with other libraries or of other rows is not continued: its blocks would not be pairs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from spillway._wording import and_joined
from spillway.bench.plan import Cell, Options
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
from spillway.errors import OptionError
from spillway.harness import records
from spillway.harness.environment import is_disturbed, read_load

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from spillway.harness.schedule import Slot

# The options that are written where they differ from these; the others always.
_USUAL: dict[str, Any] = {
    "--table-rows": None,
    "--chunk-rows": [10_000],
    "--row-group-rows": [1_048_576],
    "--process-setting": ["default"],
    "--python": [],
    "--least-memory": 0,
    "--level": None,
    "--seed": 1,
    "--timeout": 300.0,
    "--probes": 1,
    "--pairs": 0,
    "--precision": "2%",
    "--budget": 10.0,
}


def command_of(environment: dict[str, Any]) -> str:
    """The command line that measures the same; for the user's own files it says FILE."""
    options = environment["options"]
    own = "file" in options["datasets"]
    limits = [_amount(limit) for limit in options["memory"]]
    given = {
        **({"--on": "spark://HOST:PORT"} if "hosts" in environment else {}),
        "--backend": options["backends"],
        **({"--input": "FILE"} if own else {"--dataset": options["datasets"]}),
        "--rows": options["rows"],
        "--table-rows": options["table_rows"],
        "--mode": options["modes"],
        "--chunk-rows": list(options["chunk_rows"]),
        "--row-group-rows": list(options["row_group_rows"]),
        "--process-setting": options.get("arms", ["default"]),
        "--python": [f"{name}=PATH" for name in options.get("pythons", ())],
        "--codec": options["codecs"],
        "--level": options["level"],
        "--memory": limits,
        **({} if limits == ["none"] else {"--limit-kind": options["limit_kind"]}),
        "--cores": options["threads"],
        "--samples": "auto" if options.get("precision") else options["samples"],
        "--precision": f"{100 * (options.get('precision') or 0.02):g}%",
        "--budget": options.get("budget_minutes", 10.0),
        "--seed": options["seed"],
        "--timeout": options["timeout"],
        "--probes": options.get("probes", 1),  # runs of version 1 had none beside their samples
        "--pairs": options.get("pairs", 0),
        "--least-memory": options.get("least_memory", 0),
    }
    words = [
        f"{name} {_written(each)}"
        for name, value in given.items()
        if name not in _USUAL or value != _USUAL[name]
        # An option that is repeated, and no list.
        for each in (value if name == "--python" else [value])
    ]
    return " ".join(["spillway bench", *words, *_afterwards(environment["afterwards"])])


def _afterwards(asked: dict[str, Any]) -> list[str]:
    """The options of what follows the samples."""
    return [
        f"--validate {','.join(asked['engines']) or 'none'}",
        *([] if asked["trace"] else ["--no-trace"]),
        *(["--keep-output"] if asked["keep_output"] else []),
    ]


def _amount(size: int | None) -> str:
    return "none" if size is None else f"{size // 10**6}MB" if size % 10**6 == 0 else str(size)


def _written(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


# What has to be as it was, by its name in environment.json and in words.
_UNCHANGED = {
    "cpu_model": "the processor",
    "usable_cores": "the cores that may be used",
    "memory_bytes": "the memory of the machine",
    "kernel": "the kernel",
    "transparent_huge_pages": "transparent huge pages",
    "malloc": "the settings of the allocator",
    "python": "Python",
    "libraries": "the libraries",
    "pythons": "the environments of --python",
    "native_build": "the build of spillway",
    "benchmark": "the code that measures",
    "absent_backends": "the backends that can run here",
}
# Of an input. Its fingerprint also tells where the user's files lie and when they were written.
_OF_INPUT = ("dataset", "chunk_rows", "rows", "columns", "arrow_bytes", "first_batch", "all_rows")


@dataclass(frozen=True)
class BegunRun:
    """A run's folder that more samples will be taken into.

    Attributes:
        folder: The folder.
        environment: Its ``environment.json``.
        taken: The samples that it has.
        retakes: True to repeat the samples during which other processes ran.
    """

    folder: Path
    environment: dict[str, Any]
    taken: Sequence[dict[str, Any]]
    retakes: bool = False

    @property
    def options(self) -> Options:
        """The options that it was begun with."""
        found = {name: _hashable(value) for name, value in self.environment["options"].items()}
        several = {name: tuple(found[name]) for name in ("chunk_rows", "row_group_rows")}
        return Options(**found | several)

    @property
    def engines(self) -> tuple[str, ...]:
        """The readers that validate its output."""
        return tuple(self._afterwards["engines"])

    @property
    def trace(self) -> bool:
        """True if allocations are traced."""
        return bool(self._afterwards["trace"])

    @property
    def keep_output(self) -> bool:
        """True if the written files are kept."""
        return bool(self._afterwards["keep_output"])

    @property
    def contents(self) -> list[str]:
        """The hashes of the files that its samples wrote."""
        return [each["output"]["content_hash"] for each in self.taken if each["outcome"] == "ok"]

    def continued(self, now: dict[str, Any]) -> dict[str, Any]:
        """Its environment with one more continuation, in which it is as `now` describes it.

        Raises:
            OptionError: Something has changed that figures depend on.
        """
        changed = [words for name, words in _UNCHANGED.items() if self.environment.get(name) != now.get(name)]
        if [_rows_of(each) for each in self.environment["inputs"]] != [_rows_of(i) for i in now["inputs"]]:
            changed.append("the rows of the input")
        if changed:
            raise OptionError(
                f"--resume {self.folder.name}: not as when the run began: {and_joined(changed)}. Its samples "
                f"would not compare: measure again, or run `spillway report` on the existing samples"
            )
        again = {"at": datetime.now(UTC).isoformat(timespec="seconds"), "load_before": read_load()}
        return {**self.environment, "resumed": [*self.environment.get("resumed", []), again]}

    def without_disturbed(self) -> BegunRun:
        """The run without the blocks that are to be taken again, which go to ``disturbed.jsonl``.

        Only the host's readings decide, not the result of a sample. All of a block is taken again, since its
        samples are compared with each other.
        """
        if not self.retakes:
            return self
        cores = self.environment["cores"]
        blocks = {each["block"] for each in self.taken if is_disturbed(each["host"], cores)}
        disturbed = [each for each in self.taken if each["block"] in blocks]
        for each in disturbed:
            records.append(self.folder / DISTURBED, each)
        kept = [each for each in self.taken if each not in disturbed]
        records.replace_lines(self.folder / SAMPLES, kept)
        return replace(self, taken=kept)

    @property
    def _afterwards(self) -> dict[str, Any]:
        found: dict[str, Any] = self.environment["afterwards"]
        return found


def read_begun(folder: Path) -> BegunRun:
    """Read a run to continue. Lines that were cut short are cut off.

    Raises:
        OptionError: The folder is not a run's, or an older version of the bench began it, or a cluster took
            its samples.
        SpillwayError: A later version began it.
        CorruptFileError: A line is damaged.
    """
    place = folder / records.ENVIRONMENT
    if not place.exists():
        raise OptionError(f"--resume {folder}: no run of the bench: give its folder, with {place.name} in it")
    if records.is_stored(folder / SAMPLES) and not (folder / SAMPLES).exists():
        raise OptionError(
            f"--resume {folder.name}: its records are compressed, so that none can be appended: gunzip them"
        )
    environment = records.read_environment(folder, SCHEMA_VERSION)
    if environment["schema_version"] < SCHEMA_VERSION:
        raise OptionError(
            f"--resume {folder.name}: an older version of the bench began it, and its records differ: "
            "measure again, or run `spillway report` on the existing samples"
        )
    if "hosts" in environment:
        raise OptionError(
            f"--resume {folder.name}: executors of a cluster took its samples, and a run continues on the "
            f"machine that began it: measure again, or run `spillway report` on the existing samples"
        )
    for name in (SAMPLES, DISTURBED, VALIDATION, ALLOCATIONS, PROBES, PAIRS, LEAST_MEMORY):
        records.drop_torn_line(folder / name)
    return BegunRun(folder, environment, records.read_lines(folder / SAMPLES))


def slots_left(slots: Iterable[Slot[Cell]], taken: Iterable[dict[str, Any]]) -> list[Slot[Cell]]:
    """The slots of a schedule that have no sample yet.

    Raises:
        OptionError: The samples are of another schedule.
    """
    done = {(each["block"], each["position"]): Cell(**each["cell"]) for each in taken}
    left = []
    for slot in slots:
        cell = done.get((slot.block, slot.position))
        if cell is None:
            left.append(slot)
        elif cell != slot.cell:
            raise OptionError(
                "--resume: this version of the bench would take its samples in another order, so that "
                "blocks would not be whole: measure again, or run `spillway report` on the existing samples"
            )
    return left


def _rows_of(described: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(described.get(name) for name in _OF_INPUT)


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
