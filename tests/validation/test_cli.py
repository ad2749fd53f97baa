"""``spillway validate`` as a user meets it."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from spillway.cli.app import app

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

MAIN = "from spillway.cli import main; main()"


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    tables = {
        "source": pa.table({"id": [0, 1, 2, 3], "name": ["a", "b", None, "d"]}),
        "good": pa.table({"id": [0, 1, 2, 3], "name": ["a", "b", None, "d"]}),
        "shifted": pa.table({"id": [0, 1, 2, 3], "name": ["a", None, "b", "d"]}),
    }
    paths = {name: tmp_path / f"{name}.parquet" for name in tables}
    for name, table in tables.items():
        pq.write_table(table, paths[name], compression="zstd" if name == "source" else "snappy")
    return paths


def run(*arguments: object, **environment: str) -> Result:
    return CliRunner().invoke(app, ["validate", *map(str, arguments)], env=environment)


@pytest.mark.parametrize("what", ["truncated", "union"])
def test_a_source_that_cannot_be_compared_is_no_fault_of_the_file(
    tmp_path: Path, files: dict[str, Path], what: str
) -> None:
    source = tmp_path / "against.arrow"
    union = pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["a", "b"])])
    column = union if what == "union" else pa.array([1, 2])
    with pa.OSFile(str(source), "wb") as file, pa.ipc.new_file(file, pa.schema({"a": column.type})) as writer:
        writer.write(pa.record_batch({"a": column}))
    if what == "truncated":
        source.write_bytes(source.read_bytes()[:-20])
    result = run(files["good"], "--against", source, "--engine", "pyarrow")
    assert result.exit_code == 2, result.output
    assert "against.arrow" in " ".join(result.stderr.split())


def test_good_files_exit_with_zero_and_are_counted(files: dict[str, Path]) -> None:
    arguments = [files["good"], "--against", files["source"], "--engine", "pyarrow,polars,duckdb"]
    # One that is a program of its own, as a user has it.
    done = subprocess.run(
        [sys.executable, "-c", MAIN, "validate", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for engine in ("pyarrow", "polars", "duckdb"):
        assert f"validated by {engine}: 1 of 1" in done.stdout


def test_a_mismatch_exits_with_one_and_names_file_row_column_and_values(files: dict[str, Path]) -> None:
    done = run(files["good"], files["shifted"], "--against", files["source"], "--engine", "polars")
    assert done.exit_code == 1
    assert f"{files['shifted']}: polars: values differ; first at row 1, column 'name'" in done.stdout
    assert "expected 'b', got null" in done.stdout
    assert "validated by polars: 1 of 2 (1 failed)" in done.stdout


def test_json_holds_every_verdict(files: dict[str, Path]) -> None:
    done = run(files["shifted"], "--against", files["source"], "--engine", "duckdb", "--json")
    assert done.exit_code == 1
    document = json.loads(done.stdout)
    (verdict,) = document["verdicts"]
    assert verdict["file"] == str(files["shifted"])
    assert verdict["ok"] is verdict["excused"] is False
    assert verdict["mismatch"] == {
        "kind": "values",
        "column": "name",
        "row": 1,
        "expected": "'b'",
        "actual": "null",
        "message": "values differ; first at row 1, column 'name': expected 'b', got null",
    }
    assert document["summary"] == ["validated by duckdb: 0 of 1 (1 failed)"]


def test_the_first_rows_may_be_enough(files: dict[str, Path], tmp_path: Path) -> None:
    prefix = tmp_path / "prefix.parquet"
    pq.write_table(pq.read_table(files["source"]).slice(0, 2), prefix)
    assert run(prefix, "--against", files["source"], "--engine", "pyarrow", "--rows", 2).exit_code == 0
    assert run(prefix, "--against", files["source"], "--engine", "pyarrow").exit_code == 1


def test_the_source_may_be_what_the_bench_takes(files: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "halves").mkdir()
    (tmp_path / "halves" / "1.csv").write_bytes("id;name\n0;a\n1;b\n".encode("utf-16"))
    (tmp_path / "halves" / "2.csv").write_bytes("id;name\n2;ü\n3;d\n".encode("utf-16"))
    good = tmp_path / "umlaut.parquet"
    pq.write_table(pa.table({"id": [0, 1, 2, 3], "name": ["a", "b", "ü", "d"]}), good)
    source = ["--against", tmp_path / "halves", "--delimiter", ";", "--encoding", "utf-16"]
    text = {"SPILLWAY_CACHE": str(tmp_path / "cache")}
    assert run(good, *source, "--engine", "pyarrow", **text).exit_code == 0
    done = run(files["good"], *source, "--engine", "pyarrow", **text)
    assert done.exit_code == 1
    assert "expected 'ü', got null" in done.stdout


TEXTS = {
    "large.csv": ("id\n18446744073709551615\n18446744073709551613\n", [1.8446744073709552e19] * 2),
    "words.csv": ("id,n\nNA,1\nnan,2\n", {"id": [None, None], "n": [1, 2]}),
    "large.ndjson": ('{"id": 18446744073709551615}\n', [1.8446744073709552e19]),
    "text.ndjson": ('{"id": "2026-01-01"}\n', [dt.datetime(2026, 1, 1)]),  # noqa: DTZ001 - without a zone
    "empty.ndjson": ('{"id": []}\n{"id": ["x"]}\n', [[], None]),
}


@pytest.mark.parametrize("name", TEXTS)
def test_text_is_compared_as_spillway_write_reads_it(name: str, tmp_path: Path) -> None:
    text, wrong = TEXTS[name]
    (tmp_path / name).write_text(text)
    pq.write_table(pa.table(wrong if isinstance(wrong, dict) else {"id": wrong}), tmp_path / "wrong")
    made = CliRunner().invoke(app, ["write", str(tmp_path / name), str(tmp_path / "good")])
    assert made.exit_code == 0, made.output
    options = {"SPILLWAY_CACHE": str(tmp_path / "cache")}
    for file, status in (("good", 0), ("wrong", 1)):
        done = run(tmp_path / file, "--against", tmp_path / name, "--engine", "pyarrow,duckdb", **options)
        assert done.exit_code == status, (file, done.output)


def test_a_column_of_the_names_of_folders_is_one_of_the_source(tmp_path: Path) -> None:
    (tmp_path / "h" / "k=1").mkdir(parents=True)
    (tmp_path / "h" / "k=1" / "rows.ndjson").write_text('{"id": 1}\n')
    made = CliRunner().invoke(app, ["write", str(tmp_path / "h"), str(tmp_path / "out")])
    assert made.exit_code == 0, made.output
    options = {"SPILLWAY_CACHE": str(tmp_path / "cache")}
    done = run(tmp_path / "out", "--against", tmp_path / "h", "--engine", "pyarrow", **options)
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["good", "--against", "source", "--engine", "hive"], "accepted are spark, pyarrow, polars, duckdb"),
        (["good", "--against", "source", "--engine", "pyarrow", "--rows", "5"], "holds 4 rows"),
        (["good", "--against", "absent", "--engine", "pyarrow"], "absent.parquet: no such file or folder"),
        (["absent", "--against", "source", "--engine", "pyarrow"], "absent.parquet: No such file"),
    ],
)
def test_what_cannot_be_compared_exits_with_two(
    files: dict[str, Path], tmp_path: Path, arguments: list[str], said: str
) -> None:
    places = {**files, "absent": tmp_path / "absent.parquet"}
    done = run(*[places.get(argument, argument) for argument in arguments])
    assert done.exit_code == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
