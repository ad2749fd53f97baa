# ruff: noqa: S608 - the folder of a test is no attack
"""Spark reads what is updated and merged here, goes on from it, and has the same names for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import spillway.delta

from .test_deletes import MARKS, NUMBERS, made
from .test_updates import pairs

if TYPE_CHECKING:
    from pathlib import Path

    from ..spark.process import Worker

pytestmark = pytest.mark.spark
MERGE = (
    "merge into delta.`{path}` t using (select 'c' as part, id from range({first}, {last})) s on t.id = s.id "
    "when matched then update set * when not matched then insert *"
)


def source(part: str, first: int, last: int) -> pa.Table:
    return pa.table({"part": [part] * (last - first), "id": range(first, last)}, NUMBERS)


@pytest.mark.parametrize("properties", [MARKS, {}], ids=["marking", "writing again"])
def test_both_change_one_table(tmp_path: Path, worker: Worker, properties: dict[str, str]) -> None:
    path = tmp_path / "t"
    table = made(path, properties=properties)
    expected = dict.fromkeys(range(1000), "a")
    table.update([("id", "<", 10)], {"part": "b"})
    expected |= dict.fromkeys(range(10), "b")
    worker.sql(f"update delta.`{path}` set part = 'spark' where id between 5 and 20")
    expected |= dict.fromkeys(range(5, 21), "spark")
    table.merge(source("m", 15, 30), "id")
    expected |= dict.fromkeys(range(15, 30), "m")
    worker.sql(MERGE.format(path=path, first=990, last=1010))
    expected |= dict.fromkeys(range(990, 1010), "c")
    table.merge(source("n", 1005, 1020), "id")
    expected |= dict.fromkeys(range(1005, 1020), "n")
    found = worker.sql(f"select id, part from delta.`{path}` order by id")
    assert [tuple(row) for row in found] == sorted(expected.items())
    assert sorted((number, part) for part, number in pairs(table)) == sorted(expected.items())


@pytest.mark.parametrize("properties", [MARKS, {}], ids=["marking", "writing again"])
def test_parameters_and_counts_have_sparks_names(
    tmp_path: Path, worker: Worker, properties: dict[str, str]
) -> None:
    def said(folder: Path) -> tuple[str | None, set[str], dict[str, int]]:
        [entry] = spillway.delta.open(folder).history(1)
        metrics: dict[str, Any] = entry.info["operationMetrics"]
        counts = {name: int(value) for name, value in metrics.items() if "Rows" in name}
        names = {*entry.info["operationParameters"], *(name for name in metrics if "Ms" not in name)}
        return entry.operation, names, counts

    ours, sparks = tmp_path / "ours", tmp_path / "sparks"
    table = made(ours, properties=properties)
    made(sparks, properties=properties)
    table.update([("id", "<", 5)], {"id": -1})
    worker.sql(f"update delta.`{sparks}` set id = -1 where id < 5")
    mine, theirs = said(ours), said(sparks)
    assert mine[0] == theirs[0] == "UPDATE"
    assert theirs[1] <= mine[1]
    assert theirs[2] == mine[2]
    table.merge(source("c", 990, 1010), "id")
    worker.sql(MERGE.format(path=sparks, first=990, last=1010))
    mine, theirs = said(ours), said(sparks)
    assert mine[0] == theirs[0] == "MERGE"
    assert theirs[1] <= mine[1]
    assert theirs[2] == mine[2]
