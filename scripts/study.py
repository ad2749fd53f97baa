"""Ask the bench for differences that are known: none between equal backends, and slow-downs that are planted.

    python scripts/study.py runs/study                          # 40 pairs, 12 samples: a quarter of an hour
    python scripts/study.py runs/study --rows 400000            # longer writes, which vary less: half an hour
    python scripts/study.py runs/study --pairs 4 --samples 6    # fewer of both
    python scripts/study.py runs/study --rows 400000 --record   # and the answers into results/study/
    python scripts/study.py runs/beside --rows 400000 --beside  # by writes on one core at once

Each pair is a run of ``spillway bench`` with a seed of its own; the first quarter of them have the slowed
backends too. A run that is there is not made again. Ends with 1 where the answers miss what is asked.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import study_backends
from spillway.bench.ratio_tables import pair_ratios
from spillway.bench.summary import read_run, speed
from spillway.bench.tables import ratio, ratio_text
from spillway.harness.report import REPORT
from spillway.harness.statistics import ALPHA, Ratio, holm

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from spillway.bench.summary import RunSummary

_RESULTS = Path(__file__).resolve().parent.parent / "results" / "study"
_DIGITS = 6  # of a ratio on record
_MOST_CALLED, _OF_PAIRS = 3, 40
_FOUND, _COVERED = {0.02: 0.8, 0.05: 1.0}, 0.9
PLANTED = {"slower-2": 0.02, "slower-5": 0.05}
_SHARED = (
    *("--mode", "table", "--memory", "none", "--validate", "none", "--probes", "0", "--no-trace"),
    *("--dataset", "logs"),
)
_BESIDE = "-beside"


@dataclass(frozen=True)
class Answer:
    """The bench's answers to one question, a ratio for each time that it was asked.

    Attributes:
        backend: The backend that the base was compared with.
        planted: The share by which it was slower; 0 for an equal one.
        ratios: The speed of the base over its.
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


def answers(found: Sequence[Mapping[str, Ratio]]) -> list[Answer]:
    """The answers of runs, question by question."""
    asked = {"again": 0.0, **PLANTED}
    by_name = {name: [each[name] for each in found if name in each] for name in asked}
    return [Answer(name, asked[name], ratios) for name, ratios in by_name.items() if ratios]


def ratios_of(run: RunSummary) -> dict[str, Ratio]:
    """The speed of the base over that of each other backend of a run, by their pairs if it has any."""
    if run.pairs:
        return pair_ratios(run, run.settings[0])
    own, *others = sorted(run.cells, key=lambda each: each.cell.backend != study_backends.BASE)
    found = {each.cell.backend: ratio(own, each, speed) for each in others}
    return {name: each for name, each in found.items() if each is not None}


def misses(found: Sequence[Answer]) -> list[str]:
    """The demands on the bench that these answers miss, in words; none where all are met.

    Of 40 pairs of equal backends at most 3 are told apart. A slow-down of 2 % is found 8 times in 10 and one
    of 5 % each time, where 9 intervals in 10 cover it: each covers what it should in 95 of 100 runs.
    """
    missed = []
    for each in found:
        n = len(each.ratios)
        if not each.planted:
            if each.called > _MOST_CALLED * max(n, _OF_PAIRS) // _OF_PAIRS:
                missed.append(f"{each.called} of {n} equal pairs are called")
            continue
        if each.called < _FOUND[each.planted] * n:
            missed.append(f"{each.planted:.0%} are found in {each.called} of {n}")
        if each.called == n and each.covered < _COVERED * n:
            missed.append(f"the intervals cover {each.planted:.0%} in {each.covered} of {n}")
    return missed


def record(runs: Sequence[RunSummary], rows: int) -> dict[str, Any]:
    """A study to be kept: of each run its ratios and what disturbed it, and what all were measured on."""
    (first, *_) = runs
    of_all = ("cpu_model", "kernel", "git", "native_build", "libraries")
    return {
        "rows": rows,
        "beside": bool(first.pairs),
        **{name: first.environment[name] for name in of_all},
        "runs": [
            {
                "run_id": run.run_id,
                "seed": run.environment["options"]["seed"],
                "noise": run.noise(),
                "ratios": {name: _rounded(each) for name, each in ratios_of(run).items()},
            }
            for run in runs
        ],
    }


def answers_of(study: Mapping[str, Any]) -> list[Answer]:
    """The answers of a study on record."""
    return answers([{name: Ratio(**each) for name, each in run["ratios"].items()} for run in study["runs"]])


def _rounded(found: Ratio) -> dict[str, float]:
    return {name: round(value, _DIGITS) for name, value in asdict(found).items()}


def measure(out: Path, pair: int, *, backends: Sequence[str], rows: int, writes: Sequence[str]) -> RunSummary:
    """The run of one pair, made if it is not there; `writes` are the options that say how many to take."""
    folder = out / f"pair-{pair:02}"
    if not list(folder.glob(f"*/{REPORT}")):
        program = [sys.executable, "-c", "from spillway.cli import main; main()", "bench", *_SHARED]
        asked = ["--backend", ",".join(backends), "--rows", str(rows), *writes]
        with registered() as site:
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join([site, *_python_path()])}
            subprocess.run(
                [*program, *asked, "--seed", str(pair + 1), "--out", str(folder)],
                env=environment,
                stdout=subprocess.DEVNULL,
                check=True,
            )
    run = read_run(next(folder.glob(f"*/{REPORT}")).parent)
    if bool(run.pairs) != ("--pairs" in writes):
        sys.exit(f"{folder} has writes of the other kind: give another folder")
    return run


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


def study(out: Path, *, pairs: int, samples: int, rows: int, beside: bool = False) -> list[RunSummary]:
    """The runs of all pairs; those that are not there are made.

    Args:
        out: The folder of the runs.
        pairs: Runs, each with a seed of its own.
        samples: Writes of each backend.
        rows: Rows of a write.
        beside: Take them on one core beside those of the base, and not one after the other.
    """
    runs = []
    writes = ["--samples", "1", "--pairs", str(samples)] if beside else ["--samples", str(samples)]
    for pair in range(pairs):
        planted = tuple(PLANTED) if pair < max(1, pairs // 4) else ()
        backends = (study_backends.BASE, "again", *planted)
        runs.append(measure(out, pair, backends=backends, rows=rows, writes=writes))
        print(f"pair {pair + 1} of {pairs} done", file=sys.stderr, flush=True)
    return runs


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, help="folder of the runs, on a disk")
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--samples", type=int, default=12)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--beside", action="store_true", help="by writes on one core at once")
    parser.add_argument("--record", action="store_true", help="keep the answers in results/study/")
    asked = parser.parse_args()
    runs = study(asked.out, pairs=asked.pairs, samples=asked.samples, rows=asked.rows, beside=asked.beside)
    found = answers([ratios_of(run) for run in runs])
    for answer in found:
        print(answer)
    if asked.record:
        _RESULTS.mkdir(parents=True, exist_ok=True)
        kept = json.dumps(record(runs, asked.rows), indent=1)
        name = f"{asked.rows}{_BESIDE if asked.beside else ''}.json"
        (_RESULTS / name).write_text(f"{kept}\n")
    if missed := misses(found):
        sys.exit(f"not as asked: {'; '.join(missed)}")


if __name__ == "__main__":
    main()
