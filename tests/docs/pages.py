"""Pages of the documentation as programs: their blocks of code, run from top to bottom in one folder.

``python pages.py PAGE`` runs a page in the working folder. Blocks of ``python`` share their names. One with a
``title`` is saved as that file instead, for the commands below it. In blocks of ``console`` each line that
begins with ``$`` is a command of bash. A block that no test can run stands below a comment that says why:
``<!-- not run: REASON -->``. Any other block of which nothing would run is an error; ``text`` is no code.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

__all__ = ["LANGUAGES", "ROOT", "Block", "IdleBlockError", "blocks_of", "check", "pages", "run"]

ROOT = Path(__file__).resolve().parents[2]
_TITLE = re.compile(r'title="([^"]+)"')
_NOT_RUN = re.compile(r"^<!-- not run: (.+) -->$")
_SECONDS = 800
LANGUAGES = {"python", "console", "json", "text", "yaml"}


class IdleBlockError(ValueError):
    """A block of code that no test would run, and that does not say why."""


@dataclass(frozen=True)
class Block:
    """A block of code.

    Attributes:
        language: Its language.
        title: The file that it is, where it is one.
        text: The code.
        line: The line of the page that its first line is on, from 1.
        reason: Why it is not run, where that is said.
    """

    language: str
    title: str | None
    text: str
    line: int
    reason: str | None


def pages() -> list[Path]:
    """All documents with code that a reader may copy."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks_of(page: Path) -> list[Block]:
    """The blocks of code of a page, from top to bottom."""
    found = []
    reason = None
    for token in MarkdownIt().parse(page.read_text(encoding="utf-8")):
        line = token.map[0] + 1 if token.map is not None else 0
        if token.type == "fence":
            language, _, rest = token.info.partition(" ")
            title = _TITLE.search(rest)
            name = title[1] if title else None
            found.append(Block(language, name, token.content, line + 1, reason and reason[0]))
            reason = None
        elif reason is not None:
            raise IdleBlockError(f"{page}, line {reason[1]}: the comment stands above no block of code")
        elif token.type == "code_block":
            raise IdleBlockError(
                f"{page}, line {line}: indented code runs nowhere: fence it, with its language"
            )
        elif token.type == "html_block" and (said := _NOT_RUN.match(token.content.strip())):
            reason = said[1], line
    return found


def check(page: Path, block: Block) -> None:
    """Refuse a block of which nothing would run, though it does not say why."""
    at = f"{page}, line {block.line - 1}"
    if block.language not in LANGUAGES:
        known = ", ".join(sorted(LANGUAGES))
        raise IdleBlockError(
            f"{at}: no test runs {block.language or 'a block without a language'}: use {known}"
        )
    if block.reason is None and not (
        commands_of(block) if block.language == "console" else block.text.strip()
    ):
        raise IdleBlockError(f"{at}: nothing in it runs: write a command as $ COMMAND, or say why above it")


def run(page: Path) -> None:
    """Run a page in the working folder."""
    names: dict[str, object] = {"__name__": "__page__"}
    for block in blocks_of(page):
        check(page, block)
        if block.reason is not None:
            continue
        if block.language == "python" and block.title is not None:
            Path(block.title).write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            # Errors name the page and its line.
            code = compile("\n" * (block.line - 1) + block.text, str(page), "exec")
            exec(code, names)  # noqa: S102 - the page's own code
        elif block.language == "console":
            for command in commands_of(block):
                subprocess.run(["bash", "-euc", command], check=True, timeout=_SECONDS)
        elif block.language == "json":
            for line in block.text.splitlines():
                json.loads(line)


def commands_of(block: Block) -> list[str]:
    """The commands of a console, without what they print."""
    return [line.removeprefix("$ ") for line in block.text.splitlines() if line.startswith("$ ")]


if __name__ == "__main__":
    run(Path(sys.argv[1]))
