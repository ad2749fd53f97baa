"""Mistakes that are easily made get an error that says what to write instead; harmless forms are accepted."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import spillway.delta
from spillway.errors import (
    NotArrowError,
    OptionError,
    SchemaError,
    UnknownOptionError,
    VersionNotFoundError,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SCHEMA = pa.schema(
    {"id": pa.int32(), "service": pa.string(), "price": pa.decimal128(9, 2), "day": pa.date32()}
)


@pytest.fixture
def table(tmp_path: Path) -> spillway.delta.Table:
    table = spillway.delta.create(tmp_path / "t", SCHEMA)
    table.append_rows([{"id": 1, "service": "api"}, {"id": 2, "service": None}])
    return table


@pytest.mark.parametrize(
    ("call", "kind", "match"),
    [
        (lambda t: t.scan(where=[("servcie", "=", "api")]), OptionError, r"did you mean service\?"),
        (lambda t: t.scan(where="dya IS NULL"), OptionError, r"did you mean day\?$"),
        (lambda t: t.scan("servcie"), SchemaError, r"did you mean service\?"),
        (lambda t: t.scan(where="Day IS NULL"), OptionError, "case matters: write day$"),
        (
            lambda t: t.scan(where=[("price", "<", 7)]),
            OptionError,
            r"which is a decimal: write the condition in SQL",
        ),
        (lambda t: t.scan(where=[("day", "=", "20.11.2026")]), OptionError, "a text such as '2026-01-31'"),
        (lambda t: t.scan(where="service LIKE 'a%'"), OptionError, "patterns are not supported; give comp"),
        (lambda t: t.scan(where="id IS 1"), OptionError, "but NULL or NOT NULL after IS; give comp"),
        (lambda t: t.append_rows([{"id": 1}]) and append(t), SchemaError, "cast it to Int32 first"),
        (lambda t: t.merge([{"id": 1}], "id"), NotArrowError, r"give pyarrow\.Table\.from_pylist\(rows\)"),
        (lambda t: t.merge(pa.table({"id": [1]}), "target.id = source.id"), OptionError, "no condition$"),
        (lambda t: t.vacuum(retention=0), OptionError, r"such as timedelta\(days=7\)"),
        (lambda t: t.changes(dt.datetime(2026, 1, 1, tzinfo=dt.UTC)), OptionError, "the number of a version"),
        (lambda t: t.history(-1), OptionError, "limit=-1 is not accepted: give 0 or more"),
        (lambda t: t.scan(version=2**63), VersionNotFoundError, "9223372036854775807"),
        (lambda t: t.files(version=2**70), VersionNotFoundError, "9223372036854775807"),
        (lambda t: t.restore(2**65), VersionNotFoundError, "9223372036854775807"),
        (lambda t: t.scan(where=[("id", "=", 2**70)]), OptionError, "which ends before 2"),
        (lambda t: t.outcome("nonsense"), OptionError, "is not that of a CommitUnknown"),
        (lambda t: t.set_properties({"team": 1.5}), OptionError, "a value is text"),
        (lambda t: spillway.delta.open(t.path, version=0), UnknownOptionError, r"scan\(version=\.\.\.\)"),
    ],
)
def test_the_error_says_what_to_write(
    table: spillway.delta.Table, call: Callable[[Any], object], kind: type[Exception], match: str
) -> None:
    with pytest.raises(kind, match=match):
        call(table)


def append(table: spillway.delta.Table) -> None:
    with table.append() as append:
        append.write(pa.table({"id": [1]}))  # of 64 bits, as polars and pandas make them


def test_no_condition_is_none_too(table: spillway.delta.Table) -> None:
    assert pa.table(table.scan(where=None)).num_rows == 2
    assert table.optimize(where=None).version >= 1
    version = spillway.delta.write(table.path, [{"id": 3}], mode="overwrite", where=None)
    assert pa.table(table.scan("id", version=version))["id"].to_pylist() == [3]


def test_a_whole_float_is_an_integer(table: spillway.delta.Table) -> None:
    assert pa.table(table.scan("id", where=[("id", "=", 1.0)]))["id"].to_pylist() == [1]
    assert pa.table(table.scan("id", where=[("id", "in", [2.0, 7])]))["id"].to_pylist() == [2]


def test_none_goes_with_every_type(table: spillway.delta.Table) -> None:
    assert pa.table(table.scan(where=[("price", "=", None)])).num_rows == 2


def test_none_in_a_tuple_is_null(table: spillway.delta.Table) -> None:
    for operator, found in (("=", [2]), ("!=", [1])):
        rows = pa.table(table.scan("id", where=[("service", operator, None)]))
        assert rows["id"].to_pylist() == found


def test_properties_may_be_booleans_and_numbers(tmp_path: Path) -> None:
    properties = {"delta.appendOnly": True, "delta.checkpointInterval": 20}
    table = spillway.delta.create(tmp_path / "t", SCHEMA, properties=properties)
    assert table.properties == {"delta.appendOnly": "true", "delta.checkpointInterval": "20"}
