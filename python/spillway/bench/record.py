"""The files that a run's folder has its samples in, and the record of a sample."""

from typing import Annotated, Any, Literal, NotRequired, TypedDict

from spillway.bench.plan import Cell
from spillway.harness.environment import HostReading
from spillway.harness.probes.curve import AllocationCurve
from spillway.harness.probes.jvm import JvmReading
from spillway.harness.probes.readings import (
    Account,
    Curve,
    GarbageReading,
    GilReading,
    GroupReading,
    MemoryReading,
    Pool,
    PoolReading,
    UsageReading,
)
from spillway.harness.records import Failure, Instant, Keywords, RecordSchema, Signed

SAMPLES = "samples.jsonl"
DISTURBED = "disturbed.jsonl"
VALIDATION = "validation.jsonl"
ALLOCATIONS = "allocations.jsonl"
PROBES = "probes.jsonl"
PAIRS = "pairs.jsonl"
LEAST_MEMORY = "least_memory.jsonl"
SCHEMA_VERSION: Literal[2] = 2

Outcome = Literal[
    "ok", "memory_error", "library_error", "aborted", "segfault", "oom_killed", "timeout", "wrong_output"
]
Phase = Literal["exec", "limits", "import", "input", "warm-up", "baseline", "write", "after", "exit"]
Probe = Literal["none", "curve", "gil", "gc"]
_Share = Annotated[float, Keywords(maximum=1)]
_Sha256 = Annotated[str, Keywords(pattern="^[0-9a-f]{64}$")]


class PhaseLength(TypedDict):
    """One phase of the measured process."""

    phase: Phase
    seconds: float


class _Input(TypedDict):
    """The input before the sample.

    Attributes:
        resident_share_before: Share of the input's pages that were in the page cache.
    """

    resident_share_before: _Share


class _Column(TypedDict):
    """One column of the written file, and the encodings in its pages."""

    column: str
    encodings: list[str]


class OutputFile(TypedDict):
    """The written file, from its footer.

    Attributes:
        content_hash: SHA-256 of all its bytes.
    """

    bytes: int
    content_hash: _Sha256
    rows: int
    row_groups: int
    created_by: str | None
    encodings: list[_Column]


class ProgramFigure(TypedDict):
    """A figure that an external program printed of itself: bytes, seconds or a count, as its name says."""

    name: str
    value: Annotated[float, Keywords(minimum=None)]


class _Throughput(TypedDict):
    """The speed of the write.

    Attributes:
        megabytes_per_second: Megabytes of Arrow data.
    """

    rows_per_second: float
    megabytes_per_second: float
    arrow_bytes: int


class _Memory(MemoryReading):
    """Memory of the measured process, before the write and after it.

    Attributes:
        growth_bytes: The exact peak of the write over the baseline before it.
    """

    growth_bytes: Signed


class Placement(TypedDict):
    """The executor of a Spark cluster that took a sample.

    Attributes:
        host: The name of its host among the hosts of the run's environment.
        executor: Its number in Spark.
    """

    host: str
    executor: str


class Measures(TypedDict):
    """The measures of the process itself: all null if it did not live to report them.

    Attributes:
        fsync_seconds: An extra fsync after the write, not part of it.
        pools: Thread pools as read back.
        account: The library's own account of memory.
        jvm: The JVM of a backend that writes in one; null for all others.
        affinity_cores: Cores in the affinity mask, as read back.
        program: Further figures of an external program; null for a library.
    """

    throughput: _Throughput | None
    use: UsageReading | None
    memory: _Memory | None
    fsync_seconds: float | None
    pools: list[Pool] | None
    pyarrow_pool: PoolReading | None
    account: list[Account] | None
    jvm: NotRequired[JvmReading | None]
    affinity_cores: int | None
    backend_version: str | None
    program: NotRequired[list[ProgramFigure] | None]


class Sample(Measures):
    """One sample of a run: a line of samples.jsonl. Times are seconds, sizes bytes, a MB is 10^6 of them.

    Attributes:
        run_id: The run's name.
        block: One shuffled pass over all cells.
        position: The position within the block.
        seed: The run's seed.
        started_at: The time in UTC.
        cell: One backend at one setting.
        died_in: The phase in which a failed process ended.
        stderr: The end of standard error, without paths.
        process_seconds: The whole process, from its start to its end.
        shares_core: True if the bench had no separate core to wait on; it then recorded no curve.
        group: Memory of the control group; null if the process had no separate group.
        phases: The phases that were over, in their order.
        host: The host during the sample.
        placement: The executor that took it, in a run on a cluster.
    """

    schema_version: Literal[2]
    run_id: str
    block: int
    position: int
    seed: Signed
    started_at: Instant
    cell: Annotated[dict[str, Any], Cell]
    outcome: Outcome
    died_in: Phase | None
    exit_status: int | None
    signal: str | None
    error: Failure | None
    stderr: str
    process_seconds: float
    phases: list[PhaseLength]
    shares_core: bool
    input: _Input
    host: HostReading
    placement: NotRequired[Placement]
    group: GroupReading | None
    output: OutputFile | None
    curve: Curve


class Result(TypedDict):
    """The message in which the measured process reports its measurements."""

    rows: int
    arrow_bytes: int
    use: UsageReading
    memory: MemoryReading
    fsync_seconds: float
    pools: list[Pool]
    pyarrow_pool: PoolReading | None
    account: list[Account]
    group: GroupReading | None
    jvm: JvmReading | None
    affinity: int
    version: str
    program: list[ProgramFigure] | None


class ProbeResult(TypedDict):
    """The message of a process that was watched by one probe: those of the others are null."""

    wall_seconds: float
    gil: GilReading | None
    gc: GarbageReading | None


class ProbeSample(TypedDict):
    """One write of a pass that is not timed for the tables: a line of probes.jsonl.

    Attributes:
        run_id: The run's name.
        block: One shuffled pass over all cells and probes.
        position: The position within the block.
        cell: The cell, as in a sample.
        probe: The only probe that was active; the others are compared with "none".
        wall_seconds: The write; null if it did not end well.
    """

    schema_version: Literal[2]
    run_id: str
    block: int
    position: int
    cell: Annotated[dict[str, Any], Cell]
    probe: Probe
    outcome: Outcome
    wall_seconds: float | None
    gil: GilReading | None
    gc: GarbageReading | None


class PairResult(TypedDict):
    """The message of a process that wrote at the same moment as another."""

    processor_seconds: float


class PairSample(TypedDict):
    """Two writes at once on one core: a line of pairs.jsonl.

    Attributes:
        run_id: The run's name.
        block: One shuffled pass over all pairs.
        position: The position within the block.
        cell: The cell, as in a sample.
        base: The backend that wrote at the same time, with the same setting.
        base_outcome: The outcome of that one.
        processor_seconds: The user's and the kernel's time of the cell's write, of all threads; null unless
            both ended well.
        base_processor_seconds: The same of the base.
    """

    schema_version: Literal[2]
    run_id: str
    block: int
    position: int
    cell: Annotated[dict[str, Any], Cell]
    base: str
    outcome: Outcome
    base_outcome: Outcome
    processor_seconds: float | None
    base_processor_seconds: float | None


class Allocations(TypedDict):
    """One write under a tracer of allocations: a line of allocations.jsonl.

    Attributes:
        run_id: The run's name.
        chunk_rows: Rows of a batch; missing in early records, like the next two.
        row_group_rows: Rows of a row group.
        python: The Python environment, as in a cell.
        reason: The reason why there is no curve, or null.
        wall_seconds: The traced write, which is slower than one without.
    """

    schema_version: Literal[2]
    run_id: str
    backend: str
    mode: str
    dataset: str
    codec: str
    rows: int
    chunk_rows: NotRequired[int]
    row_group_rows: NotRequired[int]
    python: NotRequired[str]
    reason: str | None
    wall_seconds: float | None
    curve: AllocationCurve | None


class LimitTrial(TypedDict):
    """One write under a limit that may be too small: a line of least_memory.jsonl.

    Attributes:
        run_id: The run's name.
        cell: The cell, with the limit that was tried.
        most_bytes: The largest limit of its search.
        wall_seconds: The write; null if it did not end well.
    """

    schema_version: Literal[2]
    run_id: str
    cell: Annotated[dict[str, Any], Cell]
    most_bytes: NotRequired[int]
    outcome: Outcome
    died_in: Phase | None
    wall_seconds: float | None


SCHEMA = RecordSchema(Sample)
LIMIT_TRIAL_SCHEMA = RecordSchema(LimitTrial)
PROBE_SCHEMA = RecordSchema(ProbeSample)
PAIR_SCHEMA = RecordSchema(PairSample)
ALLOCATION_SCHEMA = RecordSchema(Allocations)
