"""Proving a limit: a canary started under it has to die near it."""

from __future__ import annotations

import os
import signal
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spillway.harness.spawn import run_limited

if TYPE_CHECKING:
    from spillway.harness.limits.memory_limit import Limiter

__all__ = ["Proof", "prove"]

_CANARY = str(Path(__file__).with_name("canary.py"))
_TIMEOUT_SECONDS = 60.0
_LOW, _HIGH = 0.9, 1.1


@dataclass(frozen=True)
class Proof:
    """The end of a canary.

    Attributes:
        kind: The kind of limit.
        limit_bytes: The limit.
        died_at_bytes: What the canary held when it last could say so.
        ending: "killed" by the kernel, "refused" more memory, or "survived".
        holds: It ended by the limit, between 0.9 and 1.1 of it.
    """

    kind: str
    limit_bytes: int
    died_at_bytes: int
    ending: str
    holds: bool

    def as_dict(self) -> dict[str, Any]:
        """The fields as a plain dict, for the record."""
        return asdict(self)


def prove(limiter: Limiter, limit: int) -> Proof:
    """Start a canary under a limit of `limit` bytes and report where it died.

    Raises:
        OSError: The limit cannot be set.
    """
    with limiter.limit(limit) as memory_limit:
        ended = run_limited(
            _CANARY,
            [str(limit), limiter.kind],
            memory_limit,
            environment=dict(os.environ),
            timeout=_TIMEOUT_SECONDS,
        )
    held = [message["held"] for message in ended.messages if "held" in message]
    died_at = held[-1] if held else 0
    if ended.signal == signal.SIGKILL and not ended.timed_out:
        how = "killed"
    elif any("refused" in message for message in ended.messages):
        how = "refused"
    else:
        how = "survived"
    near = _LOW * limit <= died_at <= _HIGH * limit
    return Proof(limiter.kind, limit, died_at, how, holds=near and how != "survived")
