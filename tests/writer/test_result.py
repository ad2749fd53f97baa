"""The result of a file as text and as a table."""

from __future__ import annotations

import dataclasses
import io
import time
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.fs
import pytest

import spillway

if TYPE_CHECKING:
    from pathlib import Path


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


def words(rows: int, different: int) -> list[str]:
    return [f"the text of row {number * 7919 % different:,}, in words" for number in range(rows)]


@pytest.mark.parametrize(
    ("values", "options", "reason"),
    [
        (range(5_000), {"encoding": "plain"}, "named"),
        ([True, False] * 50, {}, "only"),
        (pa.nulls(50, pa.int32()), {}, "only"),
        (pa.array(words(5_000, 9)).dictionary_encode(), {}, "given"),
        (words(5_000, 9), {}, "repeats"),
        (range(5_000), {}, "lightest"),
        (words(20_000, 9) + words(50_000, 2_500), {"dictionary_page_bytes": 1 << 14}, "full"),
        (words(4_000, 1_000) + words(60_000, 60_000), {"page_rows": 4_000}, "outweighed"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.parametrize("groups", [1, 2])
def test_a_column_says_why_it_has_its_encodings(
    values: Any, options: dict[str, Any], reason: str, groups: int
) -> None:
    table = pa.table({"a": values})
    with spillway.ParquetWriter(io.BytesIO(), table.schema, **options) as writer:
        for _ in range(groups):
            writer.write(table)
            writer.flush()
    (column,) = writer.result.columns
    assert column.reason == reason
    assert f"<td>{reason}</td>" in writer.result._repr_html_()


@pytest.mark.parametrize("threads", [1, 3])
def test_the_seconds_of_a_file_are_those_of_its_stages(table: pa.Table, threads: int) -> None:
    started = time.monotonic()
    with spillway.ParquetWriter(io.BytesIO(), table.schema, threads=threads) as writer:
        writer.write(table)
        writer.flush()
    seconds = dataclasses.astuple(writer.result.seconds)
    passed = time.monotonic() - started
    assert all(second > 0 for second in seconds)
    assert sum(seconds) <= passed * threads
    assert "compress 0." in writer.result._repr_html_()


def test_the_time_between_calls_is_that_of_waiting(table: pa.Table) -> None:
    with spillway.ParquetWriter(io.BytesIO(), table.schema) as writer:
        writer.write(table)
        started = time.monotonic()
        time.sleep(0.05)
        slept = time.monotonic() - started
    assert writer.result.seconds.wait >= slept


def test_a_dataset_prints_as_one_short_line_and_is_a_table_of_files(tmp_path: Path) -> None:
    rows = pa.table({"k": ["<b>", None] * 300, "n": range(600)})
    result = spillway.write_dataset(rows, tmp_path / "d", partition_by="k", max_file_rows=4)
    assert repr(result) == f"DatasetResult(rows=600, bytes={result.bytes}, files=<150 files>)"
    html = Cells(result._repr_html_())
    assert html.open == 0
    assert len(html.rows) == 102
    assert html.rows[1][1:3] == ["k=<b>", "4"]
    assert html.rows[-1] == ["50 more files"]


def test_a_very_wide_file_is_a_short_table() -> None:
    wide = pa.table({f"column_{i}": [1] for i in range(1_000)})
    html = spillway.write_parquet(wide, io.BytesIO())._repr_html_()
    assert html.count("<tr>") == 102
    assert "900 smaller columns" in html
