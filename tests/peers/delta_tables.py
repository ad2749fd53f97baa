# ruff: noqa: T201 - it prints what came out
"""The public Delta tables of delta-rs and delta-kernel: ``python -m tests.peers.delta_tables``.

Without arguments these are the tables in the packages of the two projects: the source distribution of
`deltalake` on PyPI, of the version that is installed, and the newest crate of `delta_kernel` that still holds
its tests' data. With folders, such as checkouts of the two repositories, all tables below them, those in
``.tar.zst`` archives too.

A table opens equal: version, files, sizes, partition values, rows in each file, schema, partition columns and
properties are those that delta-rs sees, and a scan has the rows that polars reads, or else delta-rs. The
verdict says where neither reads them. Or a table is refused by a named feature, and is on the list beside
this file. A copy of each table that opens gets a checkpoint, and has to be the same table by that alone.
Anything else fails.
"""

from __future__ import annotations

import argparse
import datetime as dt
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections import Counter
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict
from urllib.parse import unquote

import deltalake
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

import spillway.delta
from spillway.errors import SpillwayError, UnsupportedTableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).resolve().parents[2]
LIST = Path(__file__).with_suffix(".toml")
CACHE = ROOT / ".build" / "peers"
LOG = "_delta_log"

# Later crates leave their tests' data out.
KERNEL = "0.10.0"


class Reason(TypedDict):
    """A reason why tables are refused, and words that each refusal holds."""

    why: str
    says: str
    tables: list[str]


@dataclass(frozen=True)
class Seen:
    """A table as an engine reads it."""

    version: int
    files: dict[str, tuple[int, int | None, dict[str, Any]]]
    schema: dict[str, Any]
    partition_columns: list[str]
    properties: dict[str, str | None]

    def differs(self, other: Seen) -> list[str]:
        """Returns what is not the same."""
        return [
            f"{name}: {shortened(getattr(self, name))} here, {shortened(getattr(other, name))} there"
            for name in self.__dataclass_fields__
            if getattr(self, name) != getattr(other, name)
        ]


def shortened(value: Any, length: int = 300) -> str:
    text = repr(value)
    return text if len(text) <= length else f"{text[:length]}…"


def by_spillway(path: Path) -> Seen:
    """Returns what is seen here."""
    table = spillway.delta.open(path)
    types = pa.schema(table.schema)
    return Seen(
        version=table.version,
        files={
            unquote(file.path): (
                file.size,
                (file.stats or {}).get("numRecords"),
                {name: typed(text, types.field(name).type) for name, text in file.partition_values.items()},
            )
            for file in table.files()
        },
        schema=json.loads(table.schema.to_json()),
        partition_columns=table.partition_columns,
        properties=dict(table.properties),
    )


def by_delta_rs(path: Path) -> Seen:
    """Returns what delta-rs sees."""
    table = deltalake.DeltaTable(path)
    metadata = table.metadata()
    return Seen(
        version=table.version(),
        files={
            unquote(add["path"]): (add["size_bytes"], add["num_records"], add.get("partition") or {})
            for add in pa.table(table.get_add_actions(flatten=False)).to_pylist()
        },
        schema=json.loads(table.schema().to_json()),
        partition_columns=list(metadata.partition_columns),
        properties=dict(metadata.configuration),
    )


def typed(text: str | None, kind: pa.DataType) -> Any:
    """Returns a partition value as Python has it: delta-rs gives them so."""
    if text is None or pa.types.is_string(kind):
        return text
    if pa.types.is_timestamp(kind):
        moment = dt.datetime.fromisoformat(text)
        return moment if kind.tz is None or moment.tzinfo else moment.replace(tzinfo=dt.UTC)
    if pa.types.is_decimal(kind):
        return Decimal(text)
    return pa.scalar(text).cast(kind).as_py()


@dataclass(frozen=True)
class Verdict:
    """The verdict on a table, in a word and in detail."""

    word: str
    detail: str = ""


def judged(path: Path, reason: Reason | None, *, compare_rows: bool) -> Verdict:
    """Opens a table here and by delta-rs, and reads it."""
    theirs = seen_by_delta_rs(path)
    try:
        ours = by_spillway(path)
    except SpillwayError as error:
        return refused(error, reason) if theirs else Verdict("refused by both", type(error).__name__)
    if theirs is None:
        return Verdict("opened here alone")
    if reason is not None:
        return Verdict("WRONG", "it opens: take it from the list")
    differences = ours.differs(with_rows(theirs, ours, path))
    rows = rows_differ(path) if compare_rows else []
    differences += rows or []
    verdict = Verdict("WRONG", "; ".join(differences)) if differences else checkpointed(path, ours)
    if rows is None and verdict.word != "WRONG":
        return replace(verdict, word=f"{verdict.word}, rows not compared")
    return verdict


def rows_differ(path: Path) -> list[str] | None:
    """Compares a scan with the rows that polars reads, or else delta-rs, and says what is not the same.

    None where neither reads them, as where the packages leave a table's files out.
    """
    theirs = rows_of_others(path)
    if theirs is None:
        return None
    try:
        ours = pa.table(spillway.delta.open(path).scan())
    except (SpillwayError, OSError, pa.ArrowException) as error:
        return [f"rows: {error}"]
    if in_order(ours) == in_order(theirs.select(ours.column_names).cast(ours.schema)):
        return []
    return [f"rows: {ours.num_rows} here, and others among {theirs.num_rows} there"]


def rows_of_others(path: Path) -> pa.Table | None:
    """Returns the rows that polars reads, or else delta-rs; None where neither does."""
    for read in (rows_by_polars, rows_by_delta_rs):
        try:
            return read(path)
        except KeyboardInterrupt:
            raise
        except BaseException:  # noqa: BLE001, S112 - a panic is no Exception
            continue
    return None


def rows_by_polars(path: Path) -> pa.Table:
    """Returns the rows that polars reads."""
    return pl.read_delta(str(path)).to_arrow()


def rows_by_delta_rs(path: Path) -> pa.Table:
    """Returns the rows that delta-rs reads."""
    query = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(path))
    return pa.table(query.execute("select * from t"))


def in_order(table: pa.Table) -> list[str]:
    """Returns rows as text, in an order of their own."""
    return sorted(map(repr, table.to_pylist()))


def with_rows(theirs: Seen, ours: Seen, path: Path) -> Seen:
    """Counts the rows of files of which delta-rs finds no statistics, though there are some."""
    files = dict(theirs.files)
    for name, (size, rows, values) in theirs.files.items():
        if rows is None and ours.files.get(name, (0, None, {}))[1] is not None:
            files[name] = (size, pq.read_metadata(path / name).num_rows, values)
    return replace(theirs, files=files)


def seen_by_delta_rs(path: Path) -> Seen | None:
    """Returns what delta-rs sees; none when it refuses a table, or panics."""
    try:
        return by_delta_rs(path)
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - a panic is no Exception
        return None


def refused(error: SpillwayError, reason: Reason | None) -> Verdict:
    """Looks whether a refusal is on the list."""
    if reason is None:
        return Verdict("WRONG", f"refused, and not on the list: {type(error).__name__}: {error}")
    if reason["says"] not in str(error):
        return Verdict("WRONG", f"refused for another reason than the list's: {error}")
    return Verdict(f"refused: {reason['why']}")


def checkpointed(path: Path, before: Seen) -> Verdict:
    """Writes a checkpoint of a copy, and looks whether that alone is the same table."""
    with tempfile.TemporaryDirectory(prefix="spillway-peers-") as scratch:
        copy = Path(scratch) / "table"
        shutil.copytree(path / LOG, copy / LOG)
        for old in (copy / LOG).glob(f"{before.version:020}.checkpoint*"):
            old.unlink()
        if not says(copy, before):
            # Nothing but that checkpoint says what the table is.
            copy = Path(scratch) / "whole"
            shutil.copytree(path / LOG, copy / LOG)
        try:
            version = spillway.delta.open(copy).checkpoint()
        except UnsupportedTableError as error:
            return Verdict("equal, not to be written", str(error))
        if version == before.version:
            for old in (copy / LOG).glob("*.json"):
                if old.stem.isdecimal() and int(old.stem) < version:
                    old.unlink()
        moved = Path(scratch) / "moved"
        copy.rename(moved)
        theirs = with_rows(by_delta_rs(moved), before, path)
        differences = [*by_spillway(moved).differs(before), *theirs.differs(before)]
    return (
        Verdict("WRONG", f"after a checkpoint: {'; '.join(differences)}") if differences else Verdict("equal")
    )


def says(path: Path, expected: Seen) -> bool:
    """Looks whether a log is of the same table."""
    try:
        return not by_spillway(path).differs(expected)
    except SpillwayError:
        return False


def packages() -> Iterator[Path]:
    """Returns where the packages of the two projects are, downloaded by the registries' own clients."""
    version = importlib.metadata.version("deltalake")
    source = CACHE / f"deltalake-{version}"
    if not source.exists():
        archive = source_distribution(version)
        with tarfile.open(archive) as tar, tempfile.TemporaryDirectory(dir=CACHE) as scratch:
            tar.extractall(scratch, filter="data")
            (Path(scratch) / source.name).rename(source)
    yield source
    yield kernel_crate()


def source_distribution(version: str) -> Path:
    """Downloads what this project's lock names, and checks its hash."""
    CACHE.mkdir(parents=True, exist_ok=True)
    lock = (ROOT / "requirements" / "dev.txt").read_text(encoding="utf-8")
    pinned = re.search(rf"^deltalake=={re.escape(version)} (?:.*\n)(?:    --hash=.*\n)*", lock, re.MULTILINE)
    if pinned is None:
        raise SystemExit(f"requirements/dev.txt does not name deltalake {version}, which is installed")
    with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        requirement = Path(scratch) / "requirement.txt"
        requirement.write_text(pinned.group().rstrip().rstrip("\\"), encoding="utf-8")
        # It asks the build's back end for the package's name, which is installed here.
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-build-isolation"]
        options = [
            "--no-binary=deltalake",
            "--require-hashes",
            f"--requirement={requirement}",
            f"--dest={CACHE}",
        ]
        subprocess.run([*pip, *options], env={**os.environ, "PATH": path}, check=True)
    return CACHE / f"deltalake-{version}.tar.gz"


def kernel_crate() -> Path:
    """Has Cargo download the crate, whose checksum it compares with that of the registry's index."""
    sources = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo")) / "registry" / "src"
    found = next(sources.glob(f"*/delta_kernel-{KERNEL}"), None)
    if found is None:
        # To show what a crate is, Cargo downloads it and nothing else.
        subprocess.run(
            ["cargo", "info", "-q", f"delta_kernel@{KERNEL}"], stdout=subprocess.DEVNULL, check=True
        )
        found = next(sources.glob(f"*/delta_kernel-{KERNEL}"), None)
    if found is None:
        raise SystemExit(f"cargo info left no delta_kernel-{KERNEL} in {sources}")
    return found


def tables(folder: Path, scratch: Path) -> Iterator[tuple[str, Path]]:
    """Returns the tables below a folder, and a name for each."""
    for number, archive in enumerate(sorted(folder.rglob("*.tar.zst"))):
        inside = scratch / f"{folder.name}-{number}"
        with (
            pa.input_stream(archive, compression="zstd") as stream,
            tarfile.open(fileobj=stream, mode="r|") as tar,
        ):
            tar.extractall(inside, filter="data")
        for log in logs(inside):
            yield archive.name.removesuffix(".tar.zst"), log.parent
    for log in logs(folder):
        yield name_of(log.parent), log.parent


def logs(folder: Path) -> list[Path]:
    return sorted(log for log in folder.rglob(LOG) if log.is_dir())


def name_of(table: Path) -> str:
    """Returns a table's path below the folder of tests' data that it is in."""
    parts = table.parts
    data = [number for number, part in enumerate(parts) if part in {"data", "data_err_logs"}]
    return "/".join(parts[data[-1] + 1 :]) if data else table.name


def main(arguments: Sequence[str]) -> int:
    """Judges all tables, and prints what came out; gives how many are wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="*", type=Path, help="where tables are; without any, the packages")
    parser.add_argument("--verbose", action="store_true", help="say what became of each table")
    options = parser.parse_args(arguments)
    listing = tomllib.loads(LIST.read_text(encoding="utf-8"))
    reasons: list[Reason] = listing["reason"]
    other_rows = {table for reason in listing["other_rows"] for table in reason["tables"]}
    listed = {table: reason for reason in reasons for table in reason["tables"]}
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="spillway-peers-") as scratch:
        for folder in options.folders or packages():
            for name, path in tables(folder.resolve(), Path(scratch)):
                verdict = judged(path, listed.get(name), compare_rows=name not in other_rows)
                counts[verdict.word] += 1
                if options.verbose or verdict.word == "WRONG":
                    print(f"{name}: {verdict.word} {verdict.detail}", flush=True)
    for word, count in sorted(counts.items()):
        print(f"{count:5}  {word}")
    print(f"{counts.total():5}  tables")
    if not counts.total():
        print("no table: the packages hold none any more, or the folders are others")
        return 1
    return counts["WRONG"]


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
