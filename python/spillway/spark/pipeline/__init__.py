"""Pipelines: rows of a source are transformed, checked, written, read back, and only then published."""
