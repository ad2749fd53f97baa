# ruff: noqa: S608 - the folder of a test is no attack
"""Tables with features: what is not supported is refused by name, and changes nothing."""

from __future__ import annotations

import json
import shutil
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pytest

import spillway.delta
from spillway.errors import (
    AppendOnlyError,
    CorruptLogError,
    MetadataChanged,
    OptionError,
    ProtocolChanged,
    SpillwayError,
    UnsupportedTableError,
    VersionNotFoundError,
)

from .conftest import read_deltalake
from .logs import content, line_of, needs, read_version, write_version
from .test_cleanup import age, grow

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..spark.process import Worker

NUMBERS = pa.schema({"id": pa.int64()})


def append(table: spillway.delta.Table, *ids: int, **options: Any) -> int:
    with table.append(**options) as append:
        append.write(pa.table({"id": list(ids)}, schema=NUMBERS))
    assert append.version is not None
    return append.version


def ids(table: spillway.delta.Table) -> list[int]:
    return sorted(read_deltalake(Path(table.path))["id"].to_pylist())


NOT_BUILT: dict[str, list[dict[str, Any]]] = {
    "futureFeature": [needs("futureFeature"), {"futureAction": {"kept": True}}],
    "checkpointProtection": [needs("checkpointProtection")],
}


@pytest.mark.parametrize("feature", NOT_BUILT)
def test_the_log_of_a_table_with_unknown_features_stays_as_it_is(tmp_path: Path, feature: str) -> None:
    table = grow(tmp_path / "t", 8)
    age(table, range(9), 400)
    write_version(table, 9, NOT_BUILT[feature])
    before = content(table.path)
    for change in (lambda: append(table, 9), table.checkpoint, table._native.clean_up_log):
        with pytest.raises(UnsupportedTableError, match=feature):
            change()
    assert content(table.path) == before
    assert len(table.files()) == 8


def clustered(
    folder: Path, columns: Any, schema: pa.Schema = NUMBERS, **properties: str
) -> spillway.delta.Table:
    """A table that another writer clusters by columns."""
    table = spillway.delta.create(folder, schema, properties=properties)
    domain = {
        "domain": "delta.clustering",
        "configuration": json.dumps({"clusteringColumns": columns, "domainName": "delta.clustering"}),
        "removed": False,
    }
    write_version(table, 1, [needs("clustering", "domainMetadata", "appendOnly"), {"domainMetadata": domain}])
    assert table.version == 1
    return table


def test_tables_that_another_writer_clusters_take_appends_and_checkpoints(tmp_path: Path) -> None:
    table = clustered(tmp_path / "t", [["id"]])
    append(table, 1)
    append(table, 2)
    assert table.checkpoint() == 3
    assert append(table, 3) == 4
    assert ids(table) == [1, 2, 3]
    domains = deltalake.DeltaTable(table.path).protocol().writer_features
    assert "clustering" in (domains or [])


WIDE = pa.schema(
    [(f"c{number:02}", pa.int64()) for number in range(40)] + [("group", pa.struct({"x": pa.int64()}))]
)
ROW = pa.Table.from_pylist([{f"c{n:02}": n for n in range(40)} | {"group": {"x": 7}}], schema=WIDE)


@pytest.mark.parametrize(
    ("columns", "found"),
    [
        ([["c35"]], {"c35": 35}),
        ([["c35"], ["group", "x"]], {"c35": 35, "group": {"x": 7}}),
        (["c38"], {"c38": 38}),
    ],
    ids=["late", "nested", "as text"],
)
@pytest.mark.parametrize(
    ("properties", "others"),
    [
        ({}, {f"c{n:02}": n for n in range(32)}),
        ({"delta.dataSkippingNumIndexedCols": "0"}, {}),
        ({"delta.dataSkippingStatsColumns": "c01, `c02`"}, {"c01": 1, "c02": 2}),
    ],
    ids=["first 32", "none", "named"],
)
def test_clustering_columns_have_statistics_whatever_others_have(
    tmp_path: Path, columns: Any, found: dict[str, Any], properties: dict[str, str], others: dict[str, Any]
) -> None:
    table = clustered(tmp_path / "t", columns, WIDE, **properties)
    with table.append() as append:
        append.write(ROW)
    (file,) = table.files()
    assert file.stats is not None
    assert file.stats["minValues"] == file.stats["maxValues"] == others | found
    with table.append(coalesce=True) as append:
        append.write(ROW)
    assert [dict(file.stats or {}) for file in table.files()] == [file.stats] * 2


@pytest.mark.parametrize("statistics", [False, {"group.x": False}, {("group", "x"): False}])
def test_clustering_columns_without_statistics_are_refused(tmp_path: Path, statistics: Any) -> None:
    table = clustered(tmp_path / "t", [["c35"], ["group", "x"]], WIDE)
    with pytest.raises(OptionError, match="by which the table is clustered") as caught:
        spillway.delta.write(table.path, ROW, statistics=statistics, mode="append")
    assert caught.value.option == "statistics"
    assert table.version == 1
    assert spillway.delta.write(table.path, ROW, statistics={"c01": False}, mode="append") == 2


def test_clustering_that_cannot_be_understood_is_refused(tmp_path: Path) -> None:
    for number, odd in enumerate([[["gone"]], "id", [[1]], [[]], None]):
        table = clustered(tmp_path / str(number), odd)
        with pytest.raises(UnsupportedTableError, match="clustering"):
            append(table, 1)
        assert table.version == 1


def test_files_of_the_caller_have_statistics_of_clustering_columns(tmp_path: Path) -> None:
    table = clustered(tmp_path / "t", [["id"]])
    append(table, 1)
    (file,) = table.files()
    shutil.copy(tmp_path / "t" / file.path, tmp_path / "t" / "copy.parquet")
    for stats in (None, {"numRecords": 1}, {"numRecords": 1, "nullCount": {"other": 0}}):
        with pytest.raises(OptionError, match=r'statistics.*"id"'):
            table.commit(adds=[spillway.delta.AddFile("copy.parquet", file.size, stats=stats)])
    table.commit(adds=[spillway.delta.AddFile("copy.parquet", file.size, stats=file.stats)])
    assert ids(table) == [1, 1]


def test_statistics_are_those_of_the_columns_that_the_table_names(tmp_path: Path) -> None:
    schema = pa.schema(
        {"a.b": pa.int64(), "a": pa.struct({"b": pa.int64(), "c": pa.int64()}), "d": pa.int64()}
    )
    row = pa.Table.from_pylist([{"a.b": 1, "a": {"b": 2, "c": 3}, "d": 4}], schema=schema)
    for named, expected in {
        "`a.b`, d": {"a.b": 1, "d": 4},
        "a": {"a": {"b": 2, "c": 3}},
        "a.c,gone": {"a": {"c": 3}},
        "": {},
    }.items():
        properties = {"delta.dataSkippingStatsColumns": named, "delta.dataSkippingNumIndexedCols": "1"}
        folder = tmp_path / uuid.uuid4().hex
        spillway.delta.write(folder, row, properties=properties)
        (file,) = spillway.delta.open(folder).files()
        assert (file.stats or {})["minValues"] == expected, named


def rewritten(table: spillway.delta.Table, *, data_change: bool) -> Callable[[], int]:
    """A copy of the only file, in its place."""
    (old,) = table.files()
    copy = f"{uuid.uuid4().hex}.parquet"
    shutil.copy(Path(table.path) / old.path, Path(table.path) / copy)
    new = spillway.delta.AddFile(copy, old.size, stats=old.stats, data_change=data_change)
    return lambda: table.commit(adds=[new], removes=[old.path], operation="OPTIMIZE")


def test_append_only_tables_are_compacted_and_lose_no_row(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "t", NUMBERS, properties={"delta.appendOnly": "true"})
    append(table, 1, 2)
    with pytest.raises(AppendOnlyError, match="commit"):
        rewritten(table, data_change=True)()
    with pytest.raises(AppendOnlyError):
        table.commit(removes=[table.files()[0].path])
    assert table.version == 1
    assert rewritten(table, data_change=False)() == 2
    removed = line_of(table, "remove", 2)
    assert removed["dataChange"] is False
    assert ids(table) == [1, 2]


def test_a_change_data_feed_is_told_of_no_row_that_did_not_change(tmp_path: Path) -> None:
    properties = {"delta.enableChangeDataFeed": "true"}
    table = spillway.delta.create(tmp_path / "t", NUMBERS, properties=properties)
    append(table, 1, 2)
    with pytest.raises(UnsupportedTableError, match=r"change data feed.*data_change=False"):
        rewritten(table, data_change=True)()
    assert table.version == 1
    rewritten(table, data_change=False)()
    append(table, 3)
    table.commit(removes=[table.files()[0].path])
    changes = deltalake.DeltaTable(table.path).load_cdf().read_all()
    kinds = pa.table(changes)["_change_type"].to_pylist()
    assert kinds.count("insert") == 3
    assert kinds.count("delete") in {1, 2}


INVARIANT = {"delta.invariants": json.dumps({"expression": {"expression": "x > 0"}})}


@pytest.mark.parametrize(
    "nest",
    [
        lambda leaf: {"type": "struct", "fields": [leaf]},
        lambda leaf: {
            "type": "array",
            "containsNull": True,
            "elementType": {"type": "struct", "fields": [leaf]},
        },
        lambda leaf: {
            "type": "map",
            "keyType": "string",
            "valueType": {"type": "struct", "fields": [leaf]},
            "valueContainsNull": True,
        },
        lambda leaf: leaf["type"],
    ],
    ids=["struct", "array", "map", "top"],
)
def test_invariants_are_found_however_deep(tmp_path: Path, nest: Callable[[Any], Any]) -> None:
    leaf = {"name": "x", "type": "long", "nullable": True, "metadata": INVARIANT}
    table = spillway.delta.create(tmp_path / "t", NUMBERS)
    metadata = line_of(table, "metaData")
    column = {"name": "c", "type": nest(leaf), "nullable": True, "metadata": {}}
    if column["type"] == "long":
        column = {**leaf, "name": "c"}
    metadata["schemaString"] = json.dumps({"type": "struct", "fields": [column]})
    write_version(table, 0, [read_version(table, 0)[1], {"metaData": metadata}])
    again = spillway.delta.open(shutil.copytree(tmp_path / "t", tmp_path / "u"))
    with pytest.raises(UnsupportedTableError, match=r"delta\.invariants"):
        again.truncate()


UUID = "d2c639aa-8816-431a-aaf6-d3fe2512ff61"
VECTORS = {
    # The protocol's own example.
    "in a folder": ("u", "ab^-aqEH.-t@S}K{vb[*k^", f"ab/deletion_vector_{UUID}.bin"),
    "beside the table": ("u", "^-aqEH.-t@S}K{vb[*k^", f"deletion_vector_{UUID}.bin"),
    "at its path": ("p", "TABLE/a%20b.bin", "a b.bin"),
    "at its URL": ("p", "file://TABLE/a%20b.bin", "a b.bin"),
}


def with_vector(folder: Path, kind: str, text: str) -> spillway.delta.Table:
    """A table whose version 2 has a file with a deletion vector, and whose version 3 has nothing."""
    properties = {"delta.enableDeletionVectors": "true"}
    table = spillway.delta.create(folder, NUMBERS, properties=properties)
    append(table, 1, 2, 3)
    add = line_of(table, "add", 1)
    vector = {"storageType": kind, "pathOrInlineDv": text, "sizeInBytes": 34, "cardinality": 1}
    if kind != "i":
        vector["offset"] = 1
    removed = {"path": add["path"], "dataChange": True, "deletionTimestamp": 1_700_000_000_000}
    write_version(table, 2, [{"remove": removed}, {"add": add | {"deletionVector": vector}}])
    table.truncate()
    return table


@pytest.mark.parametrize("where", VECTORS)
def test_a_version_whose_deletion_vector_is_gone_is_not_restored(tmp_path: Path, where: str) -> None:
    kind, text, file = VECTORS[where]
    table = with_vector(tmp_path / "t", kind, text.replace("TABLE", str(tmp_path / "t")))
    with pytest.raises(VersionNotFoundError, match=r"deletion vector.*is gone"):
        table.restore(2)
    assert table.version == 3
    vector = tmp_path / "t" / file
    vector.parent.mkdir(exist_ok=True)
    vector.write_bytes(b"rows")
    assert table.restore(2) == 4
    assert line_of(table, "add", 4)["deletionVector"]["storageType"] == kind


def test_vectors_that_are_no_files_of_the_table(tmp_path: Path) -> None:
    inline = with_vector(tmp_path / "inline", "i", "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L")
    assert inline.restore(2) == 4
    for number, odd in enumerate(["p/elsewhere/a.bin", "ushort", "u^-aqEH.-t@S}K{vb[*k\x7f", "x?"]):
        table = with_vector(tmp_path / str(number), odd[0], odd[1:])
        with pytest.raises(SpillwayError, match=r"deletion vector"):
            table.restore(2)
        assert table.version == 3


@pytest.mark.spark
def test_sparks_deletion_vectors_and_clustering(tmp_path: Path, worker: Worker) -> None:
    path = f"delta.`{tmp_path}/v`"
    worker.sql(
        f"create table {path} (id bigint) using delta tblproperties ('delta.enableDeletionVectors' = 'true')"
    )
    worker.sql(f"insert into {path} select * from range(0, 10, 1, 1)")
    worker.sql(f"delete from {path} where id = 3")
    worker.sql(f"truncate table {path}")
    table = spillway.delta.open(tmp_path / "v")
    (vector,) = (tmp_path / "v").rglob("deletion_vector_*.bin")
    vector.rename(vector.with_suffix(".away"))
    with pytest.raises(VersionNotFoundError, match=vector.name):
        table.restore(2)
    vector.with_suffix(".away").rename(vector)
    table.restore(2)
    assert worker.sql(f"select count(*), sum(id) from {path}") == [[9, 42]]

    path = f"delta.`{tmp_path}/c`"
    columns = ", ".join(f"c{number:02} bigint" for number in range(34))
    worker.sql(
        f"create table {path} ({columns}) using delta cluster by (c33) "
        "tblproperties ('delta.dataSkippingNumIndexedCols' = '34')"
    )
    worker.sql(f"alter table {path} set tblproperties ('delta.dataSkippingNumIndexedCols' = '2')")
    table = spillway.delta.open(tmp_path / "c")
    with table.append() as append:
        append.write(pa.table({f"c{number:02}": [number] for number in range(34)}))
    (file,) = table.files()
    assert (file.stats or {})["minValues"] == {"c00": 0, "c01": 1, "c33": 33}
    table.checkpoint()
    worker.sql(f"optimize {path}")
    assert worker.sql(f"select count(*) from {path} where c33 = 33") == [[1]]


HARMLESS = {
    "delta.checkpointInterval": "20",
    "delta.logRetentionDuration": "interval 60 days",
    "delta.appendOnly": "true",
    "delta.dataSkippingStatsColumns": "id",
    "delta.isolationLevel": "WriteSerializable",
    "owner": "somebody",
}


@pytest.mark.parametrize("coalesce", [False, True], ids=["alone", "coalesce"])
@pytest.mark.parametrize("name", HARMLESS)
def test_a_property_that_others_set_fails_no_append(tmp_path: Path, name: str, *, coalesce: bool) -> None:
    table = spillway.delta.create(tmp_path / "t", NUMBERS)
    late = [table.append(coalesce=coalesce), table.append(app_id="etl", app_version=1)]
    for number, one in enumerate(late):
        one.write(pa.table({"id": [number]}))
    other = deltalake.DeltaTable(tmp_path / "t")
    other.alter.set_table_properties({name: HARMLESS[name]}, raise_if_not_exists=False)
    assert [one.commit() for one in late] == [2, 3]
    assert (ids(table), table.properties, table.transaction_version("etl")) == (
        [0, 1],
        {name: HARMLESS[name]},
        1,
    )


def test_an_append_passes_a_new_description(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "t", NUMBERS)
    late = table.append()
    late.write(pa.table({"id": [1]}))
    deltalake.DeltaTable(tmp_path / "t").alter.set_table_description("another")
    assert late.commit() == 2
    assert deltalake.DeltaTable(tmp_path / "t").metadata().description == "another"


def test_what_others_change_for_appends_still_counts(tmp_path: Path) -> None:
    def changed(folder: str, change: Callable[[deltalake.DeltaTable], Any], **options: Any) -> Any:
        table = spillway.delta.create(tmp_path / folder, NUMBERS)
        append(table, 1)
        late = table._append(**options)
        late.write(pa.table({"id": [2]}))
        change(deltalake.DeltaTable(tmp_path / folder))
        with pytest.raises(SpillwayError) as refused:
            late.commit()
        assert ids(table) == [1]
        return refused.value

    def set_property(**properties: str) -> Callable[[deltalake.DeltaTable], Any]:
        named = {name.replace("_", "."): value for name, value in properties.items()}
        return lambda table: table.alter.set_table_properties(named, raise_if_not_exists=False)

    def add_column(table: deltalake.DeltaTable) -> None:
        table.alter.add_columns([deltalake.Field("more", deltalake.schema.PrimitiveType("string"))])

    def constrain(table: deltalake.DeltaTable) -> None:
        table.alter.add_constraint({"positive": "id > 0"})

    assert isinstance(changed("column", add_column), MetadataChanged)
    assert isinstance(changed("constraint", constrain), ProtocolChanged)
    limit = {"delta_constraints_positive": "id > 0"}
    assert isinstance(changed("limit", set_property(**limit)), MetadataChanged)
    replaced = changed("replaced", set_property(owner="me"), replace=[])
    assert isinstance(replaced, MetadataChanged)
    assert isinstance(changed("level", set_property(delta_isolationLevel="odd")), UnsupportedTableError)


def test_columns_may_be_mapped_once_nothing_is(tmp_path: Path) -> None:
    """Reader version 2 allows column mapping, and most tables that ask for it have none."""
    table = spillway.delta.create(tmp_path / "t", NUMBERS)
    append(table, 1)
    legacy = {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}
    write_version(table, 2, [legacy])
    again = spillway.delta.open(shutil.copytree(tmp_path / "t", tmp_path / "u"))
    assert (again.version, len(again.files())) == (2, 1)
    append(again, 2)
    metadata = line_of(table, "metaData")
    metadata["configuration"] = {"delta.columnMapping.mode": "name"}
    write_version(again, 4, [{"metaData": metadata}])
    with pytest.raises(CorruptLogError, match="columnMapping"):
        _ = again.version
    with pytest.raises(CorruptLogError, match="columnMapping"):
        spillway.delta.open(shutil.copytree(again.path, tmp_path / "v"))


def test_a_table_gets_its_schema_in_a_later_version(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "t", NUMBERS)
    append(table, 1)
    metadata = line_of(table, "metaData")
    protocol = line_of(table, "protocol")
    bare = {name: value for name, value in metadata.items() if name != "schemaString"}
    write_version(table, 0, [{"protocol": protocol}, {"metaData": bare}])
    write_version(table, 2, [{"protocol": protocol}, {"metaData": metadata}])
    again = spillway.delta.open(shutil.copytree(tmp_path / "t", tmp_path / "u"))
    assert (again.version, again.schema.names) == (2, ["id"])
    assert append(again, 2) == 3
    assert ids(again) == [1, 2]
    with pytest.raises(SpillwayError, match="schema"):
        again.restore(1)


# delta-rs writes (2, 7) where the writer's version is asked for alone.
READER_FEATURES: dict[str, Callable[[spillway.delta.Table], Any]] = {
    "deletion vectors": lambda table: table.set_properties({"delta.enableDeletionVectors": "true"}),
    "timestamps without a zone": lambda table: spillway.delta.write(
        table.path,
        pa.table({"id": [2], "t": pa.array([0], pa.timestamp("us"))}),
        mode="append",
        schema_mode="merge",
    ),
    "row ids and deletion vectors": lambda table: table.set_properties(
        {"delta.enableDeletionVectors": "true", "delta.enableRowTracking": "true"}
    ),
}


@pytest.mark.parametrize("feature", READER_FEATURES)
def test_a_feature_for_readers_is_one_for_writers(tmp_path: Path, feature: str) -> None:
    deltalake.write_deltalake(
        tmp_path / "t", pa.table({"id": [1]}), configuration={"delta.minWriterVersion": "7"}
    )
    READER_FEATURES[feature](spillway.delta.open(tmp_path / "t"))
    protocol = deltalake.DeltaTable(tmp_path / "t").protocol()
    assert protocol.min_reader_version == 3
    assert set(protocol.reader_features) <= set(protocol.writer_features)
    table = deltalake.DeltaTable(tmp_path / "t")
    found = deltalake.QueryBuilder().register("t", table).execute("select id from t")
    assert 1 in pa.table(found.read_all())["id"].to_pylist()


def test_tables_that_delta_rs_gives_deletion_vectors_are_written(tmp_path: Path) -> None:
    deltalake.write_deltalake(
        tmp_path / "t", pa.table({"id": [1]}), configuration={"delta.enableDeletionVectors": "true"}
    )
    assert "variantType" in deltalake.DeltaTable(tmp_path / "t").protocol().reader_features
    table = spillway.delta.open(tmp_path / "t")
    append(table, 2, 3)
    assert table.delete("id = 2")
    assert sorted(pa.table(table.scan())["id"].to_pylist()) == [1, 3]


def test_a_column_of_variants_keeps_a_table_from_being_opened(tmp_path: Path) -> None:
    append(table := spillway.delta.create(tmp_path / "t", NUMBERS), 1)
    metadata = line_of(table, "metaData")
    schema = json.loads(metadata["schemaString"])
    schema["fields"].append({"name": "v", "type": "variant", "nullable": True, "metadata": {}})
    metadata["schemaString"] = json.dumps(schema)
    write_version(table, 2, [needs("variantType", reader=("variantType",)), {"metaData": metadata}])
    with pytest.raises(SpillwayError, match='the type "variant"'):
        pa.table(spillway.delta.open(tmp_path / "t").scan())
