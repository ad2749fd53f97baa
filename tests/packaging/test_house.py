"""Rules of the repository that no linter checks."""

from __future__ import annotations

import ast
import doctest
import importlib
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from typer.testing import CliRunner

from spillway.cli.app import app

from .conftest import ROOT, TOOLS

CANONICAL = "registry+https://github.com/rust-lang/crates.io-index"


def output(*command: str | Path, **environment: str) -> str:
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        timeout=120,
        env=os.environ | environment,
    ).stdout


def tracked() -> list[Path]:
    return [ROOT / name for name in output("git", "ls-files", "-z").split("\0") if name]


def test_locks_name_no_registry() -> None:
    for lock in (ROOT / "requirements").glob("*.txt"):
        text = lock.read_text()
        assert "://" not in text, lock.name
        assert "index-url" not in text, lock.name
        assert "--hash=sha256:" in text, lock.name
    sources = set(re.findall(r'^source = "(.*)"$', (ROOT / "Cargo.lock").read_text(), flags=re.MULTILINE))
    assert sources == {CANONICAL}


def test_every_locked_package_has_its_hashes() -> None:
    for lock in (ROOT / "requirements").glob("*.txt"):
        entries = re.split(r"^(?=[a-z0-9._-]+==)", lock.read_text(), flags=re.MULTILINE)[1:]
        assert entries
        assert all("--hash=sha256:" in entry for entry in entries)


def prerequisites(folder: Path, *programs: str) -> subprocess.CompletedProcess[str]:
    """Runs the script where nothing but `programs` and the shell's own tools are found."""
    folder.mkdir()
    for program in ("bash", "env", "sed", "head", *programs):
        found = shutil.which(program)
        assert found is not None, program
        (folder / program).symlink_to(found)
    environment = {"PATH": str(folder), "PYTHON": sys.executable, "HOME": os.environ.get("HOME", "/")}
    environment |= {name: os.environ[name] for name in ("RUSTUP_HOME", "CARGO_HOME") if name in os.environ}
    return subprocess.run(
        [folder / "bash", ROOT / "requirements" / "prerequisites.sh"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=environment,
    )


@pytest.mark.parametrize(
    ("lacking", "named"),
    [("java", "Java 17"), ("cargo", "Rust"), ("cc", "C compiler")],
    ids=["java", "cargo", "cc"],
)
def test_what_a_machine_lacks_is_named(tmp_path: Path, lacking: str, named: str) -> None:
    done = prerequisites(tmp_path / "bin", *({"java", "cargo", "cc"} - {lacking}))
    assert done.returncode == 1
    lines = [line for line in done.stderr.splitlines() if line.startswith("  - ")]
    assert len(lines) == 1
    assert named in lines[0]


def test_all_that_a_machine_lacks_is_named_at_once(tmp_path: Path) -> None:
    done = prerequisites(tmp_path / "bin")
    assert done.returncode == 1
    assert all(named in done.stderr for named in ("Java 17", "Rust", "C compiler"))


def test_a_machine_that_lacks_nothing_passes(tmp_path: Path) -> None:
    done = prerequisites(tmp_path / "bin", "java", "cargo", "cc")
    assert (done.returncode, done.stderr) == (0, "")


def test_make_help_lists_every_target() -> None:
    text = output("make", "--no-print-directory", "help")
    (phony,) = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    parts = {"setup", "setup-tests", "compile-tests", "check-compiled", "test-rust", "test-python"}
    public = set(phony.split()) - parts
    listed = set(re.findall(r"make ([\w-]+)", text))
    assert {"bench", "test", "soak", "check", "wheel", "help"} <= listed
    assert public <= listed | {"clean"}


def test_no_tracked_file_names_a_place_on_this_machine() -> None:
    private = [str(ROOT), f"{Path.home()}/"]
    found = []
    for path in tracked():
        if not path.is_file() or path.is_symlink():
            continue
        data = path.read_bytes()
        found += [(path.name, text) for text in private if text.encode() in data]
    assert not found


MOST_CHARACTERS = 120


TYPE = re.compile(r"^(?:pub(?:\([^)]*\))? )?(?:struct|enum|trait|type|union) (\w+)", re.MULTILINE)


def test_no_name_of_a_type_has_two_meanings_in_the_crates() -> None:
    meanings = defaultdict(list)
    for path in tracked():
        parts = path.relative_to(ROOT).parts
        if path.suffix != ".rs" or parts[0] != "rust" or parts[2] != "src" or not path.is_file():
            continue
        if {"tests", "tests.rs"} & set(parts):
            continue
        code = re.split(r"^#\[cfg\(test\)\]\nmod \w+ \{", path.read_text(), maxsplit=1, flags=re.MULTILINE)[0]
        for name in TYPE.findall(code):
            meanings[name].append("/".join(parts))
    # By custom each crate has a result of its own errors.
    del meanings["Result"]
    assert len(meanings) > 700
    assert not {name: places for name, places in meanings.items() if len(places) > 1}


def test_no_comment_in_rust_is_longer_than_a_line_may_be() -> None:
    found, long = 0, []
    for path in tracked():
        if path.suffix != ".rs" or not path.is_file():
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if line.lstrip().startswith("//"):
                found += 1
                if len(line) > MOST_CHARACTERS:
                    long.append(f"{path.relative_to(ROOT)}:{number} has {len(line)} characters")
    assert found > 1000
    assert not long, "\n".join(long)


@pytest.mark.parametrize("name", ["README.md", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE"])
def test_what_a_visitor_looks_for_is_there(name: str) -> None:
    assert len((ROOT / name).read_text().splitlines()) > 5


def test_the_bibtex_of_the_faq_is_that_of_the_citation_file() -> None:
    cited = (ROOT / "CITATION.cff").read_text()
    entry = (ROOT / "docs" / "help" / "faq.md").read_text().partition("@software")[2]
    for field, name in (
        ("title", "title"),
        ("version", "version"),
        ("license", "license"),
        ("name", "author"),
    ):
        value = re.findall(rf'^[ -]*{field}: "?([^"\n]+)', cited, flags=re.MULTILINE)[0]
        assert re.search(rf"{name} += {{+{re.escape(value)}}}", entry), field


def test_the_readme_has_the_two_commands() -> None:
    text = (ROOT / "README.md").read_text()
    assert "make bench" in text
    assert "make test" in text


def test_the_readme_is_short_and_shows_code_at_once() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) < 150
    assert any(line.startswith("```") for line in lines[:25])


def test_relative_links_of_the_documents_lead_somewhere() -> None:
    documents = [path for path in tracked() if path.suffix == ".md"]
    assert documents
    broken = [
        (path.name, link)
        for path in documents
        for link in re.findall(r"\]\(([^)#\s]+)", path.read_text())
        if "://" not in link and not link.startswith("mailto:") and not (path.parent / link).exists()
    ]
    assert not broken


def test_every_command_has_help() -> None:
    overview = output(TOOLS / "spillway", "--help", COLUMNS="100")
    commands = re.findall(r"^\W*│ (\w[\w-]*) ", overview, flags=re.MULTILINE)
    assert set(commands) >= {"bench", "doctor", "inspect", "race", "validate"}
    for command in commands:
        text = CliRunner().invoke(app, [command, "--help"]).stdout
        assert "Usage" in text
        assert len(text) > 300, f"{command}: help that teaches"


def test_help_does_not_wait_for_heavy_imports() -> None:
    code = "import sys; from spillway.cli.app import app; print(sorted(sys.modules))"
    modules = output(sys.executable, "-c", code)
    heavy = {"pyarrow", "polars", "duckdb", "pyspark", "matplotlib", "numpy", "pandas", "scipy"}
    assert not heavy & set(re.findall(r"'(\w+)'", modules))


def test_a_report_does_not_wait_for_what_makes_rows() -> None:
    code = "import sys, spillway.bench.report, spillway.bench.report; print(sorted(sys.modules))"
    modules = set(re.findall(r"'([\w.]+)'", output(sys.executable, "-c", code)))
    assert "spillway.bench.tables" in modules
    assert not {"spillway.datasets", "pandas", "scipy.stats"} & modules


def test_datasets_do_not_wait_for_pandas() -> None:
    code = "import sys, spillway.datasets; print('pandas' in sys.modules)"
    assert output(sys.executable, "-c", code).strip() == "False"


def test_rows_are_written_from_a_shell_without_pandas(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("id\n1\n")
    code = "import sys; from spillway.cli.app import app; app(sys.argv[1:], standalone_mode=False); "
    command = ("write", str(tmp_path / "rows.csv"), str(tmp_path / "rows.parquet"))
    assert output(sys.executable, "-c", f"{code}print('pandas' in sys.modules)", *command).endswith("False\n")


def test_the_readme_shows_the_reference_run() -> None:
    done = subprocess.run(
        [sys.executable, "scripts/render.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "name", ["writer", "aio", "dataset_writer", "inspection", "delta.table", "delta.append"]
)
def test_examples_in_docstrings_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(f"spillway.{name}")
    flags = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
    failed, tried = doctest.testmod(module, optionflags=flags)
    assert failed == 0
    assert tried > 0, "no example was run"


def test_no_dataclass_shows_the_options_of_a_store() -> None:
    """They hold credentials, and what a dataclass shows comes into logs and tracebacks."""
    hidden, shown = 0, []
    for path in (ROOT / "python").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ClassDef) or "dataclass" not in map(called, node.decorator_list):
                continue
            for field in node.body:
                if isinstance(field, ast.AnnAssign) and ast.unparse(field.target) == "storage_options":
                    is_hidden = field.value is not None and "repr=False" in ast.unparse(field.value)
                    hidden += is_hidden
                    shown += [] if is_hidden else [f"{path.name}: {node.name}"]
    assert shown == []
    assert hidden > 0


def called(decorator: ast.expr) -> str:
    """The name of a decorator, with or without arguments."""
    return ast.unparse(decorator.func if isinstance(decorator, ast.Call) else decorator)
