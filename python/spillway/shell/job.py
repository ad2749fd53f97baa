"""The work that a command line asks for, and the shares of its memory."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from spillway._destination import local_path
from spillway.errors import OptionError
from spillway.reading.text import TextOptions
from spillway.types import DatasetMode
from spillway.writer import WriterOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

LEAST_MEMORY = 4_000_000

_KIB = 1 << 10
_MIB = 1 << 20
# A limit that a writer accepts at zstd 1: for a file, and for each of its columns. Other codecs may need
# more, which the writer says.
_FILE_BYTES = 320 * _KIB
_COLUMN_BYTES = 16 * _KIB
_USUAL_FILE_BYTES = _MIB
_MOST_OPEN_FILES = 64


@dataclass(frozen=True)
class Memory:
    """Shares of the memory that the rows of a command may take.

    Half is for writers. What is read takes several times the bytes that are read together: as text, parsed
    and as Arrow columns. The rest is for what allocators do not give back.

    Args:
        limit: Bytes in all.

    Raises:
        OptionError: It is below `LEAST_MEMORY`.
    """

    limit: int

    def __post_init__(self) -> None:
        if self.limit < LEAST_MEMORY:
            raise OptionError(f"--memory {self.limit}: give at least {LEAST_MEMORY // 10**6}MB")

    @property
    def writer(self) -> int:
        """The limit of all open files together."""
        return self.limit // 2

    @property
    def block(self) -> int:
        """Bytes of CSV, or of decoded values of Parquet, that are read together."""
        return min(max(self.limit // 16, 256 * _KIB), 32 * _MIB)

    @property
    def sample(self) -> int:
        """Bytes of NDJSON that types are inferred from."""
        return min(max(self.limit // 32, 128 * _KIB), 16 * _MIB)

    @property
    def slice(self) -> int:
        """Bytes of NDJSON that are read together."""
        return min(self.limit // 64, _MIB)

    @property
    def line(self) -> int:
        """Bytes of the longest line of NDJSON."""
        return self.limit // 8

    def open_files(self, columns: int) -> tuple[int, int]:
        """The number of files of a folder that are open at once, and the limit of each.

        Args:
            columns: Leaf columns of a file.
        """
        usual = max(_USUAL_FILE_BYTES, 2 * (_FILE_BYTES + columns * _COLUMN_BYTES))
        number = min(max(self.writer // usual, 1), _MOST_OPEN_FILES)
        return number, self.writer // number

    def each_of_a_table(self, columns: int) -> int:
        """The limit of each data file of a partitioned table, which has up to 64 of them open.

        Args:
            columns: Leaf columns of a file.

        Raises:
            OptionError: There is less than 64 files need.
        """
        each, least = self.writer // _MOST_OPEN_FILES, _FILE_BYTES + columns * _COLUMN_BYTES
        if each < least:
            needed = -(-2 * _MOST_OPEN_FILES * least // 10**6)
            raise OptionError(
                f"--memory {self.limit}: a partitioned table has up to {_MOST_OPEN_FILES} files open: "
                f"give at least {needed}MB for its {columns} columns"
            )
        return each


@dataclass(frozen=True)
class Job:
    """Rows of files or of a pipe, and their destination.

    Args:
        inputs: Files, folders and globs as they were typed, or one pipe; ``-`` is standard input.
        output: A path, or a URL; that of a file becomes its path.
        memory: Shares of the memory.
        text: Properties that text does not state itself.
        schema: The columns of text; None infers them.
        partition_by: Columns that name folders.
        to_delta: True if `output` is a Delta table.
        mode: What to do with an existing `output`: ``"error"`` refuses it, ``"append"`` adds to a folder or a
            table, ``"overwrite"`` replaces it. By default rows are appended to a table, and all else is
            refused.
        on_error: What to do with bad lines of NDJSON and CSV rows with a different number of fields: the
            command fails, or continues without them.
        storage_options: Settings of the object store.
        options: Fields of `WriterOptions`, except ``memory_limit``.
        copies_row_groups: True if row groups of Parquet files are copied, and no row is read.
        max_file_bytes: The most bytes of a file of a folder that row groups are copied into.
        max_file_row_groups: The most row groups of such a file.

    Raises:
        OptionError: An option of the writer has a value that is not accepted, or `output` is on another
            machine.
    """

    inputs: tuple[str, ...]
    output: str
    memory: Memory
    _: KW_ONLY
    text: TextOptions = field(default_factory=TextOptions)
    schema: pa.Schema | None = None
    partition_by: tuple[str, ...] = ()
    to_delta: bool = False
    mode: DatasetMode | None = None
    on_error: Literal["raise", "skip"] = "raise"
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    options: Mapping[str, Any] = field(default_factory=dict)
    copies_row_groups: bool = False
    max_file_bytes: int | None = None
    max_file_row_groups: int | None = None

    def __post_init__(self) -> None:
        scheme, separator, rest = self.output.partition("://")
        if separator and scheme.lower() == "file":
            # What is there already, or is read, is looked for as of any path.
            object.__setattr__(self, "output", local_path(rest))
        object.__setattr__(self, "text", replace(self.text, is_exact=True))
        # Before anything is read.
        WriterOptions(**self.options)
        if self.on_error not in {"raise", "skip"}:
            raise OptionError(f"--on-error {self.on_error}: choose raise or skip")
        if self.mode not in {None, *get_args(DatasetMode)}:
            raise OptionError(f"--mode {self.mode}: choose error, append or overwrite")
        if self.mode == "append" and not (self.is_folder or self.to_delta):
            raise OptionError(
                "--mode append adds rows to a folder or a table, not to a Parquet file: say --partition-by "
                "COLUMN or --to-delta"
            )

    @property
    def is_folder(self) -> bool:
        """True if the output is a folder of files, or a prefix of an object store."""
        limits = (self.max_file_bytes, self.max_file_row_groups)
        return bool(self.partition_by) or any(limit is not None for limit in limits)

    @property
    def is_url(self) -> bool:
        """True if the output is an object, or a table in an object store."""
        return "://" in self.output
