"""The environment of a run: machine, libraries, the disk of its results, and other load on the host.

The list of settings is that of ``pyperf system show``, as far as a setting moves what is measured here.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import platform
import resource
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

from spillway._wording import counted
from spillway.errors import OptionError
from spillway.harness.limits.cgroup import around

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from _typeshed import DataclassInstance

_MEMORY_FILESYSTEMS = {"tmpfs", "ramfs", "devtmpfs", "hugetlbfs"}


@contextmanager
def on_disk(folder: Path) -> Iterator[None]:
    """Create `folder` and check it as `require_disk` does; remove it again if it stays empty.

    Raises:
        OptionError: As `require_disk`.
    """
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        require_disk(folder)
        yield
    finally:
        with suppress(OSError):  # something lies in it
            for place in made:
                place.rmdir()


@contextmanager
def run_folder(folder: Path, *worth: str) -> Iterator[None]:
    """Make a run's folder, which is removed again if the run ends before one of `worth` is in it."""
    folder.mkdir()
    try:
        yield
    finally:
        if not any((folder / each).exists() for each in worth):
            shutil.rmtree(folder)


def require_disk(folder: Path) -> None:
    """Make `folder`, and check that files in it can be written and reach a disk.

    Raises:
        OptionError: It cannot be written, or it lies in memory, where output would count as memory.
    """
    kind = _filesystem(
        next(place for place in (folder.absolute(), *folder.absolute().parents) if place.exists())
    )
    if kind in _MEMORY_FILESYSTEMS:
        raise OptionError(
            f"--out {folder} is on {kind}, whose files occupy memory and would count as the writer's: "
            f"choose a folder on a disk"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".probe-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise OptionError(f"--out {folder}: {error.strerror}; choose a folder that can be written") from error


def sync_filesystem(folder: Path) -> None:
    """Write back the dirty pages of the filesystem that `folder` is on."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.syncfs(descriptor) != 0:
            raise OSError(ctypes.get_errno(), "syncfs failed", folder.name)
    finally:
        os.close(descriptor)


def _filesystem(folder: Path) -> str:
    """The type of the filesystem that `folder` is on: that of the longest mount point above it."""
    folder = folder.resolve()
    best, kind = Path("/"), ""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        point = Path(left.split()[4].replace("\\040", " "))
        if folder.is_relative_to(point) and len(point.parts) >= len(best.parts):
            best, kind = point, right.split()[0]
    return kind


_GIB = 1 << 30
_LEAST_AVAILABLE = 4 * _GIB  # the inputs of a reference run in the page cache, and the largest writer
_CPU = "sys/devices/system/cpu"


@dataclass(frozen=True)
class MachineSetting:
    """One setting.

    Attributes:
        name: Its name.
        value: Its state, or None where this machine does not show it.
        is_steady: True if the setting does not distort figures.
        effect: How it distorts them.
        remedy: The command or change that mends it.
    """

    name: str
    value: str | None
    is_steady: bool
    effect: str = ""
    remedy: str = ""


def read_settings(root: Path = Path("/")) -> Iterator[MachineSetting]:
    """Read all settings.

    Args:
        root: Folder that holds ``proc`` and ``sys``.
    """
    yield _setting(
        "frequency governor",
        _first_line(root / f"{_CPU}/cpu0/cpufreq/scaling_governor"),
        lambda value: value == "performance",
        "the clock follows the load, so that short writes are slower",
        "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
    )
    yield _turbo(root)
    yield _setting(
        "SMT",
        _named(_first_line(root / f"{_CPU}/smt/active"), {"0": "off", "1": "on"}),
        lambda value: value == "off",
        "a core shares its units with its sibling's work: leave the sibling idle",
        "echo off | sudo tee /sys/devices/system/cpu/smt/control",
    )
    yield _setting(
        "ASLR",
        _named(
            _first_line(root / "proc/sys/kernel/randomize_va_space"), {"0": "off", "1": "partial", "2": "on"}
        ),
        lambda value: value in {"on", "partial"},
        "every process has one layout of memory, whose luck no number of samples averages out",
        "echo 2 | sudo tee /proc/sys/kernel/randomize_va_space",
    )
    yield _setting(
        "clock source",
        _first_line(root / "sys/devices/system/clocksource/clocksource0/current_clocksource"),
        lambda value: value in {"tsc", "kvm-clock", "arch_sys_counter"},
        "reading the time is a system call",
        "boot with clocksource=tsc, if the processor's counter is steady",
    )
    yield _setting(
        "transparent huge pages",
        _chosen(_first_line(root / "sys/kernel/mm/transparent_hugepage/enabled")),
        lambda value: value != "always",
        "memory is touched by 2 MB, so that resident memory exceeds what was asked for",
        "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
    )
    yield _available_memory(root)


def _turbo(root: Path) -> MachineSetting:
    """The turbo, by Intel's driver or by that of others."""
    value = _named(_first_line(root / f"{_CPU}/intel_pstate/no_turbo"), {"0": "on", "1": "off"})
    remedy = "echo 1 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo"
    if value is None:
        value = _named(_first_line(root / f"{_CPU}/cpufreq/boost"), {"0": "off", "1": "on"})
        remedy = "echo 0 | sudo tee /sys/devices/system/cpu/cpufreq/boost"
    effect = "the clock falls as the processor warms up: speeds drift over a run"
    return _setting("turbo", value, lambda found: found == "off", effect, remedy)


def _available_memory(root: Path) -> MachineSetting:
    text = next(
        (
            line.split()[1]
            for line in (root / "proc/meminfo").read_text().splitlines()
            if line.startswith("MemAvailable:")
        ),
        None,
    )
    size = 0 if text is None else int(text) * 1024
    return MachineSetting(
        "free memory",
        None if text is None else f"{size / _GIB:.1f} GiB available",
        text is None or size >= _LEAST_AVAILABLE,
        "inputs leave the page cache between samples, and swapping makes every figure worthless",
        "end other programs, or measure fewer rows",
    )


def _setting(
    name: str, value: str | None, is_steady: Callable[[str], bool], effect: str, remedy: str
) -> MachineSetting:
    return MachineSetting(name, value, value is None or is_steady(value), effect, remedy)


def _named(value: str | None, names: dict[str, str]) -> str | None:
    return None if value is None else names.get(value, value)


def _chosen(text: str | None) -> str | None:
    """The bracketed word of a choice."""
    return None if text is None else text[text.find("[") + 1 : text.find("]")]


def _first_line(path: Path) -> str | None:
    """The first line of a file; None where the kernel has none, or shows it to nobody here."""
    try:
        return path.read_text().split("\n", 1)[0].strip()
    except OSError:
        return None


_LIBRARIES = (
    "spillway",
    "pyarrow",
    "polars",
    "duckdb",
    "arro3-core",
    "arro3-io",
    "datafusion",
    "fastparquet",
    "numpy",
    "memray",
    "pandas",
    "pyspark",
    "deltalake",
    "pylance",
    "pyiceberg",
)
CHECKED_BUILD = "SPILLWAY_ALLOW_CHECKED_BUILD"
_MALLOC_VARIABLES = (
    "MALLOC_",
    "GLIBC_TUNABLES",
    "LD_PRELOAD",
    "ARROW_DEFAULT_MEMORY_POOL",
    "_RJEM_MALLOC_CONF",
)
_GIT_SECONDS = 5


def describe_environment(run_id: str, options: DataclassInstance, *, schema_version: int) -> dict[str, Any]:
    """The part of ``environment.json`` that all runs share: name, machine, libraries and options."""
    return {
        "schema_version": schema_version,
        "run_id": run_id,
        **describe_machine(),
        "load_before": read_load(),
        "options": asdict(options),
    }


def describe_machine() -> dict[str, Any]:
    """Kernel, processor, memory, Python, libraries with their builds, and the state of the checkout."""
    settings = {each.name: each.value for each in read_settings()}
    return {
        "kernel": platform.release(),
        "system": platform.system(),
        "architecture": platform.machine(),
        "cpu_model": cpu_model(),
        "cores": os.cpu_count(),
        "usable_cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "transparent_huge_pages": settings["transparent huge pages"],
        "settings": [{"name": name, "value": value} for name, value in settings.items()],
        "malloc": _malloc_settings(),
        "libc": " ".join(platform.libc_ver()),
        **describe_software(),
        "git": git_state(),
    }


def describe_software() -> dict[str, Any]:
    """Python and the libraries of the environment that this runs in, with their builds."""
    return {
        "python": {
            "version": platform.python_version(),
            "implementation": platform.python_implementation(),
            "compiler": platform.python_compiler(),
            "switch_interval_seconds": sys.getswitchinterval(),
        },
        "libraries": [{"name": name, "version": version} for name, version in _libraries().items()],
        "pyarrow_build": _pyarrow_build(),
        "native_build": native_build(),
    }


def cpu_model() -> str:
    """The processor's name, by which a machine is named here."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() in {"model name", "Model"}:
            return value.strip()
    return platform.machine()


def native_build() -> dict[str, Any] | None:
    """The native module's account of its build with the SHA-256 of its file, or None where it is not built.

    The commit says what the sources were. Of two runs the digests say that they had the same build.
    """
    try:
        from spillway import _native
    except ImportError:
        return None
    with Path(_native.__file__).open("rb") as module:
        digest = hashlib.file_digest(module, "sha256").hexdigest()
    return {**_native.build_info(), "sha256": digest}


def refuse_debug_build(elsewhere: dict[str, Any] | None = None, where: str = "") -> None:
    """Check that a native module is a release build.

    The tests, which look at no speed, set the environment variable named in the error.

    Args:
        elsewhere: What `describe_software` said in another environment; by default that of this process.
        where: The name of that environment.

    Raises:
        OptionError: It is a build with debug assertions, whose speed says nothing.
    """
    build = native_build() if elsewhere is None else elsewhere["native_build"]
    if build is not None and build["debug_assertions"] and not os.environ.get(CHECKED_BUILD):
        raise OptionError(
            f"spillway._native{where and f' in {where}'} is built for tests, with debug assertions, and "
            "slower than a release: run `make bench` or `maturin develop --release`, or set "
            f"{CHECKED_BUILD}=1 where no figure matters"
        )


def _libraries() -> dict[str, str]:
    found = {}
    for name in _LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _pyarrow_build() -> dict[str, str] | None:
    try:
        import pyarrow as pa
    except ModuleNotFoundError:
        return None
    info = pa.cpp_build_info
    return {
        "build_type": info.build_type,
        "package_kind": info.package_kind,
        "compiler": f"{info.compiler_id} {info.compiler_version}",
        "simd_level": pa.runtime_info().simd_level,
        "memory_pool": pa.default_memory_pool().backend_name,
    }


def _malloc_settings() -> list[dict[str, str]]:
    """Variables that change an allocator; of a preloaded library only its name."""
    chosen = {name: value for name, value in os.environ.items() if name.startswith(_MALLOC_VARIABLES)}
    return [{"name": name, "value": Path(value).name} for name, value in sorted(chosen.items())]


def git_state() -> dict[str, Any] | None:
    """Commit of the checkout this runs from and whether it is changed; None for an installed wheel."""
    git = shutil.which("git")
    if git is None:
        return None
    folder = Path(__file__).parent

    def ask(*arguments: str) -> str:
        return subprocess.run(
            [git, "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            timeout=_GIT_SECONDS,
            check=True,
        ).stdout.strip()

    try:
        # A wheel installed below somebody's repository is not a checkout of ours.
        tracked = ask("ls-files", Path(__file__).name)
        if not tracked:
            return None
        return {"commit": ask("rev-parse", "HEAD"), "changed": bool(ask("status", "--porcelain", "--", ":/"))}
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        return None


_LOAD_PER_CORE = 0.5
_DISTURBED_SHARE = 0.05  # of the samples, which the medians of cells stand
_STEAL_SHARE = 0.02
_BUSY_FIELDS = (0, 1, 2, 5, 6)  # of the line "cpu" in /proc/stat: user, nice, system, irq, softirq
_STEAL_FIELD = 7
_OTHERS_SHARE = 0.05  # of the time of all cores, in which others slow a sample
_TICKS_OFF = 2  # by which a difference of two readings of /proc/stat may be off: user and system time


class HostReading(TypedDict):
    """The host during a sample.

    Attributes:
        load: Processes that ran or wanted to in the last minute.
        steal_seconds: Processor time that a hypervisor gave to others, of all cores.
        throttled_seconds: Processor time that a quota denied.
        wall_seconds: Length of the watch.
        others_seconds: Processor time of all cores that went to other processes than the bench and its own.
    """

    load: float
    steal_seconds: float
    throttled_seconds: float
    wall_seconds: NotRequired[float]
    others_seconds: NotRequired[float]


class HostWatch:
    """Counts stolen and throttled time from construction to `read`."""

    def __init__(self) -> None:
        self._steal = _steal_seconds()
        self._throttled = _throttled_seconds()

    def read(self) -> HostReading:
        """Load of the last minute now, and seconds stolen from or denied to all cores since construction."""
        return {
            "load": read_load(),
            "steal_seconds": max(0.0, _steal_seconds() - self._steal),
            "throttled_seconds": max(0.0, _throttled_seconds() - self._throttled),
        }


class SampleWatch:
    """A `HostWatch` that counts the time of other processes, too.

    Processes below this one are not others, whether they have ended or not: a JVM lives on after a sample.
    """

    def __init__(self) -> None:
        self._host = HostWatch()
        self._begin = time.monotonic()
        self._others = _busy_seconds() - _own_seconds()

    def read(self) -> HostReading:
        """The readings of a `HostWatch`, the length of the watch, and the time that went to others in it."""
        return {
            **self._host.read(),
            "wall_seconds": time.monotonic() - self._begin,
            "others_seconds": max(0.0, _busy_seconds() - _own_seconds() - self._others),
        }


def read_load() -> float:
    """The load of the last minute: processes that ran or wanted to."""
    return os.getloadavg()[0]


def noise_warnings(
    load_before: float, samples: Sequence[HostReading], seconds: float, *, cores: int | None = None
) -> list[str]:
    """Say in words why a run's figures are doubtful.

    Args:
        load_before: The load before the run began.
        samples: The `HostWatch` readings of the run's samples.
        seconds: How long these samples took together.
        cores: Cores of the host that they were taken on; those of this one by default.
    """
    cores = cores or os.cpu_count() or 1
    warnings = []
    if load_before > _LOAD_PER_CORE * cores:
        warnings.append(
            f"the host was busy before the run: load {load_before:.1f} on {counted(cores, 'core')}"
        )
    steal = sum(sample["steal_seconds"] for sample in samples)
    if seconds and steal / (seconds * cores) > _STEAL_SHARE:
        warnings.append(f"{steal:.1f} s of processor time were stolen by the hypervisor")
    throttled = sum(sample["throttled_seconds"] for sample in samples)
    if throttled > 0:
        warnings.append(f"processes were throttled for {throttled:.1f} s by a processor quota")
    disturbed = sum(is_disturbed(sample, cores) for sample in samples)
    if disturbed > _DISTURBED_SHARE * len(samples):
        share = f"{disturbed:,} of {counted(len(samples), 'sample')}"
        warnings.append(f"other processes took over {_OTHERS_SHARE:.0%} of the processor time during {share}")
        return warnings
    # What cannot be told of one short sample can be told of all of them.
    others = sum(sample.get("others_seconds", 0.0) for sample in samples)
    whole = sum(sample.get("wall_seconds", 0.0) for sample in samples) * cores
    if others > _OTHERS_SHARE * whole:
        share = f"{others / whole:.0%}" if whole else "all"
        warnings.append(f"other processes took {share} of the processor time during all samples together")
    return warnings


def is_disturbed(reading: HostReading, cores: int) -> bool:
    """Return true if other processes took a noticeable share of all `cores` during a sample.

    The kernel counts their time in ticks, mostly of 10 ms: as much as a short sample has.
    """
    least = _OTHERS_SHARE * reading.get("wall_seconds", 0.0) * cores
    return reading.get("others_seconds", 0.0) > least + _TICKS_OFF / os.sysconf("SC_CLK_TCK")


def _steal_seconds() -> float:
    fields = _ticks()
    return (fields[_STEAL_FIELD] if len(fields) > _STEAL_FIELD else 0) / os.sysconf("SC_CLK_TCK")


def _busy_seconds() -> float:
    """Time in which any core ran a process or the kernel, since the machine was started."""
    fields = _ticks()
    return sum(fields[place] for place in _BUSY_FIELDS) / os.sysconf("SC_CLK_TCK")


def _own_seconds() -> float:
    """Processor time of this process and of those below it.

    The kernel adds the time of a child that has ended to the account of the parent that has waited for it.
    `/proc` has whole ticks, an error that grows with the number of processes: their clocks are read instead.
    Only the time of children that descendants have waited for is counted in ticks.
    """
    children: dict[int, list[int]] = defaultdict(list)
    seconds: dict[int, float] = {}
    tick = 1 / os.sysconf("SC_CLK_TCK")
    for folder in Path("/proc").glob("[0-9]*"):
        # One that ends meanwhile is in its parent's account, now or at the next reading.
        with contextlib.suppress(OSError):
            # The name in brackets may have anything in it; see proc_pid_stat(5) for the fields behind.
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            children[int(fields[1])].append(int(folder.name))
            seconds[int(folder.name)] = sum(map(int, fields[13:15])) * tick
    own = os.getpid()
    waited_for = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds[own] = waited_for.ru_utime + waited_for.ru_stime
    total, below = 0.0, [own]
    while below:
        each = below.pop()
        # Reading its clock fails for one that has ended since.
        with contextlib.suppress(OSError):
            total += seconds.get(each, 0.0) + processor_seconds(each)
        below += children[each]
    return total


def processor_seconds(process: int) -> float:
    """Processor time of a process that still runs.

    Raises:
        OSError: It has ended.
    """
    # The clock that `clock_getcpuclockid` of libc returns.
    return time.clock_gettime((~process << 3) | 2)


def _ticks() -> list[int]:
    """The counters of all cores in ``/proc/stat``, in ticks of the clock; see proc_stat(5)."""
    return [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]


def _throttled_seconds() -> float:
    """Throttled time of this process's group, v2 or v1, or of one around it; 0 where no quota is kept."""
    return max((_throttled_in(group / "cpu.stat") for group in around("cpu")), default=0.0)


def _throttled_in(path: Path) -> float:
    units = {"throttled_usec": 1e6, "throttled_time": 1e9}
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return 0.0
    pairs = (line.partition(" ") for line in lines)
    return max((int(value) / units[key] for key, _, value in pairs if key in units), default=0.0)
