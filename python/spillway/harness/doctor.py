"""What this machine can measure and limit, each claim proved by trying it."""

from __future__ import annotations

import mmap
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from spillway import backends
from spillway.errors import SpillwayError
from spillway.harness.environment import native_build
from spillway.harness.host import HostWatch, noise_warnings, read_load
from spillway.harness.input import resident_share
from spillway.harness.limits import detect_limiters
from spillway.harness.limits.detect import LIMIT_KINDS
from spillway.harness.limits.proof import prove
from spillway.harness.output import require_disk
from spillway.harness.probes import rss

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Finding", "examine"]

_PLANTED = 200 << 20
_CANARY_LIMIT = 256 << 20
_WITHIN = 0.01
_STEAL_WATCH_SECONDS = 0.5


@dataclass(frozen=True)
class Finding:
    """One thing that was tried.

    Attributes:
        subject: What.
        verdict: "ok", "warning" when figures suffer, "missing" when something cannot be had here.
        detail: What was found, and what to do about it.
    """

    subject: str
    verdict: Literal["ok", "warning", "missing"]
    detail: str


def examine(out: Path) -> Iterator[Finding]:
    """Try everything, one finding at a time; `out` is where runs would be kept."""
    yield _peak_memory()
    yield from _limits()
    yield _affinity()
    yield _page_cache()
    yield _output_folder(out)
    yield _noise()
    yield _native()
    yield from _backends()
    yield _java()


def _peak_memory() -> Finding:
    """Plant 200 MiB, free it, and ask the high-water mark."""
    subject = "exact peak RSS"
    try:
        rss.reset_high_water()
    except OSError as error:
        return Finding(subject, "missing", f"clear_refs cannot be written ({error.strerror}): no exact peak")
    before = rss.read_memory().rss
    with mmap.mmap(-1, _PLANTED, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as planted:
        for page in range(0, _PLANTED, mmap.PAGESIZE):
            planted[page] = 1
    seen = rss.read_memory().high_water - before
    detail = f"200 MiB allocated and freed were seen as {seen / 2**20:.1f} MiB"
    return Finding(subject, "ok" if abs(seen / _PLANTED - 1) <= _WITHIN else "warning", detail)


def _limits() -> Iterator[Finding]:
    """A canary under each kind of limit that is offered."""
    offered = {limiter.kind: limiter for limiter in detect_limiters()}
    for kind in LIMIT_KINDS:
        subject = f"memory limit by {kind}"
        if kind not in offered:
            yield Finding(subject, "missing", "not offered here")
            continue
        try:
            proof = prove(offered[kind], _CANARY_LIMIT)
        except OSError as error:
            yield Finding(subject, "missing", f"cannot be set: {error.strerror}")
            continue
        share = proof.died_at_bytes / proof.limit_bytes
        detail = f"a canary under 256 MiB was {proof.ending} at {share:.2f} of it"
        yield Finding(subject, "ok" if proof.holds else "warning", detail)


def _affinity() -> Finding:
    available = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {max(available)})
        pinned = os.sched_getaffinity(0) == {max(available)}
    except OSError as error:
        return Finding("affinity", "missing", f"a process cannot be pinned: {error.strerror}")
    finally:
        os.sched_setaffinity(0, available)
    if len(available) == 1:
        return Finding("affinity", "warning", "one core only: the bench and what it measures share it")
    return Finding(
        "affinity", "ok" if pinned else "warning", f"{len(available)} cores may be used, one was pinned"
    )


def _page_cache() -> Finding:
    """Write a file, which is then in the page cache, and ask mincore."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(bytes(1 << 20))
        file.flush()
        try:
            share = resident_share(Path(file.name))
        except OSError as error:
            return Finding("page cache", "missing", f"mincore does not answer: {error.strerror}")
    return Finding(
        "page cache", "ok" if share == 1 else "warning", f"a fresh file is resident by {share:.0%}"
    )


def _output_folder(out: Path) -> Finding:
    existed = out.exists()
    try:
        require_disk(out)
    except SpillwayError as error:
        return Finding("output folder", "warning", str(error))
    if not existed:
        out.rmdir()
    return Finding("output folder", "ok", "can be written and lies on a disk")


def _noise() -> Finding:
    watch = HostWatch()
    time.sleep(_STEAL_WATCH_SECONDS)  # stolen time is counted by the kernel as it passes
    seen = watch.read()
    load = read_load()
    warnings = noise_warnings(load, [seen], _STEAL_WATCH_SECONDS)
    if warnings:
        return Finding("quiet host", "warning", "; ".join(warnings))
    return Finding("quiet host", "ok", f"load {load:.2f}, no time stolen or throttled")


def _native() -> Finding:
    build = native_build()
    if build is None:
        return Finding("spillway._native", "missing", "not built: run maturin develop --release")
    profile = str(build.get("profile"))
    if profile == "debug":
        return Finding(
            "spillway._native", "warning", "a debug build, which the bench refuses: build with --release"
        )
    return Finding("spillway._native", "ok", f"{profile} build for {build.get('target')}")


def _backends() -> Iterator[Finding]:
    for name in backends.names():
        reason = backends.missing(name)
        if reason is not None:
            yield Finding(f"backend {name}", "missing", reason)
            continue
        backend = backends.load(name)
        yield Finding(
            f"backend {name}", "ok", f"{backend.version()}, modes {', '.join(sorted(backend.modes))}"
        )


def _java() -> Finding:
    from spillway.spark.java import find_java

    try:
        find_java()
    except SpillwayError as error:
        return Finding("Java for Spark", "missing", f"{error} Or leave spark out of --validate.")
    return Finding("Java for Spark", "ok", "found, and new enough")
