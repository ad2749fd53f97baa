"""Keep a run in ``results/``, in the place of the one that is there; ``make readme`` then quotes it.

    python scripts/keep.py runs/20261123T025403Z-ef4a limits

Records are compressed. The reference run keeps its pictures; of others docs show the figures alone.
"""

from __future__ import annotations

import argparse
import gzip
import shutil
from pathlib import Path

from spillway.harness.plots import FOLDER
from spillway.harness.records import COMPRESSED, ENVIRONMENT
from spillway.harness.report import REPORT

RESULTS = Path(__file__).resolve().parent.parent / "results"
WHOLE = "reference"
KINDS = (WHOLE, "limits", "crossover", "allocator")


def keep(run: Path, kind: str, results: Path = RESULTS) -> Path:
    """Copy a run into the folder of its kind, and remove all others from there; the new folder."""
    folder = results / kind / run.name
    earlier = [each for each in folder.parent.glob("*") if each != folder]
    folder.mkdir(parents=True, exist_ok=True)
    for name in (ENVIRONMENT, REPORT):
        shutil.copy(run / name, folder)
    for lines in sorted(run.glob("*.jsonl")):
        packed = gzip.compress(lines.read_bytes(), mtime=0)
        (folder / f"{lines.name}{COMPRESSED}").write_bytes(packed)
    if kind == WHOLE:
        shutil.copytree(run / FOLDER, folder / FOLDER, dirs_exist_ok=True)
    for each in earlier:
        shutil.rmtree(each)
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path, help="the folder of a run that is over")
    parser.add_argument("kind", choices=KINDS)
    asked = parser.parse_args()
    print(keep(asked.run.resolve(), asked.kind))


if __name__ == "__main__":
    main()
