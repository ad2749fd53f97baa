"""Credentials that expire: sources of the machine are asked again, and what is passed as text is not."""

from __future__ import annotations

import datetime as dt
import json
import os
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import spillway
from spillway.spark.folder_storage import FolderStorage

from .server import KEY

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .server import Bucket

#: Seconds for which a source is not asked again, however soon its answer expires.
PAUSE = 0.15


class Source(BaseHTTPRequestHandler):
    """What containers and instances ask for their role's credentials; these expire in three minutes."""

    answers: list[str]

    def log_message(self, *_: object) -> None:
        pass

    def do_PUT(self) -> None:
        self._answer(b"a token")

    def do_GET(self) -> None:
        if self.path.endswith("/security-credentials/"):
            self._answer(b"role")
            return
        self.answers.append(self.path)
        until = dt.datetime.now(dt.UTC) + dt.timedelta(minutes=3)
        found = {
            "AccessKeyId": KEY,
            "SecretAccessKey": f"secret {len(self.answers)}",
            "Token": "session",
            "Expiration": until.isoformat(),
        }
        self._answer(json.dumps({**found, "Code": "Success"}).encode())

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def source() -> Iterator[tuple[str, list[str]]]:
    """The URL of a source of credentials, and the requests for them."""
    answers: list[str] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("OneSource", (Source,), {"answers": answers}))
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}", answers
    server.shutdown()
    server.server_close()


@pytest.fixture
def settings(
    bucket: Bucket, source: tuple[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, dict[str, str]]:
    """The settings of each source; no other is in the environment."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    (tmp_path / "token").write_text("a token")
    container = {
        "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{source[0]}/container",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(tmp_path / "token"),
    }
    common = {name: value for name, value in bucket.options().items() if "KEY" not in name}
    return {
        "container": {**common, **container},
        "instance": {**common, "AWS_METADATA_ENDPOINT": source[0]},
        "text": {**bucket.options(), **container, "AWS_SESSION_TOKEN": "session"},
    }


@pytest.mark.parametrize("kind", ["container", "instance", "text"])
def test_a_client_asks_its_source_again_before_credentials_expire(
    bucket: Bucket, source: tuple[str, list[str]], settings: dict[str, dict[str, str]], kind: str
) -> None:
    storage = FolderStorage(bucket.url("to"), settings[kind])
    for _ in range(3):
        storage.mark("a")
        time.sleep(PAUSE)
    assert len(source[1]) == (0 if kind == "text" else 3)


def test_a_writer_that_is_open_for_long_goes_on_with_new_credentials(
    bucket: Bucket, source: tuple[str, list[str]], settings: dict[str, dict[str, str]], large: pa.Table
) -> None:
    with spillway.ParquetWriter(
        bucket.url("a.parquet"), large.schema, storage_options=settings["container"], row_group_rows=300_000
    ) as writer:
        for start in range(0, large.num_rows, 300_000):
            writer.write(large.slice(start, 300_000))
            time.sleep(PAUSE)
    assert len(source[1]) > 2
    assert pq.read_table(pa.BufferReader(bucket.read("a.parquet"))).equals(large)
