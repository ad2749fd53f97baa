"""Real tables of packages: all their rows, with the types that they mean, read where pip put them."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from spillway import datasets
from spillway.datasets import packaged
from spillway.errors import MissingExtraError, SpillwayError


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    cache = tmp_path_factory.mktemp("cache")
    found = {}
    for name in datasets.packaged_names():
        prepared = datasets.prepare(name, cache=cache)
        with pa.memory_map(str(prepared.path)) as file:
            found[name] = pa.ipc.open_file(file).read_all()
        assert prepared.rows == found[name].num_rows
    return found


def test_all_flights_are_there_with_nulls_for_those_that_were_cancelled(tables):
    flights = tables["flights"]
    assert flights.num_rows == 336_776
    assert flights["dep_time"].null_count == 8_255
    assert flights["tailnum"].null_count == 2_512
    assert flights["distance"].null_count == 0
    assert flights["time_hour"].type == pa.timestamp("us", "UTC")
    assert flights["time_hour"][0].as_py() == dt.datetime(2013, 1, 1, 10, tzinfo=dt.UTC)
    assert pc.sum(flights["distance"]).as_py() == 350_217_607


def test_cities_have_lists_of_names(tables):
    cities = tables["cities"]
    assert cities["alternatenames"].type == pa.list_(pa.string())
    assert cities.num_rows > 30_000
    names = dict(zip(cities["geonameid"].to_pylist(), cities["alternatenames"].to_pylist(), strict=True))
    assert "Paryż" in names[2988507]


def test_the_first_rows_are_those_that_are_asked_for(tmp_path):
    prepared = datasets.prepare("flights", rows=1000, cache=tmp_path)
    assert prepared.rows == 1000
    assert prepared.source == "flights"


def test_a_package_that_is_not_installed_says_what_to_do(monkeypatch):
    absent = packaged._Packaged("no-such-package", "data", packaged._flights)
    monkeypatch.setitem(packaged.PACKAGED, "flights", absent)
    with pytest.raises(MissingExtraError, match=r"spillway\[datasets\]"):
        datasets.prepare("flights")


def test_a_package_without_the_file_says_which(monkeypatch):
    found = packaged.PACKAGED["flights"]
    monkeypatch.setitem(packaged.PACKAGED, "flights", found._replace(path="data/absent.csv"))
    with pytest.raises(SpillwayError, match=r"has no data/absent\.csv: install another version"):
        packaged.open_packaged("flights")
