"""Check what `make dist` made: one sdist, and wheels that run on every machine their names promise.

    python scripts/check_dist.py dist --policy manylinux_2_17

auditwheel reads from the module which libraries it needs, and which versions of their symbols. twine checks
metadata and README as the package index does. Exits with 1 where one of them objects.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

TOOLS = Path(sys.executable).parent


def needed_by(wheel: Path) -> str:
    """The oldest platform that a wheel runs on, as auditwheel finds it; its complaint where it finds none."""
    command = [TOOLS / "auditwheel", "show", "--json", wheel]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return json.loads(done.stdout)["overall_tag"] if done.returncode == 0 else done.stderr.strip()


def c_library(tag: str) -> tuple[int, ...]:
    """The version of the C library that a tag stands for; any other platform is newer than all of them."""
    found = re.match(r"manylinux_(\d+)_(\d+)_", tag)
    return tuple(map(int, found.groups())) if found else (sys.maxsize,)


def objection(wheel: Path, policy: str) -> str | None:
    """The reason that a wheel does not keep its promise."""
    promised = wheel.stem.split("-")[-1].split(".")
    if not any(tag.startswith(f"{policy}_") for tag in promised):
        return f"it is for {' and '.join(promised)}, not for {policy}"
    needed = needed_by(wheel)
    return None if c_library(needed) <= c_library(f"{policy}_") else f"it needs {needed}"


def main(folder: Path, policy: str) -> int:
    files = sorted(folder.iterdir())
    wheels = [file for file in files if file.suffix == ".whl"]
    objections = {wheel.name: objection(wheel, policy) for wheel in wheels}
    for file in files:
        print(f"{file.stat().st_size / 1e6:7.2f} MB  {file.name}  {objections.get(file.name) or ''}")
    twine = subprocess.run(
        [TOOLS / "twine", "check", "--strict", *files], capture_output=True, text=True, check=False
    )
    if twine.returncode:
        print(twine.stdout, twine.stderr, file=sys.stderr)
    complete = bool(wheels) and [file for file in files if file.name.endswith(".tar.gz")]
    if not complete:
        print(f"{folder} lacks wheels or the sdist: run make dist", file=sys.stderr)
    return int(bool(twine.returncode or not complete or any(objections.values())))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--policy", required=True, help="the oldest C library, as in manylinux_2_17")
    arguments = parser.parse_args()
    sys.exit(main(arguments.folder, arguments.policy))
