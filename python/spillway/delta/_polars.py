"""A version of a table as a polars LazyFrame, whose predicates become conditions of a scan."""

from __future__ import annotations

import datetime as dt
import io
import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import polars as pl
import pyarrow as pa
from polars.io.plugins import register_io_source

from spillway.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from spillway.delta.scan import Scan
    from spillway.delta.table import Table

__all__ = ["lazy_frame", "where_of"]

#: The least rows of a frame but the last: batches of a scan are smaller.
_FRAME_ROWS = 65_536


def lazy_frame(table: Table, version: int) -> pl.LazyFrame:
    """Make a frame whose query decides which columns and files are read."""
    rows: Any = table.scan(version=version)
    source = _Source(table, version, _frame(pa.schema(rows).empty_table()).schema)
    return register_io_source(source, schema=source.schema, is_pure=True)


@dataclass(frozen=True)
class _Source:
    """Reads a version for a query. It is pickled with a frame that goes to another process."""

    table: Table
    version: int
    schema: pl.Schema

    def __call__(
        self,
        with_columns: list[str] | None,
        predicate: pl.Expr | None,
        n_rows: int | None,
        batch_size: int | None,  # noqa: ARG002 - a hint
    ) -> Iterator[pl.DataFrame]:
        wanted = list(self.schema) if with_columns is None else with_columns
        named = [] if predicate is None else predicate.meta.root_names()
        # A batch without columns has no rows for polars.
        needed = list(dict.fromkeys([*wanted, *named])) or [next(iter(self.schema))]
        # `n_rows` counts rows before the predicate, so the scan must not filter.
        condition = "" if predicate is None or n_rows is not None else where_of(predicate, self.schema)
        left = n_rows
        for frame in _frames(self._scanned(needed, condition)):
            first = frame if left is None else frame.head(left)
            # The condition may let more rows through than the predicate.
            kept = first if predicate is None else first.filter(predicate)
            yield kept.select(wanted) if wanted else kept
            if left is not None:
                left -= first.height
                if not left:
                    return

    def _scanned(self, columns: list[str], condition: str) -> Scan:
        try:
            return self.table.scan(columns, where=condition or [], version=self.version)
        except OptionError:
            # A scan does not compare some columns, such as those of type char(n): polars filters alone.
            return self.table.scan(columns, version=self.version)


def _frames(rows: Any) -> Iterator[pl.DataFrame]:
    """The rows of a stream in frames of many batches each; one empty frame if it has no rows."""
    reader = pa.RecordBatchReader.from_stream(rows)
    batches: list[pa.RecordBatch] = []
    count, is_first = 0, True
    for batch in reader:
        batches.append(batch)
        count += batch.num_rows
        if count >= _FRAME_ROWS:
            yield _frame(pa.Table.from_batches(batches))
            batches, count, is_first = [], 0, False
    if batches or is_first:
        yield _frame(pa.Table.from_batches(batches, reader.schema))


def _frame(rows: pa.Table) -> pl.DataFrame:
    return cast("pl.DataFrame", pl.from_arrow(rows))


#: An expression as polars serialises it, keyed by its kind.
_Node: TypeAlias = "dict[str, Any]"

_OPERATORS = {"Eq": "=", "NotEq": "<>", "Lt": "<", "LtEq": "<=", "Gt": ">", "GtEq": ">="}
_INTEGERS = (pl.Int8, pl.Int16, pl.Int32, pl.Int64)
#: Integers that a double has exactly.
_EXACT = 2**53


def where_of(predicate: pl.Expr, schema: Mapping[str, pl.DataType]) -> str:
    """A condition in SQL that holds for each row for which the predicate is true.

    It may hold for others, too: parts without a translation are left out. Each version of polars may
    serialise expressions in another form, and an unknown form has no translation.

    Args:
        predicate: Over columns of the schema.
        schema: Types by column.

    Returns:
        The text; empty if nothing could be translated.
    """
    try:
        node = json.loads(predicate.meta.serialize(format="json"))
        return _Translation(schema).implied(node) or ""
    except (pl.exceptions.PolarsError, ValueError, TypeError, OverflowError):
        # Also for dates and times in years that Python does not have.
        return ""


class _Translation:
    def __init__(self, schema: Mapping[str, pl.DataType]) -> None:
        self._schema = schema

    def implied(self, node: Any) -> str | None:
        """A condition that holds for each row for which the predicate is true, or None."""
        match node:
            case {"BinaryExpr": {"left": left, "op": "And" | "LogicalAnd", "right": right}}:
                parts = [part for part in (self.implied(left), self.implied(right)) if part is not None]
                return " AND ".join(parts) or None
            case {"BinaryExpr": {"left": left, "op": "Or" | "LogicalOr", "right": right}}:
                return _any([self.implied(left), self.implied(right)])
            case _:
                return self._exact(node)

    def _exact(self, node: Any) -> str | None:  # noqa: PLR0911 - one for each form
        """A condition that is true, false and null for the same rows as the predicate, or None."""
        match node:
            case {"Column": str(name)} if self._schema.get(name) == pl.Boolean:
                return _quoted(name)
            case {"Literal": _}:
                values = _values(node)
                is_one = values is not None and len(values) == 1
                return _literal(values[0], pl.Boolean()) if values is not None and is_one else None
            case {"BinaryExpr": {"left": left, "op": "And" | "LogicalAnd", "right": right}}:
                return _all([self._exact(left), self._exact(right)])
            case {"BinaryExpr": {"left": left, "op": "Or" | "LogicalOr", "right": right}}:
                return _any([self._exact(left), self._exact(right)])
            case {"BinaryExpr": {"left": left, "op": str(sign), "right": right}} if sign in _OPERATORS:
                return self._comparison(left, _OPERATORS[sign], right)
            case {"Function": {"input": list(inputs), "function": {"Boolean": function}}}:
                return self._function(inputs, function)
            case _:
                return None

    def _function(self, inputs: Sequence[Any], function: Any) -> str | None:
        match function, inputs:
            case "Not", [inner]:
                condition = self._exact(inner)
                return None if condition is None else f"NOT ({condition})"
            case "IsNull", [{"Column": str(name)}]:
                return f"{_quoted(name)} IS NULL"
            case "IsNotNull", [{"Column": str(name)}]:
                return f"{_quoted(name)} IS NOT NULL"
            case {"IsIn": {"nulls_equal": False}}, [{"Column": str(name)}, among]:
                return self._among(name, among)
            case {"IsBetween": {"closed": str(closed)}}, [column, least, greatest]:
                above = ">=" if closed in {"Both", "Left"} else ">"
                below = "<=" if closed in {"Both", "Right"} else "<"
                return _all(
                    [self._comparison(column, above, least), self._comparison(column, below, greatest)]
                )
            case _:
                return None

    def _comparison(self, left: Any, sign: str, right: Any) -> str | None:
        match self._column(left), self._column(right):
            case str(first), str(second):
                kinds = self._schema[first], self._schema[second]
                # Engines disagree on whether 0.0 equals -0.0.
                is_alike = kinds[0] == kinds[1] and kinds[0] in {pl.Date, pl.String}
                is_exact = is_alike or all(kind in _INTEGERS for kind in kinds)
                return f"{_quoted(first)} {sign} {_quoted(second)}" if is_exact else None
            case str(first), None:
                literal = self._literal(right, first)
                return None if literal is None else f"{_quoted(first)} {sign} {literal}"
            case None, str(second):
                literal = self._literal(left, second)
                return None if literal is None else f"{literal} {sign} {_quoted(second)}"
            case _:
                return None

    def _column(self, node: Any) -> str | None:
        """The column that a node names, possibly cast to a wider integer."""
        match node:
            case {"Column": str(name)} if name in self._schema:
                return name
            case {"Cast": {"expr": {"Column": str(name)}, "dtype": {"Literal": str(kind)}}}:
                names = [str(integer()) for integer in _INTEGERS]
                own = str(self._schema.get(name))
                is_longer = own in names and kind in names[names.index(own) :]
                return name if is_longer else None
            case _:
                return None

    def _literal(self, node: Any, beside: str) -> str | None:
        values = _values(node)
        is_one = values is not None and len(values) == 1
        return _literal(values[0], self._schema[beside]) if values is not None and is_one else None

    def _among(self, name: str, among: _Node) -> str | None:
        values = _values(among)
        if values is None:
            return None
        if len(values) == 1 and isinstance(values.dtype, pl.List | pl.Array):
            values = values.explode()
        literals = [_literal(value, self._schema.get(name)) for value in values]
        known = [literal for literal in literals if literal is not None]
        if not known or len(known) < len(literals):
            return None
        return f"{_quoted(name)} IN ({', '.join(known)})"


def _values(node: _Node) -> pl.Series | None:
    """The values of a literal."""
    inner: Any = node
    while isinstance(inner, dict) and inner.keys() & {"Alias", "Cast"}:
        inner = inner["Alias"][0] if "Alias" in inner else inner["Cast"]["expr"]
    if not (isinstance(inner, dict) and inner.keys() == {"Literal"}):
        return None
    match inner["Literal"]:
        # polars' JSON reader returns a neighbour of one double in eleven, Python's returns the double itself.
        case {"Dyn": {"Float": float(value)}} | {"Scalar": {"Float64": float(value)}} if node is inner:
            return pl.Series([value], dtype=pl.Float64)
        case {"Dyn": {"Float": _}} | {"Scalar": {"Float64": _} | {"Float32": _} | {"Struct": _}}:
            return None
    try:
        expression = pl.Expr.deserialize(io.BytesIO(json.dumps(node).encode()), format="json")
        values = pl.select(expression).to_series()
    except (pl.exceptions.PolarsError, ValueError, TypeError):
        return None
    inner_type = values.dtype.inner if isinstance(values.dtype, pl.List | pl.Array) else values.dtype
    # Python has no nanoseconds.
    return None if isinstance(inner_type, pl.Datetime) and inner_type.time_unit == "ns" else values


def _literal(value: Any, kind: pl.DataType | None) -> str | None:  # noqa: PLR0911 - one for each type
    """A value in SQL, if a scan compares it with a column of a type as polars does."""
    match value:
        case bool():
            return str(value).upper() if kind == pl.Boolean else None
        case int():
            if kind in _INTEGERS and -(2**63) <= value < 2**63:
                return str(value)
            return _double(float(value)) if kind == pl.Float64 and abs(value) <= _EXACT else None
        case float():
            return _double(value) if kind == pl.Float64 else None
        case str():
            # A scan refuses a backslash, and an empty string in a partition column may be null.
            is_plain = kind == pl.String and value and "\\" not in value
            return "'" + value.replace("'", "''") + "'" if is_plain else None
        case dt.datetime():
            return _timestamp(value, kind)
        case dt.date():
            return f"DATE '{value.isoformat()}'" if kind == pl.Date else None
        case _:
            return None


def _double(value: float) -> str | None:
    # Engines disagree on whether 0.0 equals -0.0.
    return f"{value:.17e}" if math.isfinite(value) and value != 0 else None


def _timestamp(value: dt.datetime, kind: pl.DataType | None) -> str | None:
    if not isinstance(kind, pl.Datetime) or (kind.time_zone is None) != (value.tzinfo is None):
        return None
    zone = "" if value.tzinfo is None else "Z"
    clock = value if value.tzinfo is None else value.astimezone(dt.UTC)
    return f"TIMESTAMP '{clock.replace(tzinfo=None).isoformat(sep=' ', timespec='microseconds')}{zone}'"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _any(parts: Sequence[str | None]) -> str | None:
    known = [part for part in parts if part is not None]
    return f"({' OR '.join(known)})" if len(known) == len(parts) else None


def _all(parts: Sequence[str | None]) -> str | None:
    known = [part for part in parts if part is not None]
    return f"({' AND '.join(known)})" if len(known) == len(parts) else None
