"""Clauses of a merge as the native module takes them, with their expressions by numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spillway.delta._expressions import Expressions, is_expression
from spillway.delta.clauses import MergeClause
from spillway.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa
    import pyarrow.compute as pc

    from spillway.delta.clauses import _Kind

__all__ = ["PreparedClause", "check_clauses", "prepared"]

#: The number of expressions, and the columns of the table and of the source that they name.
Numbered = tuple[int, list[str], list[str]]


@dataclass(frozen=True)
class PreparedClause:
    """A clause as the native module takes it.

    Args:
        kind: The rows that it is about.
        condition: Its condition in SQL, or as an expression with its text.
        deletes: True if its rows are deleted.
        taken: The columns that have the values of the source; None for all.
        literals: Values that are the same for all rows, by column.
        computed: Columns that expressions are for.
        expressions: These expressions.
    """

    kind: _Kind
    condition: str | tuple[Numbered, str] | None
    deletes: bool
    taken: list[str] | None
    literals: dict[str, Any]
    computed: list[str]
    expressions: Numbered | None


def check_clauses(clauses: Sequence[MergeClause]) -> None:
    """Refuse anything but clauses.

    Raises:
        OptionError: An argument is not a clause.
    """
    for clause in clauses:
        if not isinstance(clause, MergeClause):
            raise OptionError(
                f"clauses has {clause!r}, which is not a clause: give when_matched_update() or one "
                f"of the other clauses",
                "clauses",
            )


def prepared(
    clauses: Sequence[MergeClause], on: Sequence[str], table: Any, source: Any
) -> tuple[list[PreparedClause], list[Expressions]]:
    """Return clauses for a table and a source of these schemas, and the expressions by their numbers.

    Raises:
        OptionError: An expression names a column that is not there, or one by its position, has a type that
            does not fit its column, or is no condition; a text is the name of a column.
    """
    preparation = _Preparation(clauses, on, table, source)
    return [preparation.of(clause) for clause in clauses], preparation.expressions


class _Preparation:
    """The expressions of clauses, and the columns that they may name."""

    def __init__(self, clauses: Sequence[MergeClause], on: Sequence[str], table: Any, source: Any) -> None:
        self.expressions: list[Expressions] = []
        self._clauses = clauses
        self._on = on
        self._schemas = table, source
        self._names = {f"target.{name}" for name in table.names} | {f"source.{name}" for name in source.names}
        self._rows: dict[_Kind, pa.Table] = {}

    def of(self, clause: MergeClause) -> PreparedClause:
        """The clause with numbers for its expressions."""
        values = clause.values if isinstance(clause.values, Mapping) else {}
        computed = {name: value for name, value in values.items() if is_expression(value)}
        literals = {name: value for name, value in values.items() if name not in computed}
        self._check_literals(clause, literals)
        condition: str | tuple[Numbered, str] | None
        if clause.where is None or isinstance(clause.where, str):
            condition = clause.where
        else:
            condition = self._condition(clause, clause.where), str(clause.where)
        taken = [] if isinstance(clause.values, Mapping) else clause.values
        return PreparedClause(
            kind=clause.kind,
            condition=condition,
            deletes=clause.deletes,
            taken=None if taken is None else list(taken),
            literals=literals,
            computed=list(computed),
            expressions=self._values(clause, computed) if computed else None,
        )

    def _check_literals(self, clause: MergeClause, literals: Mapping[str, Any]) -> None:
        """Refuse texts that are names of columns, as delta-rs and Spark take them."""
        for name, value in literals.items():
            if isinstance(value, str) and value in self._names:
                message = (
                    f"{clause.name} has the text {value!r} for {name!r}, which is also the name of a column: "
                    f'give pc.field("{value}") for the column, or pc.scalar("{value}") for the text'
                )
                raise OptionError(message, _option(clause))

    def _condition(self, clause: MergeClause, where: pc.Expression) -> Numbered:
        import pyarrow as pa  # noqa: PLC0415 - for those alone who have expressions

        expressions = Expressions(f"{clause.name} has a where", "where", {"where": where})
        found = expressions.over(self._empty(clause.kind)).schema.field("where").type
        if found != pa.bool_():
            message = (
                f"{clause.name} has a where that is {found} and not a condition: compare it with something"
            )
            raise OptionError(message, "where")
        return self._numbered(expressions, clause.kind)

    def _values(self, clause: MergeClause, computed: Mapping[str, pc.Expression]) -> Numbered:
        expressions = Expressions(f"{clause.name} has an expression for {{}}", _option(clause), computed)
        expressions.check_types(self._empty(clause.kind), self._schemas[0])
        return self._numbered(expressions, clause.kind)

    def _numbered(self, expressions: Expressions, kind: _Kind) -> Numbered:
        expressions.check_names()
        self.expressions.append(expressions)
        named = expressions.named(self._empty(kind).column_names)
        target, source = (
            [name.removeprefix(side) for name in named if name.startswith(side)]
            for side in ("target.", "source.")
        )
        return len(self.expressions) - 1, target, source

    def _empty(self, kind: _Kind) -> pa.Table:
        """No rows, in the columns that expressions of a kind may name."""
        import pyarrow as pa  # noqa: PLC0415

        if kind not in self._rows:
            table, source = map(pa.schema, self._schemas)
            fitted = self._fitted(source.names)
            sides: list[tuple[str, Iterable[pa.Field[Any]]]] = []
            if kind != "not_matched":
                sides.append(("target.", table))
            if kind != "not_matched_by_source":
                # Columns that are taken have the table's types.
                known = set(table.names) & fitted
                sides.append(("source.", [table.field(f.name) if f.name in known else f for f in source]))
            fields = [
                pa.field(f"{side}{field.name}", _without_views(field.type))
                for side, fields in sides
                for field in fields
            ]
            self._rows[kind] = pa.schema(fields).empty_table()
        return self._rows[kind]

    def _fitted(self, source: Sequence[str]) -> set[str]:
        """Columns of the source that have to fit those of the table."""
        fitted = set(self._on)
        for clause in self._clauses:
            if clause.values is None:
                fitted.update(source)
            elif not isinstance(clause.values, Mapping):
                fitted.update(clause.values)
        return fitted


def _option(clause: MergeClause) -> str:
    """The argument that new values come from."""
    return "values" if clause.kind == "not_matched" else "set"


def _without_views(kind: Any) -> Any:
    """The type in which expressions get a column: pyarrow has few kernels for views."""
    import pyarrow as pa  # noqa: PLC0415

    if pa.types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, _without_views(kind.value_type), kind.ordered)
    plain: dict[Any, Any] = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
    return plain.get(kind, kind)
