"""The files of a run's folder: records appended a line at a time, and checked against their schema."""

from __future__ import annotations

import gzip
import json
import os
import secrets
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

from spillway.errors import CorruptFileError, MissingExtraError
from spillway.harness.schema import schema_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

ENVIRONMENT = "environment.json"
COMPRESSED = ".gz"
"""The ending of a file of records that was compressed when its run was over."""


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
        data = gzip.decompress(_compressed(path).read_bytes())
    else:
        return []
    records = []
    for number, line in enumerate(_without_torn(data).split(b"\n")[:-1], start=1):
        try:
            records.append(json.loads(line))
        except ValueError as error:
            raise CorruptFileError(f"{path.name}, line {number} is not JSON: {error}") from error
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
    """One JSON object."""
    record: dict[str, Any] = json.loads(path.read_text())
    return record


def write_json(path: Path, record: dict[str, Any]) -> None:
    """Write one human-readable JSON object, replacing an existing file.

    A kill or a power cut leaves the old or the new one.
    """
    _replace(path, (json.dumps(record, indent=2, allow_nan=False) + "\n").encode())
