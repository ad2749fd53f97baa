"""The exceptions Spillway raises on its own account.

Everything derives from `SpillwayError`, and also from the built-in exception that a caller would
expect, so that ``except ValueError`` and ``except OSError`` work as they do elsewhere::

    SpillwayError
    ├── SchemaError(ValueError)       data does not fit the writer's schema, or a schema cannot be written
    ├── RowError(ValueError)          a row does not fit the schema; it says which row, which field and why
    ├── OptionError(ValueError)       an option has a value that is not accepted; the message lists what is
    │   └── UnknownOptionError(TypeError)  no option has this name; the message has the one that is meant
    ├── ClosedError(ValueError)       the writer is closed or was aborted
    ├── NotArrowError(TypeError)      the object has no Arrow PyCapsule interface
    ├── CorruptFileError(ValueError)  a file is not Parquet, or is truncated or damaged
    ├── CheckFailedError(ValueError)  rows of a pipeline fail a check; it says which, and how many rows
    ├── AuditError                    files of a pipeline are not as they were written; nothing is published
    ├── JavaError(RuntimeError)       there is no Java for Spark, it is too old, or it does not start
    ├── MissingExtraError(ImportError)  an optional dependency is not installed; the message names the extra
    └── DeltaError                    anything about a Delta table
        ├── TableNotFoundError(FileNotFoundError)    there is no table
        ├── TableExistsError(FileExistsError)        there is one already
        ├── VersionNotFoundError(LookupError)        a version does not exist, or no longer
        ├── CorruptLogError(ValueError)              the log is damaged or has a gap
        ├── UnsupportedTableError(NotImplementedError)  the table asks for a feature that is not built
        ├── AppendOnlyError(ValueError)              the table has delta.appendOnly
        ├── ConstraintError(ValueError)              rows break a CHECK constraint of the table
        ├── CommitTimeoutError(TimeoutError)         the timeout passed; nothing was committed
        ├── CommitUnknown(TimeoutError)              the outcome is not known yet: table.outcome(token)
        └── CommitConflict                           another transaction is in the way; has its version
            ├── ConcurrentAppend          files were added that this one should have read
            ├── ConcurrentDeleteRead      files were removed that this one read
            ├── ConcurrentDeleteDelete    files were removed that this one removes too
            ├── ConcurrentTransaction     the application made progress, or the table was clustered anew
            ├── MetadataChanged           schema, partitioning or properties were changed
            └── ProtocolChanged           the protocol was changed

Errors of the operating system stay what they are: a missing directory is `FileNotFoundError`, a read-only one
`PermissionError` or `OSError`, a full disk `OSError` with its ``errno``.
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
        column: The dotted path of the column that does not fit; None when it is about no single one.
    """

    def __init__(self, message: str = "", column: str | None = None) -> None:
        super().__init__(message)
        self.column = column


class RowError(SpillwayError, ValueError):
    """A row does not fit the schema, or is not a row at all.

    ``write_rows`` and ``write_ndjson`` raise it, or hand it to the callback given as ``on_error``.

    Args:
        text: The whole report.
        row: The row's place among those of the call, from 0.
        field: Where in the row, as in ``"tags[3].name"``; empty when it is the row itself.
        message: What is wrong there and what was expected.
        line: The line it is on, from 1, over all NDJSON the writer has read; None for rows that are dicts.
        raw: The row as it came: the object, or the line as bytes without its end.
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
        option: The option; None when it is about no single one.
        accepted: The accepted values, where they can be listed: names, or a range such as ``"1 to 1024"``.
    """

    def __init__(self, message: str = "", option: str | None = None, accepted: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.option = option
        self.accepted = tuple(accepted)


class UnknownOptionError(OptionError, TypeError):
    """No option has this name.

    Args:
        message: The whole report.
        option: The name that was given.
        accepted: What to write instead, where there is something like it.
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
        counts: The rows that fail, by the names of the checks that they fail.
    """

    def __init__(self, message: str = "", counts: Mapping[str, int] | None = None) -> None:
        super().__init__(message)
        self.counts = dict(counts or {})


class AuditError(SpillwayError):
    """What Spark reads from the files of a pipeline is not what was written: nothing is published."""


class JavaError(SpillwayError, RuntimeError):
    """There is no Java for Spark, it is too old, or Spark's JVM does not start."""


class MissingExtraError(SpillwayError, ImportError):
    """An optional dependency is not installed.

    Args:
        package: The distribution that is missing, as ``pip`` knows it.
        extra: The extra of Spillway that brings it.
        purpose: What needs it, as the end of "… is needed to".
    """

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(f"{package} is needed to {purpose}: pip install 'spillway[{extra}]'")
        self.package = package
        self.extra = extra


class DeltaError(SpillwayError):
    """Something about a Delta table went wrong."""


class TableNotFoundError(DeltaError, FileNotFoundError):
    """There is no Delta table, or another one is where the one was that was opened."""


class TableExistsError(DeltaError, FileExistsError):
    """There is a Delta table already."""


class VersionNotFoundError(DeltaError, LookupError):
    """The table never had this version, or its log or data files were cleaned up."""


class CorruptLogError(DeltaError, ValueError):
    """The log of the table is damaged or has a gap; the message names the file."""


class UnsupportedTableError(DeltaError, NotImplementedError):
    """The table asks for a feature that is not built; the message names it."""


class AppendOnlyError(DeltaError, ValueError):
    """The table has ``delta.appendOnly``, and files would have left it."""


class ConstraintError(DeltaError, ValueError):
    """A CHECK constraint, or a column's invariant, is not true for a row; nothing is committed.

    The row is one that is written, or one of the table.

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
    """The timeout passed before the commit was tried: nothing is in the table, now or later."""


class CommitUnknown(DeltaError, TimeoutError):  # noqa: N818 - a state of affairs, in the words of the API
    """It is not known yet whether the rows are in the table and survive a crash; their files stay.

    Args:
        message: The whole report.
        token: What ``table.outcome()`` needs to find out, in this process or another.
    """

    def __init__(self, message: str, token: str = "") -> None:
        super().__init__(message)
        self.token = token


class CommitConflict(DeltaError):  # noqa: N818 - Delta's own word
    """A transaction that committed first is in the way: read the table again and decide anew.

    Args:
        message: The whole report.
        version: The version of the one that committed.
        operation: What that one did, in the words of the history.
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
    """Files were removed that this transaction removes too."""


class ConcurrentTransaction(CommitConflict):
    """The application made progress elsewhere, or the clustering columns changed; this one depends on it."""


class MetadataChanged(CommitConflict):
    """The table's schema, partitioning or properties were changed."""


class ProtocolChanged(CommitConflict):
    """The table's protocol was changed."""
