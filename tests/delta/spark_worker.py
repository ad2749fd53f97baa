# ruff: noqa: T201 - what it prints is its answer
"""Spark with Delta in a process of its own: one JSON command a line on standard input, one answer a line."""

from __future__ import annotations

import json
import sys
from typing import Any

from spillway.spark import local_session


def answer(session: Any, command: dict[str, str]) -> Any:
    if "sql" in command:
        return [list(row) for row in session.sql(command["sql"]).collect()]
    frame = session.read.format("delta").load(command["read"])
    frame.coalesce(1).write.mode("overwrite").parquet(command["into"])
    return frame.count()


def main() -> None:
    session = local_session("spillway-delta", delta=True, say=lambda _: None)
    # 200 by default, for tables of a few rows.
    session.conf.set("spark.sql.shuffle.partitions", "2")
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        try:
            reply = {"answer": answer(session, json.loads(line))}
        except Exception as error:  # noqa: BLE001 - the test that asked shall see it
            reply = {"error": str(error)}
        print(json.dumps(reply, default=str), flush=True)


if __name__ == "__main__":
    main()
