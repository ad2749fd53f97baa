"""A real S3 server on the loopback, and a proxy before it that fails as it is told."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import botocore.session
from botocore.config import Config

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SECONDS = 30
# The server takes any secret, but only this key.
KEY, SECRET = "test", "a-secret-that-nobody-may-see"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server:
    """One process of the S3 server; its data are in its memory."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "TMPDIR": str(folder),
            "BIND_HOST": "127.0.0.1",
            "GATEWAY_PORT": str(self.port),
            "SERVICES": "s3,iam,sts",
            "AUTH": "true",
            "LOG_LEVEL": "WARNING",
        }
        self._log = (folder / "server.log").open("wb")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "ministack"],
            env=environment,
            cwd=folder,
            stdout=self._log,
            stderr=self._log,
        )
        try:
            self._await()
        except BaseException:
            self.stop()
            raise

    def _await(self) -> None:
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            assert self._process.poll() is None, "the S3 server ended at its start"
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.05)
        raise TimeoutError("the S3 server did not start")

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()


@dataclass
class Bucket:
    """A bucket of the server, as another client sees it."""

    port: int
    name: str
    client: Any = field(init=False)

    def __post_init__(self) -> None:
        self.client = botocore.session.get_session().create_client(
            "s3",
            region_name="us-east-1",
            endpoint_url=f"http://127.0.0.1:{self.port}",
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
            config=Config(s3={"addressing_style": "path"}, proxies={}),
        )

    def url(self, key: str) -> str:
        return f"s3://{self.name}/{key}"

    def options(self, **others: str) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
            **others,
        }

    def keys(self) -> list[str]:
        found = self.client.list_objects_v2(Bucket=self.name)
        return sorted(entry["Key"] for entry in found.get("Contents", ()))

    def uploads(self) -> list[str]:
        """Keys of multipart uploads that were neither completed nor aborted."""
        found = self.client.list_multipart_uploads(Bucket=self.name)
        return sorted(entry["Key"] for entry in found.get("Uploads") or ())

    def read(self, key: str) -> bytes:
        body: bytes = self.client.get_object(Bucket=self.name, Key=key)["Body"].read()
        return body

    def put(self, key: str, body: bytes) -> None:
        self.client.put_object(Bucket=self.name, Key=key, Body=body)


@dataclass(frozen=True)
class Request:
    """What the proxy saw."""

    method: str
    path: str

    @property
    def is_begin(self) -> bool:
        return self.method == "POST" and "uploads" in self.path.partition("?")[2]

    @property
    def is_part(self) -> bool:
        return self.method == "PUT" and "partNumber=" in self.path

    @property
    def is_completion(self) -> bool:
        return self.method == "POST" and "uploadId=" in self.path

    @property
    def is_abort(self) -> bool:
        return self.method == "DELETE" and "uploadId=" in self.path


class Proxy:
    """Hands requests on to the server, but for those that `fault` has an answer to.

    Args:
        port: The server's.
        fault: Called with each request. A status is answered without asking the server, ``"hang"`` never
            answers, ``"close"`` ends the connection, and ``None`` hands the request on.
    """

    def __init__(self, port: int, fault: Callable[[Request], int | str | None]) -> None:
        self.seen: list[Request] = []
        self.finished = threading.Event()
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                pass

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                request = Request(self.command, self.path)
                proxy.seen.append(request)
                fault_found = fault(request)
                if fault_found == "hang":
                    proxy.finished.wait(SECONDS)
                if isinstance(fault_found, str):
                    self.close_connection = True
                    return
                if fault_found is not None:
                    self.reply(fault_found, {"Content-Type": "application/xml"}, explanation(fault_found))
                    return
                with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)) as connection:
                    connection.request(self.command, self.path, body, dict(self.headers))
                    answer = connection.getresponse()
                    content = answer.read()
                headers = {
                    name: value
                    for name, value in answer.getheaders()
                    if name.lower() not in {"transfer-encoding", "content-length", "connection"}
                }
                self.reply(answer.status, headers, content)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = answer  # noqa: N815 - http.server's names

            def reply(self, status: int, headers: dict[str, str], content: bytes) -> None:
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

        class Listener(ThreadingHTTPServer):
            def handle_error(self, *_: object) -> None:
                """Clients that leave in the middle are what is tested."""

        self._server = Listener(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def stop(self) -> None:
        self.finished.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def explanation(status: int) -> bytes:
    return f"<Error><Code>Told</Code><Message>the proxy was told to say {status}</Message></Error>".encode()
