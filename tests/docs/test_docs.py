"""The documents: every block of code runs, and the site is built whole and without a warning."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.main import get_command

import spillway
import spillway.delta
from spillway.cli.app import app
from spillway.harness import records

from ..counts import SOAK
from .pages import ROOT, blocks_of, check, pages

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..stores.server import Server

# A page is many programs in turn: a busy machine takes minutes for it.
pytestmark = pytest.mark.timeout(900)
RUNNER = Path(__file__).with_name("pages.py")
# Those of Spark are run by tests/spark and tests/pipeline, where a JVM may start.
EXAMPLES = sorted(path for path in (ROOT / "examples").glob("*.py") if not path.stem.startswith("spark_"))
# A soak downloads the libraries of the last two: 150 and 50 MB.
PLUGINS = ("backend_plugin", *(("backend_chdb", "backend_daft") if SOAK else ()))
# Blocks below "not run: REASON". One more is a decision.
NOT_RUN = 24
# A JVM may start in some tests alone, which run those that say so, as one does with what a soak installs; the
# last two compare runs of their own.
ELSEWHERE = (
    "tests/spark/test_guide.py",
    "tests/writer/test_field_ids.py",
    "tests/spark/test_bench.py",
    "tests/spark/test_uploads.py",
    "tests/spark/test_pack_elsewhere.py",
    "tests/delta/test_spark_changes.py",
    "tests/bench/test_pytest_plugin.py",
    "tests/bench/test_pythons.py",
    "tests/bench/test_export.py",
    "tests/docs/test_catch_regressions.py",
)


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.fixture(scope="session")
def store(server: Server) -> dict[str, str]:
    """The environment in which ``s3://bucket`` is a bucket of a server of the tests."""
    bucket = server.bucket("bucket")
    return {name.upper(): value for name, value in bucket.options().items()}


def run(folder: Path, *command: str | Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        command,
        cwd=folder,
        env=os.environ | environment | {"PATH": tools, "SPILLWAY_CACHE": str(folder / "cache")},
        capture_output=True,
        text=True,
        check=False,
        timeout=850,
    )


def runs(page: Path) -> bool:
    return any(block.language in {"python", "console"} and block.reason is None for block in blocks_of(page))


@pytest.mark.parametrize("page", [page for page in pages() if runs(page)], ids=name_of)
def test_a_page_runs_from_top_to_bottom(page: Path, tmp_path: Path, store: dict[str, str]) -> None:
    done = run(tmp_path, sys.executable, "-W", "error", RUNNER, page, environment=store)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs(example: Path, tmp_path: Path, store: dict[str, str]) -> None:
    done = run(tmp_path, sys.executable, "-W", "error", example, environment=store)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert done.stdout


@pytest.mark.parametrize("folder", PLUGINS)
def test_the_example_of_a_backend_is_measured(tmp_path: Path, folder: str) -> None:
    plugin = ROOT / "examples" / folder
    project = tomllib.loads((plugin / "pyproject.toml").read_text())["project"]
    (backend, target), *_ = project["entry-points"]["spillway.backends"].items()
    mode = "batches" if folder == "backend_plugin" else "table"
    info = tmp_path / f"{target.partition(':')[0]}-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text(f"[spillway.backends]\n{backend} = {target}\n")
    libraries = tmp_path / "libraries"
    if mode == "table":
        install(libraries, backend)
    path = os.pathsep.join([str(plugin), str(tmp_path), str(libraries), os.environ.get("PYTHONPATH", "")])
    bench = f"spillway bench --backend {backend} --mode {mode} --rows 1000 --samples 1"
    options = "--memory none --no-trace --validate pyarrow"
    done = run(tmp_path, *bench.split(), *options.split(), environment={"PYTHONPATH": path})
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    (samples,) = tmp_path.glob("runs/*/samples.jsonl")
    sample = json.loads(samples.read_text())
    assert sample["cell"]["backend"] == backend
    (checked,) = tmp_path.glob("runs/*/validation.jsonl")
    assert json.loads(checked.read_text())["outcome"] == "ok"


def install(folder: Path, backend: str) -> None:
    """Install an example's library without pyarrow, of which the bench has one."""
    packages = {"chdb": ("chdb", "chdb-core"), "daft": ("daft", "tqdm")}[backend]
    command = (sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-deps", "--target", str(folder))
    subprocess.run([*command, *packages], check=True)


def test_every_block_runs_or_says_why_not() -> None:
    blocks = [(name_of(page), block) for page in pages() for block in blocks_of(page)]
    for page, block in blocks:
        check(ROOT / page, block)
    told = [(page, block.line, block.reason) for page, block in blocks if block.reason is not None]
    idle = [one for one in told if not any(file in one[2] for file in ELSEWHERE)]
    assert len(idle) == NOT_RUN, idle
    runnable = [block for _, block in blocks if block.language in {"python", "console"} and not block.reason]
    assert len(runnable) > 3 * NOT_RUN


MOST_WORDS = 2_500
SITE = [page for page in pages() if "upstream" not in page.parts]


@pytest.mark.parametrize("page", SITE, ids=name_of)
def test_a_page_is_short_enough_to_be_read(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    prose = re.sub(r"<!-- results: \w+ -->.*?<!-- end -->", "", text, flags=re.DOTALL)
    assert len([word for word in prose.split() if re.search(r"\w", word)]) <= MOST_WORDS


def sources() -> str:
    """All code that raises errors, its strings in one piece each."""
    python = "".join(path.read_text() for path in sorted((ROOT / "python").rglob("*.py")))
    rust = "".join(path.read_text() for path in sorted(ROOT.glob("rust/*/src/**/*.rs")))
    return re.sub(r'"\s*\n\s*f?"', "", python) + re.sub(r"\\\n\s*", "", rust)


def test_the_messages_of_the_troubleshooting_page_are_those_of_the_code() -> None:
    page = (ROOT / "docs" / "help" / "troubleshooting.md").read_text()
    cells = re.findall(r"^\| (`[^|]*) \|", page, flags=re.MULTILINE)
    messages = [text for cell in cells if "(Spark's)" not in cell for text in re.findall(r"`([^`]+)`", cell)]
    parts = [part.strip(" ',[]=;:") for text in messages for part in text.split("\N{HORIZONTAL ELLIPSIS}")]
    wanted = {part for part in parts if len(part.split()) > 1}
    known = sources()
    assert len(wanted) > 20
    assert not {part for part in wanted if part not in known}


def test_a_block_that_fails_fails_its_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    for block in ("```python\n1 / 0\n```", "```console\n$ false\n```", "```json\n{\n```"):
        page.write_text(f"# Page\n\n{block}\n")
        assert run(tmp_path, sys.executable, RUNNER, page, environment={}).returncode != 0
        page.write_text(f"# Page\n\n<!-- not run: it fails -->\n{block}\n")
        assert run(tmp_path, sys.executable, RUNNER, page, environment={}).returncode == 0


@pytest.mark.parametrize(
    "block",
    [
        "```bash\nls\n```",
        "```console\nls\n```",
        "```\nls\n```",
        "    indented code",
        "<!-- not run: of no block -->\n\ntext\n\n```python\n1\n```",
        "```python\n\n```",
    ],
)
def test_a_block_that_would_be_passed_over_is_an_error(tmp_path: Path, block: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Page\n\ntext\n\n{block}\n")
    done = run(tmp_path, sys.executable, RUNNER, page, environment={})
    assert done.returncode != 0
    assert f"{page}, line 5" in done.stderr


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    tool = Path(sys.executable).with_name("mkdocs")
    done = run(
        ROOT,
        tool,
        "build",
        "--quiet",
        "--strict",
        "--site-dir",
        folder,
        environment={"NO_MKDOCS_2_WARNING": "1"},
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_the_site_asks_nothing_of_the_network(site: Path) -> None:
    loaded = [
        (page.name, address)
        for page in site.rglob("*.html")
        for address in re.findall(
            r'<(?:script|img|iframe)[^>]* src="([^"]+)"|<link[^>]* href="([^"]+)"', page.read_text()
        )
        if any("//" in part for part in address)
    ]
    assert not loaded
    styles = [path.name for path in site.rglob("*.css") if re.search(r"url\([\"']?https?:", path.read_text())]
    assert not styles


def test_the_api_page_has_every_public_name(site: Path) -> None:
    page = (site / "reference" / "api.html").read_text()
    anchors = set(re.findall(r'id="([\w.]+)"', page))
    own = {f"spillway.{name}" for name in spillway.__all__ if isinstance(getattr(spillway, name), type)}
    errors = {name for name in own if issubclass(getattr(spillway, name.split(".")[1]), Exception)}
    delta = {f"spillway.delta.{name}" for name in spillway.delta.__all__} - {"spillway.delta.Condition"}
    wanted = (own - errors) | {name.replace("spillway.", "spillway.errors.") for name in errors} | delta
    absent = wanted - anchors
    assert not absent


@pytest.mark.parametrize(
    "owner", ["ParquetWriter", "write_parquet", "DatasetWriter", "write_dataset", "WriterOptions"]
)
def test_the_api_page_shows_every_option_with_its_default(site: Path, owner: str) -> None:
    page = (site / "reference" / "api.html").read_text()
    (section,) = re.findall(rf'id="spillway\.{owner}".*?</table>', page, flags=re.DOTALL)
    text = re.sub(r"<[^>]+>", "", section)
    options = spillway.WriterOptions()
    for name in spillway.WriterOptions.__dataclass_fields__:
        assert re.search(rf"{name}:[^=]*= ", text), name
    assert f"row_group_rows: int = {options.row_group_rows}" in text


def fields_of(value: Any, path: str = "") -> Iterator[str]:
    """Dotted paths of the fields that hold values."""
    for name, held in value.items():
        if isinstance(held, dict):
            yield from fields_of(held, f"{path}{name}.")
        else:
            yield f"{path}{name}"


def newest(name: str) -> Path:
    """The newest file of this name that belongs to the reference run."""
    return max((ROOT / "results" / "reference").glob(f"*/{name}"))


def test_the_record_of_a_sample_is_described_field_by_field() -> None:
    page = (ROOT / "docs" / "reference" / "sample-record.md").read_text()
    described = set(re.findall(r"`([\w.]+)`", page))
    samples = records.read_lines(newest("samples.jsonl.gz").with_suffix(""))
    found = {field for sample in samples for field in fields_of(sample)}
    assert len(found) > 50
    # A record that is described as a whole has its fields by their last names.
    parts = {field: field.split(".") for field in found}
    unknown = {field for field, path in parts.items() if not {field, path[-1]} & described}
    assert not unknown
    tops = {path[0] for path in parts.values()}
    assert not tops - {field.split(".")[0] for field in described}


def headings_of(report: Path) -> set[str]:
    lines = report.read_text().splitlines()
    heads = [line for line, below in itertools.pairwise(lines) if below.startswith("| ---")]
    return {cell.strip() for line in heads for cell in line.strip("|").split("|")}


def test_every_column_of_a_report_is_explained() -> None:
    explained, of_races = (
        set(re.findall(r"(?<!`)`([^`\n]+)`", (ROOT / "docs" / "guide" / page).read_text()))
        for page in ("reading-a-report.md", "races.md")
    )
    bench = {head for head in headings_of(newest("report.md")) if not head.replace(",", "").isdigit()}
    assert len(bench) > 10
    assert not bench - explained
    race = (ROOT / "results" / "race").rglob("report.md")
    columns = {head for report in race for head in headings_of(report) if head.startswith(("wait", "most"))}
    assert columns
    assert not columns - of_races


def test_the_command_line_page_has_every_command_and_option(site: Path) -> None:
    page = (site / "reference" / "cli.html").read_text()
    sections = dict(re.findall(r'<h2 id="spillway-([\w-]+)">(.*?)(?=<h2 |</article>)', page, flags=re.DOTALL))
    group: Any = get_command(app)
    assert set(sections) == set(group.commands)
    assert len(sections) >= 5
    for name, command in group.commands.items():
        shown = set(re.findall(r"<code>([^<]+)</code>", sections[name]))
        wanted = {
            each
            for parameter in command.params
            for each in (
                [*parameter.opts, *parameter.secondary_opts]
                if parameter.param_type_name == "option"
                else [parameter.name.upper()]
            )
        }
        assert wanted
        assert not wanted - shown, name
