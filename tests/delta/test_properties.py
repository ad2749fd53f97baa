"""Properties are set and taken away as one version, and what they need comes with them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import deltalake
import numpy as np
import pyarrow as pa
import pytest

import spillway.delta
from spillway.errors import AppendOnlyError, MetadataChanged, OptionError, UnsupportedTableError

from .logs import line_of, needs, set_as_another, write_version
from .test_deletes import ids
from .test_features import HARMLESS, NUMBERS, append

if TYPE_CHECKING:
    from pathlib import Path


def made(folder: Path, **properties: str) -> spillway.delta.Table:
    return spillway.delta.create(folder, NUMBERS, properties=properties)


def test_properties_come_and_go_in_one_version(tmp_path: Path) -> None:
    table = made(tmp_path / "t", owner="web", team="a")
    assert table.set_properties({"delta.appendOnly": "true", "owner": "shop", "team": None}) == 1
    expected = {"delta.appendOnly": "true", "owner": "shop"}
    assert table.properties == expected
    assert deltalake.DeltaTable(table.path).metadata().configuration == expected
    [entry] = table.history(1)
    assert entry.operation == "SET TBLPROPERTIES"
    assert entry.info["operationParameters"]["properties"] == '{"delta.appendOnly":"true","owner":"shop"}'
    append(table, 1)
    with pytest.raises(AppendOnlyError):
        table.truncate()
    assert table.set_properties({"delta.appendOnly": None, "gone": None}) == 3
    assert table.history(1)[0].operation == "UNSET TBLPROPERTIES"
    assert table.truncate() == 4


def test_what_changes_nothing_makes_no_version(tmp_path: Path) -> None:
    table = made(tmp_path / "t", owner="web")
    assert table.set_properties({"owner": "web", "gone": None}) == 0
    assert table.set_properties({}) == 0
    assert table.version == 0


def test_a_property_brings_its_feature(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    append(table, *range(10))
    table.set_properties({"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"})
    protocol = line_of(table, "protocol", 2)
    assert protocol["readerFeatures"] == ["deletionVectors"]
    assert {"appendOnly", "invariants", "changeDataFeed", "deletionVectors"} == {*protocol["writerFeatures"]}
    assert table.delete([("id", "=", 3)]).rows == 1
    assert [file.deleted_rows for file in table.files()] == [1]
    assert sorted(ids(table)) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    table.set_properties({"delta.enableDeletionVectors": "false", "delta.enableChangeDataFeed": None})
    assert table.properties == {"delta.enableDeletionVectors": "false"}
    table.delete([("id", "=", 4)])
    assert [file.deleted_rows for file in table.files()] == [0]
    assert sorted(ids(table)) == [0, 1, 2, 5, 6, 7, 8, 9]


def test_a_feature_that_another_writer_left_out_comes_with_its_property(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    write_version(table, 1, [needs("invariants")])
    table.set_properties({"delta.appendOnly": "true"})
    assert line_of(table, "protocol", 2)["writerFeatures"] == ["invariants", "appendOnly"]


def test_a_property_that_is_there_without_its_feature_gets_it(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    lacking = line_of(table, "metaData") | {"configuration": {"delta.appendOnly": "true"}}
    write_version(table, 1, [needs("invariants"), {"metaData": lacking}])
    assert table.set_properties({"delta.appendOnly": "true"}) == 2
    assert line_of(table, "protocol", 2)["writerFeatures"] == ["invariants", "appendOnly"]
    assert table.set_properties({"delta.appendOnly": "true"}) == 2


REFUSED = {
    "delta.appendOnly": ("yes", OptionError, "give true or false"),
    "delta.logRetentionDuration": ("interval 1 year", OptionError, "interval 7 days"),
    "delta.checkpointInterval": ("0", OptionError, "whole number from 1 to 2147483647"),
    "delta.isolationLevel": ("odd", OptionError, "WriteSerializable"),
    "delta.appendsOnly": ("true", OptionError, r"did you mean delta\.appendOnly\?"),
    "delta.constraints.positive": ("id > 0", OptionError, "add_constraint"),
    "delta.columnMapping.maxColumnId": ("9", UnsupportedTableError, "not supported"),
    "delta.rowTrackingSuspended": ("true", UnsupportedTableError, "not supported"),
    "delta.checkpointPolicy": ("v2", UnsupportedTableError, "not supported"),
    "delta.autoOptimize.autoCompact": ("auto", OptionError, "give false"),
    "delta.autoOptimize.optimizeWrite": ("true", UnsupportedTableError, "not supported"),
    "delta.checkpointRetentionDuration": ("interval 2 days", UnsupportedTableError, "not supported"),
    "delta.dropFeatureTruncateHistory.retentionDuration": (
        "interval 1 day",
        UnsupportedTableError,
        "not supported",
    ),
    "delta.enableFullRetentionRollback": ("true", UnsupportedTableError, "not supported"),
    "delta.randomPrefixLength": ("2", UnsupportedTableError, "not supported"),
    "delta.randomizeFilePrefixes": ("TRUE", UnsupportedTableError, "not supported"),
    "delta.sampleRetentionDuration": ("interval 7 days", UnsupportedTableError, "not supported"),
    "delta.tuneFileSizesForRewrites": ("true", UnsupportedTableError, "not supported"),
}
# What another writer may have set.
UNBUILT = {
    name: value
    for name, (value, *_) in REFUSED.items()
    if name.startswith(
        (
            "delta.auto",
            "delta.checkpointR",
            "delta.drop",
            "delta.enableF",
            "delta.random",
            "delta.sample",
            "delta.tune",
        )
    )
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_table_cannot_have_is_refused_by_name(tmp_path: Path, name: str) -> None:
    value, error, match = REFUSED[name]
    table = made(tmp_path / "t")
    with pytest.raises(error, match=match) as refused:
        table.set_properties({"owner": "web", name: value})
    assert name in str(refused.value)
    with pytest.raises(error, match=match):
        made(tmp_path / "u", **{name: value})
    assert (table.version, table.properties) == (0, {})
    assert not (tmp_path / "u").exists()


def test_a_table_that_asks_for_what_is_not_built_stays_writable(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    assert len(UNBUILT) == 9
    set_as_another(table, UNBUILT)
    append(table, 1, 2)
    append(table, 3)
    table.delete("id = 1")
    assert table.optimize().added_files == 1
    table.checkpoint()
    table.set_properties({"owner": "web", "delta.autoOptimize.autoCompact": "false"})
    assert sorted(ids(table)) == [2, 3]
    assert table.properties == UNBUILT | {"owner": "web", "delta.autoOptimize.autoCompact": "false"}
    table.set_properties(dict.fromkeys(UNBUILT))
    assert table.properties == {"owner": "web"}


@pytest.mark.parametrize(
    ("size", "option", "files"),
    [(None, None, 1), ("100kb", None, 8), ("100kb", 1 << 30, 1), ("1g", 100 << 10, 8), ("a lot", None, 1)],
)
def test_appends_have_files_of_the_tables_size(
    tmp_path: Path, size: str | None, option: int | None, files: int
) -> None:
    table = made(tmp_path / "t")
    if size is not None:
        set_as_another(table, {"delta.targetFileSize": size})
        # An append begins with what its process knows of the table.
        assert table.version == 1
    numbers = np.random.default_rng(1).integers(0, 2**62, 100_000)
    with table.append(max_file_bytes=option) as append:
        append.write(pa.table({"id": numbers}))
    sizes = [file.size for file in table.files()]
    assert len(sizes) in (range(files - 1, files + 2) if files > 1 else [1])
    assert len(ids(table)) == len(numbers)


def test_in_commit_timestamps_begin_with_the_table(tmp_path: Path) -> None:
    timestamps = "delta.enableInCommitTimestamps"
    table = made(tmp_path / "t")
    with pytest.raises(UnsupportedTableError, match="cannot be enabled on an existing table"):
        table.set_properties({timestamps: "true"})
    table = made(tmp_path / "u", **{timestamps: "true"})
    assert table.set_properties({timestamps: "false"}) == 1
    assert append(table, 1) == 2
    assert "inCommitTimestamp" not in table.history(1)[0].info


@pytest.mark.parametrize("name", HARMLESS)
def test_a_property_fails_no_append_that_is_under_way(tmp_path: Path, name: str) -> None:
    table = made(tmp_path / "t")
    late = table.append()
    late.write(pa.table({"id": [1]}))
    table.set_properties({name: HARMLESS[name]})
    assert late.commit() == 2
    assert (ids(table), table.properties) == ([1], {name: HARMLESS[name]})


def test_a_value_that_another_writer_set_wrongly_is_mended(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    wrong = {"delta.isolationLevel": "odd", "delta.unheardOf": "x"}
    deltalake.DeltaTable(table.path).alter.set_table_properties(wrong, raise_if_not_exists=False)
    with pytest.raises(UnsupportedTableError, match="isolationLevel"):
        table.truncate()
    table.set_properties({"delta.isolationLevel": "WriteSerializable", "delta.unheardOf": None})
    table.truncate()
    assert table.properties == {"delta.isolationLevel": "WriteSerializable"}


def test_properties_that_are_set_at_once_are_all_there_or_refused(tmp_path: Path) -> None:
    """A change that another one got ahead of is a conflict, and its caller sets it again."""
    path = made(tmp_path / "t").path

    def put(number: int) -> None:
        table = spillway.delta.open(path)
        while True:
            try:
                table.set_properties({f"owner.{number}": str(number)})
            except MetadataChanged:
                continue
            return

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(put, range(12)))
    table = spillway.delta.open(path)
    assert table.properties == {f"owner.{number}": str(number) for number in range(12)}
    assert table.version == 12


def test_values_are_stored_as_delta_spells_them(tmp_path: Path) -> None:
    properties = {"delta.appendOnly": "TRUE", "delta.isolationLevel": "serializable", "team": "Shop"}
    table = spillway.delta.create(tmp_path / "t", pa.schema({"id": pa.int64()}), properties=properties)
    assert table.properties == {
        "delta.appendOnly": "true",
        "delta.isolationLevel": "Serializable",
        "team": "Shop",
    }
    table.set_properties({"delta.appendOnly": "False"})
    assert table.properties["delta.appendOnly"] == "false"


@pytest.mark.parametrize("name", ["delta.parquet.compression.codec", "delta.parquet.format.version"])
def test_a_property_of_delta_that_is_not_built_is_not_called_unknown(tmp_path: Path, name: str) -> None:
    with pytest.raises(UnsupportedTableError, match=f'"{name}" needs a feature that is not supported'):
        spillway.delta.create(tmp_path / "t", pa.schema({"id": pa.int64()}), properties={name: "zstd"})
