"""The location of a table, and its files as the race itself reads and writes them: on a disk, or on S3."""

from __future__ import annotations

import difflib
import os
import secrets
import shutil
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spillway.errors import MissingExtraError, OptionError

if TYPE_CHECKING:
    from typing import Self


@dataclass(frozen=True)
class Location:
    """A folder, or a prefix of a bucket.

    Attributes:
        uri: A path or an ``s3://`` URL, without a slash at its end.
        storage_options: Endpoint and credentials, with the names of delta-rs; ``AWS_*`` in the environment
            also apply.
    """

    uri: str
    storage_options: dict[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, uri: str, storage_options: dict[str, str]) -> Location:
        """The location that a user named.

        Raises:
            OptionError: It is in a store that the race has no way to; or the client of its checks does not
                know a storage option.
        """
        if "://" in uri and not uri.startswith("s3://"):
            raise OptionError(f"--store {uri}: name a folder, or s3://BUCKET/PREFIX")
        if storage_options and "://" not in uri:
            raise OptionError("--storage-option needs --store s3://...")
        for name in storage_options:
            if _short(name) not in _UNDERSTOOD:
                raise OptionError(_unknown(name), "storage_options", sorted(_UNDERSTOOD))
        path = uri.rstrip("/") if "://" in uri else str(Path(uri).absolute())
        return cls(path, storage_options)

    @property
    def is_local(self) -> bool:
        """True if it is a folder on this machine."""
        return "://" not in self.uri

    @property
    def endpoint(self) -> str | None:
        """The URL of the S3 server; None on a disk, and for Amazon's own."""
        if self.is_local:
            return None
        given = _short_names(self.storage_options)
        return given.get("endpoint_url") or os.environ.get("AWS_ENDPOINT_URL")

    @property
    def configured_region(self) -> str | None:
        """The region by storage options, the environment or a profile."""
        given = _short_names(self.storage_options).get("region") or os.environ.get("AWS_REGION")
        return given or _session().get_config_variable("region")

    def with_credentials(self) -> Location:
        """The location with the credentials that botocore finds: not all committers read profiles.

        Raises:
            MissingExtraError: botocore is not installed.
            OptionError: botocore finds no credentials.
        """
        if "access_key_id" in _short_names(self.storage_options):
            return self
        found = _session().get_credentials()
        if found is None:
            raise OptionError(
                "there are no credentials for S3: set AWS_PROFILE, or AWS_ACCESS_KEY_ID and "
                "AWS_SECRET_ACCESS_KEY, or run on a machine with a role"
            )
        key, secret, token = found.get_frozen_credentials()
        options = {"AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret, "AWS_SESSION_TOKEN": token}
        return self.with_options({name: value for name, value in options.items() if value})

    def with_options(self, more: dict[str, str]) -> Location:
        """It with storage options in place of those that mean the same."""
        names = _short_names(more)
        others = {name: value for name, value in self.storage_options.items() if _short(name) not in names}
        return Location(self.uri, {**others, **more})

    def below(self, name: str) -> Location:
        """A location inside."""
        return Location(f"{self.uri}/{name}", self.storage_options)

    def for_warming_up(self) -> Location:
        """The location next to it for the tables on which the processes of its race warm up."""
        return Location(f"{self.uri}-warm", self.storage_options)

    def files(self) -> Files:
        """Its files.

        Raises:
            MissingExtraError: It is on S3, and botocore is not installed.
        """
        return LocalFiles(Path(self.uri)) if self.is_local else S3Files(self)

    @property
    def keywords(self) -> dict[str, Any]:
        """The keyword arguments for libraries that take ``storage_options``."""
        return {} if self.is_local else {"storage_options": self.storage_options}


#: The storage options that the checks of a table go by, without ``aws_``, and other names of them.
_OTHER_NAMES = {"endpoint": "endpoint_url", "token": "session_token", "default_region": "region"}
_FOR_CHECKS = {"access_key_id", "secret_access_key", "session_token", "region", "endpoint_url"}
#: Those for committers alone: the checks ask conditionally anyway, and a URL says if it is HTTP.
_FOR_COMMITTERS = {"allow_http", "conditional_put", "copy_if_not_exists"}
_UNDERSTOOD = _FOR_CHECKS | _FOR_COMMITTERS


def _short(name: str) -> str:
    """A storage option in lower case, without ``aws_``."""
    short = name.lower().removeprefix("aws_")
    return _OTHER_NAMES.get(short, short)


def _short_names(storage_options: dict[str, str]) -> dict[str, str]:
    return {_short(name): value for name, value in storage_options.items()}


def _unknown(name: str) -> str:
    names = [f"AWS_{each.upper()}" for each in sorted(_UNDERSTOOD)]
    near = difflib.get_close_matches(f"AWS_{_short(name).upper()}", names, n=1)
    hint = f"{near[0]} is the nearest" if near else f"choose among {', '.join(names)}"
    return f"--storage-option {name} means nothing to the checks of a race: {hint}"


def log_name(version: int) -> str:
    """The name of a version in the log."""
    return f"_delta_log/{version:020}.json"


class Files(ABC):
    """The files of a table, by their paths in it."""

    @abstractmethod
    def draft(self, body: bytes) -> Draft:
        """Bytes that are to become a file, under a name that is not known yet."""

    @abstractmethod
    def read(self, name: str) -> bytes | None:
        """The bytes of a file; None if it is not there."""

    @abstractmethod
    def names(self) -> set[str]:
        """All files that there are."""

    @abstractmethod
    def remove(self) -> None:
        """Remove all files."""


class Draft(ABC):
    """Bytes that become a file once, whatever name succeeds. The end of its block tidies up."""

    @abstractmethod
    def put_new(self, name: str) -> bool:
        """Create this file so that it survives a crash; return False if it exists."""

    @abstractmethod
    def discard(self) -> None:
        """Remove temporary files."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.discard()


class LocalFiles(Files):
    """Files on a disk."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def draft(self, body: bytes) -> Draft:
        """A whole, synced file that no reader looks at."""
        return _LocalDraft(self._root, body)

    def read(self, name: str) -> bytes | None:
        """The bytes of a file."""
        try:
            return (self._root / name).read_bytes()
        except FileNotFoundError:
            return None

    def names(self) -> set[str]:
        """All files that there are."""
        return {
            os.path.relpath(Path(folder) / name, self._root)
            for folder, _, files in os.walk(self._root)
            for name in files
        }

    def remove(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self._root, ignore_errors=True)


class _LocalDraft(Draft):
    def __init__(self, root: Path, body: bytes) -> None:
        self._root = root
        self._path = root / f".{secrets.token_hex(8)}.tmp"
        with self._path.open("wb") as file:
            file.write(body)
            file.flush()
            os.fsync(file.fileno())

    def put_new(self, name: str) -> bool:
        path = self._root / name
        try:
            path.hardlink_to(self._path)  # which never replaces a file
        except FileExistsError:
            return False
        sync_folder(path.parent)
        return True

    def discard(self) -> None:
        self._path.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a crash."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class S3Files(Files):
    """Objects below a prefix, by conditional writes."""

    def __init__(self, location: Location) -> None:
        self._bucket, _, self._prefix = location.uri.removeprefix("s3://").partition("/")
        options = tuple(sorted(location.storage_options.items()))
        self._client = _s3_client(options, location.endpoint)

    def draft(self, body: bytes) -> Draft:
        """The body of a request."""
        return _S3Draft(self, body)

    def put_new(self, name: str, body: bytes) -> bool:
        """Put with ``If-None-Match: *``."""
        from botocore.exceptions import ClientError

        while True:
            try:
                self._client.put_object(Bucket=self._bucket, Key=self._key(name), Body=body, IfNoneMatch="*")
            except ClientError as error:
                code = error.response["Error"]["Code"]
                if code == "PreconditionFailed":
                    # The client sends a request again whose answer was lost: what is there may be ours.
                    return self.read(name) == body
                if code != "ConditionalRequestConflict":
                    raise
            else:
                return True

    def read(self, name: str) -> bytes | None:
        """The bytes of an object."""
        from botocore.exceptions import ClientError

        try:
            answer = self._client.get_object(Bucket=self._bucket, Key=self._key(name))
        except ClientError as error:
            if error.response["Error"]["Code"] in {"NoSuchKey", "404"}:
                return None
            raise
        body: bytes = answer["Body"].read()
        return body

    def names(self) -> set[str]:
        """All objects that there are."""
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=f"{self._prefix}/"
        )
        keys = [entry["Key"] for page in pages for entry in page.get("Contents", ())]
        return {key.removeprefix(f"{self._prefix}/") for key in keys}

    def region(self) -> str | None:
        """The region of the bucket, where the server says it."""
        answer = self._client.head_bucket(Bucket=self._bucket)
        region: str | None = answer.get("BucketRegion")
        return region or answer["ResponseMetadata"]["HTTPHeaders"].get("x-amz-bucket-region")

    def is_empty(self) -> bool:
        """True if there is no object, by one request."""
        page = self._client.list_objects_v2(Bucket=self._bucket, Prefix=f"{self._prefix}/", MaxKeys=1)
        return not page.get("Contents")

    def remove(self) -> None:
        """Delete all objects below the prefix."""
        for name in self.names():
            self._client.delete_object(Bucket=self._bucket, Key=self._key(name))

    def _key(self, name: str) -> str:
        return f"{self._prefix}/{name}"


class _S3Draft(Draft):
    def __init__(self, files: S3Files, body: bytes) -> None:
        self._files = files
        self._body = body

    def put_new(self, name: str) -> bool:
        return self._files.put_new(name, self._body)

    def discard(self) -> None:
        """Do nothing: a request leaves no temporary file."""


@cache
def _s3_client(storage_options: tuple[tuple[str, str], ...], endpoint: str | None) -> Any:
    """One client for all threads: making one takes longer than many requests."""
    session = _session()
    from botocore.config import Config

    given = _short_names(dict(storage_options))
    style = {"addressing_style": "path"} if endpoint else {}
    return session.create_client(
        "s3",
        region_name=given.get("region") or os.environ.get("AWS_REGION") or "us-east-1",
        endpoint_url=endpoint,
        aws_access_key_id=given.get("access_key_id"),
        aws_secret_access_key=given.get("secret_access_key"),
        aws_session_token=given.get("session_token"),
        config=Config(s3=style, max_pool_connections=64, retries={"max_attempts": 5}),
    )


@cache
def _session() -> Any:
    try:
        import botocore.session
    except ModuleNotFoundError as error:
        raise MissingExtraError("botocore", "race", "check a table on S3") from error
    return botocore.session.get_session()
