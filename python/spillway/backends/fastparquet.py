"""fastparquet, by `fastparquet.write` of a pandas frame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import fastparquet
import pandas as pd
import pyarrow as pa
from pyarrow import types

from spillway.backends.protocol import BATCHES_AND_TABLE
from spillway.backends.sinks import Gathered
from spillway.errors import OptionError

if TYPE_CHECKING:
    from pathlib import Path

    from spillway.backends.protocol import Mode, Settings, Sink

# With nulls beside the values: numpy's integers have none, and its floats have NaN in their place.
_MASKED: dict[pa.DataType, Any] = {
    pa.bool_(): pd.BooleanDtype(),
    pa.int8(): pd.Int8Dtype(),
    pa.int16(): pd.Int16Dtype(),
    pa.int32(): pd.Int32Dtype(),
    pa.int64(): pd.Int64Dtype(),
    pa.uint8(): pd.UInt8Dtype(),
    pa.uint16(): pd.UInt16Dtype(),
    pa.uint32(): pd.UInt32Dtype(),
    pa.uint64(): pd.UInt64Dtype(),
    pa.float32(): pd.Float32Dtype(),
    pa.float64(): pd.Float64Dtype(),
}


class Fastparquet:
    """A frame from Arrow, then one `fastparquet.write`; the conversion is part of the phase.

    Numbers and booleans are columns of pandas' nullable types, text and bytes columns of objects. fastparquet
    has one thread. It writes decimals as floats, structs as JSON, and neither dates, times of day nor lists:
    such columns are refused.
    """

    name = "fastparquet"
    modes: frozenset[Mode] = BATCHES_AND_TABLE

    def version(self) -> str:
        return str(fastparquet.__version__)

    def open(self, path: Path, schema: pa.Schema, settings: Settings) -> Sink:
        encodings = {field.name: _object_encoding(field) for field in schema}
        return Gathered(schema, settings, lambda table: _write(table, path, settings, encodings))


def _object_encoding(field: pa.Field[Any]) -> str:
    """What fastparquet makes of a column's objects, if it has any.

    Raises:
        OptionError: fastparquet has no type for the column's values, or one that changes them.
    """
    kind = field.type
    if types.is_string(kind) or types.is_large_string(kind):
        return "utf8"
    if types.is_binary(kind) or types.is_large_binary(kind):
        return "bytes"
    if kind in _MASKED or (types.is_timestamp(kind) and kind.unit != "s"):
        return "infer"
    raise OptionError(
        f"fastparquet cannot write column {field.name!r}: {kind} would come back as another type or not at "
        f"all. Measure a dataset without it, or leave this backend out"
    )


def _write(table: pa.Table, path: Path, settings: Settings, encodings: dict[str, str]) -> None:
    size = settings.row_group_rows
    fastparquet.write(
        str(path),
        table.to_pandas(types_mapper=_MASKED.get),
        row_group_offsets=list(range(0, table.num_rows, size)) or [0],
        compression={"_default": _compression(settings)},
        write_index=False,
        object_encoding=encodings,
    )


def _compression(settings: Settings) -> dict[str, Any]:
    """A cell's codec and level, as fastparquet hands them to cramjam."""
    codec = {"lz4": "LZ4_RAW"}.get(settings.codec, settings.codec.upper())
    name = "compresslevel" if settings.codec == "gzip" else "level"
    return {"type": codec, "args": None if settings.level is None else {name: settings.level}}
