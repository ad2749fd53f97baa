"""Runs made of one real sample, with speeds, memory and files as a test wants them."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spillway.bench.record import SAMPLES, SCHEMA, VALIDATION, Measures
from spillway.bench.summary import RunSummary, read_run
from spillway.harness import records

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# What a sample that failed does not have.
_MEASURED = ("output", *Measures.__annotations__)
ROOT = Path(__file__).parents[2]


@cache
def _reference() -> tuple[dict[str, Any], dict[str, Any]]:
    """A sample of one table, and the environment, of the reference run."""
    folder = max((ROOT / "results" / "reference").iterdir())
    template = next(
        sample
        for sample in records.read_lines(folder / SAMPLES)
        if sample["cell"]["mode"] == "table" and sample["outcome"] == "ok"
    )
    template["curve"] = {"seconds": [], "rss_bytes": []}
    return template, records.read_json(folder / records.ENVIRONMENT)


@dataclass
class Writes:
    """The samples of one backend, block by block.

    Attributes:
        speeds: Rows per second; None for a sample that failed as `outcome` says.
        growth: Peak memory.
        cgroup: Peak of the memory of the control group, over what it was before.
        size: Bytes of the file.
        row_groups: Row groups of the file.
        content: The hash of the file.
        outcome: How the samples without a speed ended.
        error: What the library said of them.
        cell: Fields of the cell that are not those of the reference.
        curve: Resident bytes over time; none where nobody looked.
    """

    speeds: Sequence[float | None]
    growth: float = 50e6
    cgroup: float = 60e6
    size: int = 1_000_000
    row_groups: int = 1
    content: str | None = None
    outcome: str = "library_error"
    error: dict[str, str] | None = None
    cell: dict[str, Any] = field(default_factory=dict)
    curve: dict[str, Any] | None = None


def make_run(
    folder: Path, backends: Mapping[str, Writes | Sequence[Writes]], verdicts: Sequence[dict[str, Any]] = ()
) -> RunSummary:
    """Write a run's folder and read it."""
    folder.mkdir(parents=True)
    template, environment = copy.deepcopy(_reference())
    environment["options"]["backends"] = list(backends)
    environment["load_before"] = 0.0
    records.write_json(folder / records.ENVIRONMENT, environment)
    for backend, given in backends.items():
        for writes in [given] if isinstance(given, Writes) else given:
            for block, speed in enumerate(writes.speeds):
                record = _sample(template, backend, writes, block, speed)
                if block == 0:
                    SCHEMA.check(record)
                records.append(folder / SAMPLES, record)
    for verdict in verdicts:
        records.append(folder / VALIDATION, verdict)
    return read_run(folder)


def _sample(
    template: dict[str, Any], backend: str, writes: Writes, block: int, speed: float | None
) -> dict[str, Any]:
    record = copy.deepcopy(template)
    record["block"] = block
    record["cell"] |= {"backend": backend, **writes.cell}
    if speed is None:
        absent = (
            "throughput",
            "use",
            "memory",
            "fsync_seconds",
            "pools",
            "pyarrow_pool",
            "account",
        )
        record |= dict.fromkeys((*absent, "output", "affinity_cores", "backend_version"))
        return record | {"outcome": writes.outcome, "died_in": "write", "error": writes.error}
    if writes.curve is not None:
        record["curve"] = writes.curve
    record["throughput"]["rows_per_second"] = speed
    record["use"]["wall_seconds"] = record["cell"]["rows"] / speed
    record["memory"]["growth_bytes"] = int(writes.growth)
    group = record["group"]
    group["write_peak_bytes"] = group["peak_bytes"] = group["before_bytes"] + int(writes.cgroup)
    content = writes.content or json.dumps([backend, writes.cell]).encode().hex()[:64].ljust(64, "0")
    record["output"] |= {"bytes": writes.size, "row_groups": writes.row_groups, "content_hash": content}
    return record


def wrong(content: str, rows: int, engine: str = "pyarrow") -> dict[str, Any]:
    """The record of a reader that found a content wrong."""
    return {
        "schema_version": 1,
        "run_id": "made",
        "content_hash": content,
        "file": f"{content[:16]}.parquet",
        "rows": rows,
        "samples": 1,
        "engine": engine,
        "outcome": "wrong_output",
        "seconds": 0.1,
        "mismatch": {
            "kind": "schema",
            "column": "a",
            "row": None,
            "expected": "timestamp[ms]",
            "actual": "int64",
            "message": "column 'a' is int64",
        },
    }
