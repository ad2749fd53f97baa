"""MinIO, which the tests of stores share, and proxies before it."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import pytest

from ..stores.server import Proxy, minio

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..stores.server import Bucket, Fault, Request, Server


@pytest.fixture(scope="session")
def minio_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with minio(tmp_path_factory.mktemp("minio")) as started:
        yield started


@pytest.fixture
def store(minio_server: Server) -> Bucket:
    """An empty bucket."""
    return minio_server.bucket(f"bucket-{secrets.token_hex(4)}")


@pytest.fixture
def proxied(minio_server: Server) -> Iterator[Callable[[Callable[[Request], Fault]], Proxy]]:
    """Begins a proxy before the server."""
    proxies: list[Proxy] = []

    def start(fault: Callable[[Request], Fault]) -> Proxy:
        proxies.append(Proxy(minio_server.port, fault))
        return proxies[-1]

    yield start
    for proxy in proxies:
        proxy.stop()
