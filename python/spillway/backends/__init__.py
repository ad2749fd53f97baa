"""The Parquet writers under test, one file each, behind one protocol, and found by name.

Each backend uses only its library's public API and keeps its defaults, except codec, level, number of threads
and rows per row group, which belong to the cell. Other packages add theirs by an entry point in the group
``spillway.backends``: a name that points to a `Backend` or to a class of them.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from typing import TYPE_CHECKING, NamedTuple, cast

from spillway.backends.protocol import (
    BATCHES_AND_TABLE,
    CODECS,
    FUNCTION_PREFIX,
    Backend,
    Mode,
    Settings,
    Sink,
)
from spillway.errors import JavaError, MissingExtraError, OptionError, SpillwayError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from importlib.metadata import EntryPoint

    from spillway.backends.external import Program

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

ENTRY_POINT_GROUP = "spillway.backends"
EXTERNAL_VARIABLE = "SPILLWAY_EXTERNAL"
"""The variable that lists the TOML files of external programs, separated as in ``$PATH``."""
OWN_LIBRARY = "spillway"
"""The `library` of the backends that are Spillway's own writer."""

SPARK_LIBRARY = "pyspark"
"""The `library` of the backends that are Spark's writers, and run in a JVM."""


class _BuiltIn(NamedTuple):
    module: str
    attribute: str
    requires: str  # the import without which it cannot run
    package: str  # the distribution that brings it
    modes: frozenset[Mode] = BATCHES_AND_TABLE
    extra: str = "bench"  # of this package, which brings the distribution
    asked: bool = False  # True for one that is measured only where it is named


_ROWS: frozenset[Mode] = frozenset({"rows", "rows-json"})
_NDJSON: frozenset[Mode] = frozenset({"ndjson"})
_EXTERNAL_MODES: frozenset[Mode] = frozenset({"batches", "table"})
_BUILT_IN = {
    "spillway": _BuiltIn("spillway", "Spillway", "spillway._native", "spillway"),
    "spillway-16mb": _BuiltIn("spillway", "Spillway16MB", "spillway._native", "spillway"),
    "pyarrow-buffered": _BuiltIn("pyarrow", "PyarrowBuffered", "pyarrow", "pyarrow"),
    "pyarrow-streaming": _BuiltIn("pyarrow", "PyarrowStreaming", "pyarrow", "pyarrow"),
    "pyarrow-streaming-tuned": _BuiltIn("pyarrow", "PyarrowStreamingTuned", "pyarrow", "pyarrow"),
    "polars": _BuiltIn("polars", "Polars", "polars", "polars"),
    "duckdb": _BuiltIn("duckdb", "DuckDB", "duckdb", "duckdb"),
    "arro3": _BuiltIn("arro3", "Arro3", "arro3.io", "arro3-io"),
    "arro3-tuned": _BuiltIn("arro3", "Arro3Tuned", "arro3.io", "arro3-io"),
    "spillway-rows": _BuiltIn("spillway", "SpillwayRows", "spillway._native", "spillway", _ROWS),
    "pyarrow-rows": _BuiltIn("pyarrow", "PyarrowRows", "pyarrow", "pyarrow", _ROWS),
    "polars-rows": _BuiltIn("polars", "PolarsRows", "polars", "polars", _ROWS),
    "spillway-ndjson": _BuiltIn("spillway", "SpillwayNdjson", "spillway._native", "spillway", _NDJSON),
    "pyarrow-ndjson": _BuiltIn("pyarrow", "PyarrowNdjson", "pyarrow", "pyarrow", _NDJSON),
    "polars-ndjson": _BuiltIn("polars", "PolarsNdjson", "polars", "polars", _NDJSON),
    "duckdb-ndjson": _BuiltIn("duckdb", "DuckDBNdjson", "duckdb", "duckdb", _NDJSON),
    # Each of their samples starts a JVM, which takes longer than all others together.
    "spark-parquet": _BuiltIn("spark", "SparkParquet", "pyspark", "pyspark", extra="spark", asked=True),
    "spark-delta": _BuiltIn("spark", "SparkDelta", "pyspark", "pyspark", extra="spark", asked=True),
    "fastparquet": _BuiltIn(
        "fastparquet", "Fastparquet", "fastparquet", "fastparquet", extra="peers", asked=True
    ),
    "datafusion": _BuiltIn("datafusion", "DataFusion", "datafusion", "datafusion", extra="peers", asked=True),
    "pandas": _BuiltIn("pandas", "Pandas", "pandas", "pandas", extra="peers", asked=True),
}


def names() -> tuple[str, ...]:
    """All backends by name, the built-in ones first, whether or not their library is installed."""
    return (*_BUILT_IN, *sorted(_registered()), *_programs())


def library(name: str) -> str:
    """The distribution that a backend measures; of a backend from another package its own name."""
    return _BUILT_IN[name].package if name in _BUILT_IN else name


def load(name: str) -> Backend:
    """Import a backend's library and return the backend.

    Raises:
        OptionError: No backend has this name.
        MissingExtraError: Its library is not installed.
        SpillwayError: Another package registered it, and its entry point does not give a backend.
    """
    if name in _BUILT_IN:
        return _load_built_in(name, _BUILT_IN[name])
    if name.startswith(FUNCTION_PREFIX):
        from spillway.backends.function import Function

        return Function(name)
    registered, external = _registered(), _programs()
    if name in registered:
        return _load_registered(name, registered[name])
    if name not in external:
        raise OptionError(f"there is no backend {name!r}; choose from: {', '.join(names())}")
    reason = external[name].missing
    if reason is not None:
        raise SpillwayError(f"backend {name!r} cannot run: {reason}")
    from spillway.backends.external import External

    return External(external[name])


def module_of(name: str) -> str:
    """The module that calls the backend's library; it is not imported.

    Raises:
        OptionError: No backend has this name.
    """
    if name in _BUILT_IN:
        return f"spillway.backends.{_BUILT_IN[name].module}"
    registered = _registered()
    if name in registered:
        return registered[name].module
    if name not in _programs():
        raise OptionError(f"there is no backend {name!r}; choose from: {', '.join(names())}")
    return "spillway.backends.external"


def modes(name: str) -> frozenset[Mode]:
    """The modes a backend has.

    Raises:
        OptionError: No backend has this name.
    """
    if name in _BUILT_IN:
        return _BUILT_IN[name].modes
    return _EXTERNAL_MODES if is_external(name) else load(name).modes


def is_external(name: str) -> bool:
    """Return True if a backend is an external program, to which the bench sends rows."""
    return name not in _BUILT_IN and name in _programs()


def with_modes(wanted: Iterable[str]) -> tuple[str, ...]:
    """All backends except built-in ones that support none of these modes, or run only if named."""
    asked = set(wanted)
    return tuple(name for name in names() if name not in _BUILT_IN or _is_usual(_BUILT_IN[name], asked))


def _is_usual(built_in: _BuiltIn, modes: set[str]) -> bool:
    return bool(built_in.modes & modes) and not built_in.asked


def missing(name: str) -> str | None:
    """Say why this backend cannot run here, or None if it can. Libraries are looked for, not imported.

    Raises:
        OptionError: No backend has this name.
    """
    if name not in _BUILT_IN:
        external = _programs().get(name)
        if external is not None:
            return external.missing
        try:
            load(name)
        except OptionError:
            raise
        except (SpillwayError, ImportError) as error:
            return str(error)
        except Exception as error:  # noqa: BLE001 - another package's, which may raise anything
            return f"it does not load: {type(error).__name__}: {error}"
        return None
    built_in = _BUILT_IN[name]
    try:
        found = importlib.util.find_spec(built_in.requires) is not None
    except ModuleNotFoundError:  # the parent package of a dotted name is absent
        found = False
    if not found:
        return _absent(built_in)
    return _without_java() if built_in.package == SPARK_LIBRARY else None


def _without_java() -> str | None:
    """Say why no JVM would start here, or None if one would."""
    from spillway.spark.session import find_java

    try:
        find_java()
    except JavaError as error:
        return str(error)
    return None


def _absent(built_in: _BuiltIn) -> str:
    if built_in.package == OWN_LIBRARY:
        return "the native module is not built: run maturin develop --release, or install the wheel"
    return f"{built_in.package} is not installed: pip install 'spillway[{built_in.extra}]'"


def _load_built_in(name: str, built_in: _BuiltIn) -> Backend:
    try:
        module = importlib.import_module(f"spillway.backends.{built_in.module}")
    except ModuleNotFoundError as error:
        wanted = error.name or ""
        if built_in.requires == wanted or built_in.requires.startswith(f"{wanted}."):
            if built_in.package == OWN_LIBRARY:
                raise SpillwayError(f"backend {name!r} cannot run: {_absent(built_in)}") from error
            raise MissingExtraError(built_in.package, built_in.extra, f"run the backend {name!r}") from error
        raise
    return cast("Backend", getattr(module, built_in.attribute)())


def _programs() -> Mapping[str, Program]:
    """External programs. Without any, nothing is imported for them: it would be charged to the writer."""
    if not os.environ.get(EXTERNAL_VARIABLE):
        return {}
    from spillway.backends.external import programs

    found = programs()
    taken = sorted(name for name in found if name in _BUILT_IN) or sorted(found.keys() & _registered().keys())
    if taken:
        raise OptionError(
            f"--external: [{taken[0]}] is the name of another backend, which it would replace: "
            f"choose another name"
        )
    return found


def _registered() -> dict[str, EntryPoint]:
    """Entry points of other packages; a built-in name stays the built-in backend."""
    from importlib.metadata import entry_points

    return {
        point.name: point for point in entry_points(group=ENTRY_POINT_GROUP) if point.name not in _BUILT_IN
    }


def _load_registered(name: str, point: EntryPoint) -> Backend:
    from spillway.backends.protocol import Backend

    loaded = point.load()
    backend = loaded() if isinstance(loaded, type) else loaded
    if not isinstance(backend, Backend):
        raise SpillwayError(
            f"entry point {name!r} ({point.value}) is not a backend: "
            f"it needs the attributes name, modes, version and open"
        )
    return backend
