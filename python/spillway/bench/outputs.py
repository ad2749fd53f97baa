"""The files that samples write: their description, and those that are kept for validation."""

from __future__ import annotations

import hashlib
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from spillway.bench.record import OutputFile

__all__ = ["OutputFiles", "describe_file"]


def describe_file(path: Path) -> OutputFile:
    """Size, content hash, rows, row groups, and the encodings of each column, from the footer.

    Raises:
        pyarrow.ArrowException: The file is not Parquet.
    """
    import pyarrow.parquet as pq

    metadata = pq.read_metadata(path)
    encodings: dict[str, set[str]] = {}
    for group in range(metadata.num_row_groups):
        for index in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(index)
            encodings.setdefault(chunk.path_in_schema, set()).update(chunk.encodings)
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {
        "bytes": path.stat().st_size,
        "content_hash": digest,
        "rows": metadata.num_rows,
        "row_groups": metadata.num_row_groups,
        "created_by": metadata.created_by,
        "encodings": [{"column": name, "encodings": sorted(used)} for name, used in encodings.items()],
    }


class OutputFiles:
    """The folder samples write to. One file per distinct content is kept, named by its hash.

    Args:
        folder: The folder; it may be there already, from a run that ended early.
        kept: Hashes of contents that may lie in it; all other files in it go.
    """

    def __init__(self, folder: Path, kept: Iterable[str] = ()) -> None:
        self._folder = folder
        folder.mkdir(exist_ok=True)
        self._kept = {content_hash for content_hash in kept if self.path_of(content_hash).exists()}
        self.fresh = folder / "sample.parquet"
        self.warm_up = folder / "warm-up.parquet"
        self.discard_fresh()

    def keep(self, content_hash: str) -> None:
        """Move the fresh file to its kept name, or drop it if its content is there already."""
        self.fresh.replace(self.path_of(content_hash))
        self._kept.add(content_hash)

    def adopt(self, content_hash: str, chunks: Iterable[bytes]) -> None:
        """Keep a file that was written elsewhere."""
        with self.path_of(content_hash).open("wb") as file:
            file.writelines(chunks)
        self._kept.add(content_hash)

    def path_of(self, content_hash: str) -> Path:
        """The path that the file with this content is kept at."""
        return self._folder / f"{content_hash[:16]}.parquet"

    def discard_fresh(self) -> None:
        """Remove what a sample has left beside the kept files: temporary and spilled ones."""
        kept = {self.path_of(content_hash) for content_hash in self._kept}
        for path in set(self._folder.iterdir()) - kept:
            _delete(path)

    def remove(self) -> None:
        """Remove the folder and all in it."""
        shutil.rmtree(self._folder)


def _delete(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
