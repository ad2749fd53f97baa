"""The list of others' tests that fail is held to: neither too long nor too short."""

from __future__ import annotations

import tomllib

import pytest

from .__main__ import LIST, Outcome, Reason, compare

REASONS: list[Reason] = [{"why": "by design", "says": "as designed", "tests": ["t::listed"]}]
PASSED, FAILED = Outcome(outcome="passed", says=""), Outcome(outcome="failed", says="as designed")
BEFORE = {"t::listed": PASSED, "t::other": PASSED, "t::own": Outcome(outcome="skipped", says="")}
AFTER = BEFORE | {"t::listed": FAILED}


def test_what_is_as_listed_is_right() -> None:
    counts, wrong = compare(BEFORE, AFTER, REASONS)
    assert wrong == []
    assert counts == {"passed": 1, "failed: by design": 1, "pyarrow's own: skipped": 1}


@pytest.mark.parametrize(
    ("test", "found", "says"),
    [
        ("t::listed", PASSED, "take it from the list"),
        ("t::listed", Outcome(outcome="failed", says="otherwise"), "does not fail for its reason"),
        ("t::other", FAILED, "not on the list"),
        ("t::other", Outcome(outcome="skipped", says=""), "not on the list"),
        ("t::own", FAILED, "not on the list"),
    ],
)
def test_what_is_not_as_listed_is_wrong(test: str, found: Outcome, says: str) -> None:
    (wrong,) = compare(BEFORE, AFTER | {test: found}, REASONS)[1]
    assert wrong.startswith(test)
    assert says in wrong


def test_no_test_is_left_out() -> None:
    fewer = {test: found for test, found in AFTER.items() if test != "t::other"}
    assert compare(BEFORE, fewer, REASONS)[1] == ["t::other did not run with Spillway's writer"]
    assert compare(fewer | {"t::listed": PASSED}, fewer, [*REASONS, {**REASONS[0], "tests": ["t::gone"]}])[
        1
    ] == ["t::gone is on the list, and no test"]


def test_every_test_is_listed_once() -> None:
    reasons: list[Reason] = tomllib.loads(LIST.read_text(encoding="utf-8"))["reason"]
    tests = [test for reason in reasons for test in reason["tests"]]
    assert len(tests) == len(set(tests))
    assert all(reason["why"] for reason in reasons)
