"""The measures and limits that this machine offers, each of them proved by trying it."""

from __future__ import annotations

import mmap
import os
import tempfile
import time
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from spillway import backends
from spillway._wording import counted
from spillway.bench.passes import require_engines
from spillway.bench.sample import resident_share
from spillway.errors import SpillwayError
from spillway.harness.environment import (
    SampleWatch,
    native_build,
    noise_warnings,
    on_disk,
    read_load,
    read_settings,
    refuse_debug_build,
)
from spillway.harness.limits import LIMIT_KINDS, detect_limiters, prove
from spillway.harness.probes import process

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_PLANTED = 200 << 20
_CANARY_LIMIT = 256 << 20
_WITHIN = 0.01
_STEAL_WATCH_SECONDS = 0.5


@dataclass(frozen=True)
class Finding:
    """One thing that was tried.

    Attributes:
        subject: What.
        verdict: "ok"; "warning" if figures suffer; "not here" for something unavailable that is not needed;
            "missing" for something without which nothing can be measured.
        detail: What was found, and what to do about it.
        advice: The options that the bench needs because of it.
    """

    subject: str
    verdict: Literal["ok", "warning", "not here", "missing"]
    detail: str
    advice: str = ""


def examine(out: Path) -> Iterator[Finding]:
    """Try everything, one finding at a time; `out` is the folder in which runs would be stored."""
    yield _peak_memory()
    yield from _limits()
    yield _affinity()
    yield _page_cache()
    yield _output_folder(out)
    yield _noise()
    yield from _settings()
    yield _native()
    yield from _backends()
    yield _spark()


def verdict(findings: Sequence[Finding]) -> tuple[bool, str]:
    """The verdict: the bench can measure here, with the command to run, or it cannot, with the reason."""
    missing = [each for each in findings if each.verdict == "missing"]
    if missing:
        return False, "not ready: " + "; ".join(f"{each.subject}: {each.detail}" for each in missing)
    advice = " ".join(each.advice for each in findings if each.advice)
    proved = [each.subject for each in findings if each.subject in _LIMIT_SUBJECTS and each.verdict == "ok"]
    limits = f" with limits by {_LIMIT_SUBJECTS[proved[0]]}" if proved else ""
    return True, f"ready: spillway bench{' ' if advice else ''}{advice}{limits}"


def _peak_memory() -> Finding:
    """Plant 200 MiB, free it, and ask the high-water mark."""
    subject = "exact peak RSS"
    try:
        process.reset_high_water()
    except OSError as error:
        return Finding(subject, "missing", f"clear_refs cannot be written ({error.strerror}): no exact peak")
    before = process.read_memory().rss
    with mmap.mmap(-1, _PLANTED, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as planted:
        for page in range(0, _PLANTED, mmap.PAGESIZE):
            planted[page] = 1
    seen = process.read_memory().high_water - before
    detail = f"200 MiB allocated and freed were seen as {seen / 2**20:.1f} MiB"
    return Finding(subject, "ok" if abs(seen / _PLANTED - 1) <= _WITHIN else "warning", detail)


_LIMIT_SUBJECTS = {f"memory limit by {kind}": kind for kind in LIMIT_KINDS}


def _limits() -> Iterator[Finding]:
    """A canary under each kind of limit that is offered; the bench takes the first kind of them."""
    offered = {limiter.kind: limiter for limiter in detect_limiters()}
    taken: str | None = None
    for subject, kind in _LIMIT_SUBJECTS.items():
        if kind not in offered:
            yield Finding(subject, "not here", "this machine does not offer it")
            continue
        try:
            proof = prove(offered[kind], _CANARY_LIMIT)
        except OSError as error:
            yield Finding(subject, "warning", f"cannot be set: {error.strerror}")
            continue
        share = proof.died_at_bytes / proof.limit_bytes
        detail = f"a test process under 256 MiB was {proof.ending} at {share:.2f} of it"
        is_first = taken is None and proof.holds
        taken = kind if is_first else taken
        # What is offered before it does not hold, and would be taken.
        advice = f"--limit-kind {kind}" if is_first and kind != next(iter(offered)) else ""
        yield Finding(subject, "ok" if proof.holds else "warning", detail, advice)
    if taken is None:
        yield Finding("memory limits", "warning", "no kind holds here", "--memory none")


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
        "affinity",
        "ok" if pinned else "warning",
        f"{counted(len(available), 'core')} may be used, one was pinned",
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
    try:
        with on_disk(out):
            return Finding("output folder", "ok", "can be written and lies on a disk")
    except SpillwayError as error:
        return Finding("output folder", "missing", str(error))


def _noise() -> Finding:
    watch = SampleWatch()
    time.sleep(_STEAL_WATCH_SECONDS)  # stolen time is counted by the kernel as it passes
    seen = watch.read()
    load = read_load()
    warnings = noise_warnings(load, [seen], _STEAL_WATCH_SECONDS)
    if warnings:
        mend = "end other programs, and let a virtual machine have cores of its own"
        return Finding("quiet host", "warning", f"{'; '.join(warnings)}: {mend}")
    return Finding("quiet host", "ok", f"load {load:.2f}, no time stolen, throttled or taken by others")


def _settings() -> Iterator[Finding]:
    """The settings of the machine, with the remedy for each that makes figures worse."""
    for each in read_settings():
        if each.value is None:
            yield Finding(each.name, "not here", "this machine does not show it, as virtual ones do not")
        elif each.is_steady:
            yield Finding(each.name, "ok", each.value)
        else:
            yield Finding(each.name, "warning", f"{each.value}: {each.effect}; {each.remedy}")


def _native() -> Finding:
    subject = "spillway._native"
    build = native_build()
    if build is None:
        return Finding(subject, "missing", "not built: run maturin develop --release")
    try:
        refuse_debug_build()
    except SpillwayError as error:
        return Finding(subject, "missing", str(error).removeprefix(f"{subject} is "))
    if build["debug_assertions"]:
        return Finding(subject, "warning", "built with debug assertions: no figure of it matters")
    return Finding(subject, "ok", f"{build['profile']} build for {build['target']}")


def _backends() -> Iterator[Finding]:
    for name in backends.names():
        reason = backends.missing(name)
        if reason is not None:
            yield Finding(f"backend {name}", "not here", reason)
            continue
        try:
            backend = backends.load(name)
            modes = ", ".join(sorted(backend.modes))
            yield Finding(f"backend {name}", "ok", f"{backend.version()}, for {modes}")
        except Exception as error:  # noqa: BLE001 - whatever a broken library raises is the finding
            found: Literal["missing", "not here"] = (
                "missing" if backends.library(name) == backends.OWN_LIBRARY else "not here"
            )
            yield Finding(f"backend {name}", found, f"it does not load: {type(error).__name__}: {error}")


def _spark() -> Finding:
    """Spark, which reads output back by default."""
    subject = "Spark, to read back"
    without = "--validate pyarrow"
    try:
        require_engines(["spark"])
    except SpillwayError as error:
        return Finding(subject, "not here", f"{error}", without)
    from spillway.spark.session import find_java

    java = find_java()
    return Finding(
        subject, "ok", f"PySpark {metadata.version('pyspark')} with Java {java.version} ({java.program})"
    )
