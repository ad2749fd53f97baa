"""The lines of ``races.jsonl`` and their schema."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from spillway.errors import MissingExtraError
from spillway.harness import samples

__all__ = ["RACES", "SCHEMA", "SCHEMA_VERSION", "append", "race_schema"]

RACES = "races.jsonl"
SCHEMA = "race.schema.json"
SCHEMA_VERSION = 1


@cache
def race_schema() -> dict[str, Any]:
    """The JSON Schema of one line."""
    schema: dict[str, Any] = json.loads(Path(__file__).with_name(SCHEMA).read_text())
    return schema


def append(path: Path, record: dict[str, Any]) -> None:
    """Check a record against the schema and append it as one line.

    Raises:
        jsonschema.ValidationError: It does not fit; the message names the field.
    """
    _validator().validate(record)
    samples.append(path, record)


@cache
def _validator() -> Any:
    try:
        from jsonschema import Draft202012Validator
    except ModuleNotFoundError as error:
        raise MissingExtraError("jsonschema", "bench", "check results against their schema") from error
    return Draft202012Validator(race_schema())
