"""``spillway advise``: a run turned into a writer, a batch size, workers, machines and a price."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import typer

from spillway._wording import counted
from spillway.cli.common import fail, print_tables, reason
from spillway.cli.options import RunFolder  # noqa: TC001 - typer reads the annotations

if TYPE_CHECKING:
    from spillway.bench.advice import Demand, Plan
    from spillway.bench.summary import RunSummary, Setting
    from spillway.harness.report.table import Table

__all__ = ["advise"]

_SCALES = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9}
_SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0, "day": 86_400.0}
_HOURS_OF_MONTH = 730.0
_SECONDS_OF_MONTH = _HOURS_OF_MONTH * 3600
_BILLION = 1e9


def advise(  # noqa: PLR0913 - one argument per option of the command
    run: RunFolder,
    *,
    rate: Annotated[str, typer.Option(help="Rows that arrive: 1M/s, 200K/s, 30M/min, 2G/day.")],
    memory: Annotated[str, typer.Option(help="Memory of a machine: 2GB, 512MiB.")],
    price: Annotated[str, typer.Option(help="Price of a machine: 50/month, 0.07/h; in any currency.")],
    cores: Annotated[int, typer.Option(help="Cores of a machine.")] = 1,
    batch: Annotated[
        str | None,
        typer.Option(help="Rows of a file: 200K. By default the size that costs least.", show_default=False),
    ] = None,
    mode: Annotated[
        str, typer.Option(help="The form in which rows arrive, one of those that the run has.")
    ] = "batches",
    process_setting: Annotated[
        str,
        typer.Option(help="One of the process settings that the run has, as in `bench`."),
    ] = "default",
) -> None:
    """Say which writer, batch size and machines a load takes, and what they cost.

    It reckons with what the run measured on its machine: measure your own
    rows, on a machine such as you would rent, under its memory limit.

    \b
        spillway bench --input my.parquet --memory 2GB --samples 12
        spillway advise runs --rate 1M/s --memory 2GB --price 50/month

    Workers are processes, planned to be busy for 70 % of the time. The table
    has the best plan of each writer; below it stands what limits the first,
    how sure it is, and the code that writes so.
    """  # noqa: D301 - a backspace keeps the lines of a paragraph
    from rich.console import Console

    from spillway.bench.advice import Demand, best_of
    from spillway.bench.advice import advise as plans_of
    from spillway.bench.summary import read_run
    from spillway.errors import OptionError, SpillwayError
    from spillway.harness.options import parse_bytes
    from spillway.runs import find_run

    console = Console()
    try:
        found = read_run(find_run(run))
        setting = _setting(found, mode, process_setting)
        if cores < setting.threads:
            raise OptionError(
                f"--cores {cores}: the run's processes have {setting.threads} each: give as many"
            )
        try:
            size = parse_bytes(memory)
        except ValueError as error:
            raise OptionError(f"--memory: {error}") from error
        rows = None if batch is None else round(_amount("--batch", batch))
        demand = Demand(_rate(rate), size, cores, _price(price), rows)
        plans = best_of(plans_of(found, setting, demand))
    except (SpillwayError, OSError) as error:
        fail("advise", reason(error))
    print_tables(console, [_table(plans, setting, demand)], _legend(setting), found.warnings())
    for line in _verdict(plans, demand):
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
        OptionError: It is none, or not above 0.
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
        raise OptionError(f"--rate {text!r}: give rows in a time, as 1M/s, 30M/min, 100M/h or 2G/day")
    return _amount("--rate", number) / _SECONDS[unit]


def _price(text: str) -> float:
    from spillway.errors import OptionError

    number, _, unit = text.partition("/")
    if unit not in {"month", "h"}:
        raise OptionError(f"--price {text!r}: give the price of a machine in a time, as 50/month or 0.07/h")
    return _amount("--price", number) * (_HOURS_OF_MONTH if unit == "h" else 1.0)


def _table(plans: list[Plan], setting: Setting, demand: Demand) -> Table:
    from spillway.bench.tables import megabytes
    from spillway.harness.report.table import Entry, Table

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
    from spillway.bench.process_settings import process_setting

    process = f", {words}" if (words := process_setting(setting.arm).words) else ""
    reading = (
        f"batch: rows of a file; rows/s and MB: of a worker; workers: with the interval of its speed. "
        f"Measured with {setting.codec}{process}, chunks of {setting.chunk_rows:,} rows and the machine of "
        f"the run: a slower one takes more."
    )
    return [reading]


def _verdict(plans: list[Plan], demand: Demand) -> list[str]:
    from textwrap import indent

    from spillway.backends import Settings
    from spillway.backends.calls import call_of
    from spillway.bench.process_settings import how_to_have

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
    is_apart = other.workers[2] > best.workers[1]
    name = other.cell.cell.backend
    more = "takes more whatever the interval" if is_apart else "may do with as few: the samples cannot tell"
    return f"{lines}; {name}, the next, {more}."
