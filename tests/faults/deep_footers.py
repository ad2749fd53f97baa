"""Opens a file whose footer nests columns deep, or takes a schema that does; a program, as it may die.

`python -m tests.faults.deep_footers OPENER DEPTH FOLDER` prints the error, or nothing where there is none.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import spillway.delta
from spillway.inspection import inspect_file

from ..delta.logs import add_of, make_log, metadata_of, needs

if TYPE_CHECKING:
    from collections.abc import Callable

# `SchemaElement`s in Thrift's compact protocol: a field's step and type in a byte, then its value. Integers
# are in zigzag form.
ROOT = b"\x48\x06schema\x15\x02\x00"
GROUP = b"\x35\x02\x18\x01g\x15\x02\x00"
LEAF = b"\x15\x04\x25\x02\x18\x01x\x00"


def varint(number: int) -> bytes:
    head, rest = number & 127, number >> 7
    return bytes([head | 128]) + varint(rest) if rest else bytes([head])


def parquet(nodes: list[bytes]) -> bytes:
    """A file without rows that has these nodes as its schema."""
    schema = b"\x19\xfc" + varint(len(nodes)) + b"".join(nodes)
    footer = b"\x15\x02" + schema + b"\x16\x00\x19\x0c\x00"
    return b"PAR1" + footer + struct.pack("<I", len(footer)) + b"PAR1"


def nested(depth: int) -> bytes:
    """A file with one column, in so many groups."""
    return parquet([ROOT, *[GROUP] * depth, LEAF])


def table_with(body: bytes, folder: Path) -> spillway.delta.Table:
    path = folder / "part.parquet"
    path.write_bytes(body)
    column = {"name": "g", "type": "long", "nullable": True, "metadata": {}}
    add = add_of(path, {"numRecords": 0})
    return make_log(folder, [needs(), metadata_of([column]), add])


def inspected(body: bytes, folder: Path) -> object:
    path = folder / "a.parquet"
    path.write_bytes(body)
    report = inspect_file(path)
    assert len(report.schema) < 2 << 20
    return report


def as_checkpoint(body: bytes, folder: Path) -> object:
    log = folder / "_delta_log"
    log.mkdir()
    (log / f"{3:020}.checkpoint.parquet").write_bytes(body)
    (log / f"{3:020}.json").write_text('{"commitInfo":{}}\n')
    return spillway.delta.open(folder).files()


def merged(table: spillway.delta.Table) -> object:
    return table.merge(pa.table({"g": [1]}), "g")


def schema_of(levels: int) -> pa.Schema:
    deep: pa.DataType = pa.int64()
    for _ in range(levels):
        deep = pa.struct([pa.field("x", deep)])
    return pa.schema([pa.field("deep", deep)])


TAKERS: dict[str, Callable[[pa.Schema, Path], Any]] = {
    "writer": lambda schema, folder: spillway.ParquetWriter(folder / "a.parquet", schema),
    "dataset": lambda schema, folder: spillway.DatasetWriter(folder / "d", schema),
    "table": lambda schema, folder: spillway.delta.create(folder / "t", schema),
}
OPENERS: dict[str, Callable[[bytes, Path], Any]] = {
    "inspect": inspected,
    "checkpoint": as_checkpoint,
    "scan": lambda body, folder: pa.table(table_with(body, folder).scan()),
    "scan of an id": lambda body, folder: pa.table(table_with(body, folder).scan(["g"], where="g > 1")),
    "delete": lambda body, folder: table_with(body, folder).delete("g > 1"),
    "update": lambda body, folder: table_with(body, folder).update("g > 1", {"g": 2}),
    "merge": lambda body, folder: merged(table_with(body, folder)),
}


def main(opener: str, depth: str, folder: str) -> None:
    try:
        if opener in TAKERS:
            TAKERS[opener](schema_of(int(depth)), Path(folder))
        else:
            OPENERS[opener](nested(int(depth)), Path(folder))
    except (spillway.SpillwayError, pa.ArrowException) as error:
        print(f"{type(error).__name__}: {error}")  # noqa: T201 - what the test reads


if __name__ == "__main__":
    main(*sys.argv[1:])
