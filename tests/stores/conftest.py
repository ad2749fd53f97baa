"""One S3 server for the run, an empty bucket for each test."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from .server import Proxy, ministack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .server import Bucket, Fault, Request, Server

NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with ministack(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def bucket(server: Server) -> Bucket:
    return server.bucket(f"bucket-{next(NUMBERS)}")


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


@pytest.fixture(scope="session")
def large() -> pa.Table:
    """32 MB that nothing compresses: four parts and a rest."""
    rng = np.random.default_rng(11)
    return pa.table({f"c{index}": rng.integers(0, 2**63, 1_050_000) for index in range(4)})
