"""Tables with column mapping are written under the names of the table; files have physical names and ids."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import spillway.delta
from spillway.errors import (
    CommitConflict,
    OptionError,
    SchemaError,
    SpillwayError,
    UnsupportedTableError,
)

from ..counts import examples
from .conftest import rows
from .logs import Line, line_of, read_version, write_version
from .test_mapping import PROTOCOLS, small
from .test_v2_checkpoints import read_delta_rs

MODE = "delta.columnMapping.mode"
HIGHEST = "delta.columnMapping.maxColumnId"
ID = "delta.columnMapping.id"
PHYSICAL = "delta.columnMapping.physicalName"

NESTED = pa.schema(
    {
        "id": pa.int64(),
        "odd, name": pa.string(),
        "part=": pa.string(),
        "deep": pa.struct({"x": pa.int64(), "many": pa.list_(pa.struct({"y.z": pa.int64()}))}),
        "pairs": pa.map_(pa.string(), pa.struct({"z": pa.float64()})),
    }
)


def nested(*numbers: int, part: str = "a") -> pa.Table:
    found = [
        {
            "id": n,
            "odd, name": f"row {n}",
            "part=": part,
            "deep": {"x": n, "many": [{"y.z": n}, None]},
            "pairs": [("k", {"z": n / 2})],
        }
        for n in numbers
    ]
    return pa.Table.from_pylist(found, NESTED)


def fields_of(table: spillway.delta.Table, version: int = 0) -> list[dict[str, Any]]:
    """All fields of the log's schema that have names, each before those below it."""
    found: list[dict[str, Any]] = []

    def walk(kind: Any) -> None:
        match kind:
            case {"type": "struct", "fields": fields}:
                for field in fields:
                    found.append(field)
                    walk(field["type"])
            case {"type": "array", "elementType": element}:
                walk(element)
            case {"type": "map", "keyType": key, "valueType": value}:
                walk(key)
                walk(value)

    walk(json.loads(line_of(table, "metaData", version)["schemaString"]))
    return found


def physical(table: spillway.delta.Table, version: int = 0) -> dict[str, str]:
    return {field["name"]: field["metadata"][PHYSICAL] for field in fields_of(table, version)}


def adds(table: spillway.delta.Table, version: int | None = None) -> list[dict[str, Any]]:
    lines = read_version(table, table.version if version is None else version)
    return [line["add"] for line in lines if "add" in line]


def by_physical_names(table: spillway.delta.Table, version: int = 0) -> list[str]:
    """The rows of flat columns, as whoever knows the log but not this implementation finds them."""
    columns = json.loads(line_of(table, "metaData", version)["schemaString"])["fields"]
    by = line_of(table, "metaData", version)["partitionColumns"]
    kept: dict[str, dict[str, Any]] = {}
    for number in range(table.version + 1):
        for line in read_version(table, number):
            if "remove" in line:
                kept.pop(line["remove"]["path"], None)
            if "add" in line:
                kept[line["add"]["path"]] = line["add"]
    found = []
    for add in kept.values():
        assert "deletionVector" not in add
        file = pq.read_table(Path(table.path) / add["path"], partitioning=None)
        ids = {field.name: int(field.metadata[b"PARQUET:field_id"]) for field in file.schema}
        stored = {column["metadata"][PHYSICAL]: column["metadata"][ID] for column in columns}
        assert ids.items() <= stored.items()
        for row in file.to_pylist():
            values = [
                add["partitionValues"][column["metadata"][PHYSICAL]]
                if column["name"] in by
                else row.get(column["metadata"][PHYSICAL])
                for column in columns
            ]
            found.append(repr(values))
    return sorted(found)


@pytest.mark.parametrize("mode", ["name", "id"])
def test_a_new_table_maps_the_columns_at_every_depth(tmp_path: Path, mode: str) -> None:
    table = spillway.delta.create(tmp_path / "t", NESTED, partition_by=["part="], properties={MODE: mode})
    assert line_of(table, "protocol") == {"minReaderVersion": 2, "minWriterVersion": 5}
    metadata = line_of(table, "metaData")
    fields = fields_of(table)
    assert [field["metadata"][ID] for field in fields] == list(range(1, len(fields) + 1))
    assert metadata["configuration"] == {MODE: mode, HIGHEST: str(len(fields))}
    assert metadata["partitionColumns"] == ["part="]
    names = physical(table)
    assert all(name.startswith("col-") for name in names.values())
    assert len(set(names.values())) == len(fields)
    with table.append() as append:
        append.write(nested(1, 2))
    (add,) = adds(table)
    assert add["partitionValues"] == {names["part="]: "a"}
    # The name of a column may change, and no folder is renamed.
    assert "/" not in add["path"]
    stats = json.loads(add["stats"])
    assert stats["minValues"] == {names["id"]: 1, names["odd, name"]: "row 1", names["deep"]: {names["x"]: 1}}
    assert stats["nullCount"][names["deep"]][names["x"]] == 0
    file = pq.ParquetFile(tmp_path / "t" / add["path"]).schema_arrow
    assert file.names == [names[name] for name in NESTED.names if name != "part="]
    ids = {field["metadata"][PHYSICAL]: field["metadata"][ID] for field in fields}
    deep = file.field(names["deep"])
    many = deep.type.field(names["many"])
    for field in (
        *file,
        *deep.type,
        many.type.value_type.field(0),
        file.field(names["pairs"]).type.item_type[0],
    ):
        assert int(field.metadata[b"PARQUET:field_id"]) == ids[field.name]
    assert rows(pa.table(table.scan())) == rows(nested(1, 2))
    assert [file.partition_values for file in table.files()] == [{"part=": "a"}]
    assert rows(read_delta_rs(tmp_path / "t")) == rows(nested(1, 2))


def test_the_feature_is_named_where_features_are(tmp_path: Path) -> None:
    schema = pa.schema({"a": pa.int64()})
    marks = {MODE: "name", "delta.enableDeletionVectors": "true"}
    table = spillway.delta.create(tmp_path / "t", schema, properties=marks)
    protocol = line_of(table, "protocol")
    assert (protocol["minReaderVersion"], protocol["minWriterVersion"]) == (3, 7)
    assert {*protocol["readerFeatures"]} == {"columnMapping", "deletionVectors"}
    assert {"columnMapping", "deletionVectors"} <= {*protocol["writerFeatures"]}
    clustered = spillway.delta.create(tmp_path / "u", schema, properties={MODE: "name"}, cluster_by=["a"])
    protocol = line_of(clustered, "protocol")
    assert (protocol["minReaderVersion"], protocol["minWriterVersion"]) == (2, 7)
    assert "readerFeatures" not in protocol
    domain = json.loads(line_of(clustered, "domainMetadata")["configuration"])
    assert domain["clusteringColumns"] == [[physical(clustered)["a"]]]
    assert clustered.clustering_columns == ["a"]
    # A feature that comes later keeps the mapping.
    legacy = spillway.delta.create(tmp_path / "v", schema, properties={MODE: "name"})
    legacy.set_properties({"delta.enableDeletionVectors": "true"})
    protocol = line_of(legacy, "protocol", 1)
    assert {*protocol["readerFeatures"]} == {"columnMapping", "deletionVectors"}
    with legacy.append() as append:
        append.write(pa.table({"a": [1, 2, 3]}))
    legacy.delete([("a", "=", 2)])
    assert pa.table(legacy.scan())["a"].to_pylist() == [1, 3]


def test_a_mode_that_is_unknown_or_comes_later_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="give name, id or none"):
        spillway.delta.create(tmp_path / "t", NESTED, properties={MODE: "both"})
    with pytest.raises(SchemaError, match="odd, name"):
        spillway.delta.create(tmp_path / "t", NESTED, properties={MODE: "none"})
    assert not (tmp_path / "t").exists()
    table = spillway.delta.create(tmp_path / "t", pa.schema({"a": pa.int64()}))
    with pytest.raises(UnsupportedTableError, match=r"columnMapping\.mode.*set it with Spark"):
        table.set_properties({MODE: "name"})


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=["feature", "legacy"])
@pytest.mark.parametrize("mode", ["name", "id"])
def test_every_operation_writes_a_mapped_table(tmp_path: Path, mode: str, protocol: Line) -> None:
    """Each column of it has the name of the other in files."""
    table = small(tmp_path / "t", mode, protocol)

    def found() -> list[list[int]]:
        read = pa.table(table.scan())
        return sorted([row["a"], row["b"]] for row in read.to_pylist())

    def expect(expected: list[list[int]]) -> None:
        assert found() == expected
        for name, at in (("a", 0), ("b", 1)):
            for value in {row[at] for row in expected}:
                match = pa.table(table.scan(where=[(name, "=", value)]))
                assert match.num_rows == sum(row[at] == value for row in expected)

    spillway.delta.write(table.path, pa.table({"a": [3], "b": [50], "part": ["y"]}), mode="append")
    table.refresh()
    expect([[1, 30], [2, 40], [3, 50]])
    (add,) = adds(table)
    assert add["partitionValues"] == {"p-1": "y"}
    assert json.loads(add["stats"])["minValues"] == {"b": 3, "a": 50}
    table.delete([("a", "=", 1)])
    expect([[2, 40], [3, 50]])
    table.update([("a", "=", 2)], {"b": 41})
    expect([[2, 41], [3, 50]])
    table.merge(pa.table({"a": [3, 4], "b": [51, 60], "part": ["y", "x"]}), "a")
    expect([[2, 41], [3, 51], [4, 60]])
    table.optimize()
    assert len(table.files()) == 2
    expect([[2, 41], [3, 51], [4, 60]])
    table.purge()
    table.vacuum(dry_run=False)
    table.checkpoint()
    again = spillway.delta.open(table.path)
    assert rows(pa.table(again.scan())) == rows(pa.table(table.scan()))
    table.delete_partition(part="x")
    expect([[3, 51]])
    table.restore(table.version - 1)
    expect([[2, 41], [3, 51], [4, 60]])
    table.commit(removes=[file.path for file in table.files() if file.partition_values == {"part": "y"}])
    expect([[2, 41], [4, 60]])
    spillway.delta.write(table.path, pa.table({"a": [7], "b": [8], "part": ["z"]}), mode="overwrite")
    table.refresh()
    expect([[7, 8]])
    table.truncate()
    expect([])


def test_statistics_in_checkpoints_have_physical_names(tmp_path: Path) -> None:
    properties = {MODE: "name", "delta.checkpoint.writeStatsAsStruct": "true"}
    table = spillway.delta.create(tmp_path / "t", NESTED, partition_by=["part="], properties=properties)
    with table.append() as append:
        append.write(nested(1, 2))
    table.checkpoint()
    names = physical(table)
    (path,) = (tmp_path / "t" / "_delta_log").glob("*.checkpoint.parquet")
    add = pq.read_table(path).schema.field("add").type
    stats = add.field("stats_parsed").type.field("minValues").type
    assert {field.name for field in stats} == {names[name] for name in ("id", "odd, name", "deep")}
    partitions = add.field("partitionValues_parsed").type
    assert [field.name for field in partitions] == [names["part="]]
    for log in (tmp_path / "t" / "_delta_log").glob("*.json"):
        log.unlink()
    again = spillway.delta.open((tmp_path / "t").rename(tmp_path / "u"))
    assert rows(pa.table(again.scan(where=[("id", ">", 1)]))) == rows(nested(2))
    assert again.scan(where=[("id", ">", 2)]).skipped_files == 1


@pytest.mark.parametrize("mode", ["name", "id"])
def test_columns_that_are_added_get_the_next_ids(tmp_path: Path, mode: str) -> None:
    first = pa.schema({"a": pa.int64(), "s": pa.struct({"x": pa.int64()})})
    table = spillway.delta.create(tmp_path / "t", first, properties={MODE: mode})
    with table.append() as append:
        append.write(pa.Table.from_pylist([{"a": 1, "s": {"x": 1}}], first))
    before = fields_of(table)
    grown = [{"a": 2, "s": {"x": 2, "y y": 3}, "new (one)": [{"z": 4}]}]
    with table.append(schema_mode="merge") as append:
        append.write(pa.Table.from_pylist(grown))
    after = {field["name"]: field["metadata"] for field in fields_of(table, 2)}
    assert {field["name"]: field["metadata"] for field in before}.items() <= after.items()
    assert sorted(metadata[ID] for metadata in after.values()) == [1, 2, 3, 4, 5, 6]
    assert line_of(table, "metaData", 2)["configuration"] == {MODE: mode, HIGHEST: "6"}
    found = sorted(pa.table(table.scan()).to_pylist(), key=lambda row: row["a"])
    assert found == [{"a": 1, "s": {"x": 1, "y y": None}, "new (one)": None}, *grown]
    # Its schema comes back, but not the number of ids that it has given.
    table.restore(1)
    assert line_of(table, "metaData", table.version)["configuration"][HIGHEST] == "6"
    with table.append(schema_mode="merge") as append:
        append.write(pa.table({"a": [3], "other": [1]}))
    assert fields_of(table, table.version)[-1]["metadata"][ID] == 7


def test_two_appends_that_add_columns_at_once_do_not_share_an_id(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "t", pa.schema({"a": pa.int64()}), properties={MODE: "name"})
    one, two, plain = (table.append(schema_mode="merge") for _ in range(3))
    one.write(pa.table({"a": [1], "b": [1]}))
    two.write(pa.table({"a": [2], "c": [2]}))
    plain.write(pa.table({"a": [3]}))
    one.commit()
    with pytest.raises(CommitConflict):
        two.commit()
    plain.commit()
    expected = [{"a": 1, "b": 1}, {"a": 3, "b": None}]
    assert sorted(pa.table(table.scan()).to_pylist(), key=lambda row: row["a"]) == expected
    with table.append(schema_mode="merge") as append:
        append.write(pa.table({"a": [2], "c": [2]}))
    ids = [field["metadata"][ID] for field in fields_of(table, table.version)]
    assert ids == [1, 2, 3]


PAIRS = pa.schema({"a": pa.int64(), "b": pa.struct({"x": pa.int64()})})


def changed(metadata: dict[str, Any], change: str) -> dict[str, Any]:
    """The metadata after ALTER TABLE, as Spark leaves it."""
    schema = json.loads(metadata["schemaString"])
    first, second = schema["fields"]
    match change:
        case "rename":
            first["name"] = "z"
        case "rename a field":
            second["type"]["fields"][0]["name"] = "z"
        case "drop":
            schema["fields"] = [second]
        case "swap":
            first["name"], second["name"] = second["name"], first["name"]
    return metadata | {"schemaString": json.dumps(schema)}


@pytest.mark.parametrize("rows_are", ["own", "attached"])
@pytest.mark.parametrize("schema_mode", ["merge", None])
@pytest.mark.parametrize("change", ["rename", "rename a field", "drop", "swap"])
def test_an_append_conflicts_with_a_change_of_its_columns(
    tmp_path: Path, change: str, schema_mode: str | None, rows_are: str
) -> None:
    table = spillway.delta.create(tmp_path / "t", PAIRS, properties={MODE: "name"})
    row = pa.Table.from_pylist([{"a": 1, "b": {"x": 10}}], PAIRS)
    with table.append() as append:
        append.write(row)
    append = table.append(schema_mode=schema_mode)  # type: ignore[arg-type]  # both are accepted
    append.write(row)
    if rows_are == "attached":
        part = append.detach()
        append = table.append(schema_mode=schema_mode)  # type: ignore[arg-type]  # both are accepted
        append.attach(part)
    write_version(table, 2, [{"metaData": changed(line_of(table, "metaData", 0), change)}])
    with pytest.raises(CommitConflict):
        append.commit()
    opened = spillway.delta.open(tmp_path / "t")
    assert opened.version == 2
    [before] = pa.table(opened.scan()).to_pylist()
    assert (
        sorted(map(repr, before.values()))
        == {
            "rename": ["1", "{'x': 10}"],
            "rename a field": ["1", "{'z': 10}"],
            "drop": ["{'x': 10}"],
            "swap": ["1", "{'x': 10}"],
        }[change]
    )


@pytest.mark.parametrize(("before", "after"), [("name", None), (None, "name"), ("name", "id")])
@pytest.mark.parametrize("columns", [["a"], ["other"]])
def test_an_append_conflicts_with_another_mapping(
    tmp_path: Path, before: str | None, after: str | None, columns: list[str]
) -> None:
    def properties(mode: str | None) -> dict[str, str]:
        return {} if mode is None else {MODE: mode}

    schema = pa.schema({"a": pa.int64()})
    table = spillway.delta.create(tmp_path / "t", schema, properties=properties(before))
    append = table.append(schema_mode="merge")
    append.write(pa.table({"a": [1]}))
    other = pa.schema({name: pa.int64() for name in columns})
    spillway.delta.create(tmp_path / "t", other, mode="overwrite", properties=properties(after))
    with pytest.raises(CommitConflict):
        append.commit()
    assert pa.table(spillway.delta.open(tmp_path / "t").scan()).num_rows == 0


@pytest.mark.parametrize("mode", ["NAME", "Id"])
def test_a_mode_is_stored_as_other_readers_spell_it(tmp_path: Path, mode: str) -> None:
    table = spillway.delta.create(tmp_path / "t", pa.schema({"a b": pa.int64()}), properties={MODE: mode})
    assert line_of(table, "metaData", 0)["configuration"][MODE] == mode.lower()
    table.append_rows([{"a b": 1}])
    assert read_delta_rs(tmp_path / "t").to_pylist() == [{"a b": 1}]


def test_clustering_is_refused_by_the_name_of_the_table(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "t", PAIRS, properties={MODE: "name"})
    with table.append(statistics={"a": False}) as append:
        append.write(pa.Table.from_pylist([{"a": 1, "b": None}], PAIRS))
    with pytest.raises(OptionError, match='names the column "a", of which the file'):
        table.cluster_by("a")


def test_rows_that_wait_share_files(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "t", NESTED, properties={MODE: "id"})
    with table.append(coalesce=True) as append:
        append.write(nested(1))
    (add,) = adds(table)
    assert physical(table)["id"] in pq.ParquetFile(tmp_path / "t" / add["path"]).schema_arrow.names
    assert rows(pa.table(table.scan())) == rows(nested(1))


def test_a_replaced_table_gives_no_id_twice(tmp_path: Path) -> None:
    schema = pa.schema({"a": pa.int64(), "b": pa.int64()})
    table = spillway.delta.create(tmp_path / "t", schema, properties={MODE: "name"})
    spillway.delta.create(tmp_path / "t", schema, properties={MODE: "name"}, mode="overwrite")
    table.refresh()
    assert [field["metadata"][ID] for field in fields_of(table, 1)] == [3, 4]
    assert not {*physical(table, 0).values()} & {*physical(table, 1).values()}
    spillway.delta.create(tmp_path / "t", schema, mode="overwrite")
    table.refresh()
    assert [field["metadata"] for field in fields_of(table, 2)] == [{}, {}]
    with table.append() as append:
        append.write(pa.table({"a": [1], "b": [2]}))
    assert pa.table(table.scan()).to_pylist() == [{"a": 1, "b": 2}]
    with pytest.raises(UnsupportedTableError, match="another column mapping"):
        table.restore(1)


def test_files_of_others_are_not_taken_as_they_are(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "t", pa.schema({"a": pa.int64()}), properties={MODE: "name"})
    pq.write_table(pa.table({"a": [1]}), tmp_path / "t" / "x.parquet")
    size = (tmp_path / "t" / "x.parquet").stat().st_size
    with pytest.raises(UnsupportedTableError, match="physical names"):
        table.commit(adds=[spillway.delta.AddFile("x.parquet", size)])
    assert table.version == 0


def test_detached_rows_have_the_columns_of_the_table(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "t", NESTED, properties={MODE: "name"})
    part = table.append()
    part.write(nested(1, 2))
    given = part.detach()
    new = table.append(schema_mode="merge")
    new.write(pa.table({"id": [1], "new": [2]}))
    with pytest.raises(SpillwayError, match="Add the columns first"):
        new.detach()
    new.abort()
    with table.append() as append:
        append.attach(given)
        append.write(nested(3))
    assert rows(pa.table(table.scan())) == rows(nested(1, 2, 3))


def test_options_and_errors_have_the_names_of_the_table(tmp_path: Path) -> None:
    schema = pa.schema(
        [pa.field("a b", pa.int64(), nullable=False), pa.field("s", pa.struct({"x.y": pa.string()}))]
    )
    table = spillway.delta.create(tmp_path / "t", schema, properties={MODE: "name"})
    with table.append(
        dictionary={("s", "x.y"): False}, compression={"a b": "snappy"}, verify="values"
    ) as append:
        append.write(pa.Table.from_pylist([{"a b": 1, "s": {"x.y": "t"}}], schema))
    (add,) = adds(table)
    group = pq.ParquetFile(tmp_path / "t" / add["path"]).metadata.row_group(0)
    assert [group.column(leaf).compression for leaf in (0, 1)] == ["SNAPPY", "ZSTD"]
    with (
        pytest.raises(OptionError, match=r"s\.x\.y"),
        table.append(compression={"gone": "snappy"}) as append,
    ):
        append.write(pa.Table.from_pylist([{"a b": 1, "s": None}], schema))
    with pytest.raises(SchemaError, match="a b"), table.append() as append:
        append.write(pa.table({"a b": pa.array([None], pa.int64())}))
    table.add_constraint("positive", "`a b` > 0")
    with pytest.raises(SpillwayError, match="positive"), table.append() as append:
        append.write(pa.Table.from_pylist([{"a b": -1, "s": None}], schema))


@pytest.mark.parametrize("verify", [None, "values"])
def test_text_that_is_not_utf8_is_reported_by_the_name_of_the_table(
    tmp_path: Path, verify: str | None
) -> None:
    table = spillway.delta.create(tmp_path / "t", pa.schema({"a b": pa.string()}), properties={MODE: "name"})
    ends = pa.array([0, 1], pa.int32()).buffers()[1]
    bad = pa.Array.from_buffers(pa.string(), 1, [None, ends, pa.py_buffer(b"\xff")])
    with (
        pytest.raises(SpillwayError, match=r'"a b" breaks .*not UTF-8'),
        table.append(verify=verify) as append,  # type: ignore[arg-type]  # both are accepted
    ):
        append.write(pa.table({"a b": bad}))


NAMES = st.text(st.sampled_from("ab.,;{}()= `\"'/\\%_ß語-1\n\t"), min_size=1, max_size=6)
STEPS = ["append", "delete", "update", "merge", "optimize", "checkpoint", "grow"]


class Modelled:
    """A table of numbers, of texts by which it may be partitioned, and its rows as they should be."""

    def __init__(self, folder: Path, names: list[str], mode: str, *, partitioned: bool) -> None:
        self.key, self.value, self.part = names
        self.columns = [*names]
        self.schema = pa.schema([(self.key, pa.int64()), (self.value, pa.int64()), (self.part, pa.string())])
        self.table = spillway.delta.create(
            folder,
            self.schema,
            partition_by=[self.part] if partitioned else [],
            properties={MODE: mode},
        )
        self.rows: list[dict[str, Any]] = []
        self.metadata_in = 0

    def row(self, number: int) -> dict[str, Any]:
        return {self.key: number, self.value: number * 10, self.part: f"p{number % 2}"}

    def change(self, number: int, new: dict[str, Any]) -> None:
        self.rows = [kept | new if kept[self.key] == number else kept for kept in self.rows]

    def append(self, number: int) -> None:
        with self.table.append() as append:
            append.write(pa.Table.from_pylist([self.row(number)], self.schema))
        self.rows.append(self.row(number))

    def delete(self, number: int) -> None:
        self.table.delete([(self.key, "=", number)])
        self.rows = [kept for kept in self.rows if kept[self.key] != number]

    def update(self, number: int) -> None:
        self.table.update([(self.key, "=", number)], {self.value: -number})
        self.change(number, {self.value: -number})

    def merge(self, number: int) -> None:
        self.table.merge(pa.Table.from_pylist([self.row(number)], self.schema), self.key)
        if any(kept[self.key] == number for kept in self.rows):
            self.change(number, self.row(number))
        else:
            self.rows.append(self.row(number))

    def optimize(self, _: int) -> None:
        self.table.optimize()

    def checkpoint(self, _: int) -> None:
        self.table.checkpoint()

    def grow(self, number: int) -> None:
        self.columns.append(f"new {len(self.columns)}")
        grown = self.row(number) | {self.columns[-1]: number}
        with self.table.append(schema_mode="merge") as append:
            append.write(pa.Table.from_pylist([grown]))
        self.rows.append(grown)
        self.metadata_in = self.table.version


@settings(max_examples=examples(0.3))
@given(
    st.lists(NAMES, min_size=3, max_size=3, unique_by=str.lower),
    st.sampled_from(["name", "id"]),
    st.booleans(),
    st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 5)), max_size=6),
)
def test_rows_come_back_under_any_names(
    names: list[str],
    mode: str,
    partitioned: bool,  # noqa: FBT001 - drawn
    steps: list[tuple[str, int]],
) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        made = Modelled(Path(scratch) / "t", names, mode, partitioned=partitioned)
        for step, number in [("append", 1), ("append", 2), *steps]:
            getattr(made, step)(number)
        found = pa.table(made.table.scan())
        assert found.column_names == made.columns
        expected = sorted(repr([kept.get(name) for name in made.columns]) for kept in made.rows)
        assert sorted(repr([kept[name] for name in made.columns]) for kept in found.to_pylist()) == expected
        assert by_physical_names(made.table, made.metadata_in) == expected
        asked = pa.table(made.table.scan(where=[(made.value, "=", 10), (made.part, "=", "p1")]))
        matching = [kept for kept in made.rows if kept[made.value] == 10 and kept[made.part] == "p1"]
        assert asked.num_rows == len(matching)
        assert rows(read_delta_rs(Path(scratch) / "t")) == rows(found)
