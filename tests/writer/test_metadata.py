"""Metadata that is not UTF-8 is kept as bytes, as pyarrow keeps it."""

from __future__ import annotations

import io
import pickle
from typing import TYPE_CHECKING, Any

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

PAIRS = st.dictionaries(
    st.one_of(st.binary(max_size=8), st.text(max_size=4).map(str.encode)),
    st.one_of(st.binary(max_size=8), st.text(max_size=40).map(str.encode)),
    max_size=4,
)


def read_back(schema: pa.Schema) -> pa.Schema:
    file = io.BytesIO()
    spillway.write_parquet(schema.empty_table(), file)
    return pq.read_schema(file)


@given(PAIRS, PAIRS, PAIRS)
def test_any_metadata_comes_back(
    of_schema: dict[bytes, bytes], of_field: dict[bytes, bytes], of_nested: dict[bytes, bytes]
) -> None:
    nested = pa.struct([pa.field("x", pa.int64(), metadata=of_nested), ("y", pa.string())])
    schema = pa.schema(
        [pa.field("a", pa.int64(), metadata=of_field), pa.field("b", pa.list_(nested))], metadata=of_schema
    )
    read = read_back(schema)
    assert (read.metadata or {}) == of_schema
    assert (read.field("a").metadata or {}) == of_field
    assert (read.field("b").type.value_type.field("x").metadata or {}) == of_nested
    assert read.remove_metadata().field("a").type == pa.int64()


class Pickled(pa.ExtensionType):
    """An extension type whose parameters are serialized as bytes that are not UTF-8."""

    def __init__(self, parameter: Any) -> None:
        self.parameter = parameter
        super().__init__(pa.int64(), "spillway.test.pickled")

    def __arrow_ext_serialize__(self) -> bytes:
        return pickle.dumps(self.parameter)

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> Pickled:
        assert storage == pa.int64()
        return cls(pickle.loads(serialized))  # noqa: S301 - written above


def test_the_bytes_of_an_extension_type_come_back(tmp_path: Path) -> None:
    kind = Pickled({"unit": "\xb5m", "scale": 0.25})
    assert b"\x80" in kind.__arrow_ext_serialize__()
    column = pa.ExtensionArray.from_storage(kind, pa.array([1, None, 3]))
    pa.register_extension_type(kind)
    try:
        spillway.write_parquet(pa.table({"x": column}), tmp_path / "a.parquet")
        read = pq.read_table(tmp_path / "a.parquet")
        assert read.schema.field("x").type == kind
        assert read["x"].type.parameter == kind.parameter
        assert read["x"].combine_chunks().storage.to_pylist() == [1, None, 3]
        assert spillway.inspect_file(tmp_path / "a.parquet").rows == 3
    finally:
        pa.unregister_extension_type("spillway.test.pickled")


def test_the_footer_stays_text_for_readers_that_want_it_so(tmp_path: Path) -> None:
    """polars and arrow-rs refuse a file whose footer is not UTF-8; the stored Arrow schema has the bytes."""
    path = tmp_path / "a.parquet"
    table = pa.table({"a": [1]}).replace_schema_metadata({b"k": b"\xff\xfe", b"t": b"text"})
    spillway.write_parquet(table, path, metadata={"own": "text"})
    assert set(pq.read_metadata(path).metadata) == {b"t", b"own", b"ARROW:schema"}
    assert pq.read_schema(path).metadata == {b"k": b"\xff\xfe", b"t": b"text"}
    assert pl.read_parquet(path).rows() == duckdb.read_parquet(str(path)).fetchall() == [(1,)]
    assert spillway.inspect_file(path).rows == 1


@pytest.mark.parametrize("way", ["batches", "dataset"])
def test_metadata_that_differs_by_batch_is_that_of_the_first(way: str, tmp_path: Path) -> None:
    tables = [pa.table({"a": [n]}).replace_schema_metadata({b"k": bytes([n])}) for n in (255, 254)]
    path = tmp_path / "a"
    with spillway.ParquetWriter(path) if way == "batches" else spillway.DatasetWriter(path) as writer:
        for table in tables:
            writer.write(table)
    file = path if way == "batches" else next(path.glob("*.parquet"))
    assert pq.read_schema(file).metadata == {b"k": b"\xff"}
    assert pq.ParquetFile(file).read().num_rows == 2
