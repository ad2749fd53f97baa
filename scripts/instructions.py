"""Count the instructions that a row costs, by callgrind: a figure that a noisy machine does not change.

    python scripts/instructions.py record      # writes results/instructions.json
    python scripts/instructions.py compare     # fails where a row costs over 2 % more than there
    python scripts/instructions.py compare --dataset logs

``make instructions`` compares the wheel, and continuous integration calls it. Each dataset is written twice
under callgrind, with few and with many rows; the difference belongs to the rows alone. It is split by who
spent it, which needs symbols: ``CARGO_PROFILE_RELEASE_STRIP=none maturin develop --release``.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from rich.progress import track

from spillway import datasets
from spillway.harness.environment import cpu_model, native_build, refuse_debug_build

RESULTS = Path(__file__).resolve().parent.parent / "results" / "instructions.json"
DATASETS = ("logs", "lineitem", "logs-nested")
# A process takes up to three million instructions more than it needs, by what waits for a clock: the rows
# must outweigh that, and the leanest run of each counts.
FEW, MANY = 10_000, 160_000
RUNS = 3
MOST_GROWTH = 1.02
PARTS = {
    "parquet-encode": re.compile(r"parquet_encode"),
    "parquet-writer": re.compile(r"parquet_writer"),
    "zstd": re.compile(r":(ZSTD|HUF|FSE|HIST|XXH)"),
}
PROGRAM = """
import sys
import pyarrow as pa
import spillway
with pa.memory_map(sys.argv[1]) as file:
    rows = pa.ipc.open_file(file)
    with spillway.ParquetWriter(sys.argv[2], rows.schema) as writer:
        for index in range(rows.num_record_batches):
            writer.write(rows.get_batch(index))
"""


def counted(dataset: str, rows: int) -> Counter[str]:
    """Instructions of a process that writes the rows, by part."""
    prepared = datasets.prepare(dataset, seed=1, rows=rows)
    with tempfile.TemporaryDirectory(prefix="spillway-callgrind-") as folder:
        trace = Path(folder) / "callgrind.out"
        tool = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={trace}"]
        program = [sys.executable, "-c", PROGRAM, str(prepared.path), f"{folder}/file.parquet"]
        # The hashes of text decide the order of Python's sets of it, and so some instructions. Those of other
        # objects come from their addresses, which the leanest of several runs evens out.
        environment = {**os.environ, "PYTHONHASHSEED": "0", "ARROW_DEFAULT_MEMORY_POOL": "system"}
        subprocess.run([*tool, *program], check=True, capture_output=True, env=environment)
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
    """Instructions per row, in all and by part; a module without symbols has no parts."""
    with ThreadPoolExecutor(2) as threads:  # callgrind counts nearly the same, however busy the machine is
        runs = list(threads.map(partial(counted, dataset), (FEW, MANY) * RUNS))
    few, many = (min(runs[start::2], key=lambda run: run["all"]) for start in (0, 1))
    split = ("all", *PARTS, "else") if any(many[part] for part in PARTS) else ("all",)
    return {part: round((many[part] - few[part]) / (MANY - FEW), 1) for part in split}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=("record", "compare"))
    parser.add_argument("--dataset", action="append", choices=DATASETS)
    asked = parser.parse_args()
    if asked.action == "record" and asked.dataset:
        parser.error("record takes no --dataset: all figures on record are of one build and one machine")
    refuse_debug_build()
    before = json.loads(RESULTS.read_text())["instructions_per_row"] if RESULTS.exists() else {}
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
        sys.exit(f"a row costs more than 2 % more: {', '.join(worse)}" if worse else 0)
    record = {
        "rows": [FEW, MANY],
        "cpu_model": cpu_model(),
        "native_build": native_build(),
        "instructions_per_row": found,
    }
    RESULTS.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
