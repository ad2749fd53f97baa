"""The report of a pipeline: ``report.md`` in its folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spillway._wording import counted
from spillway.errors import CorruptFileError
from spillway.harness import records
from spillway.harness.environment import noise_warnings
from spillway.harness.report import (
    Entry,
    Table,
    bullets,
    caveats,
    checkout,
    machine,
    software,
    table_section,
    write_document,
)
from spillway.spark.pipeline.record import PIPELINE, SCHEMA_VERSION

if TYPE_CHECKING:
    from pathlib import Path

_STAGES = {
    "start": "start Spark",
    "read": "plan the rows",
    "count": "count parts of lineitem",
    "write": "make, check, hash, write",
    "audit": "audit",
    "summarise": "summarise",
    "publish": "publish",
}
#: Stages whose time is one of rows.
_BY_ROW = ("count", "write", "audit", "summarise")
_LEGEND = (
    "*us a row* is the time of the stage over its rows. The audit reads rows back with Spark's vectorized "
    "reader before they are published, and compares their number and the sum of their hashes with those "
    "taken while they were written. Percentiles are "
    "within a ten-thousandth of the ranks. With a local master the JVM runs the tasks too, and its peak is "
    "not the driver's alone. MB is 10^6 bytes."
)


def read_record(folder: Path) -> dict[str, Any]:
    """The record of a run.

    Raises:
        CorruptFileError: The folder holds none, or more than one.
    """
    lines = records.read_lines(folder / PIPELINE)
    if len(lines) != 1:
        raise CorruptFileError(
            f"{folder / PIPELINE} holds {counted(len(lines), 'record')}; a pipeline has one"
        )
    return lines[0]


def write_report(folder: Path) -> Path:
    """Write ``report.md`` into the run's folder, from the files on disk."""
    environment = records.read_environment(folder, SCHEMA_VERSION)
    record = read_record(folder)
    parts = [f"# Pipeline {record['run_id']}", bullets(_environment(record, environment))]
    parts += caveats(warnings(record, environment))
    parts += ["## Outcome", bullets(_outcome(record))]
    parts += [table_section(table) for table in tables(record)]
    return write_document(folder, [*parts, _LEGEND])


def warnings(record: dict[str, Any], environment: dict[str, Any]) -> list[str]:
    """Caveats that a reader has to know before believing the figures."""
    found = noise_warnings(environment["load_before"], [record["host"]], record["process_seconds"])
    build = environment["native_build"]
    if build is not None and build["debug_assertions"]:
        found.append(
            "the native module is a build for tests, slower than a release: no figure here is to be quoted"
        )
    if not record["cell"]["master"].startswith("local"):
        found.append("host figures are those of the driver's machine; executors are elsewhere")
    return found


def tables(record: dict[str, Any]) -> list[Table]:
    """The tables of a run: its stages, and the summary of its rows."""
    found = [_stages(record)]
    summary = record["summary"]
    if summary is not None:
        found.append(_percentiles(summary))
        if "errors" in summary:
            found.append(_errors(summary))
    return found


def _environment(record: dict[str, Any], environment: dict[str, Any]) -> list[str]:
    cell = record["cell"]
    rows = "rows of files" if cell["rows"] is None else counted(cell["rows"], "row")
    seed = "" if cell["rows"] is None else f", seed {record['seed']}"
    return [
        f"{rows} of {cell['source']}{seed}; master {cell['master']}; {cell['codec']}; mode {cell['mode']}.",
        f"{machine(environment)}.",
        software(environment),
        *checkout(environment),
    ]


def _outcome(record: dict[str, Any]) -> list[str]:
    lines = []
    if record["outcome"] == "interrupted":
        lines.append(f"Interrupted in the stage {record['died_in']}.")
    if record["error"] is not None:
        lines.append(f"Failed in the stage {record['died_in']}: {record['error']['message']}")
    output, speed, driver = record["output"], record["throughput"], record["driver"]
    if output is None:
        lines.append("Nothing was committed.")
    else:
        where = "a folder" if output["version"] is None else f"version {output['version']} of a Delta table"
        lines.append(
            f"Committed once: {counted(output['rows'], 'row')}, {counted(output['files'], 'file')}, "
            f"{output['bytes'] / 1e6:,.1f} MB, as {where}; {output['writer_seconds']:,.1f} s in the writer."
        )
    if speed is not None:
        rate = f"{speed['megabytes_per_second']:,.0f} MB/s of Arrow data"
        lines.append(f"{speed['rows_per_second']:,.0f} rows/s, {rate}.")
    lines += _checks(record["checks"]) + _audit(record)
    if driver is not None:
        python, jvm = driver["python_peak_bytes"] / 1e6, driver["jvm_peak_bytes"] / 1e6
        growth, live = driver["python_growth_bytes"] / 1e6, driver["jvm_live_bytes"] / 1e6
        lines.append(
            f"Driver: {python:,.0f} MB at most of Python ({growth:,.0f} MB over its start), {jvm:,.0f} MB at "
            f"most of the JVM, {live:,.0f} MB of its heap in use at the end."
        )
    return lines


def _checks(found: dict[str, Any] | None) -> list[str]:
    if found is None or not found["failed"]:
        return []
    lines = [f"{name}: {counted(rows, 'row')} failed." for name, rows in found["failed"].items()]
    dropped, kept = found["rows_dropped"], found["rows_quarantined"]
    return [
        *lines,
        f"Of {counted(found['rows_read'], 'row')}, {dropped:,} were dropped and {kept:,} quarantined.",
    ]


def _audit(record: dict[str, Any]) -> list[str]:
    found = record["audit"]
    if found is None or not found["files"]:
        return ["Not audited."] if record["output"] is not None else []
    rows, files = counted(found["rows"], "row"), counted(found["files"], "file")
    return [f"Audited before publication: {found['reader']} read {rows} of {files} without a difference."]


def _stages(record: dict[str, Any]) -> Table:
    tasks = {each["stage"]: each for each in record["tasks"]}
    rows = record["output"] and record["output"]["rows"]
    lines = []
    for phase in record["phases"]:
        name, seconds = phase["phase"], phase["seconds"]
        known = tasks.get(name)
        counts = ("", "") if known is None else (f"{known['tasks']:,}", f"{known['failed']:,}")
        speeds = (
            (f"{rows / seconds:,.0f}", f"{seconds / rows * 1e6:,.2f}")
            if name in _BY_ROW and rows
            else ("", "")
        )
        lines.append([Entry(text) for text in (_STAGES[name], f"{seconds:,.1f}", *speeds, *counts)])
    header = ("stage", "seconds", "rows/s", "us a row", "tasks", "failed attempts")
    return Table("Stages", header, lines, [])


def _percentiles(summary: dict[str, Any]) -> Table:
    shown = ("p50", "p90", "p99", "max")
    lines = [
        [Entry(each["column"]), *(Entry("-" if each[of] is None else f"{each[of]:,.2f}") for of in shown)]
        for each in summary["percentiles"]
    ]
    return Table("Percentiles", ("column", "50 %", "90 %", "99 %", "most"), lines, [])


def _errors(summary: dict[str, Any]) -> Table:
    lines = [
        [
            Entry(each["service"] or "-"),
            Entry(each["hour"] or "-"),
            Entry(f"{each['rows']:,}"),
            Entry(f"{each['errors']:,}"),
            Entry(f"{100 * each['errors'] / each['rows']:.2f} %"),
        ]
        for each in summary["errors"]
    ]
    return Table("Errors by service and hour", ("service", "hour", "rows", "errors", "share"), lines, [])
