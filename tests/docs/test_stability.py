"""The page on stability says of every option whether it is stable, and so do the other pages."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from fnmatch import fnmatch

import pytest

import spillway

from .pages import ROOT

DOCS = ROOT / "docs"

OPTIONS = {
    field.name: options
    for options in (spillway.WriterOptions, spillway.DatasetOptions)
    for field in fields(options)
}


def states() -> dict[str, str]:
    """The state of each name or pattern in the table of `choose/versions.md`."""
    found = {}
    for line in (DOCS / "choose" / "versions.md").read_text().splitlines():
        if (row := re.match(r"\| ([^|]+) \| (stable|preview)[^|]*\|", line)) is not None:
            found |= dict.fromkeys(re.findall(r"`([^`]+)`", row[1]), row[2])
    return found


@pytest.mark.parametrize("option", OPTIONS)
def test_every_option_is_stable_or_preview_and_its_row_and_docstring_agree(option: str) -> None:
    found = {state for name, state in states().items() if fnmatch(option, name)}
    assert len(found) == 1, f"{option}: {found}"
    page = (DOCS / "reference" / "options.md").read_text()
    rows = re.findall(rf"^\| `{option}`([^|]*)\|", page, re.MULTILINE)
    docstring = inspect.getdoc(OPTIONS[option]) or ""
    explained = re.search(rf"^ *{option}: (\(Preview\.\))?", docstring, re.MULTILINE)
    assert explained is not None
    is_preview = found == {"preview"}
    assert ({"preview" in row for row in rows}, explained[1] is not None) == ({is_preview}, is_preview)
