"""What is promised of each Spark, on each: one program with each PySpark writes by every way that it has."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import deltalake
import pytest

from ...counts import SOAK
from .program import ROWS, reads_delta

if TYPE_CHECKING:
    from pathlib import Path

# Another PySpark takes a minute to install: a soak has all, and the Makefile makes their environments.
VERSIONS = ["3.5", "4.0", "4.1", "4.2", "4.3"] if SOAK else ["3.5"]
IDS = list(range(ROWS))

pytestmark = pytest.mark.spark


class Ran(NamedTuple):
    """What the program did with one PySpark."""

    minor: tuple[int, ...]
    answers: dict[str, Any]
    folder: Path


@pytest.fixture(scope="module", params=VERSIONS)
def ran(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    version, root = str(request.param), request.config.rootpath
    site = root / ".build" / f"spark-{version}"
    assert (site / "pyspark").is_dir(), f"PySpark {version} is not installed: make {site.relative_to(root)}"
    folder = tmp_path_factory.mktemp(f"spark-{version}")
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.versions.program", folder],
        cwd=root,
        env=os.environ | {"PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    answers = json.loads((folder / "answers.json").read_text())
    assert answers["version"].startswith(f"{version}.")
    return Ran(tuple(map(int, version.split("."))), answers, folder)


def delta_rows(table: Path) -> list[int]:
    """The ids that delta-rs finds in a table."""
    ids: list[int] = deltalake.DeltaTable(table).to_pyarrow_table(columns=["id"])["id"].to_pylist()
    return sorted(ids)


def test_rows_that_executors_make_are_read_by_spark(ran: Ran) -> None:
    assert ran.answers["generated"] == [ROWS, IDS]


def test_rows_that_executors_make_become_one_version_of_a_table(ran: Ran) -> None:
    assert ran.answers["generated_delta"] == [0, IDS if reads_delta(ran.minor) else None]
    assert delta_rows(ran.folder / "generated_delta") == IDS


def test_a_frame_is_written_once_by_a_run_that_is_run_again(ran: Ran) -> None:
    assert ran.answers["by_write"] == [ROWS, 0, IDS]


def test_a_frame_replaces_a_partition_of_a_table(ran: Ran) -> None:
    assert ran.answers["by_write_delta"] == [1, IDS if reads_delta(ran.minor) else None]
    assert delta_rows(ran.folder / "by_write_delta") == IDS


@pytest.mark.parametrize("way", ["by_format", "registered"])
def test_the_format_writes_from_4_0_on(ran: Ran, way: str) -> None:
    if ran.minor < (4, 0):
        assert "error" in ran.answers[way]
    else:
        assert ran.answers[way] == IDS


def test_the_format_writes_delta_tables_from_4_0_on(ran: Ran) -> None:
    if ran.minor < (4, 0):
        assert "error" in ran.answers["by_format_delta"]
        return
    assert ran.answers["by_format_delta"] == (IDS if reads_delta(ran.minor) else None)
    assert delta_rows(ran.folder / "by_format_delta") == IDS


def test_the_format_takes_streams_from_4_1_on(ran: Ran) -> None:
    if ran.minor < (4, 1):
        assert "error" in ran.answers["stream"]
    else:
        assert ran.answers["stream"] == IDS


if SOAK:

    def test_a_pipeline_publishes_frames_and_streams(ran: Ran) -> None:
        assert ran.answers["by_pipeline"] == [0, 1, ROWS]
        assert delta_rows(ran.folder / "by_pipeline" / "to") == IDS


def test_what_a_spark_lacks_is_said_with_the_oldest_that_has_it(ran: Ran) -> None:
    if ran.minor < (4, 0):
        assert "4.0 is the oldest" in ran.answers["registered"]["error"]
    elif ran.minor < (4, 1):
        assert "4.1 is the oldest" in ran.answers["stream"]["error"]


def test_instants_come_from_spark_in_utc(ran: Ran) -> None:
    assert ran.answers["times"] == "timestamp[us, tz=UTC]"
