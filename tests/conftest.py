"""Fixtures and rules of all tests: hypothesis profiles, groups of tests, one Spark session, one S3 server."""

from __future__ import annotations

import itertools
import os
import secrets
import shutil
import signal
import tempfile
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

from .counts import EXAMPLES, PROFILE, SOAK
from .faults.injection import build
from .spark.archive import LAUNCHER_OPTIONS, java_options
from .stores.server import Proxy, minio, ministack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from spillway.spark import Packed

    from .spark.cluster import Cluster
    from .spark.process import Worker
    from .stores.server import Bucket, Fault, Request, Server

# Tests load the module with its debug assertions, and look at no speed.
os.environ["SPILLWAY_ALLOW_CHECKED_BUILD"] = "1"
os.environ["SPARK_SUBMIT_OPTS"] = java_options()
os.environ["SPARK_LAUNCHER_OPTS"] = LAUNCHER_OPTIONS
# Tests start hundreds of processes: one that finds no bytecode compiles for longer than it runs.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A shell that starts the tests in the background has them ignore Ctrl-C, which tests send to themselves.
signal.signal(signal.SIGINT, signal.default_int_handler)

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

# Files whose tests share what is dear to start, or watch a clock or the memory. A group stays in one process:
# it has one session of Spark, one server of each kind, and no two tests of time run at once. Longest first. A
# file belongs to the longest pattern that it matches.
GROUPS = {
    # Those that share a session of Spark.
    "spark": (
        "spark/*",
        "backends/test_spark.py",
        "interop/test_changed_schemas.py",
        "interop/test_partitions.py",
        "interop/test_predicates.py",
        "interop/test_spark.py",
        "pipeline/test_example.py",
        "pipeline/test_kills.py",
        "pipeline/test_pipeline.py",
        "pipeline/test_stages.py",
        "pipeline/test_stream.py",
        "validation/test_good_files.py",
        "validation/test_planted_faults.py",
    ),
    # Those that share a session with Delta, which is in a process of its own.
    "delta-spark": (
        "delta/conflicts/*",
        "delta/test_checkpoints.py",
        "delta/test_features.py",
        "delta/test_spark.py",
        "delta/test_spark_change_feed.py",
        "delta/test_spark_changes.py",
        "delta/test_spark_clustering.py",
        "delta/test_spark_deletes.py",
        "delta/test_spark_mapped_writes.py",
        "delta/test_spark_reading.py",
        "delta/test_spark_row_ids.py",
        "spark/test_tasks.py",
        "spark/test_types_delta.py",
    ),
    "timing": (
        *("bench/*", "cli/*", "harness/*"),
        *("race/test_check.py", "race/test_plan.py", "race/test_races.py"),
    ),
    # Programs with a JVM of their own, and the cluster.
    "cluster": (
        "pipeline/test_cluster.py",
        "pipeline/test_command.py",
        "pipeline/test_on_s3.py",
        "spark/test_bench.py",
        "spark/test_cluster.py",
        "spark/test_guide.py",
        "spark/test_other_python.py",
        "spark/test_overtaken.py",
        "spark/test_pack.py",
        "spark/versions/*",
    ),
    "docs": ("docs/*",),
    "s3": (
        "stores/*",
        "delta/test_stores.py",
        "delta/test_killed_on_store.py",
        "delta/test_log_reading.py",
        "delta/test_other_tables.py",
        "race/test_real_s3.py",
        "race/test_s3.py",
    ),
    "packaging": ("packaging/*",),
}
FIXTURES = {
    "spark": {"spark"},
    "cluster": {"cluster"},
    "packed": {"cluster"},
    "worker": {"delta-spark"},
    "server": {"s3", "docs"},
    "wheel": {"packaging"},
}
BUCKETS = itertools.count()


def group_of(nodeid: str) -> str:
    """The group of a test, by its file; a file that is in none is a group of its own."""
    return _group_of_file(nodeid.partition("::")[0])


@cache
def _group_of_file(path: str) -> str:
    file = path.removeprefix("tests/")
    # The suite in bench/ is run beside the tests, and its files are in no group.
    patterns = GROUPS if file != path else {}
    held = [(len(one), name) for name in patterns for one in GROUPS[name] if fnmatch(file, one)]
    return max(held)[1] if held else path


class GroupScheduling(LoadScopeScheduling):
    """Hands whole groups to processes, in the order of collection."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> GroupScheduling:
    config.option.loadscopereorder = False
    return GroupScheduling(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the longest groups first, and refuse a test whose fixture belongs to another group than it.

    Tests of a soak are left out of all other runs: they are deselected, since none may be skipped.
    """
    if soaked := [item for item in items if not SOAK and item.get_closest_marker("soak")]:
        config.hook.pytest_deselected(items=soaked)
        items[:] = [item for item in items if item not in soaked]
    places = {name: place for place, name in enumerate(GROUPS)}
    items.sort(key=lambda item: places.get(group_of(item.nodeid), len(places)))
    for item in items:
        for name in FIXTURES.keys() & set(getattr(item, "fixturenames", ())):
            if group_of(item.nodeid) not in FIXTURES[name]:
                raise pytest.UsageError(f"{item.nodeid} uses {name}: name its file in GROUPS of {__file__}")
        if group_of(item.nodeid) not in GROUPS:
            item.add_marker(pytest.mark.quick)


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
    # 200 by default, for tables of a few rows.
    session.conf.set("spark.sql.shuffle.partitions", "2")
    with pytest.MonkeyPatch.context() as patch:
        # A pipeline collects the whole heap for its record and waits for it, longer than most of them take
        # here for all else. In continuous integration the command does (pipeline/test_command.py).
        if not SOAK:
            patch.setattr("spillway.spark.pipeline.record.DriverWatch._live_heap", lambda _: 1)
        yield session
    session.stop()


@pytest.fixture(scope="session")
def worker() -> Iterator[Worker]:
    """One Spark session with Delta and retries for the whole run, in a process of its own."""
    from .spark.process import started  # noqa: PLC0415 - other tests need no Spark

    with started() as worker:
        yield worker


@pytest.fixture(scope="session")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Packed:
    """The archive that executors of a cluster get, in a folder whose name has what URLs escape."""
    from spillway.spark import pack  # noqa: PLC0415 - other tests need no Spark

    folder = tmp_path_factory.mktemp("archives") / "a b,c#d"
    folder.mkdir()
    return pack(folder / "spillway.tar.gz")


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A standalone Spark cluster of two workers; its executors find no package but Spark's own."""
    from .spark.cluster import running  # noqa: PLC0415 - other tests need no Spark

    with running(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def disk(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A folder in the checkout: the system's temporary folder may lie in memory."""
    base = request.config.rootpath / ".build"
    base.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=base, prefix="test-"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def injection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that has calls to the operating system fail."""
    return build(tmp_path_factory.mktemp("injection"))


@pytest.fixture(scope="session")
def seed(request: pytest.FixtureRequest) -> int:
    """The seed of what tests draw themselves: that of hypothesis, where it has one."""
    told: str | None = request.config.getoption("hypothesis_seed")
    return secrets.randbits(32) if told in {None, "random"} else int(told)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """An S3 server that keeps its data in its memory."""
    with ministack(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(scope="session")
def table_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The server for tests of tables and of jobs of Spark: MinIO in a soak, as it takes minutes to build."""
    start = minio if SOAK else ministack
    with start(tmp_path_factory.mktemp("tables")) as server:
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
