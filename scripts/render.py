"""Put the figures that prose quotes into README.md and docs, and write reports, schemas and targets anew.

``make readme`` runs it; ``--check`` says whether the text is up to date. Each block of a page between
``<!-- results: NAME -->`` and ``<!-- end -->`` belongs to this script, everything else to people. A report is
made of the samples beside it; its pictures stay.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import merge_speed
import other_runs
import published_study
import regret
import scale_tables
import scan_speed
import spark_speed
import targets
from spillway._wording import and_joined, counted
from spillway.backends import OWN_LIBRARY, library
from spillway.bench import record
from spillway.bench.memory_table import allocated, charged
from spillway.bench.ranking import rankings, ratio
from spillway.bench.report import report_parts
from spillway.bench.summary import CellSummary, RunSummary, Setting, read_run, speed
from spillway.bench.tables import ratio_text, throughput_table
from spillway.harness.report.markdown import REPORT, document
from spillway.harness.report.plots import Figure
from spillway.harness.report.table import Entry, Table, markdown_table
from spillway.pipeline import record as pipeline_record
from spillway.race import record as race_record

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from spillway.harness.records import RecordSchema
    from spillway.harness.statistics import Ratio

_ROOT = Path(__file__).resolve().parent.parent
_README = _ROOT / "README.md"
_RESULTS = _ROOT / "results"
_TARGETS = _RESULTS / "targets"
_CALIBRATION = _RESULTS / "calibration.json"
_STUDY = _ROOT / "docs" / "guide" / "published-study.md"
_METHOD = _ROOT / "docs" / "design" / "benchmark-method.md"
_WRITER = _ROOT / "docs" / "design" / "writer.md"
_DELTA = _ROOT / "docs" / "guide" / "delta.md"
_SPARK = _ROOT / "docs" / "guide" / "spark.md"
_SCALE = _ROOT / "docs" / "design" / "scale.md"
_SCHEMAS = _RESULTS / "schemas"
_RECORDS = {
    f"v{record.SCHEMA_VERSION}/sample.schema.json": record.SCHEMA,
    f"v{record.SCHEMA_VERSION}/probe.schema.json": record.PROBE_SCHEMA,
    f"v{record.SCHEMA_VERSION}/pairs.schema.json": record.PAIR_SCHEMA,
    f"v{record.SCHEMA_VERSION}/allocations.schema.json": record.ALLOCATION_SCHEMA,
    f"v{record.SCHEMA_VERSION}/least_memory.schema.json": record.LIMIT_TRIAL_SCHEMA,
    f"v{race_record.SCHEMA_VERSION}/race.schema.json": race_record.SCHEMA,
    f"v{pipeline_record.SCHEMA_VERSION}/pipeline.schema.json": pipeline_record.SCHEMA,
}
_NO_REGRET = "No record of the regret may be quoted yet: it needs a quiet host."
_PICTURE = re.compile(r"^!\[(.*)\]\((.*)\)$", re.MULTILINE)
_BLOCK = re.compile(r"(<!-- results: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def _limited(run: RunSummary, mode: str) -> Setting:
    return next(setting for setting in run.settings if setting.mode == mode)


def _throughput(run: RunSummary) -> str:
    return markdown_table(throughput_table(run, _limited(run, "batches")))


def _picture(run: RunSummary) -> str:
    """The figure of throughput, with its finding for those who do not see it."""
    title, place = next(
        (title, place)
        for title, place in _PICTURE.findall((run.folder / REPORT).read_text())
        if place.startswith("figures/throughput-batches-")
    )
    return f"![{title}]({run.folder.relative_to(_ROOT)}/{place})"


def _headline(run: RunSummary) -> str:
    batches, table = (_largest(run, mode) for mode in ("batches", "table"))
    samples = len(batches["spillway"].samples)
    source = f"[Run {run.run_id}]({run.folder.relative_to(_ROOT)}/report.md)"
    lines = [_speeds(run), _size(batches), _memory(batches, table), _disk(batches, table)]
    return "\n".join(
        [*lines, "", f"{source}, {run.environment['cpu_model']}, medians of {samples} processes."]
    )


def _speeds(run: RunSummary) -> str:
    modes = {setting.mode for setting in run.settings}
    others = {"batches-retained": "As batches that a writer may keep", "table": "As one table"}
    said = [
        f"{words}: {_at_the_most(_largest(run, mode))}." for mode, words in others.items() if mode in modes
    ]
    return " ".join([f"- **Speed**, with 95 % intervals: {_by_rows(run)}.", *said])


def _by_rows(run: RunSummary) -> str:
    """The speed over that of the fastest peer at each number of rows, or the peers that are level there."""
    found = sorted(rankings(run, _limited(run, "batches")), key=lambda each: each.rows)
    cells = {each.rows: {cell.cell.backend: cell for cell in each.right} for each in found}
    level = {rows: names for rows, held in cells.items() if (names := _level(held))}
    ahead = {rows: _lead(held) for rows, held in cells.items() if rows not in level}
    said = [f"level with {and_joined(names)} at {rows:,} rows" for rows, names in level.items()]
    if ahead:
        least, most = (choose(ahead.values(), key=lambda found: found.median) for choose in (min, max))
        times = f"{ratio_text(least)} to {ratio_text(most)} times the fastest peer"
        said.append(f"{times} at {and_joined([f'{rows:,}' for rows in ahead])} rows")
    return "; ".join(said)


def _at_the_most(cells: dict[str, CellSummary]) -> str:
    """The speed over that of the fastest peer at the most rows, or the peers that are level there."""
    at, level = f"at {cells['spillway'].cell.rows:,} rows", _level(cells)
    if level:
        return f"level with {and_joined(level)} {at}"
    fastest = max(_peers(cells), key=_speed)
    return f"{ratio_text(_lead(cells))} times {fastest.cell.backend} {at}"


def _level(cells: dict[str, CellSummary]) -> list[str]:
    """The peers that the samples cannot tell from Spillway; none where a peer is faster than it."""
    ratios = {each.cell.backend: _over(cells["spillway"], each) for each in _peers(cells)}
    is_behind = any(found.high < 1 for found in ratios.values())
    return [] if is_behind else [name for name, found in ratios.items() if found.low <= 1 <= found.high]


def _lead(cells: dict[str, CellSummary]) -> Ratio:
    """The speed of Spillway over that of the fastest peer, block by block."""
    return _over(cells["spillway"], max(_peers(cells), key=_speed))


def _over(own: CellSummary, peer: CellSummary) -> Ratio:
    found = ratio(own, peer, speed)
    assert found is not None  # the cells of a run share its blocks
    return found


def _size(batches: dict[str, CellSummary]) -> str:
    smallest, own = min(_peers(batches), key=_bytes), batches["spillway"]
    return (
        f"- **File** of {own.cell.rows:,} rows: {_bytes(own) / _bytes(smallest):.2f} times the smallest "
        f"peer's ({smallest.cell.backend})."
    )


def _memory(batches: dict[str, CellSummary], table: dict[str, CellSummary]) -> str:
    lines = [
        f"- **{name}** of {batches['spillway'].cell.rows:,} rows: {_compared(batches, metric)}. "
        f"As one table: {_compared(table, metric)}.{_not_known(batches, metric)}"
        for name, metric in _MEMORY
        if metric(batches["spillway"]) and metric(table["spillway"])
    ]
    return "\n".join(lines)


def _not_known(cells: dict[str, CellSummary], metric: Callable[[CellSummary], float]) -> str:
    """The peers of which a measure is not known, as a sentence; nothing if it is of all."""
    names = [each.cell.backend for each in _peers(cells) if not metric(each)]
    return f" Not known of {and_joined(names)}." if names else ""


def _compared(cells: dict[str, CellSummary], metric: Callable[[CellSummary], float]) -> str:
    return f"{metric(cells['spillway']) / 1e6:.0f} MB; {_less_memory(cells, metric)}"


def _disk(batches: dict[str, CellSummary], table: dict[str, CellSummary]) -> str:
    own = [batches["spillway"], table["spillway"]]
    amounts = [_written(each) for each in own]
    lines = [
        f"{amounts[0]} are written for a file of {_bytes(own[0]) / 1e6:.0f} MB; as one table: {amounts[1]}"
    ]
    if any(map(_spills, own)):
        lines.append("Pages wait in a temporary file, which resident memory does not show")
    lines.append(_most_written([*_peers(batches), *_peers(table)]))
    return f"- **Disk:** {'. '.join(lines)}."


def _written_bytes(cell: CellSummary) -> float:
    return statistics.median(float(sample["use"]["bytes_written"]) for sample in cell.good)


def _written(cell: CellSummary) -> str:
    return f"{_written_bytes(cell) / 1e6:.0f} MB"


def _spills(cell: CellSummary) -> bool:
    """Return true if 1 % more than the file was written."""
    return _written_bytes(cell) > 1.01 * _bytes(cell)


def _most_written(peers: list[CellSummary]) -> str:
    """The peers that write more than their file, with their mode, or that none does."""
    said = [
        f"{each.cell.backend} ({each.cell.mode}) writes {_written(each)}" for each in filter(_spills, peers)
    ]
    return and_joined(said) or "No peer writes more than its file"


def _largest(run: RunSummary, mode: str) -> dict[str, CellSummary]:
    """The cells of a mode at the most rows, by backend."""
    cells = run.of(_limited(run, mode))
    most = max(each.cell.rows for each in cells)
    return {each.cell.backend: each for each in cells if each.cell.rows == most and each.good}


def _peers(cells: dict[str, CellSummary]) -> list[CellSummary]:
    return [each for name, each in cells.items() if library(name) != OWN_LIBRARY]


def _less_memory(cells: dict[str, CellSummary], metric: Callable[[CellSummary], float]) -> str:
    """The peers that take less memory than Spillway, or else the leanest of those that are measured so."""
    peers = sorted((each for each in _peers(cells) if metric(each)), key=metric)
    leaner = [each for each in peers if metric(each) < metric(cells["spillway"])]
    said = [
        f"{each.cell.backend} takes {metric(each) / 1e6:.0f} MB in {counted(_row_groups(each), 'row group')}"
        for each in leaner or peers[:1]
    ]
    return and_joined(said) if leaner else f"the leanest peer, {said[0]}"


def _speed(cell: CellSummary) -> float:
    return cell.rows_per_second.median if cell.rows_per_second else 0.0


def _growth(cell: CellSummary) -> float:
    return cell.growth.median if cell.growth else 0.0


def _charge(cell: CellSummary) -> float:
    """The growth of what the control group was charged with; 0 in runs before version 2, which lack it."""
    found = cell.estimate(charged)
    return 0.0 if found is None else found.median


def _allocated(cell: CellSummary) -> float:
    return allocated(cell) or 0.0


_MEMORY = (
    ("Resident memory", _growth),
    ("Memory charged, page cache included,", _charge),
    ("Allocated memory", _allocated),
)


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


def _readme(reference: RunSummary) -> str:
    return _filled(_README, {name: block(reference) for name, block in _BLOCKS.items()})


def _study(reference: RunSummary) -> str:
    """The page of the published study: its table and findings, and the runs of what else it asked."""
    study = reference if published_study.has_its_writers(reference) else None
    limits, crossover, arms = (
        other_runs.quoted(_RESULTS, kind) for kind in ("limits", "crossover", "allocator")
    )
    blocks = {
        "study_findings": other_runs.shown(study, published_study.comparison),
        "study_table": other_runs.shown(study, published_study.table),
        "least_memory": other_runs.shown(limits, other_runs.least_memory),
        "crossovers": other_runs.shown(crossover, other_runs.crossovers),
        "arms": other_runs.shown(arms, other_runs.arms),
    }
    return _filled(_STUDY, blocks)


def _method() -> str:
    """The page of the method: studies of known differences, and probes asked for planted effects."""
    return _filled(_METHOD, {"calibration": _calibration(), "equal_pairs": other_runs.equal_pairs(_RESULTS)})


def _calibration() -> str:
    """The readings that probes had of planted effects, from the tests' own ledger."""
    ledger = json.loads(_CALIBRATION.read_text())
    readings = [
        [each["probe"], each["effect"], _amount(each["planted"], each), _amount(each["seen"], each)]
        for each in ledger["readings"]
    ]
    costs = [[each["probe"], each["cost"]] for each in ledger["costs"]]
    parts = [
        _plain_table(("probe", "planted effect", "planted", "seen"), readings),
        _plain_table(("probe", "cost"), costs),
        f"Seen on {ledger['cpu_model']}, Linux {ledger['kernel']}.",
    ]
    return "\n\n".join(parts)


def _writer() -> str:
    """The page of the writer's design with the record of ``scripts/regret.py``."""
    if not regret.RESULTS.exists():
        return _filled(_WRITER, {"regret": _NO_REGRET})
    document = json.loads(regret.RESULTS.read_text())
    if reasons := regret.why_not_quoted(document):
        sys.exit(f"scripts/render.py: results/regret.json is not to be quoted: {'; '.join(reasons)}")
    return _filled(_WRITER, {"regret": regret.tables_of(document)})


def _spark() -> str:
    """The guide to Spark with the table of the newest run of ``scripts/spark_speed.py``."""
    runs = sorted(path.parent for path in (_ROOT / "results" / "spark").glob(f"*/{spark_speed.WRITES}"))
    if not runs:
        sys.exit("scripts/render.py: results/spark/ holds no run; copy one there from runs/")
    table = f"\n{spark_speed.table(runs[-1])}".replace("\n## ", "\n### ")
    return _filled(_SPARK, {"spark": table.strip()})


def _delta() -> str:
    """The guide to Delta tables with the tables of the newest runs of merges and of scans."""
    return _filled(_DELTA, {"merges": _newest(merge_speed), "scans": _newest(scan_speed)})


def _newest(measure: ModuleType) -> str:
    """The tables of the newest run on record of a program such as ``scripts/merge_speed.py``."""
    run = measure.RUNS.newest()
    if run is None:
        return other_runs.NO_RUN
    if reasons := measure.RUNS.why_not_quoted(run):
        sys.exit(f"scripts/render.py: run {run.name} is not to be quoted: {'; '.join(reasons)}")
    tables: str = measure.table(run)
    return f"\n{tables}".replace("\n## ", "\n#### ").strip()


def _scale() -> str:
    """The page of many writers with the tables of the newest runs of ``scripts/scale.py``."""
    runs = sorted(path.parent for path in (_RESULTS / "scale").glob(f"*/{scale_tables.CELLS}"))
    for run in runs:
        if reasons := scale_tables.why_not_quoted(run):
            sys.exit(f"scripts/render.py: run {run.name} is not to be quoted: {'; '.join(reasons)}")
    return _filled(_SCALE, scale_tables.page(runs))


def _filled(page: Path, texts: dict[str, str]) -> str:
    """A page with `texts` in its blocks of these names."""
    return _BLOCK.sub(lambda block: f"{block[1]}{texts[block[2]]}\n{block[3]}", page.read_text())


def _plain_table(header: tuple[str, ...], rows: list[list[str]]) -> str:
    return markdown_table(Table("", header, [[Entry(text) for text in row] for row in rows], []))


def _amount(value: float, reading: dict[str, str]) -> str:
    unit = reading["unit"]
    return f"{value:,.4g} {unit}" if unit else f"{value:,.0f}"


def _schema(schema: RecordSchema) -> str:
    return json.dumps(schema.document, indent=2) + "\n"


def _report(path: Path) -> str:
    """A report from its samples, with those of its pictures that were kept."""
    known = _PICTURE.findall(path.read_text())
    figures = [Figure(title, place) for title, place in known if (path.parent / place).exists()]
    return document(report_parts(read_run(path.parent), figures))


def _reports() -> list[Path]:
    """The reports of the runs of the bench: each lies beside the samples that it is made of."""
    return [
        path
        for kind in ("reference", "limits", "crossover", "allocator", "targets")
        for path in sorted((_RESULTS / kind).rglob(REPORT))
    ]


def main() -> None:
    """Rewrite what belongs to this script, or with ``--check`` only say what is out of date."""
    reference = other_runs.quoted(_RESULTS, "reference")
    if reference is None:
        sys.exit("scripts/render.py: results/reference/ holds no run; scripts/keep.py puts one there")
    rendered = {
        _README: _readme(reference),
        _STUDY: _study(reference),
        _METHOD: _method(),
        _WRITER: _writer(),
        _DELTA: _delta(),
        _SPARK: _spark(),
        _SCALE: _scale(),
        _TARGETS / "table.md": targets.table(_TARGETS) + "\n",
        **{_SCHEMAS / name: _schema(schema) for name, schema in _RECORDS.items()},
        **{path: _report(path) for path in _reports()},
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
