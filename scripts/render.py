"""Put the figures that prose quotes into README.md, and write the reports and schemas in ``results/`` anew.

``make readme`` runs it; ``--check`` says whether the text is up to date. Each block of the README between
``<!-- results: NAME -->`` and ``<!-- end -->`` belongs to this script, everything else to people. A report is
made of the samples beside it; its pictures stay.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from spillway._wording import and_joined, counted
from spillway.backends import OWN_LIBRARY, library
from spillway.bench import record
from spillway.bench.record import SAMPLES
from spillway.bench.report import report_parts
from spillway.bench.summary import CellSummary, RunSummary, Setting, read_run
from spillway.bench.tables import throughput_table
from spillway.harness.report.markdown import REPORT, document
from spillway.harness.report.plots import Figure
from spillway.harness.report.table import markdown_table
from spillway.race import record as race_record

if TYPE_CHECKING:
    from collections.abc import Callable

    from spillway.harness.records import RecordSchema

_ROOT = Path(__file__).resolve().parent.parent
_README = _ROOT / "README.md"
_SCHEMAS = _ROOT / "results" / "schemas" / f"v{record.SCHEMA_VERSION}"
_RECORDS = {"sample.schema.json": record.SCHEMA, "race.schema.json": race_record.SCHEMA}
_PICTURE = re.compile(r"^!\[(.*)\]\((.*)\)$", re.MULTILINE)
_BLOCK = re.compile(r"(<!-- results: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def _reference() -> Path:
    """The newest run in ``results/reference/``; run ids begin with their date."""
    runs = sorted(path.parent for path in (_ROOT / "results" / "reference").glob("*/samples.jsonl"))
    if not runs:
        sys.exit("scripts/render.py: results/reference/ holds no run; copy one there from runs/")
    return runs[-1]


def _limited(run: RunSummary, mode: str) -> Setting:
    return next(setting for setting in run.settings if setting.mode == mode)


def _throughput(run: RunSummary) -> str:
    return markdown_table(throughput_table(run, _limited(run, "batches")))


def _picture(run: RunSummary) -> str:
    name = next((run.folder / "figures").glob("throughput-batches*")).name
    place = run.folder.relative_to(_ROOT) / "figures" / name
    return f"![Throughput of each writer by number of rows]({place})"


def _headline(run: RunSummary) -> str:
    batches, table = (_largest(run, mode) for mode in ("batches", "table"))
    spillway, peers = batches["spillway"], _peers(batches)
    smallest = min(peers, key=_bytes)
    ratios = [
        _ratio(run, rows) for rows in sorted({each.cell.rows for each in run.of(_limited(run, "batches"))})
    ]
    return (
        f"By row count, Spillway runs at {min(ratios):.2f} to {max(ratios):.2f} times the speed of the "
        f"fastest peer. At {spillway.cell.rows:,} rows its file is "
        f"{_bytes(spillway) / _bytes(smallest):.2f} times the size of the smallest peer's "
        f"({smallest.cell.backend}). Its memory grows by {_megabytes(spillway)}, where "
        f"{_less_memory(batches)}; given all rows as one table, it grows by "
        f"{_megabytes(table['spillway'])}, where {_less_memory(table)}. "
        f"[Run {run.run_id}]({run.folder.relative_to(_ROOT)}/report.md), "
        f"{run.environment['cpu_model']}, medians of {len(spillway.samples)} processes."
    )


def _largest(run: RunSummary, mode: str) -> dict[str, CellSummary]:
    """The cells of a mode at the most rows, by backend."""
    cells = run.of(_limited(run, mode))
    most = max(each.cell.rows for each in cells)
    return {each.cell.backend: each for each in cells if each.cell.rows == most and each.good}


def _peers(cells: dict[str, CellSummary]) -> list[CellSummary]:
    return [each for name, each in cells.items() if library(name) != OWN_LIBRARY]


def _ratio(run: RunSummary, rows: int) -> float:
    """The speed of Spillway over that of the fastest peer, in batches."""
    cells = {each.cell.backend: each for each in run.of(_limited(run, "batches")) if each.cell.rows == rows}
    return _speed(cells["spillway"]) / max(map(_speed, _peers(cells)))


def _less_memory(cells: dict[str, CellSummary]) -> str:
    """The peers that take less memory than Spillway, or else the leanest of them."""
    peers = sorted(_peers(cells), key=_growth)
    leaner = [each for each in peers if _growth(each) < _growth(cells["spillway"])]
    said = [
        f"{each.cell.backend} takes {_megabytes(each)} in {counted(_row_groups(each), 'row group')}"
        for each in leaner or peers[:1]
    ]
    return and_joined(said) if leaner else f"the leanest peer, {said[0]}"


def _megabytes(cell: CellSummary) -> str:
    return f"{_growth(cell) / 1e6:.0f} MB"


def _speed(cell: CellSummary) -> float:
    return cell.rows_per_second.median if cell.rows_per_second else 0.0


def _growth(cell: CellSummary) -> float:
    return cell.growth.median if cell.growth else 0.0


def _bytes(cell: CellSummary) -> int:
    value = cell.exact("bytes")
    return value[0] if value else 0


def _row_groups(cell: CellSummary) -> int:
    value = cell.exact("row_groups")
    return value[0] if value else 0


_BLOCKS: dict[str, Callable[[RunSummary], str]] = {
    "headline": _headline,
    "picture": _picture,
    "throughput": _throughput,
}


def _readme() -> str:
    run = read_run(_reference())
    return _BLOCK.sub(lambda block: f"{block[1]}{_BLOCKS[block[2]](run)}\n{block[3]}", _README.read_text())


def _schema(schema: RecordSchema) -> str:
    return json.dumps(schema.document, indent=2) + "\n"


def _report(path: Path) -> str:
    figures = [Figure(title, place) for title, place in _PICTURE.findall(path.read_text())]
    return document(report_parts(read_run(path.parent), figures))


def main() -> None:
    """Rewrite what belongs to this script, or with ``--check`` only say what is out of date."""
    reports = sorted(path.with_name(REPORT) for path in (_ROOT / "results").rglob(SAMPLES))
    rendered = {
        _README: _readme(),
        **{_SCHEMAS / name: _schema(schema) for name, schema in _RECORDS.items()},
        **{path: _report(path) for path in reports},
    }
    stale = {path: text for path, text in rendered.items() if not path.exists() or path.read_text() != text}
    if "--check" in sys.argv[1:] and stale:
        names = ", ".join(str(path.relative_to(_ROOT)) for path in stale)
        sys.exit(f"not what the samples in results/ say: {names}; run make readme")
    for path, text in stale.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    main()
