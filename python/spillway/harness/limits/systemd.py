"""Memory limits by a scope of the user's own systemd, where control groups cannot be written directly."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spillway.harness.limits.cgroup import MemoryLimit

if TYPE_CHECKING:
    from collections.abc import Iterator

_PROBE_SECONDS = 5


@dataclass(frozen=True)
class SystemdScope:
    """A transient scope with ``MemoryMax``. Its count of kills disappears with it.

    So a process that dies by SIGKILL under it, not by the bench's own hand, is taken to have been killed for
    the limit, which a limit check has confirmed.
    """

    command: str
    kind = "systemd-scope"

    @contextmanager
    def limit(self, size: int) -> Iterator[MemoryLimit]:
        """A scope with this limit and no swap."""
        properties = ("-p", f"MemoryMax={size}", "-p", "MemorySwapMax=0")
        prefix = (self.command, "--user", "--scope", "--quiet", *properties, "--")
        yield MemoryLimit(prefix=prefix, oom_kills=lambda: None, group="self")


def find_systemd() -> SystemdScope | None:
    """The user's systemd, if it answers and starts a scope."""
    command = shutil.which("systemd-run")
    if command is None:
        return None
    try:
        tried = subprocess.run(
            [command, "--user", "--scope", "--quiet", "-p", "MemoryMax=64M", "--", "true"],
            capture_output=True,
            timeout=_PROBE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None
    return SystemdScope(command) if tried.returncode == 0 else None
