"""Hypothesis strategies for Arrow schemas, tables, chunkings and writer options.

Hypothesis draws the shape (types, looks, sizes, cuts, options), so that failures shrink to small shapes;
the values come from a generator seeded by one drawn integer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from .fill import Look, fill, is_bytes, is_text
from .normal import decoded_type

_UNITS = ("s", "ms", "us", "ns")
_ZONES = (None, "UTC", "Europe/Warsaw", "+05:30")
_PLAIN_TYPES = (
    pa.bool_(),
    *(getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)),
    pa.float16(),
    pa.float32(),
    pa.float64(),
    pa.string(),
    pa.large_string(),
    pa.string_view(),
    pa.binary(),
    pa.large_binary(),
    pa.binary_view(),
    pa.date32(),
    pa.date64(),
    pa.time32("s"),
    pa.time32("ms"),
    pa.time64("us"),
    pa.time64("ns"),
    *(pa.timestamp(unit, zone) for unit in _UNITS for zone in _ZONES),
    *(pa.duration(unit) for unit in _UNITS),
)
_DECIMALS = ((pa.decimal32, 9), (pa.decimal64, 18), (pa.decimal128, 38), (pa.decimal256, 76))
_INDEX_TYPES = (
    pa.int8(),
    pa.uint8(),
    pa.int16(),
    pa.uint16(),
    pa.int32(),
    pa.uint32(),
    pa.int64(),
    pa.uint64(),
)
_NAMES = (
    "id",
    "a.b",
    "with space",
    "żółć",
    "list",
    "element",
    "key_value",
    "UPPER",
    "x" * 80,
    "tab\there",
    "quo\"te'",
)


@st.composite
def decimals(draw: st.DrawFn, most: int = 76) -> pa.DataType:
    """Decimals of at most `most` digits."""
    make, highest = draw(st.sampled_from(_DECIMALS))
    precision = draw(st.integers(1, min(highest, most)))
    return make(precision, draw(st.integers(0, precision)))


def plain_types() -> st.SearchStrategy[pa.DataType]:
    """Flat types without parameters that are drawn."""
    return st.sampled_from(_PLAIN_TYPES)


def flat_types() -> st.SearchStrategy[pa.DataType]:
    return st.one_of(plain_types(), decimals(), st.integers(1, 40).map(pa.binary))


def dictionary_types(others: st.SearchStrategy[pa.DataType] | None = None) -> st.SearchStrategy[pa.DataType]:
    """Dictionaries of strings, binaries and `others`, by default every flat type."""
    others = flat_types() if others is None else others
    values = st.one_of(st.sampled_from((pa.string(), pa.large_string(), pa.binary())), others)
    return st.builds(pa.dictionary, st.sampled_from(_INDEX_TYPES), values, st.booleans())


def leaf_types() -> st.SearchStrategy[pa.DataType]:
    extensions = st.sampled_from((pa.uuid(), pa.json_(), pa.bool8()))
    return st.one_of(flat_types(), flat_types(), dictionary_types(), st.just(pa.null()), extensions)


@st.composite
def nested_types(
    draw: st.DrawFn, inner: st.SearchStrategy[pa.DataType], keys: st.SearchStrategy[pa.DataType]
) -> pa.DataType:
    kind = draw(
        st.sampled_from(("list", "large_list", "list_view", "large_list_view", "fixed", "struct", "map"))
    )
    if kind == "struct":
        count = draw(st.integers(1, 3))
        return pa.struct(
            [field(f"f{index}", draw(inner), nullable=draw(st.booleans())) for index in range(count)]
        )
    item = field("item", draw(inner), nullable=draw(st.booleans()))
    if kind == "map":
        return pa.map_(draw(keys), item.with_name("value"))
    if kind == "fixed":
        return pa.list_(item, draw(st.integers(1, 3)))
    return {
        "list": pa.list_,
        "large_list": pa.large_list,
        "list_view": pa.list_view,
        "large_list_view": pa.large_list_view,
    }[kind](item)


def any_types(
    leaves: st.SearchStrategy[pa.DataType] | None = None,
    keys: st.SearchStrategy[pa.DataType] | None = None,
    depth: int = 3,
) -> st.SearchStrategy[pa.DataType]:
    """Types nested at most `depth` deep over `leaves`, half of them flat."""
    leaves = leaf_types() if leaves is None else leaves
    keys = flat_types() if keys is None else keys
    levels = leaves
    for _ in range(depth):
        levels = st.one_of(leaves, nested_types(levels, keys))
    return levels


@st.composite
def fields(
    draw: st.DrawFn, types: st.SearchStrategy[pa.DataType], names: tuple[str, ...], index: int
) -> pa.Field:
    name = f"c{index} {draw(st.sampled_from(names))}" if names else f"c{index}"
    return field(name, draw(types), nullable=draw(st.integers(0, 3)) > 0)


def field(name: str, data_type: pa.DataType, *, nullable: bool) -> pa.Field:
    """A field; of type null it is nullable, as it has to be."""
    return pa.field(name, data_type, nullable or pa.types.is_null(data_type))


def looks() -> st.SearchStrategy[Look]:
    return st.builds(
        Look,
        st.sampled_from(("none", "few", "half", "all")),
        st.sampled_from(("few", "unique", "sorted", "extreme", "constant")),
    )


@dataclass(frozen=True)
class Recipe:
    """A table to be: its schema, how each column looks, and the rows of each independently made part.

    Each part has its own dictionaries and buffers. The same recipe always gives the same table.
    """

    schema: pa.Schema
    looks: tuple[Look, ...]
    parts: tuple[int, ...]
    seed: int

    @property
    def rows(self) -> int:
        return sum(self.parts)

    def table(self) -> pa.Table:
        rng = np.random.default_rng(self.seed)
        batches = [self._batch(rng, rows) for rows in self.parts]
        return pa.Table.from_batches(batches, self.schema)

    def _batch(self, rng: np.random.Generator, rows: int) -> pa.RecordBatch:
        columns = [
            fill(rng, field.type, rows, look, nullable=field.nullable)
            for field, look in zip(self.schema, self.looks, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


@st.composite
def recipes(
    draw: st.DrawFn,
    *,
    types: st.SearchStrategy[pa.DataType] | None = None,
    max_columns: int = 5,
    max_rows: int = 400,
    names: tuple[str, ...] = _NAMES,
) -> Recipe:
    types = any_types() if types is None else types
    count = draw(st.integers(1, max_columns))
    schema = pa.schema([draw(fields(types, names, index)) for index in range(count)])
    sizes = st.one_of(
        st.integers(0, 9), st.integers(10, max_rows), st.sampled_from((0, 1, 31, 32, 33, 127, 128, 129))
    )
    parts = draw(st.lists(sizes, min_size=0, max_size=3))
    drawn = tuple(draw(looks()) for _ in range(count))
    return Recipe(schema, drawn, tuple(parts), draw(st.integers(0, 2**32 - 1)))


def cuts(rows: int) -> st.SearchStrategy[list[int]]:
    """Positions at which the rows are cut into pieces; repeated ones make empty pieces."""
    return st.lists(st.integers(0, rows), max_size=8).map(sorted)


_LEVELS = {"zstd": (1, 3, 9), "gzip": (1, 6), "brotli": (0, 5), "snappy": (), "lz4": (), "uncompressed": ()}


def suiting_encodings(data_type: pa.DataType, *, split: bool = True) -> tuple[str, ...]:
    """The encodings that a flat column may be given and every engine reads; `split` for BYTE_STREAM_SPLIT."""
    types, is_dictionary, data_type = pa.types, pa.types.is_dictionary(data_type), decoded_type(data_type)
    if types.is_null(data_type) or types.is_nested(data_type):
        return ()
    if types.is_boolean(data_type):
        return ("plain", "rle")
    both = ("plain", "dictionary")
    if is_text(data_type) or is_bytes(data_type):
        # Of a dictionary of these, the writer refuses the others.
        return both if is_dictionary else (*both, "delta_length_byte_array", "delta_byte_array")
    streams = ("byte_stream_split",) if split else ()
    if types.is_integer(data_type) or types.is_temporal(data_type):
        return (*both, "delta_binary_packed", *streams)
    return (*both, *streams) if types.is_float32(data_type) or types.is_float64(data_type) else both


@st.composite
def codecs(draw: st.DrawFn, schema: pa.Schema) -> dict[str, Any]:
    """A codec, and at times a level that it has; or codecs for some of the flat columns."""
    flat = [(field.name,) for field in schema if not pa.types.is_nested(field.type)]
    if flat and draw(st.integers(0, 3)) == 0:
        names = st.sampled_from((*_LEVELS, "zstd(3)", "gzip(1)"))
        return {"compression": draw(st.dictionaries(st.sampled_from(flat), names))}
    codec = draw(st.sampled_from(tuple(_LEVELS)))
    level = draw(st.sampled_from((None, *_LEVELS[codec])))
    return {"compression": codec} if level is None else {"compression": codec, "compression_level": level}


@st.composite
def encodings(draw: st.DrawFn, schema: pa.Schema, *, split: bool) -> dict[tuple[str, ...], str]:
    """Encodings for some of the flat columns."""
    suiting = {(field.name,): suiting_encodings(field.type, split=split) for field in schema}
    return {
        path: draw(st.sampled_from(names)) for path, names in suiting.items() if names and draw(st.booleans())
    }


@st.composite
def field_ids(draw: st.DrawFn, schema: pa.Schema) -> dict[tuple[str, ...], int]:
    """Field ids, all different, for some of the top-level columns."""
    names = [name for name in schema.names if draw(st.booleans())]
    ids = st.lists(st.integers(0, 2**31 - 1), min_size=len(names), max_size=len(names), unique=True)
    return dict(zip([(name,) for name in names], draw(ids), strict=True))


@st.composite
def options(draw: st.DrawFn, schema: pa.Schema, *, split: bool = True) -> dict[str, Any]:
    """Keyword arguments of the writer, with pages and row groups small enough to have many of each.

    Every option of the writer is among them. `split` is False for readers without BYTE_STREAM_SPLIT.
    """
    choices = option_choices(schema, split=split)
    drawn = {name: draw(choice) for name, choice in choices.items() if draw(st.booleans())}
    codec = drawn.pop("codec", {})
    if drawn.get("compatibility") == "v1":
        drawn.pop("encoding", None)
    return drawn | codec


def option_choices(schema: pa.Schema, *, split: bool) -> dict[str, st.SearchStrategy[Any]]:
    """Strategies for each option; `codec` stands for the compression and its level."""
    flat = [field.name for field in schema if not pa.types.is_nested(field.type)]
    by_column = (
        st.dictionaries(st.sampled_from([(name,) for name in flat]), st.booleans()) if flat else st.just({})
    )
    return {
        "codec": codecs(schema),
        "row_group_rows": st.one_of(st.integers(1, 9), st.integers(10, 500)),
        "row_group_bytes": st.sampled_from((1, 1000, 20_000)),
        "page_bytes": st.sampled_from((1, 8, 64, 500, 4096)),
        "page_rows": st.sampled_from((1, 7, 100, 50_000)),
        "dictionary_page_bytes": st.sampled_from((1, 100, 4 << 20)),
        "content_defined_chunking": st.sampled_from((True, (1, 50), (100, 1000))),
        "threads": st.none() | st.integers(1, 3),
        "hold_batches": st.booleans(),
        "dictionary": st.one_of(st.booleans(), by_column),
        "encoding": encodings(schema, split=split),
        "compatibility": st.just("v1"),
        "timestamps": st.just("us"),
        "memory_limit": st.sampled_from(("4MB", "16MB")),
        "page_checksums": st.just(value=True),
        "statistics": st.one_of(st.booleans(), by_column),
        "bloom_filter": st.just(value=True),
        "field_ids": field_ids(schema),
        "verify": st.sampled_from(("footer", "pages", "values")),
        "durable": st.just(True),  # noqa: FBT003 - a strategy's value
        "metadata": st.dictionaries(st.sampled_from(("origin", "żółć")), st.text(max_size=5)),
    }
