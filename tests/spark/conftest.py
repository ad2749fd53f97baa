"""Buckets for tests of jobs: `faulty` makes proxies before them."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ..stores.server import Bucket, Server


@pytest.fixture
def store(table_server: Server) -> Bucket:
    """An empty bucket."""
    return table_server.bucket(f"bucket-{secrets.token_hex(4)}")


@pytest.fixture
def bucket(store: Bucket) -> Bucket:
    """The bucket that `faulty` makes proxies before."""
    return store
