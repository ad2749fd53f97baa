"""Data that is refused: the error says what is wrong, and the writer goes on without a row lost or
doubled.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import spillway

from .programs import run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCHEMA = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), ("word", pa.string()), ("at", pa.timestamp("us", "UTC"))]
)


def batch(*ids: int) -> pa.RecordBatch:
    columns = [
        pa.array(ids, pa.int64()),
        pa.array([f"w{number}" for number in ids]),
        pa.array(ids, SCHEMA.field("at").type),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def changed(column: str, array: pa.Array) -> pa.RecordBatch:
    index = SCHEMA.get_field_index(column)
    return batch(7, 8).set_column(index, column, array)


MISFITS: dict[str, tuple[pa.RecordBatch, str]] = {
    "another type": (changed("word", pa.array([1, 2])), "word"),
    "a narrower type": (changed("id", pa.array([1, 2], pa.int32())), "id"),
    "another unit": (changed("at", pa.array([1, 2], pa.timestamp("ms", "UTC"))), "at"),
    "no zone": (changed("at", pa.array([1, 2], pa.timestamp("us"))), "at"),
    "a missing column": (batch(7).drop_columns(["at"]), "at"),
    "one column more": (batch(7).append_column("extra", pa.array([1])), "extra"),
    "another order": (batch(7).select(["word", "id", "at"]), "word"),
    "another name": (batch(7).rename_columns(["id", "wort", "at"]), "wort"),
    "a null": (changed("id", pa.array([1, None])), "id"),
}


@pytest.mark.parametrize("name", MISFITS)
def test_a_third_batch_that_does_not_fit_is_refused_by_column(tmp_path: Path, name: str) -> None:
    wrong, column = MISFITS[name]
    path = tmp_path / "a.parquet"
    with spillway.ParquetWriter(path, SCHEMA) as writer:
        writer.write(batch(1))
        writer.write(batch(2))
        with pytest.raises(spillway.SchemaError, match=column):
            writer.write(wrong)
        assert not writer.closed
        writer.write(batch(3))
    assert pq.read_table(path).column("id").to_pylist() == [1, 2, 3]
    assert writer.result.rows == 3


def test_a_misfit_in_a_stream_keeps_the_batches_before_it(tmp_path: Path) -> None:
    """A stream whose schema fits may still bring a null where none is allowed."""
    loose = pa.schema([pa.field(field.name, field.type) for field in SCHEMA])

    def batches() -> Iterator[pa.RecordBatch]:
        yield batch(1).cast(loose)
        yield changed("id", pa.array([5, None])).cast(loose)
        yield batch(9).cast(loose)

    with spillway.ParquetWriter(tmp_path / "a.parquet", SCHEMA) as writer:
        with pytest.raises(spillway.SchemaError, match="id"):
            writer.write(pa.RecordBatchReader.from_batches(loose, batches()))
        writer.write(batch(3))
    assert pq.read_table(tmp_path / "a.parquet").column("id").to_pylist() == [1, 3]


@pytest.mark.parametrize(
    "data_type", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())], ids=str
)
def test_layouts_of_one_type_fit_each_other(tmp_path: Path, data_type: pa.DataType) -> None:
    path = tmp_path / "a.parquet"
    with spillway.ParquetWriter(path, SCHEMA) as writer:
        writer.write(batch(1))
        other = changed("word", pa.array(["x", None]).cast(data_type))
        writer.write(other.replace_schema_metadata({"some": "metadata"}))
    assert pq.read_table(path).column("word").to_pylist() == ["w1", "x", None]


def test_a_null_deep_in_a_required_field_is_refused_by_path(tmp_path: Path) -> None:
    inner = pa.struct([pa.field("must", pa.int64(), nullable=False)])
    schema = pa.schema([("outer", pa.list_(inner))])
    loose = pa.array([[{"must": 1}], [{"must": None}]], pa.list_(pa.struct([("must", pa.int64())])))
    with (
        pytest.raises(spillway.SchemaError, match="must"),
        spillway.ParquetWriter(tmp_path / "a.parquet", schema) as writer,
    ):
        writer.write(pa.table({"outer": loose}))


@pytest.mark.parametrize("thing", [1, "text", b"bytes", None, [1, 2], {"a": [1]}, object(), pa.schema([])])
def test_what_is_not_arrow_is_refused_and_the_message_says_what_is(tmp_path: Path, thing: Any) -> None:
    with spillway.ParquetWriter(tmp_path / "a.parquet", SCHEMA) as writer:
        with pytest.raises(spillway.NotArrowError, match="__arrow_c_stream__"):
            writer.write(thing)
        writer.write(batch(1))
    assert pq.read_table(tmp_path / "a.parquet").num_rows == 1


def test_arrow_data_without_columns_is_refused(tmp_path: Path) -> None:
    with spillway.ParquetWriter(tmp_path / "a.parquet", SCHEMA) as writer:
        with pytest.raises((spillway.SchemaError, spillway.NotArrowError)):
            writer.write(pa.array([1, 2]))
        with pytest.raises((spillway.SchemaError, spillway.NotArrowError)):
            writer.write(pa.chunked_array([[1], [2]]))
        writer.write(batch(1))
    assert writer.result.rows == 1


def test_nulls_of_the_top_level_struct_are_not_lost_silently(tmp_path: Path) -> None:
    structs = pa.array([{"n": 1}, None, {"n": 3}], pa.struct([("n", pa.int64())]))
    try:
        spillway.write_parquet(structs, tmp_path / "a.parquet")
    except spillway.SpillwayError:
        return
    assert pq.read_table(tmp_path / "a.parquet").column("n").to_pylist() == [1, None, 3]


def test_a_closed_writer_says_so(tmp_path: Path) -> None:
    with spillway.ParquetWriter(tmp_path / "a.parquet", SCHEMA) as writer:
        writer.write(batch(1))
    with pytest.raises(spillway.ClosedError, match="closed"):
        writer.write(batch(2))
    with pytest.raises(spillway.ClosedError):
        writer.flush()
    writer.close()
    writer.abort()
    assert writer.closed
    assert writer.result.rows == 1
    assert pq.read_table(tmp_path / "a.parquet").num_rows == 1


def test_an_aborted_writer_says_so_and_leaves_nothing(tmp_path: Path) -> None:
    writer = spillway.ParquetWriter(tmp_path / "a.parquet", SCHEMA, row_group_rows=1)
    writer.write(batch(1, 2, 3))
    writer.abort()
    writer.abort()
    assert list(tmp_path.iterdir()) == []
    for use in (lambda: writer.write(batch(1)), writer.flush, writer.close, lambda: writer.result):
        with pytest.raises(spillway.ClosedError):
            use()


def test_an_open_writer_has_no_result_yet(tmp_path: Path) -> None:
    with (
        spillway.ParquetWriter(tmp_path / "a.parquet", SCHEMA) as writer,
        pytest.raises(ValueError, match="open"),
    ):
        _ = writer.result


def test_no_schema_and_no_batch_is_an_error_that_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(spillway.SchemaError, match="schema"), spillway.ParquetWriter(tmp_path / "a.parquet"):
        pass
    assert list(tmp_path.iterdir()) == []


class OwnError(Exception):
    pass


class Raising:
    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        raise OwnError("from the producer")


def test_the_exception_of_a_producers_method_comes_through(tmp_path: Path) -> None:
    with spillway.ParquetWriter(tmp_path / "a.parquet", SCHEMA) as writer:
        with pytest.raises(OwnError, match="from the producer"):
            writer.write(Raising())
        writer.write(batch(1))
    assert writer.result.rows == 1


def test_a_stream_that_raises_in_the_middle_loses_nothing_before_it(tmp_path: Path) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield batch(1)
        yield batch(2)
        raise OwnError("the source went away")

    with spillway.ParquetWriter(tmp_path / "a.parquet", SCHEMA) as writer:
        with pytest.raises(Exception, match="the source went away"):
            writer.write(pa.RecordBatchReader.from_batches(SCHEMA, batches()))
        writer.write(batch(3))
    assert pq.read_table(tmp_path / "a.parquet").column("id").to_pylist() == [1, 2, 3]


@pytest.mark.parametrize(
    "answer", ["None", "1", "(1, 2)", "capsule(0, b'wrong')", "capsule(1, b'arrow_array_stream')", "empty"]
)
def test_capsules_that_are_none_are_errors(answer: str) -> None:
    """Apart, because a reader of lies may crash: capsules of the wrong name, of nothing, or of a released
    stream.
    """
    found = run(
        """
        import ctypes, io, json, sys
        import pyarrow as pa, spillway
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        released = ctypes.create_string_buffer(40)
        keep = []
        def capsule(_, name):
            keep.append(name)
            return new(ctypes.addressof(released), name, None)
        class Liar:
            def __arrow_c_stream__(self, requested_schema=None):
                if sys.argv[1] == "empty":
                    stream = pa.table({"n": [1]}).__arrow_c_stream__()
                    pa.RecordBatchReader._import_from_c_capsule(stream)
                    return stream
                return eval(sys.argv[1])
        with spillway.ParquetWriter(io.BytesIO()) as writer:
            try:
                writer.write(Liar())
                answer = "accepted"
            except Exception as error:
                answer = [type(error).__name__, str(error)]
            writer.write(pa.table({"n": [1]}))
        print(json.dumps(answer))
        """,
        answer,
    )
    assert found != "accepted"
    assert found[0] != "PanicException"
    assert found[1]


# Each tampers with one field of an exported record batch of two columns and 1,000 rows.
TAMPER = """
    import ctypes, io, json, sys
    import pyarrow as pa, spillway
    class Array(ctypes.Structure):
        pass
    counts = ("length", "null_count", "offset", "n_buffers", "n_children")
    Array._fields_ = [(name, ctypes.c_int64) for name in counts] + [
        ("buffers", ctypes.POINTER(ctypes.c_void_p)), ("children", ctypes.POINTER(ctypes.POINTER(Array))),
        ("dictionary", ctypes.c_void_p), ("release", ctypes.c_void_p), ("private_data", ctypes.c_void_p)]
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    class Liar:
        def __arrow_c_array__(self, requested_schema=None):
            batch = pa.record_batch({"n": pa.array(range(1000)), "s": [str(row) for row in range(1000)]})
            schema, array = batch.__arrow_c_array__()
            top = Array.from_address(pointer(array, b"arrow_array"))
            first, second = top.children[0].contents, top.children[1].contents
            exec(sys.argv[1])
            return schema, array
    with spillway.ParquetWriter(io.BytesIO()) as writer:
        try:
            writer.write(Liar())
            answer = "accepted"
        except Exception as error:
            answer = [type(error).__name__, str(error)]
        writer.write(pa.table({"n": [1], "s": ["x"]}))
    print(json.dumps(answer))
"""


@pytest.mark.parametrize(
    "lie",
    [
        "first.length = 999",
        "second.length = 0",
        "top.n_children = 1",
        "top.n_children = 0",
        "first.n_buffers = 1",
        "first.buffers[1] = None",
        "top.length = -1",
        "first.offset = -1",
    ],
)
def test_arrays_that_contradict_their_schema_are_errors(lie: str) -> None:
    found = run(TAMPER, lie)
    assert found != "accepted"
    assert found[0] != "PanicException"


@pytest.mark.parametrize("truth", ["top.null_count = -1", "first.null_count = -1", "second.null_count = -1"])
def test_unknown_null_counts_are_no_error(truth: str) -> None:
    assert run(TAMPER, truth) == "accepted"


def test_a_null_buffer_of_no_rows_is_no_error(tmp_path: Path) -> None:
    empty = pa.Array.from_buffers(pa.int64(), 0, [None, None])
    spillway.write_parquet(pa.table({"n": empty}), tmp_path / "a.parquet")
    assert pq.read_table(tmp_path / "a.parquet").num_rows == 0


@pytest.mark.parametrize(
    ("options", "mentions"),
    [
        ({"compression": "lzo"}, "zstd"),
        ({"compression": "ZSTD"}, "zstd"),
        ({"compression_level": 99}, "22"),
        ({"compression": "snappy", "compression_level": 1}, "snappy"),
        ({"row_group_rows": 0}, "row_group_rows"),
        ({"row_group_rows": -1}, "row_group_rows"),
        ({"row_group_bytes": 0}, "row_group_bytes"),
        ({"page_bytes": 0}, "page_bytes"),
        ({"page_bytes": 2**40}, "page_bytes"),
        ({"compatibility": "v2"}, "modern"),
        ({"timestamps": "ns"}, "keep"),
        ({"dictionary": {"no such column": True}}, "no such column"),
        ({"metadata": {"ARROW:schema": "x"}}, "ARROW:schema"),
    ],
    ids=str,
)
def test_options_that_are_not_accepted_say_what_is(tmp_path: Path, options: Any, mentions: str) -> None:
    with pytest.raises(spillway.OptionError, match=mentions):
        spillway.write_parquet(batch(1), tmp_path / "a.parquet", **options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "options",
    [
        {"row_group_rows": "many"},
        {"row_group_rows": 1.5},
        {"durable": "yes"},
        {"metadata": {"k": 1}},
        {"dictionary": "a"},
    ],
    ids=str,
)
def test_options_of_another_type_are_refused_by_name(tmp_path: Path, options: Any) -> None:
    with pytest.raises((TypeError, spillway.OptionError), match=next(iter(options))):
        spillway.write_parquet(batch(1), tmp_path / "a.parquet", **options)


def test_unknown_options_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="row_group_size"):
        spillway.write_parquet(batch(1), tmp_path / "a.parquet", row_group_size=5)


def test_metadata_keeps_odd_text(tmp_path: Path) -> None:
    odd = {"": "", "żółć": "🦀" * 1000, "zero": "a\x00b", "long": "x" * 100_000, "newline": "\n"}
    spillway.write_parquet(batch(1), tmp_path / "a.parquet", metadata=odd)
    kept = pq.read_metadata(tmp_path / "a.parquet").metadata
    assert {key: kept[key.encode()].decode() for key in odd} == odd


def test_lone_surrogates_in_metadata_are_refused(tmp_path: Path) -> None:
    with pytest.raises((UnicodeError, spillway.OptionError)):
        spillway.write_parquet(batch(1), tmp_path / "a.parquet", metadata={"k": "\ud800"})


def test_a_refused_batch_leaves_no_trace_in_the_bytes() -> None:
    """The file is the one that would have been written without the refused batch."""
    with_refusal, without = io.BytesIO(), io.BytesIO()
    for out in (with_refusal, without):
        with spillway.ParquetWriter(out, SCHEMA) as writer:
            writer.write(batch(1, 2))
            if out is with_refusal:
                with pytest.raises(spillway.SchemaError):
                    writer.write(changed("id", pa.array([5, None])))
            writer.write(batch(3))
    assert with_refusal.getvalue() == without.getvalue()
