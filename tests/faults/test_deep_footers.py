"""A footer or a schema that nests columns too deep is an error, and does not end the process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import spillway
from spillway.errors import CorruptFileError, SchemaError
from spillway.inspection import inspect_file

from .deep_footers import GROUP, LEAF, OPENERS, ROOT, TAKERS, nested, parquet

MOST = 100
ROOT_OF_TESTS = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("opener", "depth"), [*((opener, 100_000) for opener in OPENERS), *((taker, 20_000) for taker in TAKERS)]
)
def test_a_deep_footer_or_schema_is_refused(tmp_path: Path, opener: str, depth: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.deep_footers", opener, str(depth), str(tmp_path)],
        cwd=ROOT_OF_TESTS,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert f"{depth} levels" in done.stdout
    assert str(MOST) in done.stdout
    assert len(done.stdout) < 2000


def test_columns_in_a_hundred_groups_are_reported_and_no_deeper_ones(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(nested(MOST))
    assert inspect_file(path).rows == 0
    path.write_bytes(nested(MOST + 1))
    with pytest.raises(CorruptFileError, match=f"{MOST + 1} levels"):
        inspect_file(path)


@pytest.mark.parametrize(
    "nodes",
    [
        # A group that says it has two thousand million children, for which decoders make room.
        [ROOT, GROUP[:-2] + b"\xfe\xff\xff\xff\x0f\x00", LEAF],
        [ROOT, GROUP],
        [ROOT, LEAF, *[GROUP] * 100_000, LEAF],
        # The number of children as a text, which a decoder reads as a number.
        [ROOT, b"\x35\x02\x18\x01g\x18\x02\x00", *[GROUP] * 100_000, LEAF],
    ],
    ids=["children", "no leaf", "two roots", "another type"],
)
def test_a_schema_that_is_no_tree_is_refused(tmp_path: Path, nodes: list[bytes]) -> None:
    (tmp_path / "a.parquet").write_bytes(parquet(nodes))
    script = (
        "import sys; from spillway.inspection import inspect_file\n"
        "from spillway.errors import CorruptFileError\n"
        "try: inspect_file(sys.argv[1])\n"
        "except CorruptFileError: print('refused')"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "a.parquet")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "refused"), done.stderr[-2000:]


def test_paths_that_take_more_memory_than_any_file_needs_are_refused(tmp_path: Path) -> None:
    name = b"n" * 8_000
    group = b"\x35\x02\x18" + bytes([len(name) & 127 | 128, len(name) >> 7]) + name + b"\x15\x02\x00"
    last = group[:-2] + b"\xa0\x06\x00"  # 400 children
    body = parquet([ROOT, *[group] * (MOST - 1), last, *[LEAF] * 400])
    (tmp_path / "a.parquet").write_bytes(body)
    with pytest.raises(CorruptFileError, match="paths of its columns"):
        inspect_file(tmp_path / "a.parquet")


def test_a_long_schema_is_cut_in_reports(tmp_path: Path) -> None:
    body = parquet([ROOT[:-2] + b"\x80\xb5\x18\x00", *[LEAF] * 200_000])
    (tmp_path / "a.parquet").write_bytes(body)
    text = inspect_file(tmp_path / "a.parquet").schema
    assert len(text) < (1 << 20) + 100
    assert text.endswith("bytes more)")


def nested_array(levels: int) -> pa.Array:
    array = pa.array([1])
    for level in range(levels):
        if level % 2:
            array = pa.StructArray.from_arrays([array], ["x"])
        else:
            array = pa.ListArray.from_arrays([0, 1], array)
    return array


def test_columns_nested_too_deep_are_not_written(tmp_path: Path) -> None:
    spillway.write_parquet(pa.table({"deep": nested_array(20)}), tmp_path / "a.parquet")
    assert inspect_file(tmp_path / "a.parquet").rows == 1
    assert pq.ParquetFile(tmp_path / "a.parquet").metadata.num_rows == 1
    for levels in (MOST + 1, 300):
        with pytest.raises(SchemaError, match=f"{levels} levels") as raised:
            spillway.write_parquet(pa.table({"deep": nested_array(levels)}), tmp_path / "b.parquet")
        assert raised.value.column == "deep"
    assert not (tmp_path / "b.parquet").exists()
