"""The lengths of ``varchar(n)`` and ``char(n)``, which Spark keeps in the metadata of columns, hold."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import spillway.delta
from spillway.errors import SchemaError, UnsupportedTableError

from ..counts import examples
from .logs import Line, make_log, metadata_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PROTOCOL: Line = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
LIST = {"type": "array", "elementType": "string", "containsNull": True}
MAP = {"type": "map", "keyType": "string", "valueType": "string", "valueContainsNull": True}
GROUP = {
    "type": "struct",
    "fields": [
        {"name": "a", "type": "string", "nullable": True, "metadata": {}},
        {"name": "b", "type": LIST, "nullable": True, "metadata": {}},
    ],
}


def field(name: str, kind: Any = "string", declared: str | None = None) -> dict[str, Any]:
    metadata = {} if declared is None else {"__CHAR_VARCHAR_TYPE_STRING": declared}
    return {"name": name, "type": kind, "nullable": True, "metadata": metadata}


def made(folder: Path, partition_by: Sequence[str] = ()) -> spillway.delta.Table:
    fields = [
        field("id", "long"),
        field("v", declared="varchar(5)"),
        field("c", declared="char(3)"),
        field("l", LIST, "array<varchar(2)>"),
        field("m", MAP, "map<varchar(2),char(2)>"),
        field("g", GROUP, "struct<a:varchar(2),b:array<char(2)>>"),
        field("n"),
    ]
    return make_log(folder, [PROTOCOL, metadata_of(fields, partition_by)])


def append(table: spillway.delta.Table, row: dict[str, Any], **options: Any) -> None:
    with table.append(**options) as append:
        append.write(pa.Table.from_pylist([row], SCHEMA))


SCHEMA = pa.schema({
    "id": pa.int64(), "v": pa.string(), "c": pa.string(), "l": pa.list_(pa.string()),
    "m": pa.map_(pa.string(), pa.string()),
    "g": pa.struct([("a", pa.string()), ("b", pa.list_(pa.string()))]), "n": pa.string(),
})  # fmt: skip


def by_rows(table: spillway.delta.Table, row: dict[str, Any]) -> None:
    table.append_rows([row])


def by_json(table: spillway.delta.Table, row: dict[str, Any]) -> None:
    import json  # noqa: PLC0415

    row = {name: dict(value) if name == "m" else value for name, value in row.items()}
    with table.append() as append:
        append.write_ndjson(json.dumps(row).encode())


def by_update(table: spillway.delta.Table, row: dict[str, Any]) -> None:
    append(table, {"id": row["id"], "v": "x"})
    table.update([], {name: value for name, value in row.items() if name != "id"})


def by_expression(table: spillway.delta.Table, row: dict[str, Any]) -> None:
    append(table, {"id": row["id"], "v": "x"})
    values = pa.Table.from_pylist([row], SCHEMA)
    given = {
        name: pc.scalar(values[name][0])
        for name in row
        if name != "id" and not pa.types.is_nested(SCHEMA.field(name).type)
    }
    others = {name: value for name, value in row.items() if name not in given and name != "id"}
    table.update([], given | others)


def by_merge(table: spillway.delta.Table, row: dict[str, Any]) -> None:
    table.merge(pa.Table.from_pylist([row], SCHEMA), "id")


def by_overwrite(table: spillway.delta.Table, row: dict[str, Any]) -> None:
    spillway.delta.write(table.path, pa.Table.from_pylist([row], SCHEMA), mode="overwrite")
    table.refresh()


def by_part(table: spillway.delta.Table, row: dict[str, Any]) -> None:
    with spillway.delta.open(table.path).append() as part:
        part.write(pa.Table.from_pylist([row], SCHEMA))
        written = part.detach()
    with table.append() as append:
        append.attach(written)


WAYS: dict[str, Callable[[spillway.delta.Table, dict[str, Any]], None]] = {
    "append": append,
    "coalesced": lambda table, row: append(table, row, coalesce=True),
    "rows": by_rows,
    "json": by_json,
    "update": by_update,
    "expression": by_expression,
    "merge": by_merge,
    "overwrite": by_overwrite,
    "part": by_part,
}

TOO_LONG = [
    {"v": "too long"},
    {"v": "日本語日本語"},
    {"v": "12345 "},
    {"v": "ab      "},
    {"c": "abc "},
    {"c": "abcd"},
    {"l": ["ab", None, "abc"]},
    {"m": [("abc", "x")]},
    {"m": [("a", "xyz")]},
    {"g": {"a": "abc", "b": None}},
    {"g": {"a": None, "b": ["abc"]}},
]


@pytest.mark.parametrize("partition_by", [(), ("v", "c")])
@pytest.mark.parametrize("way", WAYS)
def test_texts_that_are_too_long_are_refused(tmp_path: Path, way: str, partition_by: Sequence[str]) -> None:
    for number, wrong in enumerate(TOO_LONG):
        table = made(tmp_path / f"{number}", partition_by)
        with pytest.raises(SchemaError) as refused:
            WAYS[way](table, {"id": 1, "v": "x", "c": "y"} | wrong)
        assert refused.value.column in wrong
        assert not any(row["id"] == 1 and row["v"] != "x" for row in pa.table(table.scan()).to_pylist())


@pytest.mark.parametrize("partition_by", [(), ("v", "c")])
@pytest.mark.parametrize("way", WAYS)
def test_texts_that_fit_arrive_as_they_are(tmp_path: Path, way: str, partition_by: Sequence[str]) -> None:
    table = made(tmp_path / "t", partition_by)
    row = {
        "id": 1, "v": "ünïcö", "c": "日本語", "l": ["a ", None], "m": [("🦀🦀", "v"), ("a ", "")],
        "g": {"a": "", "b": ["x", None]}, "n": "any length, and spaces   ",
    }  # fmt: skip
    WAYS[way](table, row)
    assert pa.table(table.scan()).to_pylist() == [row]


@given(st.text(st.sampled_from("aé日🦀 \t"), max_size=8))
@settings(max_examples=examples(0.5))
def test_characters_are_counted(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = made(Path(folder) / "t")
        for name, most in (("v", 5), ("c", 3)):
            if len(text) > most:
                with pytest.raises(SchemaError):
                    append(table, {"id": 1, name: text})
            else:
                append(table, {"id": 1, name: text})
                assert text in pa.table(table.scan([name]))[name].to_pylist()


def test_dictionaries_and_views_are_checked_too(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    for kind in (pa.string_view(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())):
        with table.append() as append:
            append.write(pa.table({"id": [1], "c": pa.array(["a"]).cast(kind)}))
            with pytest.raises(SchemaError):
                append.write(pa.table({"id": [1], "c": pa.array(["abcd"]).cast(kind)}))
    assert pa.table(table.scan(["c"]))["c"].to_pylist() == ["a"] * 3


def test_texts_below_null_are_not_looked_at(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    long, mask = pa.array(["too long", "x"]), pa.array([True, False])
    group = pa.StructArray.from_arrays([long, pa.array([["y"], ["y"]])], ["a", "b"], mask=mask)
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), long, mask=mask)
    with table.append() as append:
        append.write(pa.table({"id": [1, 2], "g": group, "l": lists}))
    found = sorted(pa.table(table.scan(["id", "g", "l"])).to_pylist(), key=lambda row: row["id"])
    assert found == [{"id": 1, "g": None, "l": None}, {"id": 2, "g": {"a": "x", "b": ["y"]}, "l": ["x"]}]


def test_structs_with_lengths_get_new_fields(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    row = {"id": 1, "g": {"a": "ab", "b": ["ab"], "new": "any length"}}
    with table.append(schema_mode="merge") as append:
        append.write(pa.Table.from_pylist([row]))
    found = pa.table(table.scan(["id", "g"]))
    assert found.to_pylist() == [row]
    with table.append() as append, pytest.raises(SchemaError):
        append.write(pa.Table.from_pylist([{"id": 2, "g": {"a": "abc"}}], found.schema))


def test_rows_that_are_there_stay_as_they_are(tmp_path: Path) -> None:
    import pyarrow.parquet as pq  # noqa: PLC0415

    table = made(tmp_path / "t")
    for number in range(2):
        path = tmp_path / "t" / f"{number}.parquet"
        pq.write_table(pa.table({"id": [number, 2], "v": ["far too long", "x"], "c": ["y", "z"]}), path)
        table.commit(adds=[spillway.delta.AddFile(path.name, path.stat().st_size)])
    table.optimize()
    table.delete("id = 2")
    table.update("id = 1", {"n": "new"})
    found = sorted((row["id"], row["v"], row["c"], row["n"]) for row in pa.table(table.scan()).to_pylist())
    assert found == [(0, "far too long", "y", None), (1, "far too long", "y", "new")]


def test_lengths_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    table = make_log(tmp_path / "t", [PROTOCOL, metadata_of([field("v", declared="varchar(many)")])])
    with pytest.raises(UnsupportedTableError):
        table.append_rows([{"v": "x"}])
    assert pa.table(table.scan()).num_rows == 0
