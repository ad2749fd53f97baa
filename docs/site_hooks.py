"""Text of the site that is made, not written: figures of the README, notebooks, and options of commands.

A page asks for it by a comment: ``<!-- results: NAME -->`` stands for the block of that name in README.md,
which ``make readme`` makes from ``results/``; ``<!-- commands -->`` stands for the help of every command;
``<!-- notebook: NAME -->`` stands for the stored outputs of a notebook.
A block that is not in README.md is the page's own, and ``make readme`` has filled it there.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import typer
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

__all__ = ["commands", "figures", "notebook", "on_files", "on_page_markdown"]

_ROOT = Path(__file__).resolve().parent.parent
_README = _ROOT / "README.md"
_NOTEBOOKS = _ROOT / "notebooks"
_NOTEBOOK = re.compile(r"<!-- notebook: ([\w-]+) -->")
_PICTURES = "guide/notebooks"
_PICTURE = "image/png"
_BLOCK = re.compile(r"<!-- results: (\w+) -->\n(.*?)<!-- end -->", re.DOTALL)
_WANTED = re.compile(r"<!-- results: (\w+) -->")
_COMMANDS = "<!-- commands -->"
_OPTION = re.compile(r"(?<![\w`-])(--[a-z][a-z-]+)")
# A run's report is no page of the site; its picture becomes a file of the site.
_LINK_TO_RESULTS = re.compile(r"\[([^]]*)\]\(results/[^)]*\)")
_PICTURE_OF_RUN = re.compile(r"!\[(.*)\]\((results/[^)]+/([^)/]+\.svg))\)")
_FIGURES = "figures"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pictures of the README and of the notebooks; mkdocs calls this before it reads pages."""
    from mkdocs.structure.files import File  # noqa: PLC0415 - only mkdocs itself calls this

    for _, place, name in _PICTURE_OF_RUN.findall(_README.read_text(encoding="utf-8")):
        address = f"{_FIGURES}/{name}"
        files.append(File.generated(config, address, content=(_ROOT / place).read_bytes()))
    for path in _NOTEBOOKS.glob("*.ipynb"):
        outputs = [output["data"] for cell in _cells(path.stem) for output in cell.get("outputs", [])]
        pictures = [data[_PICTURE] for data in outputs if _PICTURE in data]
        for place, picture in enumerate(pictures, 1):
            address = f"{_PICTURES}/{path.stem}-{place}.png"
            files.append(File.generated(config, address, content=b64decode(picture)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put in what a page asks for; mkdocs calls this for each page."""
    known = figures()
    markdown = _BLOCK.sub(lambda block: block[0].replace(block[2], _narrow(block[2])), markdown)
    text = _WANTED.sub(lambda wanted: known.get(wanted[1], ""), markdown)
    text = _NOTEBOOK.sub(lambda wanted: notebook(wanted[1]), text)
    return text.replace(_COMMANDS, commands()) if _COMMANDS in text else text


def notebook(name: str) -> str:
    """The headings, sentences and pictures of a notebook, without its code and its title."""
    parts, place = [], 0
    for cell in _cells(name)[1:]:
        if cell["cell_type"] == "markdown":
            parts.append("".join(cell["source"]).replace("## ", "### ", 1))
        for output in cell.get("outputs", []):
            if _PICTURE in output["data"]:
                place += 1
                parts.append(f"![]({_PICTURES.rpartition('/')[2]}/{name}-{place}.png)")
            else:
                parts.append("".join(output["data"]["text/markdown"]))
    return "\n\n".join(parts)


def _cells(name: str) -> list[dict[str, Any]]:
    stored = json.loads((_NOTEBOOKS / f"{name}.ipynb").read_text(encoding="utf-8"))
    cells: list[dict[str, Any]] = stored["cells"]
    return cells


def figures() -> dict[str, str]:
    """The blocks of the README that are made from results, by their names."""
    found = _BLOCK.findall(_README.read_text(encoding="utf-8"))
    return {name: _narrow(_on_the_site(text).strip()) for name, text in found}


def _on_the_site(text: str) -> str:
    """A block of the README with its picture where the site has it, and without links to other files."""
    return _LINK_TO_RESULTS.sub(r"\1", _PICTURE_OF_RUN.sub(rf"![\1]({_FIGURES}/\3)", text))


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
