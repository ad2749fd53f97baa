"""A run for its readers: its ``report.md``, its page, and the forms of other tools."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any

from spillway._wording import counted
from spillway.backends import library
from spillway.bench.conclusion import BUILD_LEGEND, build_tables, conclude, headline, verdict_caveats
from spillway.bench.figures import charts_across, charts_of
from spillway.bench.plan import DEFAULT_PROCESS, Options
from spillway.bench.ratio_tables import (
    CROSSOVER_LEGEND,
    PAIR_LEGEND,
    RATIO_LEGEND,
    VARIATION_LEGEND,
    crossover_table,
    pair_table,
    ratio_tables,
    variation_tables,
)
from spillway.bench.record import DISTURBED
from spillway.bench.resume import command_of
from spillway.bench.side_tables import (
    LEAST_MEMORY_LEGEND,
    MEMORY_LEGEND,
    drift_warnings,
    drift_words,
    least_memory_table,
    memory_table,
    probe_costs,
    program_table,
)
from spillway.bench.summary import (
    allocated_bytes,
    file_bytes,
    growth,
    host_lines,
    hosts_of,
    seconds,
    wrong_outputs,
)
from spillway.bench.tables import measures_table, ranking_table, rankings, setting_title, throughput_table
from spillway.errors import MissingExtraError
from spillway.harness.plots import embedded
from spillway.harness.report import (
    bullets,
    caveats,
    checkout,
    figure_section,
    machine,
    software,
    table_section,
    write_document,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pyarrow as pa

    from spillway.bench.plan import Cell
    from spillway.bench.summary import CellSummary, Metric, RunSummary, Setting
    from spillway.harness.plots import Chart, Figure
    from spillway.harness.report import Table
    from spillway.harness.statistics import Estimate


def run_tables(run: RunSummary) -> list[Table]:
    """All tables of a run: of two environments, of each setting, then of what differs between settings."""
    by_setting = tables_by_setting(run)
    return [
        *build_tables(run),
        *(table for setting in run.settings for table in by_setting[setting]),
        *variation_tables(run),
    ]


def tables_by_setting(run: RunSummary) -> dict[Setting, list[Table]]:
    """The tables of each setting."""
    ratios = ratio_tables(run)
    return {setting: _tables_of(run, setting, ratios.get(setting)) for setting in run.settings}


def _tables_of(run: RunSummary, setting: Setting, ratios: Table | None) -> list[Table]:
    ranked = rankings(run, setting)
    found = [
        ranking_table(run, ranked[0]),
        throughput_table(run, setting) if len(ranked) > 1 else None,
        ratios,
        pair_table(run, setting),
        crossover_table(run, setting),
        memory_table(run, setting),
        least_memory_table(run, setting),
        measures_table(run, setting),
        program_table(run, setting),
    ]
    return [each for each in found if each is not None]


def write_report(run: RunSummary, figures: Sequence[Figure]) -> Path:
    """Write ``report.md`` into the run's folder."""
    return write_document(run.folder, report_parts(run, figures))


@dataclass(frozen=True)
class RunDescription:
    """A run in sentences, for reports of any form.

    Attributes:
        run_id: The run's name.
        command: The command that measures the same.
        lines: Machine, libraries, inputs, checkout, proofs of limits, drift.
        caveats: The reasons to doubt the figures.
        validation: The readers that read the output back, and their verdicts.
        invisible: Backends without an allocation curve, with the reason.
        costs: The time that each probe adds to a write.
    """

    run_id: str
    command: str
    lines: Sequence[str]
    caveats: Sequence[str]
    validation: Sequence[str]
    invisible: Sequence[str]
    costs: Sequence[str]


def describe_run(run: RunSummary) -> RunDescription:
    """Describe a run: its machine and software, and the readers of the output."""
    return RunDescription(
        run_id=run.run_id,
        command=command_of(run.environment),
        lines=[*_environment(run), *drift_words(run)],
        caveats=[*run.warnings(), *drift_warnings(run)],
        validation=_validation(run),
        invisible=_invisible(run),
        costs=probe_costs(run),
    )


def report_parts(run: RunSummary, figures: Sequence[Figure]) -> list[str]:
    """The report, part by part: conditions, caveats, tables, figures, and the verdict."""
    described = describe_run(run)
    parts = [f"# Run {run.run_id}", _WHERE_THE_VERDICT_IS, bullets(described.lines)]
    parts += caveats(described.caveats)
    if described.validation:
        first, *more = described.validation
        parts.append("\n".join([first, *(f"- {line}" for line in more)]))
    parts += [table_section(table) for table in run_tables(run)]
    parts += reading(run)
    parts += [figure_section(figure) for figure in figures]
    if described.invisible:
        parts.append(f"Without an allocation curve:\n\n{bullets(described.invisible)}")
    if described.costs:
        parts.append(f"## Cost of the probes\n\n{PROBES_OF_SAMPLES}\n\n{bullets(described.costs)}")
    return [*parts, f"## The command\n\n```console\n$ {described.command}\n```", *_verdict(run)]


_WHERE_THE_VERDICT_IS = (
    "[The verdict](#verdict) at the end says who wins, and shows code that writes the same way."
)
_INTERVALS = (
    "Medians with three digits; in brackets the interval, from order statistics: 95 % with six samples or "
    "more, else the whole range. Bold marks the best of a column and all ties with it, block by block; with "
    "one sample per backend, nothing is bold. *x best* is the speed relative to the fastest, block by block, "
    "with its interval from signed ranks, and `~` if it does not differ significantly from 1; *detectable* "
    "is the difference that samples with this noise detect 8 times in 10, for one pair, uncorrected. "
    "*peak MB* is the growth of RSS: the exact peak of resident memory during the write minus the baseline "
    "before it, which includes the mapped input. MB is 10^6 bytes; MB/s counts Arrow data."
)


def reading(run: RunSummary) -> list[str]:
    """The meaning of the columns and marks of a run's tables, in Markdown."""
    several = any(len({each.cell.rows for each in run.of(setting)}) > 1 for setting in run.settings)
    return [
        _INTERVALS,
        RATIO_LEGEND,
        *([PAIR_LEGEND] if run.pairs else []),
        *([CROSSOVER_LEGEND] if several else []),
        MEMORY_LEGEND,
        *([LEAST_MEMORY_LEGEND] if run.limit_trials else []),
        *([VARIATION_LEGEND] if variation_tables(run) else []),
        *([BUILD_LEGEND] if build_tables(run) else []),
    ]


PROBES_OF_SAMPLES = "Only the first of these probes runs during timed samples."
"""The meaning of the costs of probes."""


def _verdict(run: RunSummary) -> list[str]:
    found = conclude(run)
    parts = ["## Verdict"]
    for each in found:
        parts += [f"**{each.title}**", bullets(each.lines)]
        if each.code is not None:
            parts += [f"To write like {each.writer}:", f"```python\n{each.code}\n```"]
    return [*parts, *(verdict_caveats(run) if found else ["No sample was taken."])]


def _environment(run: RunSummary) -> list[str]:
    environment = run.environment
    options = environment["options"]
    huge_pages = environment["transparent_huge_pages"]
    here = "On the driver of a cluster, whose hosts took the samples: " if hosts_of(run) else ""
    lines = [f"{here}{machine(environment)}, transparent huge pages {huge_pages}.", *host_lines(run)]
    lines += [software(environment)]
    lines += [
        f"In the environment {each['name']}: {software(each)}" for each in environment.get("pythons", ())
    ]
    lines += [_input(data, options) for data in environment["inputs"]]
    lines += checkout(environment)
    lines += [_proof(proof) for proof in environment["limit_proofs"]]
    lines += [_resumed(each) for each in environment.get("resumed", ())]
    return lines + _retaken(run)


def _resumed(again: dict[str, Any]) -> str:
    return f"Resumed on {again['at']}, at a load of {again['load_before']:.1f}: what was left was taken then."


def _retaken(run: RunSummary) -> list[str]:
    """A line on the samples that were replaced; nothing where none was."""
    again = len(run.disturbed)
    if not again:
        return []
    taken = f"{counted(again, 'sample')} {'was' if again == 1 else 'were'} taken again"
    why = "since other processes ran during some of their blocks"
    return [f"{taken}, {why}; the original samples are in {DISTURBED}."]


def _input(data: dict[str, Any], options: dict[str, Any]) -> str:
    row_bytes = data["arrow_bytes"] / data["rows"]
    columns, rows = counted(data["columns"], "column"), counted(data["chunk_rows"], "row")
    return (
        f"Input {data['source']}: {columns}, {row_bytes:,.0f} bytes a row as Arrow; "
        f"seed {options['seed']}, {rows} a batch."
    )


def _proof(proof: dict[str, Any]) -> str:
    share = proof["died_at_bytes"] / proof["limit_bytes"]
    return (
        f"The limit of {proof['limit_bytes'] / 1e6:,.0f} MB ({proof['kind']}) is proved: "
        f"a test process was {proof['ending']} at {share:.2f} of it."
    )


def _validation(run: RunSummary) -> list[str]:
    if not run.verdicts:
        return []
    engines = ", ".join(dict.fromkeys(verdict["engine"] for verdict in run.verdicts))
    contents = {verdict["content_hash"] for verdict in run.verdicts}
    wrong = {verdict["content_hash"] for verdict in run.verdicts if verdict["outcome"] == "wrong_output"}
    held = {verdict["content_hash"] for verdict in run.verdicts if verdict["outcome"] == "ok"} - wrong
    right = f"{len(held)} of {counted(len(contents), 'distinct output')}"
    hold = "holds" if len(contents) == 1 else "hold"
    lines = [f"Read back by {engines}: {right} {hold} the rows that were written."]
    lines += [f"Wrong output of {each}" for each in wrong_outputs(run)]
    written = {sample["output"]["content_hash"] for cell in run.cells for sample in cell.good}
    unread = len(written - contents)
    if unread:
        gone = ": its files went when the run was interrupted" if run.environment.get("resumed") else ""
        lines.append(
            f"{counted(unread, 'distinct output')} {'was' if unread == 1 else 'were'} not read back{gone}."
        )
    excused = sum(verdict["outcome"] == "excused" for verdict in run.verdicts)
    if excused:
        why = "the reader also fails on pyarrow's file of the same rows"
        lines.append(f"{counted(excused, 'reading')} {'is' if excused == 1 else 'are'} excused: {why}.")
    return lines


def _invisible(run: RunSummary) -> list[str]:
    return [
        f"{each['backend']}, {each['mode']}: n/a, {each['reason']}"
        for each in run.allocations
        if each["reason"] is not None
    ]


HTML_REPORT = "report.html"
_TEMPLATE = "report.html.jinja"
_NUMBER = re.compile(r"^([+-]?[\d,]*\.?\d+(?:e[+-]?\d+)?)([KM]?)")
_SCALES = {"": 1.0, "K": 1e3, "M": 1e6}


def write_html(run: RunSummary) -> Path:
    """Write ``report.html`` into the run's folder.

    Raises:
        MissingExtraError: Jinja2 or matplotlib is not installed.
    """
    path = run.folder / HTML_REPORT
    path.write_text(html_report(run), encoding="utf-8")
    return path


def html_report(run: RunSummary) -> str:
    """The page: findings, caveats, figures and tables of each setting, the machine, and the command.

    Raises:
        MissingExtraError: Jinja2 or matplotlib is not installed.
    """
    try:
        from jinja2 import Environment, StrictUndefined
    except ModuleNotFoundError as error:
        raise MissingExtraError("jinja2", "bench", "write report.html") from error
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["sort_key"] = _sort_key
    source = resources.files("spillway.bench").joinpath(_TEMPLATE).read_text(encoding="utf-8")
    return environment.from_string(source).render(_content(run))


def _content(run: RunSummary) -> dict[str, Any]:
    """The content of the page, from the same parts as ``report.md``."""
    verdicts = conclude(run)
    tables = tables_by_setting(run)
    titles = [setting_title(setting) for setting in run.settings]
    return {
        "described": describe_run(run),
        "reading": reading(run),
        "across": _embedded(charts_across(run)),
        "variations": [
            {"title": table.title, "table": table} for table in (*build_tables(run), *variation_tables(run))
        ],
        "probes_of_samples": PROBES_OF_SAMPLES,
        "verdict_caveats": verdict_caveats(run),
        "settings": [
            {
                "title": title,
                "id": f"setting-{place}",
                "headline": headline(rankings(run, setting)[0]),
                "verdict": next((each for each in verdicts if each.title == title), None),
                "figures": _embedded(charts_of(run, setting)),
                "tables": [_short_title(table, title) for table in tables[setting]],
            }
            for place, (setting, title) in enumerate(zip(run.settings, titles, strict=True))
        ],
    }


def _embedded(charts: Sequence[Chart]) -> list[dict[str, str]]:
    """Charts with their titles and the lines below as text."""
    return [{"title": each.title, "below": each.below, "drawing": embedded(each)} for each in charts]


def _short_title(table: Table, setting: str) -> dict[str, Any]:
    """A table, with the part of its title that the section does not have already."""
    return {"title": table.title.removesuffix(setting).rstrip(": ") or table.title, "table": table}


def _sort_key(text: str) -> str:
    """The number that a table's text begins with; nothing where it begins with none."""
    found = _NUMBER.match(text)
    return "" if found is None else repr(float(found[1].replace(",", "")) * _SCALES[found[2]])


_MEGABYTE = 1e6
# name, value of a sample, unit, and what a value is divided by for it; of all of them less is better
_BENCHMARKED: tuple[tuple[str, Metric, str, float], ...] = (
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
        _benchmark(run, cell, figure, found)
        for cell in run.cells
        if cell.is_right
        for figure in _BENCHMARKED
        if (found := cell.estimate(figure[1])) is not None
    ]


def _benchmark(
    run: RunSummary, cell: CellSummary, figure: tuple[str, Metric, str, float], found: Estimate
) -> dict[str, Any]:
    name, _, unit, scale = figure
    python = next(
        (each for each in run.environment.get("pythons", ()) if each["name"] == cell.cell.python),
        run.environment,
    )["python"]["version"]
    version = cell.good[0]["backend_version"]
    return {
        "name": f"{_unambiguous(cell.cell)}: {name}",
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


def _unambiguous(cell: Cell) -> str:
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
        writer.writerows([_cell_of_csv(value) for value in row.values()] for row in batch.to_pylist())
    return text.getvalue()


def _cell_of_csv(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list | dict | bool) else value
