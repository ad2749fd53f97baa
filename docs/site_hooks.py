"""Text of the site that is made, not written: figures of the README, and the options of every command.

A page asks for it by a comment: ``<!-- results: NAME -->`` stands for the block of that name in README.md,
which ``make readme`` makes from ``results/``; ``<!-- commands -->`` stands for the help of every command.
A block that is not in README.md is the page's own, and ``make readme`` has filled it there.
"""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import typer

__all__ = ["commands", "figures", "on_page_markdown"]

_README = Path(__file__).resolve().parent.parent / "README.md"
_BLOCK = re.compile(r"<!-- results: (\w+) -->\n(.*?)<!-- end -->", re.DOTALL)
_WANTED = re.compile(r"<!-- results: (\w+) -->")
_COMMANDS = "<!-- commands -->"
_OPTION = re.compile(r"(?<![\w`-])(--[a-z][a-z-]+)")
# A run's report is no page of the site.
_LINK_TO_RESULTS = re.compile(r"\[([^]]*)\]\(results/[^)]*\)")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put in what a page asks for; mkdocs calls this for each page."""
    known = figures()
    text = _WANTED.sub(lambda wanted: known.get(wanted[1], ""), markdown)
    return text.replace(_COMMANDS, commands()) if _COMMANDS in text else text


def figures() -> dict[str, str]:
    """The blocks of the README that are made from results, by their names."""
    found = _BLOCK.findall(_README.read_text(encoding="utf-8"))
    return {name: _narrow(_LINK_TO_RESULTS.sub(r"\1", text).strip()) for name, text in found}


def _narrow(text: str) -> str:
    """Gives each interval in a table its own line, because wide tables are cut off."""
    lines = text.splitlines()
    return "\n".join(line.replace(" [", "<br>[") if line.startswith("|") else line for line in lines)


def commands() -> str:
    """Every command: its help, and a table of its arguments and options."""
    from typer.main import get_command  # noqa: PLC0415 - only one page needs it

    from spillway.cli.app import app  # noqa: PLC0415 - as above

    group: Any = get_command(app)
    parts = []
    for name in sorted(group.commands):
        command = group.commands[name]
        parts += [f"## spillway {name}", _prose(command.help or ""), *_table(command)]
    return "\n\n".join(parts)


def _prose(text: str) -> str:
    """Help as Markdown: a block that Typer keeps as it is begins with a backspace."""
    blocks = [block.strip() for block in text.replace("\r", "").split("\n\n")]
    return "\n\n".join(_block(block) for block in blocks if block)


def _block(block: str) -> str:
    if block.startswith("\b"):
        return f"```text\n{dedent(block.removeprefix(chr(8))).strip()}\n```"
    return _marked(block)


def _marked(text: str) -> str:
    """Plain text as Markdown, with the names of options as code."""
    return _OPTION.sub(r"`\1`", text.replace("<", "&lt;"))


def _table(command: typer.core.TyperCommand) -> list[str]:
    rows = [_row(parameter) for parameter in command.params if not getattr(parameter, "hidden", False)]
    return ["| name | default | meaning |\n|---|---|---|\n" + "\n".join(rows)] if rows else []


def _row(parameter: Any) -> str:
    names = [*parameter.opts, *parameter.secondary_opts]
    written = names if parameter.param_type_name == "option" else [parameter.name.upper()]
    default = _default(parameter)
    meaning = _marked(getattr(parameter, "help", None) or "").replace("|", "\\|")
    return f"| {', '.join(f'`{name}`' for name in written)} | {default} | {meaning} |"


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    value = parameter.default
    if value is None or value in ((), [], "") or callable(value):
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"`{value}`"
