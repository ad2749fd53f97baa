"""The bench finds what is planted and calls nothing where there is nothing.

In a soak forty pairs are measured; else one of them, by few samples, for what the study is made of.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import pytest

from ..counts import SOAK, count
from .made_runs import Writes, make_run

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def study():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "scripts"))
        import study  # noqa: PLC0415 - of a folder of programs

        yield study
        del sys.modules["study"], sys.modules["study_backends"]


def test_pairs_are_measured_and_slow_downs_found(study, disk_folder):
    pairs = count(quick=1, ci=1, soak=40)
    samples, rows = (12, 100_000) if SOAK else (2, 1000)
    equal, slower, slowest = study.study(disk_folder, pairs=pairs, samples=samples, rows=rows)
    assert [each.planted for each in (equal, slower, slowest)] == [0, 0.02, 0.05]
    assert [len(each.ratios) for each in (equal, slower, slowest)] == [pairs, *[max(1, pairs // 4)] * 2]
    assert {each.n for each in equal.ratios} == {samples}
    if SOAK:
        assert equal.called <= 3, str(equal)
        assert slower.called >= 8, str(slower)
        assert slowest.called == 10, str(slowest)
        assert slowest.covered >= 9, str(slowest)


def test_answers_are_counted_by_interval_and_after_correction(study, tmp_path):
    draw = np.random.default_rng(2)

    def speeds(share):
        return [1e6 / (1 + share) * each for each in np.exp(draw.normal(0, 0.01, 12))]

    runs = [
        make_run(
            tmp_path / str(pair),
            {name: Writes(speeds(share)) for name, share in {"spillway": 0.0, **shares}.items()},
        )
        for pair in range(20)
        for shares in [{"again": 0.0, "slower-5": 0.05} if pair < 5 else {"again": 0.0}]
    ]
    equal, slower = study.answers(runs)
    assert (len(equal.ratios), len(slower.ratios)) == (20, 5)
    assert equal.called_of_all == 0
    assert equal.called <= 3
    assert (slower.called, slower.called_of_all) == (5, 5)
    assert slower.covered >= 4
    assert str(slower).startswith("slower-5 (5% slower): 5 of 5 called by the interval, 5 after Holm")


def test_a_slowed_sink_takes_its_share_longer(study):
    class Sleeping:
        def close(self):
            time.sleep(0.1)

    for share in (0.0, 0.5):
        begin = time.perf_counter()
        study.study_backends._Slowed(Sleeping(), begin, share).close()
        assert time.perf_counter() - begin >= 0.1 * (1 + share)
