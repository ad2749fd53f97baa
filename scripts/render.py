"""Put the figures that prose quotes into README.md and docs; write reports, schemas, targets, notebooks anew.

``make readme`` runs it; ``--check`` says whether the text is up to date. Each block of a page between
``<!-- results: NAME -->`` and ``<!-- end -->`` belongs to this script, everything else to people. A report is
made of the samples beside it; its pictures stay. The outputs of a notebook are made of the runs it reads.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import front
import many_processes
import notebooks
import other_runs
import published_study
import regret
import scale_tables
import suite
import targets
from spillway.bench import record
from spillway.bench.report import report_parts
from spillway.cli import inspect
from spillway.cli.inspect import JSON_VERSION
from spillway.harness.plots import Figure
from spillway.harness.report import REPORT, document, plain_table
from spillway.race import record as race_record
from spillway.spark.pipeline import record as pipeline_record
from stored_runs import stored_run

if TYPE_CHECKING:
    from spillway.bench.summary import RunSummary
    from spillway.harness.records import RecordSchema

_ROOT = Path(__file__).resolve().parent.parent
_README = _ROOT / "README.md"
_RESULTS = _ROOT / "results"
_TARGETS = _RESULTS / "targets"
_CALIBRATION = _RESULTS / "calibration.json"
_STUDY = _ROOT / "docs" / "guide" / "published-study.md"
_METHOD = _ROOT / "docs" / "design" / "benchmark-method.md"
_WRITER = _ROOT / "docs" / "design" / "writer.md"
_PARQUET = _ROOT / "docs" / "results" / "parquet.md"
_SCANS = _ROOT / "docs" / "guide" / "delta-read.md"
_MERGES = _ROOT / "docs" / "guide" / "delta-changes.md"
_SPARK = _ROOT / "docs" / "results" / "spark.md"
_PROCESSES = _ROOT / "docs" / "results" / "many-processes.md"
_CAPACITY = _ROOT / "docs" / "guide" / "many-writers.md"
_SCALE = _ROOT / "docs" / "design" / "scale.md"
_SCHEMAS = _RESULTS / "schemas"
_RECORDS = {
    f"v{record.SCHEMA_VERSION}/sample.schema.json": record.SCHEMA,
    f"v{record.SCHEMA_VERSION}/probe.schema.json": record.PROBE_SCHEMA,
    f"v{record.SCHEMA_VERSION}/pairs.schema.json": record.PAIR_SCHEMA,
    f"v{record.SCHEMA_VERSION}/allocations.schema.json": record.ALLOCATION_SCHEMA,
    f"v{record.SCHEMA_VERSION}/least_memory.schema.json": record.LIMIT_TRIAL_SCHEMA,
    f"v{JSON_VERSION}/inspect.schema.json": inspect.SCHEMA,
    f"v{race_record.SCHEMA_VERSION}/race.schema.json": race_record.SCHEMA,
    f"v{pipeline_record.SCHEMA_VERSION}/pipeline.schema.json": pipeline_record.SCHEMA,
}
_NO_REGRET = "No record of the regret may be quoted yet: it needs a quiet host."
_BLOCK = re.compile(r"(<!-- results: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def _readme() -> str:
    """The README with the figures of the newest run of the job ``front`` of ``scripts/targets.py``."""
    return _filled(_README, front.blocks(_RESULTS))


def _study(reference: RunSummary) -> str:
    """The page of the published study: its table and findings, and the runs of what else it asked."""
    study = reference if published_study.has_its_writers(reference) else None
    limits, crossover, allocator = (
        other_runs.quoted(_RESULTS, kind) for kind in ("limits", "crossover", "allocator")
    )
    blocks = {
        "study_findings": other_runs.shown(study, published_study.comparison),
        "study_table": other_runs.shown(study, published_study.table),
        "least_memory": other_runs.shown(limits, other_runs.least_memory),
        "crossovers": other_runs.shown(crossover, other_runs.crossovers),
        "process_settings": other_runs.shown(allocator, other_runs.process_settings),
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
        plain_table(("probe", "planted effect", "planted", "seen"), readings),
        plain_table(("probe", "cost"), costs),
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
    """The results of Spark with the tables of the newest run of ``bench/test_spark.py``."""
    return _filled(_SPARK, {"spark": _newest("spark", "##")})


def _merges() -> str:
    """The guide to changes of rows with the tables of the newest run of merges."""
    return _filled(_MERGES, {"merges": _newest("merge", "####")})


def _scans() -> str:
    """The guide to reading with the table of the newest run of scans."""
    return _filled(_SCANS, {"scans": _newest("scan", "###")})


def _newest(kind: str, heading: str) -> str:
    """The tables of the newest run of a kind that ``scripts/suite.py`` keeps, below headings of a level."""
    run = suite.newest(kind)
    if run is None:
        return other_runs.NO_RUN
    if reasons := run.why_not_quoted():
        sys.exit(f"scripts/render.py: run {run.folder.name} is not to be quoted: {'; '.join(reasons)}")
    return f"\n{run.table()}".replace("\n## ", f"\n{heading} ").strip()


def _scale() -> dict[str, str]:
    """The blocks of the newest runs of ``scripts/scale.py``."""
    runs = sorted(path.parent for path in (_RESULTS / "scale").glob(f"*/{scale_tables.CELLS}"))
    for run in runs:
        if reasons := scale_tables.why_not_quoted(run):
            sys.exit(f"scripts/render.py: run {run.name} is not to be quoted: {'; '.join(reasons)}")
    return scale_tables.page(runs)


def _filled(page: Path, texts: dict[str, str]) -> str:
    """A page with `texts` in its blocks of these names."""
    return _BLOCK.sub(lambda block: f"{block[1]}{texts[block[2]]}\n{block[3]}", page.read_text())


def _amount(value: float, reading: dict[str, str]) -> str:
    unit = reading["unit"]
    return f"{value:,.4g} {unit}" if unit else f"{value:,.0f}"


def _schema(schema: RecordSchema) -> str:
    return json.dumps(schema.document, indent=2) + "\n"


def _report(path: Path) -> str:
    """A report from its samples, with those of its pictures that were kept."""
    known = front.PICTURE.findall(path.read_text())
    figures = [Figure(title, place) for title, place in known if (path.parent / place).exists()]
    return document(report_parts(stored_run(path.parent), figures))


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
    scale = _scale()
    rendered = {
        _README: _readme(),
        _STUDY: _study(reference),
        _METHOD: _method(),
        _WRITER: _writer(),
        _PARQUET: _filled(_PARQUET, front.tables(_RESULTS)),
        _SCANS: _scans(),
        _MERGES: _merges(),
        _SPARK: _spark(),
        _PROCESSES: _filled(_PROCESSES, {"processes": many_processes.block()}),
        **{path: _filled(path, scale) for path in (_SCALE, _CAPACITY)},
        _TARGETS / "table.md": targets.table(_TARGETS) + "\n",
        **{_SCHEMAS / name: _schema(schema) for name, schema in _RECORDS.items()},
        **{path: _report(path) for path in _reports()},
        **{path: notebooks.rendered(path) for path in notebooks.paths()},
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
