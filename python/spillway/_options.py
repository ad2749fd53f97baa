"""Options shown as keyword parameters, and unknown keywords refused with the name that is meant."""

from __future__ import annotations

import functools
import inspect
import re
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar, cast

from spillway._spellings import refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["checks_arguments", "checks_names", "refuse_unknown", "shows_options", "with_options"]

_Class = TypeVar("_Class", bound=type)
_Callable = TypeVar("_Callable", bound="Callable[..., Any]")

#: The line of a docstring that stands for all options.
_PLACEHOLDER = re.compile(r"^( *)\*\*options:.*\n(?:\1 +.*\n)*", flags=re.MULTILINE)


def checks_names(options: _Class) -> _Class:
    """Makes a dataclass of options raise `UnknownOptionError` for an unknown keyword."""
    initialise = options.__init__  # type: ignore[misc]  # of the class itself, which the decorator is put on

    @functools.wraps(initialise)
    def checked(self: object, **given: object) -> None:
        refuse_unknown(given, options)
        initialise(self, **given)

    options.__init__ = checked  # type: ignore[misc]
    return options


def checks_arguments(function: _Callable) -> _Callable:
    """Makes a function raise `UnknownOptionError` for an unknown keyword."""
    accepted = [name for name in inspect.signature(function).parameters if name != "self"]
    known = frozenset(accepted)

    @functools.wraps(function)
    def checked(*positional: Any, **given: Any) -> Any:
        for keyword in given:
            if keyword not in known:
                raise refusal(keyword, accepted, is_complete=True)
        return function(*positional, **given)

    return cast("_Callable", checked)


def refuse_unknown(given: Iterable[str], *groups: type) -> None:
    """Refuse keywords that are no fields of the dataclasses `groups`.

    Raises:
        UnknownOptionError: There is one. It is about the first, and has a note about each of the others.
    """
    accepted = [field.name for group in groups for field in fields(group)]
    errors = [refusal(name, accepted) for name in given if name not in accepted]
    if errors:
        for other in errors[1:]:
            errors[0].add_note(str(other))
        raise errors[0]


def shows_options(*groups: type) -> Callable[[_Callable], _Callable]:
    """Show each option in the signature and the docstring of a function or class that takes ``**options``.

    Names, defaults and descriptions are those of the dataclasses `groups`. Type checkers see the `TypedDict`
    that the function unpacks instead.
    """

    def show(target: _Callable) -> _Callable:
        function: Any = cast("Any", target).__init__ if isinstance(target, type) else target
        own = inspect.signature(function)
        parameters = [
            parameter
            for parameter in own.parameters.values()
            if parameter.kind is not inspect.Parameter.VAR_KEYWORD
        ]
        options = [
            inspect.Parameter(
                field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=field.type
            )
            for group in groups
            for field in fields(group)
        ]
        function.__signature__ = own.replace(parameters=[*parameters, *options])
        if target.__doc__ is not None:  # there is none under -OO
            target.__doc__ = with_options(target.__doc__, *groups)
        return target

    return show


def with_options(docstring: str, *groups: type) -> str:
    """A docstring with the descriptions of the fields of dataclasses in the place of its ``**options``."""
    return _PLACEHOLDER.sub(lambda found: "".join(_described(group, found[1]) for group in groups), docstring)


def _described(group: type, indent: str) -> str:
    """The section ``Args`` of a dataclass, at the indentation of another docstring."""
    text = inspect.cleandoc(group.__doc__ or "")
    section = re.search(r"^Args:\n((?:    .*\n|\n)*?)(?=\n*\S|\Z)", text + "\n", flags=re.MULTILINE)
    lines = section[1].rstrip().splitlines() if section else []
    return "".join(f"{indent}{line[4:]}\n" if line else "\n" for line in lines)
