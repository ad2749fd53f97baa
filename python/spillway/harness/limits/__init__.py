"""Memory limits and processor affinity: what this machine offers, applied and proved."""

from __future__ import annotations

from spillway.harness.limits.cgroup import Limiter, MemoryLimit
from spillway.harness.limits.detect import RlimitData, Unlimited, choose_limiter, detect_limiters

__all__ = ["Limiter", "MemoryLimit", "RlimitData", "Unlimited", "choose_limiter", "detect_limiters"]
