"""Spark's writers keep to the settings of a cell, and write what they are given. One JVM does all of it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spillway import backends, datasets
from spillway.errors import OptionError

from ..counts import SOAK

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
ROWS = 1_000
CODECS = {"lz4": None, **({"snappy": None, "uncompressed": None} if SOAK else {})}
# A session of its own: that of the other tests is bound to their process.
PROGRAM = """
import json, sys
from pathlib import Path
import pyarrow as pa
from spillway import backends, datasets
from spillway.backends import Settings

folder, name, rows = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
backend = backends.load(name)
batches = list(datasets.batches("logs", 1, rows))
for file, (mode, settings) in json.loads(sys.argv[4]).items():
    sink = backend.open(folder / file, batches[0].schema, Settings(threads=1, **settings))
    for data in [pa.Table.from_batches(batches)] if mode == "table" else batches:
        sink.write(data)
    sink.close()
print(json.dumps({"version": backend.version(), "threads": backend.threads_in_force()}))
"""


def cell(mode: str = "batches", **changes: Any) -> tuple[str, dict[str, Any]]:
    return mode, {"codec": "zstd", "level": 1, "row_group_rows": 1 << 20, **changes}


CELLS = {
    **{codec: cell(codec=codec, level=level) for codec, level in CODECS.items()},
    "zstd": cell(),
    "zstd-9": cell("table", level=9),
    "gzip-1": cell(codec="gzip", level=1, row_group_rows=500),
    "gzip-9": cell(codec="gzip", level=9, row_group_rows=500),
}


@pytest.fixture(scope="module", params=["spark-parquet", *(["spark-delta"] if SOAK else [])])
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A folder with a file for each cell, and what the backend says of itself."""
    folder = tmp_path_factory.mktemp("written")
    command = [sys.executable, "-c", PROGRAM, folder, request.param, str(ROWS), json.dumps(CELLS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr
    return folder, json.loads(done.stdout)


def test_what_is_written_is_what_is_read(written: tuple[Path, Any]) -> None:
    made = pa.Table.from_batches(datasets.batches("logs", 1, ROWS))
    for name in CELLS:
        read = pq.read_table(written[0] / name)
        assert read.cast(made.schema).equals(made)


def test_the_codec_is_the_cells(written: tuple[Path, Any]) -> None:
    for name in CELLS:
        group = pq.read_metadata(written[0] / name).row_group(0)
        used = {group.column(index).compression for index in range(group.num_columns)}
        assert used == {name.partition("-")[0].upper()}


def test_a_level_changes_the_file(written: tuple[Path, Any]) -> None:
    sizes = {name: (written[0] / name).stat().st_size for name in CELLS}
    assert sizes["zstd-9"] < sizes["zstd"]
    assert sizes["gzip-9"] < sizes["gzip-1"]


def test_row_groups_keep_to_the_cells_size(written: tuple[Path, Any]) -> None:
    metadata = pq.read_metadata(written[0] / "gzip-9")
    sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    assert sizes == [500] * (ROWS // 500)
    assert pq.read_metadata(written[0] / "zstd").num_row_groups == 1


def test_version_and_threads_are_those_of_spark(written: tuple[Path, Any]) -> None:
    assert "4.2" in written[1]["version"]
    assert written[1]["threads"]["spark-tasks"] == 1


def test_a_codec_that_spark_has_not_is_refused_before_it_starts(tmp_path: Path) -> None:
    settings = backends.Settings(codec="brotli", level=1, row_group_rows=1, threads=1)
    with pytest.raises(OptionError, match="leave it out of --codec"):
        backends.load("spark-parquet").open(tmp_path / "file", pa.schema([]), settings)


def test_they_are_measured_where_they_are_named_alone() -> None:
    assert {"spark-parquet", "spark-delta"} <= set(backends.names())
    assert not {"spark-parquet", "spark-delta"} & set(backends.with_modes(["batches", "table"]))


def test_without_java_they_are_absent_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    assert "install one, and put it on PATH" in str(backends.missing("spark-parquet"))


def test_without_pyspark_they_are_absent_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    assert backends.missing("spark-delta") == "pyspark is not installed: pip install 'spillway[spark]'"
