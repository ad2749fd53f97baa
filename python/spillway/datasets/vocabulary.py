"""The words that log lines are made of, and the events behind the rows.

Everything here is fixed, whatever the dataset's seed; longer lists are combined from shorter ones by the
generator that also makes the rows.

Rows are log lines of a shop's services. Lines of one request share its trace, its path and its user; lines of
one span share a pod; a pod has one service, host and region. Columns that agree with each other in real logs
agree here, because they read the same entity.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np

from spillway.datasets.arrow import (
    Booleans,
    Integers,
    Words,
    below,
    happens,
    integers,
    inverse_cdf,
    log_uniform,
    pick,
    stream_key,
    texts,
    words,
    zipf,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray


def _fixed(name: str, count: int) -> Words:
    """`count` words that depend on `name` alone."""
    return words(stream_key(0, f"vocabulary/{name}"), np.arange(count, dtype=np.uint64))


def _spread(name: str, count: int, bound: int) -> list[int]:
    """`count` fixed integers below `bound`."""
    return [int(number) for number in below(_fixed(name, count), bound)]


def _listed(text: str) -> list[str]:
    """The words of a text; a long list reads better so."""
    return text.split()


# Deployments: a service has pods, a pod runs on a host, a host stands in a zone.

SERVICES = _listed(
    "checkout-api storefront-web search-gateway cart-service payment-gateway inventory-sync order-processor "
    "recommendation-engine user-profile session-store notification-hub email-dispatcher pricing-engine "
    "shipping-quotes fraud-detector review-service catalog-indexer media-resizer ledger-writer "
    "coupon-service webhook-relay audit-trail warehouse-bridge support-desk"
)
PODS_PER_SERVICE = 20
_HOSTS = 120
_REGION_NAMES = ["eu-west-1", "us-east-1", "us-west-2", "ap-southeast-2", "eu-central-1"]
_TEAMS = ["shop", "shop", "discovery", "shop", "payments", "supply"]
_ENVIRONMENTS = ["production", "production", "production", "production", "staging", "canary"]

_pods = len(SERVICES) * PODS_PER_SERVICE
_pod_service = [pod // PODS_PER_SERVICE for pod in range(_pods)]
_host_region = [_REGION_NAMES[min(host % 11, 10 - host % 11) % 5] for host in range(_HOSTS)]
_host_address = [
    (a, b) for a, b in zip(_spread("host.a", _HOSTS, 64), _spread("host.b", _HOSTS, 254), strict=True)
]
_host_environment = [_ENVIRONMENTS[e] for e in _spread("host.environment", _HOSTS, len(_ENVIRONMENTS))]

HOST_OF_POD = np.array(_spread("pod.host", _pods, _HOSTS), dtype=np.int64)
HOSTS = texts(
    [
        f"ip-10-{a}-{host % 7}-{b + 1}.{region}.internal"
        for host, ((a, b), region) in enumerate(zip(_host_address, _host_region, strict=True))
    ]
)
HOST_IPS = texts([f"10.{a}.{host % 7}.{b + 1}" for host, (a, b) in enumerate(_host_address)])
REGIONS = texts(_host_region)
ZONES = texts([region + "abc"[host % 3] for host, region in enumerate(_host_region)])
ENVIRONMENTS = texts(_host_environment)
CLUSTERS = texts([f"{e[:4]}-{r}" for e, r in zip(_host_environment, _host_region, strict=True)])

NAMESPACES = texts([_TEAMS[service % len(_TEAMS)] for service in range(len(SERVICES))])
IMAGES = texts(
    [
        f"shop/{service}:{major + 1}.{minor}.{index % 5}"
        for index, (service, major, minor) in enumerate(
            zip(SERVICES, _spread("image.major", 24, 5), _spread("image.minor", 24, 40), strict=True)
        )
    ]
)
PODS = texts(
    [
        f"{SERVICES[service]}-{replica_set:09x}-{suffix:05x}"
        for service, replica_set, suffix in zip(
            _pod_service,
            [_spread("pod.replica_set", len(SERVICES), 2**32)[service] for service in _pod_service],
            _spread("pod.suffix", _pods, 2**20),
            strict=True,
        )
    ]
)
CONTAINER_IDS = texts([f"{word & (2**48 - 1):012x}" for word in _fixed("container", _pods).tolist()])
THREADS = texts(
    [f"http-nio-8080-exec-{n}" for n in range(1, 41)]
    + [f"kafka-consumer-{n}-C-1" for n in range(1, 9)]
    + [f"scheduler-{n}" for n in range(1, 5)]
)


# Logging statements. In a text, {250} is a number below 250 and {word} the name of a topic or table.


class Slot(NamedTuple):
    """The value for a placeholder of a text: a number below `bound`, or a word if `bound` is 0."""

    bound: int


class Event(NamedTuple):
    """A logging statement: its location, severity and text."""

    level: int
    logger: str
    line: int
    texts: list[str]
    slots: list[Slot]


LEVELS = ["TRACE", "DEBUG", "INFO", "WARN", "ERROR"]
TOPICS = texts(
    _listed(
        "orders carts payments refunds shipments stock_levels prices sessions profiles clicks impressions "
        "reviews invoices coupons returns alerts"
    )
)

_STATEMENTS = """
INFO http.AccessLog 88 Request completed in {900} ms with {60000} bytes written
INFO http.AccessLog 93 Request accepted from load balancer lb-{12} on connection {4000000}
DEBUG cache.ReadThroughCache 141 Cache hit for {word}:{900000} after {400} us
DEBUG cache.ReadThroughCache 152 Cache miss for {word}:{900000}, loading from primary
INFO messaging.Consumer 207 Consumed {500} records from {word} partition {64}
INFO messaging.Producer 118 Published event {90000000} to {word} with key {900000}
DEBUG db.QueryExecutor 64 Query on {word} returned {250} rows in {30000} us
INFO db.QueryExecutor 71 Transaction {80000000} committed on {word} after {120} ms
DEBUG db.ConnectionPool 45 Connection {96} borrowed from pool, {96} idle, {16} waiting
INFO domain.OrderWorkflow 312 Order {90000000} moved from state {9} to state {9}
INFO domain.StockLedger 154 Reserved {12} units of article {2000000} in warehouse {40}
DEBUG domain.PriceCalculator 97 Price of article {2000000} resolved to {90000} cents by rule {300}
INFO security.TokenVerifier 58 Token accepted for client {5000}, expires in {3600} seconds
DEBUG security.RateLimiter 83 Client {5000} has {1000} of {1000} tokens left
INFO jobs.Scheduler 175 Job {word} finished, {20000} items processed in {90} s
DEBUG rpc.ClientChannel 219 Call {90000000} to {word} answered in {45000} us
TRACE rpc.ClientChannel 224 Frame of {16384} bytes sent on stream {2000000}
TRACE db.ResultDecoder 31 Decoded {48} columns of {word} from {65536} bytes
INFO search.QueryPlanner 131 Query planned over {24} shards of {word}, estimated {900000} matches
INFO storage.ObjectClient 166 Stored object {90000000} of {4000000} bytes under {word}
WARN http.SlowRequestFilter 52 Request took {9000} ms, which is over the threshold of {3} s
WARN db.ConnectionPool 61 Pool exhausted: {96} connections in use, waited {5000} ms for one
WARN messaging.Consumer 231 Consumer lag on {word} partition {64} is {900000} records
WARN rpc.RetryPolicy 109 Attempt {5} of call to {word} failed, next one in {4000} ms
WARN security.RateLimiter 95 Client {5000} was throttled: {2000} requests in {60} s
WARN cache.ReadThroughCache 170 Evicted {20000} entries of {word} under memory pressure
ERROR domain.PaymentAuthorizer 263 Authorization {90000000} of payment was declined by provider {14}
ERROR db.QueryExecutor 88 Statement on {word} failed after {30000} ms with code {60000}
ERROR http.ExceptionMapper 77 Unhandled exception while serving request {90000000} for client {5000}
ERROR rpc.ClientChannel 240 Call {90000000} to {word} failed: deadline of {5000} ms exceeded
ERROR messaging.DeadLetters 134 Record {90000000} of {word} was given up after {9} attempts
ERROR jobs.Scheduler 198 Job {word} failed after {90} s, {20000} items left
"""


def _event(statement: str) -> Event:
    level, logger, line, message = statement.split(" ", 3)
    pieces = re.split(r"\{(\d+|word)\}", message)
    slots = [Slot(0 if slot == "word" else int(slot)) for slot in pieces[1::2]]
    return Event(LEVELS.index(level), logger, int(line), pieces[::2], slots)


EVENTS = [_event(statement) for statement in _STATEMENTS.strip().splitlines()]
EVENTS_PER_SERVICE = 14
FAILURE_OF_EVENT = np.array([LEVELS[event.level] == "ERROR" for event in EVENTS])


def _events_of_service() -> Integers:
    """For each service the statements it reaches, the commonest first: informative ones before failures."""
    order = np.argsort(
        _fixed("service.events", len(SERVICES) * len(EVENTS)).reshape(len(SERVICES), -1), axis=1
    )
    grave = np.array([event.level >= LEVELS.index("WARN") for event in EVENTS])[order]
    calm_first = np.argsort(grave, axis=1, kind="stable")
    ranked = np.take_along_axis(order, calm_first, axis=1)
    return np.concatenate([ranked[:, : EVENTS_PER_SERVICE - 4], ranked[:, -4:]], axis=1)


EVENTS_OF_SERVICE = _events_of_service()
LOGGERS = texts(
    [f"com.example.{service.split('-')[0]}.{event.logger}" for service in SERVICES for event in EVENTS]
)


# Failures

ERROR_KINDS = texts(
    [
        "java.net.SocketTimeoutException",
        "java.sql.SQLTransientConnectionException",
        "java.lang.IllegalStateException",
        "io.grpc.StatusRuntimeException",
        "java.util.concurrent.TimeoutException",
        "com.example.payment.DeclinedException",
        "java.lang.NullPointerException",
        "com.fasterxml.jackson.core.JsonParseException",
        "java.io.IOException",
        "java.lang.OutOfMemoryError",
    ]
)
_PACKAGES = [
    "checkout",
    "cart",
    "payment",
    "catalog",
    "shared.http",
    "shared.db",
    "shared.rpc",
    "shared.cache",
]
_CLASSES = ["Handler", "Repository", "Workflow", "Client", "Interceptor", "Executor", "Dispatcher", "Mapper"]
_METHOD_NAMES = ["handle", "invoke", "execute", "apply", "findById", "submit", "lambda$run$0", "intercept"]


def _stack_trace(kind: str, draws: list[int]) -> str:
    """A trace of 6 to 21 frames, one for each draw but the first."""
    lines = [f"{kind}: operation {draws[0] % 10_000} could not be completed"]
    for draw in draws[1 : 7 + draws[0] % 16]:
        package, cls, method = _PACKAGES[draw % 8], _CLASSES[draw // 8 % 8], _METHOD_NAMES[draw // 64 % 8]
        lines.append(f"\tat com.example.{package}.{cls}.{method}({cls}.java:{20 + draw // 512 % 400})")
    return "\n".join(lines)


STACK_TRACES = texts(
    [
        _stack_trace(ERROR_KINDS[trace % len(ERROR_KINDS)].as_py(), draws)
        for trace, draws in enumerate((_fixed("stack_trace", 600 * 22) >> 8).reshape(600, 22).tolist())
    ]
)


# Requests and those who make them

METHODS = texts(["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"])
METHOD_WEIGHTS = [70, 18, 5, 3, 2, 1, 1]
STATUSES = integers([200, 201, 204, 304, 301, 400, 401, 403, 404, 409, 429, 500, 502, 503, 504], np.int16)
STATUS_WEIGHTS = [800, 40, 30, 40, 10, 12, 10, 8, 25, 4, 5, 8, 3, 3, 2]
HTTP_HOSTS = texts(["www.shop.example", "api.shop.example", "m.shop.example", "partners.shop.example"])
# Before and after the number of the resource.
PATHS = [
    *[(f"/api/v2/{noun}/", "") for noun in ("orders", "carts", "products", "users", "invoices")],
    *[(f"/api/v2/{noun}/", "/items") for noun in ("orders", "carts", "wishlists", "shipments")],
    *[(f"/api/v1/{noun}/", "/status") for noun in ("payments", "refunds", "shipments", "exports")],
    *[(f"/catalog/{category}/p-", ".html") for category in ("shoes", "books", "garden", "kitchen", "toys")],
    *[("/media/img/", f"_{size}.webp") for size in (160, 320, 640, 1280)],
    ("/search/suggest/", ""),
    ("/webhooks/provider/", "/callback"),
]
QUERIES = texts(
    [
        f"page={page}&size={size}&sort={sort}"
        for page in range(1, 11)
        for size in (20, 50, 100)
        for sort in ("price", "-price", "name", "newest")
    ]
)
REFERRERS = texts(
    ["https://www.shop.example/", "https://www.shop.example/cart", "https://news.example/deals"]
    + [
        f"https://www.shop.example/catalog/{noun}?ref=nav{n}"
        for noun in ("shoes", "books", "toys")
        for n in range(30)
    ]
)
COUNTRIES = texts(
    _listed("DE US FR GB NL PL ES IT AT CH SE DK NO FI BE CZ PT IE RO HU GR CA AU JP BR IN MX ZA KR SG")
)
EXPERIMENTS = texts([f"exp-2026-{n:02d}:{arm}" for n in range(1, 9) for arm in ("control", "treatment")])
TAGS = texts(
    _listed(
        "canary retry cold-start vip bot mobile batch replay beta sampled cached degraded failover import "
        "export internal partner load-test slow-path fast-path"
    )
)

_PLATFORMS = [
    "(Windows NT 10.0; Win64; x64)",
    "(Macintosh; Intel Mac OS X 10_15_7)",
    "(X11; Linux x86_64)",
    "(Linux; Android 15; Pixel 9)",
    "(iPhone; CPU iPhone OS 18_2 like Mac OS X)",
]


def _user_agents() -> list[str]:
    browsers = [
        f"Mozilla/5.0 {platform} AppleWebKit/537.36 (KHTML, like Gecko) {browser}/{major}.0.{build}.0"
        for major, build in zip(range(118, 142), _spread("user_agent.build", 24, 7000), strict=True)
        for browser in ("Chrome", "Edg")
        for platform in _PLATFORMS
    ]
    tools = [
        f"{tool}/{n // 4 + 1}.{n % 4}"
        for tool in ("okhttp", "curl", "python-client", "go-client")
        for n in range(8)
    ]
    order = np.argsort(_fixed("user_agent.order", len(browsers) + len(tools)), kind="stable")
    return [(browsers + tools)[index] for index in order.tolist()]


USER_AGENTS = texts(_user_agents())


Entity: TypeAlias = Literal["row", "span", "request", "user"]

_LINES_PER_REQUEST = 4
_SPANS_PER_REQUEST = 4
_USER_BITS = 17
_TRACED_SHARE = 0.88

_SPAN = inverse_cdf([40, 30, 20, 10])
_SERVICE = zipf(len(SERVICES))
_REPLICA = zipf(PODS_PER_SERVICE)
_EVENT = zipf(EVENTS_PER_SERVICE)
_ERROR = zipf(len(STACK_TRACES))


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
        return self.service.astype(np.int64) * PODS_PER_SERVICE + replica

    @cached_property
    def host(self) -> Integers:
        """Index into the hosts: where the pod runs."""
        return HOST_OF_POD[self.pod]

    @cached_property
    def event(self) -> Integers:
        """Index into `vocabulary.EVENTS`: which logging statement was reached."""
        statement = pick(_EVENT, self.draw("traffic.event"))
        return EVENTS_OF_SERVICE[self.service, statement]

    @cached_property
    def failed(self) -> Booleans:
        """True if the line reports an error."""
        return FAILURE_OF_EVENT[self.event]

    @cached_property
    def error(self) -> Integers:
        """Index into `vocabulary.STACK_TRACES`: what went wrong, if anything did."""
        return pick(_ERROR, self.draw("traffic.error"))
