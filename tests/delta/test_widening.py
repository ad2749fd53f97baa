"""Tables whose columns have had narrower types: old files are read in the types of today."""

from __future__ import annotations

import datetime as dt
import json
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import spillway.delta
from spillway.errors import UnsupportedTableError

from ..conditions import COMPARE
from ..counts import examples
from .logs import Line, add_of, make_log, metadata_of, needs

if TYPE_CHECKING:
    from collections.abc import Sequence

FEATURES = ["typeWidening", "typeWidening-preview"]
TYPES = {
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp_ntz": pa.timestamp("us"),
    "decimal(5,2)": pa.decimal128(5, 2),
    "decimal(9,4)": pa.decimal128(9, 4),
    "decimal(12,2)": pa.decimal128(12, 2),
    "decimal(20,0)": pa.decimal128(20, 0),
    "decimal(38,9)": pa.decimal128(38, 9),
}
# All kinds of the protocol.
WIDER = [
    *(("byte", "short"), ("byte", "long"), ("short", "integer"), ("integer", "long")),
    *(("float", "double"), ("byte", "double"), ("short", "double"), ("integer", "double")),
    ("date", "timestamp_ntz"),
    *(("decimal(5,2)", "decimal(9,4)"), ("decimal(5,2)", "decimal(38,9)")),
    *(
        ("byte", "decimal(5,2)"),
        ("byte", "decimal(12,2)"),
        ("integer", "decimal(12,2)"),
        ("long", "decimal(20,0)"),
    ),
]
SINGLES = [-1.5, -0.1, 0.0, 0.3, 0.7, 2.5, 3.4, 16777216.0]
DAYS = [dt.date(1, 1, 1), dt.date(2024, 9, 9), dt.date(9999, 12, 31)]


def some(kind: str) -> list[Any]:
    """Values of a type, with its least and its greatest."""
    if pa.types.is_integer(TYPES[kind]):
        most = 2 ** (TYPES[kind].bit_width - 1)
        return [-most, -1, 0, 7, most - 1]
    if kind == "float":
        return [float(np.float32(value)) for value in SINGLES]
    if kind == "double":
        return [*SINGLES, 0.1, 0.3 + 1e-9, 1e300]
    if kind == "date":
        return DAYS
    if kind == "timestamp_ntz":
        return [dt.datetime.combine(day, dt.time(at)) for day in DAYS for at in (0, 12)]
    digits = Decimal(1).scaleb(-TYPES[kind].scale)
    return [-digits, Decimal(0) * digits, 7 * digits, Decimal("1.25").quantize(digits)]


def in_log(value: Any, kind: str) -> Any:
    """A bound as Spark writes it: a single by its shortest text, a moment in milliseconds."""
    if kind == "float":
        return float(str(np.float32(value)))
    if isinstance(value, dt.datetime):
        return value.isoformat(timespec="milliseconds")
    if isinstance(value, Decimal):
        return float(value)
    return value.isoformat() if isinstance(value, dt.date) else value


def wide(values: Sequence[Any], kind: str, wider: str) -> list[Any]:
    """The values in the type of today."""
    return list(pa.array(values, TYPES[kind]).cast(TYPES[wider]).to_pylist())


def changed(name: str, kind: str, wider: str, **more: str) -> dict[str, Any]:
    changes = [{"fromType": kind, "toType": wider, **more}]
    return {"name": name, "type": wider, "nullable": True, "metadata": {"delta.typeChanges": changes}}


def protocol(feature: str) -> Line:
    features = (feature, "timestampNtz")
    return needs(*features, reader=features)


def write_file(folder: Path, name: str, found: list[Any], kind: str) -> Line:
    """A file of one column, and its entry with statistics."""
    path = folder / name
    pq.write_table(pa.table({"x": pa.array(found, TYPES[kind])}), path, row_group_size=2)
    there = [value for value in found if value is not None]
    stats: dict[str, Any] = {"numRecords": len(found), "nullCount": {"x": len(found) - len(there)}}
    if there:
        stats |= {"minValues": {"x": in_log(min(there), kind)}, "maxValues": {"x": in_log(max(there), kind)}}
    return add_of(path, stats)


# Checkpoints that have statistics in the types of the columns.
STRUCTS = {"delta.checkpoint.writeStatsAsJson": "false", "delta.checkpoint.writeStatsAsStruct": "true"}


@settings(max_examples=examples(1))
@given(st.data(), st.sampled_from(WIDER), st.sampled_from(FEATURES))
def test_rows_of_both_types_are_found(data: st.DataObject, types: tuple[str, str], feature: str) -> None:
    kind, wider = types
    old = data.draw(st.lists(st.sampled_from([None, *some(kind)]), min_size=1, max_size=6))
    new = data.draw(st.lists(st.sampled_from([None, *some(wider)]), max_size=6))
    expected = [*wide(old, kind, wider), *wide(new, wider, wider)]
    where = []
    if not wider.startswith("decimal"):
        sign = data.draw(st.sampled_from(sorted(COMPARE)))
        asked = data.draw(st.sampled_from([*wide(some(kind), kind, wider), *some(wider)]))
        where = [("x", sign, asked)]
        expected = [value for value in expected if value is not None and COMPARE[sign](value, asked)]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        adds = [write_file(folder, "old.parquet", old, kind), write_file(folder, "new.parquet", new, wider)]
        table = make_log(folder, [protocol(feature), metadata_of([changed("x", kind, wider)])], adds)
        found = pa.table(table.scan(where=where))
    assert found.schema.types == [TYPES[wider]]
    assert sorted(map(repr, found["x"].to_pylist())) == sorted(map(repr, expected))


@pytest.mark.parametrize(("kind", "wider"), WIDER)
def test_values_inside_others_are_widened_too(tmp_path: Path, kind: str, wider: str) -> None:
    values = some(kind)
    nested = {
        "list": pa.array([values, None, []], pa.list_(TYPES[kind])),
        "map": pa.array([[("k", values[0])], None, []], pa.map_(pa.string(), TYPES[kind])),
        "group": pa.array([{"y": values[1]}, None, {"y": None}], pa.struct({"y": TYPES[kind]})),
    }
    changes = [{"fromType": kind, "toType": wider}]
    array = {"type": "array", "elementType": wider, "containsNull": True}
    mapping = {"type": "map", "keyType": "string", "valueType": wider, "valueContainsNull": True}
    group = {"type": "struct", "fields": [changed("y", kind, wider)]}
    fields = [
        {"name": name, "type": of, "nullable": True, "metadata": metadata}
        for name, of, metadata in [
            ("list", array, {"delta.typeChanges": [changes[0] | {"fieldPath": "element"}]}),
            ("map", mapping, {"delta.typeChanges": [changes[0] | {"fieldPath": "value"}]}),
            ("group", group, {}),
        ]
    ]
    folder = tmp_path / "t"
    folder.mkdir()
    pq.write_table(pa.table(nested), folder / "0.parquet")
    table = make_log(folder, [protocol(FEATURES[0]), metadata_of(fields)], [add_of(folder / "0.parquet")])
    found = pa.table(table.scan())
    widened = wide(values, kind, wider)
    assert found["list"].to_pylist() == [widened, None, []]
    assert found["map"].to_pylist() == [[("k", widened[0])], None, []]
    assert found["group"].to_pylist() == [{"y": widened[1]}, None, {"y": None}]


@pytest.mark.parametrize(
    ("kind", "wider", "text", "value"),
    [
        ("byte", "long", "7", 7),
        ("integer", "double", "7", 7.0),
        ("float", "double", "0.1", 0.1),
        ("date", "timestamp_ntz", "2024-09-09", dt.datetime.combine(DAYS[1], dt.time())),
        ("date", "timestamp_ntz", "2024-09-09 12:00:00", dt.datetime.combine(DAYS[1], dt.time(12))),
        ("integer", "decimal(12,2)", "7", Decimal("7.00")),
    ],
)
def test_partition_values_are_those_of_the_type_of_today(
    tmp_path: Path, kind: str, wider: str, text: str, value: Any
) -> None:
    folder = tmp_path / "t"
    folder.mkdir()
    pq.write_table(pa.table({"id": [1]}), folder / "0.parquet")
    fields = [changed("p", kind, wider), {"name": "id", "type": "long", "nullable": True, "metadata": {}}]
    add = add_of(folder / "0.parquet", p=text)
    table = make_log(folder, [protocol(FEATURES[0]), metadata_of(fields, ["p"])], [add])
    assert pa.table(table.scan(["p"]))["p"].to_pylist() == [value]
    if not wider.startswith("decimal"):
        assert pa.table(table.scan(["id"], where=[("p", "=", value)])).num_rows == 1
        assert pa.table(table.scan(["id"], where=[("p", "<", value)])).num_rows == 0
        table.delete_partition(p=value)
        assert pa.table(table.scan(["id"])).num_rows == 0


@pytest.mark.parametrize(
    "change",
    [
        {"fromType": "long", "toType": "double"},
        {"fromType": "decimal(5,2)", "toType": "decimal(6,4)"},
        {"fromType": "string", "toType": "integer"},
        {"fromType": "integer"},
        "integer",
    ],
    ids=str,
)
def test_a_change_that_is_not_known_is_refused_by_name(tmp_path: Path, change: Any) -> None:
    field = changed("x", "byte", "long")
    field["metadata"]["delta.typeChanges"].append(change)
    with pytest.raises(UnsupportedTableError, match='"x" has changed'):
        make_log(tmp_path / "t", [protocol(FEATURES[0]), metadata_of([field])])


@pytest.mark.parametrize("vectors", [True, False], ids=["vectors", "files"])
@pytest.mark.parametrize(("kind", "wider"), WIDER)
def test_a_widened_table_is_written_in_the_types_of_today(
    tmp_path: Path, kind: str, wider: str, *, vectors: bool
) -> None:
    folder = tmp_path / "t"
    folder.mkdir()
    features = (FEATURES[0], "timestampNtz", "deletionVectors")
    properties = {"delta.enableDeletionVectors": str(vectors).lower()} | STRUCTS
    fields = [changed("x", kind, wider), {"name": "id", "type": "long", "nullable": True, "metadata": {}}]
    old = some(kind)
    numbers = list(range(len(old)))
    pq.write_table(pa.table({"x": pa.array(old, TYPES[kind]), "id": numbers}), folder / "0.parquet")
    bounds = {"minValues": {"x": in_log(min(old), kind)}, "maxValues": {"x": in_log(max(old), kind)}}
    stats = {"numRecords": len(old), "nullCount": {"x": 0}} | bounds
    table = make_log(
        folder,
        [needs(*features, reader=features), metadata_of(fields, **properties)],
        [add_of(folder / "0.parquet", stats)],
    )
    with table.append() as append:
        append.write(pa.table({"x": pa.array(some(wider), TYPES[wider]), "id": [100] * len(some(wider))}))
    assert table.delete([("id", "=", 0)]).rows == 1
    assert [file.deleted_rows for file in table.files()].count(1) == vectors
    expected = [*wide(old, kind, wider)[1:], *some(wider)]
    assert table.checkpoint() == 3
    for version in range(3):
        (folder / "_delta_log" / f"{version:020}.json").unlink()
    again = spillway.delta.open(folder.rename(tmp_path / "u"))
    found = pa.table(again.scan())
    assert found.schema.types == [TYPES[wider], pa.int64()]
    assert sorted(map(repr, found["x"].to_pylist())) == sorted(map(repr, expected))
    # Of what Spark and others would know the new type by, nothing is lost.
    assert json.loads(again.schema.to_json())["fields"][0] == fields[0]
    for value in [] if wider.startswith("decimal") else expected:
        asked = again.scan(["x"], where=[("x", "=", value)])
        assert pa.table(asked).num_rows == expected.count(value)


def test_a_column_that_is_widened_while_the_table_is_open_is_read_in_its_new_type(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    folder.mkdir()
    first = metadata_of([{"name": "x", "type": "byte", "nullable": True, "metadata": {}}])
    table = make_log(folder, [protocol(FEATURES[0]), first], [write_file(folder, "0.parquet", [1], "byte")])
    assert pa.schema(table.scan()).types == [pa.int8()]
    second = metadata_of([changed("x", "byte", "long")])
    second["metaData"]["id"] = first["metaData"]["id"]
    add = write_file(folder, "1.parquet", [2**40], "long")
    log = folder / "_delta_log" / f"{2:020}.json"
    log.write_text("".join(json.dumps(line) + "\n" for line in (second, add)))
    table.refresh()
    found = pa.table(table.scan(where=[("x", ">=", 1)]))
    assert found.schema.types == [pa.int64()]
    assert pc.sum(found["x"]).as_py() == 1 + 2**40
    assert pa.table(table.scan(version=1)).schema.types == [pa.int8()]
