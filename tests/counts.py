"""Counts of repeated tests by profile: few for a quick look, more in CI, most before a release.

``SPILLWAY_TESTS`` names the profile: ``quick``, ``ci`` (the default) or ``soak``. Examples of a property
follow it by `examples`, all other counts by `count`.
"""

from __future__ import annotations

import os

__all__ = ["EXAMPLES", "PROFILE", "SOAK", "count", "examples"]

EXAMPLES = {"quick": 15, "ci": 40, "soak": 10_000}
PROFILE = os.environ.get("SPILLWAY_TESTS", "ci")
if PROFILE not in EXAMPLES:
    raise ValueError(
        f"SPILLWAY_TESTS={PROFILE!r} is no profile of the tests: choose from {', '.join(EXAMPLES)}"
    )
SOAK = PROFILE == "soak"


def count(*, quick: int, ci: int, soak: int) -> int:
    """The number that belongs to the profile."""
    return {"quick": quick, "ci": ci, "soak": soak}[PROFILE]


def examples(share: float) -> int:
    """Examples of a property that costs more than most, as a share of what the others have."""
    return max(2, round(EXAMPLES[PROFILE] * share))
