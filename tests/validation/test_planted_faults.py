"""A validator that is handed files with faults must find each, with every engine, and name where it is."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spillway.validation import Source, Validator, validate

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from spillway.validation import Verdict

ROWS = 1000
IN_PROCESS = ("pyarrow", "polars", "duckdb")

Rows = list[dict[str, Any]]


def make_rows() -> Rows:
    rng = random.Random(7)  # noqa: S311  # rows that are the same every time
    return [
        {
            "id": index,
            "a": rng.randrange(10**6),
            "b": rng.randrange(10**6, 2 * 10**6),
            "maybe": rng.randrange(100) if rng.random() < 0.7 else None,
            "ratio": 0.0 if index == 640 else rng.random(),
            "word": f"{'w' * rng.randrange(40)}{rng.randrange(10**9)}",
            "at": 1_700_000_000_000_000 + rng.randrange(10**12),
            "tags": [f"t{rng.randrange(9)}" for _ in range(rng.randrange(3))],
        }
        for index in range(ROWS)
    ]


SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "a": pa.int64(),
        "b": pa.int64(),
        "maybe": pa.int32(),
        "ratio": pa.float64(),
        "word": pa.string(),
        "at": pa.timestamp("us", "UTC"),
        "tags": pa.list_(pa.string()),
    }
)


def swap_two_words(rows: Rows) -> None:
    rows[311]["word"], rows[702]["word"] = rows[702]["word"], rows[311]["word"]


def swap_two_list_elements(rows: Rows) -> None:
    first, second = [row for row in rows if row["tags"]][40:42]
    first["tags"][0], second["tags"][0] = "left", "right"


def shift_nulls(rows: Rows) -> None:
    values = [row["maybe"] for row in rows[500:600]]
    for row, value in zip(rows[500:600], values[-1:] + values[:-1], strict=True):
        row["maybe"] = value


def drop_a_row(rows: Rows) -> None:
    del rows[444]


def drop_the_last_row(rows: Rows) -> None:
    del rows[-1]


def double_a_row(rows: Rows) -> None:
    rows.insert(123, dict(rows[123]))


def double_the_last_row(rows: Rows) -> None:
    rows.append(dict(rows[-1]))


def swap_across_columns(rows: Rows) -> None:
    rows[87]["a"], rows[87]["b"] = rows[87]["b"], rows[87]["a"]


def reorder_rows(rows: Rows) -> None:
    rows[250:260] = rows[250:260][::-1]


def flip_the_sign_of_zero(rows: Rows) -> None:
    rows[640]["ratio"] = -0.0


def move_a_moment_by_a_microsecond(rows: Rows) -> None:
    rows[999]["at"] += 1


ROW_FAULTS: dict[Callable[[Rows], None], str] = {
    swap_two_words: "values",
    swap_two_list_elements: "values",
    shift_nulls: "values",
    drop_a_row: "row_count",
    drop_the_last_row: "row_count",
    double_a_row: "row_count",
    double_the_last_row: "row_count",
    swap_across_columns: "values",
    reorder_rows: "row_order",
    flip_the_sign_of_zero: "values",
    move_a_moment_by_a_microsecond: "values",
}


def rename_a_column(table: pa.Table) -> pa.Table:
    return table.rename_columns(["ratio2" if name == "ratio" else name for name in table.column_names])


def reorder_columns(table: pa.Table) -> pa.Table:
    return table.select(["id", "b", "a", *table.column_names[3:]])


def drop_a_column(table: pa.Table) -> pa.Table:
    return table.drop_columns(["tags"])


def widen_a_type(table: pa.Table) -> pa.Table:
    return table.set_column(3, "maybe", table["maybe"].cast(pa.int64()))


def forget_the_zone(table: pa.Table) -> pa.Table:
    return table.set_column(6, "at", table["at"].cast(pa.timestamp("us")))


SCHEMA_FAULTS: dict[Callable[[pa.Table], pa.Table], str] = {
    rename_a_column: "ratio",
    reorder_columns: "a",
    drop_a_column: "tags",
    widen_a_type: "maybe",
    forget_the_zone: "at",
}


@dataclass(frozen=True)
class Fault:
    """A bad file and what has to be said of it."""

    name: str
    file: Path
    kind: str
    row: int | None
    column: str | None
    values: tuple[str, str] | None


def to_table(rows: Rows) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def first_difference(good: Rows, bad: Rows) -> tuple[int, str, tuple[Any, Any] | None]:
    """The difference that the validator should find, found by comparing Python objects."""
    for index, (want, have) in enumerate(zip(good, bad, strict=False)):
        for column in SCHEMA.names:
            if repr(want[column]) != repr(have[column]):
                return index, column, (want[column], have[column])
    return min(len(good), len(bad)), SCHEMA.names[0], None


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("planted")


@pytest.fixture(scope="module")
def source(folder: Path) -> Source:
    path = folder / "source.arrow"
    with pa.ipc.new_file(path, SCHEMA) as writer:
        writer.write_table(to_table(make_rows()), max_chunksize=130)
    return Source(path)


@pytest.fixture(scope="module")
def good_file(folder: Path) -> Path:
    path = folder / "good.parquet"
    pq.write_table(to_table(make_rows()), path, row_group_size=300)
    return path


@pytest.fixture(scope="module")
def faults(folder: Path, good_file: Path) -> list[Fault]:
    found = []
    good = make_rows()
    for plant, kind in ROW_FAULTS.items():
        bad = make_rows()
        plant(bad)
        path = folder / f"{plant.__name__}.parquet"
        pq.write_table(to_table(bad), path, row_group_size=300)
        row, column, values = first_difference(good, bad)
        shown = (
            None if values is None or column == "at" else ("null" if v is None else repr(v) for v in values)
        )
        found.append(Fault(plant.__name__, path, kind, row, column, tuple(shown) if shown else None))
    for change, column in SCHEMA_FAULTS.items():
        path = folder / f"{change.__name__}.parquet"
        pq.write_table(change(to_table(good)), path, row_group_size=300)
        found.append(Fault(change.__name__, path, "schema", None, column, None))
    return [*found, *damaged_files(folder, good_file)]


def damaged_files(folder: Path, good_file: Path) -> list[Fault]:
    content = good_file.read_bytes()
    damages = {
        "truncated": content[: len(content) // 2],
        "no_footer": content[:-8] + b"\0" * 8,
        "empty": b"",
        "not_parquet": b"id,a,b\n1,2,3\n" * 50,
        "page_overwritten": content[:200] + b"\xff" * 2000 + content[2200:],
    }
    faults = []
    for name, damaged in damages.items():
        path = folder / f"{name}.parquet"
        path.write_bytes(damaged)
        faults.append(Fault(name, path, "unreadable", None, None, None))
    return faults


def assert_all_found(faults: list[Fault], verdicts: list[Any], readers: int) -> None:
    assert len(verdicts) == len(faults) * readers
    by_file = {fault.file: fault for fault in faults}
    for verdict in verdicts:
        fault = by_file[verdict.file]
        where = f"{fault.name} by {verdict.engine}: {verdict}"
        assert verdict.failed, where
        assert (verdict.mismatch.kind, verdict.mismatch.row) == (fault.kind, fault.row), where
        assert verdict.mismatch.column == fault.column, where
        if fault.values is not None:
            assert (verdict.mismatch.expected, verdict.mismatch.actual) == fault.values, where
        if fault.row is not None:
            assert f"row {fault.row}, column {fault.column!r}" in verdict.mismatch.message


@pytest.mark.parametrize("engine", IN_PROCESS)
def test_every_engine_finds_every_planted_fault(engine: str, faults: list[Fault], source: Source) -> None:
    verdicts = validate([fault.file for fault in faults], source, [engine])
    assert_all_found(faults, verdicts, readers=1)


@pytest.fixture(scope="module")
def in_one_job(good_file: Path, faults: list[Fault]) -> list[Path]:
    """A good file, one that no reader can read, and one with another value."""
    files = {fault.name: fault.file for fault in faults}
    return [good_file, files["page_overwritten"], files["swap_two_words"]]


@pytest.fixture(scope="module")
def by_spark(
    spark: SparkSession, in_one_job: list[Path], faults: list[Fault], source: Source
) -> list[Verdict]:
    """The verdicts of both readers of Spark on all files. A job takes some, in this order."""
    files = dict.fromkeys([*in_one_job, *(fault.file for fault in faults)])
    with Validator(["spark"], spark=spark) as validator:
        return validator.validate([(file, source) for file in files])


@pytest.mark.spark
def test_both_spark_readers_find_every_planted_fault(
    by_spark: list[Verdict], faults: list[Fault], good_file: Path
) -> None:
    assert_all_found(faults, [each for each in by_spark if each.file != good_file], readers=2)


@pytest.mark.parametrize("engine", IN_PROCESS)
def test_the_file_without_a_fault_passes(engine: str, good_file: Path, source: Source) -> None:
    (verdict,) = validate([good_file], source, [engine])
    assert verdict.ok, verdict


@pytest.mark.spark
def test_one_bad_file_does_not_spoil_the_others_of_its_job(
    by_spark: list[Verdict], in_one_job: list[Path]
) -> None:
    verdicts = [verdict for verdict in by_spark if verdict.file in in_one_job]
    assert [verdict.ok for verdict in verdicts] == [True, True, False, False, False, False]
    kinds = [verdict.mismatch.kind for verdict in verdicts if verdict.mismatch]
    assert kinds == ["unreadable", "unreadable", "values", "values"]
    assert [verdict.engine for verdict in verdicts[:2]] == ["spark-vectorized", "spark-row"]


def test_a_message_names_the_file_that_was_given(faults: list[Fault], source: Source) -> None:
    truncated = next(fault.file for fault in faults if fault.name == "truncated")
    for verdict in validate([truncated], source, ["polars", "duckdb"]):
        assert verdict.mismatch is not None
        assert "spillway-validate" not in verdict.mismatch.message
