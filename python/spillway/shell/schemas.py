"""Schemas of text: those that a user names, and those of NDJSON, whose lines are read in slices."""

from __future__ import annotations

import io
import json
import re
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import pyarrow as pa
import pyarrow.json
import pyarrow.parquet as pq

from spillway._wording import counted
from spillway.errors import OptionError, RowError, SchemaError
from spillway.reading.files import explained
from spillway.writer import ParquetWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from pyarrow.csv import InvalidRow

    from spillway.reading.files import BadRow
    from spillway.reading.text import Readable
    from spillway.types import Extra

_ACCEPTED = 'a Parquet or Arrow file, or JSON such as {"id": "int64", "time": "timestamp[us, tz=UTC]"}'
_TIMESTAMP = re.compile(r"timestamp\[(s|ms|us|ns), ?(?:tz=)?(.+)\]")
_DECIMAL = re.compile(r"decimal(?:128)?\((\d+), ?(-?\d+)\)")
_NO_NUMBER = re.compile(rb"NaN|Infinity")
_LONG = re.compile(rb"[0-9]{19}")
_ROW = re.compile(r'row (?P<row>\d+), field "(?P<field>.*?)": (?P<reason>.*)', re.DOTALL)
_ARROW = (b"ARROW1", b"\xff\xff\xff\xff")


def read_schema(path: Path) -> pa.Schema:
    """The columns and types that a file has or lists.

    In JSON, an object lists the columns with Arrow's names for their types; a nested object is a struct, and
    a list with one type is a list of that type.

    Raises:
        OSError: The file cannot be read.
        OptionError: It has no schema, or names an unknown type.
        CorruptFileError: It is a damaged file of Parquet or Arrow.
    """
    with path.open("rb") as file:
        head = file.read(6)
        file.seek(0)
        with explained(path):
            if head.startswith(b"PAR1"):
                return pq.read_schema(file).remove_metadata()
            if head == _ARROW[0]:
                return pa.ipc.open_file(file).schema.remove_metadata()
            if head.startswith(_ARROW[1]):
                return pa.ipc.open_stream(file).schema.remove_metadata()
        try:
            found = json.load(file)
        except ValueError as error:
            raise OptionError(f"--schema {path}: {error}; give {_ACCEPTED}") from error
    if not isinstance(found, dict) or not found:
        raise OptionError(f"--schema {path} lists no columns: give {_ACCEPTED}")
    return pa.schema([pa.field(name, _type(name, kind, path)) for name, kind in found.items()])


def _type(name: str, kind: Any, path: Path) -> pa.DataType:
    if isinstance(kind, dict) and kind:
        parts = {part: _type(f"{name}.{part}", inner, path) for part, inner in kind.items()}
        return pa.struct([pa.field(part, inner) for part, inner in parts.items()])
    if isinstance(kind, list) and len(kind) == 1:
        return pa.list_(_type(name, kind[0], path))
    if isinstance(kind, str):
        if found := _TIMESTAMP.fullmatch(kind):
            unit: Any = found[1]
            return pa.timestamp(unit, tz=found[2])
        try:
            if found := _DECIMAL.fullmatch(kind):
                return pa.decimal128(int(found[1]), int(found[2]))
            # Its stubs take literals.
            return cast("Callable[[str], pa.DataType]", pa.type_for_alias)(kind)
        except ValueError:  # Arrow's own errors are some, too
            pass
    raise OptionError(
        f"--schema {path}: column {name} has {json.dumps(kind)}, which is not a type: give one of Arrow's, "
        f'such as "int64", "double", "string", "bool", "date32", "timestamp[us]" or "decimal(12, 2)", a list '
        f"of one, or an object of several"
    )


def inferred_of(pieces: Sequence[Slice], name: str) -> pa.Schema:
    """As `inferred`, of the first slices of all files.

    Raises:
        SchemaError: As `inferred`.
        RowError: No line is good.
    """

    def place(line: int) -> str:
        for piece in pieces:
            count = piece.data.count(b"\n")
            if line <= count:
                return f"{piece.path}, line {piece.before + line:,}"
            line -= count
        return name

    return inferred(b"".join(piece.data for piece in pieces), name, place)


def inferred(sample: bytes, name: str, place: Callable[[int], str] | None = None) -> pa.Schema:
    """The schema that lines of NDJSON ask for.

    Text stays text, even if it looks like a time; integers and floats together are floats; a field that is
    always null is text.

    Args:
        sample: Whole lines.
        name: The name of the input, for messages.
        place: A line of the sample, from 1, for messages.

    Raises:
        SchemaError: The values of a field do not go together.
        RowError: No line is good.
    """
    # pyarrow accepts NaN, which JSON does not have; one would turn integers into floats.
    whole, found = sample, None if _NO_NUMBER.search(sample) else _by_arrow(sample)
    if found is None:
        sample = _good_lines(sample)
        found = _by_arrow(sample)
    if found is None:
        # The writer's own inference names the values that do not go together. It looks at fewer lines.
        return _of_the_writer(whole, name, place or partial("{}, line {:,}".format, name))
    settled = pa.schema([each.with_type(_settled(each.type)) for each in found])
    return _with_long_integers(settled, sample, name) if _LONG.search(sample) else settled


def _by_arrow(lines: bytes) -> pa.Schema | None:
    """The schema that pyarrow infers; None if a line is bad, or values do not go together."""
    options = pa.json.ReadOptions(use_threads=False, block_size=len(lines) + 1)
    try:
        return pa.json.read_json(io.BytesIO(lines), read_options=options).schema
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _good_lines(sample: bytes) -> bytes:
    """The lines that hold an object each: a bad one says nothing of the types of the others."""

    def is_good(line: bytes) -> bool:
        try:
            row = json.loads(line, parse_constant=_no_number, object_pairs_hook=_without_repeats)
            # Half of a surrogate pair cannot be encoded.
            json.dumps(row, ensure_ascii=False).encode()
        except (ValueError, RecursionError):
            return False
        return isinstance(row, dict)

    return b"\n".join([*filter(is_good, sample.split(b"\n")), b""])


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is not a number of JSON")


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is repeated")
    return found


def _with_long_integers(schema: pa.Schema, sample: bytes, name: str) -> pa.Schema:
    """The schema with unsigned integers where Arrow would round integers of over 63 bits to floats."""
    found: dict[str, list[Any]] = {}
    for line in sample.splitlines():
        with suppress(ValueError):
            _collect(json.loads(line), "", found)
    return pa.schema([each.with_type(_unrounded(each.type, each.name, found, name)) for each in schema])


def _collect(value: Any, path: str, found: dict[str, list[Any]]) -> None:
    """Keep the least and the largest number of each field, and a float if it has any."""
    if isinstance(value, dict):
        for key, part in value.items():
            _collect(part, f"{path}.{key}" if path else key, found)
    elif isinstance(value, list):
        for part in value:
            _collect(part, f"{path}[]", found)
    elif isinstance(value, float):
        found[path] = [value]
    elif isinstance(value, int) and not isinstance(found.get(path, [0])[0], float):
        known = found.get(path, [value, value])
        found[path] = [min(known[0], value), max(known[1], value)]


def _unrounded(kind: pa.DataType, path: str, found: dict[str, list[Any]], name: str) -> pa.DataType:
    if pa.types.is_list(kind):
        return pa.list_(_unrounded(kind.value_type, f"{path}[]", found, name))
    if pa.types.is_struct(kind):
        return pa.struct(
            [each.with_type(_unrounded(each.type, f"{path}.{each.name}", found, name)) for each in kind]
        )
    numbers = found.get(path, [0.0])
    if not pa.types.is_floating(kind) or isinstance(numbers[0], float):
        return kind
    least, most = numbers
    if least < 0 or most >= 1 << 64:
        raise SchemaError(
            f"{name}: {path} has integers from {least} to {most}, which no integer type can hold: "
            f"declare it with --schema FILE as decimal(38, 0)",
            path,
        )
    return pa.uint64()


def _settled(kind: pa.DataType) -> pa.DataType:
    """A type that holds what later lines may have in the place of the first ones."""
    if pa.types.is_timestamp(kind) or pa.types.is_null(kind):
        return pa.string()
    if pa.types.is_list(kind):
        return pa.list_(_settled(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([each.with_type(_settled(each.type)) for each in kind])
    return kind


def _of_the_writer(
    sample: bytes, name: str, place: Callable[[int], str], extra: Extra = "ignore"
) -> pa.Schema:
    file = io.BytesIO()
    bad: list[RowError] = []
    try:
        with ParquetWriter(file, compression="uncompressed") as writer:
            writer.write_ndjson(
                sample, on_error=lambda error: bad.append(error) if not bad else None, extra=extra
            )
    except SchemaError as error:
        if found := _ROW.fullmatch(str(error)):
            line = _lines_with_rows(sample)[int(found["row"])]
            said = f"{place(line)}: {found['field']}: {found['reason'].partition(': pass schema=')[0]}"
            raise SchemaError(f"{said}; give the types with --schema FILE", error.column) from error
        if not bad and extra == "ignore":
            # Lines of which each has a key twice have no columns, and nothing else that is bad.
            return _of_the_writer(sample, name, place, "error")
        if not bad:
            raise SchemaError(f"{name}: {error}", error.column) from error
        # Without a row there are no columns.
        first = bad[0]
        field = f"{first.field}: " if first.field else ""
        raise RowError(
            f"{place(first.line or 1)}: {field}{first.message}; none of the first lines is "
            f"good, so no types can be inferred: correct them",
            row=first.row,
            field=first.field,
            message=first.message,
            line=first.line,
            raw=first.raw,
        ) from error
    return pq.read_schema(pa.BufferReader(file.getvalue())).remove_metadata()


def _lines_with_rows(sample: bytes) -> list[int]:
    """The line number of each row, from 1; empty lines hold no row."""
    return [number for number, line in enumerate(sample.split(b"\n"), 1) if line.strip()]


_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_TOLD = 5
_INFERRED = (
    "; its type was inferred from the first lines: give it with --schema FILE, or leave such lines out with "
    "--on-error skip"
)
# Of a line that fits no type.
_NO_VALUE = ("not JSON", "not UTF-8", "not text", "the key comes twice")
_GIVEN = "; leave such lines out with --on-error skip"


class Slice(NamedTuple):
    """Whole lines of a file.

    Attributes:
        path: The file.
        data: The lines.
        before: Lines of the file before these.
    """

    path: Path
    data: bytes
    before: int


def slices(file: Readable, path: Path, size: int, longest: int) -> Iterator[Slice]:
    """Cut a file into slices of whole lines; the last line gets an end if it has none.

    Args:
        file: The file, opened for reading.
        path: Its name.
        size: Bytes that are read together.
        longest: Bytes of the longest line.

    Raises:
        OptionError: A line is longer.
        CorruptFileError: The file is truncated or damaged.
    """
    lines, rest, is_first = 0, b"", True
    while data := _read(file, size, path):
        if is_first:
            data = data.removeprefix(_BYTE_ORDER_MARK)
            is_first = False
        end = data.rfind(b"\n") + 1
        if not end:
            rest += data
            if len(rest) > longest:
                raise OptionError(
                    f"{path}: line {lines + 1:,} has over {longest:,} bytes, an eighth of --memory: "
                    f"give more memory"
                )
            continue
        whole = rest + data[:end]
        yield Slice(path, whole, lines)
        lines += whole.count(b"\n")
        rest = data[end:]
    if rest:
        yield Slice(path, rest + b"\n", lines)


def _read(file: Readable, size: int, path: Path) -> bytes:
    with explained(path):
        return file.read(size)


class BadLines:
    """What to do with lines that do not fit: fail at the first, or count all and report some.

    Rows of CSV are lines here, whatever number of lines they have.

    Args:
        skips: True to go on without them.
        say: Tells a user about one.

    Attributes:
        is_inferred: True if the types that lines do not fit were inferred.
        count: Lines that were left out.
        noun: The word for one of them.
    """

    def __init__(self, *, skips: bool, say: Callable[[str], None]) -> None:
        self._skips = skips
        self._say = say
        self.is_inferred = False
        self.count = 0
        self.noun = "line"

    @property
    def of_csv(self) -> BadRow | None:
        """Takes note of the rows of CSV that are left out; None if the first is to end the command."""
        return self._leave_out_row if self._skips else None

    def _leave_out_row(self, path: Path, row: InvalidRow, /) -> None:
        self.noun = "row"
        number = "a row" if row.number is None else f"row {row.number:,}"
        fields = counted(row.actual_columns, "field")
        self._leave_out(f"{path}, {number}: it has {fields} where {row.expected_columns:,} are expected")

    def _leave_out(self, text: str) -> None:
        self.count += 1
        if self.count <= _TOLD:
            self._say(f"left out: {text}")
        if self.count == _TOLD:
            self._say(f"left out: more such {self.noun}s are counted, and not named")

    def of(self, piece: Slice, fed: int = 0) -> Callable[[RowError], None]:
        """Return what takes the bad lines of a slice.

        Args:
            piece: The slice.
            fed: Lines that its writer was given before.
        """

        def take(error: RowError) -> None:
            line = piece.before + (error.line or 0) - fed
            message = error.message.partition(": leave it out")[0].partition(": the type was inferred")[0]
            field = f"{error.field}: " if error.field else ""
            text = f"{piece.path}, line {line:,}: {field}{message}"
            if not self._skips:
                is_of_types = self.is_inferred and not message.startswith(_NO_VALUE)
                raise RowError(
                    text + (_INFERRED if is_of_types else _GIVEN),
                    row=error.row,
                    field=error.field,
                    message=message,
                    line=line,
                    raw=error.raw,
                )
            self._leave_out(text)

        return take


def infer_types(writer: ParquetWriter) -> None:
    """Tell a writer that its types were inferred, so that it refuses lines that it would have to convert."""
    writer._writer.infer_types()  # noqa: SLF001 - a schema that is passed is declared otherwise


def batches_of(piece: Slice, schema: pa.Schema, bad: BadLines) -> Iterator[pa.RecordBatch]:
    """The rows of a slice as Arrow data, from the same reader as in `ParquetWriter.write_ndjson`.

    Folders and tables accept only Arrow data, and a line must be good or bad whatever its destination. So the
    rows go through a Parquet file in memory, without compression.

    Raises:
        RowError: A line is bad, and bad lines end the command.
    """
    file = io.BytesIO()
    with ParquetWriter(file, schema, compression="uncompressed", encoding="plain") as writer:
        if bad.is_inferred:
            infer_types(writer)
        writer.write_ndjson(piece.data, on_error=bad.of(piece))
    source: Any = pa.py_buffer(file.getbuffer())
    for batch in pq.ParquetFile(pa.BufferReader(source)).iter_batches(use_threads=False):
        # Parquet has no seconds, for one.
        try:
            yield batch if batch.schema.equals(schema) else batch.cast(schema)
        except pa.ArrowNotImplementedError as error:
            raise OptionError(f"--schema has a type that rows are not converted to: {error}") from error
