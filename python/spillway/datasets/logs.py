"""The dataset ``logs``: 52 flat columns as a service that ingests logs sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spillway.datasets import vocabulary as v
from spillway.datasets.arrow import concatenated, integers, numbers_as_text, taken, texts
from spillway.datasets.columns import (
    Column,
    choice,
    computed,
    flag,
    hundredths,
    identifier,
    ipv4,
    look_up,
    numbered,
    skewed,
    uniform,
    unit_interval,
    uuid,
)
from spillway.datasets.messages import messages
from spillway.datasets.random import Booleans, Integers, below, happens, log_uniform

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from spillway.datasets.arrow import AnyArray
    from spillway.datasets.traffic import Traffic

__all__ = ["LOGS"]

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
