"""The storage of a folder of files, as the driver and the executors of a job see it: local, or S3."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from spillway.errors import OptionError
from spillway.spark.location import is_local

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow.fs

__all__ = ["filesystem_of"]


def filesystem_of(path: str, storage_options: Mapping[str, str] | None) -> tuple[pyarrow.fs.FileSystem, str]:
    """Return the file system of a folder, and the folder's path on it.

    Raises:
        OptionError: It is in an object store that plain folders of files are not written to.
    """
    from pyarrow import fs

    if is_local(path):
        return fs.LocalFileSystem(), path
    scheme, _, rest = path.partition("://")
    if scheme != "s3":
        message = (
            f"a folder of files is written to a path or to s3://, not to {scheme}://: write a Delta table "
            'there, with table="delta"'
        )
        raise OptionError(message, "path")
    return fs.S3FileSystem(**_s3_settings(storage_options or {})), unquote(rest)


def _s3_settings(options: Mapping[str, str]) -> dict[str, Any]:
    """The settings of pyarrow's S3, from options by the names that the native module has for them."""
    given = {name.lower().removeprefix("aws_"): value for name, value in options.items()}

    def setting(*names: str) -> str | None:
        found = (given.get(name) or os.environ.get(f"AWS_{name.upper()}") for name in names)
        return next((value for value in found if value), None)

    settings: dict[str, Any] = {
        "access_key": setting("access_key_id"),
        "secret_key": setting("secret_access_key"),
        "session_token": setting("session_token"),
        "region": setting("region", "default_region"),
    }
    endpoint = setting("endpoint_url", "endpoint")
    if endpoint:
        scheme, separator, host = endpoint.partition("://")
        settings["endpoint_override"] = host.rstrip("/") if separator else endpoint
        settings["scheme"] = scheme if separator else "https"
    if settings["access_key"] is None:
        # Then all three come from the machine or its profile.
        settings = {name: value for name, value in settings.items() if not name.endswith(("key", "token"))}
    return {name: value for name, value in settings.items() if value is not None}
