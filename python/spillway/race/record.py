"""The lines of ``races.jsonl`` and their schema."""

from __future__ import annotations

from pathlib import Path

from spillway.harness.records import RecordSchema

__all__ = ["RACES", "SCHEMA", "SCHEMA_VERSION"]

RACES = "races.jsonl"
SCHEMA = RecordSchema(Path(__file__).with_name("race.schema.json"))
SCHEMA_VERSION = 1
