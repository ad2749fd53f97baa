"""The comparison of rows as Spark reads them with checksums of those that were written."""

from __future__ import annotations

from collections import defaultdict
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from spillway._native import Digest, digest
from spillway._wording import and_joined, counted
from spillway.spark.batches import NARROW_ROW_BYTES, without_limit
from spillway.spark.schema import arrow_schema
from spillway.validation.normalize import (
    LossyValueError,
    SchemaDiffersError,
    normal_schema,
    plan_reader,
)
from spillway.validation.source import empty_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame

    from spillway.validation.normalize import Plan

__all__ = ["FILE", "Checked", "check_rows", "same_rows"]

#: The column of the file that a row was read from.
FILE = "_spillway_file"
_ANSWER = "file string, lossy string, digest binary"
_ANSWER_TYPES: dict[str, pa.DataType] = {"file": pa.string(), "lossy": pa.string(), "digest": pa.binary()}
_SHOWN = 3


@dataclass(frozen=True)
class Checked:
    """The outcome of the comparison.

    Attributes:
        rows: The rows that were read.
        row_checksum: The checksum of whole rows, whatever their order; null where a value did not survive.
        problem: The difference from the rows that were made, in words; None without one.
    """

    rows: int
    row_checksum: str | None
    problem: str | None


def check_rows(
    frame: DataFrame,
    schema: pa.Schema,
    expected: Digest,
    *,
    parts: Sequence[Digest],
    row_bytes: float,
) -> Checked:
    """Compare rows as Spark reads them with the checksums of those that were made.

    Args:
        frame: The rows that were written, whose last column `FILE` has their files.
        schema: The schema of the rows that were made.
        expected: Their checksums.
        parts: The checksums of each partition, by which a file that differs is found.
        row_bytes: The average size of a row in Arrow's layout.
    """
    rows = frame.drop(FILE)
    try:
        plan = plan_reader(normal_schema(schema), arrow_schema(rows.schema), engine="spark")
    except SchemaDiffersError as error:
        return Checked(0, None, str(error))
    is_narrow = row_bytes <= NARROW_ROW_BYTES
    with without_limit(frame.sparkSession) if is_narrow else nullcontext():
        return _compare(frame, plan, expected, parts)


def _compare(frame: DataFrame, plan: Plan, expected: Digest, parts: Sequence[Digest]) -> Checked:
    # By place: a name may have dots, or be there twice.
    rows = frame.drop(FILE)
    found = _digests(rows.toDF(*(f"c{place}" for place in range(len(plan.schema)))), plan, by_file=False)
    total = empty_digest(plan.schema)
    for part, lossy in found.values():
        if lossy:
            return Checked(total.rows, None, lossy)
        total = total.merge(part)
    if same_rows(total, expected):
        return Checked(total.rows, total.row_checksum, None)
    return Checked(total.rows, total.row_checksum, _difference(frame, plan, total, expected, parts))


def same_rows(one: Digest, other: Digest) -> bool:
    """Return True for checksums of the same rows in any order."""
    return (one.rows, one.row_checksum, one.columns) == (other.rows, other.row_checksum, other.columns)


def _difference(
    frame: DataFrame, plan: Plan, found: Digest, expected: Digest, parts: Sequence[Digest]
) -> str:
    """The difference in words: rows, columns, and files that hold no partition's rows."""
    said = []
    if found.rows != expected.rows:
        said.append(f"{counted(found.rows, 'row')} instead of {expected.rows:,}")
    columns = [
        want["name"] for want, have in zip(expected.columns, found.columns, strict=True) if want != have
    ]
    if columns:
        more = f" and {len(columns) - _SHOWN} more" if len(columns) > _SHOWN else ""
        word = "column" if len(columns) == 1 else "columns"
        said.append(f"values differ in {word} {and_joined([repr(each) for each in columns[:_SHOWN]])}{more}")
    if not said:
        said.append("all columns agree, and their values stand in other rows")
    files = _suspects(frame, plan, parts)
    if files:
        more = f" and {len(files) - _SHOWN} more" if len(files) > _SHOWN else ""
        said.append(f"no partition's rows are those of {and_joined(files[:_SHOWN])}{more}")
    return "; ".join(said)


def _suspects(frame: DataFrame, plan: Plan, parts: Sequence[Digest]) -> list[str]:
    """Names of files whose rows are no partition's; none where files and partitions do not correspond."""
    by_place = frame.toDF(*(f"c{place}" for place in range(len(frame.columns))))
    found = _digests(by_place, plan, by_file=True)
    known = {part.row_checksum for part in parts}
    named = [file.rpartition("/")[2] for file, (each, _) in found.items() if each.row_checksum not in known]
    return sorted(named) if len(named) < len(found) or len(found) == 1 else []


def _digests(frame: DataFrame, plan: Plan, *, by_file: bool) -> Mapping[str, tuple[Digest, str]]:
    """The checksums by file, or by task; and the words of a value that did not survive its cast."""
    merged: dict[str, tuple[Digest, str]] = defaultdict(lambda: (empty_digest(plan.schema), ""))
    for row in frame.mapInArrow(_digest_task(plan, by_file=by_file), _ANSWER).toLocalIterator():
        before, said = merged[row["file"]]
        merged[row["file"]] = before.merge(Digest.from_bytes(bytes(row["digest"]))), said or row["lossy"]
    return merged


def _digest_task(
    plan: Plan, *, by_file: bool
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found: dict[str, Digest] = {}
        said: dict[str, str] = {}
        for batch in batches:
            for file, rows in _by_file(batch) if by_file else [("", batch)]:
                before = found.get(file) or empty_digest(plan.schema)
                try:
                    found[file] = before.merge(digest(plan.apply(rows), first_row=before.rows))
                except LossyValueError as error:
                    found[file] = before
                    said[file] = (
                        f"column {error.column!r} holds {error.value}, which {error.target} cannot hold"
                    )
        answers = [
            {"file": file, "lossy": said.get(file, ""), "digest": each.to_bytes()}
            for file, each in found.items()
        ]
        yield pa.RecordBatch.from_pylist(answers, schema=pa.schema(_ANSWER_TYPES))

    return task


def _by_file(batch: pa.RecordBatch) -> Iterable[tuple[str, pa.RecordBatch]]:
    """The rows of each file, whose name is the last column."""
    names = batch.column(batch.num_columns - 1)
    data = batch.select(list(range(batch.num_columns - 1)))
    for name in names.unique():
        chosen: Any = pc.equal(names, name)
        yield str(name.as_py()), data.filter(chosen)
