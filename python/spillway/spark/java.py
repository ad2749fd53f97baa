"""The Java that Spark runs on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from spillway.errors import JavaError

__all__ = ["OLDEST", "Java", "find_java"]

OLDEST = 17
"""The oldest Java that all supported versions of Spark run on."""

_REMEDY = f"Spark needs Java {OLDEST} or newer: install one, and put it on PATH or set JAVA_HOME"


class Java(NamedTuple):
    """A Java that is new enough.

    Attributes:
        program: Its ``java``.
        version: Its major version.
    """

    program: Path
    version: int


def find_java() -> Java:
    """Find the ``java`` program that Spark would start, and check its version.

    Raises:
        JavaError: Java was not found, does not run, or is too old.
    """
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if found is None or not Path(found).is_file():
        where = f"JAVA_HOME is {home!r}, which holds no bin/java" if home else "there is no java on PATH"
        raise JavaError(f"{where}. {_REMEDY}.")
    version = _version(found)
    if version < OLDEST:
        raise JavaError(f"{found} is Java {version}. {_REMEDY}.")
    return Java(Path(found), version)


def _version(java: str) -> int:
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise JavaError(f"{java} does not run: {error}. {_REMEDY}.") from error
    # `openjdk version "17.0.15" 2025-04-15`; up to Java 8 the major number came second, as in "1.8.0".
    number = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    if number is None:
        raise JavaError(f"{java} does not print its version: {answer.stderr.strip()!r}. {_REMEDY}.")
    return int(number[1])
