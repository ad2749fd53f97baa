"""A program of any language is a backend: its file is checked, its figures taken, its failures told."""

from __future__ import annotations

import json
import shutil
import stat
import subprocess
import sys
import textwrap
import tomllib
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from spillway import backends
from spillway.backends import Settings
from spillway.backends.external import _figures, programs
from spillway.bench.record import SAMPLES, SCHEMA
from spillway.cli.app import app
from spillway.errors import OptionError, SpillwayError
from spillway.harness import records

from .made_runs import ROOT

TEMPLATE = ROOT / "examples" / "external_backend" / "write.py"
IN_RUST = ROOT / "examples" / "external_backend_rust"
TABLE = pa.table({"id": range(1000), "name": [f"user {n % 7}" for n in range(1000)]})
SETTINGS = Settings(codec="zstd", level=1, row_group_rows=400, threads=1)


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Make a backend "mine" of a Python program, the template by default; the TOML file that names it."""

    def make(text=None, **more):
        script = tmp_path / "mine.py"
        script.write_text(TEMPLATE.read_text() if text is None else textwrap.dedent(text))
        manifest = tmp_path / "mine.toml"
        table = {"command": [sys.executable, str(script)], **more}
        manifest.write_text(
            "[mine]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in table.items())
        )
        monkeypatch.setenv(backends.EXTERNAL_VARIABLE, str(manifest))
        return manifest

    return make


def write(path, name="mine", settings=SETTINGS):
    backend = backends.load(name)
    sink = backend.open(path, TABLE.schema, settings)
    for batch in TABLE.to_batches(max_chunksize=300):
        sink.write(batch)
    sink.close()
    return backend


def test_the_template_writes_the_rows_as_it_is_asked_and_says_what_it_took(program, tmp_path):
    program()
    backend = write(tmp_path / "out.parquet")
    assert pq.read_table(tmp_path / "out.parquet").equals(TABLE)
    metadata = pq.read_metadata(tmp_path / "out.parquet")
    assert metadata.num_row_groups == 3
    assert metadata.row_group(0).column(0).compression == "ZSTD"
    figures = backend.own_figures()
    assert 0 < figures["baseline_bytes"] <= figures["peak_bytes"]
    assert figures["seconds"] > 0
    assert backend.version() == pa.__version__


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import sys; sys.stdin.read(1); sys.exit('no such codec')", "status 1: no such codec"),
        ("import sys; sys.stdin.buffer.read(); print('done')", "a JSON line of figures, but printed 'done"),
        ("import sys; sys.stdin.buffer.read(); print('{\"rows\": 1000}')", "lacks version, seconds"),
        ("import os; os._exit(3)", "status 3: it printed nothing"),
    ],
    ids=["refuses", "no JSON", "too few figures", "dies at once"],
)
def test_a_program_that_fails_is_told_in_its_own_words(program, tmp_path, text, words):
    program(text)
    with pytest.raises(SpillwayError, match=words):
        write(tmp_path / "out.parquet")
    assert [path.name for path in tmp_path.iterdir() if path.suffix not in {".py", ".toml"}] == []


def test_a_program_that_lost_rows_is_told(program, tmp_path):
    program(TEMPLATE.read_text().replace('"rows": table.num_rows', '"rows": table.num_rows - 1'))
    with pytest.raises(SpillwayError, match="wrote 999 rows; it was given 1,000"):
        write(tmp_path / "out.parquet")


FIGURES = {
    "rows": 1000,
    "version": "1",
    "seconds": 0.1,
    "user_seconds": 0,
    "system_seconds": 0,
    "baseline_bytes": 1,
    "peak_bytes": 2,
}


@pytest.mark.parametrize(
    ("key", "value", "least"),
    [
        ("seconds", 0, "above 0"),
        ("seconds", True, "above 0"),
        ("user_seconds", "0.1", "of at least 0"),
        ("system_seconds", -0.1, "of at least 0"),
        ("peak_bytes", float("nan"), "of at least 0"),
        ("baseline_bytes", None, "of at least 0"),
    ],
)
def test_figures_that_are_no_such_number_are_told(key, value, least):
    printed = json.dumps({**FIGURES, key: value})
    with pytest.raises(SpillwayError, match=f"mine says '{key}': .*; it must print a number {least}"):
        _figures("mine", printed, 1000)


def test_of_figures_of_its_own_only_numbers_are_kept():
    own = {"go_version": "go1.25", "pool_bytes": 12, "share": float("inf"), "pauses": [1]}
    assert _figures("mine", json.dumps({**FIGURES, **own}), 1000) == {**FIGURES, "pool_bytes": 12}


def test_bytes_that_are_printed_with_a_fraction_are_whole_in_the_record():
    found = _figures("mine", json.dumps({**FIGURES, "baseline_bytes": 1.0, "peak_bytes": 2.4e6}), 1000)
    assert {name: repr(found[name]) for name in ("baseline_bytes", "peak_bytes")} == {
        "baseline_bytes": "1",
        "peak_bytes": "2400000",
    }


@pytest.mark.parametrize("printed", ["[]", "7", '"rows"'])
def test_json_that_is_no_line_of_figures_is_told(printed):
    with pytest.raises(SpillwayError, match="should have printed a JSON line of figures"):
        _figures("mine", printed, 1000)


def test_a_program_takes_no_name_of_another_backend(tmp_path, monkeypatch):
    (tmp_path / "mine.toml").write_text('[polars]\ncommand = ["true"]\n')
    monkeypatch.setenv(backends.EXTERNAL_VARIABLE, str(tmp_path / "mine.toml"))
    with pytest.raises(OptionError, match=r"--external: \[polars\] is the name of another backend"):
        backends.names()


def test_a_program_that_is_killed_ran_out_of_memory(program, tmp_path):
    program("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    with pytest.raises(MemoryError):
        write(tmp_path / "out.parquet")


def test_a_program_that_is_not_built_says_how(program, tmp_path):
    program(command=[str(tmp_path / "absent")], build="make it", toolchain="sh")
    assert backends.missing("mine") == "it is not built: make it"
    program(command=[str(tmp_path / "absent")], build="make it", toolchain="a-compiler")
    assert (
        backends.missing("mine") == "a-compiler is not on the path, which builds it: install it, then make it"
    )


@pytest.mark.parametrize(
    "text",
    [
        "[mine]\n",
        "[mine]\ncommand = 'a'\n",
        "[mine]\ncommand = ['a']\nenvironment = 3\n",
        "mine = 1\n",
        "[mine\n",
    ],
)
def test_a_file_that_names_no_program_says_what_it_needs(tmp_path, monkeypatch, text):
    (tmp_path / "mine.toml").write_text(text)
    monkeypatch.setenv(backends.EXTERNAL_VARIABLE, str(tmp_path / "mine.toml"))
    with pytest.raises(OptionError, match=r"--external .*mine.toml"):
        backends.names()


def test_a_misspelt_key_of_a_program_is_refused_by_name(tmp_path, monkeypatch):
    (tmp_path / "mine.toml").write_text("[mine]\ncommand = ['a']\nenviroment = { THREADS = '1' }\n")
    monkeypatch.setenv(backends.EXTERNAL_VARIABLE, str(tmp_path / "mine.toml"))
    with pytest.raises(
        OptionError, match=r"\[mine\] has unknown keys, enviroment: choose from command, environ"
    ):
        backends.names()


def test_a_program_takes_part_in_a_run(program, disk_folder, monkeypatch):
    manifest = program()
    monkeypatch.delenv(backends.EXTERNAL_VARIABLE)
    monkeypatch.setenv(backends.EXTERNAL_VARIABLE, "")  # which the command sets, and the test takes back
    cells = ["--backend", "mine", "--rows", "2000", "--mode", "table", "--samples", "1", "--probes", "0"]
    shared = ["--no-trace", "--validate", "pyarrow", "--memory", "none", "--out", str(disk_folder / "runs")]
    result = CliRunner().invoke(app, ["bench", "--external", str(manifest), *cells, *shared])
    assert result.exit_code == 0, result.output
    (folder,) = (disk_folder / "runs").iterdir()
    (sample,) = records.read_lines(folder / SAMPLES)
    SCHEMA.check(sample)
    assert sample["memory"]["growth_bytes"] > 0
    assert [each["name"] for each in sample["program"]] == ["pool_bytes"]
    assert "What programs report about themselves" in (folder / "report.md").read_text()


def test_the_go_writers_are_named_with_the_settings_of_the_study(monkeypatch):
    monkeypatch.setenv(backends.EXTERNAL_VARIABLE, str(ROOT / "bench" / "go" / "external.toml"))
    named = programs()
    assert set(named) == {"go-row", "go-arrow-streaming", "go-arrow-buffered", "go-arrow-batches"}
    study = {"GOGC": "50", "GOMAXPROCS": "1", "GOMEMLIMIT": "2276MiB"}
    assert all(each.environment == study for each in named.values())
    assert all(str(ROOT) in each.command[0] for each in named.values())


def test_the_template_may_be_started_as_it_is():
    assert TEMPLATE.stat().st_mode & stat.S_IXUSR


def locked(lock):
    return {(each["name"], each["version"]) for each in tomllib.loads(lock.read_text())["package"]}


def test_the_template_in_rust_has_the_arrow_rs_that_spillway_has(monkeypatch):
    monkeypatch.setenv(backends.EXTERNAL_VARIABLE, str(IN_RUST / "external.toml"))
    ((name, named),) = programs().items()
    assert named.toolchain == "cargo"
    assert named.command == (str(IN_RUST / "target" / "release" / name),)
    wanted = {"arrow-array", "arrow-ipc", "parquet"}
    own = {each for each in locked(IN_RUST / "Cargo.lock") if each[0] in wanted}
    assert own == {each for each in locked(ROOT / "Cargo.lock") if each[0] in wanted}


# It compiles arrow-rs: in continuous integration the template in Python stands for it.
@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_the_template_in_rust_writes_the_rows_as_it_is_asked(tmp_path, monkeypatch):
    ((name, named),) = tomllib.loads((IN_RUST / "external.toml").read_text()).items()
    subprocess.run([*named["build"].split(), "--target-dir", tmp_path / "target"], cwd=ROOT, check=True)
    shutil.copy(IN_RUST / "external.toml", tmp_path)
    monkeypatch.setenv(backends.EXTERNAL_VARIABLE, str(tmp_path / "external.toml"))
    for codec, level, written in [("zstd", 3, "ZSTD"), ("lz4", None, "LZ4"), ("gzip", None, "GZIP")]:
        path = tmp_path / f"{codec}.parquet"
        backend = write(path, name, replace(SETTINGS, codec=codec, level=level))
        assert pq.read_table(path).equals(TABLE)
        metadata = pq.read_metadata(path)
        assert (metadata.num_row_groups, metadata.row_group(0).column(0).compression) == (3, written)
        figures = backend.own_figures()
        assert 0 < figures["baseline_bytes"] <= figures["peak_bytes"]
        assert figures["seconds"] > 0
        assert ("parquet", backend.version()) in locked(IN_RUST / "Cargo.lock")
    with pytest.raises(SpillwayError, match=r"status 1: .*no such codec"):
        write(tmp_path / "out.parquet", name, replace(SETTINGS, codec="lzo"))
