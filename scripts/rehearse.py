"""Rehearse a release: install what `make dist` made from an index, and use it without the repository.

    python scripts/rehearse.py dist

An index on the loopback serves the folder as the package index does (PEP 503). Each Python from 3.11 that uv
finds gets a clean environment with the base install, which may use no other index, and another one with all
extras, whose packages come from the index that uv is configured for. The oldest one also builds the source
distribution. Programs run in a temporary folder. Exits with 1 where something fails.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZipFile

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
UV = Path(sys.executable).with_name("uv")
OLDEST = (3, 11)
SECONDS = 1800
# The base install writes with every codec; the installed commands write, read, measure and race rows.
BASE = ROOT / "tests" / "packaging" / "write_with_wheel.py"
COMMANDS = (
    "spillway --help",
    "spillway write rows.ndjson rows.parquet --memory 16MB",
    "spillway inspect rows.parquet --json",
    "spillway validate rows.parquet --against rows.parquet --engine pyarrow,polars,duckdb",
    "spillway bench --quick --input rows.parquet --memory none --backend spillway,pyarrow-streaming",
    "spillway compare runs --backend pyarrow-streaming,spillway",
    "spillway race --writers 4 --committers spillway,delta-rs-retry",
    "python -c 'import pyspark, spillway.spark, spillway; print(spillway.load_run(\"runs\").num_rows)'",
)


class _Quiet(SimpleHTTPRequestHandler):
    """Serves files without a line for each request."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def make_index(dist: Path, folder: Path) -> None:
    """Lay out an index of the project's files: one page with a link to each, and its hash."""
    page = folder / "simple" / "spillway"
    page.mkdir(parents=True)
    links = []
    for file in sorted([*dist.glob("spillway-*.whl"), *dist.glob("spillway-*.tar.gz")]):
        shutil.copy(file, page)
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        links.append(f'<a href="{file.name}#sha256={digest}">{file.name}</a>')
    if len(links) < 2:  # noqa: PLR2004 - a wheel and the sdist
        sys.exit(f"{dist} lacks wheels or the sdist: run make dist")
    (page / "index.html").write_text("<!DOCTYPE html>\n" + "<br>\n".join(links) + "\n")
    (page.parent / "index.html").write_text('<!DOCTYPE html>\n<a href="spillway/">spillway</a>\n')


def serve(folder: Path) -> tuple[ThreadingHTTPServer, str]:
    """Serve a folder on the loopback, by a port that is free."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, f"http://127.0.0.1:{server.server_port}/simple/"


def pythons() -> dict[str, Path]:
    """An interpreter of each version from 3.11 on the path or of pyenv, the oldest version first."""
    command = [UV, "python", "list", "--only-installed", "--output-format", "json"]
    of_pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob("versions/*/bin")
    path = os.pathsep.join([*map(str, of_pyenv), os.environ["PATH"]])
    listed = json.loads(run(*command, folder=ROOT, environment=os.environ | {"PATH": path}))
    found: dict[tuple[int, int], Path] = {}
    for each in listed:
        version = each["version_parts"]["major"], each["version_parts"]["minor"]
        if each["implementation"] == "cpython" and each.get("variant", "default") == "default":
            found.setdefault(version, Path(each["path"]))
    wanted = sorted(version for version in found if version >= OLDEST)
    return {f"{version[0]}.{version[1]}": found[version] for version in wanted}


def extras(dist: Path) -> list[str]:
    """The extras that a wheel names."""
    wheel = next(iter(dist.glob("spillway-*.whl")))
    with ZipFile(wheel) as archive:
        (metadata,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        lines = archive.read(metadata).decode().splitlines()
    return [line.partition(": ")[2] for line in lines if line.startswith("Provides-Extra: ")]


def run(*command: str | Path, folder: Path, environment: dict[str, str] | None = None) -> str:
    """Run a program in a folder; its output. Raises `CalledProcessError` with all that it said."""
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=SECONDS
    )
    if done.returncode:
        sys.stderr.write(f"{done.stdout}{done.stderr}\n")
        done.check_returncode()
    return done.stdout.strip()


def environment(folder: Path, python: Path, *install: str) -> Path:
    """Make a clean environment and install into it; the folder of its programs."""
    run(UV, "venv", "--quiet", "--python", python, folder / "venv", folder=folder)
    run(UV, "pip", "install", "--quiet", "--python", folder / "venv", *install, folder=folder)
    return folder / "venv" / "bin"


def alone(programs: Path) -> dict[str, str]:
    """The environment variables of a user who has nothing of this repository."""
    kept = {name: os.environ[name] for name in ("JAVA_HOME", "LANG") if name in os.environ}
    home = str(programs.parent)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    return {**kept, "PATH": path, "HOME": home, "SPILLWAY_CACHE": f"{home}/cache"}


def beside(index: str) -> tuple[str, ...]:
    """Options by which uv has this package from the index, and all others from its own."""
    return "--index", index, "--refresh-package", "spillway"


def written(folder: Path, programs: Path) -> str:
    """Write with every codec."""
    shutil.copy(BASE, folder)
    return run(programs / "python", "-W", "error", BASE.name, folder=folder, environment=alone(programs))


def base(folder: Path, python: Path, index: str) -> str:
    """Install without any other package, and write with every codec."""
    return written(folder, environment(folder, python, "--default-index", index, "--no-cache", "spillway"))


def with_extras(folder: Path, python: Path, index: str, named: list[str]) -> str:
    """Install with all extras, and run the command from rows to a race."""
    wanted = f"spillway[{','.join(named)}]"
    programs = environment(folder, python, *beside(index), wanted)
    (folder / "rows.ndjson").write_text("".join(f'{{"id": {n}, "word": "{n % 7}"}}\n' for n in range(2_000)))
    for command in COMMANDS:
        run("bash", "-euc", command, folder=folder, environment=alone(programs))
    return f"{len(COMMANDS)} commands with {', '.join(named)}"


def steps(dist: Path, work: Path, index: str) -> Iterator[tuple[str, partial[str]]]:
    """What is rehearsed, with a word for each step."""
    found = pythons()
    named = extras(dist)
    for version, python in found.items():
        yield f"Python {version}, base", partial(base, work / f"{version}-base", python, index)
        yield (
            f"Python {version}, extras",
            partial(with_extras, work / f"{version}-extras", python, index, named),
        )
    oldest, python = next(iter(found.items()))
    yield f"Python {oldest}, from the sdist", partial(from_sdist, work / "sdist", python, index)


def from_sdist(folder: Path, python: Path, index: str) -> str:
    """Build the source distribution as a user's installer does, and write with every codec."""
    programs = environment(folder, python, *beside(index), "--no-binary", "spillway", "spillway")
    return written(folder, programs)


def main(dist: Path) -> int:
    failed = 0
    with tempfile.TemporaryDirectory(prefix="rehearsal-") as made:
        work = Path(made)
        make_index(dist, work)
        server, index = serve(work)
        for what, step in steps(dist, work, index):
            began = time.monotonic()
            folder: Path = step.args[0]
            folder.mkdir()
            try:
                said = step()
            except subprocess.SubprocessError as error:
                failed += 1
                said = f"FAILED: {error}"
            print(f"{what}: {said} ({time.monotonic() - began:.0f} s)", flush=True)
            shutil.rmtree(folder)
        server.shutdown()
    return int(failed > 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("dist", type=Path, help="the folder that make dist filled")
    sys.exit(main(parser.parse_args().dist.resolve()))
