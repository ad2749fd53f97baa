"""One test's measurement: options, rounds, read-back, and what pytest-benchmark's JSON gets.

This module plans a cell for each writer; the bench takes the samples, as for `spillway bench`.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest

from pytest_spillway.figures import comparison, figures_of, host, report_lines
from pytest_spillway.reading_back import ReadingBack
from pytest_spillway.timing import PROPERTY, clock
from pytest_spillway.writers import Writer, writer_of
from spillway import datasets
from spillway._wording import parse_bytes
from spillway.bench.passes import probe_once
from spillway.bench.plan import Cell
from spillway.bench.sample import OutputFiles, SampleTaker, limits_of
from spillway.errors import OptionError, SpillwayError
from spillway.harness.environment import refuse_debug_build, require_disk
from spillway.harness.limits import Unlimited, choose_cores, choose_limiter, proved
from spillway.harness.schedule import Slot

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_benchmark.fixture import BenchmarkFixture

    from spillway.bench.record import Probe, ProbeSample, Sample
    from spillway.harness.limits import Limiter, Proof

_ROWS = 100_000
_FEWEST_PAIRS = 6  # with fewer, an interval of 95 % has no ends
_CHUNK_ROWS = 10_000
_ROW_GROUP_ROWS = 1_048_576
_SEED = 1
_TIMEOUT_SECONDS = 300.0
_PROOFS: pytest.StashKey[dict[tuple[str, int], Proof]] = pytest.StashKey()


class WriterFailedError(SpillwayError, AssertionError):
    """A writer failed, was killed by its limit, or wrote a wrong file."""


class ParquetBenchmark:
    """Measures a writer, and another one beside it; the value of the fixture ``parquet_benchmark``.

    Args:
        request: The request of the fixture.
        benchmark: The fixture of pytest-benchmark, which keeps the seconds.
    """

    def __init__(self, request: pytest.FixtureRequest, benchmark: BenchmarkFixture) -> None:
        self._request, self._benchmark = request, benchmark
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stack.close()

    def __call__(  # noqa: PLR0913 - options, by keyword only
        self,
        writer: Callable[[Any, Path], object] | str,
        *,
        data: str | Path = "logs",
        rows: int | None = None,
        memory: str | int | None = None,
        cpus: int = 1,
        against: Callable[[Any, Path], object] | str | None = None,
        mode: str | None = None,
        rounds: int | None = None,
    ) -> dict[str, Any]:
        """Measure a writer: each round is a fresh process that writes one file.

        A function is called as ``writer(data, path)``: `data` is an Arrow stream (``__arrow_c_stream__``) of
        record batches of 10,000 rows, and `path` is the file to write. The measured process calls it twice,
        first with 100 rows as a warm-up. Backends of the bench use its settings: zstd at level 1, row groups
        of at most 1,048,576 rows. Another engine reads each distinct file back and compares it with the rows.

        Args:
            writer: A function that another process can import, or the name of a backend of the bench.
            data: The name of a dataset ("logs", "logs-nested", "lineitem", "wide:N"), or the path of a
                Parquet file or of any other input of ``spillway bench --input``.
            rows: Number of rows to write; by default 100,000 for a dataset, and all for a file.
            memory: Memory limit of the whole process, such as "512MB", or a number of bytes; None for no
                limit. The limit is tested once per session, before anything is measured under it.
            cpus: Number of cores that the process is pinned to, and of threads in each pool.
            against: A second writer. Both write in each round, and take turns in going first.
            mode: The form in which backends receive the rows, as in ``spillway bench --mode``; by default
                "batches-retained", as for functions.
            rounds: Number of rounds; by default the ``min_rounds`` of pytest-benchmark, and with `against` at
                least 6, because a 95 % interval needs that many.

        Returns:
            The content of ``extra_info`` in the JSON file of pytest-benchmark.

        Raises:
            WriterFailedError: A writer failed, was killed by its limit, or wrote a wrong file.
            OptionError: An option is not available; nothing was measured.
        """
        __tracebackhide__ = True
        enabled = not self._benchmark.disabled

        @cache
        def measurement() -> _Measurement:
            folder = self._folder()
            writers = [writer_of(each, mode, folder) for each in (writer, against) if each is not None]
            if enabled and any(each.is_own for each in writers):
                refuse_debug_build()
            options = _CellOptions(self._request.config, data, rows, memory, cpus)
            return _Measurement(options, writers, folder, self._stack)

        rounds = self._rounds(rounds, is_paired=against is not None)
        pedantic: Any = self._benchmark.pedantic
        try:
            # Within the call, so that pytest-benchmark knows of an error and leaves the test out.
            pedantic(lambda: measurement().take_round(), rounds=rounds)
        except (SpillwayError, OSError) as error:
            raise error.with_traceback(None) from None
        found = measurement().figures(probe=enabled)
        self._benchmark.extra_info.update(found)
        self._request.node.user_properties.append(
            (PROPERTY, "\n".join(report_lines(found, is_timed=enabled)))
        )
        return found

    def _rounds(self, rounds: int | None, *, is_paired: bool) -> int:
        if rounds is not None:
            return rounds
        marker = self._request.node.get_closest_marker("benchmark")
        least = self._request.config.getoption("benchmark_min_rounds")
        least = int(least if marker is None else marker.kwargs.get("min_rounds", least))
        return max(least, _FEWEST_PAIRS) if is_paired else least

    def _folder(self) -> Path:
        """A folder on a disk: a file that lies in memory would count as the writer's memory."""
        place = self._request.getfixturevalue("tmp_path_factory").getbasetemp()
        try:
            require_disk(place)
        except OptionError:
            place = datasets.default_cache()
            require_disk(place)
        folder = tempfile.TemporaryDirectory(dir=place, prefix="parquet_benchmark-")
        return Path(self._stack.enter_context(folder))


class _CellOptions:
    """The options that both writers of a test share, checked.

    Raises:
        OptionError: One of them cannot be had.
    """

    def __init__(
        self,
        config: pytest.Config,
        data: str | Path,
        rows: int | None,
        memory: str | int | None,
        cpus: int,
    ) -> None:
        available = len(os.sched_getaffinity(0))
        if not 1 <= cpus <= available:
            raise OptionError(f"cpus={cpus}: this process may use 1 to {available}")
        self.cpus = cpus
        self.memory = _bytes(memory)
        self.limiter: Limiter = Unlimited() if self.memory is None else choose_limiter(None)
        self.proof = None if self.memory is None else _proof(config, self.limiter, self.memory)
        is_made = isinstance(data, str) and datasets.is_dataset(data)
        if rows is None and is_made:
            rows = _ROWS
        self.dataset = data if isinstance(data, str) and is_made else "file"
        self.prepared = datasets.prepare(data, seed=_SEED, rows=rows, chunk_rows=_CHUNK_ROWS)

    def cell(self, writer: Writer) -> Cell:
        """The cell of a writer."""
        return Cell(
            backend=writer.backend,
            mode=writer.mode,
            dataset=self.dataset,
            rows=self.prepared.rows,
            chunk_rows=_CHUNK_ROWS,
            row_group_rows=_ROW_GROUP_ROWS,
            codec="zstd",
            level=1,
            memory_bytes=self.memory,
            limit_kind=self.limiter.kind,
            threads=self.cpus,
        )


def _bytes(memory: str | int | None) -> int | None:
    try:
        size = parse_bytes(memory) if isinstance(memory, str) else memory
    except ValueError as error:
        raise OptionError(f"memory: {error}") from error
    if size is not None and size < 1:
        raise OptionError(f"memory={memory!r}: give at least a byte, as in 512MB, or None for no limit")
    return size


def _proof(config: pytest.Config, limiter: Limiter, limit: int) -> Proof:
    proofs = config.stash.setdefault(_PROOFS, {})
    key = (limiter.kind, limit)
    if key not in proofs:
        advice = "see what `spillway doctor` says of memory limits here"
        proofs[key] = proved(limiter, limit, option="memory", advice=advice)
    return proofs[key]


class _Measurement:
    """The samples of one test."""

    def __init__(self, options: _CellOptions, writers: list[Writer], folder: Path, stack: ExitStack) -> None:
        self._options, self._writers = options, writers
        self._cells = [options.cell(writer) for writer in writers]
        inputs: Mapping[tuple[str, int], Path] = {self._cells[0].input: options.prepared.path}
        self._taker = SampleTaker(
            run_id="pytest",
            seed=_SEED,
            inputs=inputs,
            files=OutputFiles(folder / "outputs"),
            limiter=options.limiter,
            cores=choose_cores(options.cpus),
            timeout=_TIMEOUT_SECONDS,
        )
        self._reading_back = stack.enter_context(ReadingBack(options.prepared))
        self._samples: list[list[Sample]] = [[] for _ in writers]
        self._round = 0

    def take_round(self) -> None:
        """Have each writer write once, and move the clock by the seconds of the first.

        Raises:
            WriterFailedError: One of them failed.
        """
        __tracebackhide__ = True
        order = range(len(self._writers))
        for position, place in enumerate(order if self._round % 2 == 0 else reversed(order)):
            self._samples[place].append(self._take(place, position))
        self._round += 1
        use = self._samples[0][-1]["use"]
        if use is not None:
            clock.advance(use["wall_seconds"], use["user_seconds"] + use["system_seconds"])

    def _take(self, place: int, position: int) -> Sample:
        __tracebackhide__ = True
        cell, writer = self._cells[place], self._writers[place]
        with limits_of(cell, self._options.limiter) as memory_limit:
            sample = self._taker.take(Slot(self._round, position, cell), memory_limit)
        if sample["outcome"] != "ok" or sample["output"] is None:
            raise WriterFailedError(writer.failure(sample, self._round))
        wrong = self._reading_back.check(
            self._taker.files.path_of(sample["output"]["content_hash"]), sample["output"]
        )
        if wrong is not None:
            raise WriterFailedError(f"{writer.label} wrote a wrong file: {wrong}")
        return sample

    def figures(self, *, probe: bool) -> dict[str, Any]:
        """All that is known of the writers, for the JSON file."""
        options = self._options
        own, *others = (
            {
                "writer": writer.label,
                "mode": writer.mode,
                **figures_of(samples, self._probes(cell) if probe and writer.is_probed else []),
            }
            for writer, cell, samples in zip(self._writers, self._cells, self._samples, strict=True)
        )
        return {
            **own,
            "data": options.prepared.source,
            "rows": options.prepared.rows,
            "arrow_bytes": options.prepared.arrow_bytes,
            "cpus": options.cpus,
            "limit": _limit(options),
            "read_back_by": sorted(self._reading_back.engines),
            "against": {**others[0], **comparison(*self._samples)} if others else None,
            "host": host([sample for samples in self._samples for sample in samples]),
        }

    def _probes(self, cell: Cell) -> list[ProbeSample]:
        """Writes beside the probes that take time of their own, so that no round has them."""
        probes: tuple[Probe, ...] = ("gc", "gil")
        return [probe_once(self._taker, Slot(0, 0, (cell, probe))) for probe in probes]


def _limit(options: _CellOptions) -> dict[str, Any] | None:
    if options.memory is None or options.proof is None:
        return None
    return {
        "bytes": options.memory,
        "kind": options.limiter.kind,
        "proved": options.proof.holds,
        "canary": {"ending": options.proof.ending, "bytes": options.proof.died_at_bytes},
    }
