"""The check reads deletion vectors as the protocol describes them, and as other engines do."""

from __future__ import annotations

import json
import struct
import tempfile
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import spillway.delta
from spillway.race.check import deleted_rows, replay
from spillway.race.location import Location, log_name

from ..counts import examples

if TYPE_CHECKING:
    from pathlib import Path

# Two containers of a bitmap, and a part of a third.
ROWS = 140_000
NO_FILES = Location("/nowhere").files()


def descriptor(text: str, size: int, cardinality: int) -> dict[str, Any]:
    return {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": size, "cardinality": cardinality}


def z85(data: bytes) -> str:
    alphabet = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    padded = data + bytes(-len(data) % 4)
    words = struct.unpack(f">{len(padded) // 4}I", padded)
    return "".join(alphabet[word // 85**place % 85] for word in words for place in (4, 3, 2, 1, 0))


def pieces() -> st.SearchStrategy[list[range]]:
    """Parts of the file, dense ones and thin ones; together less than half of it."""
    piece = st.builds(
        lambda first, count, step: range(first, min(first + count * step, ROWS), step),
        st.integers(0, ROWS - 1),
        st.one_of(st.integers(1, 20), st.integers(5_000, 17_000)),
        st.integers(1, 3),
    )
    return st.lists(piece, min_size=1, max_size=4)


@settings(max_examples=examples(0.1))
@given(pieces())
@example([range(ROWS // 2)])
@example([range(0, ROWS, 2)])
@example([range(0, ROWS, 1_000)])
def test_a_vector_has_the_rows_that_were_deleted(deleted: list[range]) -> None:
    marked = {row for piece in deleted for row in piece}
    with tempfile.TemporaryDirectory() as folder:
        rows = pa.table({"gone": pa.array([row in marked for row in range(ROWS)]).cast(pa.int64())})
        properties = {"delta.enableDeletionVectors": "true"}
        table = spillway.delta.create(folder, pa.schema(rows.schema), properties=properties)
        with table.append() as append:
            append.write(rows)
        table.delete([("gone", "=", 1)])
        files = Location(folder).files()
        log = replay(files)
        (file,) = log.files
        assert log.problems == []
        assert file.vector is not None
        assert deleted_rows(files, file.vector) == marked
        (kept,) = pa.table(deltalake.DeltaTable(folder).deletion_vectors())["selection_vector"].to_pylist()
    # delta-rs says of each row up to the last marked one if it stays.
    assert {row for row, stays in enumerate(kept) if not stays} == marked


def test_the_example_of_the_protocol_is_read() -> None:
    """The rows of "JSON Example 3 — Inline", in the format of "Deletion Vector Format"."""
    text = "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"
    assert deleted_rows(NO_FILES, descriptor(text, 44, 6)) == {3, 4, 7, 11, 18, 29}


def test_containers_of_runs_and_numbers_beyond_32_bits_are_read() -> None:
    """By "RoaringFormatSpec": a bitmap with a run and an array, after an upper half of 1."""
    cookie = struct.pack("<IB", 12_347 | 1 << 16, 0b01)
    heads = struct.pack("<4H", 0, 8, 2, 1)
    containers = struct.pack("<5H", 2, 10, 4, 100, 3) + struct.pack("<2H", 7, 9)
    bitmap = cookie + heads + containers
    data = struct.pack("<IQI", 1_681_511_377, 1, 1) + bitmap
    expected = {*range(10, 15), *range(100, 104), (2 << 16) + 7, (2 << 16) + 9}
    found = deleted_rows(NO_FILES, descriptor(z85(data), len(data), len(expected)))
    assert found == {1 << 32 | row for row in expected}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"cardinality": 7}, "the log says 7"),
        ({"storageType": "p"}, "expected 'i' or 'u'"),
        ({"sizeInBytes": 30}, "ends early"),
        ({"pathOrInlineDv": "0" * 55}, "begins with 0"),
    ],
)
def test_a_damaged_vector_is_no_vector(change: dict[str, Any], words: str) -> None:
    text = "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"
    with pytest.raises(ValueError, match=words):
        deleted_rows(NO_FILES, descriptor(text, 44, 6) | change)


def test_a_changed_byte_in_a_file_of_vectors_is_found(tmp_path: Path) -> None:
    rows = pa.table({"id": range(10_000)})
    properties = {"delta.enableDeletionVectors": "true"}
    table = spillway.delta.create(tmp_path, rows.schema, properties=properties)
    with table.append() as append:
        append.write(rows)
    table.delete([("id", "in", list(range(0, 4_000, 3)))])
    (path,) = tmp_path.glob("deletion_vector_*.bin")
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    actions = [json.loads(line) for line in (tmp_path / log_name(2)).read_text().splitlines()]
    (vector,) = [action["add"]["deletionVector"] for action in actions if "add" in action]
    with pytest.raises(ValueError, match="checksum"):
        deleted_rows(Location(str(tmp_path)).files(), vector)
