"""The exceptions that Spillway defines.

Everything derives from `SpillwayError`, and also from the built-in exception that a caller would
expect, so that ``except ValueError`` and ``except OSError`` work as they do elsewhere::

    SpillwayError
    ├── SchemaError(ValueError)       data does not fit the writer's schema, or a schema cannot be written
    ├── RowError(ValueError)          a row does not fit the schema; it says which row, which field and why
    ├── OptionError(ValueError)       an option has a value that is not accepted; it lists the accepted values
    │   └── UnknownOptionError(TypeError)  no option has this name; the message suggests the right one
    ├── ClosedError(ValueError)       the writer is closed or was aborted
    ├── NotArrowError(TypeError)      the object has no Arrow PyCapsule interface
    ├── CorruptFileError(ValueError)  a file is not Parquet, or is truncated or damaged
    ├── CheckFailedError(ValueError)  rows of a pipeline fail a check; the error says which, and how many rows
    ├── AuditError                    Spark reads other values than a pipeline wrote; nothing is published
    ├── JavaError(RuntimeError)       Java for Spark is missing, too old, or does not start
    ├── MissingExtraError(ImportError)  an optional dependency is not installed; the message names the extra
    └── DeltaError                    any error about a Delta table
        ├── TableNotFoundError(FileNotFoundError)    the table does not exist
        ├── TableExistsError(FileExistsError)        the table exists already
        ├── VersionNotFoundError(LookupError)        a version does not exist, or was cleaned up
        ├── CorruptLogError(ValueError)              the log is damaged or has a gap
        ├── UnsupportedTableError(NotImplementedError)  the table needs an unsupported feature
        ├── AppendOnlyError(ValueError)              the table has delta.appendOnly
        ├── ConstraintError(ValueError)              rows violate a CHECK constraint of the table
        ├── CommitTimeoutError(TimeoutError)         the timeout passed; nothing was committed
        ├── CommitUnknown(TimeoutError)              the outcome is not known yet: table.outcome(token)
        └── CommitConflict                           conflicts with another transaction; has its version
            ├── ConcurrentAppend          files were added that this one should have read
            ├── ConcurrentDeleteRead      files were removed that this one read
            ├── ConcurrentDeleteDelete    files were removed that this one also removes
            ├── ConcurrentTransaction     another append of the application, or new clustering columns
            ├── MetadataChanged           schema, partitioning or properties were changed
            └── ProtocolChanged           the protocol was changed

Errors of the operating system are raised unchanged: a missing directory raises `FileNotFoundError`, a
read-only one `PermissionError` or `OSError`, and a full disk `OSError` with its ``errno``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "AppendOnlyError",
    "AuditError",
    "CheckFailedError",
    "ClosedError",
    "CommitConflict",
    "CommitTimeoutError",
    "CommitUnknown",
    "ConcurrentAppend",
    "ConcurrentDeleteDelete",
    "ConcurrentDeleteRead",
    "ConcurrentTransaction",
    "ConstraintError",
    "CorruptFileError",
    "CorruptLogError",
    "DeltaError",
    "JavaError",
    "MetadataChanged",
    "MissingExtraError",
    "NotArrowError",
    "OptionError",
    "ProtocolChanged",
    "RowError",
    "SchemaError",
    "SpillwayError",
    "TableExistsError",
    "TableNotFoundError",
    "UnknownOptionError",
    "UnsupportedTableError",
    "VersionNotFoundError",
]


class SpillwayError(Exception):
    """Base of every exception that Spillway defines."""


class SchemaError(SpillwayError, ValueError):
    """Data does not fit the writer's schema, or the schema cannot be written to Parquet.

    Args:
        message: The whole report.
        column: The dotted path of the column that does not fit; None if no single column is at fault.
    """

    def __init__(self, message: str = "", column: str | None = None) -> None:
        super().__init__(message)
        self.column = column


class RowError(SpillwayError, ValueError):
    """A row does not fit the schema, or is not a row at all.

    ``write_rows`` and ``write_ndjson`` raise it, or pass it to the callback ``on_error``.

    Args:
        text: The whole report.
        row: The position of the row among those of the call, from 0.
        field: The field in the row, as in ``"tags[3].name"``; empty if the row itself is bad.
        message: What is wrong with the field, and what was expected.
        line: The line number, from 1, over all NDJSON that the writer has read; None for rows passed as
            dicts.
        raw: The original row: the object, or the line as bytes without its line break.
    """

    def __init__(  # noqa: PLR0913 - one argument per attribute
        self,
        text: str,
        *,
        row: int = 0,
        field: str = "",
        message: str = "",
        line: int | None = None,
        raw: object = None,
    ) -> None:
        super().__init__(text)
        self.row = row
        self.field = field
        self.message = message
        self.line = line
        self.raw = raw


class OptionError(SpillwayError, ValueError):
    """An option has a value that is not accepted; the message lists the accepted ones.

    Args:
        message: The whole report.
        option: The name of the option; None if no single option is at fault.
        accepted: The accepted values, if they can be listed: names, or a range such as ``"1 to 1024"``.
    """

    def __init__(self, message: str = "", option: str | None = None, accepted: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.option = option
        self.accepted = tuple(accepted)


class UnknownOptionError(OptionError, TypeError):
    """No option has this name.

    Args:
        message: The whole report.
        option: The unknown name.
        accepted: The names to use instead, if there are similar ones.
    """


class ClosedError(SpillwayError, ValueError):
    """The writer was used after ``close()`` or ``abort()``."""


class NotArrowError(SpillwayError, TypeError):
    """The object has neither ``__arrow_c_stream__`` nor ``__arrow_c_array__``."""


class CorruptFileError(SpillwayError, ValueError):
    """The file is not Parquet, or it is truncated or damaged."""


class CheckFailedError(SpillwayError, ValueError):
    """Rows of a pipeline fail a check: nothing is published.

    Args:
        message: The whole report.
        counts: The number of rows that fail each check, by the name of the check.
    """

    def __init__(self, message: str = "", counts: Mapping[str, int] | None = None) -> None:
        super().__init__(message)
        self.counts = dict(counts or {})


class AuditError(SpillwayError):
    """Spark reads other values from the files of a pipeline than were written: nothing is published."""


class JavaError(SpillwayError, RuntimeError):
    """Java for Spark is missing or too old, or Spark's JVM does not start."""


class MissingExtraError(SpillwayError, ImportError):
    """An optional dependency is not installed.

    Args:
        package: The missing distribution, by its name for ``pip``.
        extra: The extra of Spillway that installs it.
        purpose: What it is needed for, as the end of "… is needed to".
    """

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(f"{package} is needed to {purpose}: pip install 'spillway[{extra}]'")
        self.package = package
        self.extra = extra


class DeltaError(SpillwayError):
    """Base of all errors about Delta tables."""


class TableNotFoundError(DeltaError, FileNotFoundError):
    """There is no Delta table, or the table that was opened was replaced by another one."""


class TableExistsError(DeltaError, FileExistsError):
    """The Delta table already exists."""


class VersionNotFoundError(DeltaError, LookupError):
    """The table never had this version, or its log or data files were cleaned up."""


class CorruptLogError(DeltaError, ValueError):
    """The log of the table is damaged or has a gap; the message names the file."""


class UnsupportedTableError(DeltaError, NotImplementedError):
    """The table needs a feature that is not supported; the message names it."""


class AppendOnlyError(DeltaError, ValueError):
    """The table has ``delta.appendOnly``, and the operation would have removed files."""


class ConstraintError(DeltaError, ValueError):
    """A CHECK constraint, or a column's invariant, is not true for a row; nothing is committed.

    The row is either being written or already in the table.

    Args:
        message: The whole report, with the values of the first such row.
        constraint: The name of the constraint, or of the column.
        expression: Its condition, in SQL.
    """

    def __init__(self, message: str, constraint: str = "", expression: str = "") -> None:
        super().__init__(message)
        self.constraint = constraint
        self.expression = expression


class CommitTimeoutError(DeltaError, TimeoutError):
    """The timeout passed before the commit was attempted: no row is in the table, now or later."""


class CommitUnknown(DeltaError, TimeoutError):  # noqa: N818 - a state of affairs, in the words of the API
    """It is not known yet whether the rows are in the table and survive a crash; the data files stay.

    Args:
        message: The whole report.
        token: The token for ``table.outcome()``, in this process or another.
    """

    def __init__(self, message: str, token: str = "") -> None:
        super().__init__(message)
        self.token = token


class CommitConflict(DeltaError):  # noqa: N818 - Delta's own word
    """A transaction that committed first conflicts with this one: read the table again before you retry.

    Args:
        message: The whole report.
        version: The version of the transaction that committed.
        operation: The operation of that transaction, as in the history.
    """

    def __init__(self, message: str, version: int = -1, operation: str = "") -> None:
        super().__init__(message)
        self.version = version
        self.operation = operation


class ConcurrentAppend(CommitConflict):
    """Files were added that this transaction should have read."""


class ConcurrentDeleteRead(CommitConflict):
    """Files were removed that this transaction read."""


class ConcurrentDeleteDelete(CommitConflict):
    """Files were removed that this transaction also removes."""


class ConcurrentTransaction(CommitConflict):
    """Another append of the same application committed, or the clustering columns changed."""


class MetadataChanged(CommitConflict):
    """The table's schema, partitioning or properties were changed."""


class ProtocolChanged(CommitConflict):
    """The table's protocol was changed."""
