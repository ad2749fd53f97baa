"""Every client of an object store refuses options that it does not understand, before it asks the store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import spillway
from spillway.cli.app import app
from spillway.errors import OptionError
from spillway.race.location import Location
from spillway.spark.run import job_of
from spillway.spark.uploads import find_uploads
from spillway.spark.write_job import Target

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ROWS = pa.table({"id": [1]})


def spark(kind: str) -> Callable[[str, dict[str, str]], object]:
    def begin(url: str, options: dict[str, str]) -> None:
        target: Any = {"table": kind, "overwrite": False, "options": {}, "storage_options": options}
        job_of(Target.of(url, ROWS.schema, **target)).begin()

    return begin


CLIENTS: dict[str, Callable[[str, dict[str, str]], object]] = {
    "file": lambda url, options: spillway.write_parquet(ROWS, url, storage_options=options),
    "dataset": lambda url, options: spillway.write_dataset(ROWS, url, storage_options=options),
    "create": lambda url, options: spillway.delta.create(url, ROWS.schema, storage_options=options),
    "open": lambda url, options: spillway.delta.open(url, storage_options=options),
    "table": lambda url, options: spillway.delta.write(url, ROWS, storage_options=options),
    "Spark's folder": spark("parquet"),
    "Spark's table": spark("delta"),
    "uploads": find_uploads,
    "race": Location.of,
}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(
    ("unknown", "says"),
    [
        ("aws_reigon", "AWS_REGION is the nearest"),
        ("secret_acess_key", "AWS_SECRET_ACCESS_KEY is the nearest"),
        ("colour", "AWS_ACCESS_KEY_ID"),
    ],
)
def test_an_unknown_option_is_refused_with_the_nearest(client: str, unknown: str, says: str) -> None:
    with pytest.raises(OptionError, match=says) as caught:
        CLIENTS[client]("s3://bucket/to", {"AWS_REGION": "here", unknown: "hidden"})
    assert caught.value.option == "storage_options"
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize("client", CLIENTS)
def test_options_of_a_path_are_refused(client: str, tmp_path: Path) -> None:
    with pytest.raises(OptionError):
        CLIENTS[client](str(tmp_path / "to"), {"AWS_REGION": "here"})
    assert not list(tmp_path.iterdir())


def test_the_command_refuses_them_too(tmp_path: Path) -> None:
    (tmp_path / "rows.ndjson").write_text('{"id": 1}\n')
    command = ["write", str(tmp_path / "rows.ndjson"), "s3://bucket/to", "--storage-option", "aws_reigon=x"]
    refused = CliRunner().invoke(app, command)
    assert refused.exit_code == 2
    assert "AWS_REGION is the nearest" in " ".join(refused.stderr.split())
