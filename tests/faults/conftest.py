"""The fixture of all faults: a folder with an old file that must survive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class OldFile:
    """A path with an older file at it."""

    path: Path
    before: bytes

    def is_untouched(self) -> bool:
        return self.path.read_bytes() == self.before and self.names() == [self.path.name]

    def names(self) -> list[str]:
        return sorted(entry.name for entry in self.path.parent.iterdir())


@pytest.fixture
def place(tmp_path: Path) -> OldFile:
    folder = tmp_path / "folder"
    folder.mkdir()
    path = folder / "data.parquet"
    pq.write_table(pa.table({"old": [1, 2, 3]}), path)
    return OldFile(path, path.read_bytes())
