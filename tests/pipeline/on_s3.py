"""A pipeline into MinIO whose files Spark reads by its own S3A: ``python -m tests.pipeline.on_s3 parquet``.

It prints what was read and written, and the requests of the publication, as JSON.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spillway.errors import CheckFailedError
from spillway.spark import Pipeline, Sink, between, unique

from ..spark.beside_others import proxied, s3a_session
from ..stores.server import minio

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ..stores.server import Bucket


def pipeline(session: SparkSession, bucket: Bucket, table: Any, first: int, run_id: str) -> Pipeline:
    rows = session.range(first, first + 40, 1, 3)
    source = rows.selectExpr("id", "id % 10 AS lat", "concat('d ', id % 2, '/%41') AS day")
    sink = Sink(bucket.url("to x"), table=table, partition_by="day", storage_options=bucket.options())
    checks = [between("lat", 0, 8), unique("id", in_table=True)]
    return Pipeline(source=source, checks=checks, bad_rows="quarantine", sink=sink, run_id=run_id)


def main() -> None:
    """Run pipelines, and print what became of them."""
    (table,) = sys.argv[1:]
    with (
        tempfile.TemporaryDirectory() as folder,
        minio(Path(folder)) as server,
        proxied(server.port) as proxy,
        s3a_session(proxy.port) as session,
    ):
        bucket = server.bucket("lake")
        results = [
            pipeline(session, bucket, table, first, name).run(session)
            for first, name in ((0, "monday"), (0, "monday"), (40, "tuesday"))
        ]
        before = bucket.keys()
        try:
            pipeline(session, bucket, table, 70, "wednesday").run(session)
        except CheckFailedError as error:
            refused = dict(error.counts)
        said = {
            "written": [result.rows_written for result in results],
            "quarantined": [result.rows_quarantined for result in results],
            "repeated": [result.repeated for result in results],
            "audited": [result.audit.rows for result in results],
            "refused": refused,
            "left": sorted(set(bucket.keys()) - set(before)) + bucket.uploads(),
        }
        if table == "parquet":
            found = (
                session.read.parquet("s3a://lake/to x/").selectExpr("count(*)", "count(DISTINCT id)").first()
            )
            said["read"] = list(found or ())
        sys.stdout.write(f"{json.dumps(said)}\n")


if __name__ == "__main__":
    main()
