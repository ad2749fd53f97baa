"""The figures of the README and of the site's page of results, from the newest run of the job ``front``.

``scripts/targets.py`` measures it. One table handed over whole comes first, as that is what most programs
have: no writer copies there. Batches that arrive one at a time come second. Real tables are those of the jobs
``real-...``, appends those of the newest run in ``results/race/`` that has enough of them.
"""

from __future__ import annotations

import io
import re
import statistics
import sys
from typing import TYPE_CHECKING, Any, TypeVar

import other_runs
from findings import (
    JOB_OF_TABLE,
    KNOWN,
    REAL,
    UNSEEN,
    UNTUNED,
    Contest,
    cells,
    faster,
    median,
    of_tables,
    speed_ratio,
)
from spillway._wording import and_joined, counted
from spillway.backends import OWN_LIBRARY, library
from spillway.bench.side_tables import cgroup_growth
from spillway.bench.summary import file_bytes, growth, speed
from spillway.bench.tables import contract, ranking_table, rankings, ratio_text
from spillway.harness import records
from spillway.harness.report import REPORT, Table, checkout, markdown_table, terminal_tables
from spillway.race.record import RACES
from stored_runs import stored_run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from spillway.bench.summary import CellSummary, Metric, RunSummary
    from spillway.bench.tables import Ranking
    from spillway.harness.statistics import Ratio

PICTURE = re.compile(r"^!\[(.*)\]\((.*)\)$", re.MULTILINE)
Found = TypeVar("Found")
_LIMITED = "spillway-16mb"
# 1 % more than the file was written.
_SPILLS_FROM = 1.01
# The race that the README quotes: its threads, the least number of races of each committer, and these.
_RACERS, _RACES = 100, 5
_COMMITTERS = ("spillway", "delta-rs-retry")
_COLUMNS = 80
_MODES = {"table": "one table", "batches": "batches"}


def blocks(results: Path) -> dict[str, str]:
    """The blocks of the README by their names; ends the program where the run may not be quoted."""
    run = _front(results)
    cells = _largest(run, "table")
    return {
        "picture": _picture(run, results.parent),
        "facts": _facts(cells, results),
        "bench": _terminal(run, "table"),
        "how_fast": _how_fast(run, results),
    }


def tables(results: Path) -> dict[str, str]:
    """The blocks of the site's page of results: the whole tables, and what follows from them."""
    run = _front(results)
    return {
        "front_table": _ranking_table(run, "table"),
        "front_batches": _ranking_table(run, "batches"),
        "headline": _headline(run, results),
        "better": _better(run, results),
    }


def _front(results: Path) -> RunSummary:
    run = other_runs.quoted(results / "targets", "front")
    if run is None:
        sys.exit(
            "scripts/render.py: results/targets/front/ holds no run: scripts/targets.py measure ... front"
        )
    return run


def _largest(run: RunSummary, mode: str) -> dict[str, CellSummary]:
    """The cells of a mode at the most rows, by backend."""
    return _cells(_rankings(run, mode)[-1])


def _facts(cells: dict[str, CellSummary], results: Path) -> str:
    """Speed, memory and commits, each in a line with its figure."""
    rows = cells["spillway"].cell.rows
    return "\n".join(
        [
            f"- **Fast.** Rows/s of a table of {rows:,} rows: {_lead(cells)}, the fastest other writer.",
            f"- **Small.** Resident memory grows in that write by {_compared(cells, growth)}.",
            _appends(results),
        ]
    )


def _appends(results: Path) -> str:
    """Appends to a Delta table by threads of one process, beside those of delta-rs."""
    found = _newest_race(results)
    ours, theirs = (statistics.median(found[committer]) for committer in _COMMITTERS)
    return (
        f"- **Many writers.** {_RACERS} threads append once each to one Delta table on a local disk: "
        f"{ours:,.0f} appends/s, all synced; delta-rs with retries {theirs:.1f}."
    )


def _newest_race(results: Path) -> dict[str, list[float]]:
    """The appends per second of each committer, from the newest run that has races of both."""
    for folder in sorted((results / "race").glob(f"*/{records.ENVIRONMENT}"), reverse=True):
        if records.read_json(folder)["store"] != "local disk":
            continue
        races = records.read_lines(folder.with_name(RACES))
        found = {each: _speeds(races, each) for each in _COMMITTERS}
        if all(len(speeds) >= _RACES for speeds in found.values()):
            return found
    sys.exit(f"scripts/render.py: no run in results/race/ has {_RACES} races of {_RACERS} threads")


def _speeds(races: list[dict[str, Any]], committer: str) -> list[float]:
    wanted = {
        "committer": committer,
        "writers": _RACERS,
        "processes": 1,
        "appends": 1,
        "workload": "append-only",
        "partitions": "own",
    }
    return [
        race["appends_per_second"]
        for race in races
        if race["outcome"] == "ok" and wanted.items() <= race["cell"].items()
    ]


def _terminal(run: RunSummary, mode: str) -> str:
    """The table of a mode as the terminal shows it."""
    from rich.console import Console  # noqa: PLC0415 - one block is drawn by it

    console = Console(file=io.StringIO(), width=_COLUMNS)
    for part in terminal_tables(ranking_table(run, _rankings(run, mode)[-1], is_short=True), _COLUMNS):
        console.print(part)
    lines = [line.rstrip() for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]
    return "\n".join(["```text", *lines, "```"])


def _how_fast(run: RunSummary, results: Path) -> str:
    """Whole tables by their size, real tables, and batches, each with the peers that do better."""
    table, batches = (
        {each.rows: _cells(each) for each in _rankings(run, mode)} for mode in ("table", "batches")
    )
    memory = f"Resident memory grows by {_compared(batches[max(batches)], growth)}"
    return "\n".join(
        [
            f"- **One table** of generated logs, in rows/s: {_leads(table)}.",
            _real_tables(results),
            f"- **Batches** of the same logs, 10,000 rows at a time: {_leads(batches)}. {memory}.",
        ]
    )


def _rankings(run: RunSummary, mode: str) -> list[Ranking]:
    """The rankings of a mode, the fewest rows first."""
    setting = next(setting for setting in run.settings if setting.mode == mode)
    return sorted(rankings(run, setting), key=lambda each: each.rows)


def _ranking_table(run: RunSummary, mode: str) -> str:
    """The writers of a mode at the most rows, the fastest first; all of them wrote what was asked."""
    ranking = _rankings(run, mode)[-1]
    assert all(each.is_right for each in ranking.cells)
    table = ranking_table(run, ranking, is_short=True)
    rows = [row[:-1] for row in table.rows]  # without the outcome
    note = [contract(ranking.setting)] if mode == "batches" else []
    return markdown_table(Table(table.title, table.header[:-1], rows, note))


def _picture(run: RunSummary, root: Path) -> str:
    """The chart of the speed of each writer of whole tables, with its finding for those who do not see it."""
    known = PICTURE.findall((run.folder / REPORT).read_text())
    found = [(title, place) for title, place in known if place.startswith("figures/speed-table")]
    if not found:
        sys.exit(f"scripts/render.py: run {run.run_id} has no chart of speed: draw it by `spillway report`")
    title, place = found[0]
    rows, date = _rankings(run, "table")[-1].rows, f"{run.run_id[:4]}-{run.run_id[4:6]}-{run.run_id[6:8]}"
    return (
        f"![{title}]({run.folder.relative_to(root)}/{place})\n\n"
        f"*Generated logs of 52 columns, {rows:,} rows in one table, ZSTD level 1, one core, {date}.*"
    )


def _headline(run: RunSummary, results: Path) -> str:
    modes = {
        words: {each.rows: _cells(each) for each in _rankings(run, mode)}
        for mode, words in (("table", "One table"), ("batches", "Batches one at a time"))
    }
    by_rows = modes["One table"]
    largest = {words: cells[max(cells)] for words, cells in modes.items()}
    rows = f"{max(by_rows):,} rows"
    lines = [
        f"- **Speed**, times that of the fastest peer, tuned or not. {_said(modes, _leads)}",
        _real_tables(results),
        f"- **Resident memory**, {rows}. {_said(largest, lambda cells: _compared(cells, growth))}",
        f"- **Memory with page cache**, {rows}. {_said(largest, lambda of: _compared(of, cgroup_growth))}",
        _size(by_rows[max(by_rows)]),
        f"- **Written to disk**, {rows}. {_said(largest, _traffic)}",
    ]
    samples = min(len(each.good) for each in run.cells)
    built = " ".join(checkout(run.environment))
    source = f"`{run.folder.relative_to(results.parent)}`, {run.environment['cpu_model']}"
    where = f"{source}, medians of {samples} processes, 95 % intervals."
    return "\n".join([*lines, "", f"{where} {built}".strip()])


def _said(modes: dict[str, Found], text: Callable[[Found], str]) -> str:
    """Sentences, one for each mode."""
    return " ".join(f"{words}: {text(found)}." for words, found in modes.items())


def _cells(ranking: Ranking) -> dict[str, CellSummary]:
    return {each.cell.backend: each for each in ranking.cells if each.is_right}


def _peers(cells: dict[str, CellSummary]) -> list[CellSummary]:
    return [each for name, each in cells.items() if library(name) != OWN_LIBRARY]


def _leads(by_rows: dict[int, dict[str, CellSummary]]) -> str:
    return "; ".join(f"{_lead(cells)} at {rows:,} rows" for rows, cells in by_rows.items())


def _lead(cells: dict[str, CellSummary]) -> str:
    """The speed over that of the fastest peer, or the peers that the samples cannot tell from Spillway."""
    found = {each.cell.backend: speed_ratio(cells["spillway"], each) for each in _peers(cells)}
    level = [name for name, each in found.items() if each.low <= 1 <= each.high]
    slower_than = [name for name, each in found.items() if each.high < 1]
    fastest = max(_peers(cells), key=lambda each: median(each, speed)).cell.backend
    if level and not slower_than:
        return f"level with {and_joined(level)}"
    return f"{ratio_text(found[fastest])} times {fastest}"


def _real_tables(results: Path) -> str:
    """The speed on the real tables that came after all tuning, and each real table where a peer is faster."""
    runs = {name: _newest(results, JOB_OF_TABLE.format(name)) for name in (*KNOWN, *UNSEEN, *UNTUNED)}
    found = {each.what: each.found for each in of_tables("newer", UNTUNED, *[runs[name] for name in UNTUNED])}
    means = []
    for mode, words in _MODES.items():
        mean = found[f"{len(UNTUNED)} newer tables, {mode}: speed, geometric mean"]
        assert mean is not None
        means.append(f"{words} {ratio_text(mean)} times")
    slower = _slower(runs)
    return (
        f"- **{len(UNTUNED)} real tables** that came after all tuning, against the fastest peer of each with "
        f"default settings, geometric mean: {'; '.join(means)}. Of all {len(runs)} real tables: "
        f"{'; '.join(slower) or 'no peer is faster on any'}."
    )


def _slower(runs: dict[str, RunSummary]) -> list[str]:
    return [
        f"{words} {_slower_or_level(ratio)} {peer} on the table `{name}` ({ratio_text(ratio)})"
        for mode, words in _MODES.items()
        for name, run in runs.items()
        for peer, ratio in faster(run, mode)
    ]


def _slower_or_level(ratio: Ratio) -> str:
    return "slower than" if ratio.high < 1 else "level with"


def _better(run: RunSummary, results: Path) -> str:
    """Where peers do better: speed and size on real tables, and memory on generated logs."""
    runs = {name: _newest(results, JOB_OF_TABLE.format(name)) for name in (*REAL, *UNTUNED)}
    timed = {name: runs[name] for name in (*KNOWN, *UNSEEN, *UNTUNED)}
    larger = [
        f"larger than that of {peer} on the table `{name}`"
        for name, each in runs.items()
        for peer in Contest.of(cells(each, mode="table")).better(file_bytes, 1e6, "MB")
    ]
    leaner = [f"{words}: {_leaner(_cells(_rankings(run, mode)[-1]))}" for mode, words in _MODES.items()]
    rows = _rankings(run, "table")[-1].rows
    return "\n".join(
        [
            f"- **Speed**, {len(timed)} real tables: {'; '.join(_slower(timed)) or 'no peer is faster'}.",
            f"- **File**, {len(runs)} real tables: {'; '.join(larger) or 'no peer writes a smaller one'}.",
            f"- **Resident memory**, logs of {rows:,} rows: {'; '.join(leaner)}.",
        ]
    )


def _leaner(cells: dict[str, CellSummary]) -> str:
    """The peers that take less memory than Spillway with its defaults."""
    own = cells["spillway"]
    less = [each for each in _peers(cells) if median(each, growth) < median(own, growth)]
    told = [f"{each.cell.backend} {_megabytes(each, growth)}{_groups(each, own)}" for each in less]
    return f"{and_joined(told)}, spillway {_megabytes(own, growth)}" if told else "no peer takes less"


def _newest(results: Path, job: str) -> RunSummary:
    return stored_run(max(path.parent for path in (results / "targets" / job).glob(f"*/{REPORT}")))


def _compared(cells: dict[str, CellSummary], metric: Metric) -> str:
    """Spillway without and with a limit, each peer that takes less than the default, and the most of any."""
    own = cells["spillway"]
    peers = sorted(_peers(cells), key=lambda each: median(each, metric))
    less = [each for each in peers if median(each, metric) < median(own, metric)]
    limited = _megabytes(cells[_LIMITED], metric)
    shown = [*less, *[each for each in (peers[0], *_others(peers)) if each not in less]]
    told = [f"{each.cell.backend} {_megabytes(each, metric)}{_groups(each, own)}" for each in shown]
    return f'{_megabytes(own, metric)}, {limited} with `memory_limit="16MB"`; {", ".join(told)}'


def _others(peers: list[CellSummary]) -> list[CellSummary]:
    """The two peers that are known best beside pyarrow."""
    return [each for each in peers if each.cell.backend in ("polars", "duckdb")]


def _groups(cell: CellSummary, own: CellSummary) -> str:
    """The row groups of a file, where Spillway's has another number of them."""
    theirs, ours = (each.exact("row_groups") for each in (cell, own))
    return "" if theirs is None or theirs == ours else f" (in {counted(theirs[0], 'row group')})"


def _size(cells: dict[str, CellSummary]) -> str:
    smallest = min(_peers(cells), key=lambda each: median(each, file_bytes))
    own, limited = (
        f"{median(cells[name], file_bytes) / median(smallest, file_bytes):.2f} times"
        for name in ("spillway", _LIMITED)
    )
    peer = f"the smallest peer's ({smallest.cell.backend})"
    return f"- **File** of {smallest.cell.rows:,} rows: {own} {peer}, {limited} with the limit."


def _traffic(cells: dict[str, CellSummary]) -> str:
    """The bytes written for a file, for each writer that wrote more than the file."""
    more = [each for each in cells.values() if _written(each) > _SPILLS_FROM * median(each, file_bytes)]
    said = [
        f"{each.cell.backend} writes {_written(each) / 1e6:.0f} MB for a file of "
        f"{median(each, file_bytes) / 1e6:.0f} MB"
        for each in more
    ]
    return and_joined(said) or "no writer writes more than its file"


def _written(cell: CellSummary) -> float:
    return statistics.median(float(sample["use"]["bytes_written"]) for sample in cell.good)


def _megabytes(cell: CellSummary, metric: Metric) -> str:
    value = median(cell, metric) / 1e6
    return f"{value:.1f} MB" if value < 100 else f"{value:.0f} MB"  # noqa: PLR2004 - three digits
