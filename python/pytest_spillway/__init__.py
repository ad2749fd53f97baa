"""A pytest plugin: the fixture ``parquet_benchmark`` measures a Parquet writer in separate processes.

    def test_my_writer(parquet_benchmark):
        parquet_benchmark(my_write, data="logs", rows=100_000, memory="512MB", against="pyarrow-streaming")

pytest-benchmark provides the statistics, the options and the files. It counts the seconds that the measured
processes report, through the public option ``timer`` of its marker: processor time if that is
``time.process_time``. Until the fixture is used, this package imports only pytest.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from pytest_spillway.timing import PROPERTY, clock

if TYPE_CHECKING:
    from pytest_spillway.measuring import ParquetBenchmark, WriterFailedError

__all__ = ["ParquetBenchmark", "WriterFailedError"]

_FIXTURE = "parquet_benchmark"
_PEERS = ("benchmark", "pytest_benchmark.plugin")  # the names that pytest-benchmark is loaded by


def pytest_configure(config: pytest.Config) -> None:
    """Offer the fixture; without pytest-benchmark, a fixture that says what to install."""
    name = "fixture" if _has_pytest_benchmark(config) else "absent"
    config.pluginmanager.import_plugin(f"{__name__}.{name}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Have pytest-benchmark read the clock in tests that use the fixture, beside their own options."""
    if not _has_pytest_benchmark(config):
        return
    for item in items:
        if _FIXTURE in getattr(item, "fixturenames", ()):
            marker = item.get_closest_marker("benchmark")
            options = {} if marker is None else marker.kwargs
            asked = options.get("timer", config.getoption("benchmark_timer"))
            is_processor = asked in {time.process_time, "time.process_time"}
            timer = clock.processor_seconds if is_processor else clock.measured_seconds
            # pytest-benchmark reads the closest marker alone.
            item.add_marker(pytest.mark.benchmark(**{**options, "timer": timer}), append=False)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show for each measured test its limit, who read the file back, and the comparison."""
    # Properties of reports come from processes of xdist, too.
    found = [
        (report.nodeid, str(value))
        for outcome in ("passed", "failed")
        for report in terminalreporter.stats.get(outcome, [])
        for name, value in getattr(report, "user_properties", ())
        if name == PROPERTY and getattr(report, "when", None) == "call"
    ]
    if not found:
        return
    terminalreporter.section(_FIXTURE, sep="-")
    for nodeid, lines in found:
        terminalreporter.write_line(nodeid)
        for line in lines.splitlines():
            terminalreporter.write_line(f"  {line}")


def _has_pytest_benchmark(config: pytest.Config) -> bool:
    return any(config.pluginmanager.hasplugin(name) for name in _PEERS)


def __getattr__(name: str) -> object:
    if name in __all__:
        from pytest_spillway import measuring

        return getattr(measuring, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
