"""Write a file, let Spark read it and write it as a folder. Needs Java and the extra "spark"."""

from __future__ import annotations

import pyarrow as pa

import spillway
from spillway.spark import local_session, stop_session


def main() -> None:
    table = pa.table({"service": ["api", "web", "api"], "status": [200, 404, 200]})
    spillway.write_parquet(table, "logs.parquet")
    spark = local_session("example")
    try:
        frame = spark.read.parquet("logs.parquet")
        frame.write.format("spillway").mode("append").save("logs")
        counted = spark.read.parquet("logs").groupBy("service").count().collect()
    finally:
        stop_session(spark)
    counts = {row["service"]: row["count"] for row in counted}
    assert counts == {"api": 2, "web": 1}
    print(counts)


if __name__ == "__main__":
    main()
