"""The files that a run's folder has its samples in, and the schema of a sample."""

from __future__ import annotations

from pathlib import Path

from spillway.harness.records import RecordSchema

__all__ = ["ALLOCATIONS", "SAMPLES", "SCHEMA", "SCHEMA_VERSION", "VALIDATION"]

SAMPLES = "samples.jsonl"
VALIDATION = "validation.jsonl"
ALLOCATIONS = "allocations.jsonl"
SCHEMA = RecordSchema(Path(__file__).with_name("sample.schema.json"))
SCHEMA_VERSION = 1
