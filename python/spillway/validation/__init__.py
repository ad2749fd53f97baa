"""Read Parquet files back with other engines, and say whether they hold the rows that were written.

A file is held against its source by digests: per column the counts of values and nulls, the smallest and
largest value and a checksum; over whole rows a checksum that ignores their order and one that does not. Where
they differ, a second pass names the first row and column, and both values. Writers keep the order of rows, so
a different order is also a mismatch, of a separate kind.
"""

from __future__ import annotations

from spillway._native import Digest
from spillway.validation.source import ENGINES, READERS, Mismatch, Source, Verdict, digest_source, summary
from spillway.validation.validator import Validator, validate

__all__ = [
    "ENGINES",
    "READERS",
    "Digest",
    "Mismatch",
    "Source",
    "Validator",
    "Verdict",
    "digest_source",
    "summary",
    "validate",
]
