"""Memory limits and processor affinity: what this machine offers, applied and proved."""

from __future__ import annotations

from spillway.harness.limits.box import Box, Limiter, RlimitData, Unlimited
from spillway.harness.limits.detect import choose_limiter, detect_limiters

__all__ = ["Box", "Limiter", "RlimitData", "Unlimited", "choose_limiter", "detect_limiters"]
