"""The measure of merges takes samples of each writer, and says why few of them are not quoted."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def merge_speed() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "scripts"))
        import merge_speed  # noqa: PLC0415 - of a folder of programs

        yield merge_speed
        del sys.modules["merge_speed"], sys.modules["block_run"]


def test_every_writer_is_measured_and_few_samples_are_not_quoted(merge_speed: Any, tmp_path: Path) -> None:
    options = merge_speed.Options(rows=2000, blocks=1, seed=1)
    merge_speed.measure(tmp_path / "run", options)
    samples = merge_speed.RUNS.read(tmp_path / "run")
    cells = {(sample.keys, sample.writer): sample for sample in samples}
    assert len(cells) == len(samples) == len(merge_speed.TITLES) * len(merge_speed.WRITERS)
    assert {sample.rows for sample in samples} == {2000 // merge_speed.TOUCHED}
    assert all(sample.bytes > 0 for sample in samples)
    assert "1 block, not 12" in merge_speed.RUNS.why_not_quoted(tmp_path / "run")
    table = merge_speed.table(tmp_path / "run")
    assert all(f"| {writer} | " in table for writer in merge_speed.WRITERS)
