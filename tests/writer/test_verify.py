"""Files that are read back before they appear: nothing good is refused, and what cannot be read back is."""

from __future__ import annotations

import io
import os
import threading
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

import spillway
import spillway.delta
from spillway.errors import OptionError, SchemaError

from ..counts import examples
from ..interop import strategies
from ..interop.test_round_trip import fitting
from ..interop.writing import write

if TYPE_CHECKING:
    from pathlib import Path

    from spillway.types import Verify

LEVELS: tuple[Verify, ...] = ("footer", "pages", "values")


@settings(max_examples=examples(0.8), deadline=None)
@given(st.data())
def test_every_table_passes_and_its_file_is_that_with_checksums(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    recipe = data.draw(strategies.recipes())
    table = recipe.table()
    options = fitting(data.draw(strategies.options(table.schema)), table.schema)
    options |= data.draw(st.sampled_from(({}, {"timestamps": "int96"}, {"store_schema": False})))
    options |= {"verify": None, "page_checksums": True}
    cuts = data.draw(strategies.cuts(table.num_rows))
    plain = io.BytesIO()
    try:
        write(table, plain, **options)
    except SchemaError as error:
        assert "has no Julian day for INT96" in str(error)  # noqa: PT017 - any other one fails the test
        reject()
    path = tmp_path_factory.getbasetemp() / "verified.parquet"
    for level in LEVELS:
        write(table, path, cuts=cuts, **options | {"verify": level})
        assert path.read_bytes() == plain.getvalue()


@pytest.mark.parametrize("level", LEVELS)
def test_sorted_rows_and_limited_memory_pass(tmp_path: Path, table: pa.Table, level: Verify) -> None:
    column = next(field.name for field in table.schema if pa.types.is_integer(field.type))
    cases: list[dict[str, Any]] = [
        {"sorting_columns": [column], "sorting": "sort", "row_group_rows": 700},
        {"memory_limit": "1MB"},
        {"bloom_filter": True, "row_group_rows": 700, "durable": True},
    ]
    for options in cases:
        result = spillway.write_parquet(table, tmp_path / "a", verify=level, **options)
        without = spillway.write_parquet(table, tmp_path / "b", page_checksums=True, **options)
        assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
        assert result == without or result.peak_tracked_bytes > without.peak_tracked_bytes


@pytest.mark.parametrize("level", LEVELS)
def test_datasets_and_appends_pass(tmp_path: Path, table: pa.Table, level: Verify) -> None:
    spillway.write_dataset(table, tmp_path / "d", max_file_rows=1_000, verify=level)
    assert pq.read_table(tmp_path / "d").num_rows == table.num_rows
    rows = pa.table({"k": ["a", "b"] * 500, "n": range(1_000)})
    delta = spillway.delta.create(tmp_path / "t", rows.schema, partition_by="k")
    with delta.append(verify=level) as append:
        append.write(rows)
    assert pa.table(delta.scan()).num_rows == rows.num_rows


@pytest.mark.parametrize("level", LEVELS)
def test_what_cannot_be_read_back_is_refused_before_a_row_is_taken(tmp_path: Path, level: Verify) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = threading.Thread(target=(tmp_path / "pipe").read_bytes)
    reader.start()
    for destination in (io.BytesIO(), tmp_path / "pipe", "s3://bucket/a.parquet"):
        with pytest.raises(OptionError, match="read") as refused:
            spillway.ParquetWriter(destination, verify=level)
        assert refused.value.option == "verify"
    reader.join()
    with pytest.raises(OptionError, match="read") as refused:
        spillway.DatasetWriter("s3://bucket/folder", verify=level)
    assert refused.value.option == "verify"
    with pytest.raises(OptionError, match="encrypt") as refused:
        spillway.WriterOptions(verify=level, encryption=spillway.Encryption(footer_key=b"0123456789abcdef"))
    assert refused.value.option == "verify"


def test_another_level_is_refused_with_those_that_are() -> None:
    with pytest.raises(OptionError) as refused:
        spillway.WriterOptions(verify="rows")  # type: ignore[arg-type]
    assert (refused.value.option, refused.value.accepted) == ("verify", LEVELS)
