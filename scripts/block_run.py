"""A run of samples in blocks: its folder, its place in ``results/``, and why it is not quoted.

``merge_speed.py`` and ``scan_speed.py`` measure such runs. The order of the samples in a block is drawn by a
seed, and the first block is not kept.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from rich.progress import Progress

from spillway._wording import counted
from spillway.bench.quoting import FEWEST_TO_QUOTE
from spillway.harness.environment import describe_run, refuse_debug_build
from spillway.harness.host import noise_warnings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spillway.harness.host import HostReading

_RESULTS = Path(__file__).resolve().parent.parent / "results"
_ENVIRONMENT = "environment.json"


@dataclass(frozen=True)
class Options:
    """The options of a run."""

    rows: int
    blocks: int
    seed: int


class Sampled(Protocol):
    """A sample, which is a dataclass too."""

    @property
    def block(self) -> int:
        """The number of its block."""

    @property
    def host(self) -> HostReading:
        """The readings of the host."""


S = TypeVar("S", bound=Sampled)
F = TypeVar("F")


@dataclass(frozen=True)
class BlockRun(Generic[S]):
    """Runs of one kind.

    Attributes:
        name: The folder of ``results/`` that keeps them.
        sample: The class of their samples.
        schema_version: The version of their records.
    """

    name: str
    sample: type[S]
    schema_version: int

    @property
    def results(self) -> Path:
        """The folder of the runs on record."""
        return _RESULTS / self.name

    def begin(self, folder: Path, options: Options) -> None:
        """Make the folder of a run.

        Raises:
            FileExistsError: There is one already.
        """
        refuse_debug_build()
        folder.mkdir(parents=True)
        run_id = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        environment = describe_run(run_id, options, schema_version=self.schema_version)
        (folder / _ENVIRONMENT).write_text(json.dumps(environment, indent=1) + "\n")

    def take(self, folder: Path, options: Options, forms: Sequence[F], taken: Callable[[F, int], S]) -> None:
        """Take a sample of each form in each block; `taken` gets the form and the number of the block."""
        draw = random.Random(options.seed)  # noqa: S311 - an order, not a secret
        with Progress() as progress, self._samples(folder).open("w") as out:
            task = progress.add_task(self.name, total=len(forms) * (options.blocks + 1))
            for block in range(options.blocks + 1):
                for form in draw.sample(forms, len(forms)):
                    sample = taken(form, block)
                    if block > 0:
                        out.write(json.dumps(asdict(sample)) + "\n")  # type: ignore[call-overload]
                        out.flush()
                    progress.advance(task)

    def keep(self, folder: Path) -> None:
        """Copy a run to those on record."""
        shutil.copytree(folder, self.results / self.environment_of(folder)["run_id"])

    def environment_of(self, folder: Path) -> dict[str, Any]:
        """The machine and the options of a run."""
        found: dict[str, Any] = json.loads((folder / _ENVIRONMENT).read_text())
        return found

    def read(self, folder: Path) -> list[S]:
        """The samples of a run."""
        return [self.sample(**json.loads(line)) for line in self._samples(folder).read_text().splitlines()]

    def why_not_quoted(self, folder: Path) -> list[str]:
        """The reasons why a run is not to be quoted: too few samples, or a host that was busy."""
        samples, environment = self.read(folder), self.environment_of(folder)
        blocks = len({sample.block for sample in samples})
        few = blocks < FEWEST_TO_QUOTE
        lacking = [f"{counted(blocks, 'block')}, not {FEWEST_TO_QUOTE}"] if few else []
        hosts = [sample.host for sample in samples]
        seconds = sum(host.get("wall_seconds", 0.0) for host in hosts)
        noise = partial(noise_warnings, cores=environment["cores"])
        return lacking + noise(environment["load_before"], hosts, seconds)

    def main(self, about: str, measure: Callable[[Path, Options], None], table: Callable[[Path], str]) -> int:
        """Run the command of a program: ``measure`` and ``table``."""
        parser = argparse.ArgumentParser(
            description=about, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        commands = parser.add_subparsers(dest="command", required=True)
        measuring = commands.add_parser("measure", help="take the samples")
        measuring.add_argument("folder", type=Path, help="a new folder")
        measuring.add_argument("--rows", type=int, default=1_000_000)
        measuring.add_argument("--blocks", type=int, default=12)
        measuring.add_argument("--seed", type=int, default=1)
        measuring.add_argument("--record", action="store_true", help=f"keep the run in results/{self.name}/")
        showing = commands.add_parser("table", help="print what a run found")
        showing.add_argument("folder", type=Path)
        given = parser.parse_args()
        if given.command == "measure":
            if given.folder.exists():
                parser.error(f"{given.folder} is there already: name a new folder")
            measure(given.folder, Options(given.rows, given.blocks, given.seed))
            if given.record:
                self.keep(given.folder)
        sys.stdout.write(table(given.folder))
        return 0

    def newest(self) -> Path | None:
        """The newest run on record."""
        return max((path.parent for path in self.results.glob(f"*/{_ENVIRONMENT}")), default=None)

    def _samples(self, folder: Path) -> Path:
        return folder / f"{self.name}s.jsonl"
