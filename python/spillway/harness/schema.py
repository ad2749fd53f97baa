"""JSON Schemas of records, made from the types that the code is checked with.

A record is a `TypedDict` or a dataclass. Its docstring describes it: the first line the whole, the section
``Attributes`` its fields, also in records that inherit from it. Numbers are at least 0, since nearly all of
them count or measure something. `Keywords` in ``Annotated`` change the schema of a type; a record there says
which fields a dict has.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import sys
import textwrap
import types
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    NotRequired,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

if TYPE_CHECKING:
    from collections.abc import Callable


class Keywords:
    """Keywords of JSON Schema over those of a type, for ``Annotated``.

    Args:
        keywords: Each by its name; None removes one.
    """

    def __init__(self, **keywords: Any) -> None:
        self.keywords = keywords


LATER = {"later": True}
"""The metadata of a dataclass's field that early records lack."""
Signed = Annotated[int, Keywords(minimum=None)]
"""An integer that may be negative."""
Positive = Annotated[int, Keywords(minimum=1)]
"""An integer from 1 up."""
Instant = Annotated[str, Keywords(format="date-time")]
"""A date with its time and its distance from UTC, as ISO 8601 writes it."""

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_SCALARS: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer", "minimum": 0},
    float: {"type": "number", "minimum": 0},
    Path: {"type": "string"},
    type(None): {"type": "null"},
}
_ATTRIBUTE = re.compile(r"^ {4}(\w+): (.*(?:\n {5,}.*)*)", re.MULTILINE)


def schema_of(record: type) -> dict[str, Any]:
    """The JSON Schema of a record, as a separate document.

    Raises:
        TypeError: A field has a type that no rule is for.
    """
    whole = _object(record)
    return {"$schema": _DIALECT, "title": whole.pop("description"), **whole}


def _object(record: type) -> dict[str, Any]:
    hints = get_type_hints(record, include_extras=True)
    description, told = _described(record)
    return {
        "description": description,
        "type": "object",
        "additionalProperties": False,
        "required": [name for name, hint in hints.items() if not _is_optional(record, name, hint)],
        "properties": {name: _field(hint, told.get(name)) for name, hint in hints.items()},
    }


def _is_optional(record: type, name: str, hint: Any) -> bool:
    """Return true for a field that may lack: records from before there was one do not have it."""
    fields = dataclasses.fields(record) if dataclasses.is_dataclass(record) else ()
    return get_origin(hint) is NotRequired or any(
        each.name == name and each.metadata == LATER for each in fields
    )


def _field(hint: Any, description: str | None) -> dict[str, Any]:
    schema = _schema(hint)
    return schema if description is None else {**schema, "description": description}


def _schema(hint: Any) -> dict[str, Any]:
    if hint in _SCALARS:
        return dict(_SCALARS[hint])
    if _is_record(hint):
        return _object(hint)
    rule = _RULES.get(get_origin(hint))
    if rule is None:
        raise TypeError(f"a record's field is {hint!r}, which has no JSON Schema: add a rule for it here")
    return rule(*get_args(hint))


def _is_record(hint: Any) -> bool:
    return inspect.isclass(hint) and (dataclasses.is_dataclass(hint) or is_typeddict(hint))


def _any_of(*hints: Any) -> dict[str, Any]:
    return {"anyOf": [_schema(each) for each in hints]}


def _annotated(hint: Any, more: Any) -> dict[str, Any]:
    if _is_record(more):
        return _object(more)
    return {name: value for name, value in {**_schema(hint), **more.keywords}.items() if value is not None}


def _tuple(*hints: Any) -> dict[str, Any]:
    if hints[1:] == (...,):
        return {"type": "array", "items": _schema(hints[0])}
    return {"type": "array", "prefixItems": [_schema(each) for each in hints], "items": False}


_RULES: dict[Any, Callable[..., dict[str, Any]]] = {
    NotRequired: _schema,
    Annotated: _annotated,
    Literal: lambda *values: {"enum": list(values)},
    Union: _any_of,
    types.UnionType: _any_of,
    list: lambda each: {"type": "array", "items": _schema(each)},
    tuple: _tuple,
    dict: lambda _, each: {"type": "object", "additionalProperties": _schema(each)},
}


def _described(record: type) -> tuple[str, dict[str, str]]:
    """The first line of a class's docstring, and its attributes with the inherited ones."""
    text = inspect.cleandoc(record.__doc__ or "")
    _, _, attributes = text.partition("\nAttributes:\n")
    inherited = [_described(base)[1] for base in reversed(_bases(record))]
    own = {name: " ".join(words.split()) for name, words in _ATTRIBUTE.findall(attributes)}
    return text.split("\n", 1)[0], {name: words for told in [*inherited, own] for name, words in told.items()}


def _bases(record: type) -> list[type]:
    """The records that a record inherits from. A `TypedDict` forgets them, so that its source is read."""
    if not is_typeddict(record):
        return [base for base in record.__bases__ if _is_record(base)]
    source = ast.parse(textwrap.dedent(inspect.getsource(record)))
    bases = [base for each in source.body if isinstance(each, ast.ClassDef) for base in each.bases]
    names = vars(sys.modules[record.__module__])
    found = [names.get(base.id) for base in bases if isinstance(base, ast.Name)]
    return [base for base in found if base is not None and _is_record(base)]
