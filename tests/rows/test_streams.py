"""Rows of files and iterators are written as they come; those of lists and bytes all, or none of them."""

from __future__ import annotations

import io
import json
import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import spillway

from ..counts import count, examples
from ..faults.programs import run
from .test_every_writer import BAD, FIELDS, GOOD, LATE, MANY, PLACES, Writer, written

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


def file_of(rows: list[Any]) -> io.BytesIO:
    return io.BytesIO("".join(json.dumps(row) + "\n" for row in rows).encode())


#: The forms of a call whose rows are all there, and of one whose rows come.
WHOLE: dict[str, Callable[[Writer, list[Any]], int]] = {
    "list": lambda writer, rows: writer.write_rows(rows),
    "tuple": lambda writer, rows: writer.write_rows(tuple(rows)),
    "bytes": lambda writer, rows: writer.write_ndjson(file_of(rows).getvalue()),
}
COMING: dict[str, Callable[[Writer, list[Any]], int]] = {
    "iterator": lambda writer, rows: writer.write_rows(iter(rows)),
    "file": lambda writer, rows: writer.write_ndjson(file_of(rows)),
}


@pytest.mark.parametrize("form", [*WHOLE, *COMING])
@settings(max_examples=examples(0.1))
@given(st.lists(GOOD | BAD, max_size=20))
def test_a_bad_row_keeps_those_after_it_out_and_all_of_a_call_that_is_there(
    form: str, rows: list[Any]
) -> None:
    def write(writer: Writer) -> tuple[int | None, int]:
        try:
            first = (WHOLE | COMING)[form](writer, rows)
        except spillway.RowError as error:
            return error.row, writer.write_rows([{"id": 7}])
        return None, first

    found = written(FIELDS, write)
    bad, more = found["file"][0]
    kept = len(rows) if bad is None else 0 if form in WHOLE else bad
    assert all(said == found["file"] for said in found.values())
    assert len(found["file"][1]) == kept + (more if bad is not None else 0)


@pytest.mark.parametrize("form", COMING)
@pytest.mark.parametrize("name", PLACES)
def test_rows_before_a_late_bad_one_are_kept_and_the_writer_goes_on(
    form: str, name: str, tmp_path: Path
) -> None:
    rows: list[dict[str, Any]] = [{"id": number, "name": "text" * 200} for number in range(MANY)]
    rows[LATE] = {"id": "fifteen thousand"}
    with PLACES[name].open(tmp_path, FIELDS) as writer:
        with pytest.raises(spillway.RowError, match=f"row {LATE}"):
            COMING[form](writer, rows)
        assert COMING[form](writer, rows[LATE + 1 :]) == MANY - LATE - 1
    assert PLACES[name].read(tmp_path)["id"].to_pylist() == [n for n in range(MANY) if n != LATE]


@pytest.mark.parametrize("form", COMING)
def test_a_row_that_breaks_a_constraint_is_named_by_its_place_after_the_rows_that_are_kept(
    form: str, tmp_path: Path
) -> None:
    table = spillway.delta.create(tmp_path / "t", FIELDS)
    table.add_constraint("small", f"id <> {LATE}")
    rows = [{"id": number, "name": "text" * 200} for number in range(MANY)]
    with table.append() as append, pytest.raises(spillway.errors.ConstraintError) as caught:
        COMING[form](append, rows)
    kept = pa.table(table.scan())["id"].to_pylist()
    assert kept == list(range(len(kept)))
    assert f"row {LATE - len(kept)} has id = {LATE}" in str(caught.value)
    assert f"the first {len(kept)} of" in str(caught.value) or not kept


class Breaking(io.BytesIO):
    """A file that breaks off after its content."""

    def read(self, size: int | None = -1) -> bytes:
        read = super().read(size)
        if not read:
            raise OSError("the disk is gone")
        return read


@pytest.mark.parametrize(("text", "rows"), [(b' 1}\n{"id": 2}\n{"id', [1, 2, 3]), (b" 1", [1, 3])])
def test_a_line_that_a_broken_file_began_is_dropped_and_one_before_it_is_not(
    text: bytes, rows: list[int]
) -> None:
    file = io.BytesIO()
    with spillway.ParquetWriter(file, FIELDS) as writer:
        writer.write_ndjson(b'{"id":')
        with pytest.raises(OSError, match="the disk is gone"):
            writer.write_ndjson(Breaking(text))
        # The line goes on where none ended.
        writer.write_ndjson(b'{"id": 3}\n' if len(rows) == 3 else b' 1}\n{"id": 3}\n')
    assert pa.parquet.read_table(file)["id"].to_pylist() == rows


# Reads rows that are made meanwhile, and tells by how much the high-water mark of resident memory rose.
MEASURE = """
    import json, sys
    import pyarrow as pa, spillway
    form, most, limit = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    kinds = [pa.int64(), pa.string(), pa.float64(), pa.timestamp("us")] * 10
    schema = pa.schema({f"c{i}": kind for i, kind in enumerate(kinds)})
    def row(n):
        values = (n * 7919 % 1_000_003, f"text number {n * 31 % 65_537}", n / 7, "2026-11-28T08:00:00.123456")
        return {name: values[i % 4] for i, name in enumerate(schema.names)}
    rows = [row(n) for n in range(2_000)]
    block = "".join(json.dumps(row) + "\\n" for row in rows).encode()
    times = most // len(block)
    class File:
        left = times
        def read(self, size):
            self.left -= 1
            return block if self.left >= 0 else b""
    def status(key):
        return next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith(key))
    with spillway.ParquetWriter("/dev/null", schema, memory_limit=limit) as writer:
        before = status("VmRSS")
        open("/proc/self/clear_refs", "w").write("5")
        if form == "file":
            written = writer.write_ndjson(File())
        else:
            written = writer.write_rows(row for _ in range(times) for row in rows)
    assert written == times * len(rows)
    print(json.dumps(status("VmHWM") - before))
"""

#: Bytes that wait beside the limit: rows on their way into a batch, and batches that are written together.
BESIDE = 14_000_000


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize("form", COMING)
def test_rows_that_come_take_little_more_memory_than_the_limit(form: str) -> None:
    most = count(quick=40_000_000, ci=100_000_000, soak=1_000_000_000)
    grown = run(MEASURE, form, str(most), "16MB")
    assert grown <= 16_000_000 + BESIDE


def test_rows_before_an_iterator_raises_are_written_without_a_schema_too(tmp_path: Path) -> None:
    def rows() -> Iterator[dict[str, int]]:
        yield {"a": 1}
        raise ValueError("no more")

    for schema in (None, pa.schema({"a": pa.int64()})):
        writer = spillway.ParquetWriter(tmp_path / "a.parquet", schema)
        with pytest.raises(ValueError, match="no more"):
            writer.write_rows(rows())
        writer.close()
        assert pq.read_table(tmp_path / "a.parquet").to_pylist() == [{"a": 1}]


@pytest.mark.parametrize("schema", [None, pa.schema({"id": pa.int64()})])
def test_rows_before_a_file_breaks_are_written_without_a_schema_too(schema: pa.Schema | None) -> None:
    file = io.BytesIO()
    writer = spillway.ParquetWriter(file, schema)
    with pytest.raises(OSError, match="the disk is gone"):
        writer.write_ndjson(Breaking(b'{"id": 1}\n{"id": 2}\n{"id'))
    writer.write_ndjson(b'{"id": 3}\n')
    writer.close()
    assert pq.read_table(file).to_pylist() == [{"id": 1}, {"id": 2}, {"id": 3}]


def test_a_file_that_breaks_within_its_first_line_fixes_no_columns() -> None:
    file = io.BytesIO()
    with spillway.ParquetWriter(file) as writer:
        with pytest.raises(OSError, match="the disk is gone"):
            writer.write_ndjson(Breaking(b'{"id": 1'))
        writer.write_ndjson(b'{"other": 3}\n')
    assert pq.read_table(file).to_pylist() == [{"other": 3}]


def test_a_byte_order_mark_may_come_in_a_chunk_before_the_file_that_goes_on() -> None:
    file = io.BytesIO()
    with spillway.ParquetWriter(file) as writer:
        writer.write_ndjson(b'\xef\xbb\xbf{"a"')
        writer.write_ndjson(io.BytesIO(b": 1}\n"))
    assert pq.read_table(file)["a"].to_pylist() == [1]


# A line of 32 MiB in pieces of a KiB. Copied for each of them, it took minutes.
PIECES = """
    import json, resource, pyarrow as pa, spillway
    piece = b"x" * 1024
    with spillway.ParquetWriter("/dev/null", pa.schema({"v": pa.string()})) as writer:
        writer.write_ndjson(b'{"v":"')
        for _ in range(32_768):
            writer.write_ndjson(piece)
        written = writer.write_ndjson(b'"}\\n')
    assert written == 1
    print(json.dumps(resource.getrusage(resource.RUSAGE_SELF).ru_utime))
"""


def test_a_long_line_in_small_pieces_is_not_copied_for_each_of_them() -> None:
    assert run(PIECES) < 10


# Large rows behind small ones, and the high-water mark of resident memory as above.
LARGE = """
    import json, sys
    import pyarrow as pa, spillway
    form = sys.argv[1]
    text, count = "x" * (5 << 20), 62
    def lines():
        yield from [b'{"v":"s"}\\n'] * 65
        line = b'{"v":"' + text.encode() + b'"}\\n'
        yield from [line] * count
    class File:
        left = lines()
        def read(self, size):
            return next(self.left, b"")
    def rows():
        yield from [{"v": "s"}] * 65
        yield from [{"v": text}] * count
    def status(key):
        return next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith(key))
    with spillway.ParquetWriter("/dev/null", pa.schema({"v": pa.string()}), memory_limit="48MB") as writer:
        before = status("VmRSS")
        open("/proc/self/clear_refs", "w").write("5")
        written = writer.write_ndjson(File()) if form == "file" else writer.write_rows(rows())
    assert written == 65 + count
    print(json.dumps(status("VmHWM") - before))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize("form", COMING)
def test_large_rows_behind_small_ones_do_not_wait_for_more(form: str) -> None:
    # Sixty-two of them are 325 MB.
    assert run(LARGE, form) < 200_000_000


def test_each_file_of_ndjson_may_have_a_byte_order_mark(tmp_path: Path) -> None:
    with spillway.ParquetWriter(tmp_path / "a.parquet") as writer:
        for number in (1, 2):
            writer.write_ndjson(io.BytesIO(f'\ufeff{{"a":{number}}}\n'.encode()))
    assert pq.read_table(tmp_path / "a.parquet")["a"].to_pylist() == [1, 2]


def test_a_chunk_that_no_type_is_inferred_from_keeps_the_line_before_it(tmp_path: Path) -> None:
    with spillway.ParquetWriter(tmp_path / "a.parquet") as writer:
        writer.write_ndjson(b'{"a":1', on_error="skip")
        with pytest.raises(spillway.SchemaError):
            writer.write_ndjson(b'}\n{"a":"x"}\n', on_error="skip")
        writer.write_ndjson(b'}\n{"a":2}\n', on_error="skip")
    assert pq.read_table(tmp_path / "a.parquet")["a"].to_pylist() == [1, 2]


def test_a_block_that_cannot_complete_its_last_line_leaves_nothing(tmp_path: Path) -> None:
    def taken(make: Any) -> Any:
        with pytest.raises(spillway.RowError), make() as writer:
            writer.write_ndjson(b'{"a":1}\n{"a":')
        return writer

    budget = spillway.MemoryBudget("64MB", writers=1)
    writer = taken(lambda: spillway.ParquetWriter(tmp_path / "a.parquet", memory_limit=budget))
    assert writer.closed
    assert taken(lambda: spillway.DatasetWriter(tmp_path / "to", memory_limit=budget)).closed
    assert list(tmp_path.rglob("*.tmp")) == list(tmp_path.rglob("*.parquet")) == []
