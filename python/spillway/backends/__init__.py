"""The Parquet writers under test, one file each, behind one protocol.

Each backend uses only its library's public API and keeps its defaults, except codec, level, number of threads
and rows per row group, which belong to the cell. Other packages add theirs by an entry point in the group
``spillway.backends``: a name that points to a `Backend` or to a class of them.
"""

from __future__ import annotations

from spillway.backends.protocol import CODECS, Backend, Mode, Settings, Sink
from spillway.backends.registry import (
    ENTRY_POINT_GROUP,
    EXTERNAL_VARIABLE,
    OWN_LIBRARY,
    SPARK_LIBRARY,
    is_external,
    library,
    load,
    missing,
    modes,
    module_of,
    names,
    with_modes,
)

__all__ = [
    "CODECS",
    "ENTRY_POINT_GROUP",
    "EXTERNAL_VARIABLE",
    "OWN_LIBRARY",
    "SPARK_LIBRARY",
    "Backend",
    "Mode",
    "Settings",
    "Sink",
    "is_external",
    "library",
    "load",
    "missing",
    "modes",
    "module_of",
    "names",
    "with_modes",
]
