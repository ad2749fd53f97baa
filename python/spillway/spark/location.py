"""Locations of a write, as Spark resolves the same text: what would be another place here is refused."""

from __future__ import annotations

import os
import posixpath
import re
from urllib.parse import quote, unquote

from spillway._destination import OBJECT_STORES
from spillway.errors import OptionError

__all__ = ["absolute", "check_default", "is_local", "scheme_of", "unquoted"]

_S3 = ("s3", "s3a", "s3n")
#: Object stores as Hadoop or the native module spells them.
_STORES = (*OBJECT_STORES, *_S3)
#: Characters of a key that stand for themselves in a URL; the native module decodes the others.
_PLAIN = "/=:@,+!$&'()*;~-._"
#: The name of a bucket, or of a container and its account.
_BUCKET = re.compile(r"[A-Za-z0-9._@-]+")


def scheme_of(path: str) -> str | None:
    """Return the scheme of a path by Hadoop's rule, or None if it has none.

    Hadoop treats the part before the first colon as a scheme unless a slash comes earlier
    (``org.apache.hadoop.fs.Path``), so ``s3:/x`` and ``a:b`` have one, and ``./a:b`` has none.
    """
    head, colon, _ = path.partition(":")
    return head if colon and "/" not in head else None


def absolute(path: str | os.PathLike[str]) -> str:
    """Return the path or URL that means the same in every process of a job.

    The text means the same as for Spark: Hadoop decodes no ``%20`` in a path or URL, joins repeated slashes
    and resolves ``..``. In the URL that is returned such characters are escaped, as the native module decodes
    URLs.

    Raises:
        OptionError: Spark takes the text for another place, or nothing writes to such a URL.
    """
    text = os.fsdecode(os.fspath(path))
    scheme = scheme_of(text)
    if scheme is None:
        return _bare(text)
    rest = text[len(scheme) + 1 :]
    if scheme.lower() == "file":
        return _local(text, rest)
    if scheme.lower() not in _STORES:
        refusal = f"{text!r} is not accepted, as nothing is written to {scheme}: locations"
        raise OptionError(f"{refusal}. {_advice(text, scheme)}", "path")
    bucket, _, key = rest.removeprefix("//").partition("/")
    if not (rest.startswith("//") and _BUCKET.fullmatch(bucket)):
        message = f"{text!r} names no bucket or container: write {scheme}://NAME/folder"
        raise OptionError(message, "path")
    key = posixpath.normpath(f"/{key}").strip("/")
    name = "s3" if scheme.lower() in _S3 else scheme
    return f"{name}://{bucket}/{quote(key, safe=_PLAIN)}".rstrip("/")


def _bare(text: str) -> str:
    if not text:
        raise OptionError("the path is empty: name a folder", "path")
    if text.startswith("//") and not text.startswith("///"):
        raise OptionError(
            f"{text!r} is not accepted: Spark takes what follows // for a host; write one slash", "path"
        )
    return os.path.abspath(text)  # noqa: PTH100 - `resolve` would follow links, which may change


def _local(text: str, rest: str) -> str:
    """Return the path of a ``file:`` URL, with one slash or three."""
    host, path = "", rest
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        path = slash + path
    if host not in {"", "localhost"} or not path.startswith("/"):
        raise OptionError(f"{text!r} names no folder of this machine: write file:/path/to/folder", "path")
    return os.path.abspath("/" + path.lstrip("/"))  # noqa: PTH100 - as in `_bare`


def _advice(text: str, scheme: str) -> str:
    known = "Choose /path, file:/path or s3://bucket/path; for a Delta table also gs://, az:// or abfss://"
    if scheme.lower() == "dbfs":
        return f"{known}. On Databricks, choose a volume, /Volumes/catalog/schema/volume/folder"
    return known if "/" in text else f"{known}. For a relative path with a colon, write ./{text}"


def unquoted(path: str) -> str:
    """Return an absolute location with nothing escaped, as Hadoop and Spark write it."""
    return path if is_local(path) else unquote(path)


def is_local(path: str) -> bool:
    """Return True if an absolute location is a path."""
    return "://" not in path


def check_default(path: str, default: str | None, source: str) -> None:
    """Refuse a path without a scheme if Spark resolves such paths against another file system.

    Args:
        path: The path as it was given.
        default: The value of ``fs.defaultFS``; None if it is unknown.
        source: Where the value comes from, for the error.

    Raises:
        OptionError: It is not the local file system.
    """
    scheme = (scheme_of(default or "") or "file").lower()
    if scheme == "file" or scheme_of(path) is not None:
        return
    local = os.path.abspath(path)  # noqa: PTH100 - as in `_bare`
    if scheme == "dbfs" and local.startswith("/Volumes/"):
        # Databricks gives volumes the same path in Spark and in the local file system.
        return
    raise OptionError(
        f"{path!r} has no scheme, and Spark resolves it against fs.defaultFS={default} ({source}), where "
        f"Spillway cannot write: write file:{local} for a local folder that driver and executors share, or "
        "a URL such as s3://bucket/folder",
        "path",
    )
