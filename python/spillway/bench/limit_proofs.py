"""Memory limits are proved before anything is measured under them; one that does not hold is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spillway._wording import counted
from spillway.errors import OptionError
from spillway.harness.limits.proof import Proof, prove

if TYPE_CHECKING:
    from spillway.harness.limits import Limiter

__all__ = ["limit_words", "proved"]

# Limits that are tried when one is too small for a process to start in.
_LEAST_LIMITS = tuple(megabytes * 10**6 for megabytes in (8, 16, 32, 64, 128))


def proved(limiter: Limiter, limit: int, *, option: str, advice: str) -> Proof:
    """Run a canary under a limit and return its proof.

    Args:
        limiter: Sets the limit.
        limit: Bytes.
        option: The option that asked for the limit, as its user knows it.
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
        f"the {limiter.kind} limit of {proof.limit_bytes:,} bytes does not hold: a canary was "
        f"{proof.ending} at {proof.died_at_bytes:,}; {advice}"
    )
