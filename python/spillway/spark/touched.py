"""The partitions that new files of a Delta table are in, as a condition on their columns."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from spillway.errors import OptionError
from spillway.spark.schema import quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pyarrow as pa

    from spillway.types import Condition

__all__ = ["condition", "partitions"]


#: Bytes that the native module takes of a condition in SQL.
_MOST_BYTES = 65_536


def partitions(part: Mapping[str, Any]) -> list[dict[str, str | None]]:
    """The partition values of a detached part's files, by the names that the columns have in the table."""
    values: list[dict[str, str | None]] = [add["partitionValues"] for add in part["adds"]]
    if not part["basis"].get("isMapped"):
        return values
    # The log has physical names (PROTOCOL.md, "Column Mapping").
    fields = part["basis"]["schema"]["fields"]
    names = {field["metadata"]["delta.columnMapping.physicalName"]: field["name"] for field in fields}
    return [{names[name]: value for name, value in each.items()} for each in values]


def condition(partitions: Iterable[Mapping[str, str | None]], schema: pa.Schema) -> str | Sequence[Condition]:
    """Return the condition that is true only for the rows of these partitions.

    Args:
        partitions: The values of each, one or more, in the form of a Delta table's log (PROTOCOL.md,
            "Partition Value Serialization").
        schema: The schema of the table.

    Raises:
        OptionError: A value has no literal: NaN, infinity, or a binary value; or there are too many.
    """
    import pyarrow as pa
    from pyarrow import types

    # Ordered, so that the same files make the same condition.
    distinct = sorted({tuple(sorted(each.items())) for each in partitions}, key=repr)
    texts = [" AND ".join(_equals(*pair, schema) for pair in each) for each in distinct]
    columns = {name for name, _ in distinct[0]}
    values = [each[0][1] for each in distinct]
    (column, *others) = sorted(columns)
    # A list may have any length, but cannot hold decimals.
    if not (others or None in values or types.is_decimal(schema.field(column).type)):
        return [(column, "in", pa.array(values, pa.string()).cast(schema.field(column).type).to_pylist())]
    text = _any_of(texts)
    if len(text.encode()) > _MOST_BYTES:
        raise OptionError(
            f"{len(distinct)} partitions of {', '.join(sorted(columns))} have new rows, too many to replace "
            "each alone in one commit: give where= for the rows to replace, or write fewer of them at once",
            "partition_overwrite",
        )
    return text


def _any_of(conditions: Sequence[str]) -> str:
    """Join conditions as a balanced tree: of a chain, the parser takes no more than some hundred."""
    if len(conditions) == 1:
        return conditions[0]
    middle = len(conditions) // 2
    return f"({_any_of(conditions[:middle])}) OR ({_any_of(conditions[middle:])})"


def _equals(column: str, value: str | None, schema: pa.Schema) -> str:
    from pyarrow import types

    name = quoted(column)
    if value is None:
        return f"{name} IS NULL"
    kind = schema.field(column).type
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_decimal(kind):
        return f"{name} = {value}"
    if types.is_floating(kind) and math.isfinite(float(value)):
        return f"{name} = {value}"
    if types.is_floating(kind) or types.is_binary(kind) or types.is_large_binary(kind):
        raise OptionError(
            f"the partition {column}={value} cannot be replaced separately, because no condition "
            f"can express its value: "
            "give where= for the rows to replace, or partition_overwrite='static' to replace all",
            "partition_overwrite",
        )
    return f"{name} = '" + value.replace("'", "''") + "'"
