"""The dataset ``lineitem`` of the TPC-H benchmark, as the package ``tpchgen-cli`` makes it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
import tempfile
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from spillway.errors import MissingExtraError, SpillwayError
from spillway.reading.files import RowStream, open_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["LINEITEM", "LINEITEM_SCHEMA", "generator_version", "open_lineitem"]

LINEITEM = "lineitem"
_PACKAGE = "tpchgen-cli"
# A scale factor of 0.01 gives about 60,000 rows, more or less by a few hundred.
_ROWS_PER_HUNDREDTH = 59_500
_MONEY = pa.decimal128(15, 2)
LINEITEM_SCHEMA = pa.schema(
    [
        pa.field(name, data_type, nullable=False)
        for name, data_type in (
            ("l_orderkey", pa.int64()),
            ("l_partkey", pa.int64()),
            ("l_suppkey", pa.int64()),
            ("l_linenumber", pa.int32()),
            ("l_quantity", _MONEY),
            ("l_extendedprice", _MONEY),
            ("l_discount", _MONEY),
            ("l_tax", _MONEY),
            ("l_returnflag", pa.string()),
            ("l_linestatus", pa.string()),
            ("l_shipdate", pa.date32()),
            ("l_commitdate", pa.date32()),
            ("l_receiptdate", pa.date32()),
            ("l_shipinstruct", pa.string()),
            ("l_shipmode", pa.string()),
            ("l_comment", pa.string()),
        )
    ]
)


def generator_version() -> str:
    """The version of the package that makes the rows.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        return metadata.version(_PACKAGE)
    except metadata.PackageNotFoundError as error:
        raise MissingExtraError(_PACKAGE, "bench", f"make the dataset {LINEITEM}") from error


@contextmanager
def open_lineitem(rows: int, *, part: int = 0, parts: int = 1) -> Iterator[RowStream]:
    """Rows of the least scale factor that has `rows` of them, strings as plain strings.

    Args:
        rows: The rows that are wanted; the stream has a few more.
        part: The part of them to make, from 0.
        parts: The number of parts; all of them in turn are the rows that one part alone would be.

    Raises:
        MissingExtraError: The package is not installed.
        SpillwayError: Its program failed; what it said is in the message.
    """
    hundredths = -(-rows // _ROWS_PER_HUNDREDTH)
    with tempfile.TemporaryDirectory(prefix="spillway-tpch-") as folder:
        _run(
            [
                _program(),
                "parquet",
                "-s",
                f"{hundredths / 100:g}",
                "--tables=lineitem",
                f"--parts={parts}",
                f"--part={part + 1}",
                f"--output-dir={folder}",
            ]
        )
        (path,) = Path(folder).rglob("*.parquet")
        with open_rows(path) as stream:
            batches = (_plain(batch) for batch in stream.batches)
            yield RowStream(LINEITEM, LINEITEM_SCHEMA, batches, stream.rows)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SpillwayError(f"{_PACKAGE} failed: {done.stderr.strip() or f'exit status {done.returncode}'}")


def _program() -> str:
    """The package's program: beside this interpreter, or else on the path."""
    places = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)])
    found = shutil.which(_PACKAGE, path=places)
    if found is None:
        raise MissingExtraError(_PACKAGE, "bench", f"make the dataset {LINEITEM}")
    return found


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [column.cast(field.type) for column, field in zip(batch.columns, LINEITEM_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=LINEITEM_SCHEMA)
