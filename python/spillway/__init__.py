"""Write Parquet files in bounded memory, commit to Delta tables, and measure Parquet writers."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from spillway import types
from spillway._native import build_info
from spillway._rewrite import rewrite
from spillway.dataset_writer import DatasetFile, DatasetOptions, DatasetResult, DatasetWriter, write_dataset
from spillway.encryption import Encryption
from spillway.errors import (
    ClosedError,
    CorruptFileError,
    MissingExtraError,
    NotArrowError,
    OptionError,
    RowError,
    SchemaError,
    SpillwayError,
    UnknownOptionError,
)
from spillway.inspection import FileComparison, FileReport, compare_reports, inspect_file
from spillway.memory import MemoryBudget
from spillway.writer import (
    ColumnResult,
    ParquetWriter,
    StageSeconds,
    WriteResult,
    WriterOptions,
    write_parquet,
)

if TYPE_CHECKING:
    from spillway import aio, backends, delta, runs
    from spillway.aio import AsyncParquetWriter
    from spillway.runs import load_run

__all__ = [
    "AsyncParquetWriter",
    "ClosedError",
    "ColumnResult",
    "CorruptFileError",
    "DatasetFile",
    "DatasetOptions",
    "DatasetResult",
    "DatasetWriter",
    "Encryption",
    "FileComparison",
    "FileReport",
    "MemoryBudget",
    "MissingExtraError",
    "NotArrowError",
    "OptionError",
    "ParquetWriter",
    "RowError",
    "SchemaError",
    "SpillwayError",
    "StageSeconds",
    "UnknownOptionError",
    "WriteResult",
    "WriterOptions",
    "__version__",
    "aio",
    "backends",
    "build_info",
    "compare_reports",
    "delta",
    "inspect_file",
    "load_run",
    "rewrite",
    "runs",
    "types",
    "write_dataset",
    "write_parquet",
]

#: Modules that are imported when they are first named: a program that writes files needs none.
_LAZY = frozenset({"aio", "backends", "delta", "runs"})
_LAZY_FUNCTIONS = {"AsyncParquetWriter": "spillway.aio", "load_run": "spillway.runs"}

__version__: str = build_info()["version"]

if build_info()["opt_level"] == "0":
    import warnings

    warnings.warn(
        "this build of spillway is not optimised and ten times slower than one that is: `make setup`",
        RuntimeWarning,
        stacklevel=2,
    )
    del warnings


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return import_module(f"spillway.{name}")
    if name in _LAZY_FUNCTIONS:
        return getattr(import_module(_LAZY_FUNCTIONS[name]), name)
    message = f"module 'spillway' has no attribute {name!r}"
    raise AttributeError(message)


def __dir__() -> list[str]:
    return sorted(
        {*globals(), *_LAZY, *_LAZY_FUNCTIONS} - {"Any", "TYPE_CHECKING", "annotations", "import_module"}
    )
