"""The first words of doc comments, which are to be a noun or a verb."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

PREPOSITION = "About|After|At|Before|By|For|From|In|Of|On|Since|To|Under|Until|With"
INTERROGATIVE = re.compile(
    rf"(({PREPOSITION}) )?(what|where|how|which|whether|who|whom|whose|when|why)\b", re.IGNORECASE
)
RUST = re.compile(r"\s*(///|//!)(?!/)\s*(.*)")


@dataclass(frozen=True)
class Opener:
    """The first line of a doc comment."""

    path: Path
    line: int
    text: str

    @property
    def interrogative(self) -> bool:
        return INTERROGATIVE.match(self.text) is not None


def of_rust(path: Path) -> Iterator[Opener]:
    """Yields the opener of every block of `///` or `//!` lines."""
    before = None
    for line, text in enumerate(path.read_text().splitlines(), 1):
        comment = RUST.match(text)
        marker = comment[1] if comment else None
        if comment and marker != before:
            yield Opener(path, line, comment[2])
        before = marker


def of_python(path: Path) -> Iterator[Opener]:
    """Yields the opener of every docstring of a module, class, function or assignment."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        docstring = ast.get_docstring(node)
        if docstring:
            yield Opener(path, node.body[0].lineno, docstring.splitlines()[0])
        for before, statement in pairwise(node.body):
            match before, statement:
                case ast.Assign() | ast.AnnAssign(), ast.Expr(ast.Constant(str(text))) if text.strip():
                    yield Opener(path, statement.lineno, text.strip().splitlines()[0])


def openers(paths: Iterable[Path]) -> list[Opener]:
    readers = {".rs": of_rust, ".py": of_python, ".pyi": of_python}
    return [opener for path in paths if path.suffix in readers for opener in readers[path.suffix](path)]
