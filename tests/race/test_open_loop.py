"""Races with a rate: appends are due by a schedule, and response times count from it."""

from __future__ import annotations

import itertools
import json
import os
import statistics
import time
from typing import TYPE_CHECKING, Any, cast

import pytest

from spillway.errors import OptionError
from spillway.race.model import Cell
from spillway.race.open_loop import Responses, arrivals
from spillway.race.record import Setting, read_run
from spillway.race.run import Options
from spillway.race.tables import _columns, detail_table
from spillway.race.worker import _Race

from .conftest import invoke, races_in

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from spillway.race.model import Committer

SEED = "1-0"
PAUSE = 0.4


def cell(writers: int, rate: float, seconds: float) -> Cell:
    return Cell(
        committer="spillway", workload="append-only", writers=writers, rows=1, rate=rate, seconds=seconds
    )


class Slow:
    """A writer whose first append takes long, and no other one."""

    def __init__(self) -> None:
        self._pause = PAUSE

    def append(self, rows: pa.Table) -> int:  # noqa: ARG002 - the time alone matters
        time.sleep(self._pause)
        self._pause = 0.0
        return 1

    def change(self, change: object) -> int:
        raise NotImplementedError(change)


def messages_of_a_slow_writer(race: Cell) -> tuple[float, list[dict[str, Any]]]:
    """The start, and what a worker says whose first append is slow."""
    results, said = os.pipe()
    worker = _Race(race, -1, said)
    worker._gate.set()
    worker._begun = time.monotonic()
    worker._run(cast("Committer", None), Slow(), 0, arrivals(race, 0, SEED))
    os.close(said)
    with os.fdopen(results) as lines:
        return worker._begun, [json.loads(line) for line in lines]


def test_a_slow_append_delays_responses_and_no_service() -> None:
    race = cell(1, 100.0, 0.4)
    begun, messages = messages_of_a_slow_writer(race)
    responses = Responses(race, SEED)
    for each in messages:
        responses.answer(0, each["number"], each["at"] - begun, acknowledged=True)
    found = responses.measured(None)
    assert found["arrivals"] == len(messages) >= 20
    assert responses.unanswered == 0
    service = statistics.median(each["at"] - each["called"] for each in messages)
    assert service < PAUSE / 8
    assert found["response_seconds"] is not None
    assert found["response_seconds"][50] > PAUSE / 4
    assert found["response_seconds"][100] >= PAUSE - 0.01


def test_no_append_starts_before_it_is_due() -> None:
    race = cell(1, 40.0, 0.5)
    begun, messages = messages_of_a_slow_writer(race)
    due = arrivals(race, 0, SEED)
    assert all(each["called"] - begun >= due[each["number"]] for each in messages)


def test_an_append_that_fails_has_waited_until_the_end_and_the_rate_is_not_sustained() -> None:
    race = cell(1, 40.0, 10.0)
    responses = Responses(race, SEED)
    due = arrivals(race, 0, SEED)
    for number, at in enumerate(due):
        responses.answer(0, number, at + 0.01, acknowledged=number % 2 > 0)
    found = responses.measured(None)
    assert not found["sustained"]
    assert found["unacknowledged"] == (len(due) + 1) // 2
    assert found["response_seconds"] is not None
    assert found["response_seconds"][25] == pytest.approx(0.01)
    assert found["response_seconds"][100] == pytest.approx(10.0 - due[0], abs=1e-5)


def test_a_seed_gives_the_same_arrivals_again() -> None:
    race = cell(4, 50.0, 20.0)
    schedule = [arrivals(race, writer, SEED) for writer in range(4)]
    assert schedule == [arrivals(race, writer, SEED) for writer in range(4)]
    assert schedule[0] != arrivals(race, 0, "2-0")
    assert schedule[0] != schedule[1]
    assert all(times == sorted(times) and times[-1] < 20.0 for times in schedule)


def test_all_writers_together_have_the_rate() -> None:
    times = [at for writer in range(8) for at in arrivals(cell(8, 100.0, 100.0), writer, SEED)]
    # A Poisson number with mean 10,000, whose standard deviation is 100.
    assert len(times) == pytest.approx(10_000, abs=400)
    times.sort()
    gaps = [after - before for before, after in itertools.pairwise(times)]
    # The gaps of a Poisson process vary as much as they last.
    assert statistics.stdev(gaps) / statistics.mean(gaps) == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize(("service", "sustained"), [(0.001, True), (0.1, False)])
def test_a_backlog_at_the_end_says_that_the_rate_was_not_sustained(
    *, service: float, sustained: bool
) -> None:
    race = cell(2, 40.0, 10.0)
    responses = Responses(race, SEED)
    for writer in range(2):
        free = 0.0
        for number, due in enumerate(arrivals(race, writer, SEED)):
            free = max(free, due) + service
            responses.answer(writer, number, free, acknowledged=True)
    found = responses.measured(None)
    assert found["sustained"] == sustained
    assert (found["achieved_per_second"] > 0.95 * found["offered_per_second"]) == sustained
    assert found["backlog"] == round((found["offered_per_second"] - found["achieved_per_second"]) * 10.0)


def test_an_append_without_an_answer_has_waited_until_the_limit() -> None:
    race = cell(1, 10.0, 5.0)
    responses = Responses(race, SEED)
    due = arrivals(race, 0, SEED)
    responses.answer(0, 0, due[0] + 0.5, acknowledged=True)
    found = responses.measured(20.0)
    assert responses.unanswered == len(due) - 1
    assert found["response_seconds"] is not None
    assert found["response_seconds"][100] == pytest.approx(20.0 - due[1], abs=1e-5)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rate": 5.0}, "--seconds"),
        ({"rate": 0.0, "seconds": 1.0}, "above 0"),
        ({"rate": float("nan"), "seconds": 1.0}, "above 0"),
        (
            {"rate": 5.0, "work": "delete", "workloads": (), "partitions": (), "committers": ("row-level",)},
            "--work append",
        ),
    ],
)
def test_a_rate_that_makes_no_schedule_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        Options(**{"committers": ("spillway",), "writers": (2,), **changes})


def test_a_race_with_a_rate_answers_all_that_is_due(out: Path) -> None:
    raced = ("--committers", "spillway", "--writers", "3", "--rate", "15", "--seconds", "1", "--rows", "1")
    result = invoke(out, *raced)
    assert result.exit_code == 0, result.output
    (record,) = races_in(out)
    found = record["open_loop"]
    race = Cell(**record["cell"])
    due = sum(len(arrivals(race, writer, found["seed"])) for writer in range(3))
    assert record["outcome"] == "ok"
    assert found["arrivals"] == record["acknowledged"] == record["table"]["present"] == due > 0
    assert found["response_seconds"][50] > 0
    (folder,) = out.iterdir()
    run = read_run(folder)
    (setting,) = run.settings
    header = detail_table(run, setting).header
    assert {"offered/s", "achieved/s", "response p50 s", "response p99 s", "longest response s"} <= set(
        header
    )


def test_a_closed_loop_shows_no_99th_percentile() -> None:
    closed = Cell(committer="spillway", workload="append-only", writers=3, seconds=1.0)
    names = [name for name, _ in _columns(Setting.of(closed))]
    assert "service p50 s" in names
    assert not [name for name in names if "p99" in name or "response" in name]
