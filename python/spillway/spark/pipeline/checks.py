"""Checks of a pipeline, on single rows and on all rows of a run together, and the result of a run."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from spillway.errors import OptionError, SchemaError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column

    from spillway.spark.pipeline.audit import AuditOutcome
    from spillway.spark.pipeline.record import Stage

BadRows = Literal["fail", "drop", "quarantine"]
"""What to do with rows that fail a check."""
AuditKind = Literal["full", "sample", "none"]
"""Which of the written files are read back."""


@dataclass(frozen=True)
class RowCheck:
    """A condition that each row must satisfy.

    Attributes:
        name: The check as it is spelled, such as ``not_null(id)``.
        column: The column to check.
        bounds: The smallest and the largest value; None if the column only has to have a value.
        is_corrupt: True for the column in which Spark's readers store a record that they could not parse: it
            must be null.
    """

    name: str
    column: str
    bounds: tuple[Any, Any] | None = None
    is_corrupt: bool = False

    def failed(self, column: Column) -> Column:
        """The condition of rows that fail the check."""
        if self.is_corrupt:
            return column.isNotNull()
        if self.bounds is None:
            return column.isNull()
        from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

        # Without ANSI mode, a value that does not compare with the bounds makes the comparison null.
        return column.isNotNull() & ~F.coalesce(column.between(*self.bounds), F.lit(False))  # noqa: FBT003 - a literal


@dataclass(frozen=True)
class Unique:
    """The condition that no two rows have the same values in some columns.

    Attributes:
        name: The check as it is spelled, such as ``unique(id)``.
        columns: The columns.
        in_table: True if rows in the sink also count.
    """

    name: str
    columns: tuple[str, ...]
    in_table: bool = False


Check = RowCheck | Unique


def not_null(column: str) -> RowCheck:
    """Check that each row has a value in a column.

    Args:
        column: The column's name.

    Example:
        >>> spillway.spark.not_null("id").name
        'not_null(id)'
    """
    return RowCheck(f"not_null({column})", column)


def between(column: str, low: Any, high: Any) -> RowCheck:
    """Check that each value of a column lies between two bounds, inclusive.

    A null passes, as in SQL; use `not_null` to refuse it. NaN is greater than any number, as in Spark. A
    value that Spark cannot compare with the bounds fails, such as text beside numbers.

    Args:
        column: The column's name.
        low: The smallest value: a number, a string, a date or a datetime, which Spark compares with the
            column.
        high: The largest value.

    Raises:
        OptionError: A bound is None or NaN.

    Example:
        >>> spillway.spark.between("latency_ms", 0, 60_000).name
        'between(latency_ms, 0, 60000)'
    """
    name = f"between({column}, {low}, {high})"
    for bound in (low, high):
        if bound is None or bound != bound:  # noqa: PLR0124 - NaN is
            message = f"{name}: {bound} is no bound, since it compares with nothing: give a value"
            raise OptionError(message, "between")
    return RowCheck(name, column, (low, high))


def unique(*columns: str, in_table: bool = False) -> Unique:
    """Check that no two rows of a run have the same values in some columns.

    Rows with a null in one of the columns are not compared, as in SQL. In a stream, the rows of each
    micro-batch are compared with each other.

    Args:
        *columns: The names of the columns.
        in_table: True also compares them with the rows in the sink, except those that an overwrite replaces.
            Spark reads these during the audit, so the check does not see rows that another writer commits
            between the audit and the publication.

    Raises:
        OptionError: No column is named.

    Example:
        >>> spillway.spark.unique("day", "id").name
        'unique(day, id)'
        >>> spillway.spark.unique("id", in_table=True).name
        'unique(id, in_table=True)'
    """
    if not columns:
        raise OptionError("unique() needs at least one column", "checks")
    words = [*columns, *(["in_table=True"] if in_table else [])]
    return Unique(f"unique({', '.join(words)})", columns, in_table)


_CHECKS = {"not_null": not_null, "between": between, "unique": unique}


def parse_check(text: str) -> Check:
    """Parse a check from the command line: ``between(latency_ms, 0, 60000)``.

    Columns are bare names, or strings in quotes; the other arguments are literals of Python.

    Raises:
        OptionError: It is no check.
    """
    try:
        call = ast.parse(text.strip(), mode="eval").body
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name)):
            raise ValueError("it is no call")  # noqa: TRY301, TRY004 - all that is wrong ends in one message
        make: Any = _CHECKS[call.func.id]
        given = [each.id if isinstance(each, ast.Name) else ast.literal_eval(each) for each in call.args]
        named = {each.arg: ast.literal_eval(each.value) for each in call.keywords if each.arg}
        if len(named) < len(call.keywords) or not isinstance(named.get("in_table", False), bool):
            raise ValueError("in_table must be True or False")  # noqa: TRY301 - as above
        check: Check = make(*given, **named)
    except (SyntaxError, ValueError, KeyError, TypeError) as error:
        message = (
            f"{text!r} is not a check: write not_null(id), between(latency_ms, 0, 60000) or unique(day, id)"
        )
        raise OptionError(message, "checks") from error
    return check


def column_of(names: Sequence[str], wanted: str, check: str) -> str:
    """Return the column that a check means, whatever the case of its letters.

    Raises:
        SchemaError: No column has this name, or several do.
    """
    found = [name for name in names if name == wanted]
    found = found or [name for name in names if name.lower() == wanted.lower()]
    if len(found) != 1:
        some = "no column" if not found else f"{len(found)} columns"
        message = f"{check}: the rows have {some} {wanted!r}; they have {', '.join(map(repr, names))}"
        raise SchemaError(message, wanted)
    return found[0]


@dataclass(frozen=True)
class PipelineResult:
    """The result of a published pipeline run.

    Args:
        run_id: The name of the run; for a stream, the id of its query.
        repeated: True if the destination already had the rows of the run, so nothing was done.
        rows_read: Number of rows after the transformation.
        rows_written: Number of rows that were published.
        rows_dropped: Number of rows that failed a check and were left out.
        rows_quarantined: Number of rows that failed a check and went to the quarantine table.
        checks: The number of rows that failed each check.
        files: Number of files that were published.
        bytes: Their bytes.
        version: The version of the Delta table; None for a folder of files.
        audit: The result of reading the files back before publication.
        arrow_bytes: The size of the rows in Arrow's layout.
        make_seconds: The time that tasks waited for rows, summed over tasks.
        writer_seconds: The time inside the native writer, summed over tasks.
        seconds: The time of each stage: ``read`` until the rows are planned, ``write``, ``audit``,
            ``publish``.
        batches: The results of a stream's micro-batches, in order; each was published separately.
        record: The run in the form that `spillway pipeline` records as JSON. Its JSON Schema is in
            ``results/schemas``.
    """

    run_id: str
    repeated: bool
    rows_read: int
    rows_written: int
    rows_dropped: int
    rows_quarantined: int
    checks: Mapping[str, int]
    files: int
    bytes: int
    version: int | None
    audit: AuditOutcome
    arrow_bytes: int = field(repr=False)
    make_seconds: float = field(repr=False)
    writer_seconds: float = field(repr=False)
    seconds: Mapping[Stage, float]
    batches: tuple[PipelineResult, ...] = field(default=(), repr=False)
    record: Mapping[str, Any] = field(default_factory=dict, repr=False)
