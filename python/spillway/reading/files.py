"""One file of the user's own, Parquet, Arrow IPC, CSV or NDJSON, as a stream of record batches."""

from __future__ import annotations

import io
import re
import shutil
import tempfile
from collections import deque
from contextlib import ExitStack, closing, contextmanager, suppress
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from spillway.errors import CorruptFileError, OptionError, SchemaError
from spillway.reading.exact import ExactFloats, refuse_lost_types, without_wraps
from spillway.reading.text import (
    CsvText,
    Piped,
    Quotes,
    TextBatches,
    TextOptions,
    Utf8Stream,
    refuse_binary,
    refuse_other_delimiter,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spillway.reading.text import Readable

FORMATS = (
    "Parquet, Arrow IPC (file or stream), CSV (.csv, .tsv) and NDJSON (.ndjson, .jsonl, .json), "
    "these two also compressed (.gz, .zst, .bz2, .lz4)"
)

# The columns and types of a text file are inferred from its first block: hence a large one.
_TEXT_BLOCK_BYTES = 32 << 20
_PARQUET_BATCH_ROWS = 16_384
_INT96_ROWS = 1_024
_GROWTH = 8
_BUFFER_BYTES = 64 << 10
_HEAD_BYTES = 512
_LONG = re.compile(rb"[0-9]{19}")
_HEXADECIMAL = re.compile(rb"0[xX][0-9a-fA-F]")
_INTEGER = re.compile(r"\s*[+-]?[0-9]+\s*")
_HEXADECIMAL_INTEGER = re.compile(r"\s*[+-]?0[xX][0-9a-fA-F]+\s*")

_BY_MAGIC = {b"PAR1": "parquet", b"ARROW1": "ipc-file", b"\xff\xff\xff\xff": "ipc-stream"}
_COMPRESSIONS = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bz2", b"\x04\x22\x4d\x18": "lz4"}
_BY_SUFFIX = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "ipc",
    ".arrows": "ipc",
    ".feather": "ipc",
    ".ipc": "ipc",
    ".csv": "csv",
    ".tsv": "csv",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".json": "ndjson",
}


class RowStream(NamedTuple):
    """A file's rows, read on demand.

    Attributes:
        name: The name of the file, for messages.
        schema: The schema of all batches.
        batches: Record batches of whatever size the file gives.
        rows: The number of rows; None if it is known only after reading to the end.
    """

    name: str
    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    rows: int | None


class Format(NamedTuple):
    """The format of a file.

    Attributes:
        kind: "parquet", "ipc-file", "ipc-stream", "csv" or "ndjson".
        compression: Of the file as a whole, by Arrow's name, or None.
        suffix: Suffix of its name, without that of the compression, in lower case.
        head: Its first bytes, decompressed.
    """

    kind: str
    compression: str | None
    suffix: str
    head: bytes

    @property
    def is_text(self) -> bool:
        """True for CSV and NDJSON."""
        return self.kind in {"csv", "ndjson"}


class BadRow(Protocol):
    """A function that is called with each CSV row whose number of fields differs from the first line.

    Such rows are left out. The function is called in a thread of Arrow's, when their block is read.
    """

    def __call__(self, path: Path, row: pa.csv.InvalidRow, /) -> None:
        """Take note of a row."""


class UnknownFormatError(OptionError):
    """The file is of no known format."""


@contextmanager
def open_rows(
    path: Path,
    text: TextOptions | None = None,
    *,
    schema: pa.Schema | None = None,
    block_bytes: int | None = None,
    on_bad_row: BadRow | None = None,
) -> Iterator[RowStream]:
    """Open a file of any known format, recognised by its first bytes, or by its suffix if it is text.

    Args:
        path: The file.
        text: Properties that a text file does not state itself.
        schema: Types for named columns of a text file, which replace inferred ones.
        block_bytes: Approximate number of bytes of text, or of decoded Parquet values, to read together; None
            for the fastest size. Batches of Arrow IPC are those of the file.
        on_bad_row: Called with CSV rows that are left out; if None, such a row is an error.

    Raises:
        OSError: The file cannot be read: `FileNotFoundError`, `PermissionError`, `IsADirectoryError`.
        CorruptFileError: The file is empty, truncated, damaged or not in its encoding; also raised by the
            iterator of batches.
        OptionError: The file is of no known format, or `text` is not for it.
    """
    text = text or TextOptions()
    form = recognise(path, text)
    with path.open("rb") as file, ExitStack() as stack:
        with explained(path):
            opened = _Opened(file, path, form, text, schema, block_bytes, on_bad_row, stack)
            stream = _OPENERS[form.kind](opened)
        yield stream._replace(batches=_explained_batches(path, stream.batches))


def open_lines(file: Readable, path: Path, text: TextOptions, compression: str | None) -> Readable:
    """Open a file of NDJSON as bytes, decompressed, and in UTF-8 if its encoding was named.

    Errors of its `read` are to be `explained`: bytes that do not decompress. Bytes that are not in the
    encoding that was named are a `CorruptFileError`.

    Args:
        file: The file, open.
        path: Its name, for messages.
        text: Its properties, among them the encoding.
        compression: Compression of the whole file, as in `Format`.
    """
    source: Any = file if compression is None else _decompressed(file, compression)
    return source if text.encoding is None else Utf8Stream(source, path, text.encoding)


class OpenPipe(NamedTuple):
    """The bytes of a pipe, and their format.

    Attributes:
        form: Its format.
        pipe: Its bytes, decompressed: all of them, from the first.
        source: Its bytes as they come.
    """

    form: Format
    pipe: Piped
    source: Piped

    @contextmanager
    def rows(
        self,
        text: TextOptions,
        schema: pa.Schema | None = None,
        block_bytes: int | None = None,
        on_bad_row: BadRow | None = None,
    ) -> Iterator[RowStream]:
        """Open its rows.

        Parquet and Arrow's file format are read from their end, so they wait in a temporary file first.

        Args:
            text: As `open_rows`.
            schema: As `open_rows`.
            block_bytes: As `open_rows`.
            on_bad_row: As `open_rows`.

        Raises:
            OSError: The temporary file cannot be written.
            CorruptFileError: It is truncated, damaged or not in its encoding; also raised by the iterator.
        """
        path = self.pipe.path
        with ExitStack() as stack:
            with explained(path):
                file: Any = self.pipe
                if self.form.kind in {"parquet", "ipc-file"}:
                    file = stack.enter_context(tempfile.TemporaryFile())
                    shutil.copyfileobj(self.pipe, file, 1 << 20)
                    file.seek(0)
                opened = _Opened(
                    file, path, self.form, text, schema, block_bytes, on_bad_row, stack, self.source.end
                )
                stream = _OPENERS[self.form.kind](opened)
            yield stream._replace(batches=_explained_batches(path, stream.batches))


def open_pipe(source: Readable, name: str, text: TextOptions) -> OpenPipe:
    """Recognise what comes through a pipe by its first bytes.

    Text that begins as no JSON object does is CSV, unless `text` has another format.

    Args:
        source: The pipe.
        name: The name of the pipe, for messages.
        text: Properties that text does not state itself.

    Raises:
        CorruptFileError: Nothing came, or bytes that are not text.
        OptionError: `text` is not for it.
    """
    path = Path(name)
    came = pipe = Piped(source, path)
    compression = _compression(came.head(_HEAD_BYTES))
    if compression is not None:
        with explained(path):
            unpacked: Any = _decompressed(came, compression)
            pipe = Piped(unpacked, path)
            pipe.head(_HEAD_BYTES)
    head = pipe.head(_HEAD_BYTES)
    if not head.strip():
        raise CorruptFileError(f"{name} is empty")
    try:
        kind = _kind(path, "", head, text)
    except UnknownFormatError:
        # Bytes that are no text are refused next.
        kind = "ndjson" if _begins(head, text).startswith("[") else "csv"
    form = Format(kind, None, "", head)
    _check_text(path, form, text)
    return OpenPipe(form, pipe, came)


def recognise(path: Path, text: TextOptions) -> Format:
    """The format of a file, by its first bytes, or by its suffix if it is text.

    Raises:
        UnknownFormatError: The format is not known.
        CorruptFileError: It is empty, or not what its name says.
        OptionError: The format is known but cannot be read directly, or `text` does not apply to it.
    """
    compression, head = _head(path)
    if not head:
        raise CorruptFileError(f"{path} is empty")
    inner = path.with_suffix("") if compression else path
    suffix = inner.suffix.lower()
    kind = _kind(path, suffix, head, text)
    if compression is not None and kind not in {"csv", "ndjson"}:
        raise OptionError(
            f"{path} is compressed as a whole, which is supported only for CSV and NDJSON: decompress it"
        )
    form = Format(kind, compression, suffix, head)
    _check_text(path, form, text)
    return form


def _head(path: Path) -> tuple[str | None, bytes]:
    """The compression of a file, and its first bytes decompressed."""
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
        compression = _compression(head)
        if compression is None:
            return None, head
        file.seek(0)
        with explained(path):
            return compression, _decompressed(file, compression).read(_HEAD_BYTES)


def _compression(head: bytes) -> str | None:
    return next((name for magic, name in _COMPRESSIONS.items() if head.startswith(magic)), None)


def _decompressed(file: Any, compression: str) -> pa.NativeFile:
    return pa.CompressedInputStream(file, compression)  # type: ignore[arg-type]  # the keys of a dict


def _kind(path: Path, suffix: str, head: bytes, text: TextOptions) -> str:
    # A CSV header may begin with PARE or PAR1. In a binary format, the bytes after the magic are not text.
    is_text = re.fullmatch(rb"[\t\r\n -~]{6,}", head[:64]) is not None
    if head.startswith(b"PARE") and not is_text:
        raise OptionError(f"{path} is an encrypted Parquet file; decrypt it first")
    marked = (kind for magic, kind in _BY_MAGIC.items() if head.startswith(magic) and not is_text)
    by_content = next(marked, None)
    by_suffix = _BY_SUFFIX.get(suffix)
    if by_content is not None:
        return by_content
    if text.format is not None:
        return text.format
    if by_suffix in {"parquet", "ipc"}:
        raise CorruptFileError(f"{path} is named {suffix}, but does not begin like such a file")
    if by_suffix is not None:
        return by_suffix
    if _begins(head, text).startswith("{"):
        return "ndjson"
    raise UnknownFormatError(f"{path} has no known format; known formats are: {FORMATS}")


def _begins(head: bytes, text: TextOptions) -> str:
    """The first characters of text, behind a byte order mark and blanks."""
    return head.decode(text.encoding or "utf-8-sig", errors="replace").lstrip("\ufeff").lstrip()


def _check_text(path: Path, form: Format, text: TextOptions) -> None:
    """Refuse text in another form, judged by its beginning, and options that are not for this file."""
    if text.delimiter is not None and form.kind != "csv":
        raise OptionError(f"--delimiter is for CSV; {path} is {TITLES[form.kind]}")
    if not form.is_text:
        if text.encoding is not None:
            raise OptionError(f"--encoding is for CSV and NDJSON; {path} is {TITLES[form.kind]}")
        return
    if text.encoding is None:
        refuse_binary(path, form.head)
    head = form.head.decode(text.encoding or "utf-8-sig", errors="replace").lstrip("\ufeff")
    if form.kind == "csv" and text.delimiter is None:
        refuse_other_delimiter(path, head, _delimiter(form, text))
    if form.kind == "ndjson" and _begins(form.head, text).startswith("["):
        raise OptionError(
            f"{path} holds a JSON array; NDJSON is read, one object a line: "
            f"jq -c '.[]' FILE.json > FILE.ndjson"
        )


TITLES = {
    "parquet": "Parquet",
    "ipc-file": "Arrow IPC",
    "ipc-stream": "Arrow IPC",
    "csv": "CSV",
    "ndjson": "NDJSON",
}


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn an error of Arrow about a file's content into one that names the file."""
    try:
        yield
    except (MemoryError, pa.ArrowCancelled):
        raise
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise CorruptFileError(f"{path} cannot be read: {error}") from error
    except OSError as error:
        if error.errno is not None:
            raise
        # Arrow's own: the file ended too early, or a page did not decompress.
        raise CorruptFileError(f"{path} cannot be read: {error}") from error


def _explained_batches(path: Path, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    with explained(path):
        yield from batches


class _Opened(NamedTuple):
    """An open file and its properties.

    Attributes:
        stack: What it holds is closed before the file.
        stop_waiting: Ends a wait for bytes of a pipe; None for a file.
        has_one_column: True if the first line of CSV is one field.
    """

    file: Any
    path: Path
    form: Format
    text: TextOptions
    schema: pa.Schema | None
    block_bytes: int | None
    on_bad_row: BadRow | None
    stack: ExitStack
    stop_waiting: Callable[[], None] | None = None
    has_one_column: bool = False

    @property
    def text_block(self) -> int:
        """Bytes of text that are read together."""
        return self.block_bytes or _TEXT_BLOCK_BYTES

    def utf8(self) -> Utf8Stream:
        """A text file's bytes in UTF-8."""
        compression = self.form.compression
        source: Any = self.file if compression is None else _decompressed(self.file, compression)
        return Utf8Stream(source, self.path, self.text.encoding)

    def batches(self, source: Readable, open_reader: Callable[[pa.NativeFile], Any]) -> TextBatches:
        """The batches of text, which are closed before the file."""
        return self.stack.enter_context(closing(TextBatches(source, open_reader, self.stop_waiting)))

    def unsaid(self) -> _Opened:
        """The same, for a look ahead: its bad rows are told of when they are read."""
        return self._replace(on_bad_row=None if self.on_bad_row is None else say_nothing)

    def skip(self, row: pa.csv.InvalidRow) -> Literal["skip"]:
        """Tell of a row of CSV that is left out, in words of Arrow's."""
        if self.on_bad_row is not None:
            self.on_bad_row(self.path, row)
        return "skip"


def _open_parquet(opened: _Opened) -> RowStream:
    if opened.block_bytes is None:
        source = pa.parquet.ParquetFile(opened.file)
        batches = source.iter_batches(_PARQUET_BATCH_ROWS)
    else:
        # Without a buffer, all of a row group's chunks would be read at once.
        source = pa.parquet.ParquetFile(opened.file, buffer_size=_BUFFER_BYTES, pre_buffer=False)
        batches = _fitting_batches(source, opened.block_bytes)
    if opened.text.is_exact:
        refuse_lost_types(opened.path, source)
    batches = _with_int96(opened, source, batches)
    return RowStream(str(opened.path), source.schema_arrow, batches, source.metadata.num_rows)


def _with_int96(
    opened: _Opened, source: pa.parquet.ParquetFile, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The batches, whose times of INT96 are looked at by a second reading."""
    leaves = (source.schema.column(number) for number in range(len(source.schema)))
    if not any(leaf.physical_type == "INT96" for leaf in leaves):
        return batches
    # A handle of its own has a position of its own, also of a file without a name.
    own = Path(f"/proc/self/fd/{opened.file.fileno()}")
    again = opened.stack.enter_context(own.open("rb"))
    other = pa.parquet.ParquetFile(
        again, buffer_size=_BUFFER_BYTES, pre_buffer=False, coerce_int96_timestamp_unit="us"
    )
    names = [
        ours.name
        for ours, theirs in zip(source.schema_arrow, other.schema_arrow, strict=True)
        if ours != theirs
    ]
    if not names:
        return batches
    return without_wraps(opened.path, batches, other.iter_batches(_INT96_ROWS, columns=names), names)


def _fitting_batches(source: pa.parquet.ParquetFile, block_bytes: int) -> Iterator[pa.RecordBatch]:
    """Batches whose values fit a block, as far as those before tell.

    The footer has sizes as they are encoded: a text that is repeated is there once. So the first batch is a
    row, and the next ones are as large as the last one's size allows.
    """
    rows = 1
    for group in range(source.metadata.num_row_groups):
        done = 0
        while done < source.metadata.row_group(group).num_rows:
            for batch in _rest(source, group, rows, done):
                yield batch
                done += batch.num_rows
                wanted = _fitting_rows(batch, rows, block_bytes)
                if wanted >= 2 * rows or wanted < rows:
                    rows = wanted
                    break


def _rest(source: pa.parquet.ParquetFile, group: int, rows: int, done: int) -> Iterator[pa.RecordBatch]:
    """The batches of a row group behind the rows that were read already."""
    for batch in source.iter_batches(rows, row_groups=[group], use_threads=False):
        if done < batch.num_rows:
            yield batch.slice(done)
        done = max(done - batch.num_rows, 0)


def _fitting_rows(batch: pa.RecordBatch, rows: int, block_bytes: int) -> int:
    """Rows of the next batch: fewer where this one is over the block, more where it is far below."""
    # Dictionaries are in each batch, however few its rows are.
    size = sum(column.nbytes for column in batch.columns if not pa.types.is_dictionary(column.type))
    fitting = block_bytes * batch.num_rows // max(size, 1)
    if fitting < batch.num_rows:
        return max(fitting, 1)
    if batch.num_rows < rows:
        return rows
    return min(fitting, rows * _GROWTH, _PARQUET_BATCH_ROWS)


def _open_ipc_file(opened: _Opened) -> RowStream:
    is_piped = opened.stop_waiting is not None
    file: Any = opened.file if is_piped else pa.memory_map(str(opened.path))
    source = pa.ipc.open_file(file)
    batches = (source.get_batch(index) for index in range(source.num_record_batches))
    return RowStream(str(opened.path), source.schema, batches, _count_rows(source))


def _count_rows(source: pa.ipc.RecordBatchFileReader) -> int:
    rows: int = source.count_rows()  # type: ignore[attr-defined]  # not in the stubs yet
    return rows


def _open_ipc_stream(opened: _Opened) -> RowStream:
    source = pa.ipc.open_stream(opened.file)
    return RowStream(str(opened.path), source.schema, iter(source), None)


def _delimiter(form: Format, text: TextOptions) -> str:
    return text.delimiter or ("\t" if form.suffix == ".tsv" else ",")


def _open_csv(opened: _Opened) -> RowStream:
    types = {} if opened.schema is None else {field.name: field.type for field in opened.schema}
    quotes = Quotes(opened.path, _delimiter(opened.form, opened.text))
    with _blaming(quotes):
        stream = _csv_rows(opened, types, quotes)
    return stream._replace(batches=_blamed(stream.batches, quotes))


@contextmanager
def _blaming(quotes: Quotes) -> Iterator[None]:
    """Tell of a quote that is not closed, where Arrow tells of a row of more than a block."""
    try:
        yield
    except pa.ArrowInvalid as error:
        if "straddling" in str(error):
            quotes.refuse_open()
        raise


def _blamed(batches: Iterator[pa.RecordBatch], quotes: Quotes) -> Iterator[pa.RecordBatch]:
    with _blaming(quotes):
        yield from batches


def _csv_rows(opened: _Opened, types: dict[str, pa.DataType], quotes: Quotes) -> RowStream:
    source = Piped(CsvText(opened.utf8(), opened.path, quotes, opened.text_block), opened.path)
    # A byte more than a block: Arrow takes a row that a block cuts off for a whole one if nothing follows.
    head = source.head(opened.text_block + 1)
    if not head:
        raise CorruptFileError(f"{opened.path} is empty: its first line should name the columns")
    opened = opened._replace(has_one_column=_has_one_column(head, _delimiter(opened.form, opened.text)))
    if not opened.text.is_exact:
        batches = opened.batches(source, _csv_reader(opened, types))
        _refuse_duplicates(opened.path, batches.schema)
        return RowStream(str(opened.path), batches.schema, batches, None)
    inferred = _inferred(opened, types, head)
    types |= _exact_types(opened, types, inferred, head)
    floats = {name: kind for name, kind in (inferred | types).items() if pa.types.is_floating(kind)}
    skipped: deque[int] = deque()
    texts = opened.batches(source, _csv_reader(opened, types | dict.fromkeys(floats, pa.string()), skipped))
    schema = pa.schema([each.with_type(floats.get(each.name, each.type)) for each in texts.schema])
    checked = ExactFloats(opened.path, schema, floats.keys(), skipped)
    return RowStream(str(opened.path), schema, map(checked.of_texts, texts), None)


def _has_one_column(head: bytes, delimiter: str) -> bool:
    """True if the first line of CSV is one field, which may be in quotes."""
    sign = re.escape(delimiter.encode())
    one = rb'(?:"[^"]*+(?:""[^"]*+)*+")?+[^\r\n' + sign + rb"]*+(?:[\r\n]|\Z)"
    return re.match(one, head) is not None


def _refuse_types(path: Path, types: dict[str, pa.DataType]) -> None:
    """Refuse types that Arrow's CSV reader does not support.

    Its streaming reader would fail while it reads ahead, and can then deadlock.
    """
    for name, kind in types.items():
        try:
            pa.csv.read_csv(
                io.BytesIO(b"a\n1\n"),
                read_options=pa.csv.ReadOptions(use_threads=False),
                convert_options=pa.csv.ConvertOptions(column_types={"a": kind}),
            )
        except pa.ArrowNotImplementedError as error:
            message = f"{path}: column {name} is declared as {kind}, which CSV cannot be read as"
            raise SchemaError(message, name) from error
        except pa.ArrowInvalid:
            pass  # the type is supported; the sample text is not valid for it


def _csv_reader(
    opened: _Opened, types: dict[str, pa.DataType], skipped: deque[int] | None = None
) -> Callable[[pa.NativeFile], Any]:
    """A function that opens CSV, with types of columns that are not inferred.

    Args:
        opened: The file.
        types: The types of columns, by name.
        skipped: Gets the numbers of rows that are left out.
    """

    def skip(row: pa.csv.InvalidRow) -> Literal["skip"]:
        if skipped is not None and row.number is not None:
            skipped.append(row.number)
        return opened.skip(row)

    _refuse_types(opened.path, types)
    nulls: dict[str, Any] = {"null_values": [""]} if opened.text.is_exact else {}
    return partial(
        pa.csv.open_csv,
        # One thread reads no block ahead, and has messages name the row.
        read_options=pa.csv.ReadOptions(block_size=opened.text_block, use_threads=opened.block_bytes is None),
        parse_options=pa.csv.ParseOptions(
            delimiter=_delimiter(opened.form, opened.text),
            newlines_in_values=True,
            # Of one column, an empty line is a row whose value is empty.
            ignore_empty_lines=not opened.has_one_column,
            invalid_row_handler=None if opened.on_bad_row is None else skip,
        ),
        convert_options=pa.csv.ConvertOptions(column_types=types, **nulls),
    )


def _refuse_duplicates(path: Path, schema: pa.Schema) -> None:
    """Refuse CSV with two columns of one name: few readers open a file that has them."""
    twice = next((name for name in schema.names if len(schema.get_all_field_indices(name)) > 1), None)
    if twice is not None:
        raise OptionError(
            f"{path}: the first line names the column {twice!r} twice: give each column a name of its own"
        )


def _inferred(opened: _Opened, types: dict[str, pa.DataType], head: bytes) -> dict[str, pa.DataType]:
    """The types of columns by the first block, or as they were given."""
    with closing(TextBatches(io.BytesIO(head), _csv_reader(opened.unsaid(), types))) as first:
        _refuse_duplicates(opened.path, first.schema)
        return {each.name: each.type for each in first.schema}


def _exact_types(
    opened: _Opened, types: dict[str, pa.DataType], inferred: dict[str, pa.DataType], head: bytes
) -> dict[str, pa.DataType]:
    """The types of columns whose texts Arrow takes for other numbers.

    It rounds integers with over 64 bits to floats, and takes ``0xFF`` for 255, or for -1 in eight bits.

    Raises:
        SchemaError: A column that was declared as an integer has such a text.
    """
    floats = [name for name, kind in inferred.items() if pa.types.is_floating(kind) and name not in types]
    integers = [name for name, kind in inferred.items() if pa.types.is_integer(kind)]
    looked = [
        *(floats if _LONG.search(head) else ()),
        *(integers if _HEXADECIMAL.search(head) else ()),
    ]
    if not looked:
        return {}
    as_text = _csv_reader(opened.unsaid(), types | dict.fromkeys(looked, pa.string()))
    found: dict[str, pa.DataType] = {}
    # An error is that of a row which will be told of when it is read.
    with suppress(pa.ArrowInvalid, StopIteration), closing(TextBatches(io.BytesIO(head), as_text)) as texts:
        read = next(texts)
        for name in looked:
            if name in floats:
                kind = _type_of_integers(read.column(name))
                found |= {} if kind is None else {name: kind}
                continue
            values = (text for text in read.column(name).to_pylist() if text)
            hexadecimal = next((text for text in values if _HEXADECIMAL_INTEGER.fullmatch(text)), None)
            if hexadecimal is not None and name in types:
                raise SchemaError(
                    f"{opened.path}: column {name} is {types[name]}, and has the text {hexadecimal.strip()}: "
                    "declare it with --schema FILE as string",
                    name,
                )
            found |= {} if hexadecimal is None else {name: pa.string()}
    return found


def say_nothing(path: Path, row: pa.csv.InvalidRow, /) -> None:
    """Take note of no row."""


def _type_of_integers(texts: pa.Array[Any]) -> pa.DataType | None:
    """The integer type that holds all texts; None if one is not an integer, or all are empty."""
    found = [text for text in texts.to_pylist() if text]
    if not found or not all(_INTEGER.fullmatch(text) for text in found):
        return None
    # Of a decimal, unlike an integer, Python reads any number of digits.
    values = [Decimal(text.strip()) for text in found]
    return pa.uint64() if min(values) >= 0 and max(values) < 1 << 64 else pa.string()


def _open_ndjson(opened: _Opened) -> RowStream:
    open_reader = partial(
        pa.json.open_json,
        read_options=pa.json.ReadOptions(
            block_size=opened.text_block, use_threads=opened.block_bytes is None
        ),
        parse_options=pa.json.ParseOptions(explicit_schema=opened.schema),
    )
    batches = opened.batches(opened.utf8(), open_reader)
    return RowStream(str(opened.path), batches.schema, batches, None)


_OPENERS: dict[str, Callable[[_Opened], RowStream]] = {
    "parquet": _open_parquet,
    "ipc-file": _open_ipc_file,
    "ipc-stream": _open_ipc_stream,
    "csv": _open_csv,
    "ndjson": _open_ndjson,
}
