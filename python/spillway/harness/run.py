"""One run from its options to its folder: prove the limits, take the samples, trace, validate, report."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spillway import backends, datasets
from spillway.errors import OptionError
from spillway.harness import samples
from spillway.harness.allocations import trace_backends
from spillway.harness.environment import describe_run, refuse_debug_build
from spillway.harness.limits import Unlimited, choose_limiter
from spillway.harness.limits.affinity import choose_cores
from spillway.harness.limits.proof import prove
from spillway.harness.output import OutputFiles, require_disk
from spillway.harness.plan import Cell, Options, plan_cells
from spillway.harness.sample import SampleTaker
from spillway.harness.schedule import schedule
from spillway.harness.validate import require_engines, validate_outputs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from spillway.backends import Mode
    from spillway.datasets import PreparedInput
    from spillway.harness.limits import Limiter
    from spillway.harness.progress import Progress

__all__ = ["Finished", "measure"]


@dataclass(frozen=True)
class Finished:
    """How a run ended.

    Attributes:
        folder: The run's folder.
        interrupted: Ctrl-C ended it before all samples were taken.
        validation: What was validated, a line per engine.
    """

    folder: Path
    interrupted: bool
    validation: tuple[str, ...]


def measure(  # noqa: PLR0913 - options, by keyword only
    options: Options,
    *,
    sources: Mapping[str, str | Path],
    out: Path,
    engines: Sequence[str],
    trace: bool,
    keep_output: bool,
    progress: Progress,
) -> Finished:
    """Measure all cells of `options` and leave everything in a new folder below `out`.

    Ctrl-C ends the run early: what was measured until then stays and is reported.

    Args:
        options: What to measure.
        sources: Where the rows of each dataset are from: its name, or the user's file.
        out: Folder of all runs, on a disk.
        engines: Readers that validate the output after all timing; none for no validation.
        trace: Whether to trace each backend's allocations once, after all timing.
        keep_output: Keep the written files in the run's folder.
        progress: Where to say how far it is.

    Raises:
        OptionError: Something cannot be measured here; the message says what to do.
    """
    require_disk(out)
    require_engines(engines)
    present, absent = _split_absent(options)
    if any(name.startswith("native") for name in present):
        refuse_debug_build()
    limiter = _limiter(options)
    prepared = {
        name: datasets.prepare(
            source,
            seed=options.seed,
            rows=options.most_rows,
            chunk_rows=options.chunk_rows,
            progress=progress.preparing,
        )
        for name, source in sources.items()
    }
    cells = [cell for cell in plan_cells(options) if cell.mode in present.get(cell.backend, ())]
    run_id = samples.new_run_id()
    folder = out / run_id
    folder.mkdir()
    files = OutputFiles(folder / "outputs")
    cores = choose_cores(max(options.threads))
    taker = SampleTaker(
        run_id=run_id,
        seed=options.seed,
        inputs={name: each.path for name, each in prepared.items()},
        files=files,
        limiter=limiter,
        cores=cores,
        timeout=options.timeout,
    )
    environment = {
        **describe_run(run_id, options, schema_version=samples.SCHEMA_VERSION),
        "absent_backends": [{"backend": name, "reason": reason} for name, reason in absent.items()],
        "inputs": [_describe_input(name, each) for name, each in prepared.items()],
        "limit_proofs": _prove_limits(options, limiter, progress),
    }
    samples.write_json(folder / samples.ENVIRONMENT, environment)
    samples.SCHEMA.write(folder)
    return _finish(
        folder,
        taker,
        cells,
        options,
        engines=engines,
        trace=trace,
        keep_output=keep_output,
        progress=progress,
    )


def _finish(  # noqa: PLR0913 - the options of `measure`, handed on
    folder: Path,
    taker: SampleTaker,
    cells: list[Cell],
    options: Options,
    *,
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
        try:
            _take_samples(folder, taker, cells, options, progress)
            if trace:
                trace_backends(folder, taker, cells, progress)
            if engines:
                validation = validate_outputs(folder, taker, engines, progress)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            progress.stop()
    return Finished(folder, interrupted, tuple(validation))


def _describe_input(dataset: str, prepared: PreparedInput) -> dict[str, Any]:
    return {
        "dataset": dataset,
        "source": prepared.source,
        "fingerprint": prepared.fingerprint,
        "rows": prepared.rows,
        "arrow_bytes": prepared.arrow_bytes,
        "columns": len(prepared.schema.names),
    }


def _take_samples(
    folder: Path, taker: SampleTaker, cells: list[Cell], options: Options, progress: Progress
) -> None:
    slots = list(schedule(cells, blocks=options.samples, seed=options.seed))
    progress.sampling(slots)
    for slot in slots:
        progress.sample_begins(slot)
        limiter, limit = _limit_of(slot.cell, taker.limiter)
        with limiter.box(limit) as box:
            record = taker.take(slot, box)
        samples.SCHEMA.check(record)
        samples.append(folder / samples.SAMPLES, record)
        progress.sample_ended(slot, record)


def _limit_of(cell: Cell, limiter: Limiter) -> tuple[Limiter, int]:
    return (Unlimited(), 0) if cell.memory_bytes is None else (limiter, cell.memory_bytes)


def _split_absent(options: Options) -> tuple[dict[str, frozenset[Mode]], dict[str, str]]:
    """The modes of each backend that can run here, and why the others cannot."""
    present: dict[str, frozenset[Mode]] = {}
    absent: dict[str, str] = {}
    for name in options.backends:
        reason = backends.missing(name)
        if reason is None and not backends.modes(name) & set(options.modes):
            reason = f"it has no mode {' or '.join(options.modes)}"
        if reason is None:
            present[name] = backends.modes(name)
        else:
            absent[name] = reason
    if not present:
        raise OptionError("; ".join(f"{name}: {reason}" for name, reason in absent.items()))
    return present, absent


def _limiter(options: Options) -> Limiter:
    if all(limit is None for limit in options.memory):
        return Unlimited()
    return choose_limiter(options.limit_kind)


def _prove_limits(options: Options, limiter: Limiter, progress: Progress) -> list[dict[str, Any]]:
    """A canary for each limit; one that survives or dies elsewhere ends the run before it begins."""
    proofs = []
    for limit in options.memory:
        if limit is None:
            continue
        progress.say(f"proving the limit of {limit / 1e6:,.0f} MB with a canary")
        try:
            proof = prove(limiter, limit)
        except OSError as error:
            raise OptionError(
                f"--memory: a {limiter.kind} limit of {limit:,} bytes cannot be set ({error.strerror}); "
                f"choose another kind with --limit-kind"
            ) from error
        if not proof.holds:
            raise OptionError(
                f"--memory: the {limiter.kind} limit of {limit:,} bytes does not hold: a canary was "
                f"{proof.ending} at {proof.died_at_bytes:,}; choose another kind with --limit-kind"
            )
        proofs.append(proof.as_dict())
    return proofs
