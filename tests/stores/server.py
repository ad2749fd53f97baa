"""Real S3 servers on the loopback, and a proxy before them that fails as it is told."""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
import http.client
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import botocore.session
from botocore.config import Config

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Self

SECONDS = 30
MINIO = Path(__file__).parents[2] / ".build" / "minio"
# ministack takes any secret, but only this key.
KEY, SECRET = "test", "a-secret-that-nobody-may-see"


# Below those that Linux gives to connections: no client of a test takes one between its choice and its use.
PORTS = range(20_000, 32_000)


def free_port() -> int:
    """A port for a server that has to be told one."""
    while True:
        port = secrets.choice(PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@contextlib.contextmanager
def refusing_port() -> Iterator[int]:
    """A port that refuses connections, and that no other process gets: it is bound, and nobody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield int(held.getsockname()[1])


class PortTakenError(RuntimeError):
    """A server ended before it answered: as a rule, another process has its port."""


class Server:
    """One process of an S3 server on `port` until its block ends; what it writes and says is in `folder`."""

    def __init__(self, folder: Path, port: int, command: Sequence[str], environment: dict[str, str]) -> None:
        self.port = port
        self._folder = folder
        common = {"PATH": os.environ["PATH"], "HOME": str(folder), "TMPDIR": str(folder)}
        self._log = (folder / "server.log").open("wb")
        self._process = subprocess.Popen(
            command,
            env=common | environment,
            cwd=folder,
            stdout=self._log,
            stderr=self._log,
        )
        try:
            self._await()
        except BaseException:
            self.stop()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def _await(self) -> None:
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise PortTakenError(f"the S3 server ended at its start: {self.said()}")
            if self._answers():
                return
            time.sleep(0.05)
        raise TimeoutError("the S3 server did not start")

    def _answers(self) -> bool:
        with (
            contextlib.suppress(OSError),
            closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)) as connection,
        ):
            # Whatever a server says to a stranger, a 5xx says that it is still starting.
            connection.request("GET", "/")
            return connection.getresponse().status < 500
        return False

    def said(self) -> str:
        """The end of what the server wrote to its log."""
        return (self._folder / "server.log").read_text(errors="replace")[-1000:]

    def bucket(self, name: str) -> Bucket:
        """A new bucket."""
        bucket = Bucket(self.port, name)
        bucket.client.create_bucket(Bucket=name)
        return bucket

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()


TRIES = 5


def started(start: Callable[[int], Server]) -> Server:
    """A server at a port of its own. Where another process takes the port first, the next one is tried."""
    for _ in range(TRIES - 1):
        with contextlib.suppress(PortTakenError):
            return start(free_port())
    return start(free_port())


def ministack(folder: Path) -> Server:
    """A small server that keeps its data in its memory."""
    return started(partial(_ministack, folder))


def _ministack(folder: Path, port: int) -> Server:
    environment = {
        "BIND_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(port),
        "SERVICES": "s3,iam,sts",
        "AUTH": "true",
        "LOG_LEVEL": "WARNING",
    }
    return Server(folder, port, [sys.executable, "-m", "ministack"], environment)


def minio(folder: Path) -> Server:
    """MinIO, which `make soak` builds: a server that many people keep their tables in."""
    assert MINIO.exists(), f"{MINIO} is not there: run make .build/minio"
    (folder / "data").mkdir()
    return started(partial(_minio, folder))


def _minio(folder: Path, port: int) -> Server:
    environment = {
        "MINIO_ROOT_USER": KEY,
        "MINIO_ROOT_PASSWORD": SECRET,
        "MINIO_UPDATE": "off",
        "MINIO_BROWSER": "off",
    }
    addresses = ["--address", f"127.0.0.1:{port}", "--console-address", f"127.0.0.1:{free_port()}"]
    command = [str(MINIO), "server", "--quiet", *addresses, str(folder / "data")]
    return Server(folder, port, command, environment)


@functools.cache
def client_of(port: int) -> Any:
    """One client for all buckets of a server: making one takes longer than most tests of a bucket."""
    return botocore.session.get_session().create_client(
        "s3",
        region_name="us-east-1",
        endpoint_url=f"http://127.0.0.1:{port}",
        aws_access_key_id=KEY,
        aws_secret_access_key=SECRET,
        config=Config(s3={"addressing_style": "path"}, proxies={}),
    )


@dataclass
class Bucket:
    """A bucket of the server, as another client sees it."""

    port: int
    name: str
    client: Any = field(init=False)

    def __post_init__(self) -> None:
        self.client = client_of(self.port)

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
    """A request that the proxy saw."""

    method: str
    path: str
    is_conditional: bool = False
    """True if it asks to replace nothing."""
    is_copy: bool = False
    """True if it asks for a copy of another object."""
    is_exchange: bool = False
    """True if it asks to replace one state of an object."""

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

    @property
    def is_version(self) -> bool:
        """True if it would create a version of a table."""
        return self.method == "PUT" and "/_delta_log/" in self.path and self.path.endswith(".json")


@dataclass(frozen=True)
class Instead:
    """The request reaches the server, and another answer comes back: a status, or none at all."""

    status: int | None = None


@dataclass(frozen=True)
class Late:
    """The request is held back for so many seconds."""

    seconds: float


@dataclass(frozen=True)
class Undated:
    """The server's answer comes back without its ``Date``."""


Fault = int | str | Instead | Late | Undated | None


# What the proxy says itself.
MODIFIED = re.compile(rb"<LastModified>([^<]+)</LastModified>")
OWN_HEADERS = {"transfer-encoding", "content-length", "connection", "date", "server"}


class Proxy:
    """Hands requests on to the server, but for those that `fault` has an answer to.

    Args:
        port: The server's.
        fault: Called with each request. A status is answered without asking the server, ``"hang"`` does not
            answer before the proxy stops, ``"close"`` ends the connection, `Instead` asks the server and
            keeps its answer back, `Late` asks it later, `Undated` keeps the date of its answer back, and
            ``None`` hands the request on.

    Attributes:
        ahead: Seconds by which the store's clock is to be ahead of its objects.
        aged: Seconds by which listings are to make objects older.
    """

    def __init__(self, port: int, fault: Callable[[Request], Fault]) -> None:
        self.server_port = port
        self.fault = fault
        self.ahead = 0.0
        self.aged = 0.0
        self.seen: list[Request] = []
        self.finished = threading.Event()
        self._connections = 0
        self._changed = threading.Condition()
        self._server = Listener(("127.0.0.1", 0), partial(Handler, self))
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    @contextlib.contextmanager
    def connected(self) -> Iterator[None]:
        """Count a connection while it is open."""
        with self._changed:
            self._connections += 1
        try:
            yield
        finally:
            with self._changed:
                self._connections -= 1
                self._changed.notify_all()

    def wait_until_alone(self) -> None:
        """Wait until clients that are gone have no connection: what they sent has reached the server."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._connections == 0, SECONDS)

    def stop(self) -> None:
        self.finished.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class Listener(ThreadingHTTPServer):
    daemon_threads = True
    # More writers connect at once than the five that wait by default.
    request_queue_size = 128

    def handle_error(self, *_: object) -> None:
        """Clients that leave in the middle are what is tested."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, proxy: Proxy, *arguments: Any) -> None:
        self.proxy = proxy
        super().__init__(*arguments)

    def log_message(self, *_: object) -> None:
        pass

    def date_time_string(self, timestamp: float | None = None) -> str:
        return super().date_time_string((timestamp or time.time()) + self.proxy.ahead)

    def handle(self) -> None:
        with self.proxy.connected():
            super().handle()

    def answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        if len(body) < length:
            # The client is gone. A server does nothing with a part of a request.
            self.close_connection = True
            return
        request = Request(
            self.command,
            self.path,
            self.headers.get("If-None-Match") == "*",
            "x-amz-copy-source" in self.headers,
            "If-Match" in self.headers,
        )
        self.proxy.seen.append(request)
        match self.proxy.fault(request):
            case None:
                self.reply(*self.ask(body))
            case Late(seconds):
                self.proxy.finished.wait(seconds)
                self.reply(*self.ask(body))
            case Undated():
                self.reply(*self.ask(body), is_dated=False)
            case Instead(status):
                self.ask(body)
                self.explain(status)
            case int() as status:
                self.explain(status)
            case "hang":
                self.proxy.finished.wait()
                self.explain(None)
            case _:
                self.explain(None)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = answer  # noqa: N815 - http.server's names

    def ask(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        """The server's answer."""
        port = self.proxy.server_port
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)) as connection:
            connection.request(self.command, self.path, body, dict(self.headers))
            answer = connection.getresponse()
            content = answer.read()
        if self.proxy.aged:
            content = MODIFIED.sub(self.older, content)
        # The length of what is not sent is the server's to say.
        own = OWN_HEADERS - {"content-length"} if self.command == "HEAD" else OWN_HEADERS
        headers = {name: value for name, value in answer.getheaders() if name.lower() not in own}
        return answer.status, headers, content

    def older(self, found: re.Match[bytes]) -> bytes:
        """An object's time in a listing, as many seconds earlier as the proxy is to make it."""
        at = dt.datetime.fromisoformat(found[1].decode()) - dt.timedelta(seconds=self.proxy.aged)
        return f"<LastModified>{at:%Y-%m-%dT%H:%M:%S.000Z}</LastModified>".encode()

    def explain(self, status: int | None) -> None:
        """Answer with a status, or not at all."""
        if status is None:
            self.close_connection = True
        else:
            self.reply(status, {"Content-Type": "application/xml", "ETag": '"told"'}, explanation(status))

    def reply(self, status: int, headers: dict[str, str], content: bytes, *, is_dated: bool = True) -> None:
        if is_dated:
            self.send_response(status)
        else:
            self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if self.command != "HEAD" or "content-length" not in {name.lower() for name in headers}:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


def explanation(status: int) -> bytes:
    return f"<Error><Code>Told</Code><Message>the proxy was told to say {status}</Message></Error>".encode()
