"""A search in a table and a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spillway._wording import counted
from spillway.harness.rank_tests import ALPHA, holm
from spillway.harness.report.table import Entry, Table

if TYPE_CHECKING:
    from spillway.tune.search import Candidate, Found

__all__ = ["legend", "settings_table", "verdict"]


def settings_table(found: Found, title: str) -> Table:
    """The defaults, the best and the others: time and size over those of the defaults, speed and memory."""
    ordered = [found.default, *([] if found.best is found.default else [found.best]), *found.others]
    rows = [[Entry(name), *_entries(found, each)] for name, each in zip(_names(found), ordered, strict=True)]
    return Table(
        f"{title}: {counted(found.rows, 'row')}, one core",
        ("settings", "time", "[95 %]", "size", "rows/s", "file MB", "peak MB"),
        rows,
        [f"{name}: {each.words}" for name, each in zip(_names(found), ordered, strict=True)],
    )


def legend(found: Found) -> list[str]:
    """The meaning of the columns."""
    rounds = len(found.default.cpu_seconds)
    reading = (
        f"time: processor time over that of the defaults, by {counted(rounds, 'round')} in turns; size: of "
        f"the file, over theirs; peak MB: growth of resident memory. {counted(found.tried, 'setting')} were "
        f"measured as whole files."
    )
    return [reading]


def verdict(found: Found, library: str) -> str:
    """The gain of the best settings, or that there is none."""
    over = found.best.time_over(found.default)
    if found.best is found.default or over is None:
        return f"Nothing that was tried is better than the defaults of {library} at no loss."
    smaller = 1 - found.best.size / found.default.size
    changes = [each.time_over(found.default) for each in (found.best, *found.others)]
    p = holm([1.0 if each is None else each.p for each in changes])[0]
    if p >= ALPHA:
        return f"{smaller:.1%} smaller than the defaults of {library}; no difference in time can be told."
    faster = f"{1 / over.ratio - 1:.1%} faster"
    return f"{smaller:.1%} smaller and {faster} than the defaults of {library}."


def _names(found: Found) -> list[str]:
    best = [] if found.best is found.default else ["best"]
    return ["defaults", *best, *(f"other {place}" for place, _ in enumerate(found.others, start=1))]


def _entries(found: Found, each: Candidate) -> list[Entry]:
    over = each.time_over(found.default)
    is_own = each is found.default or over is None
    interval = "" if is_own or over is None or over.low == 0 else f"[{over.low:.2f}, {over.high:.2f}]"
    return [
        Entry("1.00" if is_own or over is None else f"{over.ratio:.2f}", best=each is found.best),
        Entry(interval),
        Entry(f"{each.size / found.default.size:.3f}", best=each is found.best),
        Entry(f"{found.rows / each.median_of('wall_seconds'):,.0f}"),
        Entry(f"{each.size / 1e6:,.2f}"),
        Entry(f"{each.median_of('peak_bytes') / 1e6:,.1f}"),
    ]
