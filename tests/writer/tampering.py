"""Arrays whose exported structs are changed before they are taken, as by a faulty producer."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa


class CArray(ctypes.Structure):
    """The head of a struct ArrowArray."""

    _fields_ = [
        ("length", ctypes.c_int64),
        ("null_count", ctypes.c_int64),
        ("offset", ctypes.c_int64),
        ("n_buffers", ctypes.c_int64),
        ("n_children", ctypes.c_int64),
        ("buffers", ctypes.POINTER(ctypes.c_void_p)),
        ("children", ctypes.POINTER(ctypes.c_void_p)),
    ]


class Tampered:
    """A record batch whose exported structs are changed before they are taken."""

    def __init__(self, batch: pa.RecordBatch, change: Any) -> None:
        self.batch, self.change = batch, change

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        schema, array = self.batch.__arrow_c_array__(requested_schema)
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        self.change(CArray.from_address(pointer(array, b"arrow_array")))
        return schema, array


def child(array: CArray) -> CArray:
    return CArray.from_address(array.children[0])


def descendant(array: CArray, *path: int) -> CArray:
    """The array that the numbers of children lead to, from the root on."""
    for place in path:
        array = CArray.from_address(array.children[place])
    return array


def with_buffer(number: int, content: Any, *path: int, kind: str = "i4") -> Callable[[CArray], None]:
    """Puts other bytes, or numbers of a kind, into a buffer of the first column or of what is below it."""
    data = content if isinstance(content, bytes) else np.array(content, kind).tobytes()
    # A faulty reader that looks behind the end finds zeros.
    buffer = ctypes.create_string_buffer(data, len(data) + 64)

    def change(array: CArray) -> None:
        descendant(array, 0, *path).buffers[number] = ctypes.addressof(buffer)

    change.buffer = buffer  # type: ignore[attr-defined] - as long as the change lives
    return change


def with_length(length: int, *path: int, name: str = "length") -> Callable[[CArray], None]:
    """Puts another number into a field of the root's struct or of what is below it."""

    def change(array: CArray) -> None:
        setattr(descendant(array, *path), name, length)

    return change
