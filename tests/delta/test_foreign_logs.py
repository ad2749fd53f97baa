"""Logs of other writers: what is not read is refused by name, and damage counts where it is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import spillway.delta
from spillway.errors import CorruptLogError, UnsupportedTableError

from .logs import line_of, make_log, metadata_of, write_version

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PROTOCOL = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}


def long(name: str) -> dict[str, Any]:
    return {"name": name, "type": "long", "nullable": True, "metadata": {}}


def test_a_partition_column_that_the_schema_lacks_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(CorruptLogError, match='partitioned by "p"'):
        make_log(tmp_path / "t", [PROTOCOL, metadata_of([long("id")], ["p"])])
    table = make_log(tmp_path / "u", [PROTOCOL, metadata_of([long("id"), long("p")], ["p"])])
    late = table.append()
    late.write(pa.table({"id": [1], "p": [1]}))
    write_version(table, 1, [metadata_of([long("id")], ["p"])])
    with pytest.raises(CorruptLogError, match='partitioned by "p"'):
        late.commit()


ABSOLUTE = ["file:///elsewhere/a", "/elsewhere/a", "s3://bucket/a", "file:/elsewhere/a"]
USES: dict[str, Callable[[spillway.delta.Table], object]] = {
    "scan": lambda table: pa.table(table.scan()),
    "delete": lambda table: table.delete("id = 1"),
    "optimize": lambda table: table.optimize(),
    "vacuum": lambda table: table.vacuum(dry_run=True),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("path", ABSOLUTE)
def test_a_file_with_an_absolute_path_is_refused_by_name(tmp_path: Path, path: str, use: str) -> None:
    table = spillway.delta.create(tmp_path / "t", pa.schema({"id": pa.int64()}))
    for value in (1, 2):
        with table.append() as append:
            append.write(pa.table({"id": [value]}))
    write_version(table, 3, [{"add": line_of(table, "add", 1) | {"path": path}}])
    with pytest.raises(UnsupportedTableError, match="absolute"):
        USES[use](spillway.delta.open(tmp_path / "t"))
    with table.append() as append:
        append.write(pa.table({"id": [3]}))
    assert append.version == 4
