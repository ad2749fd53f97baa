"""Any history of schemas in a table: rows of each append that was taken come back, of a refused one none."""

from __future__ import annotations

import tempfile
from typing import Any

import deltalake
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import spillway.delta
from spillway.errors import SchemaError

from ..counts import count
from ..writer.test_schema_histories import batches, by_number

HISTORIES = count(quick=5, ci=10, soak=1000)


@settings(max_examples=HISTORIES)
@given(history=batches(), partition_by=st.sampled_from([(), "part"]))
def test_appends_of_any_schemas_come_back(history: list[pa.Table], partition_by: Any) -> None:
    expected: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        first = pa.schema([("number", pa.int64()), ("part", pa.string())])
        table = spillway.delta.create(folder, first, partition_by=partition_by)
        for batch in history:
            numbers = pa.array(range(len(expected), len(expected) + batch.num_rows), pa.int64())
            rows = batch.append_column("number", numbers)
            before = table.version
            try:
                with table.append(schema_mode="merge") as append:
                    append.write(rows)
            except SchemaError:
                table.refresh()
                assert table.version == before
            else:
                expected += rows.to_pylist()
        table.refresh()
        assert by_number(pa.table(table.scan()).to_pylist()) == by_number(expected)
        read = deltalake.DeltaTable(folder).to_pyarrow_table()
        assert by_number(pa.table(read).to_pylist()) == by_number(expected)
