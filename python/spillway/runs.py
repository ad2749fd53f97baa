"""Runs as they lie on disk: found by their folder, and given as a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from spillway.errors import MissingExtraError, OptionError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from spillway.harness.records import RecordSchema

__all__ = ["find_run", "load_run", "verdicts"]


def load_run(path: str | Path) -> pa.Table:
    """A run of `spillway bench`, `spillway race` or `spillway pipeline` as a table: a row for each record.

    The columns are the fields of the record by their paths, joined with underscores, as in
    `throughput_rows_per_second`; the fields of `cell` have their own names, as in `backend` and `rows`. Lists
    stay lists. Seconds and bytes are the units. Every run of a kind has the same columns and types. A
    sample whose file a reader found wrong later has the outcome "wrong_output" here.

    `polars.from_arrow` and `pyarrow.Table.to_pandas` make it a frame.

    Args:
        path: The run's folder, or a folder of runs, of which it is the newest.

    Raises:
        OptionError: There is no run.
        CorruptFileError: A line of it is damaged.
        MissingExtraError: pyarrow is not installed.
    """
    try:
        import pyarrow as pa  # noqa: PLC0415 - the writer needs no pyarrow
    except ModuleNotFoundError as error:
        raise MissingExtraError("pyarrow", "bench", "load a run") from error
    from spillway.harness.records import is_stored  # noqa: PLC0415 - of what is measured with, as below

    folder = find_run(path)
    name, schema = next((name, schema) for name, schema in _kinds() if is_stored(folder / name))
    found = _records(folder, name)
    columns = dict(sorted(_columns(schema.document, ()), key=lambda each: each[1][0][0] != "cell"))
    return pa.table(
        {
            name: pa.array([_value(record, place) for record in found], kind)
            for name, (place, kind) in columns.items()
        }
    )


def find_run(path: str | Path) -> Path:
    """The folder of a run: `path` itself, or the newest run in it.

    Raises:
        OptionError: There is none.
    """
    from spillway.harness.records import COMPRESSED, is_stored  # noqa: PLC0415

    folder = Path(path)
    names = [name for name, _ in _kinds()]
    if any(is_stored(folder / name) for name in names):
        return folder
    stored = [stored for name in names for stored in (name, f"{name}{COMPRESSED}")]
    runs = [each.parent for name in stored for each in folder.glob(f"*/{name}")]
    if not runs:
        raise OptionError(
            f"{path}: no run, and no folder of runs: give the folder that a run named at its end, with "
            f"{names[0]} in it"
        )
    return max(runs, key=lambda each: each.name)


def verdicts(path: str | Path) -> dict[str, str]:
    """The verdict on each setting of a run of `spillway bench`: the sentence with which its reports open.

    Args:
        path: The run's folder, or a folder of runs, of which it is the newest.

    Raises:
        OptionError: There is no run.
        CorruptFileError: A line of it is damaged.
    """
    from spillway.bench.conclusion import headline  # noqa: PLC0415 - of what is measured with, as below
    from spillway.bench.ranking import rankings  # noqa: PLC0415
    from spillway.bench.summary import read_run  # noqa: PLC0415
    from spillway.bench.tables import setting_title  # noqa: PLC0415

    run = read_run(find_run(path))
    return {setting_title(each): f"{headline(rankings(run, each)[0])}." for each in run.settings}


def _kinds() -> Iterator[tuple[str, RecordSchema]]:
    """The file that has the records of each kind of run, and their schema."""
    from spillway.bench import record as bench  # noqa: PLC0415 - what is measured with is not needed to write
    from spillway.pipeline import record as pipeline  # noqa: PLC0415
    from spillway.race import record as race  # noqa: PLC0415

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
        if wrong and each["output"] is not None and each["output"]["content_hash"] in wrong:
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
