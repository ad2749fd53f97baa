"""TPC-H's lineitem, and columns by number."""

from __future__ import annotations

import pyarrow as pa
import pytest

from spillway import datasets
from spillway.datasets import packaged
from spillway.errors import MissingExtraError, OptionError


def table(prepared):
    with pa.memory_map(str(prepared.path)) as file:
        return pa.ipc.open_file(file).read_all()


@pytest.mark.parametrize("rows", [1, 60_000, 125_000])
def test_lineitem_has_the_rows_that_were_asked_for(tmp_path, rows):
    found = table(datasets.prepare("lineitem", rows=rows, cache=tmp_path))
    assert found.num_rows == rows
    assert len(found.schema.names) == 16
    assert found.column("l_orderkey").to_pylist()[:1] == [1]
    assert not {"string_view", "large_string"} & {str(data_type) for data_type in found.schema.types}


def test_parts_in_turn_are_the_rows_of_the_whole():
    rows = 59_000
    with packaged.open_lineitem(rows) as whole:
        expected = pa.Table.from_batches(whole.batches)
    made = []
    for part in range(3):
        with packaged.open_lineitem(rows, part=part, parts=3) as stream:
            made.append(pa.Table.from_batches(stream.batches, schema=stream.schema))
    assert all(part.num_rows for part in made)
    assert pa.concat_tables(made).equals(expected)


def test_without_its_package_lineitem_names_the_extra(tmp_path, monkeypatch):
    def absent(_name):
        raise packaged.metadata.PackageNotFoundError

    monkeypatch.setattr(packaged.metadata, "version", absent)
    with pytest.raises(MissingExtraError, match=r"tpchgen-cli is needed .* pip install 'spillway\[bench\]'"):
        datasets.prepare("lineitem", rows=10, cache=tmp_path)


def test_wide_has_as_many_columns_as_its_name_says(tmp_path):
    found = table(datasets.prepare("wide:23", rows=1_000, cache=tmp_path))
    assert (found.num_rows, found.num_columns) == (1_000, 23)
    assert found.column("c0006").to_pylist() == list(range(1_000))
    assert found.column("c0002").null_count > 0


def test_more_columns_leave_those_before_them_as_they_are():
    few, many = (datasets.chunk(name, 1, 0) for name in ("wide:10", "wide:30"))
    assert many.select(few.schema.names) == few


@pytest.mark.parametrize("name", ["wide:0", "wide:10001"])
def test_a_number_of_columns_that_cannot_be_is_refused(name):
    with pytest.raises(OptionError, match="1 to 10,000"):
        datasets.columns(name)
