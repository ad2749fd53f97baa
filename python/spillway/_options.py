"""Options as keyword parameters: shown in signatures, and unknown ones refused with the name to write."""

from __future__ import annotations

import difflib
import functools
import inspect
import re
from dataclasses import fields
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from spillway._wording import joined
from spillway.errors import OptionError, UnknownOptionError
from spillway.types import DatasetKeywords, WriterKeywords

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

__all__ = [
    "ELSEWHERE",
    "METHODS",
    "checks_arguments",
    "checks_names",
    "option_of",
    "refusal",
    "refuse_unknown",
    "require_counts",
    "shows_options",
    "with_options",
]

_Class = TypeVar("_Class", bound=type)
_Callable = TypeVar("_Callable", bound="Callable[..., Any]")

#: The line of a docstring that stands for all options.
_PLACEHOLDER = re.compile(r"^( *)\*\*options:.*\n(?:\1 +.*\n)*", flags=re.MULTILINE)


def checks_names(options: _Class) -> _Class:
    """Makes a dataclass of options raise `UnknownOptionError` for an unknown keyword."""
    initialise = options.__init__  # type: ignore[misc]  # of the class itself, which the decorator is put on

    @functools.wraps(initialise)
    def checked(self: object, **given: object) -> None:
        refuse_unknown(given, options)
        initialise(self, **given)

    options.__init__ = checked  # type: ignore[misc]
    return options


def checks_arguments(function: _Callable) -> _Callable:
    """Makes a function raise `UnknownOptionError` for an unknown keyword."""
    accepted = [name for name in inspect.signature(function).parameters if name != "self"]
    known = frozenset(accepted)

    @functools.wraps(function)
    def checked(*positional: Any, **given: Any) -> Any:
        for keyword in given:
            if keyword not in known:
                raise refusal(keyword, accepted, is_complete=True)
        return function(*positional, **given)

    return cast("_Callable", checked)


def refuse_unknown(given: Iterable[str], *groups: type) -> None:
    """Refuse keywords that are no fields of the dataclasses `groups`.

    Raises:
        UnknownOptionError: There is one. It is about the first, and has a note about each of the others.
    """
    accepted = [field.name for group in groups for field in fields(group)]
    errors = [refusal(name, accepted) for name in given if name not in accepted]
    if errors:
        for other in errors[1:]:
            errors[0].add_note(str(other))
        raise errors[0]


def require_counts(options: Mapping[str, Sequence[int]]) -> None:
    """Check that options have whole numbers from 1 up.

    Raises:
        OptionError: One has none, or a smaller one.
    """
    for option, values in options.items():
        if not values or min(values) < 1:
            raise OptionError(f"{option} takes whole numbers from 1 up, not {joined(values)}")


def require_distinct(options: Mapping[str, Sequence[object]]) -> None:
    """Refuse a value that is given twice: its samples would be pairs of themselves.

    Raises:
        OptionError: There is such a value; the message has its option.
    """
    for name, values in options.items():
        twice = next((value for value in values if values.count(value) > 1), None)
        if twice is not None:
            raise OptionError(f"{name} has {twice} twice: give each value once", name)


def shows_options(*groups: type) -> Callable[[_Callable], _Callable]:
    """Show each option in the signature and the docstring of a function or class that takes ``**options``.

    Names, defaults and descriptions are those of the dataclasses `groups`. Type checkers see the `TypedDict`
    that the function unpacks instead.
    """

    def show(target: _Callable) -> _Callable:
        function: Any = cast("Any", target).__init__ if isinstance(target, type) else target
        own = inspect.signature(function)
        parameters = [
            parameter
            for parameter in own.parameters.values()
            if parameter.kind is not inspect.Parameter.VAR_KEYWORD
        ]
        options = [
            inspect.Parameter(
                field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=field.type
            )
            for group in groups
            for field in fields(group)
        ]
        function.__signature__ = own.replace(parameters=[*parameters, *options])
        if target.__doc__ is not None:  # there is none under -OO
            target.__doc__ = with_options(target.__doc__, *groups)
        return target

    return show


def with_options(docstring: str, *groups: type) -> str:
    """A docstring with the descriptions of the fields of dataclasses in the place of its ``**options``."""
    return _PLACEHOLDER.sub(lambda found: "".join(_described(group, found[1]) for group in groups), docstring)


def _described(group: type, indent: str) -> str:
    """The section ``Args`` of a dataclass, at the indentation of another docstring."""
    text = inspect.cleandoc(group.__doc__ or "")
    section = re.search(r"^Args:\n((?:    .*\n|\n)*?)(?=\n*\S|\Z)", text + "\n", flags=re.MULTILINE)
    lines = section[1].rstrip().splitlines() if section else []
    return "".join(f"{indent}{line[4:]}\n" if line else "\n" for line in lines)


class Spelling(NamedTuple):
    """An option of another library.

    Args:
        library: Where it is called so; empty if nowhere in particular.
        here: What to write instead: the first of these that a function accepts. Empty if there is nothing
            like it.
        note: What else is to be known; for an option that is not there, the reason.
    """

    library: str
    here: str | tuple[str, ...] = ""
    note: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """All that may be written instead."""
        return (self.here,) if isinstance(self.here, str) else self.here

    def of(self, accepted: Collection[str]) -> str:
        """What to write instead in a function that accepts these options."""
        return next((name for name in self.names if option_of(name) in accepted), self.names[0])


def option_of(here: str) -> str:
    """The option of an argument that may have its value."""
    return here.partition("=")[0]


_STATISTICS = "for all columns, or a mapping {column: bool}"
_INT96 = 'timestamps="int96"'
_FORMAT = "a file is always Parquet"
_PARTS = "write_dataset() and DatasetWriter write folders"
#: An option that says that folders are written.
_FOLDERS = "basename_template"
#: Options of folders that a table has as well.
_OF_TABLES = ("mode", "partition_by")
_FILTER = "bloom_filter={column: share of wrong answers}"

#: Methods of pyarrow's writer, and what to call instead.
METHODS = {
    "write_table": "write(table)",
    "write_batch": "write(batch)",
    "add_key_value_metadata": "add_metadata(metadata)",
}

ELSEWHERE: dict[str, Spelling] = {
    # pyarrow.parquet
    "where": Spelling("pyarrow", ("destination", "directory")),
    "row_group_size": Spelling("pyarrow and polars", "row_group_rows"),
    "chunk_size": Spelling("pyarrow", "row_group_rows"),
    "version": Spelling(
        "pyarrow", 'compatibility="v1"', 'for what is version="1.0" there; all else is the default'
    ),
    "use_dictionary": Spelling(
        "pyarrow", "dictionary", "for a list of columns: {column: False} for each that is not in it"
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
    "data_page_version": Spelling("pyarrow", note="data pages have version 1.0, which every reader supports"),
    "use_compliant_nested_type": Spelling(
        "pyarrow", note='lists have the field "element", as the format asks for'
    ),
    "encryption_properties": Spelling("pyarrow", "encryption", "with the keys, as a spillway.Encryption"),
    "write_batch_size": Spelling("pyarrow", note="page_bytes sets the size of pages"),
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
        "pyarrow", "content_defined_chunking", "with the minimum and maximum bytes as a tuple"
    ),
    "writer_engine_version": Spelling("pyarrow", note="there is one writer"),
    "memory_pool": Spelling("pyarrow", note="memory_limit bounds what a writer keeps"),
    # pyarrow.dataset, and write_to_dataset
    "base_dir": Spelling("pyarrow", ("directory", "uri")),
    "root_path": Spelling("pyarrow", ("directory", "uri")),
    "format": Spelling("pyarrow and Spark", note=_FORMAT),
    "partition_cols": Spelling("pyarrow", "partition_by"),
    "partitioning": Spelling("pyarrow", "partition_by"),
    "partitioning_flavor": Spelling("pyarrow", note="folders are named as Hive and Spark name them"),
    "file_options": Spelling("pyarrow", note="each option is a keyword argument"),
    "use_threads": Spelling("pyarrow", "threads", "as a number, by default all cores; the file is the same"),
    "preserve_order": Spelling("pyarrow", note="rows stay in their order"),
    "max_partitions": Spelling(
        "pyarrow", note="there is no limit to partitions; max_open_files bounds the open files"
    ),
    "max_rows_per_file": Spelling("pyarrow", "max_file_rows"),
    "min_rows_per_group": Spelling("pyarrow", "row_group_rows", "which is exact"),
    "max_rows_per_group": Spelling("pyarrow", "row_group_rows", "which is exact"),
    "file_visitor": Spelling("pyarrow", note="the result lists all files once the writer is closed"),
    "existing_data_behavior": Spelling("pyarrow", "mode"),
    "metadata_collector": Spelling(
        "pyarrow", "metadata_file", "which writes _metadata; result.metadata is a file's own"
    ),
    "create_dir": Spelling("pyarrow", note="the folder of a dataset is always created"),
    # polars
    "file": Spelling("polars", ("destination", "directory")),
    "use_pyarrow": Spelling("polars", note="there is one writer"),
    "pyarrow_options": Spelling("polars", note="there is one writer, and each option is a keyword argument"),
    "partition_chunk_size_bytes": Spelling("polars", "max_file_bytes", "which counts bytes of the file"),
    "credential_provider": Spelling("polars", "storage_options", "with the credentials themselves"),
    "field_overwrites": Spelling("polars", "field_ids", "for ids; give the types to store as schema="),
    "arrow_schema": Spelling("polars", "schema"),
    "mkdir": Spelling(
        "polars", note="the folder of a file must exist; the folder of a dataset is always created"
    ),
    "maintain_order": Spelling("polars", note="rows stay in their order"),
    "sync_on_close": Spelling("polars", "durable"),
    "lazy": Spelling("polars", note="rows are written as they are passed"),
    "engine": Spelling("polars and pandas", note="there is one writer"),
    "optimizations": Spelling("polars", note="pass the frame that .collect() returns"),
    "sinked_paths_callback": Spelling("polars", note="the result lists all files once the writer is closed"),
    # pandas, fastparquet, Daft
    "if_exists": Spelling("pandas", "mode"),
    "partition_on": Spelling("fastparquet", "partition_by"),
    "write_mode": Spelling("Daft", "mode"),
    # words of one library or another
    "codec": Spelling("", "compression"),
    "existing": Spelling("", "mode"),
    "filter": Spelling("", "where"),
    "overwrite": Spelling("", 'mode="overwrite"'),
    # delta-rs, and polars over it
    "table_or_uri": Spelling("delta-rs", "uri"),
    "table_uri": Spelling("delta-rs", "uri"),
    "target": Spelling("polars and delta-rs", ("uri", "version")),
    "predicate": Spelling("delta-rs", ("where", "on")),
    "partition_filters": Spelling("delta-rs", "where"),
    "filters": Spelling("pyarrow and delta-rs", "where"),
    "updates": Spelling("delta-rs", ("set", "values")),
    "new_values": Spelling("delta-rs", "set"),
    "configuration": Spelling("delta-rs", "properties"),
    "target_file_size": Spelling(
        "delta-rs", ("target_file_bytes", "max_file_bytes", 'properties={"delta.targetFileSize": "128mb"}')
    ),
    "target_size": Spelling("delta-rs", "target_file_bytes"),
    "writer_properties": Spelling("delta-rs", note="each option is a keyword argument"),
    "commit_properties": Spelling(
        "delta-rs", "user_metadata", "which is a string; commits are retried automatically"
    ),
    "post_commithook_properties": Spelling(
        "delta-rs", note="checkpoints and clean-up follow the properties of the table"
    ),
    "merge_schema": Spelling("delta-rs", 'schema_mode="merge"'),
    "error_on_type_mismatch": Spelling("delta-rs", note="a value that its column cannot hold is refused"),
    "raise_if_key_not_exists": Spelling("delta-rs", note="unknown properties are refused"),
    "source_alias": Spelling("delta-rs", note='the sides are named "source" and "target"'),
    "target_alias": Spelling("delta-rs", note='the sides are named "source" and "target"'),
    "streamed_exec": Spelling(
        "delta-rs", note="the table is read as a stream, and the source is held in memory"
    ),
    "max_spill_size": Spelling("delta-rs", note="nothing is spilled to disk"),
    "max_temp_directory_size": Spelling("delta-rs", note="nothing is spilled to disk"),
    "max_concurrent_tasks": Spelling("delta-rs", "threads"),
    "min_commit_interval": Spelling("delta-rs", note="a call creates one version"),
    "retention_hours": Spelling("delta-rs", "retention", "as a timedelta"),
    "enforce_retention_duration": Spelling("delta-rs", "enforce_retention"),
    "full": Spelling("delta-rs", note="the folder is always listed"),
    "keep_versions": Spelling("delta-rs", note="files are kept for as long as versions need them"),
    "starting_version": Spelling("delta-rs", "first_version"),
    "ending_version": Spelling("delta-rs", "last_version"),
    "starting_timestamp": Spelling("delta-rs", "first_version", "which history() returns with its time"),
    "ending_timestamp": Spelling("delta-rs", "last_version", "which history() returns with its time"),
    "allow_out_of_range": Spelling("delta-rs", note="missing versions are refused"),
    "delta_write_options": Spelling("polars", note="each option is a keyword argument"),
    "delta_merge_options": Spelling("polars", note="Table.merge() takes them"),
    # delta-spark
    "condition": Spelling("Spark", ("where", "on")),
    "mergeSchema": Spelling("Spark", 'schema_mode="merge"'),
    "overwriteSchema": Spelling("Spark", note='spillway.delta.create(mode="overwrite") replaces the schema'),
    "replaceWhere": Spelling("Spark", "where"),
    "partitionOverwriteMode": Spelling("Spark", "partition_overwrite"),
    "txnAppId": Spelling("Spark", "app_id"),
    "txnVersion": Spelling("Spark", "app_version"),
    "userMetadata": Spelling("Spark", "user_metadata"),
    # Spark's DataFrameWriter and settings
    "path": Spelling("polars and Spark", ("destination", "directory", "uri")),
    "partitionBy": Spelling("Spark", "partition_by"),
    "maxRecordsPerFile": Spelling("Spark", "max_file_rows"),
    "spark.sql.files.maxRecordsPerFile": Spelling("Spark", "max_file_rows"),
    "spark.sql.parquet.compression.codec": Spelling("Spark", "compression"),
    "spark.sql.parquet.outputTimestampType": Spelling("Spark", "timestamps", '"us", "ms" or "int96"'),
    "spark.sql.parquet.writeLegacyFormat": Spelling("Spark", note="the legacy format is not written"),
    # Hadoop's ParquetOutputFormat, which Spark writes with
    "parquet.block.size": Spelling("Spark", "row_group_bytes", "after compression"),
    "parquet.block.row.count.limit": Spelling("Spark", "row_group_rows"),
    "parquet.page.size": Spelling("Spark", "page_bytes"),
    "parquet.page.row.count.limit": Spelling("Spark", "page_rows"),
    "parquet.page.value.count.threshold": Spelling("Spark", note="page_bytes sets the size of pages"),
    "parquet.page.size.check.estimate": Spelling("Spark", note="page_bytes sets the size of pages"),
    "parquet.page.size.row.check.min": Spelling("Spark", note="page_bytes sets the size of pages"),
    "parquet.page.size.row.check.max": Spelling("Spark", note="page_bytes sets the size of pages"),
    "parquet.page.write-checksum.enabled": Spelling("Spark", "page_checksums"),
    "parquet.compression": Spelling("Spark", "compression", "in lower case"),
    "parquet.enable.dictionary": Spelling("Spark", "dictionary"),
    "parquet.dictionary.page.size": Spelling("Spark", "dictionary_page_bytes"),
    "parquet.enable.bytestreamsplit": Spelling("Spark", 'encoding="byte_stream_split"'),
    "parquet.writer.version": Spelling("Spark", 'compatibility="v1"', "for PARQUET_1_0"),
    "parquet.writer.max-padding": Spelling("Spark", note="row groups are not padded to blocks"),
    "parquet.memory.pool.ratio": Spelling("Spark", "memory_limit", "in bytes"),
    "parquet.memory.min.chunk.size": Spelling("Spark", "memory_limit", "in bytes"),
    "parquet.bloom.filter.enabled": Spelling("Spark", "bloom_filter"),
    "parquet.bloom.filter.fpp": Spelling("Spark", _FILTER),
    "parquet.bloom.filter.expected.ndv": Spelling(
        "Spark", note="the size of a filter follows from its values"
    ),
    "parquet.bloom.filter.max.bytes": Spelling("Spark", note="the size of a filter follows from its values"),
    "parquet.bloom.filter.adaptive.enabled": Spelling(
        "Spark", note="the size of a filter follows from its values"
    ),
    "parquet.bloom.filter.candidates.number": Spelling(
        "Spark", note="the size of a filter follows from its values"
    ),
    "parquet.column.statistics.enabled": Spelling("Spark", "statistics", _STATISTICS),
    "parquet.size.statistics.enabled": Spelling("Spark", note="sizes of values are not written"),
    "parquet.statistics.truncate.length": Spelling("Spark", note="bounds of long text have 64 bytes"),
    "parquet.columnindex.truncate.length": Spelling("Spark", note="bounds of long text have 64 bytes"),
    "parquet.enable.summary-metadata": Spelling("Spark", "metadata_file"),
    "parquet.summary.metadata.level": Spelling("Spark", "metadata_file", 'True for what is "ALL" there'),
    "parquet.validation": Spelling("Spark", note="every batch is checked"),
    "parquet.write.support.class": Spelling("Spark", note="rows are Arrow data"),
}


def refusal(name: str, accepted: Collection[str], *, is_complete: bool = False) -> UnknownOptionError:
    """The error of a keyword that is not an option, with the name that it has here.

    Args:
        name: The keyword.
        accepted: The options of the dataclass, or of the function, that refuses it.
        is_complete: True if a function accepts no others; options of a dataclass come beside those of
            functions.
    """
    if name in DatasetKeywords.__annotations__:
        return UnknownOptionError(f"{name} is an option of {_owner(name)}", name)
    spelling = ELSEWHERE.get(name.partition("#")[0])
    if name == "version" and is_complete and "compression" not in accepted:
        message = "version is not an option here: scan(version=...), files and restore of the table take it"
        return UnknownOptionError(message, name)
    if spelling is None:
        return _unlike_any(name, accepted, is_complete=is_complete)
    whose = f"is an option of {spelling.library}" if spelling.library else "is not an option"
    if not spelling.here:
        message = f"{name} {whose}, which has no equivalent here: {spelling.note}"
        return UnknownOptionError(message, name)
    # Folders are written to what dataclasses of options do not name.
    here = spelling.of({*accepted, "directory"} if _FOLDERS in accepted else accepted)
    option = option_of(here)
    is_known = option in accepted or option in DatasetKeywords.__annotations__
    if is_complete and not is_known:
        return _unlike_any(name, accepted, is_complete=is_complete)
    notes = [spelling.note] if spelling.note else []
    if (
        option not in accepted
        and option in DatasetKeywords.__annotations__.keys() - WriterKeywords.__annotations__
    ):
        notes.append(_PARTS)
    note = f" ({'; '.join(notes)})" if notes else ""
    return UnknownOptionError(f"{name} {whose}: here it is {here}{note}", name, (here,))


def _owner(name: str) -> str:
    """The public names that take an option of ours."""
    if name in WriterKeywords.__annotations__:
        return "WriterOptions, and of everything that writes files"
    tables = "; and of spillway.delta.write()" if name in _OF_TABLES else ""
    return f"DatasetOptions, DatasetWriter and write_dataset(), which write folders of files{tables}"


def _unlike_any(name: str, accepted: Collection[str], *, is_complete: bool) -> UnknownOptionError:
    # The nearest of those that are accepted; else one of another dataclass, with its name.
    for known in (accepted, () if is_complete else DatasetKeywords.__annotations__):
        for close in difflib.get_close_matches(name, known, n=1):
            of = "" if close in accepted else f", an option of {_owner(close)}"
            return UnknownOptionError(
                f"there is no option {name}: {close} is the nearest{of}", name, (close,)
            )
    message = f"there is no option {name}: choose among {', '.join(accepted)}"
    return UnknownOptionError(message, name, tuple(accepted))
