"""A place on disk, an input of 10,000 rows, and a distribution of misbehaving backends."""

from __future__ import annotations

import dataclasses
import importlib
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spillway import datasets
from spillway.bench.plan import Cell
from spillway.bench.sample import OutputFiles, SampleTaker, result_of
from spillway.harness.limits import Unlimited, choose_cores
from spillway.harness.schedule import Slot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spillway.harness.limits import Limiter

ROWS = 10_000


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> datasets.PreparedInput:
    return datasets.prepare("logs", seed=1, rows=ROWS, cache=tmp_path_factory.mktemp("cache"))


@pytest.fixture
def disk_folder(module_disk_folder: Path) -> Path:
    """A fresh folder on a disk."""
    return Path(tempfile.mkdtemp(dir=module_disk_folder))


@pytest.fixture(scope="module")
def module_disk_folder(disk: Path) -> Path:
    """A fresh folder on a disk, for all tests of a file."""
    return Path(tempfile.mkdtemp(dir=disk))


@pytest.fixture(scope="module")
def misbehaving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Install a distribution whose entry points are the backends of ``misbehaving.py``; its folder."""
    site = tmp_path_factory.mktemp("site")
    info = site / "misbehaving-1.0.dist-info"
    info.mkdir(parents=True)
    shutil.copy(Path(__file__).with_name("misbehaving.py"), site)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: misbehaving\nVersion: 1.0\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(site))
        patch.setenv("PYTHONPATH", str(site), prepend=os.pathsep)
        module = importlib.import_module("misbehaving")
        lines = [f"{cls.name} = misbehaving:{cls.__name__}" for cls in module.ALL]
        (info / "entry_points.txt").write_text("[spillway.backends]\n" + "\n".join(lines) + "\n")
        importlib.invalidate_caches()
        yield site
    sys.modules.pop("misbehaving")


def cell(backend: str, **changes: object) -> Cell:
    settings = {
        "mode": "batches",
        "dataset": "logs",
        "rows": ROWS,
        "chunk_rows": ROWS,
        "row_group_rows": 1 << 20,
        "codec": "zstd",
        "level": 1,
        "memory_bytes": None,
        "limit_kind": "none",
        "threads": 1,
    }
    return Cell(backend=backend, **{**settings, **changes})


@pytest.fixture
def taker(prepared: datasets.PreparedInput, disk_folder: Path) -> SampleTaker:
    return SampleTaker(
        run_id="test",
        seed=1,
        inputs={("logs", ROWS): prepared.path},
        files=OutputFiles(disk_folder / "outputs"),
        limiter=Unlimited(),
        cores=choose_cores(1),
        timeout=60,
    )


@pytest.fixture
def probe(taker: SampleTaker) -> Callable[[str, str], dict]:
    """Take the readings of one probe beside one write of a backend."""

    def probe_one(backend: str, kind: str) -> dict:
        with Unlimited().limit(0) as memory_limit:
            ended, _ = taker.run_worker(cell(backend), memory_limit, probe=kind)
        taker.files.discard_fresh()
        return result_of(ended)

    return probe_one


@pytest.fixture
def take(taker: SampleTaker) -> Callable[..., dict]:
    """Take one sample of a backend, under a limit if one is given."""

    def take_one(
        backend: str,
        limiter: Limiter | None = None,
        limit: int | None = None,
        timeout: float = 60,
        **changes: object,
    ) -> dict:
        kind = "none" if limiter is None else limiter.kind
        slot = Slot(0, 0, cell(backend, memory_bytes=limit, limit_kind=kind, **changes))
        with (limiter or Unlimited()).limit(limit or 0) as memory_limit:
            return dataclasses.replace(taker, timeout=timeout).take(slot, memory_limit)

    return take_one
