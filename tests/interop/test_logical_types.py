"""Geometries and variants: what the footer calls them, and which engines read the files.

polars refuses files whose schema has a logical type that it does not know, and the page of options says so:
when the test of that fails, the page is out of date.
"""

from __future__ import annotations

import json
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

VARIANT = "arrow.parquet.variant"
PROJJSON = {"type": "ProjectedCRS", "name": "somewhere", "id": {"authority": "EPSG", "code": 3857}}
# The metadata of a variant without names of fields, and the values null, true, 5 and "abc".
NO_NAMES = b"\x01\x00\x00"
PLACES = [struct.pack("<bidd", 1, 1, 1, 2), None, struct.pack("<bidd", 1, 1, 3, 4)]
VALUES: dict[bytes, object] = {b"\x00": None, b"\x04": True, b"\x0c\x05": 5, b"\x0dabc": "abc"}


def extension(name: str, kind: pa.DataType, called: str, metadata: object = None) -> pa.Field:
    """A field of an extension type that this process need not know."""
    parameters = "" if metadata is None else json.dumps(metadata)
    pairs = {"ARROW:extension:name": called, "ARROW:extension:metadata": parameters}
    return pa.field(name, kind, metadata=pairs)


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
        (None, "Geometry(crs=srid:0)", "geometry(srid:0)"),
        ({"crs": "OGC:CRS84"}, "Geometry(crs=)", "geometry"),
        ({"crs": "EPSG:3857"}, "Geometry(crs=EPSG:3857)", "geometry(EPSG:3857)"),
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


def test_projjson_stands_in_the_footer(tmp_path: Path) -> None:
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
