"""Published figures of others, and earlier ones of our own, for comparison beside a run."""

from __future__ import annotations

from spillway.harness.report.table import Entry, Table

__all__ = ["published_table"]

_HEADER = ("system", "writers", "committed", "appends/s", "longest wait s", "in all s")
_ROWS = (
    ("published tester (delta-rs, up to 10 retries), own partitions", "10", "all", "20", "-", "0.5"),
    ("the same", "100", "all", "7.3", "-", "13.7"),
    ("the same", "1,000", "all", "1.5", "about 350", "about 670"),
    ("the same", "2,000", "never finished", "-", "-", "-"),
    ("the same, append-only without schema merge", "50", "-", "3.6", "-", "-"),
    (
        "delta-rs 1.6 with back-off, local disk",
        "10 / 100 / 300",
        "all",
        "9.4 / 8.0 / 1.5",
        "0.1 / 12 / 202",
        "-",
    ),
    (
        "delta-rs 1.6 with back-off, S3 server",
        "10 / 50 / 100",
        "all",
        "21.8 / 13.8 / 4.6",
        "0.3 / 3.3 / 21.5",
        "-",
    ),
)
_NOTE = (
    "Not of this run: the tester's figures are as published; those of delta-rs 1.6 were measured earlier, "
    "with 10 rows an append, on two cores."
)


def published_table() -> Table:
    """Figures that were published before."""
    rows = [[Entry(text) for text in row] for row in _ROWS]
    return Table("Published and earlier figures, for comparison", _HEADER, rows, [_NOTE])
