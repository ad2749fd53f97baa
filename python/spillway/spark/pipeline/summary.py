"""The summary of the rows that were written, by Spark SQL."""

import math
from typing import TYPE_CHECKING, Annotated, NotRequired, TypedDict

from spillway.harness.schema import Keywords
from spillway.spark.schema import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["ErrorCount", "Percentiles", "RowSummary", "summarise"]

# What logs have, and whoever's rows are summarised as logs.
_LOG_COLUMNS = frozenset({"timestamp", "service", "level", "duration_ms"})
_LATENCY = "duration_ms"
_SHARES = (0.5, 0.9, 0.99)
_ACCURACY = 10_000
_MOST_COLUMNS = 8
_NUMERIC = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")


_Value = Annotated[float, Keywords(minimum=None)] | None


class ErrorCount(TypedDict):
    """The rows of one service in one hour.

    Attributes:
        hour: The start of the hour in UTC.
        errors: Those of level ERROR.
    """

    service: str | None
    hour: str | None
    rows: int
    errors: int


class Percentiles(TypedDict):
    """The values of one column: percentiles within a ten-thousandth of the ranks; null without a value."""

    column: str
    p50: _Value
    p90: _Value
    p99: _Value
    max: _Value


class RowSummary(TypedDict):
    """The rows that were written.

    Attributes:
        percentiles: Of the latency of logs; of other rows, of their first numeric columns.
        errors: Errors of logs by service and hour.
    """

    rows: int
    percentiles: list[Percentiles]
    errors: NotRequired[list[ErrorCount]]


def summarise(frame: "DataFrame") -> RowSummary:
    """Count the rows, take percentiles, and count the errors of logs by service and hour."""
    is_logs = set(frame.columns) >= _LOG_COLUMNS
    measured = [_LATENCY] if is_logs else _numeric(frame)
    (whole,) = frame.selectExpr(*_totals(measured)).collect()
    summary: RowSummary = {
        "rows": whole["rows"],
        "percentiles": [
            _percentiles(name, whole[f"p{at}"], whole[f"m{at}"]) for at, name in enumerate(measured)
        ],
    }
    if is_logs:
        frame.createOrReplaceTempView("written")
        summary["errors"] = [
            {"service": row["service"], "hour": row["hour"], "rows": row["rows"], "errors": row["errors"]}
            for row in frame.sparkSession.sql(_ERRORS).collect()
        ]
    return summary


_ERRORS = """
    select service, date_format(date_trunc('hour', timestamp), "yyyy-MM-dd'T'HH:mm:ss'Z'") as hour,
           count(*) as rows, count_if(level = 'ERROR') as errors
    from written group by all order by service, hour
"""


def _totals(columns: list[str]) -> list[str]:
    shares = f"array({', '.join(map(str, _SHARES))})"
    parts = ["count(*) as rows"]
    for at, name in enumerate(columns):
        value = f"cast({quoted(name)} as double)"
        parts += [f"percentile_approx({value}, {shares}, {_ACCURACY}) as p{at}", f"max({value}) as m{at}"]
    return parts


def _percentiles(column: str, shares: list[float] | None, most: float | None) -> Percentiles:
    p50, p90, p99 = (_finite(each) for each in shares or (None, None, None))
    return {"column": column, "p50": p50, "p90": p90, "p99": p99, "max": _finite(most)}


def _finite(value: float | None) -> float | None:
    """A value that JSON can hold."""
    return value if value is not None and math.isfinite(value) else None


def _numeric(frame: "DataFrame") -> list[str]:
    """The first numeric columns, but those of a name that another one has."""
    names = [name for name, kind in frame.dtypes if kind.startswith(_NUMERIC)]
    return [name for name in names if frame.columns.count(name) == 1][:_MOST_COLUMNS]
