"""Tasks that fail, and Delta tables, through the data source and through `spillway.spark.write`."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds
import pytest

import spillway.delta

from ..counts import SOAK

if TYPE_CHECKING:
    from pathlib import Path

    from .process import Worker

ROWS = 300
ALL = list(range(ROWS))
DELTA = {"table": "delta"}


def data_files(path: Path) -> set[str]:
    return {str(file.relative_to(path)) for file in path.rglob("*.parquet") if "_delta_log" not in file.parts}


def left_behind(path: Path, form: str) -> set[str]:
    """Files that are in the folder, and not in the table that they should be in."""
    if form == "delta":
        return data_files(path) - {file.path for file in spillway.delta.open(path).files()}
    names = {str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()}
    return {name for name in names if name != "_SUCCESS"} - data_files(path)


# Any two of the three are there together; before a release, all three.
ONCE = [
    ("raise", "write_frame", "parquet"),
    ("raise", "write_made", "delta"),
    ("kill", "write_frame", "delta"),
    ("kill", "write_made", "parquet"),
]
ALWAYS = [("write_frame", "delta"), ("write_made", "parquet")]
if SOAK:
    COMMANDS, FORMS = ("write_frame", "write_made"), ("parquet", "delta")
    ONCE = list(itertools.product(("raise", "kill"), COMMANDS, FORMS))
    ALWAYS = list(itertools.product(COMMANDS, FORMS))


@pytest.mark.parametrize(("kind", "command", "form"), ONCE)
def test_a_task_that_fails_once_is_repeated_without_a_trace(
    worker: Worker, tmp_path: Path, form: str, command: str, kind: str
) -> None:
    to = tmp_path / "to"
    more: dict[str, Any] = {"mode": "append"} if command == "write_frame" else {}
    worker.ask(command, path=str(to), rows=ROWS, options={"table": form}, kind=kind, times=1, **more)
    assert worker.ask("ids", path=str(to), form=form) == ALL
    assert len(data_files(to)) == 3
    assert left_behind(to, form) == set()


@pytest.mark.parametrize(("command", "form"), ALWAYS)
def test_a_task_that_always_fails_leaves_all_as_it_was(
    worker: Worker, tmp_path: Path, form: str, command: str
) -> None:
    to = tmp_path / "to"
    worker.ask("write_made", path=str(to), rows=ROWS, options={"table": form})
    before = data_files(to)
    if command == "write_frame":
        more: dict[str, Any] = {"mode": "overwrite", "options": {"table": form}}
    else:
        more = {"options": {"table": form, "mode": "overwrite"}}
    with pytest.raises(RuntimeError, match="on purpose"):
        worker.ask(command, path=str(to), rows=ROWS, times=9, **more)
    assert worker.ask("ids", path=str(to), form=form) == ALL
    assert data_files(to) == before
    assert left_behind(to, form) == set()


def test_a_job_that_fails_makes_no_folder(worker: Worker, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="on purpose"):
        worker.ask("write_frame", path=str(tmp_path / "to"), rows=ROWS, mode="append", options={}, times=9)
    assert list(tmp_path.iterdir()) == []


def test_delta_reads_what_is_appended_and_overwritten(worker: Worker, tmp_path: Path) -> None:
    to = str(tmp_path / "to")
    worker.ask("write_frame", path=to, rows=ROWS, mode="append", options={**DELTA, "partition_by": "day"})
    assert worker.ask("days", path=to, form="delta") == {"d0": ROWS // 2, "d1": ROWS // 2}
    # The folder is a table by now, which nobody has to say.
    worker.ask("write_frame", path=to, rows=10, mode="append", options={})
    assert worker.ask("ids", path=to, form="delta") == sorted([*ALL, *range(10)])
    worker.ask("write_frame", path=to, rows=20, mode="overwrite", options={})
    assert worker.ask("ids", path=to, form="delta") == list(range(20))
    assert spillway.delta.open(to).version == 2
    metrics = worker.ask("operation_metrics", path=to)
    assert (metrics["numOutputRows"], metrics["numFiles"]) == ("20", "6")
    assert int(metrics["writerTimeMs"]) >= 0
    assert worker.ask("optimized", path=to) == 20


def test_an_application_writes_a_version_once(worker: Worker, tmp_path: Path) -> None:
    to = str(tmp_path / "to")
    options = {**DELTA, "app_id": "job", "app_version": "7"}
    for _ in range(2):
        worker.ask("write_frame", path=to, rows=ROWS, mode="append", options=options)
    made = {"table": "delta", "run_id": "made", "mode": "append"}
    first, second = (worker.ask("write_made", path=to, rows=ROWS, options=made) for _ in range(2))
    assert (first["rows"], first["version"]) == (ROWS, 1)
    assert (second["rows"], second["version"]) == (0, 1)
    assert worker.ask("ids", path=to, form="delta") == sorted(ALL * 2)
    assert left_behind(tmp_path / "to", "delta") == set()


def test_a_merged_schema_adds_a_column(worker: Worker, tmp_path: Path) -> None:
    import pyarrow as pa  # noqa: PLC0415 - of this one test

    to = tmp_path / "to"
    spillway.delta.create(to, pa.schema({"id": pa.int64()}))
    with pytest.raises(RuntimeError, match="schema_mode"):
        worker.ask("write_frame", path=str(to), rows=ROWS, mode="append", options={})
    worker.ask("write_frame", path=str(to), rows=ROWS, mode="append", options={"schema_mode": "merge"})
    assert worker.ask("days", path=str(to), form="delta") == {"d0": ROWS // 2, "d1": ROWS // 2}


@pytest.mark.parametrize(("mode", "rows"), [("append", 60), ("overwrite", 30), ("ignore", 30)])
def test_modes_of_write(worker: Worker, tmp_path: Path, mode: str, rows: int) -> None:
    for form in ("parquet", "delta"):
        to = str(tmp_path / form)
        options = {"table": form, "partition_by": "day"}
        first = worker.ask("write_made", path=to, rows=30, options={**options, "mode": "error"})
        assert (first["rows"], first["files"]) == (30, 6)
        second = worker.ask("write_made", path=to, rows=30, options={**options, "mode": mode})
        assert second["rows"] == (0 if mode == "ignore" else 30)
        assert len(worker.ask("ids", path=to, form=form)) == rows
        with pytest.raises(RuntimeError, match=r'Exists.*mode="error"'):
            worker.ask("write_made", path=to, rows=30, options={**options, "mode": "error"})


def test_files_of_write_roll(worker: Worker, tmp_path: Path) -> None:
    options = {"max_file_rows": 40, "sorting_columns": ["id"], "compression": "snappy"}
    done = worker.ask("write_made", path=str(tmp_path / "to"), rows=ROWS, options=options)
    files = list((tmp_path / "to").glob("*.parquet"))
    assert done["files"] == len(files) == 9
    assert ds.dataset(tmp_path / "to").to_table().num_rows == ROWS
    assert done["bytes"] == sum(file.stat().st_size for file in files)
