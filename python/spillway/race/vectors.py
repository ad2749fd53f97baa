"""Deletion vectors as the check reads them: by the protocol's "Deletion Vector Format", and by no library."""

from __future__ import annotations

import struct
import uuid
import zlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from spillway.race.location import Files

__all__ = ["deleted_rows"]

_MAGIC = 1_681_511_377
_NO_RUNS, _RUNS = 12_346, 12_347
_OFFSETS_FROM = 4  # containers, where some are runs
_MOST_IN_ARRAY = 4_096
_BITMAP_BYTES = 8_192
_NAME_CHARACTERS = 20
_Z85 = {
    each: value
    for value, each in enumerate(
        "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    )
}


def deleted_rows(files: Files, vector: Mapping[str, Any]) -> set[int]:
    """The places of the rows that a deletion vector marks.

    Args:
        files: The files of the table.
        vector: Its descriptor, as the log has it.

    Raises:
        ValueError: The vector is not there, or damaged.
    """
    size = vector["sizeInBytes"]
    if vector["storageType"] == "i":
        data = _from_z85(vector["pathOrInlineDv"])[:size]
    elif vector["storageType"] == "u":
        data = _from_file(files, vector["pathOrInlineDv"], vector.get("offset") or 0, size)
    else:
        raise ValueError(f"a deletion vector is stored as {vector['storageType']!r}, expected 'i' or 'u'")
    rows = set(_array_of_bitmaps(_Bytes(data)))
    if len(rows) != vector["cardinality"]:
        raise ValueError(f"a deletion vector has {len(rows)} rows, and the log says {vector['cardinality']}")
    return rows


def _from_z85(text: str) -> bytes:
    words = []
    for start in range(0, len(text), 5):
        word = 0
        for each in text[start : start + 5]:
            word = word * len(_Z85) + _Z85[each]
        words.append(word)
    return struct.pack(f">{len(words)}I", *words)


def _from_file(files: Files, text: str, offset: int, size: int) -> bytes:
    folder, name = text[:-_NAME_CHARACTERS], uuid.UUID(bytes=_from_z85(text[-_NAME_CHARACTERS:]))
    path = f"{folder}/deletion_vector_{name}.bin" if folder else f"deletion_vector_{name}.bin"
    content = files.read(path)
    if content is None:
        raise ValueError(f"there is no file {path}")
    after = offset + 4 + size
    data = content[offset + 4 : after]
    around = content[offset : offset + 4] + content[after : after + 4]
    if around != struct.pack(">II", size, zlib.crc32(data)):
        raise ValueError(f"{path}: size or checksum at byte {offset} is wrong")
    return data


class _Bytes:
    """Numbers, one after the other, the lowest byte first."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, layout: str) -> tuple[int, ...]:
        try:
            values = struct.unpack_from(f"<{layout}", self._data, self._at)
        except struct.error as error:
            raise ValueError(f"a deletion vector ends early: {error}") from error
        self._at += struct.calcsize(f"<{layout}")
        return values


def _array_of_bitmaps(data: _Bytes) -> Iterator[int]:
    """A bitmap of 64 bits: bitmaps of 32 bits, each after the upper half of its numbers."""
    (magic, count) = data.take("IQ")
    if magic != _MAGIC:
        raise ValueError(f"a deletion vector begins with {magic}, expected {_MAGIC}")
    for _ in range(count):
        (upper,) = data.take("I")
        for lower in _bitmap(data):
            yield upper << 32 | lower


def _bitmap(data: _Bytes) -> Iterator[int]:
    """A bitmap in the portable format of RoaringBitmap."""
    (cookie,) = data.take("I")
    has_runs = cookie & 0xFFFF == _RUNS
    if not has_runs and cookie != _NO_RUNS:
        raise ValueError(f"a bitmap begins with {cookie}, which is no cookie")
    count = (cookie >> 16) + 1 if has_runs else data.take("I")[0]
    flags = data.take(f"{(count + 7) // 8}B") if has_runs else ()
    heads = data.take(f"{2 * count}H")
    if not has_runs or count >= _OFFSETS_FROM:
        data.take(f"{count}I")  # where each container begins: they follow each other
    for number in range(count):
        upper, size = heads[2 * number] << 16, heads[2 * number + 1] + 1
        is_run = has_runs and flags[number // 8] >> number % 8 & 1
        yield from (upper | lower for lower in (_runs(data) if is_run else _container(data, size)))


def _runs(data: _Bytes) -> Iterator[int]:
    (count,) = data.take("H")
    pairs = data.take(f"{2 * count}H")
    for first, more in zip(pairs[::2], pairs[1::2], strict=True):
        yield from range(first, first + more + 1)


def _container(data: _Bytes, size: int) -> Iterator[int]:
    if size <= _MOST_IN_ARRAY:
        yield from data.take(f"{size}H")
        return
    for place, byte in enumerate(data.take(f"{_BITMAP_BYTES}B")):
        yield from (8 * place + bit for bit in range(8) if byte >> bit & 1)
