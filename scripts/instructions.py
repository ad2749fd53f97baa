"""Count the instructions that a row costs, by callgrind: a figure that a noisy machine does not change.

    python scripts/instructions.py record      # writes results/instructions.json
    python scripts/instructions.py compare     # fails where a row costs over 1 % more than there
    python scripts/instructions.py compare --dataset logs

``make instructions`` builds the program that is counted, the example ``write_ipc`` of the writer's crate, and
compares; continuous integration calls it. Each dataset is written twice under callgrind, with few and with
many rows; the difference belongs to the rows alone. It is split by who spent it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from rich.progress import track

from spillway import datasets
from spillway.harness.environment import cpu_model

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results" / "instructions.json"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
PROGRAM = TARGET / "debug" / "examples" / "write_ipc"
DATASETS = ("logs", "lineitem", "logs-nested")
FEW, MANY = 10_000, 60_000
# A build with debug assertions dilutes what a release would feel: 3 % of its instructions are 1.7 % of these.
MOST_GROWTH = 1.01
PARTS = {
    "parquet-encode": re.compile(r"parquet_encode"),
    "parquet-writer": re.compile(r"parquet_writer"),
    "zstd": re.compile(r":(ZSTD|HUF|FSE|HIST|XXH)"),
}


def counted(dataset: str, rows: int) -> Counter[str]:
    """Instructions of a process that writes the rows, by part."""
    prepared = datasets.prepare(dataset, seed=1, rows=rows)
    with tempfile.TemporaryDirectory(prefix="spillway-callgrind-") as folder:
        trace = Path(folder) / "callgrind.out"
        tool = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={trace}"]
        program = [PROGRAM, prepared.path, f"{folder}/file.parquet"]
        subprocess.run([*tool, *program], check=True, capture_output=True)
        annotate = ["callgrind_annotate", "--auto=no", "--threshold=100", "--show-percs=no", str(trace)]
        lines = subprocess.run(annotate, check=True, capture_output=True, text=True).stdout.splitlines()
    counts: Counter[str] = Counter()
    for line in lines:
        match = re.match(r"\s*([\d,]+)\s+(\S.*)", line)
        if match and "PROGRAM TOTALS" in match[2]:
            counts["all"] = int(match[1].replace(",", ""))
        elif match:
            counts[part_of(match[2])] += int(match[1].replace(",", ""))
    return counts


def part_of(function: str) -> str:
    return next((part for part, name in PARTS.items() if name.search(function)), "else")


def per_row(dataset: str) -> dict[str, float]:
    """Instructions per row, in all and by part."""
    with ThreadPoolExecutor(2) as threads:  # callgrind counts the same, however busy the machine is
        few, many = threads.map(partial(counted, dataset), (FEW, MANY))
    return {part: round((many[part] - few[part]) / (MANY - FEW), 1) for part in ("all", *PARTS, "else")}


def machine() -> dict[str, str]:
    """The processor and the toolchain, by which counts differ too."""
    toolchain = tomllib.loads((ROOT / "rust-toolchain.toml").read_text())["toolchain"]
    return {"cpu_model": cpu_model(), "rust": toolchain["channel"]}


def differences(recorded: dict[str, Any], here: dict[str, str]) -> list[str]:
    """A line for each value that differs from the record's."""
    return [
        f"{name}: {value} here, {recorded[name]} on record: counts may differ by it alone"
        for name, value in here.items()
        if recorded.get(name, value) != value
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=("record", "compare"))
    parser.add_argument("--dataset", action="append", choices=DATASETS)
    asked = parser.parse_args()
    if asked.action == "record" and asked.dataset:
        parser.error("record takes no --dataset: all figures on record are of one build and one machine")
    if not PROGRAM.exists():
        sys.exit(f"{PROGRAM} is not built: run make instructions")
    recorded = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    before = recorded.get("instructions_per_row", {})
    here = machine()
    for line in differences(recorded, here):
        print(line)
    names = asked.dataset or DATASETS
    if asked.action == "compare" and (absent := set(names) - set(before)):
        sys.exit(f"{RESULTS.name} has no record of {', '.join(sorted(absent))}: run record first")
    found = {name: per_row(name) for name in track(names, description="counting instructions")}
    worse = []
    for name, parts in found.items():
        old = before.get(name, {}).get("all")
        change = "" if old is None else f" ({parts['all'] / old - 1:+.2%} against {old:,})"
        print(f"{name}: {parts['all']:,} instructions per row{change}; {parts}")
        if old is not None and parts["all"] > MOST_GROWTH * old:
            worse.append(name)
    if asked.action == "compare":
        sys.exit(f"a row costs more than 1 % more: {', '.join(worse)}" if worse else 0)
    record = {
        "rows": [FEW, MANY],
        **here,
        "instructions_per_row": found,
    }
    RESULTS.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
