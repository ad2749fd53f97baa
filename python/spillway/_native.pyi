# Types of the compiled module; stubtest checks them against it.

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Self, TypeAlias, TypedDict, final, type_check_only

from typing_extensions import disjoint_base

from spillway.dataset_writer import DatasetOptions
from spillway.delta.clauses import _PreparedClause
from spillway.delta.types import EffectTimes
from spillway.encryption import Encryption
from spillway.types import EffectName
from spillway.writer import WriterOptions

__all__ = [
    "AwaitedCommit",
    "CommitCounter",
    "DatasetWriter",
    "DeltaAppend",
    "DeltaChanges",
    "DeltaRows",
    "DeltaScan",
    "DeltaSchema",
    "DeltaTable",
    "Digest",
    "MemoryBudget",
    "ObjectFolder",
    "RowSource",
    "Writer",
    "await_intent_gc",
    "build_info",
    "check_condition",
    "check_dataset_options",
    "check_delta_options",
    "check_encryption",
    "check_options",
    "column_stream",
    "create_object",
    "dataset_options",
    "digest",
    "inspect",
    "is_object",
    "join_files",
    "row_hashes",
    "spark_row_sums",
    "split_files",
    "stop_telling_loops",
    "unfit_columns",
    "writer_options",
]

def await_intent_gc(seconds: float) -> bool: ...
def stop_telling_loops() -> None: ...
def build_info() -> dict[str, Any]: ...
def check_condition(text: str, option: str) -> None: ...
def column_stream(schema: object, values: object) -> object: ...
def check_dataset_options(options: DatasetOptions) -> None: ...
def check_delta_options(options: WriterOptions) -> None: ...
def check_encryption(encryption: Encryption) -> None: ...
def check_options(options: WriterOptions) -> None: ...
def create_object(folder: str, name: str, body: bytes, storage_options: dict[str, str]) -> bool: ...
def is_object(url: str, storage_options: dict[str, str]) -> bool: ...
def unfit_columns(given: object, table: object) -> list[tuple[str, str]]: ...

@type_check_only
class OptionDict(TypedDict):
    default: Any
    accepted: list[str]

def dataset_options() -> dict[str, OptionDict]: ...
def writer_options() -> dict[str, OptionDict]: ...

@disjoint_base
class MemoryBudget:
    def __new__(cls, limit: int | str, writers: int) -> Self: ...
    @property
    def limit(self) -> int: ...
    @property
    def writers(self) -> int: ...
    @property
    def share(self) -> int: ...
    @property
    def open_writers(self) -> int: ...

@final
class Writer:
    def __new__(
        cls,
        destination: object,
        schema: object | None,
        options: WriterOptions,
        storage_options: dict[str, str] | None = None,
    ) -> Writer: ...
    def write(self, data: object, last: bool = False) -> None: ...
    def write_rows(self, data: object, on_error: object, extra: object) -> int: ...
    def write_ndjson(self, source: object, on_error: object, extra: object) -> int: ...
    def add_metadata(self, metadata: Mapping[str, str]) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...
    @property
    def bytes_written(self) -> int: ...
    @property
    def closed(self) -> bool: ...
    @property
    def result(self) -> dict[str, Any] | None: ...

@type_check_only
class DatasetFileDict(TypedDict):
    path: str
    partition: dict[str, str | None]
    file: dict[str, Any]

def join_files(
    files: Sequence[str],
    destination: object,
    durable: bool,
    storage_options: dict[str, str] | None,
    progress: Callable[[int, int], object] | None,
) -> dict[str, Any]: ...
def split_files(
    files: Sequence[str],
    directory: str,
    options: DatasetOptions,
    max_file_row_groups: int | None,
    durable: bool,
    storage_options: dict[str, str] | None,
    progress: Callable[[int, int], object] | None,
) -> list[DatasetFileDict]: ...

# The name of an object, the id of its upload, its parts and its bytes.
_Upload: TypeAlias = tuple[str, str, list[str], int]

@final
class DatasetWriter:
    def __new__(
        cls,
        directory: str,
        schema: object | None,
        dataset: DatasetOptions,
        options: WriterOptions,
        storage_options: dict[str, str] | None = None,
    ) -> DatasetWriter: ...
    def write(self, data: object) -> None: ...
    def write_rows(self, data: object, on_error: object, extra: object) -> int: ...
    def write_ndjson(self, source: object, on_error: object, extra: object) -> int: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...
    @property
    def bytes_written(self) -> int: ...
    @property
    def closed(self) -> bool: ...
    @property
    def left(self) -> list[str]: ...
    @property
    def uploads(self) -> list[_Upload]: ...
    @property
    def result(self) -> list[DatasetFileDict] | None: ...

# Aliases, as a method of the class is called list.
_Names: TypeAlias = list[str]
_Objects: TypeAlias = list[tuple[str, int, int]]
_Bodies: TypeAlias = list[bytes | None]
_Sizes: TypeAlias = list[int | None]
_Failed: TypeAlias = list[tuple[str, OSError]]

@final
class ObjectFolder:
    def __new__(cls, url: str, storage_options: dict[str, str]) -> ObjectFolder: ...
    def list(self, folder: str) -> _Objects: ...
    def children(self, folder: str) -> tuple[_Objects, _Names]: ...
    def exists(self, folder: str) -> bool: ...
    def read(self, names: _Names) -> _Bodies: ...
    def sizes(self, names: _Names) -> _Sizes: ...
    def write(self, name: str, body: bytes) -> None: ...
    def copy(self, places: Sequence[tuple[str, str]]) -> None: ...
    def delete(self, names: _Names) -> _Failed: ...
    def writer(
        self, schema: object, dataset: DatasetOptions, options: WriterOptions, journal: str
    ) -> DatasetWriter: ...
    def complete(self, uploads: Sequence[_Upload]) -> None: ...
    def take_back(self, uploads: Sequence[_Upload]) -> _Failed: ...
    def abort(self, uploads: Sequence[tuple[str, str]]) -> _Failed: ...

@final
class RowSource:
    def __new__(cls, data: object) -> RowSource: ...
    def __arrow_c_schema__(self) -> object: ...
    @property
    def names(self) -> list[str]: ...

@final
class DeltaSchema:
    @staticmethod
    def of_rows(rows: list[Any]) -> DeltaSchema: ...
    def __arrow_c_schema__(self) -> object: ...
    def to_json(self) -> str: ...
    @property
    def names(self) -> list[str]: ...

@type_check_only
class DeltaStateDict(TypedDict):
    version: int
    id: str
    name: str | None
    description: str | None
    partition_columns: list[str]
    properties: dict[str, str]
    schema: DeltaSchema

@type_check_only
class DeltaFileDict(TypedDict):
    path: str
    size: int
    modification_time: int
    partition_values: dict[str, str | None]
    stats: str | None
    deleted_rows: int

@disjoint_base
class DeltaRows:
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...

@final
class DeltaScan(DeltaRows):
    @property
    def version(self) -> int: ...
    def files(self) -> list[DeltaFileDict]: ...
    @property
    def maps_columns(self) -> bool: ...
    @property
    def skipped(self) -> int: ...

@final
class DeltaChanges(DeltaRows):
    @property
    def versions(self) -> tuple[int, int]: ...

# Conditions: a text in SQL, or columns with an operator and values.
_Given: TypeAlias = str | list[tuple[str, str, list[Any]]]

@final
class DeltaTable:
    @staticmethod
    def open(root: str, storage_options: dict[str, str] | None) -> DeltaTable: ...
    @staticmethod
    def create(
        root: str,
        schema: object,
        partition_by: list[str],
        cluster_by: list[str],
        properties: dict[str, str],
        name: str | None,
        description: str | None,
        mode: str,
        timeout: float | None,
        storage_options: dict[str, str] | None,
    ) -> DeltaTable: ...
    @staticmethod
    def plan(schema: object, partition_by: list[str]) -> bytes: ...
    @staticmethod
    def planned(root: str, plan: bytes, storage_options: dict[str, str] | None) -> DeltaTable: ...
    @property
    def root(self) -> str: ...
    def state(self) -> DeltaStateDict: ...
    def clustering_columns(self) -> list[str]: ...
    def cluster_by(self, columns: list[str], timeout: float | None) -> int: ...
    def set_properties(self, properties: dict[str, str | None], timeout: float | None) -> int: ...
    def add_constraint(self, name: str, expression: str, timeout: float | None) -> int: ...
    def drop_constraint(self, name: str, timeout: float | None) -> int: ...
    def version(self) -> int: ...
    def refresh(self) -> int: ...
    def newest_schema(self) -> DeltaSchema: ...
    def unpin(self) -> None: ...
    def version_at(self, time: int) -> int: ...
    def files(self, version: int | None) -> list[DeltaFileDict]: ...
    def scan(self, columns: list[str] | None, given: _Given, version: int | None) -> DeltaScan: ...
    def changes(self, first: int, last: int | None, columns: list[str] | None) -> DeltaChanges: ...
    def paths_in_use(self, folder: str) -> list[str]: ...
    def history(self, limit: int | None) -> list[tuple[int, int | None, str]]: ...
    def transaction_version(self, app_id: str) -> int | None: ...
    def append(
        self,
        options: WriterOptions,
        merge_schema: bool,
        app_transaction: tuple[str, int] | None,
        replace: _Given | None,
        user_metadata: str | None,
        max_file_bytes: int | None,
        max_file_rows: int | None,
        coalesce: bool,
        folder: str | None,
    ) -> DeltaAppend: ...
    def delete(self, given: _Given, timeout: float | None) -> int: ...
    def delete_rows(
        self,
        given: _Given,
        options: WriterOptions,
        user_metadata: str | None,
        timeout: float | None,
    ) -> tuple[int, int, int, int, bool]: ...
    def update_rows(
        self,
        given: _Given,
        literals: dict[str, Any],
        computed: list[str],
        evaluate: Sequence[Callable[[object], object]],
        options: WriterOptions,
        user_metadata: str | None,
        timeout: float | None,
    ) -> tuple[int, int, int, int, bool]: ...
    def merge_rows(
        self,
        data: RowSource,
        on: list[str],
        clauses: list[_PreparedClause],
        evaluate: Sequence[Callable[[object], object]],
        options: WriterOptions,
        user_metadata: str | None,
        timeout: float | None,
    ) -> tuple[int, int, int, int, bool]: ...
    def compact(
        self,
        given: _Given,
        target_file_bytes: int | None,
        purge: bool,
        options: WriterOptions,
        user_metadata: str | None,
        timeout: float | None,
    ) -> tuple[int, int, int, int, int]: ...
    def vacuum(
        self, retention: int | None, dry_run: bool, enforce_retention: bool
    ) -> tuple[list[str], int, int]: ...
    def truncate(self, timeout: float | None) -> int: ...
    def restore(self, version: int, timeout: float | None) -> int: ...
    def commit(
        self,
        adds: list[dict[str, Any]],
        removes: list[str],
        version: int | None,
        whole_table: bool,
        files: list[str],
        given: _Given,
        operation: str,
        user_metadata: str | None,
        timeout: float | None,
    ) -> int: ...
    def outcome(
        self, token: str, timeout: float | None
    ) -> tuple[Literal["committed", "rejected", "pending", "unknowable"], int | None]: ...
    def commit_stats(self) -> tuple[int, int, int, dict[EffectName, EffectTimes]]: ...
    def commit_counter(self) -> CommitCounter | None: ...
    @property
    def damaged_checkpoint(self) -> str | None: ...
    def is_checkpoint_due(self, version: int) -> bool: ...
    def checkpoint(self) -> int: ...
    def clean_up_log(self) -> int: ...

@final
class CommitCounter:
    @property
    def attempts(self) -> int: ...

@final
class AwaitedCommit:
    def leave(self) -> bool: ...
    def expire(self) -> None: ...

@final
class DeltaAppend:
    def write(self, data: object) -> None: ...
    def write_rows(self, data: object, on_error: object, extra: object) -> int: ...
    def write_ndjson(self, source: object, on_error: object, extra: object) -> int: ...
    def commit(self, timeout: float | None) -> int: ...
    def commit_async(
        self, table: DeltaTable, timeout: float | None, event_loop: object, waiter: object
    ) -> AwaitedCommit: ...
    def detach(self) -> bytes: ...
    def attach(self, part: bytes) -> None: ...
    def add_metrics(self, metrics: dict[str, str]) -> None: ...
    def commit_counter(self) -> CommitCounter: ...
    @property
    def version(self) -> int | None: ...
    def abort(self) -> None: ...
    @property
    def closed(self) -> bool: ...
    @property
    def is_repeated(self) -> bool: ...

@final
class Digest:
    @staticmethod
    def from_bytes(data: bytes) -> Digest: ...
    def to_bytes(self) -> bytes: ...
    def merge(self, other: Digest) -> Digest: ...
    @property
    def rows(self) -> int: ...
    @property
    def row_checksum(self) -> str: ...
    @property
    def sequence_checksum(self) -> str: ...
    @property
    def columns(self) -> list[dict[str, Any]]: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __reduce__(self) -> tuple[Any, tuple[bytes]]: ...
    __hash__: None  # type: ignore[assignment]  # equality without a hash

def digest(data: object, *, first_row: int = 0, positions: str | None = None) -> Digest: ...
def row_hashes(data: object) -> bytes: ...
def spark_row_sums(data: object) -> tuple[int, int]: ...

@type_check_only
class PageDict(TypedDict):
    page_type: str
    encoding: str | None
    offset: int
    compressed_bytes: int
    uncompressed_bytes: int
    checksum: bool
    values: int
    first_row: int | None
    rows: int | None
    nulls: int | None
    min: str | None
    max: str | None

@type_check_only
class ColumnChunkDict(TypedDict):
    path: str
    field_id: int | None
    max_definition_level: int
    max_repetition_level: int
    physical_type: str
    logical_type: str | None
    codec: str
    encodings: list[str]
    encoding_stats: list[tuple[str, str, int]] | None
    values: int
    nulls: int | None
    distinct: int | None
    min: str | None
    max: str | None
    min_exact: bool
    max_exact: bool
    compressed_bytes: int
    uncompressed_bytes: int
    dictionary_page: bool
    data_pages: int | None
    column_index: bool
    offset_index: bool
    bloom_filter: bool
    bloom_filter_bytes: int | None
    pages: list[PageDict] | None

@type_check_only
class RowGroupDict(TypedDict):
    rows: int
    compressed_bytes: int
    uncompressed_bytes: int
    sorting_columns: list[tuple[str, bool, bool]]
    columns: list[ColumnChunkDict]

@type_check_only
class FileDict(TypedDict):
    bytes: int
    footer_bytes: int
    created_by: str | None
    version: int
    rows: int
    schema: str
    metadata_keys: list[str]
    row_groups: list[RowGroupDict]

def inspect(path: object, pages: bool = False) -> FileDict: ...
