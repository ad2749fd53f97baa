"""The files of a run's folder: samples appended one line at a time and checked against their schema."""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

from spillway.errors import CorruptFileError, MissingExtraError

__all__ = [
    "ALLOCATIONS",
    "ENVIRONMENT",
    "SAMPLES",
    "SCHEMA",
    "SCHEMA_VERSION",
    "VALIDATION",
    "append",
    "read_json",
    "read_lines",
    "sample_schema",
    "validate_sample",
    "write_json",
]

SCHEMA_VERSION = 1
SAMPLES = "samples.jsonl"
SCHEMA = "sample.schema.json"
VALIDATION = "validation.jsonl"
ALLOCATIONS = "allocations.jsonl"
ENVIRONMENT = "environment.json"


@cache
def sample_schema() -> dict[str, Any]:
    """The JSON Schema of one line of ``samples.jsonl``."""
    text = Path(__file__).with_name(SCHEMA).read_text()
    schema: dict[str, Any] = json.loads(text)
    return schema


def validate_sample(sample: dict[str, Any]) -> None:
    """Check a sample against the schema.

    Raises:
        jsonschema.ValidationError: It does not fit; the message names the field.
    """
    _validator().validate(sample)


def append(path: Path, record: dict[str, Any]) -> None:
    """Append one record as one line, in one write."""
    line = (json.dumps(record, allow_nan=False) + "\n").encode()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)


def read_lines(path: Path) -> list[dict[str, Any]]:
    """All records of a file, none if it is not there.

    Raises:
        CorruptFileError: A line is not JSON; the message says which.
    """
    if not path.exists():
        return []
    records = []
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        try:
            records.append(json.loads(line))
        except json.JSONDecodeError as error:
            raise CorruptFileError(f"{path.name}, line {number} is not JSON: {error}") from error
    return records


def read_json(path: Path) -> dict[str, Any]:
    """One JSON object."""
    record: dict[str, Any] = json.loads(path.read_text())
    return record


def write_json(path: Path, record: dict[str, Any]) -> None:
    """Write one JSON object for people to read too."""
    path.write_text(json.dumps(record, indent=2, allow_nan=False) + "\n")


@cache
def _validator() -> Any:
    try:
        from jsonschema import Draft202012Validator
    except ModuleNotFoundError as error:
        raise MissingExtraError("jsonschema", "bench", "check samples against their schema") from error
    return Draft202012Validator(sample_schema())
