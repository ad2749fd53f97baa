"""What a host of repositories reads: workflows and issue templates."""

from __future__ import annotations

import re
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


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_a_template_asks_for_what_the_doctor_says(path: Any) -> None:
    template = yaml.safe_load(path.read_text())
    asked = {field.get("id"): field for field in template["body"]}
    assert "doctor" in asked
    labels = " ".join(field["attributes"]["label"] for field in asked.values())
    assert "spillway doctor" in labels


def test_there_are_workflows_and_templates() -> None:
    assert len(WORKFLOWS) >= 2
    assert len(TEMPLATES) >= 2
