"""A Python of workers that cannot write is one error before the first task, which names it and the remedy."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import pytest

import spillway.spark
from spillway.errors import SpillwayError
from spillway.spark.workers import check_workers, missing_on_workers

from .cluster import BASE_PYTHON

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def workers(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Callable[[str | Path], SparkSession]:
    """The session, with another Python for its workers, and as if nothing had been asked before."""

    def started(interpreter: str | Path) -> SparkSession:
        monkeypatch.setattr("spillway.spark.workers._CHECKED", WeakSet())
        monkeypatch.setattr(spark.sparkContext, "pythonExec", str(interpreter))
        return spark

    return started


def interpreter(folder: Path, version: tuple[int, ...], missing: list[str]) -> Path:
    """A program that answers as such a Python does, and keeps a line of each time that it was asked."""
    path = folder / "python"
    answer = json.dumps({"version": version, "missing": missing})
    path.write_text(f"#!/bin/sh\necho asked >> {folder}/asked\necho '{answer}'\n")
    path.chmod(0o755)
    return path


def test_the_python_of_this_process_is_accepted(workers: Callable[[str | Path], SparkSession]) -> None:
    check_workers(workers(sys.executable))


def test_a_python_without_pyarrow_is_named(workers: Callable[[str | Path], SparkSession]) -> None:
    session = workers(BASE_PYTHON)
    with pytest.raises(SpillwayError, match=f"{BASE_PYTHON}, has no pyarrow: set PYSPARK_PYTHON"):
        check_workers(session)


def test_a_python_that_is_not_there_is_named(workers: Callable[[str | Path], SparkSession]) -> None:
    session = workers("/nowhere/python3")
    with pytest.raises(SpillwayError, match=r"/nowhere/python3, does not run: .*No such file"):
        spillway.spark.register(session)


def test_all_that_a_python_lacks_is_said_at_once(
    workers: Callable[[str | Path], SparkSession], tmp_path: Path
) -> None:
    session = workers(interpreter(tmp_path, sys.version_info[:2], ["spillway", "pyarrow"]))
    with pytest.raises(SpillwayError, match="has no spillway and no pyarrow"):
        check_workers(session)


def test_another_minor_version_of_python_is_refused(
    workers: Callable[[str | Path], SparkSession], tmp_path: Path
) -> None:
    session = workers(interpreter(tmp_path, (3, 9), []))
    with pytest.raises(SpillwayError, match=r"is Python 3\.9, and the driver has 3\.\d+"):
        check_workers(session)


def test_a_session_is_asked_once(workers: Callable[[str | Path], SparkSession], tmp_path: Path) -> None:
    session = workers(interpreter(tmp_path, sys.version_info[:2], []))
    check_workers(session)
    check_workers(session.newSession())
    assert (tmp_path / "asked").read_text() == "asked\n"


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "local-cluster[2,1,1024]"])
def test_workers_of_other_masters_are_not_asked(
    workers: Callable[[str | Path], SparkSession], monkeypatch: pytest.MonkeyPatch, master: str
) -> None:
    session = workers("/nowhere/python3")
    monkeypatch.setattr(session.sparkContext, "master", master)
    check_workers(session)


def test_a_session_of_spark_connect_is_not_asked() -> None:
    of_connect: Any = SimpleNamespace()
    check_workers(of_connect)


@pytest.mark.parametrize(
    ("said", "lacks"),
    [
        ("ModuleNotFoundError: No module named 'spillway'", "workers has no spillway"),
        ("ModuleNotFoundError: No module named 'pyarrow'", "workers has no pyarrow"),
        ("[X] PyArrow >= 18.0.0 must be installed; however, it was not found.", "workers has no pyarrow"),
        (
            'java.io.IOException: Cannot run program "python9": error=2, No such file',
            "python9, does not run there",
        ),
    ],
)
def test_the_error_of_a_task_becomes_the_same_sentence(said: str, lacks: str) -> None:
    explained = missing_on_workers(RuntimeError(f"Job aborted\n{said}\n  at org.apache.spark"))
    assert explained is not None
    assert lacks in str(explained)
    assert "set PYSPARK_PYTHON to one that has Spillway and pyarrow" in str(explained)


@pytest.mark.parametrize("said", ["No module named 'numpy'", "No module named 'spillway_extra'", "disk full"])
def test_other_errors_of_tasks_are_not_explained(said: str) -> None:
    assert missing_on_workers(RuntimeError(said)) is None
