"""The page on intents is enough for another implementation: what is announced by it is carried."""

from __future__ import annotations

import json
import os
import time
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import spillway.delta
from spillway import _native

from .pages import ROOT, blocks_of

if TYPE_CHECKING:
    from pathlib import Path

PAGE = ROOT / "docs" / "design" / "intent-format.md"
SCHEMA = pa.schema({"id": pa.int64()})
WINDOW = 32
MARGIN = 10_000
HOUR = 3_600_000


def milliseconds() -> int:
    """The clock of the store, which is this machine's."""
    return time.time_ns() // 1_000_000


def examples() -> list[list[dict[str, Any]]]:
    """The bodies that the page shows, line by line."""
    shown = [block.text for block in blocks_of(PAGE) if block.language == "json"]
    return [[json.loads(line) for line in text.splitlines()] for text in shown]


@dataclass
class Announced:
    """An intent made from the page's example, about files that are in the table's folder."""

    table: spillway.delta.Table
    name: str
    lines: list[dict[str, Any]]
    ids: list[str] = field(default_factory=list)

    @property
    def path(self) -> Path:
        return self.table_folder / "_spillway" / "intents" / self.name

    @property
    def table_folder(self) -> Path:
        return type(ROOT)(self.table.path)

    def write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text("".join(json.dumps(line) + "\n" for line in self.lines))

    def carried(self) -> list[str]:
        """Appends by the library, and returns those of its members that the new version carries."""
        with self.table.append() as append:
            append.write(pa.table({"id": [0]}))
        # What is of no more use is deleted beside the next commit.
        assert _native.await_intent_gc(60)
        members = self.table.history(1)[0].info["tags"]["spillway.members"].split(",")
        assert len(members) == len(set(members))
        return [id_ for id_ in self.ids if id_ in members]


@pytest.fixture
def announced(tmp_path: Path) -> Announced:
    table = spillway.delta.create(tmp_path / "table", SCHEMA)
    lines = examples()[0]
    header, *members = lines
    header |= {"tableId": table.id, "changedIn": 0, "first": 1, "expires": milliseconds() + HOUR}
    for number, member in enumerate(members):
        member["id"] = uuid.uuid4().hex
        member["readVersion"] = 0
        for action in member["actions"]:
            if "add" in action:
                path = f"part-{number}.parquet"
                written = spillway.write_parquet(pa.table({"id": [number]}), tmp_path / "table" / path)
                action["add"] |= {"path": path, "size": written.bytes}
    name = f"{1:020}-{uuid.uuid4().hex}-0.json"
    return Announced(table, name, lines, [member["id"] for member in members])


def test_an_intent_by_the_page_is_carried_by_the_next_version(announced: Announced) -> None:
    announced.write()
    assert announced.carried() == announced.ids
    assert announced.table.version == 1
    assert {"part-0.parquet", "part-1.parquet"} < {file.path for file in announced.table.files()}
    (app,) = [
        action["txn"] for member in announced.lines[1:] for action in member["actions"] if "txn" in action
    ]
    info = announced.table.history(1)[0].info
    assert info["isBlindAppend"] is True
    log = announced.table_folder / "_delta_log" / f"{1:020}.json"
    assert {"txn": app} in [json.loads(line) for line in log.read_text().splitlines()]


def test_it_is_carried_once_and_goes(announced: Announced) -> None:
    announced.write()
    assert announced.carried() == announced.ids
    assert announced.carried() == []
    assert not announced.path.exists()


@pytest.mark.parametrize(
    "change",
    [
        {"format": 3},
        {"tableId": "another"},
        {"changedIn": 1},
        {"members": 3},
        {"first": -1},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_header_of_another_world_is_left_alone(announced: Announced, change: dict[str, Any]) -> None:
    announced.lines[0] |= change
    announced.write()
    assert announced.carried() == []
    assert announced.path.exists()


@pytest.mark.parametrize(
    "action",
    [
        {"remove": {"path": "part-0.parquet", "dataChange": True}},
        {"unknown": {}},
        {"add": {"path": "../part-0.parquet", "partitionValues": {}, "size": 1, "dataChange": True}},
        {"add": {"path": "a.parquet", "partitionValues": {}, "size": -1, "dataChange": True}},
        {"add": {"path": "a.parquet", "partitionValues": {}, "size": 1, "dataChange": True, "stats": "[1]"}},
    ],
    ids=["remove", "unknown", "outside", "size", "statistics"],
)
def test_a_member_that_is_none_leaves_the_whole_intent(announced: Announced, action: dict[str, Any]) -> None:
    announced.lines[1]["actions"].append(action)
    announced.write()
    assert announced.carried() == []
    assert announced.path.exists()


def test_an_intent_of_the_first_format_is_carried(announced: Announced) -> None:
    header = announced.lines[0]
    header["format"] = 1
    del header["expires"]
    announced.write()
    assert announced.carried() == announced.ids


def test_an_intent_that_has_expired_is_left_however_young_it_is(announced: Announced) -> None:
    announced.lines[0]["expires"] = milliseconds() - 1
    announced.write()
    assert announced.carried() == []
    assert announced.path.exists()


def test_an_intent_that_is_too_old_is_left(announced: Announced) -> None:
    announced.write()
    old = time.time() - 61
    os.utime(announced.path, (old, old))
    assert announced.carried() == []


def test_an_intent_whose_window_is_closed_is_deleted(announced: Announced) -> None:
    for _ in range(WINDOW):
        assert announced.carried() == []
    announced.write()
    assert announced.carried() == []
    assert not announced.path.exists()


def test_a_member_whose_file_is_there_already_is_left(announced: Announced) -> None:
    announced.write()
    assert announced.carried() == announced.ids
    again = Announced(announced.table, announced.name, announced.lines)
    for member in again.lines[1:]:
        member["id"] = uuid.uuid4().hex
        again.ids.append(member["id"])
    again.write()
    assert again.carried() == []


def test_the_version_and_the_token_are_those_of_the_page(announced: Announced) -> None:
    announced.write()
    announced.carried()
    written = set(announced.table.history(1)[0].info)
    (shown,) = examples()[1]
    assert set(shown["commitInfo"]) <= written
    (token,) = examples()[2]
    token |= {"tableId": announced.table.id, "id": announced.ids[0], "first": 1, "last": 32}
    outcome = announced.table.outcome(json.dumps(token))
    assert (outcome.status, outcome.version) == ("committed", 1)
    token |= {"id": uuid.uuid4().hex}
    before = announced.table.version
    assert announced.table.outcome(json.dumps(token)).status == "rejected"
    assert announced.table.version == before + 1


def test_a_doubt_about_an_announcement_is_settled_after_its_expiry(announced: Announced) -> None:
    (token,) = examples()[2]
    now = milliseconds()
    token |= {"tableId": announced.table.id, "id": uuid.uuid4().hex, "first": 1, "last": 32}
    token |= {"announcementInDoubt": True, "expires": now + HOUR}
    assert announced.table.outcome(json.dumps(token)).status == "pending"
    token |= {"expires": now - MARGIN - 1}
    assert announced.table.outcome(json.dumps(token)).status == "rejected"
    # A token of the first format does not tell.
    del token["expires"]
    token |= {"first": 2, "last": 33, "id": uuid.uuid4().hex}
    assert announced.table.outcome(json.dumps(token)).status == "pending"
