"""One run from its options to its folder: prove the limits, take the samples, trace, validate, report."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

from spillway import backends, datasets
from spillway._wording import counted
from spillway.bench.identity import describe_benchmark, fingerprints_of_rows, python_environments
from spillway.bench.passes import (
    LEAST_PROVED,
    find_least_memory,
    limiter_of_search,
    measure_pairs,
    probe_backends,
    refuse_other_search,
    require_engines,
    trace_backends,
    validate_outputs,
)
from spillway.bench.plan import Cell, Options, plan_cells, process_setting, require_process_settings
from spillway.bench.record import SAMPLES, SCHEMA, SCHEMA_VERSION
from spillway.bench.resume import slots_left
from spillway.bench.sample import OutputFiles, SampleTaker, limits_of
from spillway.bench.summary import imprecise_cells
from spillway.errors import OptionError
from spillway.harness import records
from spillway.harness.environment import describe_environment, on_disk, refuse_debug_build, run_folder
from spillway.harness.limits import Unlimited, choose_cores, choose_limiter, limit_words, proved, with_quota
from spillway.harness.schedule import schedule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from spillway.backends import Mode
    from spillway.bench.identity import PythonEnvironment
    from spillway.bench.on_spark import Cluster, Executors
    from spillway.bench.progress import Progress
    from spillway.bench.resume import BegunRun
    from spillway.datasets import FileSource, PreparedInput
    from spillway.harness.limits import Limiter


@dataclass(frozen=True)
class Finished:
    """The end of a run.

    Attributes:
        folder: The run's folder.
        interrupted: Ctrl-C ended it before all samples were taken.
        validation: The lines of validation, one per engine.
    """

    folder: Path
    interrupted: bool
    validation: tuple[str, ...]


def measure(  # noqa: PLR0913 - options, by keyword only
    options: Options,
    *,
    sources: Mapping[str, str | FileSource],
    out: Path,
    engines: Sequence[str],
    trace: bool,
    keep_output: bool,
    progress: Progress,
    begun: BegunRun | None = None,
    on: Cluster | None = None,
    pythons: Mapping[str, Path] | None = None,
) -> Finished:
    """Measure all cells of `options` and leave everything in a new folder below `out`.

    Ctrl-C ends the run early: samples taken until then are kept and reported. Before the first sample there
    is nothing to report, and then, as after a refusal, no folder is left.

    Args:
        options: The cells and how often to measure them.
        sources: The source of each dataset: its name, or the user's files.
        out: Folder of all runs, on a disk.
        engines: Readers that validate the output after all timing; none for no validation.
        trace: Trace each backend's allocations once, after all timing.
        keep_output: Keep the written files in the run's folder.
        progress: Told how far it is.
        begun: A run that ended early, to which the samples are added that it lacks; its options are these.
        on: The cluster whose executors take the samples; this machine by default. The limit kind in the
            options may then be "best", for the best one of an executor.
        pythons: The interpreters of the environments that the options name.

    Raises:
        KeyboardInterrupt: Ctrl-C came before the first sample.
        OptionError: Something cannot be measured here; the message says what to do.
    """
    run_id = records.new_run_id() if begun is None else str(begun.environment["run_id"])
    folder = out / run_id if begun is None else begun.folder
    with ExitStack() as stack:
        stack.enter_context(on_disk(out))
        require_engines(engines)
        if on is not None and pythons:
            raise OptionError(
                "--python: executors of a cluster have their own: leave out either this option or --on"
            )
        environments = stack.enter_context(python_environments(pythons or {}, options.backends))
        _refuse_process_settings(options, on, environments)
        present, absent = _split_absent(options, environments)
        if not environments and any(backends.library(name) == backends.OWN_LIBRARY for name in present):
            refuse_debug_build()
        for source in sources.values():
            if not isinstance(source, str):
                datasets.find_files(source)  # which says at once what cannot be read
        if on is not None:
            from spillway.bench.on_spark import require_cluster

            require_cluster(on, tuple(present), options)
        # Executors have limits and cores of their own, and prove them.
        limiter = _limiter(options) if on is None else Unlimited()
        cores = choose_cores(_cores_here(options, on))
        proofs = _prove_limits(options, limiter, progress) if on is None else []
        prepared = _prepare(options, sources, progress)
        options = options.with_rows_of(min(each.rows for each in prepared.values()))
        executors = None
        if on is not None:
            from spillway.bench.on_spark import running

            executors = stack.enter_context(running(on, tuple(present), max(options.threads), progress.say))
            options = executors.fit(options, tuple(present), progress)
        cells = [cell for cell in plan_cells(options) if cell.mode in present.get(cell.backend, ())]
        environment = {
            **describe_environment(run_id, options, schema_version=SCHEMA_VERSION),
            "absent_backends": [_describe_absent(*each, environments) for each in absent.items()],
            "inputs": [_describe_input(*key, each) for key, each in prepared.items()],
            "limit_proofs": proofs,
            "benchmark": describe_benchmark(present),
            **({"pythons": [each.described for each in environments.values()]} if environments else {}),
            "afterwards": {"engines": list(engines), "trace": trace, "keep_output": keep_output},
        }
        if begun is None:
            stack.enter_context(run_folder(folder, SAMPLES))
        else:
            environment = begun.continued(environment)
            if options.least_memory:
                refuse_other_search(folder, limiter)
            begun = begun.without_disturbed()
        taker = SampleTaker(
            run_id=run_id,
            seed=options.seed,
            inputs={key: each.path for key, each in prepared.items()},
            files=OutputFiles(folder / "outputs", () if begun is None else begun.contents),
            limiter=limiter,
            cores=cores,
            timeout=options.timeout,
            pythons=environments,
        )
        records.write_json(folder / records.ENVIRONMENT, environment)
        sampling = partial(_take_samples, folder, taker, cells, options, progress)
        if executors is not None:
            keep = bool(engines) or keep_output
            sampling = partial(
                _take_on_executors, executors, environment, folder, taker, cells, options, keep, progress
            )
        return _finish(
            folder,
            taker,
            cells,
            options,
            sampling=sampling,
            engines=engines,
            trace=trace,
            keep_output=keep_output,
            progress=progress,
        )


def _cores_here(options: Options, on: Cluster | None) -> int:
    """The cores of a write on this machine: in a run on a cluster, of its traces and probes."""
    most = max(options.threads)
    return most if on is None else min(most, len(os.sched_getaffinity(0)))


def _prepare(
    options: Options, sources: Mapping[str, str | FileSource], progress: Progress
) -> dict[tuple[str, int], PreparedInput]:
    """The input of each dataset and rows of a batch; of the user's own files it is said what was found."""
    prepared = {}
    for (name, source), chunk_rows in product(sources.items(), options.chunk_rows):
        try:
            prepared[name, chunk_rows] = each = datasets.prepare(
                source,
                seed=options.seed,
                rows=options.most_rows,
                at_most=options.at_most,
                chunk_rows=chunk_rows,
                progress=progress.preparing,
            )
        finally:
            progress.stop()
        if not isinstance(source, str) and chunk_rows == options.chunk_rows[0]:
            columns = counted(len(each.schema.names), "column")
            progress.say(f"{each.source}: {counted(each.rows, 'row')}, {columns}")
    return prepared


def _finish(  # noqa: PLR0913 - the options of `measure`, handed on
    folder: Path,
    taker: SampleTaker,
    cells: list[Cell],
    options: Options,
    *,
    sampling: Callable[[], None],
    engines: Sequence[str],
    trace: bool,
    keep_output: bool,
    progress: Progress,
) -> Finished:
    """Sample, trace and validate; whatever happens, output files that are not wanted go."""
    interrupted = False
    validation: list[str] = []
    with ExitStack() as cleanup:
        if not keep_output:
            cleanup.callback(taker.files.remove)
        # Of a program that is only fed here, probes of this process see nothing.
        libraries = [cell for cell in cells if not backends.is_external(cell.backend)]
        try:
            sampling()
            if options.pairs:
                measure_pairs(folder, taker, libraries, options.pairs, progress)
            if options.probes:
                probe_backends(folder, taker, libraries, options.probes, progress)
            if options.least_memory:
                find_least_memory(folder, taker, libraries, options.least_memory, progress)
            if trace:
                trace_backends(folder, taker, libraries, progress)
            if engines:
                validation = validate_outputs(folder, taker, engines, progress)
        except KeyboardInterrupt:
            if not (folder / SAMPLES).exists():
                raise
            interrupted = True
        finally:
            progress.stop()
    return Finished(folder, interrupted, tuple(validation))


def _describe_absent(
    backend: str, reason: str, environments: Mapping[str, PythonEnvironment]
) -> dict[str, Any]:
    lacking = [name for name, each in environments.items() if backend in each.missing]
    return {"backend": backend, "reason": reason, **({"missing_in": lacking} if lacking else {})}


def _describe_input(dataset: str, chunk_rows: int, prepared: PreparedInput) -> dict[str, Any]:
    return {
        "dataset": dataset,
        "chunk_rows": chunk_rows,
        "source": prepared.source,
        "fingerprint": prepared.fingerprint,
        "rows": prepared.rows,
        "arrow_bytes": prepared.arrow_bytes,
        "columns": len(prepared.schema.names),
        **fingerprints_of_rows(prepared.path),
    }


class StoppingRule:
    """Tells between blocks whether another one is wanted: by a precision decided before looking, or a budget.

    It depends only on the width of intervals, never on their position, so it favours no result.

    Args:
        options: The options of the run, with the precision and the budget.
        clock: Seconds that pass.
    """

    def __init__(self, options: Options, clock: Callable[[], float] = time.monotonic) -> None:
        self._precision = options.precision
        self._clock = clock
        self._end = clock() + 60 * options.budget_minutes

    def ends_here(self, samples: Iterable[dict[str, Any]]) -> str | None:
        """The reason to take no further block after these samples; None to go on."""
        if self._precision is None:
            return None
        if self._clock() >= self._end:
            return "the budget of minutes is over"
        taken = list(samples)
        if imprecise_cells(taken, self._precision):
            return None
        if not any(sample["outcome"] == "ok" for sample in taken):
            return "no cell ended well"
        return f"every cell is within {self._precision:.1%}"


def _take_samples(
    folder: Path, taker: SampleTaker, cells: list[Cell], options: Options, progress: Progress
) -> None:
    whole = schedule(
        cells, blocks=options.samples, seed=options.seed, together=lambda cell: replace(cell, python="")
    )
    taken = records.read_lines(folder / SAMPLES)
    slots = slots_left(whole, taken)
    if not slots:
        return
    progress.sampling(slots)
    # A resumed run whose last block is whole may have met its rule. Blocks before it are those taken again.
    rule, block = StoppingRule(options), max((each["block"] for each in taken), default=slots[0].block)
    for slot in slots:
        if slot.block > block:
            block, reason = slot.block, rule.ends_here(records.read_lines(folder / SAMPLES))
            if reason is not None:
                progress.say(f"{counted(block, 'block')} taken: {reason}")
                return
        progress.sample_begins(slot)
        with limits_of(slot.cell, taker.limiter) as memory_limit:
            record = taker.take(slot, memory_limit)
        SCHEMA.append(folder / SAMPLES, record)
        progress.sample_ended(slot, record)


def _take_on_executors(  # noqa: PLR0913, PLR0917 - the parts of a run
    executors: Executors,
    environment: dict[str, Any],
    folder: Path,
    taker: SampleTaker,
    cells: list[Cell],
    options: Options,
    keep: bool,  # noqa: FBT001 - as above
    progress: Progress,
) -> None:
    """Take the samples on a cluster, whose hosts are described in the run's environment."""
    slots = list(schedule(cells, blocks=options.samples, seed=options.seed))
    progress.sampling(slots)
    # At once, so that a run that is killed is known as one of a cluster too.
    records.write_json(folder / records.ENVIRONMENT, {**environment, "hosts": []})
    try:
        executors.take(
            taker, slots, keep=keep, progress=progress, append=partial(SCHEMA.append, folder / SAMPLES)
        )
    finally:
        described = {**environment, "hosts": list(executors.hosts.values())}
        records.write_json(folder / records.ENVIRONMENT, described)
        executors.stop()


def _split_absent(
    options: Options, environments: Mapping[str, PythonEnvironment]
) -> tuple[dict[str, frozenset[Mode]], dict[str, str]]:
    """The modes of each backend that can run here, or in all environments, and why the others cannot."""
    present: dict[str, frozenset[Mode]] = {}
    absent: dict[str, str] = {}
    for name in options.backends:
        elsewhere = (each.missing[name] for each in environments.values() if name in each.missing)
        reason = next(elsewhere, None) if environments else backends.missing(name)
        if reason is None and not backends.modes(name) & set(options.modes):
            reason = f"it does not support mode {' or '.join(options.modes)}"
        if reason is None:
            present[name] = backends.modes(name)
        else:
            absent[name] = reason
    if not present:
        raise OptionError("; ".join(f"{name}: {reason}" for name, reason in absent.items()))
    return present, absent


def _refuse_process_settings(
    options: Options, on: Cluster | None, environments: Mapping[str, PythonEnvironment]
) -> None:
    """Refuse process settings that cannot be had, before anything is made."""
    for python in environments.values():
        require_process_settings(options.arms, python.pools)
    if not environments:
        require_process_settings(options.arms)
    quotas = [cores for name in options.arms if (cores := process_setting(name).cores) is not None]
    if quotas and on is not None:
        raise OptionError(
            "--process-setting quota: executors of a cluster have their own: leave out either this "
            "option or --on"
        )
    for cores in quotas[:1]:
        with Unlimited().limit(0) as unlimited, with_quota(unlimited, cores):
            pass


def _limiter(options: Options) -> Limiter:
    if all(limit is None for limit in options.memory):
        return Unlimited()
    return choose_limiter(options.limit_kind)


def _prove_limits(options: Options, limiter: Limiter, progress: Progress) -> list[dict[str, Any]]:
    """A canary for each limit and one for a search; what survives or dies elsewhere ends the run at once."""
    proofs = [_proof(limiter, limit, "--memory", progress) for limit in options.memory if limit is not None]
    if options.least_memory:
        proofs.append(_proof(limiter_of_search(limiter), LEAST_PROVED, "--least-memory", progress))
    return proofs


def _proof(limiter: Limiter, limit: int, option: str, progress: Progress) -> dict[str, Any]:
    progress.say(f"testing the limit of {limit_words(limit)}")
    return asdict(
        proved(limiter, limit, option=option, advice="choose another kind with --memory and --limit-kind")
    )
