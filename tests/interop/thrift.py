"""Thrift's compact protocol, read without a schema: a struct is a dict from field id to value."""

from __future__ import annotations

import struct
from typing import Any

_BINARY, _LIST, _SET, _STRUCT = 8, 9, 10, 12


class Cursor:
    """Reads values one after another from `data`, starting at `at`."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at

    def struct(self) -> dict[int, Any]:
        fields: dict[int, Any] = {}
        last = 0
        while header := self._byte():
            delta, kind = header >> 4, header & 15
            last = last + delta if delta else self._zigzag()
            fields[last] = kind == 1 if kind in (1, 2) else self._value(kind)
        return fields

    def _byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def _varint(self) -> int:
        result = shift = 0
        while True:
            byte = self._byte()
            result |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return result

    def _zigzag(self) -> int:
        number = self._varint()
        return (number >> 1) ^ -(number & 1)

    def _take(self, size: int) -> bytes:
        self.at += size
        return self.data[self.at - size : self.at]

    def _value(self, kind: int) -> Any:
        if kind == _STRUCT:
            return self.struct()
        if kind == _BINARY:
            return self._take(self._varint())
        if kind in (_LIST, _SET):
            return self._list()
        if kind == 3:
            return struct.unpack("<b", self._take(1))[0]
        if kind in (4, 5, 6):
            return self._zigzag()
        if kind == 7:
            return struct.unpack("<d", self._take(8))[0]
        raise ValueError(f"compact type {kind} at byte {self.at}")

    def _list(self) -> list[Any]:
        header = self._byte()
        size, kind = header >> 4, header & 15
        size = self._varint() if size == 15 else size
        if kind in (1, 2):
            return [self._byte() == 1 for _ in range(size)]
        return [self._value(kind) for _ in range(size)]
