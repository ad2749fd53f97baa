"""The result of a file as text and as a table."""

from __future__ import annotations

import io
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.fs

import spillway

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


class Cells(HTMLParser):
    """The cells of a table, row by row."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.open = 0
        self.feed(text)

    def handle_starttag(self, tag: str, _attributes: object) -> None:
        self.open += 1
        if tag == "tr":
            self.rows.append([])

    def handle_endtag(self, _tag: str) -> None:
        self.open -= 1

    def handle_data(self, data: str) -> None:
        if self.rows:
            self.rows[-1].append(data)


def test_a_result_says_where_its_file_is(
    table: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "rows.parquet"
    assert spillway.write_parquet(table, path).path == str(path)
    assert spillway.write_parquet(table, "rows.parquet").path == "rows.parquet"
    assert spillway.write_parquet(table, io.BytesIO()).path is None
    local = pyarrow.fs.LocalFileSystem()
    assert spillway.write_parquet(table, str(path), filesystem=local).path == str(path)
    files = spillway.write_dataset(table, tmp_path / "many").files
    assert [file.result.path for file in files] == [str(file.path) for file in files]


def test_a_result_prints_as_one_short_line(table: pa.Table, tmp_path: Path) -> None:
    result = spillway.write_parquet(table, tmp_path / "rows.parquet")
    columns = "id, word, note, score, seen and 1 more"
    assert repr(result) == (
        f"WriteResult(rows=6000, bytes={result.bytes}, row_groups=1, columns=<{columns}>, "
        f"path={str(tmp_path / 'rows.parquet')!r})"
    )
    wide = pa.table({f"column_{i}": [1] for i in range(1_000)})
    assert len(repr(spillway.write_parquet(wide, io.BytesIO()))) < 200


def test_a_notebook_shows_the_columns_the_largest_first(table: pa.Table) -> None:
    result = spillway.write_parquet(table, io.BytesIO(), row_group_rows=4_000)
    html = Cells(result._repr_html_())
    assert html.open == 0
    heads, *rows = html.rows
    assert heads[0] == "column"
    assert {row[0] for row in rows} == {column.path for column in result.columns}
    sizes = [int(row[6].replace(",", "")) for row in rows]
    assert sizes == sorted(sizes, reverse=True)
    assert abs(sum(float(row[7].rstrip("%")) for row in rows) - 100) < 1
    assert "2 row groups" in result._repr_html_()


def test_names_are_text_and_no_tags(tmp_path: Path) -> None:
    path = tmp_path / "<i>.parquet"
    html = spillway.write_parquet(pa.table({"<b>&": [1]}), path)._repr_html_()
    assert "&lt;b&gt;&amp;" in html
    assert "<i>" not in html
    assert spillway.write_parquet(pa.table({"a": pa.array([], pa.int8())}), path)._repr_html_()


def test_a_very_wide_file_is_a_short_table() -> None:
    wide = pa.table({f"column_{i}": [1] for i in range(1_000)})
    html = spillway.write_parquet(wide, io.BytesIO())._repr_html_()
    assert html.count("<tr>") == 102
    assert "900 smaller columns" in html
