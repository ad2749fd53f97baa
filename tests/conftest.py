"""Fixtures and rules of all tests: hypothesis profiles, groups of tests, one Spark session, one S3 server."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from .counts import EXAMPLES, PROFILE
from .stores.server import Proxy, ministack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from .stores.server import Bucket, Fault, Request, Server

# Tests load the module with its debug assertions, and look at no speed.
os.environ["SPILLWAY_ALLOW_CHECKED_BUILD"] = "1"

# Deadlines are off: these machines are noisy, and a slow example is not a wrong one.
for name, number in EXAMPLES.items():
    settings.register_profile(
        name,
        max_examples=number,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        print_blob=True,
    )
settings.load_profile(PROFILE)

# Fixtures that are dear to start, and folders whose tests watch a clock or the memory. A group stays in one
# process: a run has one JVM and one server of each kind, and two tests of time never run side by side.
FIXTURES = {"spark": "spark", "delta_spark": "spark", "server": "s3", "wheel": "packaging"}
FOLDERS = {"harness": "timing", "race": "timing", "cli": "timing", "packaging": "packaging"}
BUCKETS = itertools.count()


def group_of(item: pytest.Item) -> str:
    """The group whose tests run one after the other; a file is one where nothing else is said."""
    if item.get_closest_marker("spark"):
        return "spark"
    dear = (FIXTURES[name] for name in getattr(item, "fixturenames", ()) if name in FIXTURES)
    parts = item.path.relative_to(Path(__file__).parent).parts
    return next(dear, None) or FOLDERS.get(parts[0]) or "/".join(parts)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each test its group, and begin with the longest groups, so that all processes end together."""
    first = ("spark", "timing", "s3", "packaging")
    for item in items:
        item.add_marker(pytest.mark.xdist_group(group_of(item)))
    named = {name: place for place, name in enumerate(first)}
    items.sort(key=lambda item: named.get(group_of(item), len(first)))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A test that is skipped in continuous integration is a failure: it would never run anywhere."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("CI") and reporter is not None and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One local Spark session for the whole run; it starts once because a JVM costs ten seconds."""
    from spillway.spark.session import local_session  # noqa: PLC0415 - other tests need no Spark

    session = local_session("spillway-tests")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """An S3 server that keeps its data in its memory; tests of tables have MinIO in its place."""
    with ministack(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def bucket(server: Server) -> Bucket:
    """An empty bucket of the server."""
    return server.bucket(f"bucket-{next(BUCKETS)}")


@pytest.fixture
def faulty(bucket: Bucket) -> Iterator[Callable[[Callable[[Request], Fault]], Proxy]]:
    """Makes proxies before the bucket that fail as the given function says."""
    proxies: list[Proxy] = []

    def make(fault: Callable[[Request], Fault]) -> Proxy:
        proxies.append(Proxy(bucket.port, fault))
        return proxies[-1]

    yield make
    for proxy in proxies:
        proxy.stop()
