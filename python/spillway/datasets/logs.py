"""The dataset ``logs``: 52 flat columns as a service that ingests logs sees them.

A generator takes the `Traffic` of a chunk's rows and the column's name, which also names its random stream.
So a column never changes because another one came or went.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spillway.datasets import vocabulary as v
from spillway.datasets.arrow import (
    AnyArray,
    Booleans,
    Entries,
    Integers,
    Words,
    below,
    concatenated,
    happens,
    integers,
    inverse_cdf,
    log_uniform,
    nulled,
    numbers_as_text,
    pick,
    taken,
    texts,
    texts_of_matrix,
    zipf,
)
from spillway.datasets.vocabulary import EVENTS, TOPICS, Entity, Traffic

if TYPE_CHECKING:
    from numpy.typing import NDArray

Generator: TypeAlias = Callable[[Traffic, str], "AnyArray | Entries"]


@dataclass(frozen=True)
class Column:
    """One column of a dataset.

    Attributes:
        name: The name of the column and of its random stream.
        type: Its Arrow type.
        values: Makes a value for every row.
        nulls: Share of null values among the rows to which the column applies.
        where: Selects the rows to which the column applies; it is null in all others. None: everywhere.
    """

    name: str
    type: pa.DataType
    values: Generator
    nulls: float = 0.0
    where: Callable[[Traffic], Booleans] | None = None

    @property
    def field(self) -> pa.Field[Any]:
        """The column in a schema."""
        return pa.field(self.name, self.type, nullable=self.nulls > 0 or self.where is not None)

    def array(self, traffic: Traffic) -> AnyArray:
        """The column for the rows of `traffic`, nulls included."""
        return self.values_where(traffic, self._present(traffic))

    def values_where(self, traffic: Traffic, present: Booleans | None) -> AnyArray:
        """The values at the rows that are `present` (None: at all), and null at the others."""
        values = self.values(traffic, self.name)
        if isinstance(values, Entries):
            return values.array(present).cast(self.type)
        values = values.cast(self.type)
        return values if present is None else nulled(values, present)

    def _present(self, traffic: Traffic) -> Booleans | None:
        applies = self.where(traffic) if self.where is not None else None
        if not self.nulls:
            return applies
        known = ~happens(traffic.draw(f"{self.name}/null"), self.nulls)
        return known if applies is None else known & applies


# From the entities


def computed(function: Callable[[Traffic], NDArray[Any]]) -> Generator:
    """The values that `function` computes from the rows."""
    return lambda traffic, _name: pa.array(function(traffic))


def look_up(vocabulary: AnyArray, index: Callable[[Traffic], Integers]) -> Generator:
    """The entry of `vocabulary` at each row's `index`."""
    return lambda traffic, _name: Entries(vocabulary, index(traffic))


# Drawn at random, once for each entity


def choice(vocabulary: AnyArray, *, weights: list[int] | None = None, by: Entity = "row") -> Generator:
    """An entry of `vocabulary`: by weight, or by Zipf's law if there are no weights."""
    table = zipf(len(vocabulary)) if weights is None else inverse_cdf(weights)
    return lambda traffic, name: Entries(vocabulary, pick(table, traffic.draw(name, by)))


def uniform(low: int, high: int, *, by: Entity = "row") -> Generator:
    """An integer in ``[low, high)``."""
    return lambda traffic, name: pa.array(below(traffic.draw(name, by), high - low).astype(np.int64) + low)


def skewed(low_bits: int, high_bits: int, *, by: Entity = "row") -> Callable[[Traffic, str], AnyArray]:
    """An integer in ``[2**low_bits, 2**high_bits)``, each power of two as likely as the next."""

    def generate(traffic: Traffic, name: str) -> AnyArray:
        return pa.array(log_uniform(traffic.draw(name, by), low_bits, high_bits).astype(np.int64))

    return generate


def hundredths(low_bits: int, high_bits: int, *, by: Entity = "row") -> Generator:
    """A double with two decimals: a skewed integer over 100, which IEEE 754 rounds the same everywhere."""
    integers = skewed(low_bits, high_bits, by=by)
    return lambda traffic, name: pa.array(integers(traffic, name).to_numpy() / 100.0)


def unit_interval(*, bits: int = 53) -> Generator:
    """A double in ``[0, 1)`` with `bits` random bits."""
    return lambda traffic, name: pa.array((traffic.draw(name) >> (64 - bits)) * 2.0**-bits)


def flag(share: float, *, by: Entity = "row") -> Generator:
    """True for `share` of the entities."""
    return lambda traffic, name: pa.array(happens(traffic.draw(name, by), share))


# Text with numbers in it


def hex_digits(draws: list[Words]) -> NDArray[np.uint8]:
    """The words of each row in lower-case hexadecimal: ASCII, of shape (rows, 16 * words)."""
    octets = np.stack(draws, axis=1).astype(">u8").view(np.uint8)
    return _HEX_OF_OCTET[octets].view(np.uint8).reshape(len(octets), -1)


def identifier(digits: int, number: Callable[[Traffic], Words]) -> Callable[[Traffic, str], AnyArray]:
    """`digits` hexadecimal digits that hash an entity's `number`."""

    def generate(traffic: Traffic, name: str) -> AnyArray:
        hashes = _hashes(traffic, name, number(traffic), -(-digits // 16))
        return texts_of_matrix(hex_digits(hashes)[:, :digits])

    return generate


def uuid(number: Callable[[Traffic], Words]) -> Generator:
    """A hash of an entity's `number`, written as a UUID."""

    def generate(traffic: Traffic, name: str) -> AnyArray:
        digits = hex_digits(_hashes(traffic, name, number(traffic), 2))
        characters = np.full((len(digits), 36), ord("-"), dtype=np.uint8)
        for begin, end, hyphens in _UUID_GROUPS:
            characters[:, begin + hyphens : end + hyphens] = digits[:, begin:end]
        return texts_of_matrix(characters)

    return generate


def ipv4(*, by: Entity) -> Generator:
    """An address in dotted decimals."""

    def generate(traffic: Traffic, name: str) -> AnyArray:
        draws = traffic.draw(name, by)
        first, second = (taken(_pairs_of_octets(), (draws >> shift) & 0xFFFF) for shift in (0, 16))
        return concatenated(first, ".", second)

    return generate


def numbered(prefix: str, number: Callable[[Traffic], Integers]) -> Generator:
    """`prefix`, then an entity's number."""
    return lambda traffic, _name: concatenated(prefix, numbers_as_text(number(traffic)))


_DIGITS = b"0123456789abcdef"
_HEX_OF_OCTET = np.frombuffer(
    bytes(b for i in range(256) for b in (_DIGITS[i >> 4], _DIGITS[i & 15])), dtype=np.uint16
)


# RFC 9562, section 4: digits from and to, and the hyphens before them.
_UUID_GROUPS = ((0, 8, 0), (8, 12, 1), (12, 16, 2), (16, 20, 3), (20, 32, 4))


@cache
def _pairs_of_octets() -> AnyArray:
    """Two octets in dotted decimals, the first from the lower byte of the index."""
    return texts([f"{index & 255}.{index >> 8}" for index in range(1 << 16)])


def _hashes(traffic: Traffic, name: str, numbers: Words, count: int) -> list[Words]:
    return [traffic.hashed(f"{name}/{part}", numbers) for part in range(count)]


_SLOTS = max(len(event.slots) for event in EVENTS)

# Texts by position and event; a statement with fewer placeholders has empty texts at its end.
_TEXTS = [
    texts([event.texts[position] if position < len(event.texts) else "" for event in EVENTS])
    for position in range(_SLOTS + 1)
]
# Bounds of the numbers by placeholder and event: 0 for a word, and for a placeholder that is not there.
_BOUNDS = np.array(
    [
        [event.slots[slot].bound if slot < len(event.slots) else 0 for event in EVENTS]
        for slot in range(_SLOTS)
    ],
    dtype=np.uint64,
)
# Which vocabulary a placeholder without a number takes its text from.
_ABSENT = len(TOPICS)
_WORDS = pa.concat_arrays([TOPICS, texts([""])])
_IS_WORD = np.array([[slot < len(event.slots) for event in EVENTS] for slot in range(_SLOTS)])


def messages(traffic: Traffic, name: str) -> AnyArray:
    """One message a row: the text of its event, with numbers and words drawn for it."""
    event = traffic.event
    pieces = [taken(_TEXTS[0], event)]
    for slot in range(_SLOTS):
        draws = traffic.draw(f"{name}/{slot}")
        bound = _BOUNDS[slot, event]
        numbers = numbers_as_text(below(draws, bound))
        word = np.where(_IS_WORD[slot, event], below(draws, len(TOPICS)), _ABSENT)
        pieces += [
            pc.if_else(pa.array(bound > 0), numbers, taken(_WORDS, word)),
            taken(_TEXTS[slot + 1], event),
        ]
    return concatenated(*pieces)


_TIMESTAMP = pa.timestamp("us", tz="UTC")
_START_US = 1_767_225_600_000_000  # 2026-01-01T00:00:00Z
_US_PER_ROW = 211
_ROWS_PER_DELIVERY = 256
_FIRST_OFFSET = 48_210_000_000


def _event_time(traffic: Traffic) -> NDArray[np.int64]:
    """Increasing but for a few milliseconds of jitter; one line in 200 is late by up to a minute."""
    jitter = log_uniform(traffic.draw("timestamp/jitter"), 0, 12)
    late = happens(traffic.draw("timestamp/late"), 0.005) * below(traffic.draw("timestamp/delay"), 60_000_000)
    return (traffic.row * _US_PER_ROW + jitter).astype(np.int64) - late.astype(np.int64) + _START_US


def _ingest_time(traffic: Traffic) -> NDArray[np.int64]:
    """The arrival of the line's delivery: one time for all of its lines, after all of them were logged."""
    delivery = traffic.row // _ROWS_PER_DELIVERY + 1
    latency = below(traffic.hashed("ingested_at", delivery), 20_000) + 5_000
    return (delivery * (_ROWS_PER_DELIVERY * _US_PER_ROW) + latency).astype(np.int64) + _START_US


def _offset(traffic: Traffic) -> NDArray[np.int64]:
    return traffic.row.astype(np.int64) + _FIRST_OFFSET


def _level(traffic: Traffic) -> NDArray[np.int8]:
    return _LEVEL_OF_EVENT[traffic.event]


def _source_line(traffic: Traffic) -> NDArray[np.int32]:
    return _LINE_OF_EVENT[traffic.event]


def _logger(traffic: Traffic) -> NDArray[np.int64]:
    return traffic.service.astype(np.int64) * len(v.EVENTS) + traffic.event


def _error_kind(traffic: Traffic) -> Integers:
    """Stack traces go through the kinds in turn; see `vocabulary.STACK_TRACES`."""
    return traffic.error % len(v.ERROR_KINDS)


def _pid(traffic: Traffic) -> NDArray[np.int32]:
    return (below(traffic.hashed("pid", traffic.pod.astype(np.uint64)), 65_000) + 300).astype(np.int32)


def _http_path(traffic: Traffic, name: str) -> AnyArray:
    """The path of a resource: a few of a kind are asked for again and again, most hardly ever."""
    kind = below(traffic.draw(f"{name}/kind", "request"), len(v.PATHS))
    number = log_uniform(traffic.draw(name, "request"), 0, 20)
    return concatenated(taken(_PATH_STARTS, kind), numbers_as_text(number), taken(_PATH_ENDS, kind))


def _parent_span_id(traffic: Traffic, _name: str) -> AnyArray:
    """The span_id of the parent span."""
    return identifier(16, lambda t: t.parent_span)(traffic, "span_id")


def _session(traffic: Traffic) -> NDArray[np.uint64]:
    """A user begins a new session every few hundred thousand lines."""
    return traffic.user << np.uint64(32) | traffic.request >> np.uint64(16)


def _traced(traffic: Traffic) -> Booleans:
    return traffic.traced


def _failed(traffic: Traffic) -> Booleans:
    return traffic.failed


_LEVEL_OF_EVENT = np.array([event.level for event in v.EVENTS], dtype=np.int8)
_LINE_OF_EVENT = np.array([event.line for event in v.EVENTS], dtype=np.int32)
_PATH_STARTS = texts([start for start, _ in v.PATHS])
_PATH_ENDS = texts([end for _, end in v.PATHS])

LOGS: tuple[Column, ...] = (
    # When, and where in the stream
    Column("timestamp", _TIMESTAMP, computed(_event_time)),
    Column("ingested_at", _TIMESTAMP, computed(_ingest_time)),
    Column("log_offset", pa.int64(), computed(_offset)),
    Column("log_partition", pa.int16(), computed(lambda t: t.pod % 12)),
    # Which request
    Column("trace_id", pa.string(), identifier(32, lambda t: t.request), where=_traced),
    Column("span_id", pa.string(), identifier(16, lambda t: t.span), where=_traced),
    Column("parent_span_id", pa.string(), _parent_span_id, where=lambda t: t.child),
    Column("sampled", pa.bool_(), flag(0.1, by="request")),
    # Who logged it
    Column("service", pa.string(), look_up(texts(v.SERVICES), lambda t: t.service)),
    Column("namespace", pa.string(), look_up(v.NAMESPACES, lambda t: t.service)),
    Column("environment", pa.string(), look_up(v.ENVIRONMENTS, lambda t: t.host)),
    Column("region", pa.string(), look_up(v.REGIONS, lambda t: t.host)),
    Column("zone", pa.string(), look_up(v.ZONES, lambda t: t.host)),
    Column("cluster", pa.string(), look_up(v.CLUSTERS, lambda t: t.host)),
    Column("host", pa.string(), look_up(v.HOSTS, lambda t: t.host)),
    Column("host_ip", pa.string(), look_up(v.HOST_IPS, lambda t: t.host), nulls=0.001),
    Column("pod", pa.string(), look_up(v.PODS, lambda t: t.pod)),
    Column("container_id", pa.string(), look_up(v.CONTAINER_IDS, lambda t: t.pod), nulls=0.01),
    Column("image", pa.string(), look_up(v.IMAGES, lambda t: t.service)),
    Column("pid", pa.int32(), computed(_pid)),
    Column("thread", pa.string(), choice(v.THREADS, by="span"), nulls=0.05),
    # What it says
    Column("level", pa.string(), look_up(texts(v.LEVELS), _level)),
    Column("severity", pa.int8(), computed(lambda t: _level(t) * 4 + 1)),
    Column("logger", pa.string(), look_up(v.LOGGERS, _logger)),
    Column("source_line", pa.int32(), computed(_source_line)),
    Column("message", pa.string(), messages),
    Column("error_kind", pa.string(), look_up(v.ERROR_KINDS, _error_kind), where=_failed),
    Column("stack_trace", pa.string(), look_up(v.STACK_TRACES, lambda t: t.error), nulls=0.84, where=_failed),
    # The HTTP request, where there was one
    Column(
        "http_method", pa.string(), choice(v.METHODS, weights=v.METHOD_WEIGHTS, by="request"), where=_traced
    ),
    Column("http_host", pa.string(), choice(v.HTTP_HOSTS, by="request"), where=_traced),
    Column("http_path", pa.string(), _http_path, where=_traced),
    Column("http_query", pa.string(), choice(v.QUERIES, by="request"), nulls=0.75, where=_traced),
    Column(
        "http_status", pa.int16(), choice(v.STATUSES, weights=v.STATUS_WEIGHTS, by="request"), where=_traced
    ),
    Column("http_tls", pa.bool_(), flag(0.97, by="request"), where=_traced),
    Column("user_agent", pa.string(), choice(v.USER_AGENTS, by="user"), nulls=0.02),
    Column("referrer", pa.string(), choice(v.REFERRERS, by="request"), nulls=0.6),
    Column("client_ip", pa.string(), ipv4(by="user"), nulls=0.001),
    Column("client_port", pa.int32(), uniform(32_768, 61_000, by="request"), where=_traced),
    Column("request_bytes", pa.int32(), skewed(6, 14, by="request")),
    Column("response_bytes", pa.int64(), skewed(5, 27, by="request")),
    Column("duration_ms", pa.float64(), hundredths(3, 19, by="span")),
    Column("upstream_ns", pa.int64(), skewed(14, 32, by="span"), nulls=0.3),
    Column("retries", pa.int8(), choice(integers([0, 1, 2, 3, 4]), weights=[950, 35, 10, 4, 1], by="span")),
    Column("cache_hit", pa.bool_(), flag(0.7, by="span"), nulls=0.5),
    # Whose request it was
    Column("user_id", pa.string(), numbered("user-", lambda t: t.user + 100_000), nulls=0.35),
    Column("session_id", pa.string(), uuid(_session), nulls=0.35),
    Column("tenant_id", pa.int32(), computed(lambda t: t.user % 4_093 + 1)),
    Column("country", pa.string(), choice(v.COUNTRIES, by="user"), nulls=0.02),
    Column("experiment", pa.string(), choice(v.EXPERIMENTS, by="user"), nulls=0.95),
    # Measurements
    Column("amount", pa.float64(), hundredths(6, 17, by="request"), nulls=0.9),
    Column("cpu_ratio", pa.float64(), unit_interval(bits=10), nulls=0.2),
    Column("score", pa.float64(), unit_interval()),
)
