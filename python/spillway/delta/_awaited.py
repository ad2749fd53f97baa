"""The waits of tasks for commits that no thread waits for."""

from __future__ import annotations

import asyncio
import atexit
from typing import TYPE_CHECKING, TypeAlias

from spillway import _native

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Outcome", "Waiter", "ended", "settle"]

# The version, with whether a checkpoint is due or why nobody can say; or the exception of the commit.
Outcome: TypeAlias = "tuple[int, bool | Exception] | BaseException"


class Waiter:
    """A task that waits for a commit. Only the thread of its loop touches it."""

    __slots__ = ("future", "outcome")

    def __init__(self, future: asyncio.Future[None]) -> None:
        self.future = future
        self.outcome: Outcome | None = None


# No thread may be in a call of Python when the interpreter ends.
atexit.register(_native.stop_telling_loops)


def settle(told: Iterable[tuple[Waiter, Outcome]]) -> None:
    """Give tasks of this loop the outcomes of their commits."""
    for waiter, outcome in told:
        waiter.outcome = outcome
        if not waiter.future.done():
            waiter.future.set_result(None)


async def ended(
    append: _native.DeltaAppend, table: _native.DeltaTable, timeout: float | None
) -> tuple[Outcome, asyncio.CancelledError | None]:
    """Commit, and wait for the outcome. A task that is cancelled waits for it, too, which is soon then.

    Returns:
        The outcome, and what the task was cancelled with.
    """
    loop = asyncio.get_running_loop()
    waiter = Waiter(loop.create_future())
    commit = append.commit_async(table, timeout, loop, waiter)
    timer = None if timeout is None else loop.call_later(timeout, commit.expire)
    cancelled = None
    try:
        while waiter.outcome is None:
            try:
                await waiter.future
            except BaseException as error:
                # Also where the coroutine is closed, and nobody waits any more.
                is_told = commit.leave()
                if not (is_told and isinstance(error, asyncio.CancelledError)):
                    raise
                cancelled = cancelled or error
                waiter.future = loop.create_future()
    finally:
        if timer is not None:
            timer.cancel()
    return waiter.outcome, cancelled
