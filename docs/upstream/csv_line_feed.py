"""Read CSV whose values in quotes have CRLF, by blocks of which one ends between the two."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.csv

print("pyarrow", pa.__version__)
text = b"a\n" + b'"x\r\ny"\n' * 50
for size in (40, 41, 42, 43, 44, 45, 46):
    reader = pa.csv.open_csv(
        io.BytesIO(text),
        read_options=pa.csv.ReadOptions(block_size=size),
        parse_options=pa.csv.ParseOptions(newlines_in_values=True),
    )
    values = [value for batch in reader for value in batch.column(0).to_pylist()]
    wrong = [value for value in values if value != "x\r\ny"]
    print(f"blocks of {size}: {len(values)} values, {len(wrong)} of them wrong", *map(repr, wrong[:1]))
