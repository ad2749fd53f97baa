"""Files and pipes into Parquet files, folders and Delta tables: what `spillway write` does."""

from __future__ import annotations

from spillway.errors import MissingExtraError

try:
    from spillway.shell.job import Done, Job, Progress, run_copy, run_write, sized
    from spillway.shell.rewriting import Rewritten, rewrite
except ModuleNotFoundError as error:
    if error.name in {"pyarrow", "rich"}:
        raise MissingExtraError(error.name, "bench", "write files from a shell") from error
    raise

__all__ = ["Done", "Job", "Progress", "Rewritten", "rewrite", "run_copy", "run_write", "sized"]
