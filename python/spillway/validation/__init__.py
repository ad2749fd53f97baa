"""Read Parquet files back with other engines, and say whether they hold the rows that were written.

A file is held against its source by digests: per column the counts of values and nulls, the smallest and
largest value and a checksum; over whole rows a checksum that ignores their order and one that does not. Where
they differ, a second pass names the first row and column, and both values. Writers keep the order of rows, so
a different order is also a mismatch, of a separate kind.
"""

from __future__ import annotations

import hashlib
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Self

from spillway._native import Digest
from spillway.errors import OptionError
from spillway.validation.compare import Finding, check, load_reader
from spillway.validation.source import (
    ENGINES,
    READERS,
    Mismatch,
    Source,
    SourceRows,
    Verdict,
    digest_source,
    excuses,
    summary,
    write_reference,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyspark.sql import SparkSession

    from spillway.validation.spark_reader import SparkReader

__all__ = [
    "ENGINES",
    "READERS",
    "Digest",
    "Mismatch",
    "Source",
    "Validator",
    "Verdict",
    "digest_source",
    "summary",
    "validate",
]


def validate(
    files: Sequence[Path],
    against: Source,
    engines: Sequence[str] = ENGINES,
    *,
    progress: Callable[[int, int, str], None] | None = None,
) -> list[Verdict]:
    """Read every file with every engine and compare it with the source.

    Args:
        files: Parquet files that should all hold the source's rows in its order.
        against: The source of the rows that the files should hold.
        engines: Some of `ENGINES`.
        progress: Called with the number of finished readings, their total, and the current one.

    Returns:
        One verdict per file and reader, file by file.

    Raises:
        OptionError: An engine is unknown, or the source holds too few rows.
        FileNotFoundError: A file or the source is missing.
        MissingExtraError: An engine is not installed.
        JavaError: Spark is requested, but there is no Java for it.
    """
    with Validator(engines, progress=progress) as validator:
        return validator.validate([(file, against) for file in files])


@dataclass(frozen=True)
class _Content:
    """One content to be read: a link, under a plain name, to a file that has it."""

    link: Path
    file: Path
    source: Source


@dataclass(frozen=True)
class _Read:
    """A reader by the name of its verdicts, and how it reads one file."""

    name: str
    check: Callable[[Path, SourceRows], Mismatch | None]


@dataclass
class _Work:
    """The distinct contents, and those that each job needs."""

    contents: dict[tuple[str, Source], _Content] = field(default_factory=dict)
    jobs: list[tuple[Path, tuple[str, Source]]] = field(default_factory=list)


class Validator:
    """Validates files against several sources, with one Spark session for all.

    A context manager: leaving it stops a Spark that it started and removes its scratch files.

    Args:
        engines: Some of `ENGINES`.
        spark: A session to use instead of starting one; it is not stopped.
        progress: Called with the number of finished readings, their total, and the current one.

    Raises:
        OptionError: An engine is unknown, or none is named.
    """

    def __init__(
        self,
        engines: Sequence[str] = ENGINES,
        *,
        spark: SparkSession | None = None,
        progress: Callable[[int, int, str], None] | None = None,
    ) -> None:
        unknown = [engine for engine in engines if engine not in ENGINES]
        if unknown or not engines:
            wrong = f"unknown engine {unknown[0]!r}" if unknown else "no engine was named"
            raise OptionError(f"{wrong}; accepted are {', '.join(ENGINES)}")
        self._engines = tuple(dict.fromkeys(engines))
        self._spark = spark
        self._progress = progress
        self._done = self._total = 0
        self._stack = ExitStack()
        self._numbers = count(1)
        self._source_rows: dict[tuple[Source, frozenset[str]], SourceRows] = {}
        self._references: dict[Source, Path | None] = {}
        self._on_reference: dict[tuple[str, Source, frozenset[str]], Mismatch | None] = {}
        self._verdicts: dict[tuple[str, str, Source], Verdict] = {}

    def __enter__(self) -> Self:
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="spillway-validate-"))
        self._scratch = Path(folder)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stack.close()

    def validate(self, jobs: Iterable[tuple[Path, Source]]) -> list[Verdict]:
        """Read every file with every engine; the verdicts come job by job, reader by reader.

        Raises:
            FileNotFoundError: A file or a source is missing.
            OptionError: A source holds too few rows.
            MissingExtraError: An engine is not installed.
            JavaError: Spark is requested, but there is no Java for it.
        """
        work = self._prepare(jobs)
        self._done, self._total = (
            0,
            len(work.contents) * sum(len(READERS[engine]) for engine in self._engines),
        )
        for engine in self._engines:
            if engine == "spark":
                self._read_with_spark(work)
            else:
                self._read_with(engine, work)
        names = [name for engine in self._engines for name in READERS[engine]]
        return [replace(self._verdicts[name, *key], file=file) for file, key in work.jobs for name in names]

    def _prepare(self, jobs: Iterable[tuple[Path, Source]]) -> _Work:
        work = _Work()
        for file, source in jobs:
            with file.open("rb") as content:
                key = hashlib.file_digest(content, "sha256").hexdigest(), source
            work.jobs.append((file, key))
            known = any((name, *key) in self._verdicts for name in READERS[self._engines[0]])
            if key not in work.contents and not known:
                self._rows_of(source)
                work.contents[key] = _Content(self._link(file), file, source)
        return work

    def _rows_of(self, source: Source, without: frozenset[str] = frozenset()) -> SourceRows:
        if (source, without) not in self._source_rows:
            source_rows = SourceRows(source, without)
            self._tell(f"digesting {source.path.name}")
            _ = source_rows.digest  # a source with too few rows is told of before anything is read
            self._source_rows[source, without] = source_rows
        return self._source_rows[source, without]

    def _link(self, file: Path) -> Path:
        """Link the file under a number: its own path may have globs, hidden names or odd characters."""
        link = self._scratch / f"{next(self._numbers):06}.parquet"
        link.symlink_to(file.resolve())
        return link

    def _read_with(self, engine: str, work: _Work) -> None:
        reader = load_reader(engine)
        read = _Read(engine, lambda path, source_rows: check(reader, path, source_rows))
        for key, content in work.contents.items():
            self._tell(f"{engine} reads {content.file.name}")
            started = time.perf_counter()
            mismatch = read.check(content.link, self._rows_of(content.source))
            self._judge(read, key, content, Finding(mismatch, time.perf_counter() - started))
            self._done += 1
        self._tell(f"{engine} is done")

    def _read_with_spark(self, work: _Work) -> None:
        from spillway.validation.spark_reader import readers

        if not work.contents:
            return
        for reader in readers(self._session()):
            self._read_with_one_spark_reader(reader, work)

    def _read_with_one_spark_reader(self, reader: SparkReader, work: _Work) -> None:
        def done(files: int) -> None:
            self._done += files
            self._tell(f"{reader.name} reads {len(work.contents)} files")

        jobs = {content.link: self._rows_of(content.source) for content in work.contents.values()}
        findings = reader.check(jobs, done=done)
        read = _Read(reader.name, lambda path, source_rows: reader.check({path: source_rows})[path].mismatch)
        for key, content in work.contents.items():
            self._judge(read, key, content, findings[content.link])

    def _judge(self, read: _Read, key: tuple[str, Source], content: _Content, first: Finding) -> None:
        """Keep the verdict. A reader that failed is tried on pyarrow's file first.

        It is excused from a column only: the others are read again and have to hold.
        """
        excuse, mismatch = None, first.mismatch
        without: frozenset[str] = frozenset()
        while mismatch is not None and excuses(
            mismatch, self._on_reference_file(read, content.source, without)
        ):
            excuse = excuse or mismatch
            names = self._rows_of(content.source, without).raw_schema.names
            if mismatch.column not in names or len(names) == 1:
                mismatch = None
                break
            without |= {mismatch.column}
            mismatch = read.check(content.link, self._rows_of(content.source, without))
        told = mismatch or excuse
        self._verdicts[read.name, *key] = Verdict(
            file=content.file,
            engine=read.name,
            ok=told is None,
            excused=mismatch is None and excuse is not None,
            mismatch=told and _rename(told, content),
            seconds=first.seconds,
        )

    def _on_reference_file(self, read: _Read, source: Source, without: frozenset[str]) -> Mismatch | None:
        """The reader's mismatch on pyarrow's file of the source, if pyarrow can write one."""
        if source not in self._references:
            path = self._scratch / f"{next(self._numbers):06}.parquet"
            self._references[source] = path if write_reference(self._rows_of(source), path) else None
        reference = self._references[source]
        key = read.name, source, without
        if key not in self._on_reference:
            source_rows = self._rows_of(source, without)
            self._on_reference[key] = None if reference is None else read.check(reference, source_rows)
        return self._on_reference[key]

    def _session(self) -> SparkSession:
        if self._spark is None:
            from spillway.spark.session import local_session, stop_session

            self._spark = local_session("spillway-validate", say=self._tell)
            self._stack.callback(stop_session, self._spark)
        return self._spark

    def _tell(self, what: str) -> None:
        if self._progress is not None:
            self._progress(self._done, self._total, what)


def _rename(mismatch: Mismatch, content: _Content) -> Mismatch:
    """Name the file in a message in place of the link that readers were given."""
    message = mismatch.message.replace(str(content.link), str(content.file))
    return replace(mismatch, message=message.replace(content.link.name, content.file.name))
