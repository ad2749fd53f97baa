# ruff: noqa: S608 - the folder of a test is no attack
"""Spark reads what is updated and merged here, goes on from it, and has the same names for it."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import spillway.delta
from spillway.errors import ConstraintError, UnsupportedTableError

from ..counts import SOAK
from .test_constraints import LITERALS, OTHERS, PAIRS, ROWS, broken, sampled
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


# A table with marks has the changes and the names of both, one without has all clauses; in a soak, both have
# all.
WAYS = {"marking": MARKS, "writing again": {}}
BY_TURNS = WAYS if SOAK else {"marking": MARKS}
WITH_CLAUSES = WAYS if SOAK else {"writing again": {}}


@pytest.mark.parametrize("properties", BY_TURNS.values(), ids=BY_TURNS)
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


@pytest.mark.parametrize("properties", BY_TURNS.values(), ids=BY_TURNS)
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


@pytest.mark.parametrize("properties", WITH_CLAUSES.values(), ids=WITH_CLAUSES)
def test_clauses_do_what_those_of_spark_do(
    tmp_path: Path, worker: Worker, properties: dict[str, str]
) -> None:
    """The source here is a DataFrame of several partitions, which Spark reads as a view there."""
    query = (
        "select id, case when id % 3 = 0 then -1 when id % 3 = 1 then 0 else id end as left, "
        "timestamp'2026-01-01 12:00:00' + make_interval(0, 0, 0, 0, 0, 0, id) as at "
        "from range(20, 1010, 7, 3) union all select null, 5, null"
    )
    schema = pa.schema({"id": pa.int64(), "left": pa.int64(), "at": pa.timestamp("us", "UTC")})
    folders = [tmp_path / "ours", tmp_path / "sparks"]
    for folder in folders:
        table = spillway.delta.create(folder, schema, properties=properties)
        for first in (0, 500):
            with table.append() as append:
                append.write(pa.table({"id": range(first, first + 500), "left": [100] * 500}))
    done = worker.ask("merged", path=str(folders[0]), query=query)
    worker.sql(
        f"merge into delta.`{folders[1]}` target using ({query}) source on target.id = source.id "
        "when matched and source.left < 0 then delete "
        "when matched and source.left > 0 then update set left = target.left + source.left "
        "when not matched and source.left > 0 then insert * "
        "when not matched by source and target.id < 10 then update set left = 0 "
        "when not matched by source and target.id >= 990 then delete"
    )
    found = [worker.sql(f"select * from delta.`{folder}` order by id, left") for folder in folders]
    assert found[0] == found[1]
    mine, theirs = (spillway.delta.open(folder).history(1)[0] for folder in folders)
    counts = [
        {name: int(value) for name, value in entry.info["operationMetrics"].items() if "Rows" in name}
        for entry in (mine, theirs)
    ]
    assert counts[0] == counts[1]
    assert done == {name: counts[0][f"numTargetRows{name.capitalize()}"] for name in done}
    for name in ("matchedPredicates", "notMatchedPredicates", "notMatchedBySourcePredicates"):
        clauses = [json.loads(entry.info["operationParameters"][name]) for entry in (mine, theirs)]
        shapes = [[(one["actionType"], "predicate" in one) for one in each] for each in clauses]
        assert shapes[0] == shapes[1], name


def test_a_dataframe_that_fails_leaves_the_table(tmp_path: Path, worker: Worker) -> None:
    table = spillway.delta.create(tmp_path / "t", pa.schema({"id": pa.int64(), "left": pa.int64()}))
    query = "select id, if(id = 5, assert_true(false, 'on purpose'), null) is null as left from range(9)"
    with pytest.raises(RuntimeError, match="on purpose"):
        worker.ask("merged", path=str(tmp_path / "t"), query=query)
    assert table.version == 0


def test_both_keep_the_constraints_and_properties_of_the_other(tmp_path: Path, worker: Worker) -> None:
    path, sql = tmp_path / "t", f"delta.`{tmp_path}/t`"
    table = made(path, 10)
    table.add_constraint("Small", "id < 100 AND part IN ('a', 'b')")
    for values in ("'a', 100", "'z', 1", "'a', null"):
        with pytest.raises(RuntimeError, match=r"(?i)check constraint small"):
            worker.sql(f"insert into {sql} values ({values})")
    worker.sql(f"insert into {sql} values ('b', 99)")
    worker.sql(f"alter table {sql} add constraint Positive check (`id` >= 0 and not part <=> null)")
    with pytest.raises(UnsupportedTableError, match=r"delta\.constraints\.positive"):
        table.merge(source("a", 50, 51), "id")
    worker.sql(f"alter table {sql} drop constraint Positive")
    worker.sql(f"alter table {sql} add constraint Positive check (id >= 0 and part is not null)")
    for wrong in (-1, 100):
        with pytest.raises(ConstraintError, match=f"id = {wrong}"):
            table.update([("id", "=", 1)], {"id": wrong})
    table.set_properties({"delta.appendOnly": "true", "team": "web"})
    shown = dict(worker.sql(f"show tblproperties {sql}"))
    assert (shown["delta.appendOnly"], shown["team"]) == ("true", "web")
    with pytest.raises(RuntimeError, match=r"(?i)append"):
        worker.sql(f"delete from {sql} where id = 1")
    worker.sql(f"alter table {sql} unset tblproperties ('delta.appendOnly', 'team')")
    table.drop_constraint("small")
    table.update([("id", "=", 1)], {"id": 100})
    assert worker.sql(f"select count(*), max(id) from {sql}") == [[11, 100]]


def test_conditions_are_true_where_they_are_in_spark(tmp_path: Path, worker: Worker) -> None:
    table = spillway.delta.create(tmp_path / "t", ROWS)
    with table.append() as append:
        append.write(sampled(3, 200))
    conditions = [
        f"{name} {sign} {value}"
        for name, values in LITERALS.items()
        for sign, value in itertools.product(["=", "<"], values)
    ]
    conditions += [
        f"{name} not in ({', '.join(values)}, null)" for name, values in LITERALS.items() if name != "clock"
    ]
    conditions += [pair.format(sign) for pair in PAIRS for sign in ("=", ">")]
    conditions += [f"{name} between {values[0]} and {values[-1]}" for name, values in LITERALS.items()]
    # The single precision of 0.1 is above the decimal.
    conditions += ["single <= 0.1", "single = 7", "single in (0.1, 7)", "single = ratio", "single < small"]
    conditions += [other for other in OTHERS if other != "null"]
    columns = ", ".join(f"count_if(({condition}) is not true)" for condition in conditions)
    [counts] = worker.sql(f"select {columns} from delta.`{tmp_path}/t`")
    assert {each: broken(table, each) for each in conditions} == dict(zip(conditions, counts, strict=True))
