"""Check that wheels are those of a release: optimised, small, and silent about the machine that built them.

    python scripts/check_wheel.py dist/*.whl

``make wheel`` and ``make dist`` call it. A module for another architecture is not loaded: its size shows
that it has no symbols and no debug information. Exits with 1 where a wheel falls short.
"""

from __future__ import annotations

import argparse
import json
import platform
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZipFile

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
PRIVATE = {"checkout": str(ROOT), "home": f"{Path.home()}/", "host": socket.gethostname()}
LEAST_LETTERS = 5  # a shorter name is in any module by chance
MOST_BYTES = 15_000_000
ACCOUNT = "import json, spillway; print(json.dumps(spillway.build_info()))"


def objections(wheel: Path) -> Iterator[str]:
    """The reasons that a wheel is not one to publish."""
    size = wheel.stat().st_size
    if size > MOST_BYTES:
        yield f"it has {size:,} bytes, over {MOST_BYTES:,}"
    with ZipFile(wheel) as archive:
        for name in archive.namelist():
            content = archive.read(name)
            for what, text in PRIVATE.items():
                if len(text) >= LEAST_LETTERS and text.encode() in content:
                    yield f"{name} holds the {what} of the machine that built it"
    if platform.machine() in wheel.stem.rpartition("-")[2]:
        yield from objections_to_build(wheel)


def objections_to_build(wheel: Path) -> Iterator[str]:
    """The module's own account of its build, where it is not that of a release."""
    with tempfile.TemporaryDirectory() as folder, ZipFile(wheel) as archive:
        archive.extractall(folder)
        program = [sys.executable, "-S", "-c", ACCOUNT]
        done = subprocess.run(program, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        yield f"it does not load: {done.stderr.strip()}"
        return
    build = json.loads(done.stdout)
    if (build["profile"], build["opt_level"], build["debug_assertions"]) != ("release", "3", False):
        yield (
            f"its module is of profile {build['profile']}, opt-level {build['opt_level']}, debug assertions "
            f"{'on' if build['debug_assertions'] else 'off'}: build it with --release"
        )


def main(wheels: list[Path]) -> int:
    found = {wheel: list(objections(wheel)) for wheel in wheels}
    for wheel, reasons in found.items():
        for reason in reasons:
            print(f"{wheel.name}: {reason}", file=sys.stderr)
    return int(any(found.values()))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("wheels", type=Path, nargs="+")
    sys.exit(main(parser.parse_args().wheels))
