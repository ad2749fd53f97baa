"""Signatures as callers see them: ``**options`` stands for options with names and defaults."""

from __future__ import annotations

import importlib
import inspect
import re
from typing import TYPE_CHECKING, Any

import griffe

import spillway
from spillway._options import with_options

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Options"]

_WRITER = (spillway.WriterOptions,)
_DATASET = (spillway.DatasetOptions, spillway.WriterOptions)


class Options(griffe.Extension):
    """Replaces the keywords of the writers by the fields of their options, also in docstrings."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Make the examples a section; griffe calls this for each object that it has read."""
        if obj.docstring is not None:
            obj.docstring.value = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE)

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Replace keywords and private defaults; griffe calls this when it has read everything."""
        for func in _functions(pkg):
            for parameter in list(func.parameters):
                _name_default(func, parameter)
                keywords = str(parameter.annotation or "")
                if parameter.kind is griffe.ParameterKind.var_keyword and "Keywords" in keywords:
                    _spread(pkg, func, parameter.name, _DATASET if "Dataset" in keywords else _WRITER)


def _functions(owner: griffe.Module | griffe.Class) -> Iterator[griffe.Function]:
    for member in owner.members.values():
        if isinstance(member, griffe.Function):
            yield member
        elif isinstance(member, griffe.Module | griffe.Class):
            yield from _functions(member)


def _name_default(func: griffe.Function, parameter: griffe.Parameter) -> None:
    """Show the value of a private constant in the place of its name."""
    name = str(parameter.default)
    if re.fullmatch(r"_[A-Z_]+", name):
        parameter.default = repr(getattr(importlib.import_module(func.module.path), name))


def _spread(pkg: griffe.Module, func: griffe.Function, name: str, classes: tuple[type, ...]) -> None:
    del func.parameters[name]
    for owner in classes:
        read = pkg[f"{owner.__module__.removeprefix('spillway.')}.{owner.__name__}"]
        for field in inspect.signature(owner).parameters.values():
            func.parameters.add(
                griffe.Parameter(
                    field.name,
                    kind=griffe.ParameterKind.keyword_only,
                    annotation=read[field.name].annotation,
                    default=repr(field.default),
                )
            )
    documented = func if func.name != "__init__" or func.parent is None else func.parent
    if documented.docstring is not None:
        documented.docstring.value = with_options(f"{documented.docstring.value}\n", *classes)
