"""Arrays that break the rules of the Arrow format are an error: no panic, crash or wrong file."""

from __future__ import annotations

import ctypes
import io
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import spillway

from .tampering import CArray, Tampered, with_buffer, with_length

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TEXT = pa.array(["ab", "c", "def"])
LISTS = pa.array([[1, 2], [3]])
TEXTS = pa.array([["a", "b"], ["c"]])
WORDS = pa.array(["a", "b", "a"]).dictionary_encode()
VIEWS = pa.array(["x" * 20, "y" * 20], pa.string_view())
LIST_VIEWS = pa.array([[1, 2], [3]], pa.list_view(pa.int64()))
MAPS = pa.array([[("a", 1)], [("b", 2)]], pa.map_(pa.string(), pa.int64()))
RUNS = pa.RunEndEncodedArray.from_arrays(pa.array([2, 5], pa.int32()), pa.array([1, 2]))
STRUCTS = pa.array([{"s": "ab"}, {"s": "c"}])
NUMBERS = pa.array([1, 2, 3])
HILL = np.r_[np.arange(15_001), np.arange(14_999, -1, -1)]


def view(length: int, buffer: int, offset: int) -> list[int]:
    return [length, int.from_bytes(b"xxxx", "little"), buffer, offset]


# The column, the change to it, and what is said of it.
Case = tuple[pa.Array, "Callable[[CArray], None]", str]
OFFSETS: dict[str, Case] = {
    "text goes down": (TEXT, with_buffer(1, [0, 5, 2, 6]), "offsets"),
    "text begins before": (TEXT, with_buffer(1, [-4, 2, 3, 6]), "offsets"),
    "text ends before": (TEXT, with_buffer(1, [0, 2, 3, -6]), "offsets"),
    "text is negative": (TEXT, with_buffer(1, [0, -2, 3, 6]), "offsets"),
    "text goes beyond": (TEXT, with_buffer(1, [0, 2**31 - 1, 3, 6]), "offsets"),
    "large text goes beyond": (
        TEXT.cast(pa.large_string()),
        with_buffer(1, [0, 2**62, 3, 6], kind="i8"),
        "offsets",
    ),
    "much text goes down": (pa.array(["a"] * 30_000), with_buffer(1, HILL), "offsets"),
    "lists go beyond": (LISTS, with_buffer(1, [0, 2, 9]), "3 values, and needs 9"),
    "lists go down": (pa.array([[1, 2], [3], [4]]), with_buffer(1, [0, 3, 1, 4]), "a list has more"),
    "lists begin before": (LISTS, with_buffer(1, [-1, 3, 3]), "offsets"),
    "text in lists goes down": (TEXTS, with_buffer(1, [0, 2, 1, 3], 0), "offsets"),
    "maps go beyond": (MAPS, with_buffer(1, [0, 1, 9]), "2 values, and needs 9"),
    "list views go beyond": (LIST_VIEWS, with_buffer(2, [2, 9]), "a list has more"),
    "list views begin before": (LIST_VIEWS, with_buffer(1, [0, -2]), "a list has more"),
    "no such buffer": (VIEWS, with_buffer(1, view(20, 3, 0) + view(20, 0, 0)), "not within its buffer"),
    "views go beyond": (VIEWS, with_buffer(1, view(20, 0, 10**7) + view(20, 0, 0)), "not within its buffer"),
    "views are negative": (VIEWS, with_buffer(1, view(-20, 0, 0) + view(20, 0, 0)), "not within its buffer"),
    "runs do not ascend": (RUNS, with_buffer(1, [1, 1], 0), "ends of runs"),
    "runs go down": (RUNS, with_buffer(1, [5, 1], 0), "ends of runs"),
    "runs begin before": (RUNS, with_buffer(1, [-5, 5], 0), "ends of runs"),
    "runs end early": (RUNS, with_buffer(1, [2, 4], 0), "ends of runs"),
}
VALUES: dict[str, Case] = {
    "a key too high": (WORDS, with_buffer(1, [0, 7, 1]), "a key names none of the 2 values"),
    "a key below zero": (WORDS, with_buffer(1, [0, -7, 1]), "a key names none"),
    "a key to numbers": (
        pa.array([1, 2, 1]).dictionary_encode(),
        with_buffer(1, [0, 2, 1]),
        "a key names none",
    ),
    "a key in a struct": (
        pa.StructArray.from_arrays([WORDS], ["s"]),
        with_buffer(1, [0, 2, 1], 0),
        '"x.s".*a key names none',
    ),
    "text": (TEXT, with_buffer(2, b"\xff\xfe\xc3abc"), r'"\\xff\\xfe"'),
    "text cut in a letter": (TEXT, with_buffer(2, "aéc def".encode()[:6]), "not UTF-8"),
    "text in a list": (TEXTS, with_buffer(2, b"a\xffc", 0), "not UTF-8"),
    "text in a struct": (STRUCTS, with_buffer(2, b"a\xffc", 0), '"x.s".*not UTF-8'),
    "text in a short view": (
        pa.array(["abc"], pa.string_view()),
        with_buffer(1, (3).to_bytes(4, "little") + b"a\xffc".ljust(12, b"\0")),
        "not UTF-8",
    ),
    "text in a view": (VIEWS, with_buffer(2, b"\xff" * 40), "not UTF-8"),
}
STRUCTS_OF_C: dict[str, Case] = {
    "a column too short": (NUMBERS, with_length(2, 0), '"x" has 2 values, and needs 3'),
    "a batch too long": (NUMBERS, with_length(5), '"x" has 3 values, and needs 5'),
    "a length below zero": (NUMBERS, with_length(-2, 0), "negative|needs 3"),
    "a batch of less than none": (NUMBERS, with_length(-2), "negative"),
    "an offset below zero": (NUMBERS, with_length(-1, 0, name="offset"), "negative"),
    "too few buffers": (NUMBERS, with_length(1, 0, name="n_buffers"), "1 buffers, and needs 2"),
    "no children": (NUMBERS, with_length(0, name="n_children"), "0 children, and needs 1"),
    "a list without its elements": (
        pa.array([[1, 2], [3, 4]], pa.list_(pa.int64(), 2)),
        with_length(3, 0, 0),
        "3 values, and needs 4",
    ),
    "a struct without its rows": (STRUCTS, with_length(1, 0, 0), '"x.s" has 1 values, and needs 2'),
}
CASES = OFFSETS | VALUES | STRUCTS_OF_C


def values_of(path: Path) -> list[Any]:
    """The values of the column, read row group by row group: pyarrow gathers no dictionaries in structs."""
    file = pq.ParquetFile(path)
    tables = (file.read_row_group(number, use_threads=False) for number in range(file.num_row_groups))
    return [value for table in tables for value in table["x"].to_pylist()]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(
    "options", [{}, {"threads": 2}, {"encoding": "plain"}, {"row_group_rows": 2}], ids=str
)
def test_what_breaks_the_rules_is_an_error_and_no_file(
    name: str, options: dict[str, Any], tmp_path: Path
) -> None:
    column, change, says = CASES[name]
    path = tmp_path / "a.parquet"
    with spillway.ParquetWriter(path, **options) as writer:
        with pytest.raises(spillway.SpillwayError, match=says) as caught:
            writer.write(Tampered(pa.record_batch({"x": column}), change))
        assert "panic" not in repr(caught.value)
        if not writer.closed:
            writer.write(pa.record_batch({"x": column}))
            writer.close()
            assert values_of(path) == column.to_pylist()
            return
        with pytest.raises(spillway.ClosedError, match="failed before"):
            writer.write(pa.record_batch({"x": column}))
        writer.abort()
    assert list(tmp_path.iterdir()) == []


# Runs have no validity of their own: they are expanded where rows of the batch are null.
RUNS_OF_VIEWS = pa.RunEndEncodedArray.from_arrays(pa.array([2, 5], pa.int32()), VIEWS)
RUNS_OF_TEXT = pa.RunEndEncodedArray.from_arrays(pa.array([2, 5], pa.int32()), TEXT.slice(0, 2))
RUNS_BESIDE_NULLS = {name: case for name, case in OFFSETS.items() if name.startswith("runs")} | {
    "a view beyond": (
        RUNS_OF_VIEWS,
        with_buffer(1, view(20, 0, 10**7) + view(20, 0, 0), 1),
        "not within its buffer",
    ),
    "text goes down": (RUNS_OF_TEXT, with_buffer(1, [0, 2**30, 3], 1), "offsets"),
}


@pytest.mark.parametrize("name", RUNS_BESIDE_NULLS)
def test_runs_that_break_the_rules_are_found_before_null_rows_are_put_into_them(name: str) -> None:
    column, change, says = RUNS_BESIDE_NULLS[name]
    nulls = ctypes.create_string_buffer(bytes([0b01111]), 64)

    def both(array: CArray) -> None:
        change(array)
        array.buffers[0] = ctypes.addressof(nulls)
        array.null_count = 1

    with (
        spillway.ParquetWriter(io.BytesIO()) as writer,
        pytest.raises(spillway.SpillwayError, match=f'"x" breaks the rules of the Arrow format: .*{says}'),
    ):
        writer.write(Tampered(pa.record_batch({"x": column}), both))


@pytest.mark.parametrize("name", OFFSETS | VALUES)
def test_what_breaks_the_rules_in_a_dataset_is_an_error_and_no_file(name: str, tmp_path: Path) -> None:
    column, change, says = CASES[name]
    batch = pa.record_batch({"x": column, "k": pa.array([1] * len(column))})
    with spillway.DatasetWriter(tmp_path / "d", partition_by="k") as writer:
        with pytest.raises(spillway.SpillwayError, match=says):
            writer.write(Tampered(batch, change))
        writer.write(batch)
    (file,) = (tmp_path / "d").rglob("*.parquet")
    assert pq.ParquetFile(file).read(use_threads=False)["x"].to_pylist() == column.to_pylist()


@pytest.mark.parametrize("sorting", ["verify", "sort"])
def test_what_breaks_the_rules_of_sorted_columns_is_an_error(sorting: str) -> None:
    column, change, says = CASES["text goes down"]
    file = io.BytesIO()
    with spillway.ParquetWriter(file, sorting_columns=["x"], sorting=sorting) as writer:
        with pytest.raises(spillway.SpillwayError, match=says):
            writer.write(Tampered(pa.record_batch({"x": column}), change))
        writer.write(pa.record_batch({"x": column}))
    assert pq.read_table(file)["x"].to_pylist() == column.to_pylist()


# A column, and the number and content of a buffer whose first slot is out of the rules.
GARBAGE: dict[str, tuple[pa.Array, int, Any]] = {
    "text": (pa.array(["a", "c"]), 2, b"\xffc"),
    "keys": (pa.array(["a", "c"]).dictionary_encode(), 1, [99, 1]),
    "views": (
        pa.array(["x" * 20, "y" * 20], pa.string_view()),
        1,
        [*view(20, 9, 9), 20, int.from_bytes(b"yyyy", "little"), 0, 20],
    ),
    "list views": (pa.array([[1], [3]], pa.list_view(pa.int64())), 1, [-9, 1]),
}


@pytest.mark.parametrize("name", GARBAGE)
@pytest.mark.parametrize("nulls", ["own", "those of a struct", "those of a list"])
def test_slots_that_nulls_hide_may_hold_anything(name: str, nulls: str) -> None:
    column, number, content = GARBAGE[name]
    expected = [None, column[1].as_py()]
    path: tuple[int, ...] = (0,)
    whole: pa.Array = column
    if nulls == "those of a struct":
        whole = pa.StructArray.from_arrays([column], ["s"])
        expected = [None, {"s": expected[1]}]
    elif nulls == "those of a list":
        whole = pa.ListArray.from_arrays([0, 1, 2], column)
        expected = [None, [expected[1]]]
    else:
        path = ()
    put, hide = with_buffer(number, content, *path), with_buffer(0, bytes([0b10]))

    def change(array: CArray) -> None:
        put(array)
        hide(array)
        with_length(1, 0, name="null_count")(array)

    file = io.BytesIO()
    spillway.write_parquet(Tampered(pa.record_batch({"x": whole}), change), file)
    assert pq.ParquetFile(file).read(use_threads=False)["x"].to_pylist() == expected
