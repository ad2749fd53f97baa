"""Run pipelines of several sizes by turns, and compare time per row and the driver's memory.

    .venv/bin/python scripts/pipeline.py runs/pipeline-targets --rows 1M,10M --samples 3

A figure needs a release build of the native module. Each pipeline is a process of its own, and what it
wrote is removed after it. Exits with 1 where a row of the largest costs over 10 % more than one of the
smallest, or the driver's Python grew by over 10 %.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from spillway.harness.report import Entry, Table, markdown_table
from spillway.spark.pipeline.report import read_record
from spillway.spark.pipeline.rows import parse_rows

_TOLERANCE = 1.10
_STAGES = ("write", "audit", "summarise")


def main() -> int:
    options = _options()
    sizes = [parse_rows(each) for each in options.rows.split(",")]
    found: dict[int, list[dict[str, Any]]] = {rows: [] for rows in sizes}
    for _ in range(options.samples):
        for rows in sizes:
            found[rows].append(_run(options.out, rows, options.master, options.table))
    print(markdown_table(_table(found)))
    return _judge(found)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compare pipelines of several sizes.")
    parser.add_argument("out", type=Path, help="folder for runs and tables, on a disk")
    parser.add_argument("--rows", default="1M,10M")
    parser.add_argument("--master", default="local[*]")
    parser.add_argument("--table", default="parquet", choices=("parquet", "delta"))
    parser.add_argument("--samples", type=int, default=1)
    return parser.parse_args()


def _run(out: Path, rows: int, master: str, table: str) -> dict[str, Any]:
    written, runs = out / "written", out / str(rows)
    shutil.rmtree(written, ignore_errors=True)
    known = set(runs.glob("*"))
    tool = Path(sys.executable).with_name("spillway")
    command = [tool, "pipeline", "--rows", str(rows), "--master", master, "--table", table]
    try:
        subprocess.run([*command, "--to", written, "--out", runs], check=True)
    finally:
        shutil.rmtree(written, ignore_errors=True)
    (folder,) = set(runs.glob("*")) - known
    return read_record(folder)


def _table(found: dict[int, list[dict[str, Any]]]) -> Table:
    header = ("rows", *(f"{stage}, us a row" for stage in _STAGES), "write, rows/s", "Python MB", "heap MB")
    lines = []
    for rows, records in found.items():
        figures = [
            f"{rows:,}",
            *(f"{_per_row(records, rows, stage):.2f}" for stage in _STAGES),
            f"{statistics.median(each['throughput']['rows_per_second'] for each in records):,.0f}",
            f"{_driver(records, 'python_peak_bytes') / 1e6:,.0f}",
            f"{_driver(records, 'jvm_live_bytes') / 1e6:,.0f}",
        ]
        lines.append([Entry(each) for each in figures])
    return Table("Pipelines", header, lines, [])


def _per_row(records: list[dict[str, Any]], rows: int, stage: str) -> float:
    """The median of the microseconds that a row takes in a stage."""
    seconds = [
        phase["seconds"] for record in records for phase in record["phases"] if phase["phase"] == stage
    ]
    return statistics.median(seconds) / rows * 1e6


def _driver(records: list[dict[str, Any]], measure: str) -> float:
    return statistics.median(record["driver"][measure] for record in records)


def _judge(found: dict[int, list[dict[str, Any]]]) -> int:
    few, many = min(found), max(found)
    ratios = {
        f"time per row of the stage {stage}": _per_row(found[many], many, stage)
        / _per_row(found[few], few, stage)
        for stage in _STAGES
    }
    ratios["peak of the driver's Python"] = _driver(found[many], "python_peak_bytes") / _driver(
        found[few], "python_peak_bytes"
    )
    missed = False
    for name, ratio in ratios.items():
        met = ratio <= _TOLERANCE
        missed |= not met
        print(f"{name}: {ratio:.2f} times that of {few:,} rows{'' if met else ', over 1.10'}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
