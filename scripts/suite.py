"""Keep what ``pytest bench`` measured in ``results/``, and make the tables that the guides have of it.

    python -m pytest bench/test_merge.py bench/test_scan.py bench/test_spark.py --benchmark-json=found.json
    python scripts/suite.py found.json

``make readme`` puts the tables of the newest runs into the guides. A run is a folder: ``environment.json``
has the machine and the options, a file of lines the samples, which are in ``extra_info`` of each test. Where
a test measured several numbers of rows, the most are kept.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spillway._wording import counted
from spillway.bench.conclusion import FEWEST_TO_QUOTE
from spillway.harness.environment import noise_warnings
from spillway.harness.report import Entry, Table, checkout, document, machine, software, table_section
from spillway.harness.statistics import estimate, paired_ratio

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

RESULTS = Path(__file__).resolve().parent.parent / "results"
ENVIRONMENT = "environment.json"
SCHEMA_VERSION = 1
INTERVALS = "Medians of ratios block by block, with their 95 % intervals."
KEYS = {"clustered": "Neighbouring keys", "spread": "Keys spread over all files"}
QUESTIONS = {
    "second": "A second of a service, six columns",
    "second-wide": "A second of a service, all columns",
    "minute": "A minute of a service, six columns",
    "service": "A service at all times, six columns",
    "all": "All rows, all columns",
}
# Groups of writes to Spark's files: their title, and the writer that the others are compared with.
PLACES = {
    "dataframe": ("A cached DataFrame", "spark parquet"),
    "made": ("Rows made on executors", "spark parquet"),
    "audited": ("A cached DataFrame, by pipelines that read back what they wrote", "write"),
}

Sample = dict[str, Any]
Blocks = dict[int, Sample]


@dataclass(frozen=True)
class Run:
    """A run on record.

    Attributes:
        folder: Its folder.
        environment: Its machine and options.
        samples: Its samples.
    """

    folder: Path
    environment: dict[str, Any]
    samples: list[Sample]

    def blocks(self, **values: object) -> Blocks:
        """The samples that have these values, by block."""
        return {
            sample["block"]: sample
            for sample in self.samples
            if all(sample[name] == value for name, value in values.items())
        }

    def table(self) -> str:
        """Its tables, in Markdown."""
        return _KINDS[self.folder.parent.name].tables(self)

    def why_not_quoted(self) -> list[str]:
        """The reasons why it is not to be quoted: too few samples, or a host that was busy."""
        blocks = len({sample["block"] for sample in self.samples})
        few = blocks < FEWEST_TO_QUOTE
        lacking = [f"{counted(blocks, 'block')}, not {FEWEST_TO_QUOTE}"] if few else []
        # The oldest run of Spark's has no reading of the host; its table says how high the load was.
        hosts = [sample["host"] for sample in self.samples if "host" in sample]
        if not hosts:
            return lacking
        seconds = sum(host.get("wall_seconds", 0.0) for host in hosts)
        noise = partial(noise_warnings, cores=self.environment["cores"])
        return lacking + noise(self.environment["load_before"], hosts, seconds)


@dataclass(frozen=True)
class Kind:
    """A kind of runs, by the name of its folder in ``results/`` and of its tests.

    Attributes:
        lines: The name of the file of samples.
        tables: Makes the tables of a run.
    """

    lines: str
    tables: Callable[[Run], str]


def keep(found: Mapping[str, Any], results: Path = RESULTS) -> list[Run]:
    """Keep the runs in a JSON file of pytest-benchmark.

    Raises:
        ValueError: It has no benchmark of a kind that is kept.
    """
    run_id = datetime.fromisoformat(found["datetime"]).strftime("%Y%m%dT%H%M%SZ")
    runs = []
    for name, kind in _KINDS.items():
        measured = [
            each["extra_info"]
            for each in found["benchmarks"]
            if each["fullname"].startswith(f"bench/test_{name}.py::")
        ]
        if not measured:
            continue
        rows = max(each["options"]["rows"] for each in measured)
        kept = [each for each in measured if each["options"]["rows"] == rows]
        environment = {
            "schema_version": SCHEMA_VERSION,
            "run_id": run_id,
            **found["environment"],
            "options": kept[0]["options"],
        }
        samples = sorted(
            (sample for each in kept for sample in each["samples"]), key=lambda sample: sample["block"]
        )
        folder = results / name / run_id
        folder.mkdir(parents=True)
        (folder / ENVIRONMENT).write_text(json.dumps(environment, indent=1) + "\n")
        (folder / kind.lines).write_text("".join(f"{json.dumps(sample)}\n" for sample in samples))
        runs.append(Run(folder, environment, samples))
    if not runs:
        raise ValueError(f"no benchmark of {', '.join(f'bench/test_{name}.py' for name in _KINDS)}")
    return runs


def newest(name: str, results: Path = RESULTS) -> Run | None:
    """The newest run of a kind on record."""
    lines = _KINDS[name].lines
    folder = max((path.parent for path in (results / name).glob(f"*/{lines}")), default=None)
    if folder is None:
        return None
    samples = [json.loads(line) for line in (folder / lines).read_text().splitlines()]
    return Run(folder, json.loads((folder / ENVIRONMENT).read_text()), samples)


def _merges(run: Run) -> str:
    rows = run.environment["options"]["rows"]
    notes = [f"Into {rows:,} rows in 10 files, upserts of {rows // 100:,}.", INTERVALS]
    writers = ("spillway", "spillway, without vectors", "delta-rs")
    header = ("writer", "rows/s", "times delta-rs", "MB written", "times fewer")
    tables = []
    for keys, title in KEYS.items():
        cells = {writer: run.blocks(keys=keys, writer=writer) for writer in writers}
        if other := cells["delta-rs"]:
            lines = [_merge(writer, own, other) for writer, own in cells.items()]
            tables.append(_table(title, header, lines))
    return _document(tables, notes, run, f"{machine(run.environment)}.")


def _merge(writer: str, own: Blocks, other: Blocks) -> list[str]:
    written, theirs = (_median(cell, "bytes") for cell in (own, other))
    rate = estimate([sample["rows"] / sample["seconds"] for sample in own.values()]).median
    return [writer, f"{rate:,.0f}", _times(other, own), f"{written / 1e6:.2f}", f"{theirs / written:.1f}"]


def _scans(run: Run) -> str:
    rows = run.environment["options"]["rows"]
    notes = [
        f"{rows:,} log lines in 10 files in the order of their times.",
        "Medians of ratios block by block, with their 95 % intervals.",
        "Above 1, Spillway takes longer than DuckDB. The first read is that of a new process.",
    ]
    header = ("question", "rows", "threads", "first read, ms", "times DuckDB", "later, ms", "times DuckDB")
    threads = sorted({sample["threads"] for sample in run.samples})
    lines = [_scan(run, question, each) for question in QUESTIONS for each in threads]
    return _document([_table("Selected rows", header, lines)], notes, run, f"{machine(run.environment)}.")


def _scan(run: Run, question: str, threads: int) -> list[str]:
    own, other = (
        run.blocks(question=question, reader=reader, threads=threads) for reader in ("spillway", "duckdb")
    )
    rows = f"{next(iter(own.values()))['rows']:,}"
    cells = ((f"{_median(own, key) * 1e3:.1f}", _times(own, other, key)) for key in ("first", "again"))
    return [QUESTIONS[question], rows, str(threads), *(text for cell in cells for text in cell)]


def _writes(run: Run) -> str:
    cores = run.environment["options"]["cores"]
    load = estimate([sample["load"] for sample in run.samples]).median
    tables = []
    for group, (title, against) in PLACES.items():
        names = dict.fromkeys(sample["writer"] for sample in run.samples if sample["group"] == group)
        cells = {name: run.blocks(group=group, writer=name) for name in names}
        if not cells:
            continue
        ordered = sorted(cells, key=lambda name: _median(cells[name], "seconds"))
        own = cells[against]
        of_own = "times Spark's own" if against == "spark parquet" else f"times {against}"
        header = ("writer", "rows/s", of_own, "MB", "files")
        tables.append(_table(title, header, [_write(name, cells[name], own) for name in ordered]))
    text = _document(tables, [INTERVALS], run, f"Spark has {cores} cores of {machine(run.environment)}.")
    return f"{text}\nLoad of the host: {load:.1f} in the middle of the samples.\n"


def _write(writer: str, blocks: Blocks, own: Blocks) -> list[str]:
    rows = max(sample["rows"] for sample in own.values())
    last = blocks[max(blocks)]
    return [
        writer,
        f"{rows / _median(blocks, 'seconds'):,.0f}",
        _times(own, blocks),
        f"{last['bytes'] / 1e6:.1f}" if last["files"] else "-",
        str(last["files"] or "-"),
    ]


def _median(blocks: Blocks, key: str) -> float:
    return estimate([sample[key] for sample in blocks.values()]).median


def _times(above: Blocks, below: Blocks, key: str = "seconds") -> str:
    ratio = paired_ratio(*({block: each[key] for block, each in side.items()} for side in (above, below)))
    return f"{ratio.median:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]"


def _table(title: str, header: tuple[str, ...], lines: Iterable[Sequence[str]]) -> str:
    return table_section(Table(title, header, [[Entry(text) for text in line] for line in lines], []))


def _document(tables: Sequence[str], notes: Sequence[str], run: Run, where: str) -> str:
    return document([*tables, *notes, where, software(run.environment), *checkout(run.environment)])


_KINDS = {
    "merge": Kind("merges.jsonl", _merges),
    "scan": Kind("scans.jsonl", _scans),
    "spark": Kind("writes.jsonl", _writes),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("found", type=Path, help="the JSON file of pytest-benchmark")
    for run in keep(json.loads(parser.parse_args().found.read_text())):
        reasons = "; ".join(run.why_not_quoted())
        print(f"{run.folder}{f': not to be quoted: {reasons}' if reasons else ''}\n\n{run.table()}")


if __name__ == "__main__":
    main()
