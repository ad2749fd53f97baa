"""Checkpoints of the V2 spec are read, whatever they are named, and what they need stays."""

from __future__ import annotations

import json
import os
import tempfile
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import spillway.delta
from spillway.errors import CorruptLogError

from ..counts import examples
from .conftest import rows
from .logs import log_of, needs, write_version
from .test_cleanup import age

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SCHEMA = pa.schema({"part": pa.string(), "id": pa.int64()})
FORMS = ["json", "parquet", "classic"]
# Maps in the columns of a checkpoint, which JSON has as objects.
MAPS = {"partitionValues", "configuration", "options", "tags"}


def append(table: spillway.delta.Table, *numbers: int, **options: Any) -> int | None:
    with table.append(**options) as append:
        append.write(pa.table({"part": [f"p{n % 2}" for n in numbers], "id": numbers}, SCHEMA))
    return append.version


def ids(table: spillway.delta.Table, **options: Any) -> list[int]:
    found = pa.table(table.scan(["id"], **options))["id"].to_pylist()
    return sorted(found)


def made(folder: Path, **properties: str) -> spillway.delta.Table:
    """A table with the feature, and files that came, stayed and went, up to version 6."""
    table = spillway.delta.create(folder, SCHEMA, partition_by="part", properties=properties)
    write_version(table, 1, [needs("v2Checkpoint", "appendOnly", reader=("v2Checkpoint",))])
    assert table.version == 1
    append(table, 1, 2)
    append(table, 3, 4, app_id="loader", app_version=7)
    table.delete_partition(part="p1")
    append(table, 5)
    append(table, 6)
    return table


def as_json(value: Any, name: str = "") -> Any:
    if name in MAPS:
        return dict(value)
    if isinstance(value, dict):
        return {key: as_json(inner, key) for key, inner in value.items() if inner is not None}
    return value


def to_v2(table: spillway.delta.Table, form: str, sidecars: Sequence[int], folder: str = "") -> Path:
    """Exchanges the table's checkpoint for one of the V2 spec, with so many files in each sidecar."""
    version = table.checkpoint()
    log = log_of(table)
    classic = log / f"{version:020}.checkpoint.parquet"
    whole = pq.read_table(classic)
    classic.unlink()
    is_of_files = pc.or_(pc.is_valid(whole["add"]), pc.is_valid(whole["remove"]))
    files = whole.filter(is_of_files).select(["add", "remove"])
    others = whole.filter(pc.invert(is_of_files)).drop_columns(["add", "remove"])
    entries = []
    at = 0
    for number, length in enumerate([*sidecars, len(files)] if sidecars else []):
        (log / "_sidecars").mkdir(exist_ok=True)
        path = log / "_sidecars" / f"{version:020}.checkpoint.{number} {uuid.uuid4()}.parquet"
        pq.write_table(files.slice(at, length), path)
        at += length
        named = path.name.replace(" ", "%20")
        entries.append({"path": folder + named, "sizeInBytes": path.stat().st_size, "modificationTime": 0})
    more = [
        pa.table({"checkpointMetadata": [{"version": version}]}),
        *([pa.table({"sidecar": entries})] if entries else [files]),
    ]
    main = pa.concat_tables([others, *more], promote_options="default")
    if form == "json":
        path = log / f"{version:020}.checkpoint.{uuid.uuid4()}.json"
        path.write_text("".join(json.dumps(as_json(row)) + "\n" for row in main.to_pylist()))
    else:
        path = classic if form == "classic" else log / f"{version:020}.checkpoint.{uuid.uuid4()}.parquet"
        pq.write_table(main, path, row_group_size=2)
    v2 = {"path": path.name, "sizeInBytes": path.stat().st_size, "modificationTime": 0}
    hint = {"version": version, "size": len(whole), "v2Checkpoint": v2}
    (log / "_last_checkpoint").write_text(json.dumps(hint))
    return path


def without_versions(table: spillway.delta.Table, last: int) -> None:
    for version in range(last + 1):
        (log_of(table) / f"{version:020}.json").unlink()


def read_delta_rs(folder: Path) -> pa.Table:
    """The rows by its own engine: to pyarrow it gives no table with the feature."""
    query = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(folder))
    return pa.table(query.execute("select * from t"))


def moved(folder: Path) -> spillway.delta.Table:
    """The table in another place, where nothing of it is known yet."""
    return spillway.delta.open(folder.rename(folder.with_name(uuid.uuid4().hex)))


@settings(max_examples=examples(0.3))
@given(
    st.sampled_from(FORMS),
    st.lists(st.integers(0, 3), max_size=3),
    st.sampled_from(["", "_sidecars/", "file:///elsewhere/_delta_log/_sidecars/"]),
    st.sampled_from(["hint", "none"]),
)
def test_a_table_is_read_from_its_checkpoint(form: str, sidecars: list[int], folder: str, hint: str) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        table = made(Path(scratch) / "t")
        before = (table.files(), ids(table), dict(table.properties))
        to_v2(table, form, sidecars, folder)
        append(table, 7)
        without_versions(table, 6)
        if hint == "none":
            (log_of(table) / "_last_checkpoint").unlink()
        again = moved(Path(scratch) / "t")
        assert (again.files(6), ids(again, version=6), dict(again.properties)) == before
        assert ids(again) == [2, 4, 5, 6, 7]
        assert ids(again, where=[("part", "=", "p1")]) == [5, 7]
        assert again.transaction_version("loader") == 7
        assert append(again, 8) == 8
        with again.append(app_id="loader", app_version=7) as repeated:
            repeated.write(pa.table({"part": ["p1"], "id": [9]}, SCHEMA))
        assert repeated.repeated
        assert ids(again) == [2, 4, 5, 6, 7, 8]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("sidecars", [[], [1]], ids=["inline", "sidecars"])
def test_other_engines_go_on_from_both(tmp_path: Path, form: str, sidecars: list[int]) -> None:
    table = made(tmp_path / "t")
    to_v2(table, form, sidecars)
    append(table, 7)
    without_versions(table, 5)
    assert rows(read_delta_rs(tmp_path / "t")) == rows(pa.table(table.scan()))
    again = moved(tmp_path / "t")
    # A checkpoint of the V1 spec, which the protocol allows for every table.
    assert again.checkpoint() == 7
    hint = json.loads((log_of(again) / "_last_checkpoint").read_text())
    assert hint["version"] == 7
    assert "v2Checkpoint" not in hint
    (log_of(again) / f"{6:020}.json").unlink()
    last = moved(Path(again.path))
    assert ids(last) == [2, 4, 5, 6, 7]
    assert rows(read_delta_rs(Path(last.path))) == rows(pa.table(last.scan()))
    assert "v2Checkpoint" in (deltalake.DeltaTable(last.path).protocol().reader_features or [])


@pytest.mark.parametrize("form", [*FORMS, "V1"])
def test_a_checkpoint_that_is_alone_takes_appends(tmp_path: Path, form: str) -> None:
    table = made(tmp_path / "t")
    if form == "V1":
        table.checkpoint()
    else:
        to_v2(table, form, [1])
    without_versions(table, 6)
    again = moved(tmp_path / "t")
    assert append(again, 7) == 7
    assert append(again, 8, app_id="loader", app_version=8) == 8
    again.delete_partition(part="p1")
    assert ids(again) == [2, 4, 6, 8]
    last = moved(Path(again.path))
    assert ids(last) == [2, 4, 6, 8]
    assert rows(read_delta_rs(Path(last.path))) == rows(pa.table(last.scan()))


def test_the_classic_name_goes_before_others_of_the_same_version(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    named = to_v2(table, "json", [])
    named.unlink()
    to_v2(table, "classic", [1])
    named.write_text("it is not read")
    without_versions(table, 5)
    assert ids(moved(tmp_path / "t")) == [2, 4, 5, 6]


def test_a_name_that_is_none_of_the_protocols_is_no_checkpoint(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    checkpoint = to_v2(table, "json", [])
    for odd in ("mine.json", f"{uuid.uuid4()}.tmp", f"{1:010}.{1:010}.json", f"{uuid.uuid4()}.json.crc"):
        (log_of(table) / f"{6:020}.checkpoint.{odd}").write_text("no checkpoint")
    assert ids(moved(tmp_path / "t")) == [2, 4, 5, 6]
    assert checkpoint.suffix == ".json"


@pytest.mark.parametrize("form", FORMS)
def test_a_sidecar_that_is_gone_or_damaged_is_named(tmp_path: Path, form: str) -> None:
    table = made(tmp_path / "t")
    to_v2(table, form, [1])
    without_versions(table, 5)
    sidecar = min((log_of(table) / "_sidecars").iterdir()).name
    again = moved(tmp_path / "t")
    path = log_of(again) / "_sidecars" / sidecar
    body = path.read_bytes()
    # Without the files nothing is missing.
    assert again.transaction_version("loader") == 7
    path.write_bytes(body[:-5])
    with pytest.raises(CorruptLogError, match=sidecar):
        again.files()
    path.unlink()
    with pytest.raises(CorruptLogError, match=rf"{sidecar}.*no longer exists"):
        again.files()
    path.write_bytes(body)
    assert ids(again) == [2, 4, 5, 6]


def test_a_damaged_checkpoint_in_json_is_named(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    checkpoint = to_v2(table, "json", [])
    without_versions(table, 5)
    with checkpoint.open("a") as file:
        file.write('{"add": ')
    folder = (tmp_path / "t").rename(tmp_path / "u")
    with pytest.raises(CorruptLogError, match=checkpoint.name):
        spillway.delta.open(folder)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def turned(path: Path) -> None:
    """Has wrong bytes in the middle, which a footer says nothing of."""
    body = path.read_bytes()
    middle = len(body) // 2
    path.write_bytes(b"".join([body[:4], b"\xff" * (middle - 4), body[middle:]]))


DAMAGES: dict[str, Callable[[Path], None]] = {
    "gone": Path.unlink,
    "cut": cut,
    "emptied": emptied,
    "wrong bytes": turned,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("damage", ["none", *DAMAGES])
def test_clean_up_goes_by_a_checkpoint_with_all_of_its_files(tmp_path: Path, form: str, damage: str) -> None:
    table = made(tmp_path / "t")
    to_v2(table, form, [1, 1])
    age(table, range(7), 400)
    append(table, 7)
    sidecars = sorted((log_of(table) / "_sidecars").iterdir())
    body = sidecars[-1].read_bytes()
    whole = damage == "none"
    if not whole:
        DAMAGES[damage](sidecars[-1])
    removed = table._native.clean_up_log()
    left = sorted(int(path.stem) for path in log_of(table).glob("*.json") if path.stem.isdecimal())
    assert (removed, left) == ((6, [6, 7]) if whole else (0, [*range(8)]))
    sidecars[-1].write_bytes(body)
    assert sorted((log_of(table) / "_sidecars").iterdir()) == sidecars
    assert ids(table) == [2, 4, 5, 6, 7]
    if whole:
        assert ids(moved(tmp_path / "t")) == [2, 4, 5, 6, 7]


@pytest.mark.parametrize("form", FORMS)
def test_clean_up_takes_sidecars_that_no_checkpoint_names(tmp_path: Path, form: str) -> None:
    table = made(tmp_path / "t")
    to_v2(table, form, [1, 1])
    sidecars = log_of(table) / "_sidecars"
    named = sorted(path.name for path in sidecars.iterdir())
    for name in ("stray.parquet", "young.parquet"):
        (sidecars / name).write_bytes(b"PAR1")
    age(table, range(7), 400)
    then = time.time() - 3 * 86_400
    for name in [*named, "stray.parquet"]:
        os.utime(sidecars / name, (then, then))
    append(table, 7)
    assert table._native.clean_up_log() == 7
    assert sorted(path.name for path in sidecars.iterdir()) == sorted([*named, "young.parquet"])
    assert ids(moved(tmp_path / "t")) == [2, 4, 5, 6, 7]


@pytest.mark.parametrize("form", FORMS)
def test_clean_up_leaves_sidecars_alone_while_a_checkpoint_cannot_be_read(tmp_path: Path, form: str) -> None:
    table = made(tmp_path / "t")
    to_v2(table, form, [1])
    append(table, 7)
    later = to_v2(table, form, [1])
    sidecars = sorted((log_of(table) / "_sidecars").iterdir())
    later.write_bytes(later.read_bytes()[:-20])
    age(table, range(7), 400)
    then = time.time() - 3 * 86_400
    for path in sidecars:
        os.utime(path, (then, then))
    with pytest.raises(CorruptLogError, match=later.name):
        table._native.clean_up_log()
    assert sorted((log_of(table) / "_sidecars").iterdir()) == sidecars


def test_clean_up_takes_old_checkpoints_with_ids_away(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    old = to_v2(table, "json", [1])
    append(table, 7)
    assert table.checkpoint() == 7
    age(table, range(8), 400)
    append(table, 8)
    assert table._native.clean_up_log() == 8
    assert not old.exists()
    assert ids(moved(tmp_path / "t")) == [2, 4, 5, 6, 7, 8]
