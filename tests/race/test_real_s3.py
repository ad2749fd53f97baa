"""Races with their cost known beforehand, rehearsed at a server on the loopback."""

from __future__ import annotations

import json
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest

from spillway.errors import OptionError, SpillwayError
from spillway.race import real_s3
from spillway.race.real_s3 import CELLS, RealS3, Requests, cell, requests_of
from spillway.race.run import Options

from ..stores.server import SECONDS
from .conftest import invoke, races_in, start

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ..stores.server import Bucket, Fault, Proxy, Request

    Faulty = Callable[[Callable[[Request], Fault]], Proxy]

FEW = (cell("spillway", 4, 2, processes=2), cell("delta-rs-retry", 3, 1))
OPTIONS = Options(committers=("spillway",), writers=(1,))


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer races, and no credentials but those that a test gives."""
    monkeypatch.setattr(real_s3, "CELLS", FEW)
    for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)


def found(bucket: Bucket, store: str, **options: str) -> RealS3:
    return RealS3.find(store, bucket.options(**options), OPTIONS, print, keep=False)


def counted(seen: list[Request]) -> Requests:
    """Requests as Amazon bills them. A DELETE is free."""
    lists = sum(each.method == "GET" and "list-type=" in each.path for each in seen)
    puts = sum(each.method in {"PUT", "POST"} for each in seen)
    return Requests(puts + lists, sum(each.method in {"GET", "HEAD"} for each in seen) - lists)


def test_the_estimate_is_at_least_what_is_sent_and_at_most_twice_that(
    bucket: Bucket, faulty: Faulty, out: Path
) -> None:
    proxy = faulty(lambda _: None)
    options = bucket.options(AWS_ENDPOINT_URL=f"http://127.0.0.1:{proxy.port}")
    arguments = [f"--storage-option={name}={value}" for name, value in options.items()]
    result = invoke(out, "--real-s3", "--yes", "--store", bucket.url("here"), *arguments)
    assert result.exit_code == 0, result.output
    assert [record["outcome"] for record in races_in(out)] == ["ok"] * len(FEW)
    sent = counted(proxy.seen)
    estimate = found(bucket, bucket.url("here")).estimate
    assert sent.puts <= estimate.puts <= 2 * sent.puts
    assert sent.gets <= estimate.gets <= 2 * sent.gets
    assert bucket.keys() == []
    assert "0 objects left" in result.output
    (folder,) = out.iterdir()
    environment = json.loads((folder / "environment.json").read_text())
    assert environment["store"] == "S3"
    assert 0 < environment["get_seconds"] < 10
    assert "where a GET took" in (folder / "report.md").read_text()
    secrets = (bucket.name, options["AWS_SECRET_ACCESS_KEY"])
    texts = [path.read_text(errors="replace") for path in folder.iterdir() if path.is_file()]
    assert not [secret for secret in secrets for text in texts if secret in text]


def test_nothing_is_written_before_the_answer(bucket: Bucket, faulty: Faulty, out: Path) -> None:
    proxy = faulty(lambda _: None)
    options = bucket.options(AWS_ENDPOINT_URL=f"http://127.0.0.1:{proxy.port}")
    arguments = [f"--storage-option={name}={value}" for name, value in options.items()]
    result = invoke(out, "--real-s3", "--store", bucket.url("here"), *arguments)
    assert result.exit_code == 1
    assert "USD" in result.output
    assert {request.method for request in proxy.seen} <= {"GET", "HEAD"}
    assert list(out.iterdir()) == []


@pytest.mark.parametrize(
    ("store", "words"),
    [
        ("folder", "needs --store s3://"),
        ("s3://bucket", "needs --store s3://"),
        ("s3://lake--use1-az4--x-s3/races", "general purpose"),
    ],
)
def test_a_store_that_is_no_prefix_is_refused(store: str, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        RealS3.find(store, {}, OPTIONS, print, keep=False)


def test_missing_credentials_and_buckets_and_objects_are_refused(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SpillwayError, match="no bucket"):
        found(bucket, "s3://nobody-has-this-one/here")
    with pytest.raises(SpillwayError, match="s3:ListBucket"):
        found(bucket, bucket.url("here"), AWS_ACCESS_KEY_ID="nobody")
    bucket.put("here/of-others", b"")
    with pytest.raises(OptionError, match="holds objects"):
        found(bucket, bucket.url("here"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    options = {name: value for name, value in bucket.options().items() if "KEY" not in name}
    with pytest.raises(OptionError, match="no credentials"):
        RealS3.find(bucket.url("there"), options, OPTIONS, print, keep=False)


def test_a_store_without_conditional_put_is_refused(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spillway.race.location.S3Files.put_new", lambda *_: True)
    with pytest.raises(SpillwayError, match="If-None-Match"):
        found(bucket, bucket.url("here")).prove()


def test_an_interrupted_run_leaves_nothing(bucket: Bucket, out: Path) -> None:
    options = [f"--storage-option={name}={value}" for name, value in bucket.options().items()]
    process = start(out, "--real-s3", "--yes", "--store", bucket.url("here"), *options)
    deadline = time.monotonic() + SECONDS
    while "_delta_log" not in " ".join(bucket.keys()):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=SECONDS)
    assert (process.returncode, bucket.keys()) == (130, []), said
    assert "0 objects left" in said


def record(**fields: Any) -> Any:
    usual = {"attempts": 1, "acknowledged": 1, "still_waiting": 0, "effects": None, "table": {"problems": []}}
    return usual | fields


def test_a_run_ends_when_its_records_exceed_twice_the_estimate(bucket: Bucket) -> None:
    bucket_of_races = found(bucket, bucket.url("here"))
    assert not bucket_of_races.is_enough(FEW[1], record(attempts=3, acknowledged=3))
    assert bucket_of_races.is_enough(FEW[1], record(attempts=6_000, acknowledged=3))


def test_objects_of_a_wrong_table_stay_and_are_counted(bucket: Bucket) -> None:
    said: list[str] = []
    with RealS3.find(bucket.url("here"), bucket.options(), OPTIONS, said.append, keep=False) as held:
        held.prove()
        bucket.put("here/table/evidence", b"")
        held.is_enough(FEW[0], record(table={"problems": ["lost"]}))
    assert bucket.keys() == ["here/table/evidence"]
    assert "1 object left" in said[-1]


def test_the_races_cost_less_than_a_dollar() -> None:
    assert sum(requests_of(each).usd for each in CELLS) < 1
    assert {each.writers for each in CELLS if each.committer != "spillway"} == {1, 10, 50}
    assert max(each.writers for each in CELLS) == 200
