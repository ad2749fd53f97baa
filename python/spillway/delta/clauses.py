"""Clauses of a merge: `when_matched_update` and the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from spillway._options import checks_arguments
from spillway.delta._expressions import check_text, is_expression
from spillway.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Sequence

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
