"""Find a peer's best encoding for each column of a dataset: what `backends/tuned_encodings.py` keeps.

Each column is written alone, with every encoding that Spark reads of its type, ZSTD level 1. Of the encodings
whose file is at most 5 % larger than the column's smallest, the one that takes the least processor time is
chosen.

    python scripts/tune.py logs pyarrow
"""

from __future__ import annotations

import argparse
import io
import time
from functools import partial
from typing import TYPE_CHECKING

import arro3.io
import pyarrow as pa
import pyarrow.parquet as pq
from rich.progress import track

from spillway import datasets

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS = 400_000
ROUNDS = 5
SLACK = 1.05
DICTIONARY = "dictionary"


def candidates(data_type: pa.DataType) -> tuple[str, ...]:
    """The encodings that the format allows for the type, but BYTE_STREAM_SPLIT, which Spark refuses."""
    types = pa.types
    if types.is_boolean(data_type):
        return ("PLAIN",)
    if types.is_floating(data_type):
        return (DICTIONARY, "PLAIN")
    if types.is_string(data_type) or types.is_binary(data_type):
        return (DICTIONARY, "PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY")
    return (DICTIONARY, "PLAIN", "DELTA_BINARY_PACKED")


def with_pyarrow(table: pa.Table, column: str, encoding: str) -> bytes:
    out = io.BytesIO()
    chosen = {} if encoding == DICTIONARY else {"column_encoding": {column: encoding}}
    pq.write_table(
        table,
        out,
        compression="zstd",
        compression_level=1,
        use_dictionary=encoding == DICTIONARY,
        store_decimal_as_integer=True,
        **chosen,
    )
    return out.getvalue()


def with_arro3(table: pa.Table, column: str, encoding: str) -> bytes:
    out = io.BytesIO()
    chosen = {} if encoding == DICTIONARY else {"column_encoding": {column: encoding.lower()}}
    arro3.io.write_parquet(
        table,
        out,
        compression="zstd(1)",
        column_dictionary_enabled={column: encoding == DICTIONARY},
        **chosen,
    )
    return out.getvalue()


WRITERS = {"pyarrow": with_pyarrow, "arro3": with_arro3}


def measured(write: Callable[[], bytes]) -> tuple[float, int]:
    """The least processor time of some rounds, and the file's bytes."""
    seconds = []
    for _ in range(ROUNDS):
        begin = time.process_time()
        size = len(write())
        seconds.append(time.process_time() - begin)
    return min(seconds), size


def main() -> None:
    """Print a line for each column, and one for the choice."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("dataset")
    parser.add_argument("peer", choices=WRITERS)
    asked = parser.parse_args()
    pa.set_cpu_count(1)
    with pa.memory_map(str(datasets.prepare(asked.dataset, seed=1, rows=ROWS).path)) as file:
        table = pa.ipc.open_file(file).read_all()
        chosen = {}
        for name in track(table.column_names, description=f"{asked.peer}, {asked.dataset}"):
            column = table.select([name])
            found = {
                encoding: measured(partial(WRITERS[asked.peer], column, name, encoding))
                for encoding in candidates(column.schema.types[0])
            }
            least = min(size for _, size in found.values())
            near = {encoding: took for encoding, (took, size) in found.items() if size <= SLACK * least}
            chosen[name] = min(near, key=lambda encoding: near[encoding])
            said = ", ".join(f"{each} {took * 1e3:.1f} ms {size:,}" for each, (took, size) in found.items())
            print(f"{name}: {chosen[name]} of {said}")
    for encoding in sorted(set(chosen.values()) - {DICTIONARY}):
        print(encoding, [name for name in chosen if chosen[name] == encoding])


if __name__ == "__main__":
    main()
