"""Writes a Parquet file without rows whose one column lies in DEPTH groups, and opens it with a library.

python nested_footer.py DEPTH LIBRARY
"""

import importlib.metadata
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

OPENERS = {
    "arro3-io": "import arro3.io; arro3.io.read_parquet(PATH).schema",
    "datafusion": "import datafusion; datafusion.SessionContext().register_parquet('t', PATH)",
    "polars": "import polars; polars.read_parquet_schema(PATH)",
    "duckdb": "import duckdb; duckdb.sql(f\"SELECT count(*) FROM '{PATH}'\").fetchall()",
    "pyarrow": "import pyarrow.parquet; pyarrow.parquet.read_schema(PATH)",
}


def varint(number: int) -> bytes:
    head, rest = number & 127, number >> 7
    return bytes([head | 128]) + varint(rest) if rest else bytes([head])


def nested(depth: int) -> bytes:
    # SchemaElements in Thrift's compact protocol: a root, the groups, and an INT64.
    root, group, leaf = (
        b"\x48\x06schema\x15\x02\x00",
        b"\x35\x02\x18\x01g\x15\x02\x00",
        b"\x15\x04\x25\x02\x18\x01x\x00",
    )
    schema = b"\x19\xfc" + varint(depth + 2) + root + group * depth + leaf
    footer = b"\x15\x02" + schema + b"\x16\x00\x19\x0c\x00"
    return b"PAR1" + footer + struct.pack("<I", len(footer)) + b"PAR1"


def main(depth: int, library: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "nested.parquet")
        path.write_bytes(nested(depth))
        code = f"PATH = {str(path)!r}\n{OPENERS[library]}"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        said = (done.stderr.strip().splitlines() or ["no error"])[-1][:200]
        name, size = f"{library} {importlib.metadata.version(library)}", path.stat().st_size
        print(f"{name}, {depth} levels, {size} bytes: exit {done.returncode}: {said}")


main(int(sys.argv[1]), sys.argv[2])
