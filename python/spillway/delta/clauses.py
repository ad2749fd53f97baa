"""Clauses of a merge: `when_matched_update` and the others, and what the native module takes of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from spillway._options import checks_arguments
from spillway.delta._expressions import Expressions, check_text, is_expression
from spillway.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa
    import pyarrow.compute as pc

__all__ = [
    "MergeClause",
    "when_matched_delete",
    "when_matched_update",
    "when_not_matched_by_source_delete",
    "when_not_matched_by_source_update",
    "when_not_matched_insert",
]

_Kind = Literal["matched", "not_matched", "not_matched_by_source"]
_Values = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class MergeClause:
    """A clause of `Table.merge`, created by one of the functions ``when_...``.

    Args:
        name: The name of its function.
        kind: The rows to which it applies.
        values: The new values: None for all columns of the source, a list for some of them, or a mapping by
            columns of the table.
        where: The condition, in SQL or as an expression. None applies the clause to every row.
    """

    name: str
    kind: _Kind
    values: Sequence[str] | _Values | None
    where: str | pc.Expression | None

    def __post_init__(self) -> None:
        if isinstance(self.where, str):
            check_text(self.where, "where")
        elif self.where is not None and not is_expression(self.where):
            raise OptionError(
                f"{self.name} has where={self.where!r}, which is not a condition: give one in SQL, such as "
                '"source.gone OR target.n > 5", or an expression of pyarrow.compute, such as '
                'pc.field("target.n") > 5',
                "where",
            )
        if isinstance(self.values, str):
            raise OptionError(
                f"{self.name}({self.values!r}) is not accepted: give a list of columns, or a dict"
            )
        if self.values is not None and not self.values and not self.deletes:
            raise OptionError(f"{self.name} sets no column: name columns, or leave them out to set all")

    @property
    def deletes(self) -> bool:
        """True if its rows are deleted."""
        return self.name.endswith("_delete")


@checks_arguments
def when_matched_update(
    set: Sequence[str] | _Values | None = None,  # noqa: A002 - SQL's word
    *,
    where: str | pc.Expression | None = None,
) -> MergeClause:
    """Update rows of the table that match a source row.

    Args:
        set: The new values. None sets all columns of the source, and a list sets these columns. A dict sets
            columns of the table to Python values, or to expressions over ``source.NAME`` and ``target.NAME``,
            such as ``pc.field("target.n") + pc.field("source.n")``.
        where: A condition over the same columns: SQL, such as ``"source.n > target.n"``, or a boolean
            expression. Pairs for which it is not true go to the next clause. An unqualified name belongs to
            the side that has it.

    Raises:
        OptionError: Nothing is set, or `where` is not a condition.
    """
    return MergeClause("when_matched_update", "matched", set, where)


@checks_arguments
def when_matched_delete(*, where: str | pc.Expression | None = None) -> MergeClause:
    """Delete rows of the table that match a source row.

    Args:
        where: As for `when_matched_update`.

    Raises:
        OptionError: `where` is not a condition.
    """
    return MergeClause("when_matched_delete", "matched", (), where)


@checks_arguments
def when_not_matched_insert(
    values: Sequence[str] | _Values | None = None, *, where: str | pc.Expression | None = None
) -> MergeClause:
    """Insert source rows that match no row of the table.

    Args:
        values: The values. None sets all columns of the source, and a list sets these columns. A dict sets
            columns of the table to Python values, or to expressions over ``source.NAME``. Other columns are
            null.
        where: A condition over ``source.NAME``, in SQL or as an expression.

    Raises:
        OptionError: No column has a value, or `where` is not a condition.
    """
    return MergeClause("when_not_matched_insert", "not_matched", values, where)


@checks_arguments
def when_not_matched_by_source_update(
    set: _Values,  # noqa: A002 - SQL's word
    *,
    where: str | pc.Expression | None = None,
) -> MergeClause:
    """Update rows of the table that match no source row.

    Args:
        set: The new values by column: Python values, or expressions over ``target.NAME``.
        where: A condition over ``target.NAME``, in SQL or as an expression.

    Raises:
        OptionError: Nothing is set, or `where` is not a condition.
    """
    if not isinstance(set, Mapping):
        message = (  # type: ignore[unreachable]
            f"when_not_matched_by_source_update({set!r}) is not accepted: there is no source row, so give a "
            "dict"
        )
        raise OptionError(message, "set")
    return MergeClause("when_not_matched_by_source_update", "not_matched_by_source", set, where)


@checks_arguments
def when_not_matched_by_source_delete(*, where: str | pc.Expression | None = None) -> MergeClause:
    """Delete rows of the table that match no source row.

    Args:
        where: A condition over ``target.NAME``, in SQL or as an expression.

    Raises:
        OptionError: `where` is not a condition.
    """
    return MergeClause("when_not_matched_by_source_delete", "not_matched_by_source", (), where)


#: The number of expressions, and the columns of the table and of the source that they name.
_Numbered = tuple[int, list[str], list[str]]


@dataclass(frozen=True)
class _PreparedClause:
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
    condition: str | tuple[_Numbered, str] | None
    deletes: bool
    taken: list[str] | None
    literals: dict[str, Any]
    computed: list[str]
    expressions: _Numbered | None


def _check_clauses(clauses: Sequence[MergeClause]) -> None:
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


def _prepared(
    clauses: Sequence[MergeClause], on: Sequence[str], table: Any, source: Any
) -> tuple[list[_PreparedClause], list[Expressions]]:
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

    def of(self, clause: MergeClause) -> _PreparedClause:
        """The clause with numbers for its expressions."""
        values = clause.values if isinstance(clause.values, Mapping) else {}
        computed = {name: value for name, value in values.items() if is_expression(value)}
        literals = {name: value for name, value in values.items() if name not in computed}
        self._check_literals(clause, literals)
        condition: str | tuple[_Numbered, str] | None
        if clause.where is None or isinstance(clause.where, str):
            condition = clause.where
        else:
            condition = self._condition(clause, clause.where), str(clause.where)
        taken = [] if isinstance(clause.values, Mapping) else clause.values
        return _PreparedClause(
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

    def _condition(self, clause: MergeClause, where: pc.Expression) -> _Numbered:
        import pyarrow as pa  # noqa: PLC0415 - for those alone who have expressions

        expressions = Expressions(f"{clause.name} has a where", "where", {"where": where})
        found = expressions.over(self._empty(clause.kind)).schema.field("where").type
        if found != pa.bool_():
            message = (
                f"{clause.name} has a where that is {found} and not a condition: compare it with something"
            )
            raise OptionError(message, "where")
        return self._numbered(expressions, clause.kind)

    def _values(self, clause: MergeClause, computed: Mapping[str, pc.Expression]) -> _Numbered:
        expressions = Expressions(f"{clause.name} has an expression for {{}}", _option(clause), computed)
        expressions.check_types(self._empty(clause.kind), self._schemas[0])
        return self._numbered(expressions, clause.kind)

    def _numbered(self, expressions: Expressions, kind: _Kind) -> _Numbered:
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
