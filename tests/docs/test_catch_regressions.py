"""The workflow of the guide runs step by step, with the action of this repository, in small."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from .pages import ROOT, blocks_of

if TYPE_CHECKING:
    from pathlib import Path

ACTION = ROOT / ".github" / "actions" / "compare" / "action.yml"
PAGE = ROOT / "docs" / "guide" / "catch-regressions.md"
EXPRESSION = re.compile(r"\$\{\{ *([\w.-]+) *\}\}")
# An A/A comparison of tiny writes, which must not fail by chance.
SMALL = {"rows": "1000", "samples": "7", "backend": "pyarrow-streaming", "gate": "99%"}
# The environments of the workflow are that of the tests, in which nothing is installed.
PYTHON = f"""#!/bin/sh
if [ "$1 $2" = "-m venv" ]; then mkdir -p "$3/bin" && cp "$0" "$3/bin/python"
elif [ "$1 $2" = "-m pip" ]; then true
else exec {sys.executable} "$@"; fi
"""
COMMANDS = {
    "python": PYTHON,
    "pip": "#!/bin/sh\n",
    "gh": '#!/bin/sh\necho "$@" > gh.txt\n',
    "spillway": f"#!/bin/sh\nexec {sys.executable} -c 'from spillway.cli import main; main()' \"$@\"\n",
}


class Job:
    """A job of a workflow in a folder: its steps run one after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "job"
        self.folder.mkdir()
        self.tools = folder / "bin"
        self.tools.mkdir()
        for name, text in COMMANDS.items():
            (self.tools / name).write_text(text)
            (self.tools / name).chmod(0o755)
        self.summary = folder / "summary.md"
        self.names = {"github.token": "secret", "github.event.pull_request.number": "7"}

    def run(self, step: dict[str, Any], names: dict[str, str]) -> int:
        """Run a step's script as a runner does; its exit status."""
        outputs = self.folder.with_name("outputs.txt")
        outputs.write_text("")
        given = {name: filled(value, names) for name, value in step.get("env", {}).items()}
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", filled(step["run"], names)],
            cwd=self.folder,
            env={
                **os.environ,
                **given,
                "PATH": f"{self.tools}{os.pathsep}{os.environ['PATH']}",
                "GITHUB_OUTPUT": str(outputs),
                "GITHUB_STEP_SUMMARY": str(self.summary),
                "SPILLWAY_CACHE": str(self.folder.with_name("cache")),
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=280,
        )
        print(done.stdout, done.stderr)  # noqa: T201 - pytest shows it where a step fails
        for line in outputs.read_text().splitlines():
            name, _, value = line.partition("=")
            names[f"steps.{step['id']}.outputs.{name}"] = value
        return done.returncode

    def act(self, given: dict[str, str], *, only: str | None = None) -> list[int]:
        """Run the steps of the action; their statuses."""
        action = yaml.safe_load(ACTION.read_text())
        assert set(given) <= set(action["inputs"])
        names = {f"inputs.{name}": str(each.get("default", "")) for name, each in action["inputs"].items()}
        names |= {f"inputs.{name}": value for name, value in given.items()}
        steps = [each for each in action["runs"]["steps"] if only in {None, each.get("id")}]
        found = [self.run(step, names) for step in steps]
        value = filled(action["outputs"]["comment"]["value"], names)
        self.names["steps.compare.outputs.comment"] = value
        return found


def filled(text: str, names: dict[str, str]) -> str:
    """A text with its expressions replaced by what they stand for."""
    return EXPRESSION.sub(lambda found: names[found[1]], text)


@pytest.fixture(scope="module")
def steps() -> list[dict[str, Any]]:
    (workflow, *_) = [yaml.safe_load(each.text) for each in blocks_of(PAGE) if each.language == "yaml"]
    found: list[dict[str, Any]] = workflow["jobs"]["compare"]["steps"]
    return found


@pytest.fixture(scope="module")
def done(steps: list[dict[str, Any]], disk: Path) -> Job:
    """The job after all of its steps."""
    folder = disk / "catch-regressions"
    folder.mkdir()
    job = Job(folder)
    for step in steps:
        if "run" in step:
            assert job.run(step, job.names) == 0, step["name"]
        elif "/.github/actions/compare@" in step["uses"]:
            assert job.act(step["with"] | SMALL) == [0, 0]
    return job


def test_the_workflow_measures_base_and_head_and_comments(done: Job) -> None:
    comment = (done.folder / "spillway-comment.md").read_text()
    assert "## head beside base, by 7 pairs of each" in comment
    assert "| cell | seconds | time x | CPU s | cpu x | peak MB | memory x | file MB | size x |" in comment
    assert re.search(r"\| ~?\d\.\d{3} \[\d\.\d{3}, \d+\.\d{3}\] \|", comment)
    assert "base is pyarrow" in comment
    assert "gate of 99.0%" in comment
    assert done.summary.read_text() == comment
    assert (done.folder / "gh.txt").read_text().startswith("pr comment 7 --body-file spillway-comment.md")


@pytest.mark.parametrize(("size", "status"), [(1.0, 0), (0.9, 1)])
def test_the_action_holds_sizes_to_a_stored_run(done: Job, size: float, status: int) -> None:
    (run,) = (done.folder / "spillway-runs").iterdir()
    stored = done.folder / f"stored-{size}"
    shutil.copytree(run, stored)
    environment = json.loads((stored / "environment.json").read_text())
    changed = {"run_id": "stored", "cpu_model": "Another"}
    (stored / "environment.json").write_text(json.dumps(environment | changed))
    samples = [json.loads(line) for line in (stored / "samples.jsonl").read_text().splitlines()]
    for sample in samples:
        sample["output"]["bytes"] = int(size * sample["output"]["bytes"])
    (stored / "samples.jsonl").write_text("".join(f"{json.dumps(sample)}\n" for sample in samples))
    given = {"base": "base", "head": "head", **SMALL, "stored": stored.name, "comment": f"{size}.md"}
    assert done.act(given, only="compare") == [status]
    comment = (done.folder / f"{size}.md").read_text()
    assert "head beside base" in comment
    assert "gate of 1.0%: " + ("exceeded" if status else "kept") in comment
    assert "allocated MB" in comment


def test_the_workflow_gives_the_action_what_it_asks_for(steps: list[dict[str, Any]]) -> None:
    action = yaml.safe_load(ACTION.read_text())
    (given,) = (each["with"] for each in steps if "/.github/actions/compare@" in each.get("uses", ""))
    asked = {name for name, each in action["inputs"].items() if each.get("required")}
    assert asked <= set(given) <= set(action["inputs"])
