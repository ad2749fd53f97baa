"""Tables with column mapping: columns are found by physical names or ids."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import spillway.delta
from spillway.errors import CorruptLogError, UnsupportedTableError

from ..conditions import COMPARE
from ..counts import examples
from .conftest import rows
from .logs import Line, add_of, make_log, metadata_of, needs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hypothesis.strategies import DrawFn

# Names that are each other's physical names are what a mistake would confuse. The last need a mapping.
NAMES = ["a", "b", "c", "d", "odd name", "x;y=1", "größe"]
PRIMITIVES = {"long": pa.int64(), "string": pa.string()}
PROTOCOLS: list[Line] = [
    needs("columnMapping", reader=("columnMapping",)),
    {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}},
]


@dataclass(frozen=True)
class Group:
    """A struct."""

    fields: tuple[Field, ...]


@dataclass(frozen=True)
class Many:
    """A list, or a map with keys of text."""

    of: Kind
    is_map: bool


Kind = str | Group | Many


@dataclass(frozen=True)
class Field:
    """A column, or a field of a struct."""

    name: str
    physical: str
    id: int
    kind: Kind


@dataclass(frozen=True)
class Stored:
    """A type as one file has it, how values get into the file, and what is left of them there."""

    type: pa.DataType
    put: Callable[[Any], Any]
    kept: Callable[[Any], Any]


def kinds() -> st.SearchStrategy[Any]:
    """Shapes of types; their names and ids are drawn for a whole schema."""
    leaves = st.sampled_from(sorted(PRIMITIVES))
    return st.recursive(
        leaves,
        lambda below: st.one_of(
            st.tuples(st.just("group"), st.lists(below, min_size=1, max_size=3)),
            st.tuples(st.sampled_from(["array", "map"]), below),
        ),
        max_leaves=4,
    )


@st.composite
def schemas(draw: DrawFn) -> tuple[Field, ...]:
    ids = iter(range(1, 1000))

    def fields(shapes: Sequence[Any]) -> tuple[Field, ...]:
        names = draw(st.permutations(NAMES))
        physical = draw(st.permutations(NAMES))
        return tuple(
            Field(name, stored, next(ids), kind(shape))
            for name, stored, shape in zip(names, physical, shapes, strict=False)
        )

    def kind(shape: Any) -> Kind:
        match shape:
            case ("group", shapes):
                return Group(fields(shapes))
            case (("array" | "map") as many, below):
                return Many(kind(below), is_map=many == "map")
            case _:
                return str(shape)

    return fields(draw(st.lists(kinds(), min_size=1, max_size=4)))


def to_json(kind: Kind) -> Any:
    match kind:
        case Group(fields):
            return {"type": "struct", "fields": [field_json(field) for field in fields]}
        case Many(of, is_map=False):
            return {"type": "array", "elementType": to_json(of), "containsNull": True}
        case Many(of):
            return {"type": "map", "keyType": "string", "valueType": to_json(of), "valueContainsNull": True}
        case str():
            return kind


def field_json(field: Field) -> dict[str, Any]:
    mapping = {"delta.columnMapping.id": field.id, "delta.columnMapping.physicalName": field.physical}
    return {"name": field.name, "type": to_json(field.kind), "nullable": True, "metadata": mapping}


def values(kind: Kind) -> st.SearchStrategy[Any]:
    some: st.SearchStrategy[Any]
    match kind:
        case Group(fields):
            some = st.fixed_dictionaries({field.name: values(field.kind) for field in fields})
        case Many(of, is_map=False):
            some = st.lists(values(of), max_size=2)
        case Many(of):
            some = st.dictionaries(st.sampled_from("kl"), values(of), max_size=2).map(
                lambda entries: list(entries.items())
            )
        case "long":
            some = st.integers(-3, 3)
        case _:
            some = st.sampled_from(["", "a", "b"])
    return st.none() | some


def stored_fields(draw: DrawFn, fields: Sequence[Field], mode: str) -> tuple[list[pa.Field], Stored]:
    """Fields as one file has them: some are missing, others are of columns that are gone, in any order."""
    there = [field for field in fields if draw(st.integers(0, 4))]
    # Names say nothing where ids do, and the other way round.
    names = draw(st.permutations(NAMES))
    named = {field.name: names[at] if mode == "id" else field.physical for at, field in enumerate(there)}
    inner = {field.name: stored_kind(draw, field.kind, mode) for field in there}
    arrow = [
        pa.field(named[field.name], inner[field.name].type, metadata=id_of(field.id, mode)) for field in there
    ]
    pool = NAMES if mode == "id" else ["dropped"]
    free = next(name for name in pool if name not in named.values())
    if not arrow or draw(st.booleans()):
        arrow.append(pa.field(free, pa.int64(), metadata=id_of(9999, mode)))
    arrow = draw(st.permutations(arrow))

    def put(row: dict[str, Any]) -> dict[str, Any]:
        return {named[name]: inner[name].put(value) for name, value in row.items() if name in named}

    def kept(row: dict[str, Any]) -> dict[str, Any]:
        return {
            field.name: inner[field.name].kept(row[field.name]) if field.name in named else None
            for field in fields
        }

    return arrow, Stored(pa.struct(arrow), put, kept)


def id_of(number: int, mode: str) -> dict[str, str]:
    return {"PARQUET:field_id": str(number if mode == "id" else number % 3)}


def stored_kind(draw: DrawFn, kind: Kind, mode: str) -> Stored:
    match kind:
        case Group(fields):
            whole = stored_fields(draw, fields, mode)[1]
            return Stored(whole.type, or_none(whole.put), or_none(whole.kept))
        case Many(of, is_map=False):
            inner = stored_kind(draw, of, mode)
            return Stored(
                pa.list_(inner.type),
                or_none(lambda found: [inner.put(value) for value in found]),
                or_none(lambda found: [inner.kept(value) for value in found]),
            )
        case Many(of):
            inner = stored_kind(draw, of, mode)
            return Stored(
                pa.map_(pa.string(), inner.type),
                or_none(lambda found: [(key, inner.put(value)) for key, value in found]),
                or_none(lambda found: [(key, inner.kept(value)) for key, value in found]),
            )
        case str():
            return Stored(PRIMITIVES[kind], lambda value: value, lambda value: value)


def or_none(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else change(value)


def statistics(fields: Sequence[Field], found: list[dict[str, Any]]) -> dict[str, Any]:
    """The statistics of a file, with physical names. A column that the file lacks has none."""
    stats: dict[str, Any] = {"numRecords": len(found), "minValues": {}, "maxValues": {}, "nullCount": {}}
    for field in fields:
        there = [row[field.name] for row in found if row[field.name] is not None]
        stats["nullCount"][field.physical] = len(found) - len(there)
        if field.kind in PRIMITIVES and there:
            stats["minValues"][field.physical] = min(there)
            stats["maxValues"][field.physical] = max(there)
    return stats


@dataclass(frozen=True)
class Made:
    """A table of another writer: its mode, its columns, the rows of each file and how they are stored."""

    mode: str
    fields: tuple[Field, ...]
    partition: Field | None
    files: list[tuple[str | None, list[dict[str, Any]], list[pa.Field], Stored]]

    def expected(self) -> list[dict[str, Any]]:
        """The rows of the table."""
        found = []
        for value, file_rows, _, stored in self.files:
            for row in file_rows:
                whole = stored.kept(row)
                found.append(whole if self.partition is None else whole | {self.partition.name: value})
        return found

    def write(self, folder: Path, protocol: Line) -> spillway.delta.Table:
        """Make the table."""
        folder.mkdir()
        adds = []
        for number, (value, file_rows, arrow, stored) in enumerate(self.files):
            path = folder / f"{number}.parquet"
            data = pa.Table.from_pylist([stored.put(row) for row in file_rows], pa.schema(arrow))
            pq.write_table(data, path, row_group_size=2)
            partition = {} if self.partition is None else {self.partition.physical: value}
            kept = [stored.kept(row) for row in file_rows]
            adds.append(add_of(path, statistics(self.fields, kept), **partition))
        fields = [*self.fields, *([self.partition] if self.partition else [])]
        by = [self.partition.name] if self.partition else []
        mode = {"delta.columnMapping.mode": self.mode, "delta.columnMapping.maxColumnId": "1001"}
        metadata = metadata_of([field_json(field) for field in fields], by, **mode)
        return make_log(folder, [protocol, metadata], adds)


@st.composite
def tables(draw: DrawFn) -> Made:
    mode = draw(st.sampled_from(["name", "id"]))
    fields = draw(schemas())
    # A name of another column: it is the partition column's in the log alone.
    free = next(name for name in NAMES if name not in {field.physical for field in fields})
    partition = Field("part", free, 1001, "string") if draw(st.booleans()) else None
    row = st.fixed_dictionaries({field.name: values(field.kind) for field in fields})
    files = [
        (
            draw(st.sampled_from(["p", "q", None])) if partition else None,
            draw(st.lists(row, min_size=1, max_size=5)),
            *stored_fields(draw, fields, mode),
        )
        for _ in range(draw(st.integers(1, 3)))
    ]
    return Made(mode, fields, partition, files)


def as_text(where: Sequence[tuple[str, str, Any]]) -> str:
    """The same conditions in SQL."""

    def of(name: str, sign: str, value: Any) -> str:
        if value is None:
            return f"`{name}` IS NULL"
        return f"`{name}` {sign} {value!r}"

    return " AND ".join(of(*condition) for condition in where) or "TRUE"


@settings(max_examples=examples(0.6))
@given(tables(), st.data(), st.sampled_from(PROTOCOLS))
def test_a_text_finds_fields_of_structs_by_their_mapping(
    made: Made, data: st.DataObject, protocol: Line
) -> None:
    fields = [
        (group.name, field.name, field.kind)
        for group in made.fields
        if isinstance(group.kind, Group)
        for field in group.kind.fields
        if field.kind in PRIMITIVES
    ]
    if not fields:
        return
    group, name, kind = data.draw(st.sampled_from(fields))
    sign = data.draw(st.sampled_from([*COMPARE]))
    value = data.draw(values(kind).filter(lambda value: value is not None))
    found = [row[group] and row[group][name] for row in made.expected()]
    expected = [value_of is not None and COMPARE[sign](value_of, value) for value_of in found]
    with tempfile.TemporaryDirectory() as scratch:
        table = made.write(Path(scratch) / "t", protocol)
        field = f"`{group}`.`{name}`"
        assert pa.table(table.scan([], where=f"{field} {sign} {value!r}")).num_rows == sum(expected)
        assert pa.table(table.scan([], where=f"{field} IS NULL")).num_rows == found.count(None)


@settings(max_examples=examples(0.6))
@given(tables(), st.data(), st.sampled_from(PROTOCOLS))
def test_a_scan_finds_columns_by_their_mapping(made: Made, data: st.DataObject, protocol: Line) -> None:
    asked = {field.name: field.kind for field in made.fields if field.kind in PRIMITIVES}
    if made.partition is not None:
        asked["part"] = "string"
    expected = made.expected()
    where: list[tuple[str, str, Any]] = []
    for name in data.draw(st.lists(st.sampled_from(sorted(asked)), max_size=2)) if asked else []:
        sign = data.draw(st.sampled_from([*COMPARE, "null"]))
        value = data.draw(values(asked[name]).filter(lambda value: value not in {None, ""}))
        where.append((name, "=", None) if sign == "null" else (name, sign, value))
        expected = [
            row
            for row in expected
            if (
                row[name] is None
                if sign == "null"
                else row[name] is not None and COMPARE[sign](row[name], value)
            )
        ]
    with tempfile.TemporaryDirectory() as scratch:
        table = made.write(Path(scratch) / "t", protocol)
        found = pa.table(table.scan(where=where))
        assert rows(pa.table(table.scan(where=as_text(where)))) == rows(found)
    names = [field.name for field in made.fields] + (["part"] if made.partition else [])
    assert found.column_names == names
    assert sorted(repr([row[name] for name in names]) for row in found.to_pylist()) == sorted(
        repr([row[name] for name in names]) for row in expected
    )


def long(name: str, physical: str, number: int) -> Field:
    return Field(name, physical, number, "long")


def small(
    folder: Path, mode: str = "name", protocol: Line = PROTOCOLS[0], **properties: str
) -> spillway.delta.Table:
    """A table of which ``a`` is ``b`` in its files, and the other way round."""
    folder.mkdir()
    ids = [pa.field(name, pa.int64(), metadata=id_of(at, "id")) for at, name in enumerate("ba", 1)]
    path = folder / "0.parquet"
    pq.write_table(pa.table([[1, 2], [30, 40]], schema=pa.schema(ids)), path)
    stats = {
        "numRecords": 2,
        "minValues": {"b": 1, "a": 30, "gone": 5},
        "maxValues": {"b": 2, "a": 40},
        "nullCount": {"b": 0, "a": 0},
    }
    fields = [
        field_json(field)
        for field in (long("a", "b", 1), long("b", "a", 2), Field("part", "p-1", 3, "string"))
    ]
    mapping = {"delta.columnMapping.mode": mode, "delta.columnMapping.maxColumnId": "3", **properties}
    values: Any = {"p-1": "x"}
    return make_log(
        folder, [protocol, metadata_of(fields, ["part"], **mapping)], [add_of(path, stats, **values)]
    )


@pytest.mark.parametrize("mode", ["name", "id"])
def test_files_are_shown_with_the_names_of_the_table(tmp_path: Path, mode: str) -> None:
    table = small(tmp_path / "t", mode)
    for (file,) in (table.files(), table.scan().files):
        assert file.partition_values == {"part": "x"}
        assert file.stats == {
            "numRecords": 2,
            "minValues": {"a": 1, "b": 30},
            "maxValues": {"a": 2, "b": 40},
            "nullCount": {"a": 0, "b": 0},
        }
    assert table.partition_columns == ["part"]
    assert pa.table(table.scan()).to_pydict() == {"a": [1, 2], "b": [30, 40], "part": ["x", "x"]}


@pytest.mark.parametrize("mode", ["name", "id"])
def test_files_are_left_out_by_the_statistics_of_their_own_column(tmp_path: Path, mode: str) -> None:
    table = small(tmp_path / "t", mode)
    for where, files in [
        ([("a", ">", 2)], 0),
        ([("b", ">", 2)], 1),
        ([("b", "<", 30)], 0),
        ([("part", "=", "y")], 0),
        ([("part", "=", "x"), ("a", "=", 2)], 1),
    ]:
        scan = table.scan(where=where)
        assert (len(scan.files), scan.skipped_files) == (files, 1 - files)
    assert pa.table(table.scan(["b"], where=[("a", "=", 2)]))["b"].to_pylist() == [40]


def test_a_file_without_ids_is_refused_where_they_are_what_columns_are_found_by(tmp_path: Path) -> None:
    table = small(tmp_path / "t", "id")
    pq.write_table(pa.table({"b": [1, 2], "a": [30, 40]}), tmp_path / "t" / "0.parquet")
    log = tmp_path / "t" / "_delta_log" / f"{1:020}.json"
    line = json.loads(log.read_text())
    line["add"]["size"] = (tmp_path / "t" / "0.parquet").stat().st_size
    log.write_text(json.dumps(line))
    table = spillway.delta.open((tmp_path / "t").rename(tmp_path / "u"))
    with pytest.raises(Exception, match="no field ids"):
        pa.table(table.scan())


def test_a_version_with_a_mapping_is_not_restored(tmp_path: Path) -> None:
    """Its metadata would come back without the files that it speaks of."""
    table = small(tmp_path / "t")
    metadata = metadata_of([field_json(long("a", "b", 1))])
    metadata["metaData"]["id"] = json.loads(
        (tmp_path / "t/_delta_log" / f"{0:020}.json").read_text().splitlines()[1]
    )["metaData"]["id"]
    log = tmp_path / "t/_delta_log" / f"{2:020}.json"
    removed = {"remove": {"path": "0.parquet", "dataChange": True}}
    log.write_text("".join(json.dumps(line) + "\n" for line in (needs("appendOnly"), metadata, removed)))
    table.refresh()
    assert table.files() == []
    with pytest.raises(UnsupportedTableError, match="columnMapping"):
        table.restore(1)
    assert table.version == 2


@pytest.mark.parametrize(
    ("lacks", "mode"),
    [
        ("delta.columnMapping.physicalName", "name"),
        ("delta.columnMapping.physicalName", "id"),
        ("delta.columnMapping.id", "id"),
    ],
)
def test_a_column_without_its_mapping_is_named(tmp_path: Path, lacks: str, mode: str) -> None:
    field = field_json(Field("g", "p", 1, Many(Group((long("a", "b", 2),)), is_map=False)))
    del field["type"]["elementType"]["fields"][0]["metadata"][lacks]
    metadata = metadata_of([field], **{"delta.columnMapping.mode": mode})
    with pytest.raises(CorruptLogError, match=rf'"a" has no {lacks}'):
        make_log(tmp_path / "t", [PROTOCOLS[0], metadata])


def test_a_mapping_of_an_unknown_mode_is_refused(tmp_path: Path) -> None:
    metadata = metadata_of([field_json(long("a", "b", 1))], **{"delta.columnMapping.mode": "both"})
    with pytest.raises(UnsupportedTableError, match="both"):
        make_log(tmp_path / "t", [PROTOCOLS[0], metadata])


def test_each_version_has_its_own_mapping(tmp_path: Path) -> None:
    """As others turn it on: names become physical names, and then columns are renamed."""
    folder = tmp_path / "t"
    folder.mkdir()
    pq.write_table(pa.table({"a": [1], "b": [2]}), folder / "0.parquet")
    plain = [{"name": name, "type": "long", "nullable": True, "metadata": {}} for name in "ab"]
    first = metadata_of(plain)
    renamed = metadata_of(
        [field_json(long("b", "a", 1)), field_json(long("new", "b", 2))],
        **{"delta.columnMapping.mode": "name"},
    )
    renamed["metaData"]["id"] = first["metaData"]["id"]
    table = make_log(
        folder, [needs("appendOnly"), first], [add_of(folder / "0.parquet")], [PROTOCOLS[0], renamed]
    )
    assert pa.table(table.scan()).to_pydict() == {"b": [1], "new": [2]}
    assert pa.table(table.scan(version=1)).to_pydict() == {"a": [1], "b": [2]}
    assert rows(pa.table(table.scan(["new"], where=[("b", "=", 1)]))) == ["[2]"]
