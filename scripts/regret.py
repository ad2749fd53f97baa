"""Measure what `encoding="auto"` loses against the best encoding of each column of real tables.

    python scripts/regret.py                     # the tables that tuning may look at
    python scripts/regret.py --held-out          # the others
    python scripts/regret.py cities --columns    # one table, each of its columns
    python scripts/regret.py --rows 5000         # the first rows of each table
    python scripts/regret.py record              # all of it, into results/regret.json

Every leaf column is written in every encoding that its type allows, to the end of the table. The cost of an
encoding is its bytes and its time, by the exchange rate of the writer: a byte of the file is worth the time
in which ZSTD compresses 80 bytes. The regret is the cost of `auto` over the least cost. Its size is held
against the smallest encoding, its time against that of the least cost. All count encodings that all supported
engines read; of the others it is said what they would save.

Bytes are exact. Times are processor times of writes of one top-level field, the least of at least five. The
writes of a field take turns, so that what slows the machine down slows down all of them. They need a quiet
machine, and a release build. `record` takes some minutes and says how long it took; ``make readme`` puts its
figures into the docs.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import sys
import time
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from rich.progress import Progress

import spillway
from spillway.harness.environment import (
    SampleWatch,
    cpu_model,
    native_build,
    noise_warnings,
    read_load,
    refuse_debug_build,
)
from spillway.harness.report import plain_table

sys.path.insert(0, str(Path(__file__).resolve().parent))
import corpus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from spillway.harness.environment import HostReading
    from spillway.types import Encoding

RESULTS = Path(__file__).resolve().parent.parent / "results" / "regret.json"
ROWS = (1_000, 5_000, 28_000, None)
# Each write is timed so often at least, and further until it took so long in all, or so often.
LEAST_ROUNDS = 5
SECONDS_OF_ROUNDS = 0.02
MOST_ROUNDS = 100
# The time in which ZSTD 1 compresses 80 bytes of log pages or so; see BYTES_WORTH_ONE of parquet-writer.
SECONDS_PER_BYTE = 150e-9
# The columns that a report names.
WORST = 5
# Of the bytes of a table, those of a column below which it is not among the worst.
LEAST_SHARE = 0.01
# What Spark's vectorized reader refuses, or fastparquet, is written on request only.
ON_REQUEST = frozenset({"byte_stream_split", "delta_byte_array", "rle"})
ENCODINGS: dict[str, tuple[Encoding, ...]] = {
    "BOOLEAN": ("plain", "rle"),
    "INT32": ("dictionary", "plain", "delta_binary_packed", "byte_stream_split"),
    "INT64": ("dictionary", "plain", "delta_binary_packed", "byte_stream_split"),
    "FLOAT": ("dictionary", "plain", "byte_stream_split"),
    "DOUBLE": ("dictionary", "plain", "byte_stream_split"),
    "BYTE_ARRAY": ("dictionary", "plain", "delta_length_byte_array", "delta_byte_array"),
    "FIXED_LEN_BYTE_ARRAY": ("dictionary", "plain", "delta_byte_array", "byte_stream_split"),
}


@dataclass(frozen=True)
class Cost:
    """The bytes of a column chunk and the processor time of the file that holds it."""

    bytes: int
    seconds: float

    @property
    def total(self) -> float:
        """Bytes, and the bytes that the time is worth."""
        return worth(self.bytes, self.seconds)


def worth(size: float, seconds: float) -> float:
    """Bytes and time in bytes."""
    return size + seconds / SECONDS_PER_BYTE


@dataclass(frozen=True)
class Column:
    """The cost of one leaf column by `auto` and in each encoding.

    Attributes:
        path: Its dotted path.
        field: The top-level field that it is in, of whose file the time is.
        auto: Its cost by `auto`.
        chosen: The encodings of its pages then.
        tried: Its cost in each encoding, where other leaves of the field have those of `auto`.
    """

    path: str
    field: str
    auto: Cost
    chosen: tuple[str, ...]
    tried: dict[str, Cost]

    @property
    def best(self) -> str:
        """The encoding of the least cost that all engines read."""
        return min(set(self.tried) - ON_REQUEST, key=lambda name: self.tried[name].total)

    @property
    def smallest(self) -> int:
        """The fewest bytes of an encoding that all engines read."""
        return min(cost.bytes for name, cost in self.tried.items() if name not in ON_REQUEST)

    @property
    def late(self) -> float:
        """The seconds that `auto` takes more than the encoding of the least cost."""
        return self.auto.seconds - self.tried[self.best].seconds


@dataclass(frozen=True)
class Regret:
    """The cost of `auto` over that of the best encodings of a table, as shares: 0.01 is one percent.

    Bytes are held against the smallest encodings: those of the table, of its columns in the mean, and of the
    worst column that has a hundredth of them. Time and cost are held against the encodings of the least cost.
    `on_request` is what encodings would save that only some engines read.
    """

    bytes: float
    time: float
    cost: float
    mean_column: float
    worst_column: float
    on_request: float

    @classmethod
    def of(cls, columns: list[Column]) -> Regret:
        """The regret of a table with these columns."""
        size = sum(column.auto.bytes for column in columns)
        smallest = sum(column.smallest for column in columns)
        best = sum(column.tried[column.best].bytes for column in columns)
        # The leaves of a field are in one file, whose time counts once.
        seconds = math.fsum({column.field: column.auto.seconds for column in columns}.values())
        in_time = seconds - math.fsum(column.late for column in columns)
        over = [column.auto.bytes / column.smallest - 1 for column in columns]
        least = sum(min(cost.bytes for cost in column.tried.values()) for column in columns)
        return cls(
            bytes=size / smallest - 1,
            time=seconds / in_time - 1,
            cost=worth(size, seconds) / worth(best, in_time) - 1,
            mean_column=math.fsum(over) / len(over),
            worst_column=max(
                share
                for share, column in zip(over, columns, strict=True)
                if column.auto.bytes >= size * LEAST_SHARE
            ),
            on_request=least / smallest - 1,
        )


Timed = tuple[spillway.WriteResult, float]


def written(table: pa.Table, **options: Any) -> Timed:
    """The result of writing the table into memory, and its processor time in seconds."""
    out = io.BytesIO()
    begin = time.process_time()
    result = spillway.write_parquet(table, out, **options)
    return result, time.process_time() - begin


def in_turn(writes: Mapping[str, Callable[[], Timed]]) -> dict[str, Timed]:
    """The result of each write, and its least time in rounds of all of them."""
    found = {name: write() for name, write in writes.items()}
    begin, enough = time.process_time(), SECONDS_OF_ROUNDS * len(writes)
    for done in range(1, MOST_ROUNDS):
        if done >= LEAST_ROUNDS and time.process_time() - begin > enough:
            break
        for name, write in writes.items():
            result, seconds = write()
            found[name] = (result, min(seconds, found[name][1]))
    return found


def measured(table: pa.Table) -> Iterator[Column]:
    """The costs of each leaf column of the table."""
    for name in table.column_names:
        field = table.select([name])
        leaves = written(field)[0].columns
        encodings = [(leaf.path, each) for leaf in leaves for each in ENCODINGS[leaf.physical_type]]
        writes = {
            f"{path} {each}": partial(written, field, encoding={path: each}) for path, each in encodings
        }
        found = in_turn({"auto": partial(written, field), **writes})
        auto, seconds = found["auto"]
        for place, leaf in enumerate(auto.columns):
            timed = {each: found[f"{leaf.path} {each}"] for each in ENCODINGS[leaf.physical_type]}
            tried = {
                each: Cost(result.columns[place].compressed_bytes, took)
                for each, (result, took) in timed.items()
            }
            yield Column(leaf.path, name, Cost(leaf.compressed_bytes, seconds), leaf.encodings, tried)


def said(cost: Cost) -> str:
    return f"{cost.bytes:,} {cost.seconds * 1e3:.1f} ms"


def report(name: str, columns: list[Column], *, each: bool) -> Regret:
    regret = Regret.of(columns)
    print(
        f"{name:<14} bytes {regret.bytes:+7.2%}  by column {regret.mean_column:+7.2%}  "
        f"worst column {regret.worst_column:+7.2%}  "
        f"time {regret.time:+6.1%}  cost {regret.cost:+7.2%}  on request {regret.on_request:+7.2%}"
    )
    for column in columns if each else ():
        tried = ", ".join(f"{key} {said(cost)}" for key, cost in column.tried.items())
        over = column.auto.bytes / column.smallest - 1
        chosen = "+".join(column.chosen)
        print(f"    {column.path:<32} {over:+7.2%} {said(column.auto)} {chosen}; {column.best} of {tried}")
    return regret


def tables(asked: Iterable[str], *, held_out: bool) -> list[str]:
    """The tables that were named, or all that tuning may look at, or those that it may not."""
    known = (*corpus.TABLES, *corpus.GENERATED)
    if unknown := set(asked) - set(known):
        sys.exit(f"no table {', '.join(sorted(unknown))}: choose from {', '.join(known)}")
    return list(asked) or [name for name in known if (name in corpus.HELD_OUT) == held_out]


@dataclass(frozen=True)
class Measured:
    """A table, or the first rows of one, in all encodings."""

    rows: int
    columns: list[Column]
    regret: Regret
    host: HostReading


def measure(names: list[str], rows: int | None, *, each: bool) -> dict[str, Measured]:
    """Measure tables, whole or their first rows, and print what was found."""
    found = {}
    with Progress() as progress:
        task = progress.add_task("writing columns", total=len(names))
        for name in names:
            table = corpus.table(name)[slice(rows)]
            watch = SampleWatch()
            columns = list(measured(table))
            host = watch.read()
            found[name] = Measured(table.num_rows, columns, report(name, columns, each=each), host)
            progress.advance(task)
    regrets = {name: table.regret for name, table in found.items()}
    by_column = mean("mean_column", regrets.values())
    worst = max(regrets, key=lambda name: regrets[name].bytes)
    print(
        f"mean: bytes {mean('bytes', regrets.values()):+.2%}, by column {by_column:+.2%}, "
        f"time {mean('time', regrets.values()):+.1%}, cost {mean('cost', regrets.values()):+.2%}; "
        f"worst: {worst} {regrets[worst].bytes:+.2%}"
    )
    of_columns = sorted(worst_columns(found.items()), reverse=True)[:WORST]
    print("worst columns: " + ", ".join(f"{column} {over:+.1%}" for over, column in of_columns))
    return found


def worst_columns(tables: Iterable[tuple[str, Measured]]) -> Iterator[tuple[float, str]]:
    """What each column of some weight takes more than in its smallest encoding, and its name."""
    for name, table in tables:
        size = sum(column.auto.bytes for column in table.columns)
        for column in table.columns:
            if column.auto.bytes >= size * LEAST_SHARE:
                yield column.auto.bytes / column.smallest - 1, f"{name}.{column.path}"


def mean(what: str, regrets: Iterable[Regret]) -> float:
    values = [float(getattr(regret, what)) for regret in regrets]
    return math.fsum(values) / len(values)


def record() -> None:
    """Measure all tables, whole and their first rows, and write results/regret.json."""
    names = [*corpus.TABLES, *corpus.GENERATED]
    for name in names:
        corpus.table(name)  # made now, and not while others are measured
    load, begin = read_load(), time.monotonic()
    found = {"all" if rows is None else str(rows): measure(names, rows, each=False) for rows in ROWS}
    seconds = time.monotonic() - begin
    readings = [table.host for tables in found.values() for table in tables.values()]
    document = {
        "cpu_model": cpu_model(),
        "native_build": native_build(),
        "seconds_per_byte": SECONDS_PER_BYTE,
        "least_rounds": LEAST_ROUNDS,
        "held_out": corpus.HELD_OUT,
        "seconds": round(seconds),
        "warnings": noise_warnings(load, readings, seconds),
        "regret_by_rows": {
            rows: {name: rounded(table.regret) for name, table in tables.items()}
            for rows, tables in found.items()
        },
        "tables": {
            name: {"rows": table.rows, "columns": [kept(column) for column in table.columns]}
            for name, table in found["all"].items()
        },
    }
    RESULTS.write_text(json.dumps(document, indent=1) + "\n")
    print(f"{RESULTS.relative_to(RESULTS.parent.parent)}: {seconds / 60:.1f} minutes")
    for warning in document["warnings"]:
        print(f"not to be quoted: {warning}")


def rounded(regret: Regret) -> dict[str, float]:
    return {name: round(value, 5) for name, value in asdict(regret).items()}


def kept(column: Column) -> dict[str, Any]:
    """A column as the record has it; a cost is bytes and milliseconds."""

    def pair(cost: Cost) -> list[float]:
        return [cost.bytes, round(cost.seconds * 1e3, 3)]

    tried = {name: pair(cost) for name, cost in column.tried.items()}
    return {
        "path": column.path,
        "chosen": "+".join(column.chosen),
        "best": column.best,
        "auto": pair(column.auto),
        "tried": tried,
    }


def why_not_quoted(document: dict[str, Any]) -> list[str]:
    """The reasons why figures of a record are not to be quoted."""
    build = document["native_build"]
    checked = ["the module has debug assertions"] if build is None or build["debug_assertions"] else []
    return [*checked, *document["warnings"]]


def tables_of(document: dict[str, Any]) -> str:
    """The record's figures in Markdown: whole tables, and the first rows of all."""
    by_rows: dict[str, dict[str, Regret]] = {
        rows: {name: Regret(**regret) for name, regret in tables.items()}
        for rows, tables in document["regret_by_rows"].items()
    }
    whole = [
        [name_of(name, document), f"{document['tables'][name]['rows']:,}", *shares(regret)]
        for name, regret in by_rows["all"].items()
    ]
    first = [
        ["all" if rows == "all" else f"{int(rows):,}", *means(found.values()), worst(found)]
        for rows, found in by_rows.items()
    ]
    what = ("bytes", "time", "both")
    rate = document["seconds_per_byte"] * 1e9
    of_means = ("first rows of each", *(f"{each}, in the mean" for each in what), "most of both")
    origin = (
        f"`results/regret.json`, {document['cpu_model']}, a byte worth {rate:.0f} ns, the least of "
        f"{document['least_rounds']} times or more. Tables with a star were held out while the choice "
        "was tuned; the heuristic was changed twice after they were first seen, so they are no longer a "
        "clean hold-out."
    )
    parts = (
        plain_table(("table", "rows", "bytes", "worst column", *what[1:]), whole),
        plain_table(of_means, first),
        origin,
    )
    return "\n\n".join(parts)


def name_of(table: str, document: dict[str, Any]) -> str:
    return f"{table} *" if table in document["held_out"] else table


def shares(regret: Regret) -> list[str]:
    return [f"{each:+.1%}" for each in (regret.bytes, regret.worst_column, regret.time, regret.cost)]


def means(regrets: Iterable[Regret]) -> list[str]:
    found = list(regrets)
    return [f"{mean(what, found):+.1%}" for what in ("bytes", "time", "cost")]


def worst(found: dict[str, Regret]) -> str:
    name = max(found, key=lambda name: found[name].cost)
    return f"{found[name].cost:+.1%} ({name})"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", nargs="*", metavar="TABLE", help="or `record`")
    parser.add_argument("--held-out", action="store_true", help="the tables that tuning does not look at")
    parser.add_argument("--rows", type=int, help="only the first rows of each table")
    parser.add_argument("--columns", action="store_true", help="a line for each column, too")
    asked = parser.parse_args()
    refuse_debug_build()
    pa.set_cpu_count(1)
    if asked.table == ["record"]:
        record()
    else:
        names = tables(asked.table, held_out=asked.held_out)
        measure(names, asked.rows, each=asked.columns)


if __name__ == "__main__":
    main()
