"""Signatures as callers see them: ``**options`` stands for options with names and defaults."""

from __future__ import annotations

import inspect
import re
from typing import Any

import griffe

import spillway

__all__ = ["Options"]

_WRITER = (spillway.WriterOptions,)
_DATASET = (spillway.DatasetOptions, spillway.WriterOptions)
# An entry of "Args:" goes on as far as its lines are indented deeper than it.
_KEYWORDS = re.compile(r"^    \*\*options: .*\n(?:     +.*\n?)*", re.MULTILINE)
_ARGS = re.compile(r"^Args:\n((?:(?: {4}.*)?\n)*)", re.MULTILINE)


class Options(griffe.Extension):
    """Replaces the keywords of the writers by the fields of their options, also in docstrings."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Make the examples a section; griffe calls this for each object that it has read."""
        if obj.docstring is not None:
            obj.docstring.value = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE)

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """Replace ``**options``; griffe calls this for each function that it has read."""
        for parameter in func.parameters:
            keywords = str(parameter.annotation or "")
            if parameter.kind is griffe.ParameterKind.var_keyword and "Keywords" in keywords:
                _spread(func, parameter.name, _DATASET if "Dataset" in keywords else _WRITER)
                return


def _spread(func: griffe.Function, name: str, classes: tuple[type, ...]) -> None:
    del func.parameters[name]
    for owner in classes:
        for field in inspect.signature(owner).parameters.values():
            func.parameters.add(
                griffe.Parameter(
                    field.name,
                    kind=griffe.ParameterKind.keyword_only,
                    annotation=str(field.annotation),
                    default=repr(field.default),
                )
            )
    documented = func if func.name != "__init__" or func.parent is None else func.parent
    if documented.docstring is not None:
        described = "".join(_described(owner) for owner in classes)
        documented.docstring.value = _KEYWORDS.sub(lambda _: described, documented.docstring.value)


def _described(owner: type) -> str:
    """The descriptions of a class's arguments, as its docstring has them."""
    found = _ARGS.search(inspect.getdoc(owner) or "")
    return f"{found[1].strip(chr(10))}\n" if found else ""
