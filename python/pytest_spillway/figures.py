"""The figures of a test: for ``extra_info`` in pytest-benchmark's JSON file, and for the terminal."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from spillway import __version__
from spillway._wording import and_joined, counted
from spillway.bench.summary import growth, peak_rss
from spillway.bench.tables import megabytes
from spillway.harness.environment import describe_machine, noise_warnings
from spillway.harness.limits import limit_words
from spillway.harness.statistics import change_of_pairs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from spillway.bench.record import ProbeSample, Sample

_OF_HOST = ("cpu_model", "cores", "usable_cores", "memory_bytes", "kernel", "libc", "python", "libraries")


def figures_of(samples: Sequence[Sample], probes: Sequence[ProbeSample]) -> dict[str, Any]:
    """The figures of one writer; of what varies between rounds the most.

    Args:
        samples: Its samples, which ended well.
        probes: Its writes beside a probe, which are not timed.
    """
    measured = [cast("dict[str, Any]", each) for each in samples if each["memory"]]
    uses = [each["use"] for each in samples if each["use"] is not None]
    garbage = next((each["gc"] for each in probes if each["gc"] is not None), None)
    gil = next((each["gil"] for each in probes if each["gil"] is not None), None)
    return {
        "version": next((each["backend_version"] for each in samples), None),
        "seconds": [use["wall_seconds"] for use in uses],
        "processor_seconds": [use["user_seconds"] + use["system_seconds"] for use in uses],
        "peak_rss_bytes": _most(int(peak_rss(each)) for each in measured),
        "peak_growth_bytes": _most(int(grown) for each in measured if (grown := growth(each)) is not None),
        "cgroup_peak_bytes": _most(each["group"]["peak_bytes"] for each in samples if each["group"]),
        "allocated_bytes": _most(
            each["pyarrow_pool"]["allocated_bytes"] for each in samples if each["pyarrow_pool"]
        ),
        "file_bytes": _most(each["output"]["bytes"] for each in samples if each["output"]),
        "pools": {pool["pool"]: pool["threads"] for each in samples for pool in each["pools"] or ()},
        "gc_runs": None if garbage is None else garbage["runs"],
        "gc_pause_seconds": None if garbage is None else garbage["pause_seconds"],
        "gil_gap_seconds": None if gil is None else gil["longest_gap_seconds"],
    }


def comparison(own: Sequence[Sample], other: Sequence[Sample]) -> dict[str, Any]:
    """The ratio of two writers' seconds, round by round, with its interval of 95 %.

    With fewer than six rounds the interval has no ends: they are null.
    """
    return ratio_of_blocks(_by_round(own), _by_round(other))


def ratio_of_blocks(own: Mapping[int, float], other: Mapping[int, float]) -> dict[str, Any]:
    """The ratio of seconds by block, as `comparison` has it."""
    change = change_of_pairs(other, own)
    if change is None:
        return {"ratio": None, "low": None, "high": None, "p": None, "pairs": 0}
    has_ends = math.isfinite(change.high)
    return {
        "ratio": change.ratio,
        "low": change.low if has_ends else None,
        "high": change.high if has_ends else None,
        "p": change.p,
        "pairs": change.n[0],
    }


def host(samples: Sequence[Sample]) -> dict[str, Any]:
    """The machine, its libraries, and what disturbed the samples."""
    machine = _machine()
    found = {name: machine[name] for name in _OF_HOST}
    found["libraries"] = {each["name"]: each["version"] for each in machine["libraries"]}
    found["libraries"]["spillway"] = __version__
    seconds = sum(each["process_seconds"] for each in samples)
    readings = [each["host"] for each in samples]
    found["disturbances"] = noise_warnings(0.0, readings, seconds, cores=machine["cores"])
    return found


def report_lines(found: dict[str, Any], *, is_timed: bool) -> list[str]:
    """The figures as lines for the terminal; without times where each writer wrote once, to be checked."""
    against = found["against"]
    readers = and_joined(found["read_back_by"]) or "no engine, since none knows the types"
    rows = f"{counted(found['rows'], 'row')} of {found['data']}"
    lines = [f"{rows}, {_limit_words(found['limit'])}, read back by {readers}", _sizes_line(found)]
    if against is not None:
        lines.append(_sizes_line(against))
    if not is_timed:
        return lines
    if against is not None:
        lines.append(comparison_line(found["writer"], against))
    return lines + [f"disturbed: {each}" for each in found["host"]["disturbances"]]


def _limit_words(limit: dict[str, Any] | None) -> str:
    if limit is None:
        return "no memory limit"
    canary = limit["canary"]
    at = f"{canary['bytes'] / 1e6:,.0f} MB"
    return (
        f"limit {limit_words(limit['bytes'])} by {limit['kind']} "
        f"({'proved' if limit['proved'] else 'not proved'}: a test process was {canary['ending']} at {at})"
    )


def _sizes_line(found: dict[str, Any]) -> str:
    peak, grown, size = (
        _megabytes(found[name]) for name in ("peak_rss_bytes", "peak_growth_bytes", "file_bytes")
    )
    return f"{found['writer']}: peak RSS {peak} (grew by {grown}), file {size}"


def comparison_line(name: str, against: dict[str, Any]) -> str:
    """The ratio of the writer `name` to the one in `against`, in words."""
    if against["ratio"] is None:
        return f"not compared with {against['writer']}"
    interval = (
        "no interval below 6 pairs"
        if against["low"] is None
        else f"95 % interval {against['low']:.3f} to {against['high']:.3f}"
    )
    pairs = counted(against["pairs"], "pair")
    return f"{name} takes {against['ratio']:.3f} x the time of {against['writer']} ({interval}, {pairs})"


@cache
def _machine() -> dict[str, Any]:
    return describe_machine()


def _megabytes(size: int | None) -> str:
    return "unknown" if size is None else f"{megabytes(size)} MB"


def _by_round(samples: Sequence[Sample]) -> dict[int, float]:
    return {each["block"]: each["use"]["wall_seconds"] for each in samples if each["use"] is not None}


def _most(values: Iterable[int]) -> int | None:
    return max(values, default=None)
