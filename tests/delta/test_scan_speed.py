"""The measure of scans takes samples of each reader, which find the same rows."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("scan_speed", "scan_once", "block_run")


@pytest.fixture
def scan_speed() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "scripts"))
        import scan_speed  # noqa: PLC0415 - of a folder of programs

        yield scan_speed
        for name in NAMES:
            del sys.modules[name]


def test_every_reader_is_measured_and_few_samples_are_not_quoted(
    scan_speed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A process of each reader takes a second or two.
    questions = scan_speed.scan_once.QUESTIONS
    monkeypatch.setattr(scan_speed.scan_once, "QUESTIONS", {"service": questions["service"]})
    monkeypatch.setattr(scan_speed, "THREADS", (1,))
    scan_speed.measure(tmp_path / "run", scan_speed.Options(rows=2000, blocks=1, seed=1))
    samples = scan_speed.RUNS.read(tmp_path / "run")
    assert {sample.reader for sample in samples} == set(scan_speed.scan_once.READERS)
    assert len({(sample.rows, sample.checksum) for sample in samples}) == 1
    assert samples[0].rows > 0
    assert "1 block, not 12" in scan_speed.RUNS.why_not_quoted(tmp_path / "run")
    assert "| A service at all times, six columns | " in scan_speed.table(tmp_path / "run")
