"""Tests a memory limit before anything is measured under it: a test process has to be killed near it."""

from __future__ import annotations

import os
import signal
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spillway._wording import counted
from spillway.errors import OptionError
from spillway.harness.processes import run_limited

if TYPE_CHECKING:
    from spillway.harness.limits.cgroup import Limiter

_CANARY = str(Path(__file__).with_name("canary.py"))
_TIMEOUT_SECONDS = 60.0
_LOW, _HIGH = 0.9, 1.1


@dataclass(frozen=True)
class Proof:
    """The result of a limit check: how the test process (the canary) ended.

    Attributes:
        kind: The kind of limit.
        limit_bytes: The limit.
        died_at_bytes: The last amount of memory that the test process reported.
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
    """Start a test process (the canary) under a limit of `limit` bytes and report where it was killed.

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


# Limits that are tried when one is too small for a process to start in.
_LEAST_LIMITS = tuple(megabytes * 10**6 for megabytes in (8, 16, 32, 64, 128))


def proved(limiter: Limiter, limit: int, *, option: str, advice: str) -> Proof:
    """Run a test process under a limit and return the result.

    Args:
        limiter: Sets the limit.
        limit: Bytes.
        option: The command-line option that requested the limit.
        advice: What to do where the limit cannot be set or does not hold.

    Raises:
        OptionError: The limit cannot be set, it does not hold, or no process starts in it.
    """
    try:
        proof = prove(limiter, limit)
    except OSError as error:
        raise OptionError(
            f"{option}: a {limiter.kind} limit of {limit:,} bytes cannot be set ({error.strerror}); {advice}"
        ) from error
    if not proof.holds:
        raise OptionError(f"{option}: {_why_not(limiter, proof, advice)}")
    return proof


def limit_words(size: int) -> str:
    """A limit in words: "512 MB"."""
    return f"{size / 1e6:,.0f} MB" if size >= 10**6 else counted(size, "byte")


def _why_not(limiter: Limiter, proof: Proof, advice: str) -> str:
    """Say why a limit cannot be used: it is too small for a process, or does not hold."""
    for least in _LEAST_LIMITS:
        if least > proof.limit_bytes and prove(limiter, least).holds:
            return (
                f"{limit_words(proof.limit_bytes)} is too little for a process to start in. The least "
                f"that works here is about {least / 1e6:,.0f}MB, and some backends need 64MB to load their "
                f"libraries; amounts have units, as in 512MB or 12GB"
            )
    return (
        f"the {limiter.kind} limit of {proof.limit_bytes:,} bytes does not hold: a test process was "
        f"{proof.ending} at {proof.died_at_bytes:,}; {advice}"
    )
