"""The commands that read runs: ``report``, ``compare``, ``export`` and ``advise``."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from textwrap import fill, indent
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from spillway._wording import counted
from spillway.cli.common import (
    INTERRUPTED,
    RunFolder,
    Verbose,
    fail,
    failing,
    listed,
    percentage,
    print_tables,
    quiet_when_closed,
    size,
    write_whole,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from spillway.bench.advice import Demand, Plan
    from spillway.bench.compare import Comparison, Measure
    from spillway.bench.summary import RunSummary, Setting
    from spillway.harness.report import Table


def report(
    run: RunFolder,
    *,
    verbose: Verbose = False,
) -> None:
    """Rebuild the report of a run from its samples.

    Use this for a run that was killed before its report, for samples from
    another machine, and after an update with a better report. Nothing is
    measured, and no sample changes: tables, verdict, figures and report.md are
    rebuilt from samples.jsonl and the files next to it.

    Exit status as in `spillway bench`: 1 if the run contains wrong output of
    Spillway's own writer; 2 if there is no run.
    """
    from rich.console import Console

    from spillway.bench.record import SAMPLES
    from spillway.runs import find_run

    with failing("report"):
        status = report_run(Console(), find_run(run, SAMPLES), verbose=verbose)
    if status:
        raise typer.Exit(status)


def report_run(
    console: Console,
    folder: Path,
    *,
    verbose: bool,
    interrupted: bool = False,
    validation: Sequence[str] = (),
) -> int:
    """Write the report from the run's files and print the important parts; return the exit status.

    Args:
        console: The console to print to.
        folder: The run's folder.
        verbose: All tables, not only those of speed.
        interrupted: Ctrl-C has just ended the run.
        validation: Lines that say what has just been validated.
    """
    from spillway.bench.figures import draw_figures
    from spillway.bench.report import describe_run, run_tables, write_html, write_report
    from spillway.bench.summary import read_run, status_of, wrong_outputs
    from spillway.bench.tables import LEGEND

    run = read_run(folder)
    with console.status("drawing figures"):
        path = write_report(run, draw_figures(run))
        page = write_html(run)
    tables = run_tables(run) if verbose else _short_tables(run)
    print_tables(console, tables, [LEGEND] if tables else [], describe_run(run).caveats)
    wrong = wrong_outputs(run)
    for each in wrong:
        console.print(f"wrong output of {each}", style="red", highlight=False, markup=False)
    if wrong and not (folder / "outputs").exists():
        console.print("--keep-output keeps the files, for `spillway inspect`", highlight=False, markup=False)
    for line in validation:
        console.print(line, highlight=False, markup=False)
    if interrupted:
        covered = "covers the samples that were taken" if run.cells else "holds no sample: none was taken"
        console.print(f"interrupted: the report {covered}", style="yellow")
        if "hosts" not in run.environment:  # executors took its samples: no run of this machine goes on
            options = run.environment["options"]
            own = " --input FILE" if "file" in options["datasets"] else ""
            pythons = "".join(f" --python {name}=PATH" for name in options.get("pythons", ()))
            again = f"spillway bench --resume {folder}{own}{pythons} continues it"
            console.print(again, style="yellow", highlight=False, markup=False, soft_wrap=True)
    console.print(f"report: {path}, and {page.name} beside it", highlight=False, markup=False, soft_wrap=True)
    _print_verdict(console, run)
    return INTERRUPTED if interrupted else status_of(run)


def _short_tables(run: RunSummary) -> list[Table]:
    """Who is how fast; of one backend in two Python environments how they compare, unless it failed."""
    from spillway.bench.conclusion import build_tables
    from spillway.bench.tables import short_tables

    builds = build_tables(run)
    asked = {each.cell.backend for each in run.cells}
    asked |= {each["backend"] for each in run.environment["absent_backends"]}
    is_alone = len(asked) == 1 and all(each.is_right for each in run.cells)
    return builds if builds and is_alone else [*builds, *short_tables(run)]


def _print_verdict(console: Console, run: RunSummary) -> None:
    """Print the verdict, with which the report ends too."""
    from spillway.bench.conclusion import conclude, verdict_caveats

    for each in conclude(run):
        console.print()
        console.print(f"Verdict: {each.title}", style="bold", highlight=False, markup=False)
        for line in each.lines:
            hanging = fill(
                line, console.width, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False
            )
            console.print(hanging, highlight=False, markup=False)
        if each.code is not None:
            console.print(f"To write like {each.writer}:", highlight=False, markup=False)
            code = indent(each.code, "    ")
            console.print(code, style="cyan", highlight=False, markup=False, soft_wrap=True)
    console.print()
    for line in verdict_caveats(run):
        console.print(line, highlight=False, markup=False)


_TWO = 2
_BEYOND_GATE = 1
_UNTOLD = 2


def compare(
    runs: Annotated[
        list[Path],
        typer.Argument(
            help="Folders of two runs, the old one first; or of one run, to compare its two Python "
            "environments or two of its backends."
        ),
    ],
    *,
    backend: Annotated[
        str | None,
        typer.Option(
            help="For one run, OLD,NEW: the two backends to compare. For two runs, the backends to "
            "compare; all by default."
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            help="speed, memory, size, cpu, time, allocated: one or more, separated by commas; by "
            "default speed,memory,size, and time,cpu,memory,size for two Python environments.",
            show_default=False,
        ),
    ] = None,
    gate: Annotated[
        str | None,
        typer.Option(
            help="Exit with 1 if any compared metric got worse by more than this: 5%.", show_default=False
        ),
    ] = None,
    markdown: Annotated[
        Path | None,
        typer.Option(
            help="Markdown file to write the comparison to, for a comment on a pull request.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Compare two runs, or two backends or Python environments of a run, cell by cell.

    Two releases of a library, in two Python environments of one run. Samples
    are paired, so that what else the machine does affects both:

    \b
        spillway bench --backend polars --samples 12 --python old=A --python new=B
        spillway compare runs --gate 5%

    Two backends of one run, also paired:

    \b
        spillway compare runs --backend pyarrow-streaming,spillway

    Two runs, one before and one after a change. If the machine is busier
    during one of them, that looks like a change of the writer:

    \b
        spillway bench --backend mine --samples 12 --out before
        spillway bench --backend mine --samples 12 --out after
        spillway compare before after --gate 5%

    A change is printed only if it is statistically significant, else ~. The
    interval shows how large it may be. Runs that are not comparable are
    refused: those with different kinds of limit, rows or measuring code, and
    those of different machines, unless --metric names only size and allocated,
    which do not depend on the machine.

    Exit status 0: compared; with --gate, within the gate.

    Exit status 1, with --gate alone: a writer got worse by more than the gate,
    fails now, or is missing from the new run.

    Exit status 2: the runs cannot be compared, or there are too few samples
    for the gate; the message says why.
    """  # noqa: D301 - a backspace keeps the lines of a paragraph
    from rich.console import Console

    from spillway.bench.compare import gate_lines, markdown_of

    console = Console()
    with failing("compare"):
        share = None if gate is None else percentage("--gate", gate, below=100.0)  # a hundred times the bytes
        shown = _compared(runs, listed(backend or ""), metric)
        found = shown.found
        lines = [] if share is None else gate_lines(found, share)
        verdict, style, status = _verdict(found, share)
        if markdown is not None:
            write_whole(markdown_of(shown.tables, [verdict, *lines], shown.reading, shown.notes), markdown)
    with quiet_when_closed():
        print_tables(console, shown.tables, shown.reading, shown.notes)
        for line in lines:
            console.print(line, highlight=False, markup=False)
        if verdict and status != _UNTOLD:
            console.print(verdict, style=style, highlight=False)
    if status == _UNTOLD:
        fail("compare", verdict)
    if status:
        raise typer.Exit(status)


class _Shown(NamedTuple):
    """A comparison, its tables, the meaning of their columns, and what else to know."""

    found: Comparison
    tables: list[Table]
    reading: list[str]
    notes: list[str]


def _verdict(found: Comparison, share: float | None) -> tuple[str, str, int]:
    """The verdict on the gate with its style and the exit status."""
    if share is None:
        return "", "", 0
    gate = f"gate of {share:.1%}"
    if found.beyond(share) or found.lost:
        return f"{gate}: exceeded", "bold red", _BEYOND_GATE
    if found.is_blind:
        return f"{gate}: too few samples to tell a change of any size: take more --samples", "", _UNTOLD
    if found.unclear(share):
        return f"{gate}: not exceeded, but there are too few samples to exclude it", "bold yellow", 0
    return f"{gate}: kept", "bold green", 0


def _compared(runs: list[Path], backends: list[str], metric: str | None) -> _Shown:
    from spillway.bench.compare import (
        compare_backends,
        compare_pythons,
        compare_runs,
        comparison_tables,
        legend,
        pythons_of,
    )
    from spillway.bench.conclusion import BUILD_LEGEND, build_table
    from spillway.bench.record import SAMPLES
    from spillway.bench.summary import read_run
    from spillway.errors import OptionError
    from spillway.runs import find_run

    if len(runs) > _TWO:
        raise OptionError(f"give one run or two, not {len(runs)}")
    read = [read_run(find_run(each, SAMPLES)) for each in runs]
    of_pythons = len(read) == 1 and bool(pythons_of(read[0])) and len(backends) != _TWO
    measures = _measures(metric, of_pythons=of_pythons)
    if of_pythons:
        found = compare_pythons(read[0], measures, backends)
        notes = [*found.alone, *found.lost, *read[0].noise()]
        return _Shown(found, [build_table(read[0], found)], [BUILD_LEGEND], notes)
    if len(read) == _TWO:
        found = compare_runs(read[0], read[1], measures, backends)
    elif len(backends) == _TWO:
        found = compare_backends(read[0], backends[0], backends[1], measures)
    else:
        known = ", ".join(dict.fromkeys(each.cell.backend for each in read[0].cells))
        raise OptionError(f"a comparison within one run needs two backends: --backend OLD,NEW from {known}")
    names = ("",) if len(read) == 1 else (f"{read[0].run_id}: ", f"{read[1].run_id}: ")
    noise = [f"{name}{line}" for name, run in zip(names, read, strict=True) for line in run.noise()]
    notes = [*(f"differs: {each}" for each in found.differences), *found.alone, *noise]
    return _Shown(found, comparison_tables(found), legend(found), notes)


def _measures(text: str | None, *, of_pythons: bool) -> list[Measure]:
    from spillway.bench.compare import METRICS, usual_metrics
    from spillway.errors import OptionError

    if text is None:
        return usual_metrics(of_pythons=of_pythons)
    names = listed(text)
    if not names or set(names) - set(METRICS):
        raise OptionError(f"--metric {text!r}: choose from {', '.join(METRICS)}")
    return [METRICS[name] for name in dict.fromkeys(names)]


_BENCHMARKS = "github-action-benchmark"
_FORMS = (_BENCHMARKS, "csv", "parquet")


def export(
    run: RunFolder,
    *,
    to: Annotated[str, typer.Option(help="github-action-benchmark, csv or parquet.")],
    out: Annotated[
        Path | None,
        typer.Option(help="File to write; standard output by default.", show_default=False),
    ] = None,
) -> None:
    """Export a run to a format for other tools.

    csv and parquet contain a row for each sample, as returned by
    `spillway.load_run`; in CSV, lists are JSON. github-action-benchmark gets
    time, peak memory, file size and allocated bytes of each cell, as JSON for
    its tool customSmallerIsBetter.

    A file appears only once it is complete; an old one stays until then.

    Exit status 2: there is no run, or the file cannot be written.
    """
    from spillway.errors import OptionError
    from spillway.runs import find_run

    with failing("export"):
        if to not in _FORMS:
            raise OptionError(f"--to {to}: choose from {', '.join(_FORMS)}")
        folder = find_run(run)
        if to == "parquet":
            _write_parquet(folder, out)
        else:
            _write_text(_benchmarks(folder) if to == _BENCHMARKS else _csv(folder), out)


def _benchmarks(folder: Path) -> str:
    from spillway.bench.record import SAMPLES
    from spillway.bench.report import custom_benchmarks
    from spillway.bench.summary import read_run
    from spillway.errors import OptionError
    from spillway.harness.records import is_stored

    if not is_stored(folder / SAMPLES):
        raise OptionError(
            f"--to {_BENCHMARKS}: {folder} is not a run of `spillway bench`: only csv and parquet accept it"
        )
    run = read_run(folder)
    _say_what_is_left_out(run)
    return json.dumps(custom_benchmarks(run), indent=2) + "\n"


def _say_what_is_left_out(run: RunSummary) -> None:
    from spillway._wording import counted
    from spillway.bench.summary import outcome_words

    for each in run.cells:
        if not each.is_right:
            cell = f"{each.cell.backend}, {each.cell.mode}, {counted(each.cell.rows, 'row')}"
            typer.secho(f"left out: {cell}: {outcome_words(each.outcome)}", err=True, fg="yellow")


def _csv(folder: Path) -> str:
    from spillway.bench.report import comma_separated
    from spillway.runs import load_run

    return comma_separated(load_run(folder))


def _write_parquet(folder: Path, out: Path | None) -> None:
    from spillway.errors import OptionError
    from spillway.runs import load_run
    from spillway.writer import write_parquet

    if out is None and sys.stdout.isatty():
        raise OptionError("--to parquet: a terminal cannot show Parquet: name a file with --out")
    write_parquet(load_run(folder), sys.stdout.buffer if out is None else out)


def _write_text(text: str, out: Path | None) -> None:
    if out is None:
        sys.stdout.write(text)
    else:
        write_whole(text, out)


_SCALES = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9}
_SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0, "day": 86_400.0}
_HOURS_OF_MONTH = 730.0
_SECONDS_OF_MONTH = _HOURS_OF_MONTH * 3600
_BILLION = 1e9


def advise(  # noqa: PLR0913 - one argument per option of the command
    run: RunFolder,
    *,
    rate: Annotated[str, typer.Option(help="Rate of incoming rows: 1M/s, 200K/s, 30M/min, 2G/day.")],
    memory: Annotated[str, typer.Option(help="Memory of a machine: 2GB, 512MiB.")],
    price: Annotated[str, typer.Option(help="Price of a machine: 50/month, 0.07/h; in any currency.")],
    cores: Annotated[int, typer.Option(help="Cores of a machine.")] = 1,
    batch: Annotated[
        str | None,
        typer.Option(help="Rows per file: 200K. By default the cheapest size.", show_default=False),
    ] = None,
    mode: Annotated[
        str, typer.Option(help="The form in which rows arrive, one of the run's modes.")
    ] = "batches",
    process_setting: Annotated[
        str,
        typer.Option(help="One of the run's process settings, as in `bench`."),
    ] = "default",
) -> None:
    """Estimate which writer, batch size and machines a load needs, and what they cost.

    The estimates come from the run, so measure your own rows, on a machine
    like the one that you would rent, under its memory limit.

    \b
        spillway bench --input my.parquet --memory 2GB --samples 12
        spillway advise runs --rate 1M/s --memory 2GB --price 50/month

    Workers are processes, planned to be busy 70 % of the time. The table shows
    the best plan for each writer. The lines below it say what limits the first
    plan, how certain it is, and the code that writes like it.
    """  # noqa: D301 - a backspace keeps the lines of a paragraph
    from rich.console import Console

    from spillway.bench.advice import Demand, best_of
    from spillway.bench.advice import advise as plans_of
    from spillway.bench.record import SAMPLES
    from spillway.bench.summary import read_run
    from spillway.errors import OptionError
    from spillway.runs import find_run

    console = Console()
    with failing("advise"):
        found = read_run(find_run(run, SAMPLES))
        setting = _setting(found, mode, process_setting)
        if cores < setting.threads:
            raise OptionError(
                f"--cores {cores}: the run's processes have {setting.threads} each: give as many"
            )
        rows = None if batch is None else round(_amount("--batch", batch))
        demand = Demand(_rate(rate), size("--memory", memory), cores, _price(price), rows)
        plans = best_of(plans_of(found, setting, demand))
    print_tables(console, [_table(plans, setting, demand)], _legend(setting), found.warnings())
    for line in _advice_verdict(plans, demand):
        console.print(line, highlight=False, markup=False)


def _setting(run: RunSummary, mode: str, process: str) -> Setting:
    """The setting of a load: writers under different process settings are never compared with each other.

    Of two Python environments the new one counts.
    """
    from spillway.bench.compare import pythons_of
    from spillway.bench.tables import setting_title
    from spillway.errors import OptionError

    newest = next(reversed(pythons_of(run)), "")
    of_mode = [each for each in run.settings if each.mode == mode and each.python == newest]
    found = [each for each in of_mode if each.arm == process]
    for option, given, left, names in (
        ("--mode", mode, of_mode, [each.mode for each in run.settings]),
        ("--process-setting", process, found, [each.arm for each in of_mode]),
    ):
        if not left:
            raise OptionError(f"{option} {given}: the run has {', '.join(dict.fromkeys(names))}")
    if len(found) > 1:
        known = "; ".join(setting_title(each) for each in found)
        raise OptionError(
            f"--mode {mode}: the run has {len(found)} settings of it, and a load has one: measure it "
            f"alone by `spillway bench`. They are: {known}"
        )
    return found[0]


def _amount(option: str, text: str) -> float:
    """A number with K, M or G.

    Raises:
        OptionError: It is not a number, or not above 0.
    """
    from spillway.errors import OptionError

    match = re.fullmatch(r"(\d+(?:\.\d+)?)([KMG]?)", text.strip().upper().replace("_", ""))
    if match is None or float(match[1]) == 0:
        raise OptionError(f"{option} {text!r}: give a number above 0, as 200K or 1.5M")
    return float(match[1]) * _SCALES[match[2]]


def _rate(text: str) -> float:
    from spillway.errors import OptionError

    number, _, unit = text.partition("/")
    if unit not in _SECONDS:
        raise OptionError(
            f"--rate {text!r}: give rows per unit of time, such as 1M/s, 30M/min, 100M/h or 2G/day"
        )
    return _amount("--rate", number) / _SECONDS[unit]


def _price(text: str) -> float:
    from spillway.errors import OptionError

    number, _, unit = text.partition("/")
    if unit not in {"month", "h"}:
        raise OptionError(
            f"--price {text!r}: give the price of a machine per unit of time, such as 50/month or 0.07/h"
        )
    return _amount("--price", number) * (_HOURS_OF_MONTH if unit == "h" else 1.0)


def _table(plans: list[Plan], setting: Setting, demand: Demand) -> Table:
    from spillway.bench.tables import megabytes
    from spillway.harness.report import Entry, Table

    rows = [
        [
            Entry(each.cell.cell.backend, best=place == 0 and each.cost is not None),
            Entry(f"{each.cell.cell.rows:,}"),
            Entry(f"{each.speed[0]:,.0f}"),
            Entry(megabytes(each.worker_bytes)),
            Entry(f"{each.workers[0]:,}" if each.is_sure else f"{each.workers[2]:,}-{each.workers[1]:,}"),
            Entry("-" if each.machines is None else f"{each.machines:,}"),
            Entry("does not fit" if each.cost is None else f"{each.cost:,.2f}"),
        ]
        for place, each in enumerate(plans)
    ]
    machine = f"{demand.cores} cores" if demand.cores > 1 else "1 core"
    return Table(
        f"{demand.rows_per_second:,.0f} rows/s of {setting.dataset} on machines of {machine} and "
        f"{demand.memory_bytes / 1e6:,.0f} MB",
        ("backend", "batch", "rows/s", "MB", "workers", "machines", "a month"),
        rows,
        [],
    )


def _legend(setting: Setting) -> list[str]:
    from spillway.bench.plan import process_setting

    process = f", {words}" if (words := process_setting(setting.arm).words) else ""
    reading = (
        f"batch: rows of a file; rows/s and MB: of a worker; workers: with the interval of its speed. "
        f"Measured with {setting.codec}{process}, chunks of {setting.chunk_rows:,} rows and the machine of "
        f"the run: a slower one takes more."
    )
    return [reading]


def _advice_verdict(plans: list[Plan], demand: Demand) -> list[str]:
    from textwrap import indent

    from spillway.backends import Settings
    from spillway.backends.calls import call_of
    from spillway.bench.plan import how_to_have

    best = plans[0]
    if best.cost is None:
        return [f"No writer fits a machine of {demand.memory_bytes / 1e6:,.0f} MB: give it more memory."]
    cell = best.cell.cell
    of_billion = best.cost / (demand.rows_per_second * _SECONDS_OF_MONTH) * _BILLION
    workers, machines = counted(best.workers[0], "worker"), counted(best.machines or 0, "machine")
    fit = counted(best.workers_per_machine, "worker")
    filled = f"{best.seconds_to_fill:,.1f} s"
    plan = f"{cell.backend}, files of {cell.rows:,} rows, {workers} on {machines}"
    lines = [
        f"{plan}: {best.cost:,.2f} a month, {of_billion:.3g} for a billion rows.",
        f"Limited by {best.limited_by}: a machine holds {fit}. Each fills a file in {filled}.",
        _how_sure(plans),
    ]
    settings = Settings(
        codec=cell.codec,
        level=cell.level,
        row_group_rows=cell.row_group_rows,
        threads=cell.threads,
        dataset=cell.dataset,
    )
    code = call_of(cell.backend, cell.mode, settings)
    written = [] if code is None else ["To write so:", indent(code, "    ")]
    return [*lines, *how_to_have(cell.arm), *written]


def _how_sure(plans: list[Plan]) -> str:
    """A sentence about the interval, and about the next cheapest writer."""
    best = plans[0]
    workers = "as many workers" if best.is_sure else f"{best.workers[2]:,} to {best.workers[1]:,} workers"
    lines = f"How sure: over the interval of its speed ({len(best.cell.good)} samples) it takes {workers}"
    others = [each for each in plans[1:] if each.cost is not None]
    if not others:
        return f"{lines}; no other writer fits."
    other = others[0]
    name = other.cell.cell.backend
    if other.machine_bounds[0] > best.machine_bounds[1]:
        more = "costs more whatever the interval"
    elif other.workers[2] > best.workers[1]:
        more = "takes more workers whatever the interval"
    else:
        more = "may do with as few: the samples cannot tell"
    return f"{lines}; {name}, the next, {more}."
