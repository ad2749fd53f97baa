"""The log record of a commit does no I/O: what happens to the table afterwards does not fail the commit."""

from __future__ import annotations

import asyncio
import logging
import shutil
from typing import TYPE_CHECKING, Any

import pytest

import spillway.delta
from spillway.delta import _awaited
from spillway.errors import TableNotFoundError

from .programs import SCHEMA, batch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class GoneAfter:
    """A native object whose table is deleted right after one of its calls."""

    def __init__(self, native: Any, name: str, folder: Path) -> None:
        self._native, self._name, self._folder = native, name, folder

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._native, name)
        if name != self._name:
            return found

        def called(*arguments: Any) -> Any:
            done = found(*arguments)
            shutil.rmtree(self._folder)
            return done

        return called


def truncate(table: spillway.delta.Table, folder: Path, _: pytest.MonkeyPatch) -> int:
    table._native = GoneAfter(table._native, "truncate", folder)  # type: ignore[assignment]
    return table.truncate()


def append(table: spillway.delta.Table, folder: Path, _: pytest.MonkeyPatch) -> int:
    append = table.append()
    append.write(batch("a", 1))
    append._native = GoneAfter(append._native, "commit", folder)  # type: ignore[assignment]
    return append.commit()


def append_in_a_task(table: spillway.delta.Table, folder: Path, patch: pytest.MonkeyPatch) -> int:
    ended = _awaited.ended

    async def gone_after(*arguments: Any) -> Any:
        done = await ended(*arguments)
        shutil.rmtree(folder)
        return done

    patch.setattr(_awaited, "ended", gone_after)
    append = table.append()
    append.write(batch("a", 1))
    return asyncio.run(append.commit_async())


@pytest.mark.parametrize("commit", [truncate, append, append_in_a_task])
def test_a_table_that_is_deleted_after_a_commit_does_not_fail_it(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    commit: Callable[[spillway.delta.Table, Path, pytest.MonkeyPatch], int],
) -> None:
    caplog.set_level(logging.DEBUG, "spillway.delta")
    table = spillway.delta.create(tmp_path / "t", SCHEMA)
    with table.append() as first:
        first.write(batch("a", 0))
    assert commit(table, tmp_path / "t", monkeypatch) == 2
    told = [record.args for record in caplog.records if "committed" in record.msg]
    assert [args[2:4] for args in told if isinstance(args, tuple)] == [(1, 1), (2, 1)]


def test_a_table_that_is_deleted_during_an_append_fails_it_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The append is closed as by every other error of its commit."""
    caplog.set_level(logging.DEBUG, "spillway.delta")
    table = spillway.delta.create(tmp_path / "t", SCHEMA)
    append = table.append()
    append.write(batch("a", 0))
    shutil.rmtree(tmp_path / "t")
    with pytest.raises(TableNotFoundError):
        append.commit()
    assert append.closed
