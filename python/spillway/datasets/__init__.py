"""Rows to write: generated logs, TPC-H's lineitem, columns by number, or the user's own files.

`chunk`, `batches` and `row_range` make the rows of a named dataset; `prepare` puts rows, generated or from
files, into one Arrow IPC file that a measured process can map.
"""

from __future__ import annotations

from spillway.errors import MissingExtraError

try:
    from spillway.datasets.cache import PreparedInput, default_cache, is_dataset, prepare
    from spillway.datasets.generate import (
        CHUNK_ROWS,
        GENERATOR_VERSION,
        batches,
        chunk,
        columns,
        names,
        row_range,
        schema,
    )
    from spillway.datasets.logs import Column
    from spillway.datasets.packaged import packaged_names
    from spillway.reading.sources import ACCEPTED, FileSource, find_files
    from spillway.reading.text import TextOptions
except ModuleNotFoundError as error:
    if error.name in {"numpy", "pyarrow"}:
        raise MissingExtraError(error.name, "bench", "generate and prepare datasets") from error
    raise

__all__ = [
    "ACCEPTED",
    "CHUNK_ROWS",
    "GENERATOR_VERSION",
    "Column",
    "FileSource",
    "PreparedInput",
    "TextOptions",
    "batches",
    "chunk",
    "columns",
    "default_cache",
    "find_files",
    "is_dataset",
    "names",
    "packaged_names",
    "prepare",
    "row_range",
    "schema",
]
