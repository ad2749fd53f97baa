"""Records of runs: lines of JSON, appended, read and grouped, and the JSON Schemas that they are checked by.

A schema is made from the type that the code is checked with: a `TypedDict` or a dataclass. Its docstring
describes it: the first line the whole, the section ``Attributes`` its fields, also in records that inherit
from it. Numbers are at least 0, since nearly all of them count or measure something. `Keywords` in
``Annotated`` change the schema of a type; a record there says which fields a dict has.
"""

from __future__ import annotations

import ast
import dataclasses
import gzip
import inspect
import json
import os
import re
import secrets
import sys
import textwrap
import types
import zlib
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Generic,
    Literal,
    NotRequired,
    TypedDict,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from spillway.errors import CorruptFileError, MissingExtraError, SpillwayError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence


class Keywords:
    """Keywords of JSON Schema over those of a type, for ``Annotated``.

    Args:
        keywords: Each by its name; None removes one.
    """

    def __init__(self, **keywords: Any) -> None:
        self.keywords = keywords


LATER = {"later": True}
"""The metadata of a dataclass's field that early records lack."""
Signed = Annotated[int, Keywords(minimum=None)]
"""An integer that may be negative."""
Positive = Annotated[int, Keywords(minimum=1)]
"""An integer from 1 up."""
Instant = Annotated[str, Keywords(format="date-time")]
"""A date with its time and its distance from UTC, as ISO 8601 writes it."""

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_SCALARS: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer", "minimum": 0},
    float: {"type": "number", "minimum": 0},
    Path: {"type": "string"},
    type(None): {"type": "null"},
}
_ATTRIBUTE = re.compile(r"^ {4}(\w+): (.*(?:\n {5,}.*)*)", re.MULTILINE)


def schema_of(record: type) -> dict[str, Any]:
    """The JSON Schema of a record, as a separate document.

    Raises:
        TypeError: A field has a type that no rule is for.
    """
    whole = _object(record)
    return {"$schema": _DIALECT, "title": whole.pop("description"), **whole}


def _object(record: type) -> dict[str, Any]:
    hints = get_type_hints(record, include_extras=True)
    description, told = _described(record)
    return {
        "description": description,
        "type": "object",
        "additionalProperties": False,
        "required": [name for name, hint in hints.items() if not _is_optional(record, name, hint)],
        "properties": {name: _field(hint, told.get(name)) for name, hint in hints.items()},
    }


def _is_optional(record: type, name: str, hint: Any) -> bool:
    """Return true for a field that may be missing: records from before there was one do not have it."""
    fields = dataclasses.fields(record) if dataclasses.is_dataclass(record) else ()
    return get_origin(hint) is NotRequired or any(
        each.name == name and each.metadata == LATER for each in fields
    )


def _field(hint: Any, description: str | None) -> dict[str, Any]:
    schema = _schema(hint)
    return schema if description is None else {**schema, "description": description}


def _schema(hint: Any) -> dict[str, Any]:
    if hint in _SCALARS:
        return dict(_SCALARS[hint])
    if _is_record(hint):
        return _object(hint)
    rule = _RULES.get(get_origin(hint))
    if rule is None:
        raise TypeError(f"a record's field is {hint!r}, which has no JSON Schema: add a rule for it here")
    return rule(*get_args(hint))


def _is_record(hint: Any) -> bool:
    return inspect.isclass(hint) and (dataclasses.is_dataclass(hint) or is_typeddict(hint))


def _any_of(*hints: Any) -> dict[str, Any]:
    return {"anyOf": [_schema(each) for each in hints]}


def _annotated(hint: Any, more: Any) -> dict[str, Any]:
    if _is_record(more):
        return _object(more)
    return {name: value for name, value in {**_schema(hint), **more.keywords}.items() if value is not None}


def _tuple(*hints: Any) -> dict[str, Any]:
    if hints[1:] == (...,):
        return {"type": "array", "items": _schema(hints[0])}
    return {"type": "array", "prefixItems": [_schema(each) for each in hints], "items": False}


_RULES: dict[Any, Callable[..., dict[str, Any]]] = {
    NotRequired: _schema,
    Annotated: _annotated,
    Literal: lambda *values: {"enum": list(values)},
    Union: _any_of,
    types.UnionType: _any_of,
    list: lambda each: {"type": "array", "items": _schema(each)},
    tuple: _tuple,
    dict: lambda _, each: {"type": "object", "additionalProperties": _schema(each)},
}


def _described(record: type) -> tuple[str, dict[str, str]]:
    """The first line of a class's docstring, and its attributes with the inherited ones."""
    text = inspect.cleandoc(record.__doc__ or "")
    _, _, attributes = text.partition("\nAttributes:\n")
    inherited = [_described(base)[1] for base in reversed(_bases(record))]
    own = {name: " ".join(words.split()) for name, words in _ATTRIBUTE.findall(attributes)}
    return text.split("\n", 1)[0], {name: words for told in [*inherited, own] for name, words in told.items()}


def _bases(record: type) -> list[type]:
    """The records that a record inherits from. A `TypedDict` forgets them, so that its source is read."""
    if not is_typeddict(record):
        return [base for base in record.__bases__ if _is_record(base)]
    source = ast.parse(textwrap.dedent(inspect.getsource(record)))
    bases = [base for each in source.body if isinstance(each, ast.ClassDef) for base in each.bases]
    names = vars(sys.modules[record.__module__])
    found = [names.get(base.id) for base in bases if isinstance(base, ast.Name)]
    return [base for base in found if base is not None and _is_record(base)]


ENVIRONMENT = "environment.json"
COMPRESSED = ".gz"
"""The ending of a file of records that was compressed when its run was over."""
_SHOWN = 40
"""Characters of a damaged record that a message shows."""


class Failure(TypedDict):
    """The exception that ended a sample.

    Attributes:
        kind: "memory_error" or "library_error", as the process itself said.
        type: The exception's class.
        message: Its text, without paths.
    """

    kind: NotRequired[str]
    type: str
    message: str


class RecordSchema:
    """The JSON Schema of one line of a file, which each line is checked against before it is written.

    Args:
        record: The type of the line, as `schema_of` takes it.
    """

    def __init__(self, record: type) -> None:
        self._record = record

    @cached_property
    def document(self) -> dict[str, Any]:
        """The schema itself."""
        return schema_of(self._record)

    def check(self, record: Mapping[str, Any]) -> None:
        """Check a record.

        Raises:
            jsonschema.ValidationError: It does not fit; the message names the field.
        """
        self._validator.validate(record)

    def append(self, path: Path, record: Mapping[str, Any]) -> None:
        """Check a record and append it to a file, as the free function does.

        Raises:
            jsonschema.ValidationError: It does not fit; nothing is written.
            OSError: The disk is full, or fails.
        """
        self.check(record)
        append(path, record)

    @cached_property
    def _validator(self) -> Any:
        try:
            from jsonschema import Draft202012Validator
        except ModuleNotFoundError as error:
            raise MissingExtraError("jsonschema", "bench", "check results against their schema") from error
        return Draft202012Validator(self.document)


def new_run_id() -> str:
    """A name for a run and its folder, which begins with its date."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}"


def append(path: Path, record: Mapping[str, Any]) -> None:
    """Append one record as one line, in one write where the disk takes it whole.

    Raises:
        OSError: The disk is full, or fails. The part of the line that was written is taken back.
    """
    line = _line(record)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        before = os.fstat(descriptor).st_size
        try:
            while line:
                line = line[os.write(descriptor, line) :]
        except BaseException:
            os.ftruncate(descriptor, before)
            raise
    finally:
        os.close(descriptor)


def replace_lines(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Atomically replace all records of a file with these.

    A kill or a power cut leaves the old or the new ones.
    """
    _replace(path, b"".join(map(_line, records)))


def drop_torn_line(path: Path) -> None:
    """Cut off a last line that a power cut left damaged or without its end; records follow it then."""
    if path.exists():
        data = path.read_bytes()
        whole = _without_torn(data)
        if len(whole) < len(data):
            os.truncate(path, len(whole))


def is_stored(path: Path) -> bool:
    """Return True if there is a file of records, plain or compressed."""
    return path.exists() or _compressed(path).exists()


def read_lines(path: Path) -> list[dict[str, Any]]:
    """All records of a file, none if it is not there.

    A last line without its end, or with NUL bytes, is what a power cut left, and is skipped. If the file is
    not there, its gzip-compressed form is read.

    Raises:
        CorruptFileError: Another line is not JSON; the message says which.
    """
    if path.exists():
        data = path.read_bytes()
    elif is_stored(path):
        try:
            data = gzip.decompress(_compressed(path).read_bytes())
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise CorruptFileError(f"{_compressed(path)} cannot be decompressed: {error}") from error
    else:
        return []
    records = []
    for number, line in enumerate(_without_torn(data).split(b"\n")[:-1], start=1):
        try:
            record = json.loads(line)
        except ValueError as error:
            raise CorruptFileError(f"{path.name}, line {number} is not JSON: {error}") from error
        if not isinstance(record, dict):
            raise CorruptFileError(f"{path.name}, line {number} is no record: {str(record)[:_SHOWN]}")
        records.append(record)
    return records


def _line(record: Mapping[str, Any]) -> bytes:
    return (json.dumps(record, allow_nan=False) + "\n").encode()


def _without_torn(data: bytes) -> bytes:
    """The lines of a file up to the last whole one; what a file system never wrote reads as NUL bytes."""
    whole = data[: data.rfind(b"\n") + 1]
    while b"\0" in (last := whole[whole.rfind(b"\n", 0, -1) + 1 :]):
        whole = whole[: -len(last)]
    return whole


def _replace(path: Path, content: bytes) -> None:
    """Give a file another content, which is on the disk before the old one goes."""
    unfinished = path.with_name(f".{path.name}")
    with unfinished.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)


def _compressed(path: Path) -> Path:
    return path.with_name(f"{path.name}{COMPRESSED}")


def read_json(path: Path) -> dict[str, Any]:
    """One JSON object.

    Raises:
        CorruptFileError: The file has something else.
    """
    try:
        record = json.loads(path.read_text())
    except ValueError as error:
        raise CorruptFileError(f"{path} is not JSON: {error}") from error
    if not isinstance(record, dict):
        raise CorruptFileError(f"{path} is no record: {str(record)[:_SHOWN]}")
    return record


def write_json(path: Path, record: dict[str, Any]) -> None:
    """Write one human-readable JSON object, replacing an existing file.

    A kill or a power cut leaves the old or the new one.
    """
    _replace(path, (json.dumps(record, indent=2, allow_nan=False) + "\n").encode())


def read_environment(folder: Path, newest: int) -> dict[str, Any]:
    """What a run was measured on and with.

    Args:
        folder: The run's folder.
        newest: The newest version of its records that is known here.

    Raises:
        FileNotFoundError: The folder is not a run's.
        CorruptFileError: The file has something else.
        SpillwayError: A later version of Spillway measured the run.
    """
    environment = read_json(folder / ENVIRONMENT)
    version = environment.get("schema_version")
    if not isinstance(version, int) or "run_id" not in environment:
        raise CorruptFileError(f"{folder / ENVIRONMENT} describes no run: it lacks schema_version or run_id")
    if version > newest:
        raise SpillwayError(
            f"{folder.name}: its records are of version {version}, and this version of Spillway reads them "
            f"up to {newest}: install the one that measured it, or a later one"
        )
    return environment


Cell = TypeVar("Cell")
Setting = TypeVar("Setting")
Summary = TypeVar("Summary", bound="CellOfRun[Any]")


class CellOfRun(ABC, Generic[Setting]):
    """One cell of a run, summed up."""

    @property
    @abstractmethod
    def setting(self) -> Setting:
        """The part that it has in common with the cells of its table."""


@dataclass(frozen=True)
class RunOfCells(Generic[Summary, Setting]):
    """One run's folder.

    Attributes:
        folder: The folder.
        environment: What it was measured on and with.
        cells: The cells, in the order of the plan.
    """

    folder: Path
    environment: dict[str, Any]
    cells: Sequence[Summary]

    @property
    def run_id(self) -> str:
        """The run's name."""
        return str(self.environment["run_id"])

    @cached_property
    def settings(self) -> list[Setting]:
        """The settings of the run; each has a separate table."""
        return list(dict.fromkeys(each.setting for each in self.cells))

    def of(self, setting: Setting) -> list[Summary]:
        """The cells of one setting."""
        return [each for each in self.cells if each.setting == setting]


def records_by_cell(path: Path, make: Callable[..., Cell]) -> dict[Cell, list[dict[str, Any]]]:
    """The records of a file by the cell that they are of, as `make` makes it of the record's fields.

    Raises:
        CorruptFileError: A line is damaged.
    """
    grouped: dict[Cell, list[dict[str, Any]]] = defaultdict(list)
    for number, record in enumerate(read_lines(path), start=1):
        try:
            grouped[make(**record["cell"])].append(record)
        except (KeyError, TypeError) as error:
            raise CorruptFileError(
                f"{path.name}, record {number} does not name a cell of a run: {error}"
            ) from error
    return grouped


def outcomes(records: Sequence[dict[str, Any]]) -> str:
    """The outcome that all of them had, or each with its count."""
    counts = Counter(record["outcome"] for record in records)
    if len(counts) == 1:
        return str(next(iter(counts)))
    return ", ".join(f"{name} x{count}" for name, count in counts.most_common())
