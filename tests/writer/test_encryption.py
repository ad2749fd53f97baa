"""Encrypted files, decrypted by pyarrow and by DuckDB."""

from __future__ import annotations

import base64
import dataclasses
import io
import json
import pickle
import re
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow.parquet import encryption

import spillway

from ..counts import examples

if TYPE_CHECKING:
    from pathlib import Path

KEY, LONG_KEY, OTHER_KEY = b"0123456789012345", b"abcdefghijklmnopqrstuvwxyz012345", b"fedcba9876543210"
PREFIX = b"orders/2026-11-23"
keys_of: Any = encryption.create_decryption_properties  # type: ignore[attr-defined]  # newer than the stubs


def written(table: pa.Table, keys: spillway.Encryption, **options: Any) -> bytes:
    file = io.BytesIO()
    spillway.write_parquet(table, file, encryption=keys, **options)
    return file.getvalue()


def read(data: bytes, key: bytes = KEY, **given_keys: Any) -> pa.Table:
    return pq.read_table(io.BytesIO(data), decryption_properties=keys_of(key, **given_keys))


@settings(max_examples=examples(0.4), deadline=None)
@given(
    key=st.sampled_from([KEY, LONG_KEY]),
    plaintext_footer=st.booleans(),
    prefix=st.sampled_from([None, PREFIX]),
    options=st.fixed_dictionaries(
        {
            "row_group_rows": st.integers(500, 7_000),
            "page_bytes": st.integers(300, 1 << 16),
            "dictionary": st.booleans(),
            "bloom_filter": st.booleans(),
            "page_checksums": st.booleans(),
            "threads": st.integers(1, 3),
            "memory_limit": st.sampled_from([None, "1MB"]),
            "compression": st.sampled_from(["zstd", "uncompressed", "gzip"]),
        }
    ),
)
def test_pyarrow_reads_what_one_key_encrypts(
    table: pa.Table,
    key: bytes,
    plaintext_footer: bool,  # noqa: FBT001
    prefix: bytes | None,
    options: dict[str, Any],
) -> None:
    keys = spillway.Encryption(footer_key=key, plaintext_footer=plaintext_footer, aad_prefix=prefix)
    data = written(table, keys, **options)
    assert (data[:4], data[-4:]) == ((b"PAR1", b"PAR1") if plaintext_footer else (b"PARE", b"PARE"))
    opened = pq.read_table(
        io.BytesIO(data),
        decryption_properties=keys_of(key, aad_prefix=prefix),
        page_checksum_verification=options["page_checksums"],
    )
    assert opened.equals(table)


class Kms(encryption.KmsClient):
    """A key management system that hands keys out in base 64."""

    def __init__(self, _config: object) -> None:
        super().__init__()

    def unwrap_key(self, wrapped_key: str, _master_key_identifier: str) -> Any:
        return base64.b64decode(wrapped_key)


def material(key: bytes, *, is_footer_key: bool) -> bytes:
    """Metadata of a key, as pyarrow's `CryptoFactory` expects it: the "key material" of parquet-java."""
    fields: dict[str, object] = {"keyMaterialType": "PKMT1", "internalStorage": True}
    fields |= {"isFooterKey": is_footer_key, "masterKeyID": "master", "doubleWrapping": False}
    if is_footer_key:
        fields |= {"kmsInstanceID": "DEFAULT", "kmsInstanceURL": "DEFAULT"}
    return json.dumps(fields | {"wrappedDEK": base64.b64encode(key).decode()}).encode()


def by_kms(data: bytes, columns: list[str] | None = None) -> pa.Table:
    factory = encryption.CryptoFactory(Kms)
    found = factory.file_decryption_properties(encryption.KmsConnectionConfig())
    return pq.read_table(io.BytesIO(data), decryption_properties=found, columns=columns)


@pytest.mark.parametrize("plaintext_footer", [False, True])
def test_pyarrow_reads_columns_with_keys_of_their_own(table: pa.Table, plaintext_footer: bool) -> None:  # noqa: FBT001
    element = ("tags", "list", "element")
    keys = spillway.Encryption(
        footer_key=KEY,
        footer_key_metadata=material(KEY, is_footer_key=True),
        column_keys={"word": OTHER_KEY, element: LONG_KEY, "score": None},
        column_key_metadata={
            "word": material(OTHER_KEY, is_footer_key=False),
            element: material(LONG_KEY, is_footer_key=False),
        },
        plaintext_footer=plaintext_footer,
    )
    data = written(table, keys, bloom_filter=["word"])
    assert by_kms(data).equals(table)
    # The footer's key opens what has no other.
    rest = ["id", "note", "score", "seen"]
    file: Any = pq.ParquetFile(io.BytesIO(data), decryption_properties=keys_of(KEY))
    opened = file.read(columns=rest)
    assert opened.equals(table.select(rest))
    with pytest.raises((OSError, pa.ArrowException)):
        pq.read_table(io.BytesIO(data), decryption_properties=keys_of(KEY))


def test_a_signed_footer_and_open_columns_are_read_without_a_key(table: pa.Table) -> None:
    keys = spillway.Encryption(footer_key=KEY, column_keys={"score": None}, plaintext_footer=True)
    file = pq.ParquetFile(io.BytesIO(written(table, keys)))
    assert file.schema_arrow.equals(table.schema)
    assert file.metadata.num_rows == table.num_rows
    assert file.read(columns=["score"]).equals(table.select(["score"]))
    with pytest.raises((OSError, pa.ArrowException)):
        file.read(columns=["id"])


def test_duckdb_reads_what_one_key_encrypts(tmp_path: Path) -> None:
    table = pa.table({"id": list(range(5_000)), "word": [f"word-{i % 97}" for i in range(5_000)]})
    path = tmp_path / "secret.parquet"
    spillway.write_parquet(table, path, encryption=spillway.Encryption(footer_key=KEY), row_group_rows=2_000)
    with duckdb.connect() as connection:
        connection.execute(f"PRAGMA add_parquet_key('key', '{KEY.decode()}')")
        query = f"FROM read_parquet('{path}', encryption_config={{footer_key: 'key'}})"
        assert connection.sql(query).to_arrow_table().equals(table)
        with pytest.raises(duckdb.Error):
            connection.execute(f"FROM read_parquet('{path}')")


@pytest.mark.parametrize(
    "given_keys", [{"key": OTHER_KEY}, {"key": LONG_KEY}, {"key": KEY, "aad_prefix": b"orders/2026-11-24"}]
)
@pytest.mark.parametrize("store", [True, False])
def test_a_wrong_key_or_prefix_is_an_error_of_the_reader(
    table: pa.Table,
    store: bool,  # noqa: FBT001
    given_keys: dict[str, Any],
) -> None:
    keys = spillway.Encryption(footer_key=KEY, aad_prefix=PREFIX, store_aad_prefix=store)
    data = written(table, keys)
    assert read(data, aad_prefix=PREFIX).equals(table)
    with pytest.raises((OSError, pa.ArrowException)):
        read(data, **given_keys)
    if not store:
        with pytest.raises((OSError, pa.ArrowException)):
            read(data)


def test_no_key_is_an_error_of_the_reader(table: pa.Table) -> None:
    data = written(table, spillway.Encryption(footer_key=KEY))
    with pytest.raises((OSError, pa.ArrowException), match=r"encrypt|decrypt"):
        pq.read_table(io.BytesIO(data))


@pytest.fixture(scope="module")
def small() -> tuple[pa.Table, bytes]:
    table = pa.table({"n": list(range(2_000)), "t": [f"{i % 90}" for i in range(2_000)]})
    return table, written(table, spillway.Encryption(footer_key=KEY), page_bytes=2_000)


@settings(max_examples=examples(2), deadline=None)
@given(at=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_a_flipped_bit_is_noticed_or_changes_nothing(
    small: tuple[pa.Table, bytes], at: float, bit: int
) -> None:
    table, data = small
    changed = bytearray(data)
    changed[int(at * len(data))] ^= 1 << bit
    try:
        opened = read(bytes(changed))
    except (OSError, pa.ArrowException):
        return
    assert opened.equals(table)  # the length of a module that the reader knows from elsewhere, or an index


def test_pages_cannot_change_their_files(small: tuple[pa.Table, bytes]) -> None:
    table, _ = small
    keys = spillway.Encryption(footer_key=KEY)
    one, other = (written(table.slice(start, 500), keys, compression="uncompressed") for start in (0, 500))
    # Two files of one key and one layout: the first page of one is put into the other.
    mixed = one[:4] + other[4:1_000] + one[1_000:]
    with pytest.raises((OSError, pa.ArrowException)):
        read(mixed)


def test_two_files_of_the_same_rows_have_other_bytes(table: pa.Table) -> None:
    keys = spillway.Encryption(footer_key=KEY)
    first, second = written(table, keys), written(table, keys)
    assert first != second
    assert len(first) == len(second)


def test_the_result_is_what_the_footer_says(table: pa.Table) -> None:
    file = io.BytesIO()
    keys = spillway.Encryption(footer_key=KEY)
    result = spillway.write_parquet(table, file, encryption=keys, row_group_rows=2_500)
    metadata: Any = pq.ParquetFile(file, decryption_properties=keys_of(KEY)).metadata
    assert result.bytes == len(file.getvalue())
    assert (result.rows, result.row_groups) == (metadata.num_rows, metadata.num_row_groups)
    for index, column in enumerate(result.columns):
        chunks = [metadata.row_group(group).column(index) for group in range(metadata.num_row_groups)]
        assert column.compressed_bytes == sum(chunk.total_compressed_size for chunk in chunks)
        assert column.nulls == sum(chunk.statistics.null_count for chunk in chunks)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"footer_key": b"hunter2"}, "its footer_key has 7 bytes, give 16"),
        ({"footer_key": b"hunter2 hunter2 hunter2!"}, "24 bytes"),
        ({"footer_key": KEY, "column_keys": {"a": b"hunter2"}}, 'column "a" has 7 bytes'),
        ({"footer_key": KEY, "aad_prefix": b""}, "its aad_prefix is empty"),
        ({"footer_key": KEY, "store_aad_prefix": False}, "give an aad_prefix"),
    ],
)
def test_a_key_of_another_length_is_refused_and_not_shown(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(spillway.OptionError, match=says) as caught:
        spillway.Encryption(**fields)
    assert caught.value.option == "encryption"
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"footer_key": "0123456789012345"}, "footer_key must be bytes, not str"),
        ({"footer_key": KEY, "column_keys": {"a": 3}}, "must be bytes, not int"),
        ({"footer_key": KEY, "aad_prefix": "x"}, "aad_prefix must be bytes"),
        ({"footer_key": KEY, "column_keys": KEY}, "column_keys must be a mapping.*, not bytes"),
        ({"footer_key": KEY, "column_key_metadata": 3}, "column_key_metadata must be a mapping.*, not int"),
        ({"footer_key": KEY, "plaintext_footer": KEY}, "plaintext_footer must be True or False, not bytes"),
        ({"footer_key": KEY, "store_aad_prefix": "no"}, "store_aad_prefix must be True or False, not str"),
        ({"footer_key": KEY, "column_key_metadata": {"a": b"x"}}, "has no key in column_keys"),
    ],
)
def test_a_value_of_another_type_is_a_type_error(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(TypeError, match=says) as caught:
        spillway.Encryption(**fields)
    assert "0123456789012345" not in str(caught.value)


def test_an_option_that_holds_no_keys_is_a_type_error() -> None:
    with pytest.raises(TypeError, match=r"must be a spillway\.Encryption") as caught:
        spillway.WriterOptions(encryption=KEY)  # type: ignore[arg-type]
    assert KEY.decode() not in str(caught.value)


def test_a_column_that_is_not_there_is_an_error(table: pa.Table, tmp_path: Path) -> None:
    keys = spillway.Encryption(footer_key=KEY, column_keys={"wrod": OTHER_KEY})
    with pytest.raises(spillway.OptionError, match=r'it has "id", "word"') as caught:
        spillway.write_parquet(table, tmp_path / "secret.parquet", encryption=keys)
    assert OTHER_KEY.decode() not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_column_in_two_spellings_is_refused(tmp_path: Path) -> None:
    table = pa.table({"a": [{"b": 1, "c": 2}]})
    keys = {"a.b": KEY, ("a", "b"): OTHER_KEY}
    with pytest.raises(spillway.OptionError, match=r'the column "a\.b" twice') as caught:
        spillway.write_parquet(
            table,
            tmp_path / "secret.parquet",
            encryption=spillway.Encryption(footer_key=KEY, column_keys=keys),
        )
    assert caught.value.option == "encryption"
    assert list(tmp_path.iterdir()) == []


def test_filters_that_wait_for_the_end_are_counted() -> None:
    # The first row group takes most of the memory, so that filters show where there are many of them.
    table = pa.table({"n": list(range(1_000_000))})
    options: Any = {"bloom_filter": True, "row_group_rows": 10_000}
    keys = spillway.Encryption(footer_key=KEY)
    filters = len(written(table, keys, **options)) - len(
        written(table, keys, **options | {"bloom_filter": False})
    )
    results = [
        spillway.write_parquet(table, io.BytesIO(), encryption=encryption, **options)
        for encryption in (None, keys)
    ]
    clear, sealed = (result.peak_tracked_bytes for result in results)
    assert sealed > clear + filters // 2, filters


def test_a_file_limit_counts_filters_that_wait_for_the_end(tmp_path: Path) -> None:
    table = pa.table({"n": list(range(1_200_000))})
    limit, filter_of_a_row_group = 1 << 20, 32 << 10
    result = spillway.write_dataset(
        pa.Table.from_batches(table.to_batches(max_chunksize=5_000)),
        tmp_path / "to",
        max_file_bytes=limit,
        row_group_rows=10_000,
        bloom_filter=True,
        encryption=spillway.Encryption(footer_key=KEY),
    )
    assert result.rows == table.num_rows
    assert max(file.result.bytes for file in result.files) <= limit + filter_of_a_row_group


def test_pages_of_few_rows_end_a_row_group_before_their_numbers_do() -> None:
    table = pa.table({"n": pa.repeat(7, 70_000)})
    data = written(table, spillway.Encryption(footer_key=KEY), page_rows=1)
    file: Any = pq.ParquetFile(io.BytesIO(data), decryption_properties=keys_of(KEY))
    groups = [file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups)]
    assert groups == [32_768, 32_768, 4_464]
    assert file.read().equals(table)


def test_no_text_of_options_shows_a_key() -> None:
    keys = spillway.Encryption(
        footer_key=KEY, column_keys={("a", "b"): OTHER_KEY, "c": None}, aad_prefix=PREFIX
    )
    options = spillway.WriterOptions(encryption=keys)
    shown = f"{keys!r} {keys} {options!r}"
    assert "a.b" in shown
    for secret in (KEY, OTHER_KEY, PREFIX):
        assert secret.decode() not in shown
        assert str(secret) not in shown
    assert pickle.loads(pickle.dumps(options)) == options  # noqa: S301 - its own
    assert dataclasses.replace(keys, plaintext_footer=True).plaintext_footer


def test_each_file_of_a_dataset_is_encrypted(tmp_path: Path) -> None:
    table = pa.table({"day": [1, 1, 2], "n": [1, 2, 3]})
    keys = spillway.Encryption(footer_key=KEY)
    result = spillway.write_dataset(table, tmp_path / "days", partition_by="day", encryption=keys)
    for file in result.files:
        data = (tmp_path / "days" / file.path).read_bytes()
        assert data.startswith(b"PARE")
        assert read(data).column_names == ["n"]


def test_a_delta_table_takes_no_encryption(tmp_path: Path) -> None:
    table = pa.table({"n": [1, 2, 3]})
    with pytest.raises(spillway.OptionError, match="its log holds") as caught:
        spillway.delta.write(tmp_path / "t", table, encryption=spillway.Encryption(footer_key=KEY))
    assert caught.value.option == "encryption"
    assert list(tmp_path.iterdir()) == []
    made = spillway.delta.create(tmp_path / "t", table.schema)
    with pytest.raises(spillway.OptionError, match="its log holds"):
        spillway.delta.write(made.path, table, encryption=spillway.Encryption(footer_key=KEY), mode="append")
    with pytest.raises(spillway.OptionError, match="page_rows=0"):
        spillway.delta.write(tmp_path / "u", table, page_rows=0)
    assert [path.name for path in tmp_path.iterdir()] == ["t"]


def test_an_inspection_says_that_the_footer_is_encrypted(table: pa.Table, tmp_path: Path) -> None:
    path = tmp_path / "secret.parquet"
    spillway.write_parquet(table, path, encryption=spillway.Encryption(footer_key=KEY))
    with pytest.raises(spillway.CorruptFileError, match="the footer is encrypted"):
        spillway.inspect_file(path)


def test_an_inspection_reads_a_signed_footer(table: pa.Table, tmp_path: Path) -> None:
    path = tmp_path / "signed.parquet"
    keys = spillway.Encryption(footer_key=KEY, column_keys={"score": None}, plaintext_footer=True)
    spillway.write_parquet(table, path, encryption=keys)
    report = spillway.inspect_file(path)
    columns = {column.path: column for column in report.row_groups[0].columns}
    assert columns["score"].min is not None
    assert columns["id"].min is None


SECRET = "carol-secret"  # noqa: S105 - a value


def named(metadata: dict[str, str] | None = None) -> pa.Field:
    return pa.field("who", pa.string(), metadata={"categories": SECRET, **(metadata or {})})


def with_secrets(layout: str) -> pa.Table:
    """A table whose column "c" has the secret in metadata of one of its fields, and in no value."""
    values = pa.array(["alice", None])
    field = {
        "flat": named(),
        "struct": pa.field("c", pa.struct([named(), pa.field("n", pa.int64())])),
        "list": pa.field("c", pa.list_(named())),
        "map": pa.field("c", pa.map_(pa.string(), named())),
        "list of structs": pa.field("c", pa.list_(pa.field("element", pa.struct([named()])))),
        "above": pa.field("c", pa.struct([pa.field("who", pa.string())]), metadata={"of who": SECRET}),
        "dictionary": pa.field("c", pa.dictionary(pa.int8(), pa.string()), metadata={"all": SECRET}),
        "extension": named({"ARROW:extension:name": "a.b", "ARROW:extension:metadata": SECRET}),
    }[layout].with_name("c")
    column = values if pa.types.is_string(field.type) else None
    if pa.types.is_dictionary(field.type):
        column = values.dictionary_encode().cast(field.type)
    rows = pa.nulls(2, field.type) if column is None else column
    beside = pa.field("open", pa.int64(), metadata={"kept": "beside"})
    return pa.table([rows, pa.array([1, 2])], pa.schema([field, beside]))


def texts_of(data: bytes) -> bytes:
    """All that is readable in a file: its bytes, and those that its base 64 stands for."""
    encoded = re.findall(rb"[A-Za-z0-9+/]{40,}={0,2}", data)
    return data + b"".join(base64.b64decode(text[: len(text) // 4 * 4]) for text in encoded)


LEAVES = {
    "flat": "c",
    "struct": "c.who",
    "list": "c.list.element",
    "map": "c.key_value.value",
    "list of structs": "c.list.element.who",
    "above": "c.who",
    "dictionary": "c",
    "extension": "c",
}


@pytest.mark.parametrize("layout", LEAVES)
@pytest.mark.parametrize("own_key", [False, True])
def test_metadata_of_encrypted_columns_is_not_in_a_signed_footer(layout: str, own_key: bool) -> None:  # noqa: FBT001
    table = with_secrets(layout)
    column_keys = {"open": None} | ({LEAVES[layout]: OTHER_KEY} if own_key else {})
    keys = spillway.Encryption(footer_key=KEY, column_keys=column_keys, plaintext_footer=True)
    for beside in (table, table.replace_schema_metadata({"all about c": SECRET, "pandas": "{}"})):
        data = written(beside, keys)
        assert SECRET.encode() not in texts_of(data)
        file = pq.ParquetFile(io.BytesIO(data))
        assert file.schema_arrow.names == table.column_names
        assert file.schema_arrow.field("open").metadata == {b"kept": b"beside"}
        assert b"pandas" in (file.schema_arrow.metadata or {}) or beside is table


@pytest.mark.parametrize("layout", LEAVES)
def test_the_footers_key_shows_no_metadata_of_columns_with_their_own(layout: str) -> None:
    table = with_secrets(layout).replace_schema_metadata({"all about c": SECRET})
    keys = spillway.Encryption(footer_key=KEY, column_keys={LEAVES[layout]: OTHER_KEY})
    file: Any = pq.ParquetFile(io.BytesIO(written(table, keys)), decryption_properties=keys_of(KEY))
    assert SECRET.encode() not in texts_of(b"".join((file.metadata.metadata or {}).values()))
    assert SECRET not in file.schema_arrow.to_string(show_field_metadata=True)
    assert file.schema_arrow.field("open").metadata == {b"kept": b"beside"}


def test_one_key_for_all_keeps_metadata_in_an_encrypted_footer() -> None:
    table = with_secrets("struct").replace_schema_metadata({"about": "all"})
    data = written(table, spillway.Encryption(footer_key=KEY))
    assert SECRET.encode() not in texts_of(data)
    opened: Any = pq.ParquetFile(io.BytesIO(data), decryption_properties=keys_of(KEY))
    assert opened.schema_arrow.equals(table.schema, check_metadata=True)


def test_categories_of_an_encrypted_enum_are_in_no_footer() -> None:
    enum = pl.Enum(["alice", SECRET])
    who = pl.Series(["alice"], dtype=enum)
    deep = pl.Series([[{"x": "alice"}]], dtype=pl.List(pl.Struct({"x": enum})))
    frame = pl.DataFrame({"who": who, "deep": deep, "n": [1]})
    for column_keys in ({"who": OTHER_KEY, "deep.list.element.x": LONG_KEY, "n": None}, {"n": None}):
        keys = spillway.Encryption(footer_key=KEY, column_keys=column_keys, plaintext_footer=True)
        file = io.BytesIO()
        spillway.write_parquet(frame, file, encryption=keys)
        assert SECRET.encode() not in texts_of(file.getvalue())
