"""Asks delta-spark what becomes of every pair of transactions, and writes the answers as `matrix.json`.

Run from the repository's root, with Java 17 or newer::

    python -m tests.delta.conflicts.generate                  # all pairs, some minutes
    python -m tests.delta.conflicts.generate --missing        # pairs that the table lacks
    python -m tests.delta.conflicts.generate --sample 12 --out some.json

Two `OptimisticTransaction`s are opened on one snapshot in one JVM, with the reads and actions that Spark's
command gives them. The winner commits, then the loser tries. A line of the table says:

`winner`, `winner_day`, `loser`, `loser_day`, `partitions`, `isolation`
    The pair, and the partition that each works on, which whatever concerns the whole table does not care for.
    `isolation` is the table's level.
`table`
    In pairs on a table with features: its name among those of `pairs.py`.
`checked`
    The level that delta-spark checked the loser under, which may be lower; `none` for RESTORE, which gives up
    when any version came first.
`outcome`
    `commit`, or the class of the exception without its suffix.
`rows`, `marks`
    What Spark reads afterwards: ids of rows, and which changes of the table itself are there.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import struct
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import track

from spillway.spark.session import local_session, stop_session

from .pairs import (
    BASE,
    EARLIER,
    RESTORED_AWAY,
    RESTORED_ROW,
    RESTORED_VERSION,
    TABLES,
    TODAY,
    Pair,
    all_pairs,
    pair_of,
    row_added,
    rows_marked,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyspark.sql import SparkSession

    Commit = Callable[[], object]

MATRIX = Path(__file__).with_name("matrix.json")

CONSOLE = Console(stderr=True)
WORKERS = 4

SETTINGS = {
    "spark.sql.shuffle.partitions": "1",
    # For four rows, to compile a query costs more than to interpret it.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.databricks.delta.snapshotPartitions": "1",
    # Operations ask for the metrics of the commands that they come from, which do not run here.
    "spark.databricks.delta.history.metricsEnabled": "false",
}
COLUMN = {"name": "note", "type": "string", "nullable": True, "metadata": {}}
LEVEL = "delta.isolationLevel"
PROPERTY = "spillway.owner"
DOMAINS = {"domain change": "spillway.one", "change of another domain": "spillway.another"}
STREAMS = {"append of a stream": "one", "append of another stream": "another"}
# The columns of rows' ids and versions have names that nobody else has.
ENABLED = {
    "row tracking enablement": {
        "delta.enableRowTracking": "true",
        "delta.rowTracking.materializedRowIdColumnName": "_row-id-col-1",
        "delta.rowTracking.materializedRowCommitVersionColumnName": "_row-commit-version-col-1",
    },
    "in-commit timestamps enablement": {"delta.enableInCommitTimestamps": "true"},
}
# The first asks nothing of transactions under way; the second, that they check what they write.
PROTOCOLS = {
    "protocol change": {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["v2Checkpoint"],
        "writerFeatures": ["appendOnly", "invariants", "v2Checkpoint"],
    },
    "protocol change to constraints": {
        "minReaderVersion": 1,
        "minWriterVersion": 7,
        "writerFeatures": ["appendOnly", "checkConstraints", "invariants"],
    },
}


class Scala:
    """Arguments for Scala's methods, made from Python's values."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark: Any = spark._jsparkSession
        jvm: Any = spark.sparkContext._jvm
        self.jvm = jvm
        self.delta = self.jvm.org.apache.spark.sql.delta
        self.nothing = self.jvm.scala.Option.empty()

    def some(self, value: object) -> Any:
        return self.jvm.scala.Option.apply(value)

    def seq(self, *values: object) -> Any:
        return self.jvm.PythonUtils.toSeq(list(values))

    def map(self, **values: str) -> Any:
        return self.jvm.PythonUtils.toScalaMap(values)

    def parse(self, action: str) -> Any:
        return self.delta.actions.Action.fromJson(action)

    def action(self, kind: str, body: object) -> Any:
        return self.parse(json.dumps({kind: body}))

    def expression(self, sql: str) -> Any:
        return self.spark.sessionState().sqlParser().parseExpression(sql)

    def operation(self, name: str, *arguments: object) -> Any:
        return getattr(self.delta, f"DeltaOperations${name}")(*arguments)

    def write(self, mode: str, predicate: str | None = None) -> Any:
        save_mode = getattr(self.jvm.org.apache.spark.sql.SaveMode, mode)
        return self.operation("Write", save_mode, self.nothing, self.some(predicate), *[self.nothing] * 6)


def items(seq: Any) -> list[Any]:
    """The items of a Scala sequence."""
    return [seq.apply(place) for place in range(seq.size())]


# The operations that add files.
ADDING = {
    "append",
    "append with schema change",
    "overwrite",
    "overwrite of a partition",
    "rewrite",
    "update of a row",
    *STREAMS,
}


def added_as(operation: str) -> str:
    """The operation whose files one adds."""
    return "append" if operation == "INSERT of today" else operation


def vector_of(row: int) -> bytearray:
    """The deletion vector of one row by its place in the file, as the protocol has them inline."""
    bitmap = struct.pack("<IIHHIH", 12346, 1, 0, 0, 16, row)
    return bytearray(struct.pack("<IQI", 1681511377, 1, 0) + bitmap)


class Template:
    """The table that every pair begins with, and the files that transactions of these pairs may add to it."""

    def __init__(
        self, spark: SparkSession, scala: Scala, folder: Path, pairs: Iterable[Pair], table: str | None
    ) -> None:
        self.spark, self.scala, self.path = spark, scala, folder / f"template of {table}"
        if table is None:
            self._lay()
        else:
            self._lay_with(TABLES[table])
        sides = {(side, added_as(getattr(pair, side))) for pair in pairs for side in ("winner", "loser")}
        self.files = {
            (side, operation): self._rewrite() if operation == "rewrite" else self._write(side, operation)
            for side, operation in sorted(sides)
            if operation in ADDING
        }

    def copy(self, path: Path, isolation: str) -> None:
        """Lay the table out again; Spark's commands refuse to set a level, but its transactions obey it."""
        shutil.copytree(self.path, path, copy_function=os.link, ignore=shutil.ignore_patterns(".*.crc"))
        # The metadata is in the log, and in the summary of each version that spares Spark to compute it.
        for file in (path / "_delta_log").glob("0*"):
            level = f'"configuration":{{"{LEVEL}":"{isolation}"'
            text = file.read_text().replace('"configuration":{}', f"{level}}}")
            text = text.replace('"configuration":{"delta.', f'{level},"delta.')
            file.unlink()  # the template has it too
            file.write_text(text)

    def _frame(self, rows: Iterable[tuple[int, str]], *, wide: bool = False) -> Any:
        frame = self.spark.createDataFrame(list(rows), "id long, day string")
        columns = ["id", "cast(day as date) day", *(["'new' note"] if wide else [])]
        return frame.coalesce(1).selectExpr(*columns)

    def _lay(self) -> None:
        rows = {**BASE, RESTORED_ROW: EARLIER}
        saved = self._frame((row, rows[row]) for row in (1, 3)).write.format("delta")
        saved.partitionBy("day").save(str(self.path))
        self._frame([(RESTORED_ROW, EARLIER)]).write.format("delta").mode("append").save(str(self.path))
        transaction, files = self._written((row, rows[row]) for row in (2, 4))
        old = transaction.snapshot().allFiles().collectAsList()
        self.rows = {row_in(file): file.json() for file in [*old, *files]}
        gone = self.scala.parse(self.rows[RESTORED_ROW]).remove()
        transaction.commit(self.scala.seq(*files, gone), self.scala.write("Append"))

    def _lay_with(self, properties: dict[str, str]) -> None:
        saved = self._frame(sorted(BASE.items())).write.format("delta").options(**properties)
        saved.partitionBy("day").save(str(self.path))
        log = self.scala.delta.DeltaLog.forTable(self.scala.spark, str(self.path))
        files = log.update(False, self.scala.nothing, self.scala.nothing).allFiles().collectAsList()
        days = by_day(json.loads(file.json()) for file in files)
        self.rows = {row: days[day] for row, day in BASE.items()}

    def _written(self, rows: Iterable[tuple[int, str]], *, wide: bool = False) -> tuple[Any, list[Any]]:
        log = self.scala.delta.DeltaLog.forTable(self.scala.spark, str(self.path))
        transaction = log.startTransaction(self.scala.nothing, self.scala.nothing)
        if wide:
            transaction.updateMetadata(with_column(self.scala, transaction), False)
        return transaction, items(transaction.writeFiles(self._frame(rows, wide=wide)._jdf))

    def _write(self, side: str, operation: str) -> dict[str, str]:
        rows = [(row_added(operation, side, day), day) for day in (EARLIER, TODAY)]
        _, files = self._written(rows, wide=operation == "append with schema change")
        return by_day(json.loads(file.json()) for file in files)

    def _rewrite(self) -> dict[str, str]:
        _, files = self._written(BASE.items())
        bodies = [json.loads(file.json()) for file in files]
        return by_day({"add": body["add"] | {"dataChange": False}} for body in bodies)


def row_in(file: Any) -> int:
    """The id of a file's one row."""
    row: int = json.loads(file.stats())["minValues"]["id"]
    return row


def by_day(actions: Iterable[dict[str, Any]]) -> dict[str, str]:
    """Additions as JSON, by the day of their partition."""
    return {action["add"]["partitionValues"]["day"]: json.dumps(action) for action in actions}


def metadata_of(transaction: Any) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(transaction.metadata().json())["metaData"]
    return body


def with_column(scala: Scala, transaction: Any) -> Any:
    body = metadata_of(transaction)
    schema = json.loads(body["schemaString"])
    schema["fields"].append(COLUMN)
    return scala.action("metaData", body | {"schemaString": json.dumps(schema)})


class Side:
    """One of the two: it reads when it is made, and `commit` is what it does at the end."""

    def __init__(self, template: Template, pair: Pair, name: str, log: Any, snapshot: Any) -> None:
        self.scala, self.template = template.scala, template
        self.name, self.operation, self.day = name, getattr(pair, name), pair.day(name)
        self.where = f"day = DATE'{self.day}'"
        self.transaction = log.startTransaction(self.scala.nothing, self.scala.some(snapshot))
        self.commit: Commit = getattr(self, METHODS[self.operation])()

    @property
    def checked(self) -> str:
        """The level of its check; there is none without `commitInfo`."""
        info = self.transaction.getCommitInfo()
        return "none" if info is None else str(info.isolationLevel().get())

    def _addition(self) -> Any:
        return self.scala.parse(self.template.files[self.name, added_as(self.operation)][self.day])

    def _committing(self, actions: Iterable[object], operation: Any) -> Commit:
        return lambda: self.transaction.commit(self.scala.seq(*actions), operation)

    def _read(self, predicate: str, day: str | None) -> list[Any]:
        """Records a read as `filterFiles` does, without its query: the files of a day, or all, are known."""
        chosen = {self.template.rows[row] for row, its_day in BASE.items() if day in {its_day, None}}
        files = [self.scala.parse(file) for file in sorted(chosen)]
        self.transaction.trackReadPredicates(self.scala.seq(self.scala.expression(predicate)), False, True)
        self.transaction.trackFilesRead(self.scala.seq(*files))
        return files

    def _removed(self, predicate: str, day: str | None) -> list[Any]:
        return [file.remove() for file in self._read(predicate, day)]

    def append(self) -> Commit:
        """As `WriteIntoDelta` does in mode append."""
        return self._committing([self._addition()], self.scala.write("Append"))

    def widen(self) -> Commit:
        """As `WriteIntoDelta` does in mode append, with `mergeSchema`."""
        self.transaction.updateMetadata(with_column(self.scala, self.transaction), False)
        return self.append()

    def delete(self) -> Commit:
        """As `DeleteCommand` does when the condition is about partitions alone."""
        where = f"day < DATE'{TODAY}'" if self.operation == "DELETE of earlier days" else self.where
        removes = self._removed(where, self.day)
        predicate = self.scala.seq(self.scala.expression(where))
        return self._committing(removes, self.scala.operation("Delete", predicate))

    def overwrite(self) -> Commit:
        """As `WriteIntoDelta` does in mode overwrite."""
        removes = self._removed("true", None)
        return self._committing([self._addition(), *removes], self.scala.write("Overwrite"))

    def overwrite_partition(self) -> Commit:
        """As `WriteIntoDelta` does with `replaceWhere`, which leaves the removal to `DeleteCommand`."""
        removes = self._removed(self.where, self.day)
        return self._committing([self._addition(), *removes], self.scala.write("Overwrite", self.where))

    def truncate(self) -> Commit:
        """As `TruncateDeltaTableCommand` does."""
        return self._committing(self._removed("true", None), self.scala.operation("Truncate"))

    def restore(self) -> Commit:
        """As `RestoreTableCommand` does, which compares two snapshots outside its transaction."""
        scala, rows = self.scala, self.template.rows
        removes = [scala.parse(rows[row]).remove() for row in RESTORED_AWAY]
        actions = scala.seq(scala.parse(rows[RESTORED_ROW]), *removes)
        self.transaction.updateMetadata(self.transaction.metadata(), False)
        operation = scala.operation("Restore", scala.some(RESTORED_VERSION), scala.nothing)
        protocol, context = scala.some(self.transaction.protocol()), scala.map()
        return lambda: self.transaction.commitLarge(
            scala.spark, actions.iterator(), protocol, operation, context, context
        )

    def rewrite(self) -> Commit:
        """As `OptimizeExecutor` does for one partition, at its first attempt."""
        files = self._read(self.where, self.day)
        removes = [file.removeWithTimestamp(file.modificationTime(), False) for file in files]
        where, nothing = self.scala.expression(self.where), self.scala.nothing
        optimize = self.scala.operation(
            "Optimize", self.scala.seq(where), self.scala.seq(), False, nothing, False
        )
        return self._committing([self._addition(), *removes], optimize)

    def set_property(self) -> Commit:
        """As `AlterTableSetPropertiesDeltaCommand` does."""
        return self._setting({PROPERTY: self.name})

    def enable(self) -> Commit:
        """As `AlterTableSetPropertiesDeltaCommand` does, after the backfill where there is one."""
        return self._setting(ENABLED[self.operation])

    def _setting(self, properties: dict[str, str]) -> Commit:
        body = metadata_of(self.transaction)
        body["configuration"] |= properties
        self.transaction.updateMetadata(self.scala.action("metaData", body), False)
        return self._committing([], self.scala.operation("SetTableProperties", self.scala.map(**properties)))

    def _marked(self, where: str) -> list[Any]:
        """The file of the day with one row marked, as `DMLWithDeletionVectorsHelper` has it."""
        [file] = self._read(where, self.day)
        [row] = rows_marked(self.operation, self.day)
        of_day = sorted(other for other, its_day in BASE.items() if its_day == self.day)
        vectors = self.scala.delta.actions.DeletionVectorDescriptor
        marked = file.removeRows(vectors.inlineInLog(vector_of(of_day.index(row)), 1), True, True)
        return [marked._1(), marked._2()]

    def _of_row(self) -> str:
        [row] = rows_marked(self.operation, self.day)
        return f"{self.where} AND id = {row}"

    def delete_row(self) -> Commit:
        """As `DeleteCommand` does in a table with deletion vectors."""
        where = self._of_row()
        predicate = self.scala.seq(self.scala.expression(where))
        return self._committing(self._marked(where), self.scala.operation("Delete", predicate))

    def update_row(self) -> Commit:
        """As `UpdateCommand` does in a table with deletion vectors."""
        where = self._of_row()
        update = self.scala.operation("Update", self.scala.some(self.scala.expression(where)))
        return self._committing([*self._marked(where), self._addition()], update)

    def stream(self) -> Commit:
        """As `DeltaSink` does for a batch."""
        app = STREAMS[self.operation]
        self.transaction.txnVersion(app)
        progress = self.scala.action("txn", {"appId": app, "version": 1, "lastUpdated": 1})
        return self._committing([progress, self._addition()], self.scala.write("Append"))

    def configure(self) -> Commit:
        """As commands that keep what they know of a table in a domain."""
        domain = {"domain": DOMAINS[self.operation], "configuration": self.name, "removed": False}
        operation = getattr(self.scala.delta, "DeltaOperations$ManualUpdate$")
        return self._committing([self.scala.action("domainMetadata", domain)], getattr(operation, "MODULE$"))

    def upgrade(self) -> Commit:
        """As `DeltaLog.upgradeProtocol` does."""
        protocol = self.scala.action("protocol", PROTOCOLS[self.operation])
        return self._committing([protocol], self.scala.operation("UpgradeProtocol", protocol))


METHODS = {
    "append": "append",
    "INSERT of today": "append",
    "append with schema change": "widen",
    "partition delete": "delete",
    "DELETE of earlier days": "delete",
    "overwrite": "overwrite",
    "overwrite of a partition": "overwrite_partition",
    "truncate": "truncate",
    "restore": "restore",
    "rewrite": "rewrite",
    "property change": "set_property",
    "protocol change": "upgrade",
    "protocol change to constraints": "upgrade",
    "delete of a row": "delete_row",
    "delete of another row": "delete_row",
    "update of a row": "update_row",
    "append of a stream": "stream",
    "append of another stream": "stream",
    "domain change": "configure",
    "change of another domain": "configure",
    "row tracking enablement": "enable",
    "in-commit timestamps enablement": "enable",
}


def attempt(commit: Commit) -> str:
    """Commit, and say how it ended."""
    try:
        commit()
    except Exception as error:
        # PySpark dresses some of the JVM's exceptions, and py4j the others.
        origin = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
        name = "" if origin is None else str(origin.getClass().getName())
        if not name.startswith("io.delta.exceptions."):
            raise
        return name.rpartition(".")[2].removesuffix("Exception")
    return "commit"


def race(template: Template, pair: Pair, path: Path) -> dict[str, Any]:
    """Run one pair, and give its line of the table."""
    scala = template.scala
    template.copy(path, pair.isolation)
    log = scala.delta.DeltaLog.forTable(scala.spark, str(path))
    snapshot = log.update(False, scala.nothing, scala.nothing)
    winner = Side(template, pair, "winner", log, snapshot)
    loser = Side(template, pair, "loser", log, snapshot)
    if (ended := attempt(winner.commit)) != "commit":
        raise AssertionError(f"the winner of {pair} ended with {ended}")
    outcome = attempt(loser.commit)
    frame = template.spark.read.format("delta").load(str(path))
    rows = sorted(row.id for row in frame.select("id").collect())
    seen = log.update(False, scala.nothing, scala.nothing)
    marks = marks_of(pair, frame, seen)
    scala.delta.DeltaLog.clearCache()
    shutil.rmtree(path)
    return {
        "winner": pair.winner,
        "winner_day": winner.day,
        "loser": pair.loser,
        "loser_day": loser.day,
        "partitions": pair.partitions,
        "isolation": pair.isolation,
        **({} if pair.table is None else {"table": pair.table}),
        "checked": loser.checked,
        "outcome": outcome,
        "rows": rows,
        "marks": marks,
    }


def marks_of(pair: Pair, frame: Any, seen: Any) -> list[str]:
    """The changes of the table itself that Spark sees, but for those that the table began with."""
    configuration = seen.metadata().configuration()
    features = set(json.loads(seen.protocol().json())["protocol"].get("writerFeatures", ()))
    marks = {
        "column": COLUMN["name"] in frame.columns,
        "property": configuration.contains(PROPERTY),
        "protocol": bool(features & {"v2Checkpoint", "checkConstraints"}),
    }
    if pair.table is not None:
        streams = {txn.appId() for txn in items(seen.setTransactions())}
        domains = {domain.domain() for domain in items(seen.domainMetadata())}
        given = TABLES[pair.table]
        marks |= {
            "stream": STREAMS["append of a stream"] in streams,
            "other stream": STREAMS["append of another stream"] in streams,
            "domain": DOMAINS["domain change"] in domains,
            "other domain": DOMAINS["change of another domain"] in domains,
        }
        for mark, enabled in (
            ("row tracking", "delta.enableRowTracking"),
            ("in-commit timestamps", "delta.enableInCommitTimestamps"),
        ):
            marks[mark] = configuration.contains(enabled) and enabled not in given
    return [name for name, there in marks.items() if there]


def generate(pairs: list[Pair]) -> dict[str, Any]:
    """The lines of these pairs, by a session of their own."""
    spark = local_session("conflicts", delta=True, say=CONSOLE.print)
    try:
        return generate_by(spark, pairs)
    finally:
        stop_session(spark)


def generate_by(spark: SparkSession, pairs: list[Pair]) -> dict[str, Any]:
    """The lines of these pairs, by a session with Delta, whose settings are the same afterwards."""
    before = {name: spark.conf.get(name, None) for name in SETTINGS}
    try:
        for name, value in SETTINGS.items():
            spark.conf.set(name, value)
        with tempfile.TemporaryDirectory() as scratch:
            scala = Scala(spark)
            templates = {
                table: Template(
                    spark, scala, Path(scratch), [pair for pair in pairs if pair.table == table], table
                )
                for table in {pair.table: None for pair in pairs}
            }
            lines = race_all(scala, templates, pairs, Path(scratch))
    finally:
        for name, value in before.items():
            if value is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, value)
    return {"engine": f"delta-spark 4.4.0 on Spark {spark.version}", "pairs": lines}


def sample(number: int, seed: int = 0) -> list[Pair]:
    """So many pairs, chosen by chance."""
    return random.Random(seed).sample(all_pairs(), number)  # noqa: S311 # a test's choice


def race_all(
    scala: Scala, templates: dict[str | None, Template], pairs: list[Pair], folder: Path
) -> list[dict[str, Any]]:
    """Run pairs side by side, each on a table of its own: a small Spark job is mostly waiting."""
    # Delta asks each thread of the JVM for its session.
    activate = scala.jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession
    with ThreadPoolExecutor(WORKERS, initializer=activate, initargs=(scala.spark,)) as pool:
        paths = [folder / f"table-{place}" for place in range(len(pairs))]
        lines = pool.map(lambda pair, path: race(templates[pair.table], pair, path), pairs, paths)
        try:
            return list(track(lines, "racing pairs", total=len(pairs), console=CONSOLE))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def write(path: Path, table: dict[str, Any]) -> None:
    """One pair a line, so that a change shows as what it is."""
    lines = ",\n".join(json.dumps(line) for line in table["pairs"])
    path.write_text(f'{{"engine": {json.dumps(table["engine"])}, "pairs": [\n{lines}\n]}}\n')


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=MATRIX, help="where the table goes")
    parser.add_argument("--sample", type=int, help="so many pairs, chosen by chance")
    parser.add_argument("--missing", action="store_true", help="keep the pairs that the table has")
    parser.add_argument("--seed", type=int, default=0, help="of the choice")
    options = parser.parse_args()
    pairs = all_pairs() if options.sample is None else sample(options.sample, options.seed)
    if not options.missing:
        write(options.out, generate(pairs))
        return
    known = json.loads(MATRIX.read_text())
    lines = {pair_of(line): line for line in known["pairs"]}
    new = generate([pair for pair in pairs if pair not in lines])
    if new["engine"] != known["engine"]:
        raise SystemExit(f"the table is by {known['engine']}: make all of it by {new['engine']}")
    lines |= {pair_of(line): line for line in new["pairs"]}
    write(options.out, known | {"pairs": [lines[pair] for pair in pairs]})


if __name__ == "__main__":
    main()
