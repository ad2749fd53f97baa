"""``spillway bench`` measures Parquet writers; ``spillway doctor`` says what this machine can measure."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spillway.cli.common import (
    INTERRUPTED,
    Delimiter,
    Encoding,
    Out,
    Verbose,
    complete_backend,
    complete_codec,
    complete_dataset,
    complete_mode,
    complete_process,
    fail,
    first_interrupt_alone,
    given,
    listed,
    pairs,
    percentage,
    reason,
    size,
    termination_as_interrupt,
    whole_numbers,
)
from spillway.cli.runs import report_run

if TYPE_CHECKING:
    from rich.console import Console

    from spillway.bench.on_spark import Cluster
    from spillway.bench.resume import BegunRun
    from spillway.bench.run import Finished
    from spillway.datasets import FileSource

_ALL_ROWS = "all"
_QUICK_ROWS = 20_000
_AUTO = "auto"
_MOST_SAMPLES = 100
# What --quick asks for where the command line does not say otherwise.
_QUICK = {"mode": "batches", "samples": "2", "trace": False, "probes": 0, "validate": "pyarrow"}
_LOOK = (
    "--quick gives rough figures: batches only, two processes per cell, no allocation curves, read "
    "back by pyarrow alone. Leave it out for figures to decide by."
)


def _make_quick(context: typer.Context, quick: bool) -> bool:  # noqa: FBT001 - as typer calls it
    """Change the defaults of the other options, which are asked for afterwards."""
    if quick:
        context.default_map = {**(context.default_map or {}), **_QUICK}
    return quick


def bench(  # noqa: PLR0913 - one argument per option of the command
    context: typer.Context,
    *,
    backend: Annotated[
        list[str] | None,
        typer.Option(
            help="Backends, separated by commas; all by default. `spillway doctor` lists them.",
            autocompletion=complete_backend,
        ),
    ] = None,
    rows: Annotated[
        str | None,
        typer.Option(
            help="Row counts, separated by commas. By default all rows of --input; for a dataset "
            "10000, 25000, 50000, 100000, 200000, 400000.",
            show_default=False,
        ),
    ] = None,
    dataset: Annotated[
        str,
        typer.Option(
            help="Generated rows, separated by commas: logs (52 columns), logs-nested, lineitem of TPC-H, or "
            "wide:N for N columns; or real tables: flights, cities.",
            autocompletion=complete_dataset,
        ),
    ] = "logs",
    input: Annotated[  # noqa: A002 - the option's name
        list[str] | None,
        typer.Option(
            help="Your own rows instead: a file, a folder or a quoted glob of Parquet, Arrow IPC, CSV "
            "or NDJSON; text files may be compressed (.gz, .zst)."
        ),
    ] = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            callback=_make_quick,
            is_eager=True,
            help="Rough figures within half a minute: 20000 rows (the first ones of --input), mode "
            "batches, 2 samples, no allocation curves, read back only by pyarrow. Other options "
            "override this.",
        ),
    ] = False,
    mode: Annotated[
        str,
        typer.Option(
            autocompletion=complete_mode,
            help="batches: record batches one at a time; batches-retained: the same, but a writer may "
            "keep them; table: one existing table; rows: lists of dicts; rows-json: dicts fresh "
            "from json.loads; ndjson: lines.",
        ),
    ] = "batches,batches-retained,table",
    table_rows: Annotated[
        str | None,
        typer.Option(
            help="Row counts of mode table; if mode batches is also measured, by default only the "
            "largest of --rows."
        ),
    ] = None,
    cores: Annotated[
        str,
        typer.Option(
            help="Cores that a process is pinned to, and threads per pool, separated by commas: 1,2."
        ),
    ] = "1",
    memory: Annotated[
        str,
        typer.Option(help="Memory limits on the whole process, separated by commas: 2276MB, 512MiB, none."),
    ] = "2276MB",
    limit_kind: Annotated[
        str | None,
        typer.Option(help="cgroup-v2, cgroup-v1, systemd-scope or rlimit-data; the best by default."),
    ] = None,
    chunk_rows: Annotated[
        str, typer.Option(help="Rows per record batch of the input, separated by commas: 1000,10000,100000.")
    ] = "10000",
    row_group_rows: Annotated[
        str, typer.Option(help="Maximum rows per row group, separated by commas: 65536,131072,1048576.")
    ] = "1048576",
    process_setting: Annotated[
        str,
        typer.Option(
            autocompletion=complete_process,
            help="Process settings to compare, separated by commas: default, gc-aggressive, "
            "pool-system, pool-mimalloc, pool-jemalloc, malloc-one-arena, malloc-trim, "
            "malloc-keep, cold, quota-PERCENT of a core.",
        ),
    ] = "default",
    python: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME=PATH, twice, the old one first: measure each backend in two Python "
            "environments, one right after the other, and compare the two. PATH is an "
            "interpreter, or the folder of an environment.",
            show_default=False,
        ),
    ] = None,
    codec: Annotated[
        str,
        typer.Option(
            help="zstd, snappy, lz4, gzip, brotli, uncompressed: one or more, separated by commas.",
            autocompletion=complete_codec,
        ),
    ] = "zstd",
    level: Annotated[int | None, typer.Option(help="The codecs' level; 1 for zstd.")] = None,
    samples: Annotated[
        str,
        typer.Option(
            help="Processes per cell: 5 for a rough figure, 12 for one to quote; or auto, for as many "
            "as --precision needs within --budget."
        ),
    ] = "3",
    precision: Annotated[
        str,
        typer.Option(help="With --samples auto: the target half-width of the interval of each cell's speed."),
    ] = "2%",
    budget: Annotated[
        float, typer.Option(help="With --samples auto: minutes after which no new block starts.")
    ] = 10.0,
    seed: Annotated[int, typer.Option(help="Seed of the generated rows and of the order of samples.")] = 1,
    out: Out = Path("runs"),
    validate: Annotated[
        str, typer.Option(help="Readers that read the output back: spark, pyarrow, polars, duckdb, or none.")
    ] = "spark",
    trace: Annotated[bool, typer.Option(help="Draw each backend's allocation curve with memray.")] = True,
    probes: Annotated[
        int,
        typer.Option(
            help="Writes of each backend with each probe (GIL, garbage collector, curve) and without "
            "any, after all timing; 0 for none."
        ),
    ] = 1,
    pairs: Annotated[
        int,
        typer.Option(
            help="Writes of each backend that share one core with a write of the first backend, at "
            "the largest number of rows, after the samples: they show differences of a few per "
            "cent that a shared host hides; 0 for none."
        ),
    ] = 0,
    least_memory: Annotated[
        int,
        typer.Option(
            help="Search for the smallest memory limit that each backend survives at its largest "
            "number of rows, after all timing, and confirm each side of it with this number of "
            "writes: 5 for a figure to quote, 0 to skip the search."
        ),
    ] = 0,
    keep_output: Annotated[bool, typer.Option(help="Keep the written files.")] = False,
    timeout: Annotated[float, typer.Option(help="Seconds that one sample may take.")] = 300.0,
    on: Annotated[
        str | None,
        typer.Option(
            help="Take the samples on executors of a Spark cluster, one block at a time on each: "
            "spark://HOST:PORT, yarn or k8s://https://HOST:PORT."
        ),
    ] = None,
    pack: Annotated[
        bool,
        typer.Option("--pack", help="Send this package and the backends to executors that lack them."),
    ] = False,
    conf: Annotated[
        list[str] | None,
        typer.Option(help="NAME=VALUE, a Spark setting for --on; may be repeated."),
    ] = None,
    external: Annotated[
        list[Path] | None,
        typer.Option(
            help="TOML file that names programs as backends, such as bench/go/external.toml; may be "
            "repeated.",
            show_default=False,
        ),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            help="Folder of a run that ended early, by Ctrl-C, a kill or a power cut: take the "
            "missing samples, with the run's own options. Only --input must be given again.",
        ),
    ] = None,
    retake: Annotated[
        bool,
        typer.Option(
            "--retake",
            help="With --resume: repeat the samples during which, according to the host's readings, "
            "other processes ran; the original ones stay in disturbed.jsonl.",
        ),
    ] = False,
    verbose: Verbose = False,
) -> None:
    """Measure which Parquet writer is best for your rows under your limits.

    Every sample runs in its own process, pinned and limited; another engine
    reads every file back. Samples, figures and a report go to a new folder
    below --out. The verdict comes last: which writer wins, by how much, and
    the code that writes like it.

    Exit status 0: everything was measured. Failures of other libraries count
    as findings.

    Exit status 1: Spillway's own writer wrote wrong output, or failed other
    than at the memory limit; or no backend wrote the right rows.

    Exit status 2: the run cannot be measured as requested. 130: interrupted.
    """
    from rich.console import Console

    from spillway.backends import with_modes
    from spillway.bench.identity import parse_pythons
    from spillway.bench.plan import Options
    from spillway.bench.progress import Progress
    from spillway.bench.run import measure
    from spillway.errors import JavaError, MissingExtraError, OptionError, SpillwayError

    console = Console()
    _name_programs(external)
    with first_interrupt_alone(), termination_as_interrupt() as end_what_was_begun:
        try:
            pythons = parse_pythons(python or [])
            own = _own(input)
            if resume is not None:
                begun = _begun(context, resume, own=own is not None, pythons=tuple(pythons))
                begun = replace(begun, retakes=retake)
                options, out = begun.options, begun.folder.parent
                sources = _sources(",".join(options.datasets), own, delimiter, encoding)
                engines, trace, keep_output = begun.engines, begun.trace, begun.keep_output
            else:
                if retake:
                    raise OptionError("--retake: name the run with --resume")
                begun = None
                limits = _limits(memory)
                counts, at_most = _rows(rows, quick=quick, own=_has_end(own, dataset))
                modes = tuple(listed(mode))
                _refuse_unused(context, modes, own=own is not None, auto=samples == _AUTO)
                sources = _sources(dataset, own, delimiter, encoding)
                options = Options(
                    backends=tuple(listed(",".join(backend))) if backend else with_modes(modes),
                    rows=counts,
                    at_most=at_most,
                    table_rows=None if table_rows is None else whole_numbers("--table-rows", table_rows),
                    modes=modes,  # type: ignore[arg-type]  # checked by Options
                    datasets=tuple(sources),
                    chunk_rows=whole_numbers("--chunk-rows", chunk_rows),
                    row_group_rows=whole_numbers("--row-group-rows", row_group_rows),
                    codecs=tuple(listed(codec)),
                    level=level,
                    memory=limits,
                    limit_kind=_limit_kind(limits, limit_kind, on),
                    threads=whole_numbers("--cores", cores),
                    samples=_MOST_SAMPLES if samples == _AUTO else _count(samples),
                    precision=percentage("--precision", precision) if samples == _AUTO else None,
                    budget_minutes=budget,
                    seed=seed,
                    timeout=timeout,
                    probes=probes,
                    arms=tuple(listed(process_setting)),
                    least_memory=least_memory,
                    pairs=pairs,
                    pythons=tuple(pythons),
                )
                engines = _engines(validate)
            finished = measure(
                options,
                sources=sources,
                out=out,
                engines=engines,
                trace=trace,
                keep_output=keep_output,
                progress=Progress(console),
                begun=begun,
                on=_cluster(on, conf, pack=pack),
                pythons=pythons,
            )
        except (JavaError, MissingExtraError) as error:
            without = " Or leave Spark out: --validate pyarrow" if "spark" in engines else ""
            fail("bench", f"{error}{without}")
        except (SpillwayError, OSError) as error:
            fail("bench", reason(error))
        except KeyboardInterrupt:
            typer.secho("interrupted before the first sample: nothing was measured", err=True, fg="yellow")
            raise typer.Exit(INTERRUPTED) from None
        end_what_was_begun()
        status = _reported(console, finished, verbose=verbose)
    if quick:
        console.print(_LOOK, style="yellow", highlight=False, markup=False)
    if status:
        raise typer.Exit(status)


def _name_programs(files: list[Path] | None) -> None:
    """Have this process and those that it starts know external programs."""
    from spillway.backends import EXTERNAL_VARIABLE

    if files:
        listed = [os.environ.get(EXTERNAL_VARIABLE, ""), *(str(path.absolute()) for path in files)]
        os.environ[EXTERNAL_VARIABLE] = os.pathsep.join(filter(None, listed))


def _begun(context: typer.Context, folder: Path, *, own: bool, pythons: tuple[str, ...]) -> BegunRun:
    """The run that is resumed. Other options would change what it measures, and are refused.

    Raises:
        OptionError: It cannot be resumed, an option is given beside it, or its own input is not.
    """
    from spillway.bench.resume import read_begun
    from spillway.errors import OptionError

    allowed = {"resume", "retake", "input", "delimiter", "encoding", "external", "python", "verbose"}
    named = given(context)
    if named - allowed:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in sorted(named - allowed))
        raise OptionError(f"--resume uses the options of the original run: leave out {names}")
    begun = read_begun(folder)
    needs = "file" in begun.options.datasets
    if needs and not own:
        raise OptionError(
            "--resume: this run measures your own files: name them with --input, as in the original call"
        )
    if own and not needs:
        raise OptionError("--resume: this run does not measure your own files: leave --input out")
    if pythons != begun.options.pythons:
        names = " ".join(f"--python {name}=PATH" for name in begun.options.pythons) or "no --python"
        raise OptionError(f"--resume: this run was started with {names}: pass the same")
    return begun


def _own(inputs: list[str] | None) -> str | None:
    """The user's own rows.

    Raises:
        OptionError: There is more than one --input.
    """
    from spillway.errors import OptionError

    if inputs and len(inputs) > 1:
        raise OptionError(
            f"--input is given {len(inputs)} times, and a run measures one input: name a folder or a quoted "
            f"glob for several files of the same columns, or measure each in a run of its own"
        )
    return inputs[0] if inputs else None


def _refuse_unused(context: typer.Context, modes: tuple[str, ...], *, own: bool, auto: bool) -> None:
    """Refuse options that would change nothing, whose values the user would take for measured.

    Raises:
        OptionError: One is given.
    """
    from spillway.errors import OptionError

    named = given(context)
    if own and "dataset" in named:
        raise OptionError("--dataset and --input both name the rows to measure: leave one of them out")
    if "table_rows" in named and "table" not in modes:
        raise OptionError(
            f"--table-rows is for mode table, and the modes are {', '.join(modes)}: leave it out, or "
            f"add table to --mode"
        )
    if not auto and named & {"precision", "budget"}:
        raise OptionError("--precision and --budget are for --samples auto: add it, or leave them out")


def _limit_kind(limits: tuple[int | None, ...], asked: str | None, on: str | None) -> str:
    """The kind of memory limits; of executors only they can say which is the best.

    Raises:
        OptionError: There is no limit to be set in the way that was asked for.
    """
    from spillway.errors import OptionError
    from spillway.harness.limits import choose_limiter

    if limits == (None,):
        if asked is not None:
            raise OptionError(
                f"--limit-kind {asked} says how --memory is enforced, and there is no limit: leave it out, "
                f"or name a limit with --memory"
            )
        return "none"
    if on is None:
        return choose_limiter(asked).kind
    from spillway.bench.on_spark import BEST

    return asked or BEST


def _cluster(on: str | None, conf: list[str] | None, *, pack: bool) -> Cluster | None:
    """The cluster that takes the samples.

    Raises:
        OptionError: An option of a cluster is given without one.
    """
    from spillway.errors import OptionError

    if on is None:
        if conf or pack:
            raise OptionError("--pack and --conf are for executors: name their cluster with --on")
        return None
    from spillway.bench.on_spark import Cluster

    return Cluster(on, pairs("--conf", conf or []), pack)


def _limits(text: str) -> tuple[int | None, ...]:
    from spillway.errors import OptionError

    limits = [None if part == "none" else size("--memory", part) for part in listed(text)]
    if not limits or 0 in limits:
        raise OptionError(f"--memory {text!r} names no limit; write for example 2276MB, or 512MB,1GB,none")
    return tuple(limits)


def _count(text: str) -> int:
    """The number of samples."""
    from spillway.errors import OptionError

    if not text.isascii() or not text.isdigit():
        raise OptionError(f"--samples {text!r}: give a whole number, or auto")
    return int(text)


def _rows(text: str | None, *, quick: bool, own: bool) -> tuple[tuple[int, ...] | None, int | None]:
    """Row counts, None for all of the user's own; and with --quick how many of those at most."""
    from spillway.bench.plan import DEFAULT_ROWS
    from spillway.errors import OptionError

    if text is None:
        if own:
            return None, _QUICK_ROWS if quick else None
        return (_QUICK_ROWS,) if quick else DEFAULT_ROWS, None
    if text != _ALL_ROWS:
        return whole_numbers("--rows", text), None
    if not own:
        raise OptionError(
            "--rows all is for --input, and for flights and cities: other datasets are unlimited"
        )
    return None, None


def _has_end(own: str | None, dataset: str) -> bool:
    """Return True if the rows are those that there are: files, or tables that packages ship."""
    from spillway.datasets import packaged_names

    named = listed(dataset)
    return own is not None or (bool(named) and set(named) <= set(packaged_names()))


def _sources(
    dataset: str, own: str | None, delimiter: str | None, encoding: str | None
) -> dict[str, str | FileSource]:
    """Sources of rows by the names of datasets, which are known before anything is made."""
    from spillway.datasets import FileSource, TextOptions, is_dataset, names, packaged_names
    from spillway.errors import OptionError

    if own is not None:
        return {"file": FileSource(own, TextOptions(delimiter, encoding))}
    if delimiter is not None or encoding is not None:
        raise OptionError("--delimiter and --encoding describe how to read --input, which is missing")
    for name in listed(dataset):
        if not is_dataset(name) and name not in packaged_names():
            known = ", ".join((*names(), "lineitem", "wide:N", *packaged_names()))
            raise OptionError(f"--dataset {name}: choose from {known}, or name a file with --input")
    return {name: name for name in listed(dataset)}


def _engines(text: str) -> tuple[str, ...]:
    from spillway.errors import OptionError

    if text == "none":
        return ()
    from spillway.validation import ENGINES

    engines = tuple(listed(text))
    unknown = [engine for engine in engines if engine not in ENGINES]
    if unknown or not engines:
        raise OptionError(f"--validate {text!r}: choose from {', '.join(ENGINES)}, or none")
    return engines


_COLOURS = {"ok": "green", "warning": "yellow", "not here": "dim", "missing": "red"}


def doctor(
    *,
    out: Annotated[Path, typer.Option(help="The folder in which runs would be stored.")] = Path("runs"),
) -> None:
    """Show what this machine can measure and limit, and test it.

    The memory probes have to find a known allocation, and under every kind of
    limit a test process has to be killed. The last line is the command to run;
    or it says what is missing, and the exit status is 1.
    """
    from rich.console import Console
    from rich.text import Text

    from spillway.bench.doctor import examine, verdict

    console = Console()
    findings = []
    with console.status("examining this machine"):
        for finding in examine(out):
            findings.append(finding)
            colour = _COLOURS[finding.verdict]
            line = Text.assemble((f"{finding.verdict:8}", colour), " ", (finding.subject, "bold"), ": ")
            console.print(line.append(finding.detail), soft_wrap=True)
    ready, words = verdict(findings)
    console.print(Text(words, "bold green" if ready else "bold red"), soft_wrap=True)
    if not ready:
        raise typer.Exit(1)


def _reported(console: Console, finished: Finished, *, verbose: bool) -> int:
    """The status of a run, whose report is made and printed."""
    try:
        return report_run(
            console,
            finished.folder,
            verbose=verbose,
            interrupted=finished.interrupted,
            validation=finished.validation,
        )
    except typer.Exit:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, the samples are there
        fail(
            "bench",
            f"no report could be made: {reason(error)}. The samples are in {finished.folder}: "
            f"spillway report {finished.folder} makes it",
        )
