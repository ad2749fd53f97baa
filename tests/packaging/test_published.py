"""Claims on the files around the code: workflows, issue templates, and the places that documents name."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from .conftest import ROOT

if TYPE_CHECKING:
    from pathlib import Path

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


def test_only_the_step_that_publishes_may_prove_who_it_is_and_no_token_is_stored() -> None:
    text = (GITHUB / "workflows" / "release.yml").read_text()
    release = yaml.safe_load(text)
    publish = release["jobs"].pop("publish")
    assert publish["environment"] == "pypi"
    assert publish["permissions"]["id-token"] == "write"
    assert release["permissions"] == {"contents": "read"}
    assert not any("permissions" in job for job in release["jobs"].values())
    assert "secrets." not in text
    used = " ".join(step.get("uses", "") for step in publish["steps"])
    assert "attest-build-provenance" in used
    assert "attest-sbom" in used
    assert publish["steps"][-1]["run"] == "make publish"


def test_a_release_is_checked_before_anything_is_built() -> None:
    release = yaml.safe_load((GITHUB / "workflows" / "release.yml").read_text())
    checkout, first, *_ = release["jobs"]["dist"]["steps"]
    assert checkout["uses"].startswith("actions/checkout@")
    assert (first["run"], first["env"]) == ("make releasable", {"TAG": "${{ github.ref_name }}"})
    assert first["if"] == "startsWith(github.ref, 'refs/tags/')"
    assert release["jobs"]["publish"]["if"] == "startsWith(github.ref, 'refs/tags/v')"
    assert all("needs" in job for name, job in release["jobs"].items() if name != "dist")


@pytest.mark.parametrize(
    ("tag", "owner", "is_releasable"),
    [
        ("v1.2.3", "somebody", True),
        ("", "somebody", True),
        ("v1.2.4", "somebody", False),
        ("1.2.3", "somebody", False),
        ("v1.2.3", "OWNER", False),
    ],
)
def test_a_release_has_the_tag_of_its_version_and_an_owner(
    tmp_path: Path, tag: str, owner: str, *, is_releasable: bool
) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "Cargo.toml").write_text('[workspace.package]\nversion = "1.2.3"\n')
    (tmp_path / "docs" / "guide").mkdir(parents=True)
    for name in ("pyproject.toml", "docs/guide/catch-regressions.md"):
        (tmp_path / name).write_text(f"https://example.org/{owner}/spillway\n")
    command = ["make", "releasable", f"TAG={tag}"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == is_releasable, done.stderr


def test_the_metadata_names_each_python_that_the_release_is_rehearsed_on() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = {
        each.rpartition(" ")[2] for each in project["classifiers"] if re.search(r"Python :: 3\.\d+$", each)
    }
    release = yaml.safe_load((GITHUB / "workflows" / "release.yml").read_text())
    (versions,) = [
        step["with"]["python-version"]
        for step in release["jobs"]["dist"]["steps"]
        if "setup-python" in step.get("uses", "")
    ]
    assert named == set(versions.split())
    assert {"Documentation", "Source", "Issues", "Changelog"} <= project["urls"].keys()
    assert project["keywords"]


def test_nothing_is_published_while_the_owner_is_not_named() -> None:
    assert "OWNER" in planned("publish").partition("uv publish")[0]


def test_the_bill_of_materials_has_every_crate_of_the_module_with_its_checksum(tmp_path: Path) -> None:
    boms = [tmp_path / name for name in ("first.json", "second.json")]
    for bom in boms:
        command = [sys.executable, ROOT / "scripts" / "sbom.py", bom]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
    first, second = (bom.read_text() for bom in boms)
    assert first == second
    assert str(ROOT) not in first
    listed = {each["name"]: each for each in json.loads(first)["components"]}
    assert {"spillway-native", "parquet-writer", "arrow-array", "zstd-sys", "object_store"} <= listed.keys()
    assert "proptest" not in listed
    own = {path.parent.name for path in ROOT.glob("rust/*/Cargo.toml")}
    lacking = {name for name, each in listed.items() if "hashes" not in each} - own - {"spillway-native"}
    assert not lacking
    assert all(each["licenses"] for each in listed.values())


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
