"""The command in this process, and rows in every format that it reads."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from spillway.cli.app import app

if TYPE_CHECKING:
    from pathlib import Path

ROWS: list[dict[str, Any]] = [
    {"id": number, "name": None if number % 7 == 3 else f"name {number % 5}", "price": number / 4}
    for number in range(300)
]
TABLE = pa.Table.from_pylist(ROWS)


def rows_as(form: str) -> list[dict[str, Any]]:
    """The rows as a format has them: CSV knows no null of text."""
    return [row | {"name": row["name"] or ""} for row in ROWS] if form == "csv" else ROWS


CODECS = {"": None, ".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".lz4": "lz4"}


def run(*arguments: object, stdin: bytes | None = None) -> Result:
    """Run `spillway write`; bytes go through its standard input."""
    return CliRunner().invoke(app, ["write", *map(str, arguments)], input=stdin)


def written(*arguments: object, stdin: bytes | None = None) -> pa.Table:
    """The rows of the file that the last argument names, once the command has written it."""
    result = run(*arguments, stdin=stdin)
    assert result.exit_code == 0, result.output
    return pq.ParquetFile(str(arguments[-1])).read()


def refused(*arguments: object, stdin: bytes | None = None) -> str:
    """The reason why the command cannot go on, on one line."""
    result = run(*arguments, stdin=stdin)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    return " ".join(result.stderr.split())


def encoded(form: str, table: pa.Table = TABLE) -> bytes:
    """A table as a file of a format: parquet, arrow, arrows, csv or ndjson."""
    sink = io.BytesIO()
    if form == "parquet":
        pq.write_table(table, sink, row_group_size=64)
    elif form == "arrow":
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=50)
    elif form == "arrows":
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table, max_chunksize=50)
    elif form == "csv":
        pa.csv.write_csv(table, sink)
    else:
        sink.write("".join(json.dumps(row) + "\n" for row in table.to_pylist()).encode())
    return sink.getvalue()


def compressed(content: bytes, codec: str | None) -> bytes:
    """The bytes of a file that is compressed as a whole."""
    if codec is None:
        return content
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        stream.write(content)
    return sink.getvalue().to_pybytes()


def names(folder: Path) -> set[str]:
    """All that is in a folder, hidden files too."""
    return {path.name for path in folder.iterdir()}


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A folder for outputs, where what is left behind is seen."""
    folder = tmp_path / "out"
    folder.mkdir()
    return folder
