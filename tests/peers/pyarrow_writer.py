"""Spillway's writer behind the interface of pyarrow's own, for the tests that pyarrow ships.

What is Python in ``pyarrow.parquet`` stays as it is; only the class of C++ below it is exchanged. pyarrow
checks the arguments. An option that Spillway does not have raises `NotOffered`, whatever the test is about.

Properties of encryption tell nobody their keys. Those of `create_encryption_properties` are known by its
arguments; those that a `CryptoFactory` makes are not.
"""

from __future__ import annotations

import inspect
import io
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import _parquet
from pyarrow.parquet import encryption as parquet_encryption

import spillway

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Options = dict[str, Any]

ORIGINAL: Final = _parquet.ParquetWriter
ROW_GROUP_ROWS = 1024 * 1024
FALSE_POSITIVES = 0.05
DEFAULTS: Final[Options] = {
    name: parameter.default
    for name, parameter in inspect.signature(pq.ParquetWriter.__init__).parameters.items()
} | {
    "allow_truncated_timestamps": False,
    "coerce_timestamps": None,
    "data_page_size": None,
    "use_deprecated_int96_timestamps": False,
    "writer_engine_version": "V2",
}
# Done whether asked for or not, or without a meaning of its own.
ALWAYS = {"store_decimal_as_integer", "write_page_index", "allow_truncated_timestamps"}


# Properties of encryption, by their identity, and the arguments that they were made of.
KEYS: Final[dict[int, tuple[object, Options]]] = {}


class NotOffered(Exception):  # noqa: N818 - nobody's error
    """A test asks for something that Spillway does not have."""


class Writer:
    """The interface that `pyarrow.parquet.ParquetWriter` expects of the class below it."""

    def __init__(self, where: Any, schema: pa.Schema, **options: Any) -> None:
        if not isinstance(schema, pa.Schema) or not (isinstance(where, str) or hasattr(where, "write")):
            raise TypeError(f"where is {where!r}, schema is {schema!r}")
        given = {name: value for name, value in options.items() if value != DEFAULTS[name]}
        # pyarrow's own words for arguments that nobody takes; the schema is left to Spillway.
        checked = {name: value for name, value in options.items() if name != "encryption_properties"}
        ORIGINAL(pa.BufferOutputStream(), pa.schema([("a", pa.int64())]), **checked)
        for name, value in given.items():
            if name not in TRANSLATIONS and name not in ALWAYS:
                raise NotOffered(f"not offered: {name}={value!r}")
        self._sink = open(where, "wb") if isinstance(where, str) else where  # noqa: PTH123, SIM115
        translated: Options = {}
        for name in TRANSLATIONS.keys() & (given.keys() | {"compression"}):
            translated |= TRANSLATIONS[name](options, schema)
        self._writer = spillway.ParquetWriter(self._sink, schema, **translated)

    def write_table(self, table: pa.Table, row_group_size: int | None = None) -> None:
        """Writes row groups of so many rows; the last one ends with the call, as pyarrow's does."""
        if row_group_size == 0:
            raise ValueError("Row group size cannot be 0")
        rows = ROW_GROUP_ROWS if row_group_size is None or row_group_size == -1 else int(row_group_size)
        for start in range(0, table.num_rows, rows):
            self._writer.write(table.slice(start, rows))
            self._writer.flush()

    def add_key_value_metadata(self, metadata: Mapping[Any, Any]) -> None:
        """Adds what pyarrow takes as metadata, text or bytes."""
        pairs = pa.KeyValueMetadata(metadata).items()
        self._writer.add_metadata({key.decode(): value.decode() for key, value in pairs})

    def close(self) -> None:
        """Completes the file."""
        self._writer.close()

    @property
    def metadata(self) -> pq.FileMetaData:
        """The metadata of the file, as it was written."""
        return self._writer.result.metadata


def leaves(schema: pa.Schema) -> list[str]:
    """The dotted paths of a schema's leaves."""
    file = io.BytesIO()
    spillway.write_parquet(schema.empty_table(), file)
    found = pq.read_metadata(file).schema
    return [found.column(place).path for place in range(len(found))]


def by_leaf(value: Any, schema: pa.Schema, default: Any) -> dict[str, Any]:
    """The value of a pyarrow option for each leaf, from a mapping by paths or one value for all."""
    return {path: value.get(path, default) if isinstance(value, dict) else value for path in leaves(schema)}


def compression(options: Options, schema: pa.Schema) -> Options:
    """Codecs and levels, for all columns or for each."""

    def codec(name: str | None) -> str:
        lower = (name or "none").lower()
        return {"none": "uncompressed", "lz4_raw": "lz4"}.get(lower, lower)

    codecs, levels = options["compression"], options["compression_level"]
    if not isinstance(codecs, dict) and not isinstance(levels, dict):
        return {"compression": codec(codecs), "compression_level": levels}
    level_of = by_leaf(levels, schema, None)
    return {
        "compression": {
            path: codec(name) + (f"({level_of[path]})" if level_of[path] is not None else "")
            for path, name in by_leaf(codecs, schema, None).items()
        }
    }


def dictionary(options: Options, schema: pa.Schema) -> Options:
    """Columns that may have a dictionary."""
    allowed = options["use_dictionary"]
    if isinstance(allowed, bool):
        return {"dictionary": allowed}
    return {"dictionary": {path: path in allowed for path in leaves(schema)}}


def encoding(options: Options, schema: pa.Schema) -> Options:
    """Encodings by name, for columns without a dictionary."""
    named, split, allowed = (
        options[name] for name in ("column_encoding", "use_byte_stream_split", "use_dictionary")
    )
    found: dict[str, str] = {}
    for path, name in by_leaf(named, schema, None).items():
        has_dictionary = allowed if isinstance(allowed, bool) else path in allowed
        if name is not None:
            found[path] = name.lower()
        elif (split is True or (split and path in split)) and not has_dictionary:
            found[path] = "byte_stream_split"
    return {"encoding": found}


def version(options: Options, schema: pa.Schema) -> Options:
    """Versions but for what they convert: the first one's pages are those of the oldest readers."""
    asked = options["version"]
    converted = ["timestamp[ns", *(["uint32"] if asked == "1.0" else [])]
    if any(kind in str(field.type) for field in schema for kind in converted):
        raise NotOffered(f"not offered: version={asked!r} where it converts a type")
    return {"compatibility": "v1"} if asked == "1.0" else {}


def timestamps(options: Options, schema: pa.Schema) -> Options:  # noqa: ARG001 - as the others
    """INT96, or microseconds and milliseconds, where what has to be rounded is refused unless asked for."""
    if options["use_deprecated_int96_timestamps"]:
        return {"timestamps": "int96"}
    unit, truncates = options["coerce_timestamps"], options["allow_truncated_timestamps"]
    if unit not in {"us", "ms"}:
        raise NotOffered(f"not offered: coerce_timestamps={unit!r}")
    return {"timestamps": unit, "timestamp_loss": "allow" if truncates else "refuse"}


def statistics(options: Options, schema: pa.Schema) -> Options:
    """Columns with statistics."""
    wanted = options["write_statistics"]
    if isinstance(wanted, bool):
        return {"statistics": wanted}
    return {"statistics": {path: path in wanted for path in leaves(schema)}}


def sorting_columns(options: Options, schema: pa.Schema) -> Options:
    """Columns by their names, where pyarrow has the numbers of leaves."""
    paths = leaves(schema)
    return {
        "sorting_columns": [
            (
                paths[column.column_index],
                "descending" if column.descending else "ascending",
                "nulls_first" if column.nulls_first else "nulls_last",
            )
            for column in options["sorting_columns"]
        ]
    }


def bloom_filter(options: Options, schema: pa.Schema) -> Options:  # noqa: ARG001 - as the others
    """Filters by how often they may be wrong; their size follows from what they hold."""
    found: dict[str, float] = {}
    for path, wanted in options["bloom_filter_options"].items():
        if isinstance(wanted, dict) and "ndv" in wanted:
            raise NotOffered(f"not offered: bloom_filter_options with ndv={wanted['ndv']}")
        if wanted is not False:
            found[path] = wanted.get("fpp", FALSE_POSITIVES) if isinstance(wanted, dict) else FALSE_POSITIVES
    return {"bloom_filter": found}


def encryption(options: Options, schema: pa.Schema) -> Options:  # noqa: ARG001 - as the others
    """The key that properties were made of."""
    _, arguments = KEYS.get(id(options["encryption_properties"]), (None, None))
    if arguments is None:
        raise NotOffered("not offered: encryption_properties of a CryptoFactory, which tell no keys")
    fields = dict(arguments)
    if fields.pop("encryption_algorithm", "AES_GCM_V1") != "AES_GCM_V1":
        raise NotOffered("not offered: encryption_algorithm='AES_GCM_CTR_V1'")
    return {"encryption": spillway.Encryption(**fields)}


def chunking(options: Options, schema: pa.Schema) -> Options:  # noqa: ARG001 - as the others
    """The sizes of chunks; how close they are to their average is not to be chosen."""
    wanted = options["use_content_defined_chunking"]
    if isinstance(wanted, dict):
        return {"content_defined_chunking": (wanted["min_chunk_size"], wanted["max_chunk_size"])}
    return {"content_defined_chunking": bool(wanted)}


def remembering(create: Callable[..., object]) -> Callable[..., object]:
    """pyarrow's function that makes properties of keys, with its arguments kept."""

    def created(footer_key: bytes, **fields: Any) -> object:
        properties = create(footer_key, **fields)
        KEYS[id(properties)] = (properties, {"footer_key": footer_key, **fields})
        return properties

    return created


TRANSLATIONS: Final[dict[str, Callable[[Options, pa.Schema], Options]]] = {
    "bloom_filter_options": bloom_filter,
    "coerce_timestamps": timestamps,
    "column_encoding": encoding,
    "compression": compression,
    "compression_level": compression,
    "dictionary_pagesize_limit": lambda options, _: {
        "dictionary_page_bytes": options["dictionary_pagesize_limit"]
    },
    "data_page_size": lambda options, _: {"page_bytes": options["data_page_size"]},
    "max_rows_per_page": lambda options, _: {"page_rows": options["max_rows_per_page"]},
    "encryption_properties": encryption,
    "sorting_columns": sorting_columns,
    "store_schema": lambda options, _: {"store_schema": options["store_schema"]},
    "use_byte_stream_split": encoding,
    "use_content_defined_chunking": chunking,
    "use_deprecated_int96_timestamps": timestamps,
    "use_dictionary": dictionary,
    "version": version,
    "write_page_checksum": lambda options, _: {"page_checksums": options["write_page_checksum"]},
    "write_statistics": statistics,
}


def exchange() -> None:
    """Puts Spillway's writer in the place of pyarrow's."""
    _parquet.ParquetWriter = Writer
    made: Any = parquet_encryption
    made.create_encryption_properties = remembering(made.create_encryption_properties)
