"""Requests that a write asks of S3 for many files: none is copied, read or listed by itself."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import spillway.delta
import spillway.spark
from spillway.spark.folder_storage import FolderStorage

from ..counts import count

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from ..stores.server import Bucket, Fault, Proxy, Request

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]
FILES = count(quick=10, ci=24, soak=2000)
TASKS = count(quick=2, ci=3, soak=8)


def kind_of(request: Request) -> str:
    """What a request asks for, and of what: a file, an object of a job's journal, or anything else."""
    key, _, query = request.path.partition("?")
    if request.is_copy:
        return "copy"
    of = "file" if key.endswith(".parquet") else "note" if key.rpartition("/")[2].isdigit() else "other"
    for kind in ("is_begin", "is_part", "is_completion", "is_abort"):
        if getattr(request, kind):
            return f"{kind.removeprefix('is_')} {of}"
    if request.method == "POST" and query == "delete":
        return "delete many"
    if request.method == "GET" and "list-type" in query:
        return "list"
    return f"{request.method} {of}"


def requests(spark: SparkSession, store: Bucket, proxy: Proxy, **options: Any) -> dict[str, int]:
    """The requests of a write of files with a row each, by their kind."""
    through = store.options(AWS_ENDPOINT_URL=f"http://127.0.0.1:{proxy.port}")
    rows = spark.range(0, FILES, 1, TASKS)
    done = spillway.spark.write(rows, store.url("to"), max_file_rows=1, storage_options=through, **options)
    assert (done.rows, done.files) == (FILES, FILES)
    return dict(Counter(map(kind_of, proxy.seen)))


#: Requests that do not depend on the number of files: marks, the log, the look at the destination.
FEW = 16 + 12 * TASKS


@pytest.mark.parametrize("run_id", [None, "monday"])
def test_a_file_of_a_folder_costs_its_upload_alone(
    spark: SparkSession,
    store: Bucket,
    faulty: Callable[[Callable[[Request], Fault]], Proxy],
    run_id: str | None,
) -> None:
    found = requests(spark, store, faulty(lambda _: None), table="parquet", run_id=run_id)
    uploads = {name: found.pop(name) for name in ("begin file", "part file", "completion file", "PUT note")}
    assert uploads == dict.fromkeys(uploads, FILES)
    assert not [name for name in found if "file" in name or "copy" in name or "note" in name], found
    assert sum(found.values()) <= FEW + 4 * FILES / 1000
    names = {each.name for each in FolderStorage(store.url("to"), store.options()).listed(recursive=True)}
    assert len([name for name in names if name.endswith(".parquet")]) == FILES
    assert not [name for name in names if name.startswith("_spillway_jobs")]


def test_a_file_of_a_delta_table_costs_a_request(
    spark: SparkSession, store: Bucket, faulty: Callable[[Callable[[Request], Fault]], Proxy]
) -> None:
    found = requests(spark, store, faulty(lambda _: None), table="delta", run_id="monday")
    assert found.pop("PUT file") == FILES
    assert not [name for name in found if "file" in name or "copy" in name], found
    assert sum(found.values()) <= FEW + 4 * FILES / 1000
    table = spillway.delta.open(store.url("to"), storage_options=store.options())
    assert (table.version, len(table.files())) == (0, FILES)
