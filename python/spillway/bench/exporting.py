"""A run in the forms of other tools: entries of github-action-benchmark, and CSV."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

from spillway._wording import counted
from spillway.backends import library
from spillway.bench.plan import DEFAULT_PROCESS, Options
from spillway.bench.summary import allocated_bytes, file_bytes, growth, seconds

if TYPE_CHECKING:
    import pyarrow as pa

    from spillway.bench.plan import Cell
    from spillway.bench.summary import CellSummary, Metric, RunSummary
    from spillway.harness.statistics import Estimate

_MEGABYTE = 1e6
# name, value of a sample, unit, and what a value is divided by for it; of all of them less is better
_FIGURES: tuple[tuple[str, Metric, str, float], ...] = (
    ("time", seconds, "s", 1.0),
    ("peak memory", growth, "MB", _MEGABYTE),
    ("file size", file_bytes, "MB", _MEGABYTE),
    ("allocated", allocated_bytes, "MB", _MEGABYTE),
)


def custom_benchmarks(run: RunSummary) -> list[dict[str, Any]]:
    """The figures of a run as github-action-benchmark's ``customSmallerIsBetter`` takes them.

    Each has a name, which is the same in every run that measures the same, a unit, the median, its interval
    as ``range``, and its basis as ``extra``. Cells that failed have none.
    """
    return [
        _entry(run, cell, figure, found)
        for cell in run.cells
        if cell.is_right
        for figure in _FIGURES
        if (found := cell.estimate(figure[1])) is not None
    ]


def _entry(
    run: RunSummary, cell: CellSummary, figure: tuple[str, Metric, str, float], found: Estimate
) -> dict[str, Any]:
    name, _, unit, scale = figure
    python = next(
        (each for each in run.environment.get("pythons", ()) if each["name"] == cell.cell.python),
        run.environment,
    )["python"]["version"]
    version = cell.good[0]["backend_version"]
    return {
        "name": f"{_words(cell.cell)}: {name}",
        "unit": unit,
        "value": found.median / scale,
        "range": f"{found.low / scale:.6g} to {found.high / scale:.6g}",
        "extra": "\n".join(
            [
                f"{library(cell.cell.backend)} {version}, Python {python}",
                f"{counted(found.n, 'sample')} in run {run.run_id}",
                str(run.environment["cpu_model"]),
            ]
        ),
    }


def _words(cell: Cell) -> str:
    """A cell in words that do not depend on what else was measured; what is usual is left out."""
    limit = "no limit" if cell.memory_bytes is None else f"{cell.memory_bytes / 1e6:,.0f} MB"
    codec = cell.codec if cell.level is None else f"{cell.codec} {cell.level}"
    parts = [cell.backend, cell.mode, cell.dataset, counted(cell.rows, "row"), codec]
    parts += [counted(cell.threads, "core"), limit]
    if cell.chunk_rows not in Options.chunk_rows:
        parts.append(f"{counted(cell.chunk_rows, 'row')} a batch")
    if cell.row_group_rows not in Options.row_group_rows:
        parts.append(f"{counted(cell.row_group_rows, 'row')} a row group")
    parts += [cell.arm] if cell.arm != DEFAULT_PROCESS else []
    parts += [f"environment {cell.python}"] if cell.python else []
    return ", ".join(parts)


def comma_separated(table: pa.Table) -> str:
    """A table as CSV with a header. Lists are JSON, nulls are empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.column_names)
    for batch in table.to_batches():
        writer.writerows([_field(value) for value in row.values()] for row in batch.to_pylist())
    return text.getvalue()


def _field(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list | dict | bool) else value
