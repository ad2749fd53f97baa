"""Write rows to Parquet in bounded memory, and measure every writer under your limits."""

from __future__ import annotations

from spillway._native import build_info
from spillway.dataset_writer import DatasetFile, DatasetOptions, DatasetResult, DatasetWriter, write_dataset
from spillway.errors import (
    ClosedError,
    CorruptFileError,
    MissingExtraError,
    NotArrowError,
    OptionError,
    RowError,
    SchemaError,
    SpillwayError,
)
from spillway.inspection import FileReport, inspect_file
from spillway.writer import ColumnResult, ParquetWriter, WriteResult, WriterOptions, write_parquet

__all__ = [
    "ClosedError",
    "ColumnResult",
    "CorruptFileError",
    "DatasetFile",
    "DatasetOptions",
    "DatasetResult",
    "DatasetWriter",
    "FileReport",
    "MissingExtraError",
    "NotArrowError",
    "OptionError",
    "ParquetWriter",
    "RowError",
    "SchemaError",
    "SpillwayError",
    "WriteResult",
    "WriterOptions",
    "__version__",
    "build_info",
    "inspect_file",
    "write_dataset",
    "write_parquet",
]

__version__: str = build_info()["version"]

if build_info()["opt_level"] == "0":
    import warnings

    warnings.warn(
        "this build of spillway is not optimised and ten times slower than one that is: `make setup`",
        RuntimeWarning,
        stacklevel=2,
    )
    del warnings
