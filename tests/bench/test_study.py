"""The bench finds what is planted and calls nothing where there is nothing.

In a soak forty pairs are measured; else one of them, by few samples, for what the study is made of.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from spillway.harness.statistics import Ratio

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
    samples, rows = (12, 400_000) if SOAK else (2, 1000)
    runs = study.study(disk_folder, pairs=pairs, samples=samples, rows=rows, beside=True)
    equal, slower, slowest = found = study.answers([study.ratios_of(run) for run in runs])
    assert [each.planted for each in (equal, slower, slowest)] == [0, 0.02, 0.05]
    assert [len(each.ratios) for each in (equal, slower, slowest)] == [pairs, *[max(1, pairs // 4)] * 2]
    assert {each.n for each in equal.ratios} == {samples}
    if SOAK:
        assert not study.misses(found), [str(each) for each in found]


def test_answers_are_counted_by_interval_and_after_correction(study, tmp_path):
    draw = np.random.default_rng(2)

    def speeds(share):
        return [1e6 / (1 + share) * each for each in np.exp(draw.normal(0, 0.01, 12))]

    runs = [
        make_run(
            tmp_path / str(pair),
            {name: Writes(speeds(share)) for name, share in {"once": 0.0, **shares}.items()},
        )
        for pair in range(20)
        for shares in [{"again": 0.0, "slower-5": 0.05} if pair < 5 else {"again": 0.0}]
    ]
    equal, slower = study.answers([study.ratios_of(run) for run in runs])
    assert (len(equal.ratios), len(slower.ratios)) == (20, 5)
    assert equal.called_of_all == 0
    assert equal.called <= 3
    assert (slower.called, slower.called_of_all) == (5, 5)
    assert slower.covered >= 4
    assert str(slower).startswith("slower-5 (5% slower): 5 of 5 called by the interval, 5 after Holm")


def test_a_study_on_record_gives_the_answers_of_its_runs(study, tmp_path):
    speeds = {"once": [1e6 + 1e3 * block for block in range(12)], "again": [1e6] * 12}
    run = make_run(tmp_path / "run", {name: Writes(each) for name, each in speeds.items()})
    kept = json.loads(json.dumps(study.record([run], 1000)))
    assert kept["rows"] == 1000
    assert [each["run_id"] for each in kept["runs"]] == [run.run_id]
    (found,), (expected,) = study.answers_of(kept), study.answers([study.ratios_of(run)])
    assert str(found) == str(expected)


@pytest.mark.parametrize(
    ("planted", "found_and_covering", "found_alone", "covering_alone", "words"),
    [
        (0.0, 0, 3, 37, None),
        (0.0, 0, 4, 36, "4 of 40 equal pairs are called"),
        (0.02, 32, 0, 8, None),
        (0.02, 31, 0, 9, "2% are found in 31 of 40"),
        (0.05, 36, 4, 0, None),
        (0.05, 39, 0, 1, "5% are found in 39 of 40"),
        (0.05, 35, 5, 0, "the intervals cover 5% in 35 of 40"),
    ],
)
def test_a_study_says_what_it_misses(  # noqa: PLR0913, PLR0917 - the counts of one case
    study, planted, found_and_covering, found_alone, covering_alone, words
):
    truth = 1 + planted
    lows = [1.001] * found_and_covering + [truth + 0.01] * found_alone + [0.999] * covering_alone
    ratios = [Ratio(1.0, low, truth + 0.02, 0.95, 0.01, low, 12, 0, 0.5, 0.01) for low in lows]
    answer = study.Answer("again", planted, ratios)
    assert (answer.called, answer.covered) == (
        found_and_covering + found_alone,
        found_and_covering + covering_alone,
    )
    assert study.misses([answer]) == ([] if words is None else [words])


def test_a_slowed_sink_takes_its_share_longer(study):
    class Busy:
        def close(self):
            end = time.process_time() + 0.1
            while time.process_time() < end:
                pass

    for share in (0.0, 0.5):
        begin = time.process_time()
        study.study_backends._Slowed(Busy(), begin, share).close()
        assert time.process_time() - begin >= 0.1 * (1 + share)
