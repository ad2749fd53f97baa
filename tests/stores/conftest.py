"""Rows for uploads of several parts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest


@pytest.fixture(scope="session")
def large() -> pa.Table:
    """32 MB that nothing compresses: four parts and a rest."""
    rng = np.random.default_rng(11)
    return pa.table({f"c{index}": rng.integers(0, 2**63, 1_050_000) for index in range(4)})
