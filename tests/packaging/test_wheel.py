"""The wheel alone in an empty environment, and with nothing but polars beside it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZipFile

import pytest

if TYPE_CHECKING:
    from .conftest import Environment

# The first test waits for the build.
pytestmark = pytest.mark.timeout(900)


def test_the_wheel_imports_with_no_other_package(bare: Environment) -> None:
    installed = bare.evaluate(
        "from importlib.metadata import distributions; print([d.name for d in distributions()])"
    )
    assert installed == "['spillway']"
    version = bare.evaluate("import spillway; print(spillway.__version__)")
    assert version == bare.evaluate("from importlib.metadata import version; print(version('spillway'))")
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*", version)


def test_what_is_not_arrow_is_told_what_can_be_written(bare: Environment) -> None:
    answer = bare.evaluate("""
import os, spillway
for thing in (None, b"rows", "text", 5):
    try:
        spillway.write_parquet(thing, "a.parquet")
    except spillway.NotArrowError as error:
        print(error)
assert "a.parquet" not in os.listdir()
""")
    lines = answer.splitlines()
    assert len(lines) == 4
    for line in lines:
        assert "__arrow_c_stream__" in line
        assert "polars" in line
        assert "pyarrow" in line


def test_rows_are_written_without_pyarrow_and_columns_name_it(bare: Environment) -> None:
    answer = bare.evaluate("""
import spillway
print(spillway.write_parquet([{"a": 1}], "rows.parquet").rows)
try:
    spillway.write_parquet({"a": [1]}, "columns.parquet")
except spillway.MissingExtraError as error:
    print(error)
""")
    assert answer.splitlines() == [
        "1",
        "pyarrow is needed to write a dict of columns: pip install 'spillway[bench]'",
    ]


def test_base_modules_import_and_others_name_what_they_lack(bare: Environment, wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        modules = sorted(
            name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            for name in archive.namelist()
            if name.startswith("spillway/") and name.endswith(".py")
        )
    answer = bare.evaluate(f"""
import importlib
for name in {modules}:
    try:
        importlib.import_module(name)
        print("imports", name)
    except ImportError as error:
        assert not (error.name or "").startswith("spillway"), (name, error)
        print("lacks", name, error)
""")
    imports = {line.split()[1] for line in answer.splitlines() if line.startswith("imports")}
    assert {"spillway", "spillway.writer", "spillway.errors", "spillway.cli"} <= imports
    assert "lacks" in answer, "the command line's modules need typer"


def test_the_command_without_its_extra_says_which_in_one_line(bare: Environment) -> None:
    done = bare.run("spillway", "--help")
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert "pip install 'spillway[bench]'" in line


def test_the_wheel_is_for_every_python_from_3_11(wheel: Path) -> None:
    assert re.search(r"-cp311-abi3-", wheel.name)


def test_the_wheel_requires_nothing_and_names_its_extras(bare: Environment) -> None:
    answer = bare.evaluate("""
from importlib.metadata import metadata
data = metadata("spillway")
print(sorted(data.get_all("Provides-Extra")))
print([need for need in data.get_all("Requires-Dist") if "extra ==" not in need])
""")
    extras, required = answer.splitlines()
    assert {"bench", "spark", "notebooks"} <= set(re.findall(r"\w+", extras))
    assert required == "[]"


def test_the_wheel_holds_the_package_alone(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        names = archive.namelist()
    # Spark finds the data source by the second, pytest its plugin by the third.
    packages = {name.split("/")[0].split("-")[0] for name in names}
    assert packages == {"spillway", "pyspark_spillway", "pytest_spillway"}
    assert [name for name in names if name.startswith("pyspark_")] == ["pyspark_spillway/__init__.py"]
    assert "pytest_spillway/py.typed" in names
    (points,) = [name for name in names if name.endswith(".dist-info/entry_points.txt")]
    with ZipFile(wheel) as archive:
        assert "[pytest11]\npytest_spillway=pytest_spillway" in archive.read(points).decode()
    assert not [name for name in names if "__pycache__" in name or name.endswith((".pyc", ".rs"))]
    assert "spillway/py.typed" in names
    assert "spillway/_native.pyi" in names
    assert [name for name in names if name.endswith(".so")] == ["spillway/_native.abi3.so"]
    assert any("licenses/LICENSE" in name for name in names)


def test_files_of_every_codec_are_written_with_the_wheel_alone(bare: Environment) -> None:
    done = bare.run("python", "-W", "error", str(Path(__file__).with_name("write_with_wheel.py")))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(bare.evaluate("import spillway; print(spillway.__version__)"))


def test_a_polars_frame_is_written_and_read_back(with_polars: Environment) -> None:
    answer = with_polars.evaluate("""
import datetime
import polars as pl, spillway
frame = pl.DataFrame({
    "n": [1, None, 3], "word": ["a", None, "ż"], "list": [[1], [], None],
    "at": [datetime.datetime(2024, 1, 2)] * 3,
    "kind": pl.Series(["x", "y", None], dtype=pl.Categorical), "struct": [{"a": 1.5}, None, {"a": None}],
})
result = spillway.write_parquet(frame, "a.parquet")
back = pl.read_parquet("a.parquet")
text = pl.col("kind").cast(pl.String)
assert back.with_columns(text).equals(frame.with_columns(text)), back
spillway.write_parquet(frame.lazy().filter(pl.col("n") > 1).collect(), "b.parquet")
spillway.write_parquet(frame["word"].to_frame(), "c.parquet")
print(result.rows, pl.read_parquet("b.parquet").height)
""")
    assert answer == "3 1"
