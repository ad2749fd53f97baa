"""Copies from one key of a bucket to another, which S3 carries out itself: no byte of a file comes here."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from spillway.errors import OptionError
from spillway.spark.location import unquoted

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["MOST_BYTES", "Copier"]

#: The size of a file that one request copies: S3 takes 5 GiB, and a writer may exceed its limit a little.
MOST_BYTES = 4 << 30
#: Seconds without a byte of an answer: a store may be silent while it copies a large file.
_PATIENCE = 300
_REGION = "us-east-1"
#: Settings of the writer, without `aws_`, and the arguments of pyarrow's file system. The later one counts.
_ARGUMENTS = {
    "access_key_id": "access_key",
    "secret_access_key": "secret_key",
    "token": "session_token",
    "session_token": "session_token",
    "default_region": "region",
    "region": "region",
    "endpoint": "endpoint_override",
    "endpoint_url": "endpoint_override",
    "skip_signature": "anonymous",
    "virtual_hosted_style_request": "force_virtual_addressing",
}
_FLAGS = ("anonymous", "force_virtual_addressing")
#: Settings that change nothing about a copy. `allow_http` is said by the URL of the endpoint, too.
_OF_NO_CONCERN = (
    *("allow_http", "bucket", "bucket_name", "checksum_algorithm", "conditional_put", "connect_timeout"),
    *("copy_if_not_exists", "disable_tagging", "max_retries", "retry_timeout", "timeout", "unsigned_payload"),
)
#: Settings of the environment that a copy would have to follow, by their first words.
_MUST_FOLLOW = ("request_payer", "s3_express", "server_side_encryption", "sse_")


class Copier:
    """Copies objects below a prefix of S3.

    Args:
        url: The URL of the prefix.
        storage_options: Settings and credentials, as the writer takes them; the environment has the others.

    Raises:
        OptionError: Objects of this store are not copied, or not with one of the settings.
    """

    def __init__(self, url: str, storage_options: Mapping[str, str] | None) -> None:
        from pyarrow.fs import S3FileSystem

        scheme, _, self._prefix = unquoted(url).partition("://")
        if scheme != "s3":
            raise _refused(url, f"files are copied on S3 alone, and not on {scheme}://")
        self._files = S3FileSystem(**_arguments(url, storage_options or {}))

    def copy(self, name: str, place: str) -> None:
        """Copy an object to another name, and replace what is there.

        Raises:
            OSError: The store refuses or does not answer, or the object is gone.
        """
        self._files.copy_file(f"{self._prefix}/{name}", f"{self._prefix}/{place}")


def _arguments(url: str, storage_options: Mapping[str, str]) -> dict[str, Any]:
    """The arguments of pyarrow's file system."""
    given = {name.lower().removeprefix("aws_"): value for name, value in storage_options.items()}
    unknown = [name for name in given if name not in _ARGUMENTS and name not in _OF_NO_CONCERN]
    around = {
        name.lower().removeprefix("aws_"): value
        for name, value in os.environ.items()
        if name.startswith("AWS_")
    }
    unknown += [name for name in around if name.startswith(_MUST_FOLLOW)]
    if unknown:
        raise _refused(url, f"copies do not follow the setting aws_{unknown[0]}")
    settings = {**around, **given}
    arguments: dict[str, Any] = {"region": _REGION, "request_timeout": _PATIENCE}
    arguments |= {argument: settings[name] for name, argument in _ARGUMENTS.items() if name in settings}
    arguments |= {name: arguments[name].lower() == "true" for name in _FLAGS if name in arguments}
    if "endpoint_override" in arguments:
        scheme, _, host = arguments["endpoint_override"].rpartition("://")
        arguments |= {"scheme": scheme or "https", "endpoint_override": host.rstrip("/")}
    return arguments


def _refused(url: str, why: str) -> OptionError:
    return OptionError(
        f"{url} is a folder in an object store, where files that are read before they are published are "
        f'copied into their places, and {why}: choose table="delta", which copies nothing, or audit="none" '
        "and no unique()",
        "audit",
    )
