"""Claims on the files around the code: workflows, issue templates, and the places that documents name."""

from __future__ import annotations

import os
import re
import subprocess
from typing import Any

import pytest
import yaml

from .conftest import ROOT

GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
TEMPLATES = sorted(path for path in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config")


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_calls_targets_of_make_and_nothing_else(path: Any) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    steps = [step for job in yaml.safe_load(path.read_text())["jobs"].values() for step in job["steps"]]
    commands = [step["run"] for step in steps if "run" in step]
    assert commands
    for command in commands:
        called = re.fullmatch(r"make ([a-z-]+)( [A-Z_]+='[^']*')?", command)
        assert called is not None, command
        assert called[1] in targets


def planned(*asked: str, **environment: str) -> str:
    """The commands that make would run for a target, or for what else it is asked."""
    # Tests may be run by make themselves, in continuous integration or not.
    ours = {"CI", "MAKEFLAGS", "MAKELEVEL", "PROPTEST_RNG_SEED"}
    outer = {name: value for name, value in os.environ.items() if name not in ours}
    return subprocess.run(
        ["make", "--dry-run", *asked],
        cwd=ROOT,
        env=outer | environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_continuous_integration_draws_by_the_commit_and_nothing_else_does() -> None:
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    seed = f"--hypothesis-seed={int(commit.stdout[:8], 16)}"
    assert seed in planned("test", CI="true")
    rust = ("--eval=drawn-by: ; echo $(PROPTEST_RNG_SEED)", "drawn-by")
    assert planned(*rust, CI="true").split() == ["echo", seed.partition("=")[2]]
    assert planned(*rust).split() == ["echo"]
    for target in ("test", "test-quick", "soak"):
        assert "pytest" in planned(target)
        assert "--hypothesis-seed" not in planned(target)


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_a_template_asks_for_what_the_doctor_says(path: Any) -> None:
    template = yaml.safe_load(path.read_text())
    asked = {field.get("id"): field for field in template["body"]}
    assert "doctor" in asked
    labels = " ".join(field["attributes"]["label"] for field in asked.values())
    assert "spillway doctor" in labels


USES = re.compile(r"uses: *(.*)")
PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # \S.*")


@pytest.mark.parametrize("path", [*WORKFLOWS, *GITHUB.glob("actions/*/*.yml")], ids=lambda path: path.name)
def test_every_action_of_others_is_pinned_by_its_commit(path: Any) -> None:
    others = [used for used in USES.findall(path.read_text()) if not used.startswith("./")]
    assert not [used for used in others if not PINNED.fullmatch(used)]


def test_there_are_workflows_and_templates() -> None:
    assert len(WORKFLOWS) >= 2
    assert len(TEMPLATES) >= 2


def test_the_readme_of_the_tests_names_every_folder() -> None:
    text = (ROOT / "tests" / "README.md").read_text()
    folders = {path.parent.relative_to(ROOT / "tests").parts[0] for path in ROOT.glob("tests/*/test_*.py")}
    assert len(folders) > 10
    assert not {folder for folder in folders if f"| `{folder}` |" not in text}


PLACE = re.compile(r"`((?:bench|docs|examples|notebooks|python|results|rust|scripts|tests)/[\w./-]*)`")
DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "tests" / "README.md"]


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_places_that_a_document_names_are_there(page: Any) -> None:
    missing = [place for place in PLACE.findall(page.read_text()) if not (ROOT / place).exists()]
    assert not missing
