from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner, Result

import spillway
from spillway.cli.inspect import SCHEMA, inspect

ROWS = 3_000


def run(*arguments: object) -> Result:
    app = typer.Typer()
    app.command()(inspect)
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def document(*arguments: object) -> dict[str, Any]:
    """What is printed as JSON, which fits its schema."""
    found: dict[str, Any] = json.loads(run(*arguments, "--json").stdout)
    SCHEMA.check(found)
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    table = pa.table(
        {
            "id": pa.array(range(ROWS), pa.int64()),
            "name": [f"name-{i % 10}" if i % 4 else None for i in range(ROWS)],
            "http": [{"status": 200, "size": i} for i in range(ROWS)],
        }
    )
    pq.write_table(
        table,
        tmp_path / "rows.parquet",
        row_group_size=1_000,
        write_page_index=True,
        compression="zstd",
        sorting_columns=[pq.SortingColumn(0)],
    )
    return tmp_path / "rows.parquet"


def test_a_summary_and_one_line_a_column_are_shown(path: Path) -> None:
    result = run(path)
    assert result.exit_code == 0
    assert str(path) in result.output
    assert re.search(r"rows +3,000", result.output)
    assert re.search(r"row groups +3, 1,000 rows each on average", result.output)
    assert re.search(r"written by +parquet-cpp-arrow", result.output)
    encoding, size = (line for line in result.output.splitlines() if line.strip().startswith("name"))
    assert re.search(r"string +ZSTD +RLE_DICTIONARY 3 *$", encoding)
    assert re.search(r" 25\.0% +3 +dict, indexes *$", size)
    assert re.search(r"http\.status .*http\.size ", result.output, re.DOTALL)
    assert "column chunks" not in result.output


def test_shares_are_of_the_whole_file(path: Path) -> None:
    shares = [float(share) for share in re.findall(r" ([\d.]+)% +[\d.]+ +[\d.]+% ", run(path).output)]
    assert len(shares) == 4
    assert 30 < sum(shares) < 100


def test_row_groups_are_shown_when_asked_for(path: Path) -> None:
    result = run(path, "--row-groups")
    assert result.exit_code == 0
    assert len(re.findall(r"^ +[012] +1,000 .* id$", _trimmed(result), re.MULTILINE)) == 3
    assert re.search(r"^ +2 +id +ZSTD +PLAIN 1 ", result.output, re.MULTILINE)
    assert re.search(r"^ +2 +id +[\d.]+ KiB +[\d.]+ +1,000 +dict, indexes *$", result.output, re.MULTILINE)
    assert re.search(r"^ +2 +id +0 +\? +2000 +2999 *$", result.output, re.MULTILINE)


# What `script` shows a program is a terminal; how wide it is, COLUMNS says.
def shown_on_a_terminal(columns: int, *arguments: object) -> list[str]:
    program = shlex.join(
        [sys.executable, "-c", "from spillway.cli import main; main()", "inspect", *map(str, arguments)]
    )
    done = subprocess.run(
        ["script", "-qefc", program, "/dev/null"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={**os.environ, "COLUMNS": str(columns), "TERM": "xterm"},
    )
    return [re.sub(r"\x1b\[[\d;]*m", "", line).rstrip() for line in done.stdout.splitlines()]


def test_everything_fits_a_terminal_of_80_columns_with_no_word_broken(path: Path) -> None:
    lines = shown_on_a_terminal(80, "--row-groups", path.name if path.parent == Path.cwd() else path)
    tables = [line for line in lines if str(path) not in line]
    assert max(map(len, tables)) <= 80
    text = "\n".join(tables)
    for word in ("RLE_DICTIONARY 3", "http.status", "dict, indexes", "25.0%", "name-0"):
        assert re.search(rf"(^|\s|\b){re.escape(word)}", text), word


def test_a_wide_terminal_shows_one_table(path: Path) -> None:
    (line,) = [line for line in shown_on_a_terminal(200, path) if line.split()[:1] == ["name"]]
    assert re.search(r"string +ZSTD +RLE_DICTIONARY 3 .* 25\.0% +3 +dict, indexes$", line)


def test_a_pipe_is_narrow_and_folds_nothing(tmp_path: Path) -> None:
    name = "a.very.long.name.of.a.column." * 4
    pq.write_table(pa.table({name: [1], "short": ["x"]}), tmp_path / "rows.parquet")
    program = [
        sys.executable,
        "-c",
        "from spillway.cli import main; main()",
        "inspect",
        tmp_path / "rows.parquet",
    ]
    shown = subprocess.run(program, capture_output=True, text=True, check=True, timeout=60).stdout
    assert len([line for line in shown.splitlines() if line.split()[:1] == [name]]) == 2
    assert len([line for line in shown.splitlines() if line.split()[:1] == ["short"]]) == 2


def test_one_column_is_shown_alone(path: Path) -> None:
    result = run(path, "--column", "name", "--row-groups")
    assert result.exit_code == 0
    assert "name-9" in result.output
    assert "http" not in result.output


def test_a_nested_column_is_shown_with_what_is_inside(path: Path) -> None:
    output = run(path, "--column", "http").output
    assert "http.status" in output
    assert "http.size" in output
    assert " name " not in output


def test_a_column_that_is_not_there_is_refused_with_those_that_are(path: Path) -> None:
    result = run(path, "--column", "nam")
    assert result.exit_code == 2
    assert result.stderr.strip().endswith("no column nam; there are: id, name, http.status, http.size")


def test_json_holds_everything(path: Path) -> None:
    (report,) = document(path)["files"]
    assert (report["path"], report["rows"], report["bytes"]) == (str(path), ROWS, path.stat().st_size)
    column = report["row_groups"][1]["columns"][1]
    assert (column["path"], column["nulls"], column["min"], column["max"]) == (
        "name",
        250,
        "name-0",
        "name-9",
    )
    assert {"page_type": "DICTIONARY_PAGE", "encoding": "PLAIN", "pages": 1} in column["encoding_stats"]


def test_json_is_narrowed_to_a_column(path: Path) -> None:
    (report,) = document(path, "--column", "id")["files"]
    assert [[column["path"] for column in group["columns"]] for group in report["row_groups"]] == [["id"]] * 3


def test_good_files_are_shown_beside_bad_ones_and_the_exit_code_tells(path: Path) -> None:
    text = path.parent / "rows.csv"
    text.write_text("id\n1\n")
    result = run(text, path, path.parent / "absent.parquet", path.parent, "--json")
    assert result.exit_code == 2
    assert [report["path"] for report in json.loads(result.stdout)["files"]] == [str(path)]
    assert result.stderr.splitlines() == [
        f"spillway inspect: {text}: not a Parquet file: it does not begin with PAR1",
        f"spillway inspect: {path.parent / 'absent.parquet'}: No such file or directory",
        f"spillway inspect: {path.parent}: Is a directory",
    ]


def test_pages_are_shown_when_asked_for(path: Path) -> None:
    result = run(path, "--pages", "--column", "name")
    assert result.exit_code == 0
    shown = re.findall(r"^ +([012]) +name +[\d,]+ +(\w+) +(\w+) ", result.output, re.MULTILINE)
    each = [("DICTIONARY_PAGE", "PLAIN"), ("DATA_PAGE", "RLE_DICTIONARY")]
    assert shown == [(group, *page) for group in "012" for page in each]
    assert re.search(
        r"^ +1 +name +[\d,]+ +0 +1,000 +1,000 +250 +name-0 +name-9 *$", result.output, re.MULTILINE
    )
    assert "DATA_PAGE" not in run(path).output


def test_json_holds_pages_and_is_what_its_schema_says(path: Path) -> None:
    whole = document(path)
    assert (whole["schema_version"], whole["comparison"]) == (1, None)
    chunks = [chunk for group in whole["files"][0]["row_groups"] for chunk in group["columns"]]
    assert {chunk["pages"] for chunk in chunks} == {None}
    (report,) = document(path, "--pages")["files"]
    for group in report["row_groups"]:
        for chunk in group["columns"]:
            stored = sum(page["compressed_bytes"] for page in chunk["pages"])
            assert stored == chunk["compressed_bytes"]
    spillway.write_parquet(pa.table({"id": [1]}), path.parent / "other.parquet")
    compared = document(path, path.parent / "other.parquet", "--pages")
    assert len(compared["files"]) == 2
    absent = [each["path"] for each in compared["comparison"]["columns"] if each["right"] is None]
    assert absent == ["name", "http.status", "http.size"]
    assert document(path, path, path)["comparison"] is None


def test_two_files_are_compared_and_the_exit_code_tells(path: Path) -> None:
    other = path.parent / "other.parquet"
    table = pq.read_table(path)
    other.write_bytes(path.read_bytes())
    alike = run(path, other)
    assert alike.exit_code == 0
    assert "alike: id, name, http.status, http.size" in alike.output
    assert "columns that differ" not in alike.output
    changed = table.set_column(0, "id", table["id"].cast(pa.int32())).append_column("new", table["name"])
    pq.write_table(
        changed.drop_columns(["http"]), other, compression={"id": "zstd", "name": "snappy", "new": "none"}
    )
    result = run(path, other)
    assert result.exit_code == 1
    named = re.findall(r"^ (\S+) +(?:schema|encodings|sizes)", result.output, re.MULTILINE)
    # Schemas first: another type, columns of one file alone; then what is encoded in another way.
    assert named[:5] == ["id", "http.status", "http.size", "new", "name"]
    assert re.search(
        r"^ id +schema, .* INT64, levels 1 and 0 → INT32, levels 1 and 0", result.output, re.MULTILINE
    )
    assert re.search(r"^ new +schema .*absent → string as BYTE_ARRAY", result.output, re.MULTILINE)
    assert re.search(r"ZSTD → SNAPPY", result.output)
    assert re.search(r"rows +3,000$", _trimmed(result), re.MULTILINE)
    assert run(path, other, "--column", "name", "--row-groups").exit_code == 1
    assert run(path, other, path).exit_code == 0


def test_chosen_columns_are_compared_alone(path: Path) -> None:
    other = path.parent / "other.parquet"
    table = pq.read_table(path)
    pq.write_table(
        table.set_column(0, "id", pa.array([1] * ROWS)),
        other,
        row_group_size=1_000,
        write_page_index=True,
        compression="zstd",
    )
    assert run(path, other).exit_code == 1
    assert run(path, other, "--column", "name", "--column", "http").exit_code == 0
    assert run(path, other, "--column", "id").exit_code == 1


def test_what_differs_of_the_files_as_wholes_is_named(path: Path) -> None:
    other = path.parent / "other.parquet"
    table = pq.read_table(path)
    pq.write_table(table, other, row_group_size=1_000, write_page_index=True, compression="zstd")
    result = run(path, other)
    assert result.exit_code == 1
    assert re.search(r"differs: .*sorting_columns", result.output)
    assert "nothing differs" not in result.output


def test_groups_whose_schema_differs_are_shown_beside_columns_that_differ(tmp_path: Path) -> None:
    for name, is_nullable, codec in (("a", True, "zstd"), ("b", False, "snappy")):
        group = pa.struct([pa.field("x", pa.int64(), nullable=is_nullable)])
        schema = pa.schema([pa.field("group", group, nullable=not is_nullable), ("other", pa.int64())])
        table = pa.table({"group": [{"x": 1}], "other": [2]}, schema=schema)
        pq.write_table(table, tmp_path / name, compression={"group.x": "zstd", "other": codec})
    output = run(tmp_path / "a", tmp_path / "b").output
    assert re.search(r"differs: schema", output)
    assert re.search(r"^ *- *required group .*group", output, re.MULTILINE | re.IGNORECASE)
    assert re.search(r"^ *\+ *optional group .*group", output, re.MULTILINE | re.IGNORECASE)
    assert re.search(r"ZSTD → SNAPPY", output)


def test_a_chosen_column_of_one_file_alone_is_compared(path: Path) -> None:
    other = path.parent / "other.parquet"
    pq.write_table(pq.read_table(path).drop_columns(["name"]), other)
    result = run(path, other, "--column", "name", "--row-groups", "--pages")
    assert result.exit_code == 1
    assert re.search(r"^ name +schema .* → absent", result.output, re.MULTILINE)
    (compared,) = document(path, other, "--column", "name")["comparison"]["columns"]
    assert (compared["path"], compared["right"]) == ("name", None)
    neither = run(path, other, "--column", "nam")
    assert neither.exit_code == 2
    assert neither.stderr.count("no column nam") == 2
    # Files that are shown, not compared, have the column each.
    assert run(path, other, path, "--column", "name").exit_code == 2


def test_a_file_that_cannot_be_shown_is_compared_with_nothing(path: Path) -> None:
    result = run(path, path.parent / "absent.parquet")
    assert result.exit_code == 2
    assert re.search(r"rows +3,000", result.output)
    assert "alike" not in result.output


def test_names_in_a_file_are_neither_markup_nor_escapes(tmp_path: Path) -> None:
    pq.write_table(pa.table({"[red]x[/]\x1b[2J": ["[bold]\x1b]0;title\x07"]}), tmp_path / "odd.parquet")
    result = run(tmp_path / "odd.parquet", "--row-groups")
    assert result.exit_code == 0
    assert "[red]x[/]" in result.output
    assert "[bold]" in result.output
    assert "\x1b" not in result.output


def _trimmed(result: Result) -> str:
    return "\n".join(line.rstrip() for line in result.output.splitlines())


@pytest.mark.parametrize("options", [[], ["--pages"], ["--json", "--pages"]])
def test_an_output_that_is_closed_early_is_no_difference_of_files(path: Path, options: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)  # as `head` does once it has its lines
    program = "from spillway.cli.app import app; app()"
    with os.fdopen(writing, "wb") as output:
        ended = subprocess.run(
            [sys.executable, "-c", program, "inspect", path, *options],
            stdout=output,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert ended.returncode == 141
    assert ended.stderr == b""
