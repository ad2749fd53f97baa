"""Control groups go even if this process is killed: a shell waits for its end, and removes what it left.

One shell for a process. It reads the names of groups from a pipe of which only this process holds the other
end, and is woken by nothing else, so that it takes no time from what is measured.
"""

from __future__ import annotations

import atexit
import os
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["guard"]

_SHELL = "/bin/sh"
# Processes in the groups die with their parent; five seconds are given to those that have to be killed.
_SCRIPT = """
trap '' INT TERM HUP
groups=
while IFS= read -r group; do groups="$groups $group"; done
tries=100
for group in $groups; do
    while [ -d "$group" ] && ! rmdir "$group" 2>/dev/null && [ $tries -gt 0 ]; do
        for pid in $(cat "$group/cgroup.procs" 2>/dev/null); do kill -9 "$pid" 2>/dev/null; done
        tries=$((tries - 1))
        sleep 0.05
    done
done
"""


def guard(group: Path) -> None:
    """Have a control group removed once this process is gone, however it ends."""
    os.write(_shell(os.getpid()), f"{group}\n".encode())


@cache
def _shell(pid: int) -> int:  # noqa: ARG001 - a forked process has a shell of its own
    """The descriptor by which the shell is told of groups."""
    read_end, write_end = os.pipe()
    started = os.posix_spawn(
        _SHELL,
        [_SHELL, "-c", _SCRIPT],
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_DUP2, read_end, 0),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
        ],
        setsid=True,
    )
    os.close(read_end)
    atexit.register(_end, write_end, started, os.getpid())
    return write_end


def _end(write_end: int, started: int, parent: int) -> None:
    if os.getpid() == parent:
        os.close(write_end)
        os.waitpid(started, 0)
