"""The log of a table as text: what another writer would have left there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import os

    import spillway.delta

Line = dict[str, dict[str, Any]]


def log_of(table: spillway.delta.Table) -> Path:
    return Path(table.path) / "_delta_log"


def read_version(table: spillway.delta.Table, version: int) -> list[Line]:
    text = (log_of(table) / f"{version:020}.json").read_text()
    return [json.loads(line) for line in text.splitlines()]


def write_version(table: spillway.delta.Table, version: int, lines: list[Line]) -> None:
    path = log_of(table) / f"{version:020}.json"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def line_of(table: spillway.delta.Table, action: str, version: int = 0) -> dict[str, Any]:
    """The only action of a kind in a version."""
    (body,) = [line[action] for line in read_version(table, version) if action in line]
    return body


def needs(*features: str, reader: tuple[str, ...] = ()) -> Line:
    """A protocol with features."""
    protocol: dict[str, Any] = {
        "minReaderVersion": 3 if reader else 1,
        "minWriterVersion": 7,
        "writerFeatures": [*features],
    }
    if reader:
        protocol["readerFeatures"] = [*reader]
    return {"protocol": protocol}


def content(folder: str | os.PathLike[str]) -> dict[str, bytes]:
    """All that is in a table's log."""
    log = Path(folder) / "_delta_log"
    return {path.name: path.read_bytes() for path in log.iterdir() if path.is_file()}
