"""The log of a table as text: what another writer would have left there."""

from __future__ import annotations

import contextlib
import json
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import spillway.delta
from spillway.errors import SpillwayError

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

Line = dict[str, dict[str, Any]]


def log_of(table: spillway.delta.Table) -> Path:
    return Path(table.path) / "_delta_log"


def read_version(table: spillway.delta.Table, version: int) -> list[Line]:
    text = (log_of(table) / f"{version:020}.json").read_text()
    return [json.loads(line) for line in text.splitlines()]


def write_version(table: spillway.delta.Table, version: int, lines: list[Line]) -> None:
    path = log_of(table) / f"{version:020}.json"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    # What cannot be read is the matter of the test.
    with contextlib.suppress(SpillwayError):
        table.refresh()


def make_log(folder: Path, *versions: list[Line]) -> spillway.delta.Table:
    """The table of another writer, with these versions from 0 on."""
    (folder / "_delta_log").mkdir(parents=True)
    for version, lines in enumerate(versions):
        path = folder / "_delta_log" / f"{version:020}.json"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return spillway.delta.open(folder)


def metadata_of(fields: list[dict[str, Any]], partition_by: Sequence[str] = (), **properties: str) -> Line:
    """The metadata of a table with these columns, as the log has them."""
    return {
        "metaData": {
            "id": str(uuid.uuid4()),
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": fields}),
            "partitionColumns": [*partition_by],
            "configuration": properties,
        }
    }


def add_of(path: Path, stats: dict[str, Any] | None = None, **values: str | None) -> Line:
    """The entry of a file that is in the table's folder."""
    return {
        "add": {
            "path": path.name,
            "partitionValues": values,
            "size": path.stat().st_size,
            "modificationTime": 0,
            "dataChange": True,
            **({} if stats is None else {"stats": json.dumps(stats)}),
        }
    }


def line_of(table: spillway.delta.Table, action: str, version: int = 0) -> dict[str, Any]:
    """The only action of a kind in a version."""
    (body,) = [line[action] for line in read_version(table, version) if action in line]
    return body


def set_as_another(table: spillway.delta.Table, properties: dict[str, str]) -> None:
    """Set properties of a table as another writer does, who may set any."""
    metadata = line_of(table, "metaData")
    metadata["configuration"] |= properties
    write_version(table, table.version + 1, [{"metaData": metadata}])


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
