"""Checks of a pipeline, on each row and on all rows of a run together, and the result of a run."""

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
"""What becomes of rows that fail a check."""
AuditKind = Literal["full", "sample", "none"]
"""What of the rows that were written is read back."""


@dataclass(frozen=True)
class RowCheck:
    """A condition that each row meets.

    Attributes:
        name: The check as it is written, such as ``not_null(id)``.
        column: The column that it looks at.
        bounds: The least and the greatest value; None if the column only has to have a value.
        is_corrupt: True for the column in which Spark's readers leave a record that they could not parse: it
            must have no value.
    """

    name: str
    column: str
    bounds: tuple[Any, Any] | None = None
    is_corrupt: bool = False

    def failed(self, column: Column) -> Column:
        """The condition of rows that fail the check; null for rows about which it says nothing."""
        if self.is_corrupt:
            return column.isNotNull()
        return column.isNull() if self.bounds is None else ~column.between(*self.bounds)


@dataclass(frozen=True)
class Unique:
    """The condition that no two rows have the same values in some columns.

    Attributes:
        name: The check as it is written, such as ``unique(id)``.
        columns: The columns.
        in_table: True if the rows that the sink has already count, too.
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
    """Check that each value of a column is between two others, which it may equal.

    A null passes, as in SQL: `not_null` refuses it. NaN is greater than any number, as Spark has it.

    Args:
        column: The column's name.
        low: The least value: a number, a string, a date or a datetime, which Spark compares with the column.
        high: The greatest value.

    Example:
        >>> spillway.spark.between("latency_ms", 0, 60_000).name
        'between(latency_ms, 0, 60000)'
    """
    return RowCheck(f"between({column}, {low}, {high})", column, (low, high))


def unique(*columns: str, in_table: bool = False) -> Unique:
    """Check that no two rows of a run have the same values in some columns.

    Rows with a null in one of them are not compared, as in SQL. Of a stream, the rows of each micro-batch are
    compared.

    Args:
        *columns: The names of the columns.
        in_table: True to compare them with the rows that the sink has, too, but for those that an overwrite
            replaces. Spark reads them when the files are audited: what another writer commits between that
            and the publication is not seen.

    Raises:
        OptionError: No column is named.

    Example:
        >>> spillway.spark.unique("day", "id").name
        'unique(day, id)'
        >>> spillway.spark.unique("id", in_table=True).name
        'unique(id, in_table=True)'
    """
    if not columns:
        raise OptionError("unique() names no column: name one or several", "checks")
    words = [*columns, *(["in_table=True"] if in_table else [])]
    return Unique(f"unique({', '.join(words)})", columns, in_table)


_CHECKS = {"not_null": not_null, "between": between, "unique": unique}


def parse_check(text: str) -> Check:
    """Read a check as it is written on a command line: ``between(latency_ms, 0, 60000)``.

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
            raise ValueError("in_table is True or False")  # noqa: TRY301 - as above
        check: Check = make(*given, **named)
    except (SyntaxError, ValueError, KeyError, TypeError) as error:
        message = (
            f"{text!r} is no check: write not_null(id), between(latency_ms, 0, 60000) or unique(day, id)"
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
    """A pipeline that was published.

    Args:
        run_id: The name of the run; of a stream, the id of its query.
        repeated: True if the destination had the rows of the run before: then nothing was done.
        rows_read: Rows after the transformation.
        rows_written: Rows that were published.
        rows_dropped: Rows that failed a check, and were left out.
        rows_quarantined: Rows that failed a check, and are in the table next to the destination.
        checks: The rows that failed each check.
        files: Files that were published.
        bytes: Their bytes.
        version: The version of the Delta table; None for a folder of files.
        audit: What was read back before it was published.
        arrow_bytes: The size of the rows in Arrow's layout.
        make_seconds: The time that tasks waited for rows, summed over them.
        writer_seconds: The time inside the native writer, summed over tasks.
        seconds: The time of each stage: ``read`` until the rows are planned, ``write``, ``audit``,
            ``publish``.
        batches: The results of the micro-batches of a stream, in their order: each was published by itself.
        record: The run as `spillway pipeline` records it, and as JSON can hold it. Its JSON Schema is in
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
