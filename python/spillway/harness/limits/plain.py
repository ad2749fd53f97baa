"""No limit, and ``RLIMIT_DATA``: neither needs a control group; both are accounted in one if possible."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from spillway.harness.limits.cgroup import accounting_group

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spillway.harness.limits.memory_limit import MemoryLimit

__all__ = ["RlimitData", "Unlimited"]


class Unlimited:
    """No limit."""

    kind = "none"

    @contextmanager
    def limit(self, size: int) -> Iterator[MemoryLimit]:  # noqa: ARG002 - there is none to set
        """No limit at all."""
        with accounting_group() as account:
            yield account


class RlimitData:
    """``RLIMIT_DATA``: private writable address space, resident or not, so it bites earlier."""

    kind = "rlimit-data"

    @contextmanager
    def limit(self, size: int) -> Iterator[MemoryLimit]:
        """A limit that the process sets for itself before it imports anything native."""
        with accounting_group() as account:
            yield replace(account, data_limit=size)
