"""The log of a table after a race, replayed action by action and by no library."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from spillway.race.location import log_name
from spillway.race.wording import listed

if TYPE_CHECKING:
    from spillway.race.location import Files

__all__ = ["LogState", "TableFile", "replay"]

_LOG = "_delta_log/"
_DIGITS = 20


class TableFile(NamedTuple):
    """A data file of the newest version.

    Attributes:
        path: Its path in the table.
        vector: Its deletion vector, as the log describes it.
    """

    path: str
    vector: dict[str, Any] | None


@dataclass
class LogState:
    """The log up to its newest version.

    Attributes:
        newest: The newest version.
        files: The data files, without those that are not there.
        problems: Faults of the log, in words.
    """

    newest: int = 0
    files: list[TableFile] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


class _Replay:
    """The logical files while versions go by: by the protocol, a path and a deletion vector are one."""

    def __init__(self) -> None:
        self.live: dict[tuple[str, object], TableFile] = {}
        self.paths: Counter[str] = Counter()
        self.added: dict[str, None] = {}
        self.doubled: set[str] = set()
        self.unknown: set[str] = set()

    def take(self, actions: list[dict[str, Any]]) -> None:
        """Follow one version. The order of its actions means nothing, and a new vector is both of them."""
        for action in actions:
            if "remove" in action:
                path, key, _ = _logical(action["remove"])
                if self.live.pop(key, None) is None:
                    self.unknown.add(path)
                else:
                    self.paths[path] -= 1
        for action in actions:
            if "add" in action:
                path, key, file = _logical(action["add"])
                if self.paths[path]:
                    self.doubled.add(path)
                if key not in self.live:
                    self.paths[path] += 1
                self.live[key] = file
                self.added[path] = None


def replay(files: Files) -> LogState:
    """Read every version of a table to which nothing is written any more."""
    state = LogState()
    names = files.names()
    versions = sorted(
        int(stem)
        for name in names
        if name.startswith(_LOG)
        and name.endswith(".json")
        and (stem := name[len(_LOG) : -len(".json")]).isdecimal()
        and len(stem) == _DIGITS
    )
    state.newest = max(versions, default=0)
    if missing := sorted(set(range(state.newest + 1)) - set(versions)):
        state.problems.append(f"the log has no version {listed(missing)}")
    table = _Replay()
    for version in versions:
        body = files.read(log_name(version)) or b""
        try:
            actions = [json.loads(line) for line in body.splitlines() if line.strip()]
        except ValueError:
            state.problems.append(f"version {version} is not JSON")
            continue
        table.take(actions)
    if table.doubled:
        state.problems.append(f"added more than once: {listed(sorted(table.doubled))}")
    if table.unknown:
        state.problems.append(f"removed, and was not in the table: {listed(sorted(table.unknown))}")
    if absent := sorted(path for path in table.added if path not in names):
        state.problems.append(f"added, but there is no such file: {listed(absent)}")
    state.files = [file for file in table.live.values() if file.path in names]
    return state


def _logical(action: dict[str, Any]) -> tuple[str, tuple[str, object], TableFile]:
    """The path of an action, what identifies its logical file, and the file."""
    path, vector = unquote(action["path"]), action.get("deletionVector")
    name = vector and (vector["storageType"], vector["pathOrInlineDv"], vector.get("offset"))
    return path, (path, name), TableFile(path, vector)
