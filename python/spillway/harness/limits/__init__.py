"""Memory limits and processor affinity: what this machine offers, applied and proved."""

from __future__ import annotations

from spillway.harness.limits.detect import choose_limiter, detect_limiters
from spillway.harness.limits.memory_limit import Limiter, MemoryLimit
from spillway.harness.limits.plain import RlimitData, Unlimited

__all__ = ["Limiter", "MemoryLimit", "RlimitData", "Unlimited", "choose_limiter", "detect_limiters"]
