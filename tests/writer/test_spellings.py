"""Options as other libraries spell them are refused with the name that they have here."""

from __future__ import annotations

import ast
import inspect
import io
import re
import string
import zipfile
from pathlib import Path
from typing import Any

import deltalake
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pyspark
import pyspark.sql
import pytest
from hypothesis import given
from hypothesis import strategies as st

import spillway
import spillway.spark
from spillway._options import ELSEWHERE, METHODS, option_of
from spillway.cli.common import meant
from spillway.types import DatasetKeywords, WriterKeywords

WRITER = set(WriterKeywords.__annotations__)
DATASET = set(DatasetKeywords.__annotations__) - WRITER
DOCUMENTS = sorted(Path(__file__).parents[2].glob("docs/migrate/*.md"))

PEERS = {
    "pyarrow": [pq.write_table, pq.ParquetWriter, pq.write_to_dataset, ds.write_dataset],
    "polars": [pl.DataFrame.write_parquet, pl.LazyFrame.sink_parquet, pl.DataFrame.write_delta],
    "delta-rs": [
        deltalake.write_deltalake,
        deltalake.DeltaTable.create,
        deltalake.DeltaTable.delete,
        deltalake.DeltaTable.update,
        deltalake.DeltaTable.merge,
        deltalake.DeltaTable.vacuum,
        deltalake.DeltaTable.load_cdf,
        deltalake.table.TableOptimizer.compact,
        deltalake.table.TableMerger.when_matched_update,
    ],
    "Spark": [pyspark.sql.DataFrameWriter.parquet],
}
#: The rows themselves, and what gathers other keywords.
NO_OPTIONS = {"self", "table", "data", "kwargs", "options", "args"}


def parameters(function: Any) -> set[str]:
    return set(inspect.signature(function).parameters) - NO_OPTIONS


def settings_of_hadoop() -> set[str]:
    """The settings of `ParquetOutputFormat`, as its class file in PySpark's own jars has them."""
    (jar,) = (Path(pyspark.__file__).parent / "jars").glob("parquet-hadoop-1.*.jar")
    with zipfile.ZipFile(jar) as archive:
        code = archive.read("org/apache/parquet/hadoop/ParquetOutputFormat.class")
    return {name.decode() for name in re.findall(rb"parquet\.[a-z][a-z0-9.-]*[a-z]", code)}


SPELT = sorted({name for functions in PEERS.values() for each in functions for name in parameters(each)})
TABLE = spillway.delta.Table
#: Functions that know all that they accept.
COMPLETE: list[Any] = [
    *(spillway.delta.create, spillway.delta.open, spillway.delta.write),
    *(TABLE.scan, TABLE.changes, TABLE.append, TABLE.commit, TABLE.delete, TABLE.update, TABLE.merge),
    *(TABLE.optimize, TABLE.purge, TABLE.vacuum, TABLE.restore),
    *(spillway.delta.when_matched_update, spillway.delta.when_not_matched_insert),
    *(spillway.delta.when_matched_delete, spillway.delta.when_not_matched_by_source_delete),
    spillway.delta.when_not_matched_by_source_update,
    *(spillway.spark.write, spillway.spark.write_generated),
]
OF_FILES = {
    name
    for function in (spillway.write_parquet, spillway.write_dataset)
    for name in inspect.signature(function).parameters
}
OURS = OF_FILES | {name for function in COMPLETE for name in inspect.signature(function).parameters}
#: Names that a peer has for one thing, and a function of tables here for another.
OF_BOTH = {"path", "version", "where"}


@pytest.mark.parametrize("name", SPELT)
def test_each_option_of_a_peer_is_one_of_ours_or_refused_with_a_reason(name: str) -> None:
    assert (name in OURS) + (name in ELSEWHERE) == 1 + (name in OF_BOTH)
    assert name not in ELSEWHERE or name not in OF_FILES
    if name not in ELSEWHERE:
        return
    with pytest.raises(spillway.UnknownOptionError) as caught:
        spillway.WriterOptions(**{name: 1})
    spelling = ELSEWHERE[name]
    assert caught.value.option == name
    assert name in str(caught.value)
    assert (spelling.names[0] or spelling.note) in str(caught.value)


@pytest.mark.parametrize("name", sorted(settings_of_hadoop()))
def test_each_setting_of_sparks_writer_is_mapped_or_refused_with_a_reason(name: str) -> None:
    for spelt in (name, f"{name}#column"):
        with pytest.raises(spillway.UnknownOptionError, match=re.escape(spelt)):
            spillway.ParquetWriter(io.BytesIO(), **{spelt: 1})
    assert name in ELSEWHERE


def test_settings_of_hadoop_were_found() -> None:
    assert {"parquet.block.size", "parquet.page.size", "parquet.enable.dictionary"} <= settings_of_hadoop()


def test_methods_of_pyarrows_writer_are_there_or_lead_to_ours() -> None:
    theirs = {name for name in vars(pq.ParquetWriter) if not name.startswith("_")}
    assert theirs - vars(spillway.ParquetWriter).keys() == METHODS.keys()
    writer = spillway.ParquetWriter(io.BytesIO(), pa.schema({"a": pa.int64()}))
    for name, here in METHODS.items():
        assert hasattr(writer, here.partition("(")[0])
        with pytest.raises(AttributeError, match=re.escape(f"has no '{name}': call {here}")):
            getattr(writer, name)
    assert not hasattr(writer, "nothing_like_it")
    writer.abort()


@pytest.mark.parametrize("name", ELSEWHERE)
def test_what_a_spelling_leads_to_is_there(name: str, tmp_path: Path) -> None:
    spelling = ELSEWHERE[name]
    assert spelling.here or spelling.note
    if not spelling.here:
        return
    for here in spelling.names:
        option, _, value = here.partition("=")
        assert option in OURS
        if value and value != "{column: share of wrong answers}":
            given_value: dict[str, Any] = {option: ast.literal_eval(value)}
            if option in WRITER:
                spillway.WriterOptions(**given_value)
            elif option in DATASET:
                spillway.DatasetOptions(**given_value)
            else:
                spillway.delta.write(tmp_path / "t", pa.table({"id": [1]}), **given_value)
    if option_of(spelling.names[0]) in DATASET:
        with pytest.raises(spillway.UnknownOptionError, match=r"write_dataset\(\) and DatasetWriter"):
            spillway.WriterOptions(**{name: 1})


@pytest.mark.parametrize("function", COMPLETE, ids=lambda function: function.__qualname__)
def test_a_function_leads_from_any_other_name_to_one_that_it_accepts(function: Any) -> None:
    accepted = inspect.signature(function).parameters
    for name, spelling in ELSEWHERE.items():
        if name in accepted:
            continue
        with pytest.raises(spillway.UnknownOptionError) as caught:
            function(**{name: 1})
        assert caught.value.option == name
        leads_to = [option_of(here) for here in spelling.names if option_of(here) in accepted]
        if leads_to:
            assert f"here it is {leads_to[0]}" in str(caught.value)
            assert option_of(caught.value.accepted[0]) == leads_to[0]


@pytest.mark.parametrize(
    ("function", "name", "here"),
    [
        (spillway.delta.write, "predicate", "where"),
        (spillway.delta.write, "overwrite", 'mode="overwrite"'),
        (TABLE.merge, "predicate", "on"),
        (TABLE.update, "new_values", "set"),
        (spillway.spark.write, "replaceWhere", "where"),
        (spillway.write_dataset, "existing", "mode"),
        (spillway.write_parquet, "codec", "compression"),
    ],
)
def test_an_old_or_foreign_name_is_refused_with_the_one_that_is_meant(
    function: Any, name: str, here: str
) -> None:
    arguments = [pa.table({"id": [1]}), io.BytesIO()] if function is spillway.write_parquet else []
    if function is spillway.write_dataset:
        arguments = [pa.table({"id": [1]}), "nowhere"]
    with pytest.raises(spillway.UnknownOptionError, match=f"here it is {here}"):
        function(*arguments, **{name: 1})


@pytest.mark.parametrize(
    ("given", "means"),
    [
        ("--overwrite", ["--mode overwrite"]),
        ("--existing", ["--mode"]),
        ("--compression", ["--codec"]),
        ("--row-group-size", ["--row-group-rows"]),
        ("--partition-cols", ["--partition-by"]),
        ("--write-mode", ["--mode"]),
        # Commands name columns here, and no share of wrong answers.
        ("--parquet.bloom.filter.fpp", ["--bloom-filter"]),
        # `--encoding` is that of text.
        ("--use-byte-stream-split", []),
        ("--column-encoding", []),
        ("--predicate", []),
        ("--colour", []),
    ],
)
def test_the_command_line_leads_from_other_names_to_its_own(given: str, means: list[str]) -> None:
    options = ["--mode", "--codec", "--row-group-rows", "--partition-by", "--bloom-filter", "--encoding"]
    assert meant(given, options) == means


def test_no_spelling_is_kept_that_no_library_has() -> None:
    settings = {"chunk_size", "coerce_timestamps", "compression_opts", "data_page_size", "field_overwrites"}
    settings |= {"metadata_collector"}  # of the keywords that write_to_dataset hands on
    settings |= {"codec", "existing", "filter", "overwrite"}  # of no library in particular
    settings |= {"if_exists", "partition_on", "write_mode", "filters", "source_alias", "target_alias"}
    # Of delta-spark, which has them in strings.
    settings |= {"condition", "mergeSchema", "overwriteSchema", "replaceWhere", "partitionOverwriteMode"}
    settings |= {"txnAppId", "txnVersion", "userMetadata"}
    settings |= {"allow_truncated_timestamps", "engine", "format", "memory_pool", "maxRecordsPerFile"}
    known = set(SPELT) | settings_of_hadoop() | settings
    assert {name for name in ELSEWHERE if name not in known and not name.startswith("spark.sql.")} == set()


@pytest.mark.parametrize(
    ("name", "here"),
    [
        ("row_group_size", "row_group_rows"),
        ("use_dictionary", "dictionary"),
        ("data_page_size", "page_bytes"),
        ("write_statistics", "statistics"),
        ("max_rows_per_page", "page_rows"),
        ("version", 'compatibility="v1"'),
        ("compression_opts", "compression_level"),
        ("parquet.block.size", "row_group_bytes"),
        ("max_rows_per_file", "max_file_rows"),
        ("partition_by", "DatasetWriter"),
        ("row_group_row", "row_group_rows is the nearest"),
        ("colour", "there is no option colour: choose among "),
    ],
)
def test_every_function_with_options_refuses_a_name_alike(tmp_path: Path, name: str, here: str) -> None:
    table, given_options = pa.table({"id": [1]}), {name: 1}
    delta = spillway.delta.create(tmp_path / "t", table.schema)
    calls: list[Any] = [
        lambda: spillway.WriterOptions(**given_options),
        lambda: spillway.ParquetWriter(tmp_path / "new", **given_options),
        lambda: spillway.write_parquet(table, tmp_path / "new", **given_options),
    ]
    if name not in DATASET:
        calls += [
            lambda: spillway.DatasetOptions(**given_options),
            lambda: spillway.DatasetWriter(tmp_path / "new", **given_options),
            lambda: spillway.write_dataset(table, tmp_path / "new", **given_options),
            lambda: delta.append(**given_options),
            lambda: spillway.delta.write(tmp_path / "t", table, **given_options),
        ]
    for call in calls:
        with pytest.raises(spillway.UnknownOptionError, match=re.escape(here)) as caught:
            call()
        # Either built-in class serves a caller: the keyword is wrong, and so is the option.
        assert isinstance(caught.value, TypeError)
        assert isinstance(caught.value, ValueError)
    assert not (tmp_path / "new").exists()
    assert delta.version == 0


def test_all_names_of_a_call_are_refused_at_once() -> None:
    given: Any = {"row_group_size": 1000, "use_dictionary": ["a"], "page_rows": 10, "write_page_index": True}
    with pytest.raises(spillway.UnknownOptionError, match="row_group_rows") as caught:
        spillway.WriterOptions(**given)
    notes = caught.value.__notes__
    assert [note.partition(" ")[0] for note in notes] == ["use_dictionary", "write_page_index"]


@pytest.mark.parametrize(
    ("name", "says", "accepted"),
    [
        ("compression", "compression is an option of WriterOptions, and of everything that writes files", ()),
        ("colour", "choose among partition_by, max_file_bytes, ", tuple(sorted(DATASET))),
        ("max_file_row", "max_file_rows is the nearest", ("max_file_rows",)),
        ("row_group_row", "row_group_rows is the nearest, an option of WriterOptions", ("row_group_rows",)),
        ("path", "here it is directory", ("directory",)),
        ("where", "here it is directory", ("directory",)),
    ],
)
def test_options_of_a_dataset_refuse_by_their_own_names(
    name: str, says: str, accepted: tuple[str, ...]
) -> None:
    with pytest.raises(spillway.UnknownOptionError, match=re.escape(says)) as caught:
        spillway.DatasetOptions(**{name: 1})
    assert tuple(sorted(caught.value.accepted)) == accepted


def test_a_function_that_writes_folders_names_all_that_it_accepts(tmp_path: Path) -> None:
    table = pa.table({"id": [1]})
    with pytest.raises(spillway.UnknownOptionError) as caught:
        spillway.write_dataset(table, tmp_path / "new", colour=1)
    assert set(caught.value.accepted) == DATASET | WRITER
    with pytest.raises(spillway.UnknownOptionError, match="here it is directory"):
        spillway.write_dataset(table, tmp_path / "new", path=1)
    with pytest.raises(spillway.UnknownOptionError) as caught:
        spillway.write_parquet(table, tmp_path / "new", colour=1)
    assert set(caught.value.accepted) == WRITER
    with pytest.raises(
        spillway.UnknownOptionError, match="max_file_rows is the nearest, an option of Dataset"
    ):
        spillway.write_parquet(table, tmp_path / "new", max_file_row=1)
    assert not (tmp_path / "new").exists()


@given(st.text(string.ascii_letters + "_.#", min_size=1))
def test_any_other_name_is_refused(name: str) -> None:
    if name in WRITER:
        return
    with pytest.raises(spillway.UnknownOptionError) as caught:
        spillway.WriterOptions(**{name: None})
    assert caught.value.option == name


@pytest.mark.parametrize(
    ("option", "spelt", "here"),
    [
        ("compression", "none", "uncompressed"),
        ("compression", "NONE", "uncompressed"),
        ("compression", "ZSTD", "zstd"),
        ("compression", "ZSTD(3)", "zstd"),
        ("compression", "LZ4_RAW", "lz4"),
        ("encoding", "PLAIN", "plain"),
        ("encoding", "RLE_DICTIONARY", "dictionary"),
        ("encoding", "PLAIN_DICTIONARY", "dictionary"),
        ("compatibility", "1.0", "v1"),
        ("compatibility", "PARQUET_1_0", "v1"),
        ("compatibility", "2.6", "modern"),
        ("timestamps", "INT96", "int96"),
        ("timestamps", "TIMESTAMP_MICROS", "us"),
        ("sorting", "Sort", "sort"),
    ],
)
def test_a_value_spelt_otherwise_is_refused_with_the_one_it_is_here(
    option: str, spelt: str, here: str
) -> None:
    for value in (spelt, {"id": spelt}) if option in {"compression", "encoding"} else (spelt,):
        with pytest.raises(spillway.OptionError, match=f'here it is "{here}"; choose one of') as caught:
            spillway.WriterOptions(**{option: value})
        assert caught.value.option == option
        assert here in caught.value.accepted


@pytest.mark.parametrize("codec", ["NONE", "SNAPPY", "GZIP", "BROTLI", "LZ4", "ZSTD"])
def test_each_codec_of_pyarrow_in_its_own_case_is_known(codec: str) -> None:
    with pytest.raises(spillway.OptionError, match='here it is "'):
        spillway.WriterOptions(compression=codec)  # type: ignore[arg-type]


def test_the_guides_to_migration_name_each_option_of_pyarrow_and_polars() -> None:
    tables = "".join(page.read_text() for page in DOCUMENTS)
    lacking = [
        name
        for name, spelling in ELSEWHERE.items()
        if ("pyarrow" in spelling.library or "polars" in spelling.library) and f"`{name}" not in tables
    ]
    assert not lacking
