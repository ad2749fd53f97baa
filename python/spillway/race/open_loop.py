"""An open loop: appends that are due at times of a schedule, whether or not earlier ones were answered.

In a closed loop a writer starts its next append when its last one was answered, so a slow one delays the
appends that would have met it, and their waits are never counted: coordinated omission. It yields service
times, which are only suitable for throughput. In an open loop the response time of an append counts from the
time at which it was due. See B. Schroeder, A. Wierman and M. Harchol-Balter, "Open Versus Closed: A
Cautionary Tale", NSDI 2006, and G. Tene, "How NOT to Measure Latency", Strange Loop 2015.

Arrivals are a Poisson process, the model of clients who do not know of each other; even intervals would hide
the queues that chance makes. Each writer has an independent process with its share of the rate. Together
these are one Poisson process of the whole rate (J. Kingman, "Poisson Processes", 1993, section 2.2), and no
process has to ask another one for its next append.
"""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING, Annotated, NotRequired, TypedDict

from spillway.harness.records import Keywords

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spillway.race.model import Cell

_DIGITS = 6
_PERCENT = 100


def quantile(ordered: list[float], share: float) -> float:
    """The value that `share` of the ordered ones do not exceed."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def percentiles(values: Iterable[float]) -> list[float] | None:
    """The quantiles 0 to 100 %, rounded to microseconds where values are seconds; None without values."""
    ordered = sorted(values)
    if not ordered:
        return None
    return [round(quantile(ordered, each / _PERCENT), _DIGITS) for each in range(_PERCENT + 1)]


_BACKLOG_SHARE = 0.05
"""The least share of all appends that makes a backlog more than chance."""


class OpenLoop(TypedDict):
    """What an open loop adds to the figures of a race.

    Attributes:
        seed: The seed of the arrivals.
        arrivals: Appends that were due.
        offered_per_second: Appends that were due, over the seconds of the schedule.
        achieved_per_second: Appends that were acknowledged by the end of the schedule, over its seconds.
        backlog: Appends that were due and without an answer at the end of the schedule.
        sustained: False if more appends than there are writers, and more than 5 % of all, were left then, or
            were never acknowledged.
        unacknowledged: Appends that failed, or had no answer at the end of the race. Early records lack it.
        response_seconds: From the time at which an append was due to its acknowledgement: quantiles 0 to
            100 %. One that is not acknowledged counts as having waited until the end of the race.
    """

    seed: str
    arrivals: int
    offered_per_second: float
    achieved_per_second: float
    backlog: int
    sustained: bool
    unacknowledged: NotRequired[int]
    response_seconds: Annotated[list[float], Keywords(minItems=101, maxItems=101)] | None


def arrivals(cell: Cell, writer: int, seed: str) -> list[float]:
    """The times at which the appends of a writer are due, in seconds after the start, in order.

    Args:
        cell: A race with a rate and with seconds.
        writer: The number of the writer.
        seed: The same seed gives the same times in every process.
    """
    if cell.rate is None or cell.seconds is None:
        raise ValueError("a closed loop has no schedule")
    chance = random.Random(f"{seed} {writer}")  # noqa: S311 - a schedule, not a secret
    share = cell.rate / cell.writers
    times = []
    at = chance.expovariate(share)
    while at < cell.seconds:
        times.append(at)
        at += chance.expovariate(share)
    return times


class Responses:
    """The acknowledgements of a race, with the times at which its appends were due.

    Args:
        cell: A race with a rate.
        seed: The seed of its arrivals.
    """

    def __init__(self, cell: Cell, seed: str) -> None:
        self._cell = cell
        self._seed = seed
        self._window = cell.seconds or 0.0
        self._due = {
            (writer, number): at
            for writer in range(cell.writers)
            for number, at in enumerate(arrivals(cell, writer, seed))
        }
        self._arrivals = len(self._due)
        self._waits: list[float] = []
        self._failed: list[float] = []
        self._end = self._window
        self._answered_in_time = 0
        self._acknowledged_in_time = 0

    @property
    def unanswered(self) -> int:
        """Appends that have no answer yet, also those that are not due yet."""
        return len(self._due)

    def answer(self, writer: int, number: int, at: float, *, acknowledged: bool) -> None:
        """Note an answer, at a time in seconds after the start."""
        due = self._due.pop((writer, number))
        self._end = max(self._end, at)
        in_time = at <= self._window
        self._answered_in_time += in_time
        if acknowledged:
            self._acknowledged_in_time += in_time
            self._waits.append(at - due)
        else:
            self._failed.append(due)

    def measured(self, limit: float | None) -> OpenLoop:
        """The figures.

        Args:
            limit: The seconds after which the race was stopped; None if it ended by itself.
        """
        end = self._end if limit is None else limit
        unacknowledged = [*self._failed, *self._due.values()]
        waits = self._waits + [end - due for due in unacknowledged]
        backlog = self._arrivals - self._answered_in_time
        return {
            "seed": self._seed,
            "arrivals": self._arrivals,
            "offered_per_second": self._arrivals / self._window,
            "achieved_per_second": self._acknowledged_in_time / self._window,
            "backlog": backlog,
            "sustained": max(backlog, len(unacknowledged))
            <= max(self._cell.writers, _BACKLOG_SHARE * self._arrivals),
            "unacknowledged": len(unacknowledged),
            "response_seconds": percentiles(waits),
        }
