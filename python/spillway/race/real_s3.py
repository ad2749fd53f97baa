"""The races of ``--real-s3``: few, with their cost known beforehand, and nothing left in the bucket."""

from __future__ import annotations

import statistics
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import mul
from typing import TYPE_CHECKING, Any, NamedTuple

from spillway._wording import counted
from spillway.errors import OptionError, SpillwayError
from spillway.harness.processes import redact
from spillway.harness.report import Entry, Table
from spillway.race.location import Location, S3Files
from spillway.race.model import Cell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType
    from typing import Self

    from spillway.race.record import RaceRecord
    from spillway.race.run import Options

PRICES = "list prices of S3 Standard in us-east-1, November 2026: aws.amazon.com/s3/pricing"
# Of a PUT, COPY, POST or LIST, of a GET or HEAD, and of a byte to the internet. A DELETE is free, and so is a
# byte to a machine in the bucket's region.
_PUT_USD, _GET_USD, _BYTE_USD = 0.005 / 1000, 0.0004 / 1000, 0.09 / 1e9
_REQUEST_BYTES = 5_000
_MOST_OF_ESTIMATE = 2
# GETs of which the median is the latency.
_GETS = 20
_PROBE = "probe"
# An append at the latencies of docs/design/scale.md, and the start and end of the processes of a race.
_APPEND_SECONDS, _RACE_SECONDS = 0.25, 10.0
# Attempts of one call of delta-rs: it tries again 15 times.
_ATTEMPTS_OF_CALL = 16
# An assumption: S3 Standard answers no PUT sooner.
_LEAST_SECONDS = 0.02


class Requests(NamedTuple):
    """Numbers of requests, by what they are billed as: PUT, COPY, POST and LIST, and GET and HEAD."""

    puts: int = 0
    gets: int = 0

    def __add__(self, other: Requests) -> Requests:  # type: ignore[override]
        return Requests(self.puts + other.puts, self.gets + other.gets)

    @property
    def usd(self) -> float:
        """Their price in US dollars."""
        return self.puts * _PUT_USD + self.gets * _GET_USD


# The most requests of each kind, as counted at a server on the loopback; a test counts them again. They are
# of a race (to make, check and remove its table), of a process (to warm up), of a writer (to open the table),
# of an append (with the readers of the check), and of an attempt to write a version.
_FIGURES = {
    "spillway": ((10, 16), (25, 16), (0, 2), (1, 4), (3, 7)),
    "delta-rs-retry": ((12, 14), (10, 14), (1, 4), (2, 5), (3, 4)),
}


def cell(committer: str, writers: int, appends: int, processes: int = 1) -> Cell:
    """A race of appends."""
    return Cell(
        committer=committer, workload="append-only", writers=writers, appends=appends, processes=processes
    )


CELLS = (
    *(cell(name, *race) for race in ((1, 50), (10, 10), (50, 1)) for name in _FIGURES),
    cell("spillway", 10, 10, processes=10),
    cell("spillway", 200, 1),
)
"""The races. delta-rs has none of 200 writers: each of its appends is a version, and a minute is short."""


def requests_of(cell: Cell, record: RaceRecord | None = None) -> Requests:
    """The requests of a race: the estimate, or what its record accounts for."""
    attempts = _expected_attempts(cell) if record is None else _attempts(cell, record)
    numbers = (1, cell.processes, cell.writers, cell.writers * cell.appends, attempts)
    return Requests(*(sum(map(mul, numbers, kind)) for kind in zip(*_FIGURES[cell.committer], strict=True)))


def _expected_attempts(cell: Cell) -> int:
    """Attempts to write a version, and announcements of appends that lost one."""
    appends = cell.writers * cell.appends
    if cell.committer == "spillway":
        # Threads share versions; in processes each append is announced, or tried twice.
        return 2 * appends if cell.processes > 1 else min(appends, 3 * cell.appends)
    # All writers try each version, until they are done one after another.
    return cell.writers * (appends - cell.writers) + cell.writers * (cell.writers + 1) // 2


def _attempts(cell: Cell, record: RaceRecord) -> int:
    """The same that a record accounts for. Of delta-rs it has calls: all but the last of an append failed."""
    calls = record["attempts"] or 0
    if cell.committer == "spillway":
        effects = record["effects"] or {}
        return calls + effects.get("put_intent", {"count": 0})["count"]
    won = record["acknowledged"]
    return won + (calls - won + record["still_waiting"]) * _ATTEMPTS_OF_CALL


@dataclass
class RealS3:
    """An empty prefix of a bucket, as a context manager that empties it again.

    Attributes:
        location: The prefix, with the credentials that all committers use.
        region: The bucket's region; None where the server does not say.
        configured_region: That of the caller's settings, or None.
        options: The options of the run.
        say: Prints a line.
        keep: True if the objects of the races stay, as those of a table that is wrong do.
        get_seconds: The median time of a GET, after `prove`.
    """

    location: Location
    region: str | None
    configured_region: str | None
    options: Options
    say: Callable[[str], None]
    keep: bool
    get_seconds: float | None = None
    _spent: Requests = field(default_factory=Requests)

    @classmethod
    def find(
        cls,
        store: str | None,
        storage_options: dict[str, str],
        options: Options,
        say: Callable[[str], None],
        *,
        keep: bool,
    ) -> Self:
        """Look at the bucket, and write nothing.

        Raises:
            OptionError: `store` is no prefix of a general purpose bucket, or has objects; no credentials.
            SpillwayError: The bucket does not answer, or refuses the credentials.
        """
        bucket, _, prefix = (store or "").removeprefix("s3://").strip("/").partition("/")
        if store is None or not store.startswith("s3://") or not prefix:
            raise OptionError("--real-s3 needs --store s3://BUCKET/PREFIX, a prefix without objects")
        if bucket.endswith("--x-s3"):
            raise OptionError(
                f"--store {store}: races cannot use directory buckets (S3 Express One Zone), which list "
                "objects in no order; name a general purpose bucket"
            )
        location = Location.of(store, storage_options).with_credentials()
        files = S3Files(location)
        with _plain_words(bucket):
            region, is_empty = files.region(), files.is_empty()
        if not is_empty:
            raise OptionError(
                f"--store {store} holds objects, and is emptied afterwards: name a prefix without any"
            )
        settings = {"AWS_CONDITIONAL_PUT": "etag"} | ({"AWS_REGION": region} if region else {})
        return cls(location.with_options(settings), region, location.configured_region, options, say, keep)

    @property
    def estimate(self) -> Requests:
        """The requests of all races."""
        # What `find` and `prove` send, and the last look.
        return sum(map(requests_of, CELLS * self.options.samples), Requests(5, _GETS + 2))

    def plan(self) -> Table:
        """What the races will ask of the bucket, and what that costs."""
        total, limit, samples = self.estimate, self.options.time_limit, self.options.samples
        rows = [(each.words.replace("append-only, ", ""), requests_of(each)) for each in CELLS]
        rows.append(("all" if samples == 1 else f"all, {samples} times", total))
        transferred = (total.puts + total.gets) * _REQUEST_BYTES
        seconds = samples * sum(_RACE_SECONDS + min(limit, _APPEND_SECONDS * _rounds(each)) for each in CELLS)
        ceiling = samples * sum(each.writers for each in CELLS) * limit / _LEAST_SECONDS * _PUT_USD
        region, configured = self.region or "not known", self.configured_region or "none"
        most = f"{_MOST_OF_ESTIMATE} x the estimate, {_MOST_OF_ESTIMATE * total.usd:.2f} USD"
        notes = [
            f"By {PRICES}. Storage costs less than a cent.",
            (
                f"About {transferred / 1e6:,.0f} MB are transferred: free in the bucket's region, {region}, "
                f"and {transferred * _BYTE_USD:.2f} USD at most elsewhere. Your settings name {configured}."
            ),
            (
                f"About {seconds / 60:,.0f} minutes. A race is stopped after {limit:g} s: a PUT every "
                f"{_LEAST_SECONDS * 1000:g} ms of each writer until then would cost {ceiling:.2f} USD in all."
            ),
            f"No race begins once the requests that the records account for exceed {most}.",
            f"Everything below {self.location.uri} is removed afterwards.",
        ]
        if self.location.endpoint:
            notes.append("AWS_ENDPOINT_URL is set: a rehearsal on that server, which Amazon does not bill.")
        cells = [
            [Entry(text) for text in (words, f"{each.puts:,}", f"{each.gets:,}", f"{each.usd:.4f}")]
            for words, each in rows
        ]
        header = ("race", "PUT, LIST", "GET, HEAD", "USD")
        return Table("Estimated requests", header, cells, notes)

    def prove(self) -> None:
        """Check that the store creates an object only once, and measure the latency of a GET.

        Raises:
            SpillwayError: The store replaces an object that exists, or refuses requests.
        """
        files = S3Files(self.location.below(_PROBE))
        with _plain_words(self.location.uri):
            with files.draft(b"first") as first, files.draft(b"second") as second:
                if not first.put_new("object") or second.put_new("object"):
                    raise SpillwayError(
                        "the store creates an object twice: it has no conditional PUT "
                        "(If-None-Match), and Delta tables in it would lose commits"
                    )
            times = []
            for _ in range(_GETS):
                begun = time.perf_counter()
                files.read("object")
                times.append(time.perf_counter() - begun)
        self.get_seconds = statistics.median(times)
        self.say(f"a GET takes {self.get_seconds * 1000:,.1f} ms, the median of {_GETS}")

    @property
    def measured(self) -> dict[str, Any]:
        """What the run's record says of the bucket. Its name and the account are left out."""
        return {
            "region": self.region,
            "configured_region": self.configured_region,
            "get_seconds": self.get_seconds,
        }

    def is_enough(self, cell: Cell, record: RaceRecord) -> bool:
        """Add up the requests of a race; return True if the run has to end."""
        self.keep |= bool(record["table"]["problems"])
        self._spent += requests_of(cell, record)
        if self._spent.usd <= _MOST_OF_ESTIMATE * self.estimate.usd:
            return False
        self.say(f"stopped: requests of {self._spent.usd:.2f} USD, over {_MOST_OF_ESTIMATE} x the estimate")
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Remove all objects, or say what is left."""
        where = self.location.uri
        try:
            (self.location.below(_PROBE) if self.keep else self.location).files().remove()
            left = len(self.location.files().names())
        except (Exception, KeyboardInterrupt) as problem:  # noqa: BLE001 - it must not hide what happened before
            self.say(f"objects may be left below {where}: {redact(str(problem)) or 'interrupted'}")
        else:
            self.say(f"{counted(left, 'object')} left below {where}")


def _rounds(cell: Cell) -> int:
    """Appends that follow each other: threads of a process share versions, all others write one each."""
    return cell.appends * (cell.processes if cell.committer == "spillway" else cell.writers)


@contextmanager
def _plain_words(bucket: str) -> Iterator[None]:
    """Raise errors of botocore as what they mean for the user."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except ClientError as error:
        code = error.response["Error"]["Code"]
        if code in {"404", "NoSuchBucket"}:
            raise SpillwayError(f"there is no bucket of this name: {bucket}") from error
        raise SpillwayError(
            f"{bucket} refuses a request ({code}): races need s3:ListBucket on the bucket, and s3:GetObject, "
            "s3:PutObject and s3:DeleteObject below the prefix"
        ) from error
    except BotoCoreError as error:
        raise SpillwayError(f"{bucket} does not answer: {error}") from error
