"""Load stored runs of the bench as tables, and compare writers."""

from __future__ import annotations

from dataclasses import asdict
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from spillway.errors import MissingExtraError, OptionError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

    from spillway.bench.summary import RunSummary
    from spillway.harness.records import RecordSchema

__all__ = [
    "Records",
    "crossovers",
    "find_run",
    "least_memory",
    "load_run",
    "source_of",
    "speed_ratios",
    "verdicts",
]

Records = Literal["samples", "allocations", "least_memory", "pairs", "probes"]
"""The records of a run that `load_run` reads."""


def load_run(path: str | Path, records: Records = "samples") -> pa.Table:
    """A run of `spillway bench`, `spillway race` or `spillway pipeline` as a table: a row for each record.

    The columns are the fields of the record, named by their paths with underscores, as in
    `throughput_rows_per_second`; the fields of `cell` have no prefix, as in `backend` and `rows`. Lists stay
    lists. Units are seconds and bytes. Every run of a kind has the same columns and types. A sample whose
    file a reader later found wrong has the outcome "wrong_output".

    `polars.from_arrow` and `pyarrow.Table.to_pandas` convert the table to a frame.

    Args:
        path: The run's folder, or a folder of runs, whose newest run is used.
        records: "samples" are the measured processes, the races, or the pipeline. The other records exist
            only for `spillway bench` records: "allocations" are the writes under memray, with their curves,
            "least_memory" the writes under limits that may be too small, "pairs" the writes in pairs, and
            "probes" the writes with a probe. A run without any has no rows.

    Raises:
        OptionError: There is no run, or no such records.
        CorruptFileError: A line of it is damaged.
        MissingExtraError: pyarrow is not installed.
    """
    _require_pyarrow()
    folder = find_run(path)
    name, schema = _file_of(folder, records)
    found = _records(folder, name)
    columns = dict(sorted(_columns(schema.document, ()), key=lambda each: each[1][0][0] != "cell"))
    return _arrow(
        {name: ([_value(each, place) for each in found], kind) for name, (place, kind) in columns.items()}
    )


def speed_ratios(path: str | Path) -> pa.Table:
    """The speed of each writer in a run relative to the fastest writer of a library other than Spillway.

    There is a row for each writer, setting and number of rows, with the fastest writer first. Writers with a
    failed sample or a wrong file are left out. The columns are the fields of the cell, and:

    - `over`: the writer that it is compared with; if no other library was measured, the fastest writer
    - `ratio`, `low`, `high`: the ratio of rows per second within blocks, and its 95 % interval (with fewer
      than six blocks, the whole range); null if the two share no block
    - `blocks`: the number of blocks

    Args:
        path: The run's folder, or a folder of runs, whose newest run is used.

    Raises:
        OptionError: There is no run of `spillway bench`.
        CorruptFileError: A line of it is damaged.
        MissingExtraError: pyarrow is not installed.
    """
    from spillway.backends import OWN_LIBRARY, library  # noqa: PLC0415 - as below
    from spillway.bench.summary import speed  # noqa: PLC0415
    from spillway.bench.tables import rankings, ratio  # noqa: PLC0415

    run = _bench_run(path)
    rows = []
    for ranking in (each for setting in run.settings for each in rankings(run, setting)):
        right = ranking.right
        others = [each for each in right if library(each.cell.backend) != OWN_LIBRARY] or right
        for each in right:
            found = ratio(each, others[0], speed)
            ends = {} if found is None else {"ratio": found.median, "low": found.low, "high": found.high}
            blocks = 0 if found is None else found.n
            rows.append({**asdict(each.cell), "over": others[0].cell.backend, **ends, "blocks": blocks})
    numbers = dict.fromkeys(("ratio", "low", "high"), "number")
    return _table(rows, {"over": "string", **numbers, "blocks": "integer"})


def crossovers(path: str | Path) -> pa.Table:
    """The numbers of rows from which on one writer in a run is faster than another.

    There is a row for each pair of writers whose order changes between the smallest and the largest number of
    rows measured. The columns are the fields of the setting, and:

    - `backend`, `other`: the writer that is faster from this number on, and the one that is faster below it
    - `rows`: the estimate, interpolated between two measured numbers
    - `low`, `high`: its 95 % interval, from the ratios of each block; null for an end outside the measured
      range
    - `fewest`, `most`: the smallest and the largest number of rows measured

    Args:
        path: The run's folder, or a folder of runs, whose newest run is used.

    Raises:
        OptionError: There is no run of `spillway bench`.
        CorruptFileError: A line of it is damaged.
        MissingExtraError: pyarrow is not installed.
    """
    from spillway.bench.ratio_tables import crossover_of  # noqa: PLC0415

    run = _bench_run(path)
    rows = []
    for setting in run.settings:
        cells = run.of(setting)
        names = dict.fromkeys(each.cell.backend for each in cells)
        by_name = [[each for each in cells if each.cell.backend == name] for name in names]
        for found in (crossover_of(one, other) for one, other in combinations(by_name, 2)):
            if found is not None:
                fewest, most = found.measured
                ends = {
                    "low": found.low if found.low >= fewest else None,
                    "high": found.high if found.high <= most else None,
                }
                place = {"backend": found.leader, "other": found.other, "rows": round(found.rows)}
                rows.append({**asdict(setting), **place, **ends, "fewest": fewest, "most": most})
    numbers = dict.fromkeys(("low", "high"), "number") | dict.fromkeys(("fewest", "most"), "integer")
    return _table(rows, {"other": "string", **numbers})


def least_memory(path: str | Path) -> pa.Table:
    """The least memory in which each writer of a run survives, as found by `--least-memory`.

    There is a row for each writer, the smallest limit first. The columns are the fields of the cell, and:

    - `survives_from_bytes`, `survived`: the smallest limit at and above which every write succeeded, and the
      number of writes at that limit; null without one
    - `dies_at_bytes`, `died`: the largest limit at and below which every write died, and the number of writes
      at that limit; null without one
    - `wall_seconds`: the median time of the writes at `survives_from_bytes`

    The limit applies to the whole process, including imports.

    Args:
        path: The run's folder, or a folder of runs, whose newest run is used.

    Raises:
        OptionError: There is no run of `spillway bench`.
        CorruptFileError: A line of it is damaged.
        MissingExtraError: pyarrow is not installed.
    """
    from spillway.bench.side_tables import found_limits  # noqa: PLC0415

    run = _bench_run(path)
    rows = []
    for found in (each for setting in run.settings for each in found_limits(run, setting)):
        bounds = found.bounds
        limits = {
            "survives_from_bytes": bounds.survives_from,
            "survived": bounds.survived,
            "dies_at_bytes": bounds.dies_at or None,
            "died": bounds.died,
            "wall_seconds": found.seconds,
        }
        rows.append({**asdict(found.cell), "memory_bytes": None, **limits})
    counts = dict.fromkeys(("survives_from_bytes", "survived", "dies_at_bytes", "died"), "integer")
    return _table(rows, {**counts, "wall_seconds": "number"})


def source_of(path: str | Path) -> str:
    """The source of a run's figures, in Markdown: run, machine, versions and commit.

    The caveats of the run follow, as in its report.

    Args:
        path: The run's folder, or a folder of runs, whose newest run is used.

    Raises:
        OptionError: There is no run of `spillway bench`.
        CorruptFileError: A line of it is damaged.
    """
    from spillway._wording import counted  # noqa: PLC0415
    from spillway.harness.report import bullets, checkout, machine, software  # noqa: PLC0415

    run = _bench_run(path)
    fewest = min((len(each.samples) for each in run.cells), default=0)
    about = [
        f"Run {run.run_id}: {counted(fewest, 'sample')} a cell. {machine(run.environment)}.",
        software(run.environment),
        *checkout(run.environment),
    ]
    caveats = run.warnings()
    return " ".join(about) + (f"\n\nBefore you believe it:\n\n{bullets(caveats)}" if caveats else "")


def find_run(path: str | Path, record: str | None = None) -> Path:
    """The folder of a run: `path` itself, or the newest run in it.

    Args:
        path: A run's folder, or a folder of runs.
        record: The file of records that a run of the wanted command has; None for any.

    Raises:
        OptionError: There is no run at `path`.
    """
    from spillway.harness.records import COMPRESSED, is_stored  # noqa: PLC0415

    folder = Path(path)
    names = [name for name, _ in _kinds()]
    wanted = [name for name in names if record in {None, name}]
    if any(is_stored(folder / name) for name in wanted):
        return folder

    def below(name: str) -> list[Path]:
        return [each.parent for form in (name, f"{name}{COMPRESSED}") for each in folder.glob(f"*/{form}")]

    runs = [run for name in wanted for run in below(name)]
    if not runs:
        if any(is_stored(folder / name) or below(name) for name in names):
            raise OptionError(f"{path}: a run of spillway bench was expected, and none there has {wanted[0]}")
        raise OptionError(
            f"{path}: neither a run nor a folder of runs: give the folder that a run printed at its "
            f"end, with "
            f"{names[0]} in it"
        )
    return max(runs, key=lambda each: each.name)


def verdicts(path: str | Path) -> dict[str, str]:
    """The verdict on each setting of a run of `spillway bench`: the sentence with which its reports begin.

    Args:
        path: The run's folder, or a folder of runs, whose newest run is used.

    Raises:
        OptionError: There is no run of `spillway bench`.
        CorruptFileError: A line of it is damaged.
        MissingExtraError: pyarrow is not installed.
    """
    from spillway.bench.conclusion import headline  # noqa: PLC0415 - as above
    from spillway.bench.tables import rankings, setting_title  # noqa: PLC0415

    run = _bench_run(path)
    return {setting_title(each): f"{headline(rankings(run, each)[0])}." for each in run.settings}


def _require_pyarrow() -> None:
    """Raise MissingExtraError where pyarrow is not installed, which the writer does not need."""
    try:
        import pyarrow as pa  # noqa: F401, PLC0415
    except ModuleNotFoundError as error:
        raise MissingExtraError("pyarrow", "bench", "load a run") from error


def _arrow(columns: Mapping[str, tuple[Sequence[Any], pa.DataType]]) -> pa.Table:
    """A table of columns, each of its values and its type."""
    import pyarrow as pa  # noqa: PLC0415

    return pa.table({name: pa.array(values, kind) for name, (values, kind) in columns.items()})


def _bench_run(path: str | Path) -> RunSummary:
    """A run of `spillway bench`.

    Raises:
        OptionError: There is no run at `path`, or it is of another command.
    """
    from spillway.bench.record import SAMPLES  # noqa: PLC0415
    from spillway.bench.summary import read_run  # noqa: PLC0415

    _require_pyarrow()
    return read_run(find_run(path, SAMPLES))


def _table(rows: Sequence[Mapping[str, Any]], more: Mapping[str, str]) -> pa.Table:
    """A table with the fields of the cell that any of the rows has, and with more columns by their types."""
    from spillway.bench.record import SCHEMA  # noqa: PLC0415

    cell = {name: kind for name, (place, kind) in _columns(SCHEMA.document, ()) if place[0] == "cell"}
    types = cell | {name: _type({"type": kind}) for name, kind in more.items()}
    return _arrow({name: ([row.get(name) for row in rows], kind) for name, kind in types.items()})


def _file_of(folder: Path, records: Records) -> tuple[str, RecordSchema]:
    """The file of a run that has these records, and their schema.

    Raises:
        OptionError: There are no such records.
    """
    from spillway.bench import record as bench  # noqa: PLC0415
    from spillway.harness.records import is_stored  # noqa: PLC0415

    if records == "samples":
        return next((name, schema) for name, schema in _kinds() if is_stored(folder / name))
    files = {
        "allocations": (bench.ALLOCATIONS, bench.ALLOCATION_SCHEMA),
        "least_memory": (bench.LEAST_MEMORY, bench.LIMIT_TRIAL_SCHEMA),
        "pairs": (bench.PAIRS, bench.PAIR_SCHEMA),
        "probes": (bench.PROBES, bench.PROBE_SCHEMA),
    }
    if records not in files:
        known = ", ".join(["samples", *files])
        raise OptionError(f"records must be one of {known}, not {records!r}")
    return files[records]


def _kinds() -> Iterator[tuple[str, RecordSchema]]:
    """The file that has the records of each kind of run, and their schema."""
    from spillway.bench import record as bench  # noqa: PLC0415 - what is measured with is not needed to write
    from spillway.race import record as race  # noqa: PLC0415
    from spillway.spark.pipeline import record as pipeline  # noqa: PLC0415

    yield bench.SAMPLES, bench.SCHEMA
    yield race.RACES, race.SCHEMA
    yield pipeline.PIPELINE, pipeline.SCHEMA


def _records(folder: Path, name: str) -> list[dict[str, Any]]:
    """The records of a run, with the outcome that readers gave them afterwards."""
    from spillway.bench.record import VALIDATION  # noqa: PLC0415
    from spillway.harness import records  # noqa: PLC0415

    verdicts = records.read_lines(folder / VALIDATION)
    wrong = {each["content_hash"] for each in verdicts if each["outcome"] == "wrong_output"}
    found = records.read_lines(folder / name)
    for each in found:
        if wrong and each.get("output") is not None and each["output"]["content_hash"] in wrong:
            each["outcome"] = "wrong_output"
    return found


_Place = tuple[str, ...]


def _columns(schema: Mapping[str, Any], place: _Place) -> Iterator[tuple[str, tuple[_Place, pa.DataType]]]:
    """The columns of an object of a JSON Schema: names, with the paths of their values and their types."""
    for name, field in schema["properties"].items():
        kind = _not_null(field)
        here = (*place, name)
        if "properties" in kind:
            yield from _columns(kind, here)
        else:
            yield "_".join(here[1:] if here[0] == "cell" else here), (here, _type(kind))


def _not_null(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema that is meant where null is allowed too."""
    choices = [each for each in schema.get("anyOf", ()) if each.get("type") != "null"]
    return choices[0] if choices else schema


def _type(schema: Mapping[str, Any]) -> pa.DataType:
    """The Arrow type of a JSON Schema."""
    import pyarrow as pa  # noqa: PLC0415

    schema = _not_null(schema)
    if "properties" in schema:
        return pa.struct([(name, _type(field)) for name, field in schema["properties"].items()])
    kind = schema.get("type")
    if kind == "array":
        return pa.list_(_type(schema["items"]))
    if kind == "object":
        return pa.map_(pa.string(), _type(schema["additionalProperties"]))
    numbers: dict[Any, pa.DataType] = {"integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_()}
    if kind in numbers:
        return numbers[kind]
    constants = schema.get("enum", [])
    return numbers["integer"] if constants and isinstance(constants[0], int) else pa.string()


def _value(record: Any, place: _Place) -> Any:
    for name in place:
        record = None if record is None else record.get(name)
    return record
