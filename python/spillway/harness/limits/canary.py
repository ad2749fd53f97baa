"""A process that eats memory until its limit kills it. Run by path under a limit; standard library only."""

from __future__ import annotations

import json
import mmap
import os
import resource
import sys

STEPS_PER_LIMIT = 200
BEYOND = 1.3  # of the limit: where it gives up, because nothing has stopped it


def main() -> int:
    """Take memory in steps of half a per cent of the limit, and say after each how much is held."""
    channel, limit = int(sys.argv[1]), int(sys.argv[2])
    is_data_limit = sys.argv[3] == "rlimit-data"
    if is_data_limit:
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    field = "VmData" if is_data_limit else "RssAnon"
    step = max(limit // STEPS_PER_LIMIT, mmap.PAGESIZE)
    held = []
    while _status(field) < BEYOND * limit:
        try:
            block = mmap.mmap(-1, step, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except (OSError, MemoryError):
            os.write(channel, b'{"refused": true}\n')
            return 0
        for page in range(0, step, mmap.PAGESIZE):
            block[page] = 1
        held.append(block)
        os.write(channel, (json.dumps({"held": _status(field)}) + "\n").encode())
    return 0


def _status(field: str) -> int:
    with open("/proc/self/status") as status:  # noqa: PTH123 - nothing is imported that need not be
        for line in status:
            if line.startswith(field):
                return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {field}")


if __name__ == "__main__":
    sys.exit(main())
