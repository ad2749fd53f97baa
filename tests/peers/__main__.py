"""pyarrow's own Parquet tests, with its writer exchanged for Spillway's: ``python -m tests.peers``.

The tests run twice, first as they are: what fails or is skipped then is pyarrow's own. A test that fails in
the second run alone has to be on the list, with its reason. A test on the list that passes has to leave it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from pathlib import Path
from typing import TypedDict

from rich.console import Console
from rich.table import Table

from .plugin import OUTCOMES, WRITER

LIST = Path(__file__).parent / "pyarrow.toml"
SUITE = "pyarrow.tests.parquet"
ROOT = Path(__file__).resolve().parents[2]


class Outcome(TypedDict):
    """The outcome of a test."""

    outcome: str
    says: str


class Reason(TypedDict):
    """A reason why tests fail, and words that each of them fails with."""

    why: str
    says: str
    tests: list[str]


def outcomes(writer: str) -> dict[str, Outcome]:
    """Runs the suite, over one writer or the other."""
    with tempfile.TemporaryDirectory(prefix="spillway-peers-") as folder:
        notes = Path(folder) / "outcomes.json"
        pytest = [
            sys.executable,
            "-m",
            "pytest",
            "--pyargs",
            SUITE,
            "-q",
            "--tb=short",
            "--no-header",
            "--import-mode=importlib",
        ]
        # pyarrow's tests keep to no settings of this project.
        plain = ["-c", os.devnull, "--rootdir", folder, "-p", "no:cacheprovider", "-p", "tests.peers.plugin"]
        done = subprocess.run(
            [*pytest, *plain],
            cwd=ROOT,
            env={**os.environ, OUTCOMES: str(notes), WRITER: writer},
            stdout=subprocess.DEVNULL,
            check=False,
        )
        if not notes.exists():
            raise SystemExit(
                f"the tests with {writer}'s writer ended with status {done.returncode} before their end"
            )
        found: dict[str, Outcome] = json.loads(notes.read_text(encoding="utf-8"))
        return found


def compare(
    before: dict[str, Outcome], after: dict[str, Outcome], reasons: list[Reason]
) -> tuple[Counter[str], list[str]]:
    """Counts of outcomes, and differences from the list."""
    listed = {test: reason for reason in reasons for test in reason["tests"]}
    counts: Counter[str] = Counter()
    wrong = [f"{test} is on the list, and no test" for test in listed if test not in before]
    wrong += [f"{test} did not run with Spillway's writer" for test in before if test not in after]
    for test, found in after.items():
        outcome, reason = found["outcome"], listed.get(test)
        own = before[test]["outcome"] if test in before else "not run"
        if outcome in ("passed", own):
            counts["passed" if outcome == "passed" else f"pyarrow's own: {own}"] += 1
            if reason is not None:
                wrong.append(f"{test} is {outcome} with either writer: take it from the list")
        elif reason is None:
            wrong.append(f"{test} is {outcome}, and not on the list:\n{last_words(found)}")
        elif reason["says"] not in found["says"]:
            wrong.append(f"{test} does not fail for its reason ({reason['why']}):\n{last_words(found)}")
        else:
            counts[f"failed: {reason['why']}"] += 1
    return counts, wrong


def main() -> int:
    """Runs both, compares, and prints what came out."""
    reasons: list[Reason] = tomllib.loads(LIST.read_text(encoding="utf-8"))["reason"]
    after = outcomes("spillway")
    counts, wrong = compare(outcomes("pyarrow"), after, reasons)
    report(counts, len(after), wrong)
    return 1 if wrong else 0


def last_words(found: Outcome) -> str:
    """The end of what a test failed with."""
    return "\n".join(f"    {line}" for line in found["says"].splitlines()[-12:])


def report(counts: Counter[str], tests: int, wrong: list[str]) -> None:
    """Prints the table, and what has to change."""
    console = Console(soft_wrap=True, markup=False, highlight=False)
    table = Table("", "tests", title=f"{SUITE} over Spillway's writer", title_justify="left")
    for what, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        table.add_row(what, f"{count:,}")
    table.add_section()
    table.add_row("all", f"{tests:,}")
    console.print(table)
    for line in wrong:
        console.print(line)


if __name__ == "__main__":
    sys.exit(main())
