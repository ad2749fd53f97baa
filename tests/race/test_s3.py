"""Races on an S3 server, by conditional writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spillway.race.location import Location, log_name

from .conftest import ON_S3, invoke, races_in

if TYPE_CHECKING:
    from pathlib import Path

    from ..stores.server import Bucket


def test_a_name_is_taken_once(bucket: Bucket) -> None:
    files = Location(bucket.url("once"), bucket.options()).files()
    with files.draft(b"first") as first, files.draft(b"second") as second:
        assert first.put_new(log_name(0))
        assert not second.put_new(log_name(0))
        assert second.put_new(log_name(1))
    assert files.read(log_name(0)) == b"first"
    assert files.read(log_name(2)) is None
    assert files.names() == {log_name(0), log_name(1)}
    files.remove()
    assert files.names() == set()


def test_deletes_race_and_their_vectors_are_read(bucket: Bucket, out: Path) -> None:
    options = [f"--storage-option={name}={value}" for name, value in bucket.options().items()]
    raced = ("--work", "delete", "--committers", "row-level", "--writers", "3", "--rows", "5000")
    result = invoke(out, *raced, "--store", bucket.url("here"), *options)
    assert result.exit_code == 0, result.output
    (record,) = races_in(out)
    assert (record["outcome"], record["table"]["present"], record["table"]["problems"]) == ("ok", 3, [])
    assert record["table"]["rows"] == {"delta-rs": 85_000, "polars": 85_000}


@pytest.mark.parametrize("committer", ON_S3)
def test_a_race_is_held_and_checked_and_leaves_nothing(bucket: Bucket, out: Path, committer: str) -> None:
    options = [f"--storage-option={name}={value}" for name, value in bucket.options().items()]
    arguments = ("--committers", committer, "--writers", "3", "--store", bucket.url("here"))
    result = invoke(out, *arguments, *options)
    assert result.exit_code == 0, result.output
    (record,) = races_in(out)
    assert (record["outcome"], record["table"]["present"], record["table"]["problems"]) == ("ok", 3, [])
    assert record["table"]["rows"] == {"delta-rs": 30, "polars": 30}
    left = bucket.keys()
    assert not [key for key in left if key.startswith("here")]
    (folder,) = out.iterdir()
    report = (folder / "report.md").read_text()
    assert "tables on an S3 server at 127.0.0.1, not on Amazon S3" in report
    secret = bucket.options()["AWS_SECRET_ACCESS_KEY"]
    assert not any(secret in path.read_text() for path in folder.iterdir() if path.is_file())
