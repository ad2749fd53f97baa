"""Measure what `encoding="auto"` loses against the best encoding of each column of real tables.

    python scripts/regret.py                     # the tables that tuning may look at
    python scripts/regret.py --held-out          # the others
    python scripts/regret.py cities --columns    # one table, each of its columns
    python scripts/regret.py --rows 5000         # the first rows of each table
    python scripts/regret.py record              # all of it, into results/regret.json

Every leaf column is written in every encoding that its type allows, to the end of the table. The cost of an
encoding is its bytes and its time, by the exchange rate of the writer: a byte of the file is worth the time
in which ZSTD compresses 80 bytes. The regret is the cost of `auto` over the least cost. Its size is held
against the smallest encoding. Both count encodings that all supported engines read; of the others it is said
what they would save.

Bytes are exact. Times are the least of some rounds, in this process, and need a quiet machine.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from rich.progress import Progress

import spillway
from spillway.harness.environment import cpu_model, native_build, refuse_debug_build

sys.path.insert(0, str(Path(__file__).resolve().parent))
import corpus

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from spillway.types import Encoding

RESULTS = Path(__file__).resolve().parent.parent / "results" / "regret.json"
ROWS = (1_000, 5_000, 28_000, None)
# The time in which ZSTD 1 compresses 80 bytes of log pages or so; see BYTES_WORTH_ONE of parquet-writer.
SECONDS_PER_BYTE = 150e-9
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
        return self.bytes + self.seconds / SECONDS_PER_BYTE


@dataclass(frozen=True)
class Column:
    """The cost of one leaf column by `auto` and in each encoding."""

    path: str
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


@dataclass(frozen=True)
class Regret:
    """The cost of `auto` over that of the best encodings of a table, as shares: 0.01 is one percent.

    Bytes, of the table and in the mean of its columns, are held against the smallest encodings; time and cost
    against those of the least cost. `on_request` is what encodings would save that only some engines read.
    """

    bytes: float
    time: float
    cost: float
    mean_column: float
    on_request: float

    @classmethod
    def of(cls, columns: list[Column]) -> Regret:
        """The regret of a table with these columns."""
        best = [column.tried[column.best] for column in columns]
        auto = [column.auto for column in columns]
        bytes_of_all = sum(column.smallest for column in columns)
        over = [column.auto.bytes / column.smallest - 1 for column in columns]
        return cls(
            bytes=sum(cost.bytes for cost in auto) / bytes_of_all - 1,
            time=sum(cost.seconds for cost in auto) / sum(cost.seconds for cost in best) - 1,
            cost=sum(cost.total for cost in auto) / sum(cost.total for cost in best) - 1,
            mean_column=math.fsum(over) / len(over),
            on_request=sum(min(cost.bytes for cost in column.tried.values()) for column in columns)
            / bytes_of_all
            - 1,
        )


def written(table: pa.Table, rounds: int, **options: object) -> tuple[spillway.WriteResult, float]:
    """The result of writing the table, and the least processor time of some rounds in seconds."""
    least = math.inf
    for _ in range(rounds):
        out = io.BytesIO()
        begin = time.process_time()
        result = spillway.write_parquet(table, out, **options)  # type: ignore[arg-type]
        least = min(least, time.process_time() - begin)
    return result, least


def measured(table: pa.Table, rounds: int) -> Iterator[Column]:
    """The costs of each leaf column of the table."""
    for name in table.column_names:
        field = table.select([name])
        auto, seconds = written(field, rounds)
        for place, leaf in enumerate(auto.columns):
            tried: dict[str, Cost] = {}
            for encoding in ENCODINGS[leaf.physical_type]:
                result, took = written(field, rounds, encoding={leaf.path: encoding})
                tried[encoding] = Cost(result.columns[place].compressed_bytes, took)
            yield Column(leaf.path, Cost(leaf.compressed_bytes, seconds), leaf.encodings, tried)


def said(cost: Cost) -> str:
    return f"{cost.bytes:,} {cost.seconds * 1e3:.1f} ms"


def report(name: str, columns: list[Column], *, each: bool) -> Regret:
    regret = Regret.of(columns)
    print(
        f"{name:<14} bytes {regret.bytes:+7.2%}  by column {regret.mean_column:+7.2%}  "
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


def regrets(names: list[str], rows: int | None, rounds: int, *, each: bool) -> dict[str, Regret]:
    found = {}
    with Progress() as progress:
        task = progress.add_task("writing columns", total=len(names))
        for name in names:
            table = corpus.table(name)[slice(rows)]
            found[name] = report(name, list(measured(table, rounds)), each=each)
            progress.advance(task)
    mean = math.fsum(regret.bytes for regret in found.values()) / len(found)
    by_column = math.fsum(regret.mean_column for regret in found.values()) / len(found)
    worst = max(found, key=lambda name: found[name].bytes)
    print(f"mean: bytes {mean:+.2%}, by column {by_column:+.2%}; worst: {worst} {found[worst].bytes:+.2%}")
    return found


def record(rounds: int) -> None:
    """Measure all tables, whole and their first rows, and write results/regret.json."""
    names = [*corpus.TABLES, *corpus.GENERATED]
    cells = {
        "all" if rows is None else str(rows): {
            name: {key: round(value, 5) for key, value in vars(regret).items()}
            for name, regret in regrets(names, rows, rounds, each=False).items()
        }
        for rows in ROWS
    }
    found = {
        "cpu_model": cpu_model(),
        "native_build": native_build(),
        "seconds_per_byte": SECONDS_PER_BYTE,
        "rounds": rounds,
        "held_out": corpus.HELD_OUT,
        "regret_by_rows": cells,
    }
    RESULTS.write_text(json.dumps(found, indent=2) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", nargs="*", metavar="TABLE", help="or `record`")
    parser.add_argument("--held-out", action="store_true", help="the tables that tuning does not look at")
    parser.add_argument("--rows", type=int, help="only the first rows of each table")
    parser.add_argument("--rounds", type=int, default=3, help="the least time of so many is taken")
    parser.add_argument("--columns", action="store_true", help="a line for each column, too")
    asked = parser.parse_args()
    refuse_debug_build()
    pa.set_cpu_count(1)
    if asked.table == ["record"]:
        record(asked.rounds)
    else:
        names = tables(asked.table, held_out=asked.held_out)
        regrets(names, asked.rows, asked.rounds, each=asked.columns)


if __name__ == "__main__":
    main()
