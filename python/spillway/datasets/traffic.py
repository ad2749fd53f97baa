"""Events behind the rows: the requests, spans, pods, users and errors that many columns refer to.

Rows are log lines of a shop's services. Lines of one request share its trace, its path and its user; lines of
one span share a pod; a pod has one service, host and region. Columns that agree with each other in real logs
agree here, because they read the same entity.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from spillway.datasets import vocabulary
from spillway.datasets.random import (
    Booleans,
    Integers,
    Words,
    happens,
    inverse_cdf,
    log_uniform,
    pick,
    stream_key,
    words,
    zipf,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Entity", "Traffic"]

Entity: TypeAlias = Literal["row", "span", "request", "user"]

_LINES_PER_REQUEST = 4
_SPANS_PER_REQUEST = 4
_USER_BITS = 17
_TRACED_SHARE = 0.88

_SPAN = inverse_cdf([40, 30, 20, 10])
_SERVICE = zipf(len(vocabulary.SERVICES))
_REPLICA = zipf(vocabulary.PODS_PER_SERVICE)
_EVENT = zipf(vocabulary.EVENTS_PER_SERVICE)
_ERROR = zipf(len(vocabulary.STACK_TRACES))


class Traffic:
    """The entities of consecutive rows; every property has one value per row.

    Args:
        seed: The dataset's seed.
        first_row: The number of the first row within the dataset.
        rows: The number of rows.
    """

    def __init__(self, seed: int, first_row: int, rows: int) -> None:
        self.seed = seed
        self.row: Words = np.arange(first_row, first_row + rows, dtype=np.uint64)

    def draw(self, name: str, by: Entity = "row") -> Words:
        """Words of the stream `name`, one per row, the same for all rows of one entity."""
        return self.hashed(name, getattr(self, by))

    def hashed(self, name: str, numbers: Words) -> Words:
        """Words of the stream `name` for entities that are numbered in some other way."""
        return words(stream_key(self.seed, name), numbers)

    @cached_property
    def request(self) -> Words:
        """Number of the request that was served; those of neighbouring rows interleave."""
        return (self.row + (self.draw("traffic.request") & 63)) // _LINES_PER_REQUEST

    @cached_property
    def span_within_request(self) -> NDArray[np.uint16]:
        """0 for the request's root span, up to 3 for those below it."""
        return pick(_SPAN, self.draw("traffic.span"))

    @cached_property
    def span(self) -> Words:
        """Number of the span that logged the line."""
        return self.request * _SPANS_PER_REQUEST + self.span_within_request

    @cached_property
    def parent_span(self) -> Words:
        """Number of the span above it; meaningless for a root span."""
        return self.request * _SPANS_PER_REQUEST + self.span_within_request // 2

    @cached_property
    def traced(self) -> Booleans:
        """True if the line belongs to a request; the others come from background work."""
        return happens(self.draw("traffic.traced", "request"), _TRACED_SHARE)

    @cached_property
    def child(self) -> Booleans:
        """True if the line belongs to a request and its span is not the root."""
        return self.traced & (self.span_within_request > 0)

    @cached_property
    def user(self) -> Words:
        """Number of the user, a few of them responsible for most requests."""
        return log_uniform(self.draw("traffic.user", "request"), 0, _USER_BITS)

    @cached_property
    def service(self) -> NDArray[np.uint16]:
        """Index into `vocabulary.SERVICES`."""
        return pick(_SERVICE, self.draw("traffic.service", "span"))

    @cached_property
    def pod(self) -> Integers:
        """Index into the pods, which are grouped by service."""
        replica = pick(_REPLICA, self.draw("traffic.replica", "span"))
        return self.service.astype(np.int64) * vocabulary.PODS_PER_SERVICE + replica

    @cached_property
    def host(self) -> Integers:
        """Index into the hosts: where the pod runs."""
        return vocabulary.HOST_OF_POD[self.pod]

    @cached_property
    def event(self) -> Integers:
        """Index into `vocabulary.EVENTS`: which logging statement was reached."""
        statement = pick(_EVENT, self.draw("traffic.event"))
        return vocabulary.EVENTS_OF_SERVICE[self.service, statement]

    @cached_property
    def failed(self) -> Booleans:
        """True if the line reports an error."""
        return vocabulary.FAILURE_OF_EVENT[self.event]

    @cached_property
    def error(self) -> Integers:
        """Index into `vocabulary.STACK_TRACES`: what went wrong, if anything did."""
        return pick(_ERROR, self.draw("traffic.error"))
