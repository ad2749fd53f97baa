"""Ask the bench for differences that are known: none between equal backends, and slow-downs that are planted.

    python scripts/study.py runs/study                          # 40 pairs, 12 samples: a quarter of an hour
    python scripts/study.py runs/study --pairs 4 --samples 6    # fewer of both

Each pair is a run of ``spillway bench`` with a seed of its own; the first quarter of them have the slowed
backends too. A run that is there is not made again.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import study_backends
from spillway.bench.ranking import ratio
from spillway.bench.summary import read_run, speed
from spillway.bench.tables import ratio_text
from spillway.harness.rank_tests import ALPHA, holm
from spillway.harness.report.markdown import REPORT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spillway.bench.summary import RunSummary
    from spillway.harness.statistics import Ratio

PLANTED = {"slower-2": 0.02, "slower-5": 0.05}
_SHARED = (
    *("--mode", "table", "--memory", "none", "--validate", "none", "--probes", "0", "--no-trace"),
    *("--dataset", "logs"),
)


@dataclass(frozen=True)
class Answer:
    """The bench's answers to one question, a ratio for each time that it was asked.

    Attributes:
        backend: The backend that `spillway` was compared with.
        planted: The share by which it was slower; 0 for an equal one.
        ratios: The speed of `spillway` over its.
    """

    backend: str
    planted: float
    ratios: Sequence[Ratio]

    @property
    def called(self) -> int:
        """The times that the interval leaves 1 out."""
        return sum(not each.low <= 1 <= each.high for each in self.ratios)

    @property
    def called_of_all(self) -> int:
        """The same by p, corrected for the number of times."""
        return sum(p < ALPHA for p in holm([each.p for each in self.ratios]))

    @property
    def covered(self) -> int:
        """The times that the interval covers what was planted."""
        return sum(each.low <= 1 + self.planted <= each.high for each in self.ratios)

    def __str__(self) -> str:
        """Say it in one line."""
        middle = sorted(self.ratios, key=lambda each: each.median)[len(self.ratios) // 2]
        what = f"{self.planted:.0%} slower" if self.planted else "equal"
        n = len(self.ratios)
        called = f"{self.called} of {n} called by the interval, {self.called_of_all} after Holm"
        covered = f"the interval covers the truth in {self.covered} of {n}"
        return f"{self.backend} ({what}): {called}; {covered}; the middle one is {ratio_text(middle)}"


def answers(runs: Sequence[RunSummary]) -> list[Answer]:
    """The answers of all runs, question by question."""
    asked = {"again": 0.0, **PLANTED}
    found: dict[str, list[Ratio]] = {name: [] for name in asked}
    for run in runs:
        cells = {each.cell.backend: each for each in run.cells}
        for name, ratios in found.items():
            if name in cells and (over := ratio(cells["spillway"], cells[name], speed)) is not None:
                ratios.append(over)
    return [Answer(name, asked[name], ratios) for name, ratios in found.items() if ratios]


def measure(out: Path, pair: int, *, backends: Sequence[str], rows: int, samples: int) -> RunSummary:
    """The run of one pair, made if it is not there."""
    folder = out / f"pair-{pair:02}"
    if not list(folder.glob(f"*/{REPORT}")):
        program = [sys.executable, "-c", "from spillway.cli import main; main()", "bench", *_SHARED]
        asked = ["--backend", ",".join(backends), "--rows", str(rows), "--samples", str(samples)]
        with registered() as site:
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join([site, *_python_path()])}
            subprocess.run(
                [*program, *asked, "--seed", str(pair + 1), "--out", str(folder)],
                env=environment,
                stdout=subprocess.DEVNULL,
                check=True,
            )
    return read_run(next(folder.glob(f"*/{REPORT}")).parent)


@contextmanager
def registered() -> Iterator[str]:
    """A folder with a distribution of the study's backends, for ``PYTHONPATH``."""
    with tempfile.TemporaryDirectory(prefix="spillway-study-") as site:
        info = Path(site) / "spillway_study-1.0.dist-info"
        info.mkdir()
        shutil.copy(study_backends.__file__, site)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: spillway-study\nVersion: 1.0\n")
        lines = [f"{each.name} = study_backends:{each.__name__}" for each in study_backends.ALL]
        (info / "entry_points.txt").write_text("[spillway.backends]\n" + "\n".join(lines) + "\n")
        yield site


def _python_path() -> list[str]:
    return [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]


def study(out: Path, *, pairs: int, samples: int, rows: int) -> list[Answer]:
    """Make the runs that are not there, and give the answers of all."""
    runs = []
    for pair in range(pairs):
        planted = tuple(PLANTED) if pair < max(1, pairs // 4) else ()
        backends = ("spillway", "again", *planted)
        runs.append(measure(out, pair, backends=backends, rows=rows, samples=samples))
        print(f"pair {pair + 1} of {pairs} done", file=sys.stderr, flush=True)
    return answers(runs)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, help="folder of the runs, on a disk")
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--samples", type=int, default=12)
    parser.add_argument("--rows", type=int, default=100_000)
    asked = parser.parse_args()
    for answer in study(asked.out, pairs=asked.pairs, samples=asked.samples, rows=asked.rows):
        print(answer)


if __name__ == "__main__":
    main()
