"""Tables in a store that are deleted, restored or made again: nothing of one gets into the other."""

from __future__ import annotations

import itertools
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import deltalake
import pyarrow as pa
import pytest

import spillway.delta
from spillway.delta.append import _wait_for_checkpoints
from spillway.errors import CommitUnknown, DeltaError, TableNotFoundError

from ..counts import SOAK
from ..stores.server import Instead
from .programs import batch
from .test_stores import CONDITIONAL, all_keys, append, create, through

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..stores.server import Bucket, Fault, Proxy, Request

    Faulty = Callable[[Callable[[Request], Fault]], Proxy]

OTHER = pa.schema({"writer": pa.string(), "number": pa.int64(), "other": pa.int64()})
VERSIONS = 5
# The length of the new table, beside that of the old one.
LENGTHS = {"shorter": -3, "as long": 0, "longer": 3}


def other_rows(number: int) -> pa.Table:
    return pa.table({"writer": ["new"], "number": [number], "other": [1]}, schema=OTHER)


def delete(bucket: Bucket, wanted: Callable[[str], bool] = lambda _: True) -> None:
    for key in filter(wanted, all_keys(bucket)):
        bucket.client.delete_object(Bucket=bucket.name, Key=key)


def made_by_delta_rs(bucket: Bucket, versions: int) -> None:
    delete(bucket)
    options = bucket.options() | CONDITIONAL
    for number in range(versions):
        deltalake.write_deltalake(
            bucket.url("table"), other_rows(number), storage_options=options, mode="append"
        )


def made_by_spillway(bucket: Bucket, versions: int) -> None:
    delete(bucket)
    # Another key of the process' open tables, as if another process made it.
    options = bucket.options(timeout="61s")
    table = spillway.delta.create(bucket.url("table"), OTHER, storage_options=options)
    for number in range(versions - 1):
        with table.append() as append:
            append.write(other_rows(number))


MAKERS = {"delta-rs": made_by_delta_rs, "spillway": made_by_spillway}


def versions_of(bucket: Bucket) -> list[int]:
    return [int(key[-25:-5]) for key in all_keys(bucket) if "/_delta_log/0" in key and key.endswith(".json")]


def check_whole(bucket: Bucket, versions: int) -> None:
    """The log has the versions of the new table alone, and another reader takes it."""
    assert versions_of(bucket) == list(range(versions))
    table = deltalake.DeltaTable(bucket.url("table"), storage_options=bucket.options() | CONDITIONAL)
    assert table.version() == versions - 1


def old_table(bucket: Bucket, **options: str) -> spillway.delta.Table:
    table = create(bucket, **options)
    for number in range(VERSIONS - 1):
        append(table, "old", number)
    return table


def late_append(table: spillway.delta.Table, *, coalesce: bool = False) -> Callable[[], object]:
    held = table.append(timeout=20, coalesce=coalesce)
    held.write(batch("late", 0))
    return held.commit


LATE: dict[str, Callable[[spillway.delta.Table], Callable[[], object]]] = {
    "append": late_append,
    "coalesced append": lambda table: late_append(table, coalesce=True),
    "new append": lambda table: lambda: append(table, "late", 0),
    "delete": lambda table: lambda: table.delete([("writer", "=", "old")], timeout=20),
    "update": lambda table: lambda: table.update([("number", "=", 1)], {"number": 7}, timeout=20),
    "merge": lambda table: lambda: table.merge(batch("merged", 1), "number", timeout=20),
    "optimize": lambda table: lambda: table.optimize(timeout=20),
    "properties": lambda table: lambda: table.set_properties({"delta.appendOnly": "true"}),
}


# Any two of the three meet; in a soak, all three.
COMBINED = list(itertools.product(LATE, LENGTHS, MAKERS))
if not SOAK:
    COMBINED = [
        (what, length, list(MAKERS)[(first + second) % len(MAKERS)])
        for (first, what), (second, length) in itertools.product(enumerate(LATE), enumerate(LENGTHS))
    ]


@pytest.mark.parametrize(("what", "length", "maker"), COMBINED)
def test_no_commit_gets_into_a_table_that_was_made_again(
    bucket: Bucket, what: str, length: str, maker: str
) -> None:
    versions = VERSIONS + LENGTHS[length]
    commit = LATE[what](old_table(bucket))
    MAKERS[maker](bucket, versions)
    with pytest.raises(DeltaError) as raised:
        commit()
    assert isinstance(raised.value, TableNotFoundError), raised.value
    check_whole(bucket, versions)


class AtVersion:
    """Does something once, right before or after the first version that is created from now on."""

    def __init__(self, bucket: Bucket) -> None:
        self.bucket = bucket
        self.before: Callable[[], None] | None = None

    def __call__(self, request: Request) -> Fault:
        if request.is_version and (change := self.before) is not None:
            self.before = None
            change()
        return None


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("coalesce", [False, True])
def test_a_version_that_arrives_in_another_table_is_taken_back(
    bucket: Bucket,
    faulty: Faulty,
    length: str,
    coalesce: bool,  # noqa: FBT001
) -> None:
    versions = VERSIONS + min(LENGTHS[length], 0)
    old_table(bucket)
    fault = AtVersion(bucket)
    table = spillway.delta.open(bucket.url("table"), storage_options=through(faulty(fault), bucket))
    commit = late_append(table, coalesce=coalesce)
    # The request is under way, and was checked before.
    fault.before = lambda: made_by_delta_rs(bucket, versions)
    with pytest.raises(DeltaError) as raised:
        commit()
    assert isinstance(raised.value, TableNotFoundError), raised.value
    check_whole(bucket, versions)


def test_a_version_whose_answer_was_lost_is_taken_back_from_another_table(
    bucket: Bucket, faulty: Faulty
) -> None:
    old_table(bucket)
    change = iter([None])

    def fault(request: Request) -> Fault:
        if not request.is_version or next(change, True):
            return None
        made_by_delta_rs(bucket, VERSIONS - 2)
        return Instead(500)

    table = spillway.delta.open(bucket.url("table"), storage_options=through(faulty(fault), bucket))
    with pytest.raises(DeltaError) as raised:
        late_append(table)()
    assert isinstance(raised.value, (TableNotFoundError, CommitUnknown)), raised.value
    check_whole(bucket, VERSIONS - 2)


ORDERS: dict[str, Callable[[list[str]], Iterator[str]]] = {
    "from the first on": iter,
    "from the last on": reversed,
}


@pytest.mark.parametrize("order", ORDERS)
def test_a_table_that_is_half_deleted_gets_no_version_after_a_gap(bucket: Bucket, order: str) -> None:
    table = old_table(bucket)
    commit = late_append(table)
    keys = [key for key in all_keys(bucket) if "/_delta_log/" in key]
    gone = list(ORDERS[order](keys))[: -1 if order == "from the last on" else None]
    delete(bucket, lambda key: key in gone)
    with pytest.raises((DeltaError, OSError)):
        commit()
    assert versions_of(bucket) == ([0] if order == "from the last on" else [])


@pytest.mark.parametrize("diverges", [False, True])
def test_an_older_copy_of_a_table_gets_no_gap(bucket: Bucket, diverges: bool) -> None:  # noqa: FBT001
    table = old_table(bucket)
    copy = {key: bucket.read(key) for key in all_keys(bucket)}
    for number in range(3):
        append(table, "lost", number)
    commit = late_append(table)
    delete(bucket)
    for key, body in copy.items():
        bucket.put(key, body)
    versions = VERSIONS
    if diverges:
        again = spillway.delta.open(bucket.url("table"), storage_options=bucket.options(timeout="61s"))
        for number in range(5):
            append(again, "other", number)
        versions += 5
    with pytest.raises(DeltaError) as raised:
        commit()
    assert isinstance(raised.value, TableNotFoundError), raised.value
    check_whole(bucket, versions)


def test_the_same_table_put_back_is_appended_to(bucket: Bucket) -> None:
    table = old_table(bucket)
    copy = {key: bucket.read(key) for key in all_keys(bucket)}
    commit = late_append(table)
    delete(bucket)
    for key, body in copy.items():
        bucket.put(key, body)
    assert commit() == VERSIONS
    check_whole(bucket, VERSIONS + 1)


def test_a_checkpoint_that_arrives_late_leaves_another_table_alone(bucket: Bucket, faulty: Faulty) -> None:
    old_table(bucket)
    under_way = threading.Event()

    def fault(request: Request) -> Fault:
        is_checkpoint = request.method == "PUT" and ".checkpoint." in request.path
        if is_checkpoint and not under_way.is_set():
            under_way.set()
            made_by_delta_rs(bucket, 2)
        return None

    table = spillway.delta.open(bucket.url("table"), storage_options=through(faulty(fault), bucket))
    with pytest.raises(TableNotFoundError):
        table.checkpoint()
    assert under_way.is_set()
    assert not [key for key in all_keys(bucket) if "checkpoint" in key]
    check_whole(bucket, 2)


def test_a_hint_that_arrives_late_leaves_another_table_alone(bucket: Bucket, faulty: Faulty) -> None:
    old_table(bucket)
    under_way = threading.Event()

    def fault(request: Request) -> Fault:
        if request.method == "PUT" and "_last_checkpoint" in request.path and not under_way.is_set():
            under_way.set()
            made_by_delta_rs(bucket, 2)
        return None

    table = spillway.delta.open(bucket.url("table"), storage_options=through(faulty(fault), bucket))
    with pytest.raises(TableNotFoundError):
        table.checkpoint()
    assert under_way.is_set()
    assert not [key for key in all_keys(bucket) if "checkpoint" in key]
    check_whole(bucket, 2)


@pytest.mark.parametrize("what", [".checkpoint.", "_last_checkpoint"])
def test_a_checkpoint_is_sent_once(bucket: Bucket, faulty: Faulty, what: str) -> None:
    old_table(bucket)
    proxy = faulty(lambda request: 503 if request.method == "PUT" and what in request.path else None)
    table = spillway.delta.open(bucket.url("table"), storage_options=through(proxy, bucket))
    with pytest.raises(OSError, match="503"):
        table.checkpoint()
    assert len([one for one in proxy.seen if one.method == "PUT" and what in one.path]) == 1


def test_a_version_costs_one_request_more_at_most(bucket: Bucket, faulty: Faulty) -> None:
    old_table(bucket)
    proxy = faulty(lambda _: None)
    table = spillway.delta.open(bucket.url("table"), storage_options=through(proxy, bucket))
    append(table, "first", 0)
    with suppress(DeltaError):
        _wait_for_checkpoints()
    counts = []
    # The tenth version has a checkpoint.
    for number in range(3):
        before = len(proxy.seen)
        append(table, "counted", number)
        counts.append(len(proxy.seen) - before)
    # The data file, a look for the next version, a listing, the version, and a look at the one before it.
    assert min(counts) <= 5, proxy.seen
