"""What every test shares: hypothesis profiles, one Spark session, and small inputs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

# Tests load the module with its debug assertions, and look at no speed.
os.environ["SPILLWAY_ALLOW_CHECKED_BUILD"] = "1"

# Deadlines are off: these machines are noisy, and a slow example is not a wrong one.
_COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow], "print_blob": True}
settings.register_profile("ci", max_examples=100, **_COMMON)
settings.register_profile("soak", max_examples=10_000, **_COMMON)
settings.load_profile("soak" if os.environ.get("SPILLWAY_SOAK") else "ci")


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
