"""Committers by their names."""

from __future__ import annotations

import importlib
import importlib.util
from typing import NamedTuple

from spillway.errors import MissingExtraError, SpillwayError

APPENDS = ("spillway", "spillway-coalesce", "put-if-absent", "delta-rs", "delta-rs-retry")
"""Those that are compared where writers only append."""
OWN_TABLES = ("lance", "pyiceberg")
"""Those that append to tables on a local disk which are no Delta tables. They race where they are named."""
_CHANGES = ("row-level", "file-level", "partition-level", "delta-rs")
# Whose conflicts are by partition.
_BY_PARTITION = "partition-level"


class _Entry(NamedTuple):
    module: str
    attribute: str
    requires: str
    what: str
    synced: str
    extra: str = "race"


_SPILLWAY = "data files, their folders and the log are synced before a commit is acknowledged"
_DELTA_RS = "nothing is synced on a local disk: a crash of the machine may lose what was acknowledged"
_LANCE = "nothing is synced: a crash of the machine may lose what was acknowledged"
_PYICEBERG = "SQLite syncs the catalogue, and nobody syncs the files that it names: a crash may lose them"
# Distributions by their modules.
_PACKAGES = {"deltalake": "deltalake", "lance": "pylance", "pyiceberg": "pyiceberg"}
_ENTRIES = {
    "spillway": _Entry(
        "spillway",
        "Spillway",
        "spillway._native",
        "`spillway.delta`, with one encoding thread and no timeout: threads share versions, processes carry "
        "each other's appends",
        _SPILLWAY,
    ),
    "spillway-coalesce": _Entry(
        "spillway",
        "SpillwayCoalesce",
        "spillway._native",
        "the same with `coalesce=True`: threads share data files too, one a partition",
        _SPILLWAY,
    ),
    "put-if-absent": _Entry(
        "spillway",
        "PutIfAbsent",
        "spillway._native",
        "plain put-if-absent in Python, for scale: files by `spillway.write_parquet`, each writer alone, one "
        "version an append, again after up to 10 ms, then twice that, up to 1 s, when the version exists",
        _SPILLWAY,
    ),
    "delta-rs": _Entry(
        "delta_rs",
        "DeltaRs",
        "deltalake",
        "`deltalake.write_deltalake`, and `DeltaTable.delete` of the newest version, with their defaults: 15 "
        "retries inside",
        _DELTA_RS,
    ),
    "delta-rs-retry": _Entry(
        "delta_rs",
        "DeltaRsRetry",
        "deltalake",
        "`write_deltalake`, called again after up to 0.1 s, then twice that, up to 10 s, for as long as it "
        "fails",
        _DELTA_RS,
    ),
    "row-level": _Entry(
        "spillway",
        "RowLevel",
        "spillway._native",
        "`spillway.delta`, with deletion vectors: rows are marked, and marks of one file are merged",
        _SPILLWAY,
    ),
    "file-level": _Entry(
        "spillway",
        "Spillway",
        "spillway._native",
        "`spillway.delta`, without deletion vectors: a file is written again, and conflicts are by file",
        _SPILLWAY,
    ),
    "partition-level": _Entry(
        "spillway",
        "Spillway",
        "spillway._native",
        "the same, with a partition for each writer, and so a file",
        _SPILLWAY,
    ),
    "lance": _Entry(
        "lance",
        "Lance",
        "lance",
        "`lance.write_dataset` in append mode with its defaults, to a table of Lance: retries inside",
        _LANCE,
        "peers",
    ),
    "pyiceberg": _Entry(
        "iceberg",
        "PyIceberg",
        "pyiceberg",
        "`Table.append` with its defaults, to a table of Iceberg in a SQL catalogue on SQLite: 4 retries "
        "inside, called again after up to 0.1 s, then twice that, up to 10 s, while others are in the way",
        _PYICEBERG,
        "peers",
    ),
}
NAMES = tuple(_ENTRIES)
SYNCED = {name: entry.synced for name, entry in _ENTRIES.items()}


def able(work: str) -> tuple[str, ...]:
    """The names of those that can do a work."""
    return NAMES if work == "append" else _CHANGES


def usual(work: str) -> tuple[str, ...]:
    """The names of those that are compared at a work."""
    return APPENDS if work == "append" else _CHANGES


def partitions(name: str) -> str:
    """The partitions of the table whose rows a committer changes, as in a cell."""
    return "own" if name == _BY_PARTITION else "one"


def what(name: str) -> str:
    """The description of a committer, for people."""
    return _ENTRIES[name].what


def made(name: str) -> object:
    """A committer, whose library is imported.

    Raises:
        MissingExtraError: Its library is not installed.
        SpillwayError: The native module is not built.
    """
    reason = missing(name)
    entry = _ENTRIES[name]
    if reason is not None:
        if (package := _PACKAGES.get(entry.requires)) is not None:
            raise MissingExtraError(package, entry.extra, f"run the committer {name!r}")
        raise SpillwayError(f"committer {name!r} cannot run: {reason}")
    module = importlib.import_module(f"spillway.race.committers.{entry.module}")
    committer: object = getattr(module, entry.attribute)()
    return committer


def missing(name: str) -> str | None:
    """The reason why a committer cannot run here, or None. Libraries are looked for, not imported."""
    entry = _ENTRIES[name]
    if importlib.util.find_spec(entry.requires) is not None:
        return None
    if (package := _PACKAGES.get(entry.requires)) is not None:
        return f"{package} is not installed: pip install 'spillway[{entry.extra}]'"
    return "the native module is not built: run maturin develop --release, or install the wheel"
