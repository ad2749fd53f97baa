"""Field ids: each node of the schema has the one that the option gives, else that of the Arrow schema."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import spillway
import spillway.delta

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
KEY = "PARQUET:field_id"
LINE = re.compile(r"(?:required|optional|repeated) (?:group|\S+) field_id=(-?\d+) (\S+)")
LEAVES = (
    pa.int64(),
    pa.string(),
    pa.string_view(),
    pa.dictionary(pa.int8(), pa.string()),
    pa.timestamp("s"),
    pa.binary(16),
    pa.uuid(),
)


NESTED: dict[str, Callable[[pa.DataType], pa.DataType]] = {
    "list": pa.list_,
    "large": pa.large_list,
    "fixed": lambda inner: pa.list_(inner, 2),
    "view": pa.list_view,
    "map": lambda inner: pa.map_(pa.string(), inner),
}


@st.composite
def types(draw: st.DrawFn, levels: int = 3) -> pa.DataType:
    kind = draw(st.sampled_from(("leaf", "struct", *NESTED)))
    if levels == 0 or kind == "leaf":
        return draw(st.sampled_from(LEAVES))
    inner = draw(types(levels - 1))
    if kind == "struct":
        return pa.struct([("x", inner), ("y", draw(types(levels - 1)))])
    return NESTED[kind](inner)


def paths_of(path: tuple[str, ...], kind: pa.DataType) -> list[tuple[str, ...]]:
    """The paths that may have an id, as Parquet names them."""
    found = [path]
    if pa.types.is_struct(kind):
        for field in kind:
            found += paths_of((*path, field.name), field.type)
    elif pa.types.is_map(kind):
        found += paths_of((*path, "key_value", "key"), kind.key_type)
        found += paths_of((*path, "key_value", "value"), kind.item_type)
    elif not pa.types.is_nested(kind):
        pass
    else:
        found += paths_of((*path, "list", "element"), kind.value_type)
    return found


def ids_in(file: Any) -> dict[tuple[str, ...], int]:
    """The ids that the footer of a file has, by path."""
    found: dict[tuple[str, ...], int] = {}
    above: list[str] = []
    for line in str(pq.ParquetFile(file).schema).splitlines()[2:]:
        level = (len(line) - len(line.lstrip())) // 2 - 1
        if (node := LINE.match(line.strip())) is None:
            continue
        above[level:] = [node[2].rstrip(";")]
        if int(node[1]) >= 0:
            found[tuple(above)] = int(node[1])
    return found


@given(st.data())
def test_each_node_has_its_id_and_no_other_has_one(data: st.DataObject) -> None:
    schema = pa.schema([(name, data.draw(types())) for name in ("a", "b")])
    paths = [path for field in schema for path in paths_of((field.name,), field.type)]
    chosen = data.draw(st.lists(st.sampled_from(paths), unique=True, min_size=1))
    numbers = data.draw(
        st.lists(st.integers(0, 2**31 - 1), unique=True, min_size=len(chosen), max_size=len(chosen))
    )
    ids = dict(zip(chosen, numbers, strict=True))
    dotted = data.draw(st.booleans())
    given_ids: Any = {".".join(path) if dotted else path: number for path, number in ids.items()}
    times = data.draw(st.sampled_from(("keep", "us", "int96")))
    plain, numbered = io.BytesIO(), io.BytesIO()
    spillway.ParquetWriter(plain, schema, timestamps=times).close()
    spillway.ParquetWriter(numbered, schema, timestamps=times, field_ids=given_ids).close()
    assert ids_in(plain) == {}
    assert ids_in(numbered) == ids
    assert pq.read_schema(numbered).equals(pq.read_schema(plain))


def numbered_field(name: str, number: int) -> pa.Field:
    return pa.field(name, pa.int64(), metadata={KEY: str(number)})


def test_the_option_goes_over_the_schema() -> None:
    schema = pa.schema([numbered_field("a", 1), numbered_field("b", 2)])
    file = io.BytesIO()
    spillway.write_parquet(schema.empty_table(), file, field_ids={"a": 3})
    assert ids_in(file) == {("a",): 3, ("b",): 2}
    with pytest.raises(spillway.OptionError, match='field id 2 is that of "a" and of "b"') as caught:
        spillway.write_parquet(schema.empty_table(), io.BytesIO(), field_ids={"a": 2})
    assert caught.value.option == "field_ids"
    # Exchanged, they are each one's own.
    spillway.write_parquet(schema.empty_table(), file := io.BytesIO(), field_ids={"a": 2, "b": 1})
    assert ids_in(file) == {("a",): 2, ("b",): 1}


@pytest.mark.parametrize(
    ("ids", "says"),
    [
        ({"c": 1}, r'it has "a", "m", "m\.key_value\.key", "m\.key_value\.value", "a\.b"'),
        ({"m.key_value": 1}, r'names the column "m\.key_value"'),
        ({"m": 1, ("m",): 2}, "twice"),
    ],
)
def test_a_name_that_is_no_column_or_comes_twice_is_refused(ids: Any, says: str, tmp_path: Path) -> None:
    schema = pa.schema([("a", pa.int64()), ("m", pa.map_(pa.string(), pa.int8())), ("a.b", pa.int8())])
    path = tmp_path / "rows.parquet"
    for write in (spillway.write_parquet, spillway.write_dataset):
        with pytest.raises(spillway.OptionError, match=says):
            write(schema.empty_table(), path, field_ids=ids)
    assert not list(tmp_path.rglob("*.parquet"))


def test_rows_and_folders_have_ids_too(tmp_path: Path) -> None:
    with spillway.ParquetWriter(tmp_path / "rows.parquet", field_ids={"id": 1, "at.x": 3}) as writer:
        writer.write_rows([{"id": 1, "at": {"x": 0.5}}])
    assert ids_in(tmp_path / "rows.parquet") == {("id",): 1, ("at", "x"): 3}
    table = pa.table({"day": ["mon", "tue"], "id": [1, 2]})
    spillway.write_dataset(table, tmp_path / "days", partition_by="day", field_ids={"id": 4})
    files = sorted((tmp_path / "days").rglob("*.parquet"))
    assert [ids_in(file) for file in files] == [{("id",): 4}] * 2
    # Files have no partition columns.
    with pytest.raises(spillway.OptionError, match='"day"'):
        spillway.write_dataset(table, tmp_path / "more", partition_by="day", field_ids={"day": 4})


def test_a_delta_table_takes_none(tmp_path: Path) -> None:
    table = pa.table({"id": [1]})
    with pytest.raises(spillway.OptionError, match="numbers its columns itself"):
        spillway.delta.write(tmp_path / "table", table, field_ids={"id": 1})


def test_inspect_shows_them(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    spillway.write_parquet(pa.table({"a": [1], "b": [{"c": 2}]}), path, field_ids={"a": 1, "b.c": 0})
    columns = spillway.inspect_file(path).row_groups[0].columns
    assert [column.field_id for column in columns] == [1, 0]


# The page is the test's program: a soak installs pyiceberg, which the lock leaves out.
@pytest.mark.soak
def test_pyiceberg_adds_and_reads_the_files_of_the_guide(tmp_path: Path) -> None:
    libraries = tmp_path / "libraries"
    install = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--target", str(libraries)]
    lock = ["--constraint", str(ROOT / "requirements" / "dev.txt")]
    subprocess.run([*install, *lock, "pyiceberg[sql-sqlite]"], check=True)
    text = (ROOT / "docs" / "guide" / "iceberg.md").read_text()
    program = "\n".join(re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL))
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(libraries), os.environ.get("PYTHONPATH", "")])},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
