"""Memory limits, quotas of processor time and affinity: what this machine offers, applied and proved."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from spillway._wording import counted
from spillway.errors import OptionError
from spillway.harness.limits.cgroup import (
    Limiter,
    MemoryLimit,
    accounting_group,
    enclosing_limit,
    find_systemd,
    find_v1,
    find_v2,
    joining,
    new_group,
    v1_parents,
)
from spillway.harness.processes import run_limited

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = [
    "LIMIT_KINDS",
    "Limiter",
    "MemoryLimit",
    "Proof",
    "RlimitData",
    "Unlimited",
    "choose_cores",
    "choose_limiter",
    "detect_limiters",
    "limit_words",
    "prove",
    "proved",
    "stepping_aside",
    "with_quota",
]


class Unlimited:
    """No limit."""

    kind = "none"

    @contextmanager
    def limit(self, size: int) -> Iterator[MemoryLimit]:  # noqa: ARG002 - nothing to set
        """No limit at all."""
        with accounting_group() as account:
            yield account


class RlimitData:
    """``RLIMIT_DATA``: private writable address space, resident or not, so it bites earlier."""

    kind = "rlimit-data"

    @contextmanager
    def limit(self, size: int) -> Iterator[MemoryLimit]:
        """A limit that the process sets for itself before it imports anything native."""
        with accounting_group() as account:
            yield replace(account, data_limit=size)


_PERIOD_MICROSECONDS = 100_000  # the kernel's own, and that of containers


@contextmanager
def with_quota(memory_limit: MemoryLimit, cores: float | None) -> Iterator[MemoryLimit]:
    """A memory limit that also limits processor time to that of `cores` cores; None does not limit it.

    Raises:
        OptionError: This machine lets no quota be set.
    """
    if cores is None:
        yield memory_limit
        return
    quota = round(cores * _PERIOD_MICROSECONDS)
    own = None if memory_limit.group is None else Path(memory_limit.group) / "cpu.max"
    if own is not None and own.exists():
        own.write_text(f"{quota} {_PERIOD_MICROSECONDS}")
        yield memory_limit
        return
    parent = next((each for each in v1_parents("cpu") if (each / "cpu.cfs_quota_us").exists()), None)
    if parent is None:
        raise OptionError(
            "--process-setting quota: this machine does not allow quotas of processor time: they "
            "need the controller cpu of control groups, and the right to create them"
        )
    with new_group(parent) as group:
        (group / "cpu.cfs_period_us").write_text(str(_PERIOD_MICROSECONDS))
        (group / "cpu.cfs_quota_us").write_text(str(quota))
        yield replace(memory_limit, prefix=(*joining(group), *memory_limit.prefix))


def choose_cores(count: int) -> tuple[int, ...]:
    """The last `count` cores this process may use; interrupts tend to land on the first.

    Raises:
        OptionError: The process may use fewer cores.
    """
    available = sorted(os.sched_getaffinity(0))
    if not 1 <= count <= len(available):
        raise OptionError(
            f"--cores {count}: this process may use {counted(len(available), 'core')}; "
            f"give {'1' if len(available) == 1 else f'1 to {len(available)}'}"
        )
    return tuple(available[-count:])


@contextmanager
def stepping_aside(cores: tuple[int, ...]) -> Iterator[bool]:
    """Keep this process off the measured cores, as long as that leaves it one; True if it is off them."""
    before = os.sched_getaffinity(0)
    others = before - set(cores)
    if others:
        os.sched_setaffinity(0, others)
    try:
        yield bool(others)
    finally:
        os.sched_setaffinity(0, before)


_FINDERS: dict[str, Callable[[], Limiter | None]] = {
    "cgroup-v2": find_v2,
    "cgroup-v1": find_v1,
    "systemd-scope": find_systemd,
    "rlimit-data": RlimitData,
}
LIMIT_KINDS = tuple(_FINDERS)
"""The kinds, the best first. ``RLIMIT_AS`` is not used: it counts memory that is only reserved."""


def detect_limiters() -> list[Limiter]:
    """The kinds that this machine offers, the best first."""
    found = (find() for find in _FINDERS.values())
    return [limiter for limiter in found if limiter is not None]


def choose_limiter(kind: str | None) -> Limiter:
    """The limiter of this kind, or the best there is for None.

    Raises:
        OptionError: The kind is unknown or not offered here.
    """
    if kind is None:
        return next(limiter for find in _FINDERS.values() if (limiter := find()) is not None)
    if kind not in _FINDERS:
        raise OptionError(f"there is no limit kind {kind!r}; choose from: {', '.join(LIMIT_KINDS)}")
    limiter = _FINDERS[kind]()
    if limiter is None:
        offered = ", ".join(each.kind for each in detect_limiters())
        raise OptionError(f"this machine does not offer {kind} limits; it offers: {offered}")
    return limiter


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
        OptionError: The limit cannot be set, it does not hold, no process starts in it, or there is less
            memory.
    """
    if limit > (free := free_memory()):
        # The test process would take all of it, and the kernel might end another one.
        raise OptionError(
            f"{option}: the limit is {limit_words(limit)}, and {limit_words(free)} of memory are free here: "
            f"give a smaller one"
        )
    try:
        proof = prove(limiter, limit)
    except OSError as error:
        raise OptionError(
            f"{option}: a {limiter.kind} limit of {limit:,} bytes cannot be set ({error.strerror}); {advice}"
        ) from error
    if not proof.holds:
        raise OptionError(f"{option}: {_why_not(limiter, proof, advice)}")
    return proof


def free_memory() -> int:
    """The bytes of memory that are free, and that the groups around this process allow."""
    fields = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    free = int(fields["MemAvailable"].split()[0]) * 1024
    allowed = enclosing_limit()
    return free if allowed is None else min(free, allowed)


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
