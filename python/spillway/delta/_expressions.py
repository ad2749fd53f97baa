"""New values of columns: literals, and expressions that pyarrow evaluates."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from spillway.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    import pyarrow.compute as pc

__all__ = ["Expressions", "is_expression"]


def is_expression(value: object) -> bool:
    """Return whether a value is an expression. There is none before pyarrow.compute is imported."""
    compute = sys.modules.get("pyarrow.compute")
    return compute is not None and isinstance(value, compute.Expression)


class Expressions:
    """Columns computed by expressions over the columns of a table, in the table's types.

    Args:
        expressions: An expression for each column.
        schema: The schema of the table.
    """

    def __init__(self, expressions: Mapping[str, pc.Expression], schema: Any) -> None:
        import pyarrow as pa  # noqa: PLC0415 - for those alone who have expressions

        fields = pa.schema(schema)
        self._expressions = dict(expressions)
        self._types: dict[str, pa.DataType] = {
            name: fields.field(name).type for name in expressions if name in fields.names
        }

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(self._expressions)

    def __call__(self, rows: object) -> pa.Table:
        """Compute the columns from a capsule with a stream of rows.

        Raises:
            OptionError: pyarrow cannot evaluate an expression over the rows, or its values do not fit the
                column.
        """
        import pyarrow as pa  # noqa: PLC0415

        table = pa.table(_Stream(rows))
        return pa.table({name: self._column(name, table) for name in self._expressions})

    def _column(self, name: str, table: pa.Table) -> pa.ChunkedArray[Any]:
        import pyarrow as pa  # noqa: PLC0415
        from pyarrow import acero  # noqa: PLC0415

        try:
            expression: Any = self._expressions[name].cast(self._types[name])
            steps = [
                acero.Declaration("table_source", acero.TableSourceNodeOptions(table)),
                acero.Declaration("project", acero.ProjectNodeOptions([expression], [name])),
            ]
            # One thread keeps the order of the rows.
            return acero.Declaration.from_sequence(steps).to_table(use_threads=False)[name]
        except (pa.ArrowException, KeyError, TypeError) as error:
            message = f"set has an expression for {name!r} that pyarrow cannot evaluate: {error}"
            raise OptionError(message, "set") from error


class _Stream:
    """Rows for any Arrow library, once."""

    def __init__(self, capsule: object) -> None:
        self._capsule = capsule

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._capsule
