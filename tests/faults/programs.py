"""Python programs run apart from the test process: they are killed, starved of disk, or may crash.

Where one reads Parquet with pyarrow it does so without threads: pyarrow 26 at times aborts at the exit of
a process whose last act was `read_table`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

SECONDS = 120
ROOT = Path(__file__).parents[2]
WITHOUT_PANDAS = f"import sys; sys.path.append({str(ROOT)!r}); import tests.without_pandas\n"


def run(code: str, *arguments: object, prefix: Sequence[str] = (), standard_input: str | None = None) -> Any:
    """Runs a program to its end and returns what it printed as JSON.

    Raises:
        AssertionError: It ended with another status than 0; a crash shows as a negative one.
    """
    done = subprocess.run(
        command(code, *arguments, prefix=prefix),
        input=standard_input,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stderr[-3000:]}"
    return json.loads(done.stdout)


def start(code: str, *arguments: object) -> subprocess.Popen[str]:
    """Starts a program whose lines the test reads as they come."""
    return subprocess.Popen(
        command(code, *arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def command(code: str, *arguments: object, prefix: Sequence[str] = ()) -> list[str]:
    return [*prefix, sys.executable, "-c", WITHOUT_PANDAS + dedent(code), *map(str, arguments)]


def open_the_way_to(folder: Path) -> None:
    """Let other users reach a folder among the system's temporary ones, whose own mode stays as it is."""
    temporary = Path(tempfile.gettempdir())
    for each in [folder, *folder.parents]:
        if each == temporary or not each.is_relative_to(temporary):
            return
        each.chmod(0o755)


def with_mount(folder: Path, commands: str) -> list[str]:
    """A prefix that runs a program in a mount namespace of its own, after mounting over `folder`.

    `commands` is shell text in which `$1` is the folder.
    """
    script = f'set -e; {commands}; shift; exec "$@"'
    return [*NAMESPACE, "sh", "-c", script, "sh", str(folder)]


def _namespace() -> list[str]:
    """The command that lets us mount privately here: as root, in a user namespace, or (empty) none."""
    for flags in ("-m", "-rm"):
        tried = ["unshare", flags]
        try:
            probe = [*tried, "sh", "-c", "mount -t tmpfs none /tmp"]
            if subprocess.run(probe, capture_output=True, check=False, timeout=SECONDS).returncode == 0:
                return tried
        except FileNotFoundError:
            break
    return []


NAMESPACE = _namespace()
IS_ROOT = os.geteuid() == 0
