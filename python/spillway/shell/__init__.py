"""Files and pipes into Parquet files, folders and Delta tables: what `spillway write` does."""

from __future__ import annotations

from spillway.errors import MissingExtraError

try:
    from spillway.shell.job import Job
    from spillway.shell.rewriting import Rewritten, rewrite
    from spillway.shell.run import Done, Progress, run_copy, run_write, sized
except ModuleNotFoundError as error:
    if error.name in {"pyarrow", "rich"}:
        raise MissingExtraError(error.name, "bench", "write files from a shell") from error
    raise

__all__ = ["Done", "Job", "Progress", "Rewritten", "rewrite", "run_copy", "run_write", "sized"]
