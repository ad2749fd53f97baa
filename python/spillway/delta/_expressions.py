"""Expressions that pyarrow evaluates: new values of columns, and the conditions of a merge."""

from __future__ import annotations

import difflib
import re
import sys
from typing import TYPE_CHECKING, Any, TypeGuard

from spillway import _native
from spillway._inputs import CapsuleStream
from spillway.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa
    import pyarrow.compute as pc

__all__ = ["Expressions", "check_text", "is_expression"]

#: The names in pyarrow's error of a column that is not there.
_LACKING = re.compile(r"No match for .*?FieldRef\.Name\((.*?)\)[) ]")


def is_expression(value: object) -> TypeGuard[pc.Expression]:
    """Return whether a value is an expression, without importing pyarrow.compute."""
    compute = sys.modules.get("pyarrow.compute")
    return compute is not None and isinstance(value, compute.Expression)


def check_text(text: str, option: str) -> None:
    """Refuse a text that is not a condition in SQL, whatever the columns.

    Raises:
        OptionError: It is not a condition. The error names the option.
    """
    try:
        _native.check_condition(text, option)
    except UnicodeEncodeError as error:
        raise OptionError(f"{option} is not valid Unicode text: {error}", option) from error


class Expressions:
    """Expressions over the same rows, a column for each.

    Args:
        what: The place that they come from, for errors; ``{}`` in it stands for the column.
        option: The argument that they come from.
        expressions: An expression for each column.
    """

    def __init__(
        self,
        what: str,
        option: str,
        expressions: Mapping[str, pc.Expression],
    ) -> None:
        self._what = what
        self._option = option
        self._expressions = dict(expressions)

    def __call__(self, rows: object) -> pa.Table:
        """Compute the columns from a capsule with a stream of rows.

        Raises:
            OptionError: pyarrow cannot evaluate an expression over the rows.
        """
        import pyarrow as pa  # noqa: PLC0415 - for those alone who have expressions

        return self.over(pa.table(CapsuleStream(rows)))

    def over(self, rows: pa.Table) -> pa.Table:
        """Compute the columns from rows.

        Raises:
            OptionError: As `__call__`.
        """
        import pyarrow as pa  # noqa: PLC0415

        return pa.table({name: self._column(name, rows) for name in self._expressions})

    def check_types(self, rows: pa.Table, table: Any) -> None:
        """Refuse expressions whose values have a type that does not fit their column of a table.

        Args:
            rows: The columns that the expressions may name, without rows.
            table: The schema of the table.

        Raises:
            OptionError: A type does not fit; as `__call__`.
        """
        for name, reason in _native.unfit_columns(self.over(rows).schema, table):
            raise OptionError(f"{self._what.format(repr(name))} that does not fit: {reason}", self._option)

    def check_names(self) -> None:
        """Refuse references by position, for expressions over the columns alone that `named` finds.

        Raises:
            OptionError: An expression has one.
        """
        for name, expression in self._expressions.items():
            if "FieldPath(" in str(expression):
                reason = 'that refers to a column by its position: give a name, such as pc.field("source.id")'
                raise OptionError(f"{self._what.format(repr(name))} {reason}", self._option)

    def named(self, columns: Sequence[str]) -> list[str]:
        """Names of columns that the expressions may need: those that their text has somewhere."""
        text = " ".join(map(str, self._expressions.values()))
        return [name for name in columns if name in text]

    def _column(self, name: str, rows: pa.Table) -> pa.ChunkedArray[Any]:
        import pyarrow as pa  # noqa: PLC0415
        from pyarrow import acero  # noqa: PLC0415

        try:
            expressions: Any = [self._expressions[name]]
            steps = [
                acero.Declaration("table_source", acero.TableSourceNodeOptions(rows)),
                acero.Declaration("project", acero.ProjectNodeOptions(expressions, [name])),
            ]
            # One thread keeps the order of the rows.
            return acero.Declaration.from_sequence(steps).to_table(use_threads=False)[name]
        except (pa.ArrowException, KeyError, TypeError) as error:
            reason = _lacking(str(error), rows.column_names) or f"that pyarrow cannot evaluate: {error}"
            raise OptionError(f"{self._what.format(repr(name))} {reason}", self._option) from error


def _lacking(error: str, columns: Sequence[str]) -> str | None:
    """The words for a column that an expression names and that is not there; None for another error."""
    found = _LACKING.search(error)
    if found is None or found[1] in columns:
        return None
    name = found[1]
    same = [column for column in columns if column.partition(".")[2] == name]
    near = same or difflib.get_close_matches(name, columns)
    said = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(columns)}"
    return f"that names {name}, and there is no such column: {said}"
