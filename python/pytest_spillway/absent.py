"""The fixture, where pytest-benchmark is absent or switched off."""

from __future__ import annotations

import pytest


@pytest.fixture
def parquet_benchmark() -> None:
    """Fail with what to install."""
    pytest.fail(
        "parquet_benchmark needs pytest-benchmark, which is not loaded: pip install 'spillway[bench]' "
        "pytest-benchmark, or leave out -p no:benchmark",
        pytrace=False,
    )
