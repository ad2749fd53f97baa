"""Options of the data source: Spark gives text under names without case, the writer takes values of types."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from spillway._options import ELSEWHERE, refusal
from spillway.errors import OptionError, UnknownOptionError
from spillway.writer import WriterOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["parsed"]

_STORAGE = ("aws_", "azure_", "google_")
_STORAGE_NAMES = ("allow_http", "connect_timeout", "max_retries", "retry_timeout", "timeout")

#: Names of credentials. Spark hides only values whose names match ``spark.redaction.regex``, not those of
#: ``account_key``, ``sas_key`` or ``access_key_id``.
_SECRET = re.compile(r"access_key|account_key|master_key|customer_key|secret|password|sas|token(?!_file)")


def _integer(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise OptionError(f"{name}={text!r} is not accepted: give an integer", name) from None


def _boolean(name: str, text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise OptionError(f'{name}={text!r} is not accepted: give "true" or "false"', name, ["true", "false"])
    return text.lower() == "true"


def _text(name: str, text: str) -> str:  # noqa: ARG001 - one of several
    return text


def _json(name: str, text: str) -> Any:
    try:
        return _tuples(json.loads(text))
    except ValueError as error:
        message = f"{name}={text!r} is not accepted: it is not JSON ({error})"
        raise OptionError(message, name) from None


def _tuples(value: Any) -> Any:
    """Lists inside of a list are the writer's tuples: paths, or columns with their direction."""
    if isinstance(value, list):
        return [tuple(item) if isinstance(item, list) else item for item in value]
    return value


def _json_or_text(name: str, text: str) -> Any:
    return _json(name, text) if text.lstrip().startswith(("{", "[")) else text


def _json_or_boolean(name: str, text: str) -> Any:
    return _json(name, text) if text.lstrip().startswith(("{", "[")) else _boolean(name, text)


def _names(name: str, text: str) -> Any:
    """A JSON list, or names with commas between them."""
    if text.lstrip().startswith("["):
        return _json(name, text)
    return [part.strip() for part in text.split(",") if part.strip()]


def _size(name: str, text: str) -> int | str:  # noqa: ARG001 - one of several
    return int(text) if text.isdecimal() else text


_WRITER: dict[str, Callable[[str, str], Any]] = {
    "compression": _json_or_text,
    "compression_level": _integer,
    "row_group_rows": _integer,
    "row_group_bytes": _integer,
    "page_bytes": _integer,
    "page_rows": _integer,
    "dictionary_page_bytes": _integer,
    "content_defined_chunking": _json_or_boolean,
    "memory_limit": _size,
    "threads": _integer,
    "hold_batches": _boolean,
    "dictionary": _json_or_boolean,
    "encoding": _json_or_text,
    "bloom_filter": _json_or_boolean,
    "page_checksums": _boolean,
    "statistics": _json_or_boolean,
    "store_schema": _boolean,
    "compatibility": _text,
    "timestamps": _text,
    "timestamp_loss": _text,
    "sorting_columns": _names,
    "sorting": _text,
    "durable": _boolean,
    "verify": _text,
    "metadata": _json,
    "field_ids": _json,
}

_TARGET: dict[str, Callable[[str, str], Any]] = {
    "path": _text,
    "table": _text,
    "partition_by": _names,
    "max_file_bytes": _integer,
    "max_file_rows": _integer,
    "app_id": _text,
    "app_version": _integer,
    "run_id": _text,
    "schema_mode": _text,
    "where": _json_or_text,
}

#: The option of Spark's own writers that says what an overwrite replaces; its values have no case.
_OVERWRITE_MODE = "partitionoverwritemode"


#: Options of a streaming query itself, which Spark hands on.
_OF_SPARK = ("checkpointlocation", "queryname")


def parsed(given: Mapping[str, str]) -> dict[str, Any]:
    """Parse the options of the data source into arguments of `Target.of`.

    Raises:
        UnknownOptionError: There is no such option; the message has the name of the one that is meant.
        OptionError: A value is not accepted, an option is a credential, or there is no path.
    """
    arguments: dict[str, Any] = {}
    options: dict[str, Any] = {}
    storage: dict[str, str] = {}
    for spelled, text in given.items():
        name = spelled.lower()
        if name in _OF_SPARK:
            continue
        if name == _OVERWRITE_MODE:
            arguments["partition_overwrite"] = text.lower()
        elif name in _TARGET:
            arguments[name] = _TARGET[name](name, text)
        elif name in _WRITER:
            options[name] = _WRITER[name](name, text)
        elif name.startswith(_STORAGE) or name in _STORAGE_NAMES:
            if _SECRET.search(name):
                raise _shown_by_spark(name)
            storage[name] = text
        else:
            raise _unknown(name)
    WriterOptions(**options)
    if "path" not in arguments:
        raise OptionError("the path is missing: pass it to save(), or as the option path", "path")
    return arguments | {"storage_options": storage or None, "options": options}


def _shown_by_spark(name: str) -> OptionError:
    message = (
        f"{name} is not accepted as an option: Spark shows options in its plans and logs. Put it into the "
        f"environment of the driver and the executors, as {name.upper()}, or give it to spillway.spark.write "
        "in storage_options"
    )
    return OptionError(message, name)


def _unknown(name: str) -> UnknownOptionError:
    # Spark's look-up has lost the case of the name.
    elsewhere = {spelling.lower(): spelling for spelling in ELSEWHERE}
    return refusal(elsewhere.get(name, name), _WRITER.keys() | _TARGET.keys())
