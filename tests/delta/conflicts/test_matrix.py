"""The table of conflicts is whole, its commits are visible in Spark, and Spark still says the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ...counts import SOAK, count
from .pairs import ISOLATIONS, Pair, all_pairs, expected, pair_of

if TYPE_CHECKING:
    from ...spark.process import Worker

MATRIX = json.loads(Path(__file__).with_name("matrix.json").read_text())


LINES = {pair_of(line): line for line in MATRIX["pairs"]}


def test_the_table_has_every_pair_once() -> None:
    assert [pair_of(line) for line in MATRIX["pairs"]] == all_pairs()


def test_what_committed_and_nothing_else_is_visible_in_spark() -> None:
    for pair, line in LINES.items():
        seen = (line["rows"], sorted(line["marks"]))
        assert seen == expected(pair, both=line["outcome"] == "commit"), pair


def test_a_lost_race_has_a_name_of_deltas_own() -> None:
    assert {line["outcome"] for line in LINES.values()} <= {
        "commit",
        "ConcurrentAppend",
        "ConcurrentDeleteDelete",
        "ConcurrentDeleteRead",
        "ConcurrentTransaction",
        "ConcurrentWrite",
        "MetadataChanged",
        "ProtocolChanged",
    }


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_an_insert_of_today_and_a_delete_of_earlier_days_both_commit(isolation: str) -> None:
    both = ("INSERT of today", "DELETE of earlier days")
    for winner, loser in (both, both[::-1]):
        assert LINES[Pair(winner, loser, "disjoint", isolation)]["outcome"] == "commit"


@pytest.mark.spark
@pytest.mark.timeout(7200 if SOAK else 900)
def test_delta_spark_still_says_what_the_table_says(worker: Worker) -> None:
    pairs = count(quick=2, ci=2, soak=len(LINES))
    again = worker.ask("conflicts", pairs=pairs)
    assert again["engine"] == MATRIX["engine"]
    assert len(again["pairs"]) == pairs
    for line in again["pairs"]:
        assert line == LINES[pair_of(line)]
