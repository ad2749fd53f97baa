"""Options as pyarrow, polars and Spark spell them, and what they are called here."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, NamedTuple

from spillway.errors import UnknownOptionError
from spillway.types import DatasetKeywords, WriterKeywords

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["ELSEWHERE", "Spelling", "refusal"]


class Spelling(NamedTuple):
    """An option of another library.

    Args:
        library: Where it is called so.
        here: What to write instead; empty if there is nothing like it.
        note: What else is to be known; for an option that is not there, the reason.
    """

    library: str
    here: str = ""
    note: str = ""


_STATISTICS = "for all columns, or a mapping {column: bool}"
_INT96 = 'timestamps="int96"'
_SCHEMA = "give the schema the types and field ids to store, as schema="
_FORMAT = "a file is always Parquet"
_PARTS = "write_dataset() and DatasetWriter write folders"
_FILTER = "bloom_filter={column: share of wrong answers}"

ELSEWHERE: dict[str, Spelling] = {
    # pyarrow.parquet
    "where": Spelling("pyarrow", "destination"),
    "row_group_size": Spelling("pyarrow and polars", "row_group_rows"),
    "chunk_size": Spelling("pyarrow", "row_group_rows"),
    "version": Spelling(
        "pyarrow", 'compatibility="v1"', 'for what is version="1.0" there; all else is the default'
    ),
    "use_dictionary": Spelling(
        "pyarrow", "dictionary", "with a mapping {column: bool} for a list of columns"
    ),
    "write_statistics": Spelling("pyarrow", "statistics", _STATISTICS),
    "use_deprecated_int96_timestamps": Spelling("pyarrow", _INT96),
    "coerce_timestamps": Spelling(
        "pyarrow", "timestamps", '"us" and "ms" round down, unless timestamp_loss="refuse"'
    ),
    "allow_truncated_timestamps": Spelling("pyarrow", 'timestamp_loss="allow"', "which is the default"),
    "data_page_size": Spelling("pyarrow and polars", "page_bytes"),
    "flavor": Spelling(
        "pyarrow", _INT96, 'which is what flavor="spark" asks for; names of columns stay as they are'
    ),
    "compression_opts": Spelling("other libraries", "compression_level"),
    "use_byte_stream_split": Spelling(
        "pyarrow", 'encoding="byte_stream_split"', "or a mapping {column: encoding}"
    ),
    "column_encoding": Spelling("pyarrow", "encoding"),
    "data_page_version": Spelling("pyarrow", note="data pages are of version 1.0, which every reader knows"),
    "use_compliant_nested_type": Spelling(
        "pyarrow", note='lists have the field "element", as the format asks for'
    ),
    "encryption_properties": Spelling("pyarrow", "encryption", "with the keys, as a spillway.Encryption"),
    "write_batch_size": Spelling("pyarrow", note="pages are cut by page_bytes"),
    "dictionary_pagesize_limit": Spelling("pyarrow", "dictionary_page_bytes"),
    "write_page_index": Spelling("pyarrow", note="page indexes are always written"),
    "write_page_checksum": Spelling("pyarrow", "page_checksums"),
    "store_decimal_as_integer": Spelling(
        "pyarrow", note="decimals are integers wherever their precision allows it"
    ),
    "write_time_adjusted_to_utc": Spelling("pyarrow", note="times of day have no time zone"),
    "max_rows_per_page": Spelling("pyarrow", "page_rows"),
    "bloom_filter_options": Spelling("pyarrow", "bloom_filter"),
    "use_content_defined_chunking": Spelling(
        "pyarrow", "content_defined_chunking", "with the least and the most bytes as a tuple"
    ),
    "writer_engine_version": Spelling("pyarrow", note="there is one writer"),
    "memory_pool": Spelling("pyarrow", note="memory_limit bounds what a writer keeps"),
    # pyarrow.dataset, and write_to_dataset
    "base_dir": Spelling("pyarrow", "directory"),
    "root_path": Spelling("pyarrow", "directory"),
    "format": Spelling("pyarrow and Spark", note=_FORMAT),
    "partition_cols": Spelling("pyarrow", "partition_by", _PARTS),
    "partitioning": Spelling("pyarrow", "partition_by", _PARTS),
    "partitioning_flavor": Spelling("pyarrow", note="folders are named as Hive and Spark name them"),
    "file_options": Spelling("pyarrow", note="each option is a keyword argument"),
    "use_threads": Spelling("pyarrow", "threads", "as a number, by default all cores; the file is the same"),
    "preserve_order": Spelling("pyarrow", note="rows stay in their order"),
    "max_partitions": Spelling(
        "pyarrow", note="there is no limit to partitions; max_open_files bounds the open files"
    ),
    "max_rows_per_file": Spelling("pyarrow", "max_file_rows", _PARTS),
    "min_rows_per_group": Spelling("pyarrow", "row_group_rows", "which is exact"),
    "max_rows_per_group": Spelling("pyarrow", "row_group_rows", "which is exact"),
    "file_visitor": Spelling("pyarrow", note="the result has all files when the writer is closed"),
    "existing_data_behavior": Spelling("pyarrow", "mode", _PARTS),
    "metadata_collector": Spelling(
        "pyarrow", "metadata_file", f"which writes _metadata; result.metadata is a file's own; {_PARTS}"
    ),
    "create_dir": Spelling("pyarrow", note="the folder of a dataset is always made"),
    # polars
    "file": Spelling("polars", "destination"),
    "use_pyarrow": Spelling("polars", note="there is one writer"),
    "pyarrow_options": Spelling("polars", note="there is one writer, and each option is a keyword argument"),
    "partition_chunk_size_bytes": Spelling(
        "polars", "max_file_bytes", f"which is a bound in the file; {_PARTS}"
    ),
    "credential_provider": Spelling("polars", "storage_options", "with the credentials themselves"),
    "field_overwrites": Spelling("polars", note=_SCHEMA),
    "arrow_schema": Spelling("polars", "schema"),
    "mkdir": Spelling(
        "polars", note="the folder of a file has to be there; that of a dataset is always made"
    ),
    "maintain_order": Spelling("polars", note="rows stay in their order"),
    "sync_on_close": Spelling("polars", "durable"),
    "lazy": Spelling("polars", note="rows are written when they are given"),
    "engine": Spelling("polars and pandas", note="there is one writer"),
    "optimizations": Spelling("polars", note="give the frame of .collect()"),
    "sinked_paths_callback": Spelling("polars", note="the result has all files when the writer is closed"),
    # Spark's DataFrameWriter and settings
    "path": Spelling("polars and Spark", "destination"),
    "partitionBy": Spelling("Spark", "partition_by", _PARTS),
    "maxRecordsPerFile": Spelling("Spark", "max_file_rows", _PARTS),
    "spark.sql.files.maxRecordsPerFile": Spelling("Spark", "max_file_rows", _PARTS),
    "spark.sql.parquet.compression.codec": Spelling("Spark", "compression"),
    "spark.sql.parquet.outputTimestampType": Spelling("Spark", "timestamps", '"us", "ms" or "int96"'),
    "spark.sql.parquet.writeLegacyFormat": Spelling("Spark", note="the legacy format is not written"),
    # Hadoop's ParquetOutputFormat, which Spark writes with
    "parquet.block.size": Spelling("Spark", "row_group_bytes", "after compression"),
    "parquet.block.row.count.limit": Spelling("Spark", "row_group_rows"),
    "parquet.page.size": Spelling("Spark", "page_bytes"),
    "parquet.page.row.count.limit": Spelling("Spark", "page_rows"),
    "parquet.page.value.count.threshold": Spelling("Spark", note="pages are cut by page_bytes"),
    "parquet.page.size.check.estimate": Spelling("Spark", note="pages are cut by page_bytes"),
    "parquet.page.size.row.check.min": Spelling("Spark", note="pages are cut by page_bytes"),
    "parquet.page.size.row.check.max": Spelling("Spark", note="pages are cut by page_bytes"),
    "parquet.page.write-checksum.enabled": Spelling("Spark", "page_checksums"),
    "parquet.compression": Spelling("Spark", "compression", "in lower case"),
    "parquet.enable.dictionary": Spelling("Spark", "dictionary"),
    "parquet.dictionary.page.size": Spelling("Spark", "dictionary_page_bytes"),
    "parquet.enable.bytestreamsplit": Spelling("Spark", 'encoding="byte_stream_split"'),
    "parquet.writer.version": Spelling("Spark", 'compatibility="v1"', "for what is PARQUET_1_0 there"),
    "parquet.writer.max-padding": Spelling("Spark", note="row groups are not padded to blocks"),
    "parquet.memory.pool.ratio": Spelling("Spark", "memory_limit", "in bytes"),
    "parquet.memory.min.chunk.size": Spelling("Spark", "memory_limit", "in bytes"),
    "parquet.bloom.filter.enabled": Spelling("Spark", "bloom_filter"),
    "parquet.bloom.filter.fpp": Spelling("Spark", _FILTER),
    "parquet.bloom.filter.expected.ndv": Spelling(
        "Spark", note="a filter's size follows the values that come"
    ),
    "parquet.bloom.filter.max.bytes": Spelling("Spark", note="a filter's size follows the values that come"),
    "parquet.bloom.filter.adaptive.enabled": Spelling(
        "Spark", note="a filter's size follows the values that come"
    ),
    "parquet.bloom.filter.candidates.number": Spelling(
        "Spark", note="a filter's size follows the values that come"
    ),
    "parquet.column.statistics.enabled": Spelling("Spark", "statistics", _STATISTICS),
    "parquet.size.statistics.enabled": Spelling("Spark", note="sizes of values are not written"),
    "parquet.statistics.truncate.length": Spelling("Spark", note="long text has prefixes of 64 bytes"),
    "parquet.columnindex.truncate.length": Spelling("Spark", note="long text has prefixes of 64 bytes"),
    "parquet.enable.summary-metadata": Spelling("Spark", "metadata_file", _PARTS),
    "parquet.summary.metadata.level": Spelling(
        "Spark", "metadata_file", f'True for what is "ALL" there; {_PARTS}'
    ),
    "parquet.validation": Spelling("Spark", note="every batch is checked"),
    "parquet.write.support.class": Spelling("Spark", note="rows come as Arrow data"),
}


def refusal(name: str, accepted: Collection[str]) -> UnknownOptionError:
    """The error of a keyword that is no option, with the name that it has here.

    Args:
        name: The keyword.
        accepted: The options of the dataclass, or of the function, that refuses it.
    """
    if name in DatasetKeywords.__annotations__:
        return UnknownOptionError(f"{name} is an option of {_owner(name)}", name)
    spelling = ELSEWHERE.get(name.partition("#")[0])
    if spelling is None:
        return _unlike_any(name, accepted)
    if not spelling.here:
        message = (
            f"{name} is an option of {spelling.library}, and there is none like it here: {spelling.note}"
        )
        return UnknownOptionError(message, name)
    is_folder = spelling.here == "destination" and "partition_by" in accepted
    here = "directory" if is_folder else spelling.here
    note = f" ({spelling.note})" if spelling.note else ""
    return UnknownOptionError(
        f"{name} is an option of {spelling.library}: here it is {here}{note}", name, (here,)
    )


def _owner(name: str) -> str:
    """The public names that take an option of ours."""
    if name in WriterKeywords.__annotations__:
        return "WriterOptions, and of everything that writes files"
    return "DatasetOptions, DatasetWriter and write_dataset(), which write folders of files"


def _unlike_any(name: str, accepted: Collection[str]) -> UnknownOptionError:
    # The nearest of those that are accepted; else one of another dataclass, with its name.
    for known in (accepted, DatasetKeywords.__annotations__):
        for close in difflib.get_close_matches(name, known, n=1):
            of = "" if close in accepted else f", an option of {_owner(close)}"
            return UnknownOptionError(
                f"there is no option {name}: {close} is the nearest{of}", name, (close,)
            )
    message = f"there is no option {name}: choose among {', '.join(accepted)}"
    return UnknownOptionError(message, name, tuple(accepted))
