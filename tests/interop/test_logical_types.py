"""Geometries and variants: what the footer calls them, and which engines read the files.

polars refuses files whose schema has a logical type that it does not know, and the page of options says so:
when the test of that fails, the page is out of date.
"""

from __future__ import annotations

import io
import json
import math
import struct
from typing import TYPE_CHECKING, Any

import arro3.io
import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import spillway

if TYPE_CHECKING:
    from pathlib import Path

    from spillway.types import Timestamps

VARIANT = "arrow.parquet.variant"
PROJJSON = {"type": "ProjectedCRS", "name": "somewhere"}
MERCATOR = {**PROJJSON, "id": {"authority": "EPSG", "code": 3857}}
# The metadata of a variant without names of fields, and the values null, true, 5 and "abc".
NO_NAMES = b"\x01\x00\x00"
PLACES = [struct.pack("<bidd", 1, 1, 1, 2), None, struct.pack("<bidd", 1, 1, 3, 4)]
VALUES: dict[bytes, object] = {b"\x00": None, b"\x04": True, b"\x0c\x05": 5, b"\x0dabc": "abc"}


def extension(name: str, kind: pa.DataType, called: str, metadata: object = None) -> pa.Field:
    """A field of an extension type that this process need not know."""
    parameters = "" if metadata is None else json.dumps(metadata)
    pairs = {"ARROW:extension:name": called, "ARROW:extension:metadata": parameters}
    return pa.field(name, kind, metadata=pairs)


class _Wkb(pa.ExtensionType):  # type: ignore[misc]  # pyarrow has no stubs
    """The type by which pyarrow knows that a column holds geometries."""

    def __init__(self) -> None:
        super().__init__(pa.binary(), "geoarrow.wkb")

    def __arrow_ext_serialize__(self) -> bytes:
        return b"{}"

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> _Wkb:
        return cls()


def by_pyarrow(rows: list[bytes | None]) -> Any:
    """The geospatial statistics that pyarrow writes of some geometries."""
    pa.register_extension_type(_Wkb())
    try:
        column = pa.ExtensionArray.from_storage(_Wkb(), pa.array(rows, pa.binary()))
        file = io.BytesIO()
        pq.write_table(pa.table({"g": column}), file, use_dictionary=False)
        return geospatial(file)
    finally:
        pa.unregister_extension_type("geoarrow.wkb")


def geospatial(file: Any) -> Any:
    """The geospatial statistics of the first column of a file, or None."""
    found = pq.ParquetFile(file).metadata.row_group(0).column(0).geo_statistics
    return found and found.to_dict()


@st.composite
def wkb(draw: st.DrawFn, deeper: int = 2) -> bytes:
    """A geometry as Well-Known Binary, of any kind, with or without z and m, in either byte order."""
    kind = draw(st.integers(1, 7 if deeper else 3))
    more = draw(st.integers(0, 3))
    order = draw(st.sampled_from("<>"))
    width = (2, 3, 3, 4)[more]
    places = st.floats(-1e6, 1e6) | st.just(math.nan)

    def counted(parts: list[bytes]) -> bytes:
        return struct.pack(f"{order}I", len(parts)) + b"".join(parts)

    def line() -> bytes:
        points = draw(st.lists(st.lists(places, min_size=width, max_size=width), max_size=3))
        return counted([struct.pack(f"{order}{width}d", *point) for point in points])

    head = struct.pack(f"{order}BI", order == "<", 1000 * more + kind)
    if kind == 1:
        point = draw(st.lists(places, min_size=width, max_size=width))
        return head + struct.pack(f"{order}{width}d", *point)
    if kind == 2:
        return head + line()
    if kind == 3:
        return head + counted([line() for _ in range(draw(st.integers(0, 2)))])
    return head + counted(draw(st.lists(wkb(deeper - 1), max_size=2)))


def geometries(metadata: object = None, kind: pa.DataType | None = None) -> pa.Table:
    kind = kind or pa.binary()
    rows = pa.array(PLACES, kind)
    fields = [extension("g", kind, "geoarrow.wkb", metadata), pa.field("n", pa.int64())]
    return pa.Table.from_arrays([rows, pa.array(range(3))], schema=pa.schema(fields))


def variants(rows: list[Any], **typed: pa.DataType) -> pa.Table:
    kind = pa.struct({"metadata": pa.binary(), "value": pa.binary(), **typed})
    return pa.Table.from_arrays([pa.array(rows, kind)], schema=pa.schema([extension("v", kind, VARIANT)]))


def kinds(path: Path) -> dict[str, str | None]:
    """The logical types that are shown of the columns of a file."""
    return {column.path: column.logical_type for column in spillway.inspect_file(path).row_groups[0].columns}


def footer_kind(path: Path) -> str:
    """The logical type of the first leaf, as pyarrow has it from the footer."""
    return str(pq.ParquetFile(path).schema.column(0).logical_type)


@pytest.mark.parametrize(
    ("metadata", "kind", "shown"),
    [
        (None, "Geometry(crs=SRID:0)", "geometry(SRID:0)"),
        ({"crs": "OGC:CRS84"}, "Geometry(crs=)", "geometry"),
        ({"crs": "EPSG:3857"}, "Geometry(crs=EPSG:3857)", "geometry(EPSG:3857)"),
        ({"crs": MERCATOR}, "Geometry(crs=EPSG:3857)", "geometry(EPSG:3857)"),
        ({"crs": "7", "crs_type": "srid"}, "Geometry(crs=srid:7)", "geometry(srid:7)"),
        (
            {"crs": "OGC:CRS84", "edges": "spherical"},
            "Geography(crs=, algorithm=spherical)",
            "geography(spherical)",
        ),
        (
            {"crs": "OGC:CRS83", "edges": "karney"},
            "Geography(crs=OGC:CRS83, algorithm=karney)",
            "geography(OGC:CRS83, karney)",
        ),
    ],
)
@pytest.mark.parametrize("storage", [pa.binary(), pa.large_binary(), pa.binary_view()])
def test_geometries_are_called_what_their_metadata_says(
    tmp_path: Path, storage: pa.DataType, metadata: object, kind: str, shown: str
) -> None:
    path = tmp_path / "rows.parquet"
    spillway.write_parquet(geometries(metadata, storage), path)
    assert footer_kind(path) == kind
    assert kinds(path) == {"g": shown, "n": None}
    assert pq.read_table(path)["g"].cast(pa.binary()).equals(geometries()["g"])


def test_projjson_without_a_name_stands_in_the_footer(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    spillway.write_parquet(geometries({"crs": PROJJSON}), path)
    found = footer_kind(path).removeprefix("Geometry(crs=").removesuffix(")")
    assert json.loads(found) == PROJJSON
    assert kinds(path)["g"] == "geometry(projjson)"


def test_geometries_have_no_bounds(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    spillway.write_parquet(geometries(), path)
    chunk = pq.read_metadata(path).row_group(0).column(0)
    assert chunk.statistics.null_count == 1
    assert not chunk.statistics.has_min_max
    assert not chunk.has_column_index
    assert chunk.has_offset_index


@given(rows=st.lists(st.none() | wkb(), max_size=8), size=st.integers(1, 8))
def test_geospatial_statistics_are_those_of_pyarrow(rows: list[bytes | None], size: int) -> None:
    file = io.BytesIO()
    kind = extension("g", pa.binary(), "geoarrow.wkb")
    column = pa.chunked_array(
        [rows[start : start + size] for start in range(0, len(rows), size)], pa.binary()
    )
    spillway.write_parquet(pa.Table.from_arrays([column], schema=pa.schema([kind])), file)
    if any(row is not None for row in rows):
        assert geospatial(file) == by_pyarrow(rows)
    elif rows:
        assert geospatial(file) is None


@pytest.mark.parametrize(
    ("metadata", "rows", "options"),
    [
        (None, [*PLACES, b"no geometry"], {}),
        (None, [None], {}),
        (None, PLACES, {"statistics": False}),
        ({"edges": "spherical"}, PLACES, {}),
    ],
)
def test_geospatial_statistics_are_left_out_where_they_could_mislead(
    metadata: object, rows: list[bytes | None], options: dict[str, Any]
) -> None:
    file = io.BytesIO()
    schema = pa.schema([extension("g", pa.binary(), "geoarrow.wkb", metadata)])
    spillway.write_parquet(pa.table([rows], schema=schema), file, **options)
    assert geospatial(file) is None


def test_geospatial_statistics_of_a_dictionary_are_of_the_values_that_rows_have() -> None:
    file = io.BytesIO()
    values = [place for place in PLACES if place is not None]
    column = pa.DictionaryArray.from_arrays(pa.array([1, None, 1], pa.int8()), pa.array(values, pa.binary()))
    schema = pa.schema([extension("g", column.type, "geoarrow.wkb")])
    spillway.write_parquet(pa.Table.from_arrays([column], schema=schema), file)
    found = geospatial(file)
    assert (found["xmin"], found["xmax"], found["ymin"], found["ymax"]) == (3, 3, 4, 4)


def test_duckdb_and_arrow_rs_read_geometries(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    spillway.write_parquet(geometries({"crs": PROJJSON}), path)
    expected = geometries()["g"].to_pylist()
    with duckdb.connect() as connection:
        relation = connection.read_parquet(str(path))
        assert str(relation.types[0]).startswith("GEOMETRY")
        assert [row[0] for row in relation.fetchall()] == expected
    assert pa.table(arro3.io.read_parquet(path))["g"].to_pylist() == expected


@pytest.mark.parametrize("edges", ["round", 3])
def test_metadata_that_geometries_do_not_have_is_refused(edges: object) -> None:
    with pytest.raises(spillway.SchemaError, match="is not what GeoArrow defines") as caught:
        spillway.write_parquet(geometries({"edges": edges}), "never.parquet")
    assert caught.value.column == "g"


@given(rows=st.lists(st.none() | st.sampled_from(sorted(VALUES)), max_size=50), size=st.integers(1, 20))
def test_engines_read_variants(
    tmp_path_factory: pytest.TempPathFactory, rows: list[bytes | None], size: int
) -> None:
    path = tmp_path_factory.mktemp("variants") / "rows.parquet"
    table = variants([row if row is None else {"metadata": NO_NAMES, "value": row} for row in rows])
    spillway.write_parquet(table, path, row_group_rows=size)
    assert "VARIANT" in spillway.inspect_file(path).schema
    assert pq.read_table(path)["v"].to_pylist() == table["v"].to_pylist()
    assert pa.table(arro3.io.read_parquet(path))["v"].to_pylist() == table["v"].to_pylist()
    expected = [None if row is None else VALUES[row] for row in rows]
    with duckdb.connect() as connection:
        relation = connection.read_parquet(str(path))
        assert [str(kind) for kind in relation.types] == ["VARIANT"]
        assert [row[0] for row in relation.fetchall()] == expected


def test_a_variant_is_shown_by_its_parts(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    table = variants([{"metadata": NO_NAMES, "value": None, "typed_value": 4}], typed_value=pa.int64())
    spillway.write_parquet(table, path)
    of_bytes = {"v.metadata": "variant metadata", "v.value": "variant value"}
    assert kinds(path) == {**of_bytes, "v.typed_value": None}


def test_shredded_variants_of_duckdb_pass_as_they_are(tmp_path: Path) -> None:
    given, path = tmp_path / "given.parquet", tmp_path / "rows.parquet"
    with duckdb.connect() as connection:
        rows = "SELECT {'a': i, 'b': ['x', 'y'], 'c': {'d': i / 2}}::VARIANT AS v FROM range(100) t(i)"
        connection.execute(f"COPY ({rows}) TO '{given}' (FORMAT parquet)")
        table = pq.read_table(given)
        field = extension("v", table.schema.field("v").type, VARIANT)
        spillway.write_parquet(table.cast(pa.schema([field])), path)
        assert "typed_value" in spillway.inspect_file(path).schema
        found, expected = (connection.read_parquet(str(each)) for each in (path, given))
        assert found.types == expected.types
        assert found.fetchall() == expected.fetchall()


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        (pa.struct({"value": pa.binary()}), "v"),
        (pa.struct({"metadata": pa.binary()}), "v"),
        (pa.struct({"metadata": pa.string(), "value": pa.binary()}), "v.metadata"),
        (pa.struct({"metadata": pa.binary(), "typed_value": pa.uint8()}), "v.typed_value"),
        (pa.binary(), "v"),
    ],
)
def test_what_is_no_variant_is_refused_by_name(kind: pa.DataType, column: str) -> None:
    schema = pa.schema([extension("v", kind, VARIANT)])
    with pytest.raises(spillway.SchemaError, match="does not suit a variant") as caught:
        spillway.ParquetWriter("never.parquet", schema)
    assert caught.value.column == column


def test_times_in_variants_are_stored_in_their_units() -> None:
    rows = [{"metadata": NO_NAMES, "value": None, "typed_value": 1_000}]
    accepted: tuple[Timestamps, ...] = ("keep", "us")
    for unit in ("us", "ns"):
        table = variants(rows, typed_value=pa.timestamp(unit, "UTC"))
        for stored in accepted:
            spillway.write_parquet(table, io.BytesIO(), timestamps=stored)
        with pytest.raises(spillway.OptionError, match="shredded as timestamps") as caught:
            spillway.write_parquet(table, io.BytesIO(), timestamps="ms")
        assert caught.value.option == "timestamps"


@pytest.mark.parametrize("kind", [pa.string(), pa.binary(21), pa.list_(pa.binary())])
def test_geometries_that_are_not_binary_are_refused_by_name(kind: pa.DataType) -> None:
    schema = pa.schema([extension("g", kind, "geoarrow.wkb")])
    with pytest.raises(spillway.SchemaError, match="make it binary") as caught:
        spillway.ParquetWriter("never.parquet", schema)
    assert caught.value.column == "g"


@pytest.mark.parametrize("table", [geometries(), variants([{"metadata": NO_NAMES, "value": b"\x00"}])])
def test_polars_reads_them_only_without_their_logical_type(tmp_path: Path, table: pa.Table) -> None:
    path, old = tmp_path / "rows.parquet", tmp_path / "old.parquet"
    spillway.write_parquet(table, path)
    spillway.write_parquet(table, old, compatibility="v1")
    with pytest.raises(pl.exceptions.ComputeError, match="LogicalType"):
        pl.read_parquet(path)
    assert pl.read_parquet(old).to_arrow().cast(table.schema).equals(table)
    bare = pa.schema([pa.field(field.name, field.type) for field in table.schema])
    spillway.write_parquet(table.cast(bare), path)
    assert pl.read_parquet(path).height == table.num_rows


def test_a_table_keeps_its_own_types(tmp_path: Path) -> None:
    """The schema of a Delta table has neither type, so its files do not, either."""
    spillway.delta.write(tmp_path / "t", geometries())
    (file,) = (tmp_path / "t").glob("*.parquet")
    assert kinds(file)["g"] is None
    assert pa.table(spillway.delta.open(tmp_path / "t").scan())["g"].to_pylist() == PLACES
