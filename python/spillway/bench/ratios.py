"""The tables of ratios: the speed of one backend over each other's, and which of them differ from 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spillway.bench.plan import base_of
from spillway.bench.ranking import ratio
from spillway.bench.summary import speed
from spillway.bench.tables import effect_text, ratio_text, setting_title
from spillway.harness.rank_tests import ALPHA, holm, least_p
from spillway.harness.report.table import Entry, Table
from spillway.harness.statistics import FEWEST_FOR_INTERVAL, pooled_ratio

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spillway.bench.summary import CellSummary, RunSummary, Setting
    from spillway.harness.statistics import Ratio

__all__ = ["RATIO_LEGEND", "ratio_tables", "told"]

RATIO_LEGEND = (
    "Ratios are taken block by block; in brackets their 95 % interval by signed ranks, with fewer than "
    "six blocks the whole range. `~`: samples cannot tell the ratio from 1, by Wilcoxon's signed ranks, "
    "corrected after Holm for the ratios of the setting, or, where so few samples could tell none so, by "
    "the interval of each ratio alone. *mean* is the geometric mean over the numbers of rows. *least effect* "
    "is the least difference that samples of such noise show 8 times in 10 without that correction, where it "
    "is largest. The verdict and bold figures go by the interval of each pair, uncorrected."
)
"""The meaning of the entries of `ratio_tables`."""


@dataclass(frozen=True)
class _Found:
    """One ratio, and whether it is told from 1."""

    ratio: Ratio
    is_told: bool

    @property
    def text(self) -> str:
        return ratio_text(self.ratio) if self.is_told else "~"


def ratio_tables(run: RunSummary) -> dict[Setting, Table]:
    """A table for each setting in which the first of our own backends, or else the first, met others."""
    base = base_of(each.cell.backend for each in run.cells)
    found = _ratios(run, base)
    tables = {setting: _table(run, setting, base, found) for setting in run.settings}
    return {setting: table for setting, table in tables.items() if table.rows}


_Key = tuple["Setting", int, str]


def _ratios(run: RunSummary, base: str | None) -> dict[_Key, _Found]:
    """All ratios of the run's report, told from 1 or not after correction for their number in a setting."""
    found: dict[_Key, _Found] = {}
    for setting in run.settings:
        own = _ratios_of(run, setting, base)
        marks = told(list(own.values()))
        found |= {key: _Found(each, is_told) for (key, each), is_told in zip(own.items(), marks, strict=True)}
    return found


def _ratios_of(run: RunSummary, setting: Setting, base: str | None) -> dict[_Key, Ratio]:
    found: dict[_Key, Ratio] = {}
    right = [each for each in run.of(setting) if each.is_right]
    own = {each.cell.rows: each for each in right if each.cell.backend == base}
    for each in right:
        rows = each.cell.rows
        if each.cell.backend != base and rows in own and (over := ratio(own[rows], each, speed)):
            found[setting, rows, each.cell.backend] = over
    return found


def told(found: Sequence[Ratio]) -> list[bool]:
    """The ratios that are told from 1: by corrected tests, or by intervals where those could tell none."""
    least = (least_p((each.n, each.n), is_paired=True) for each in found)
    is_blind = min(least, default=1.0) * len(found) >= ALPHA
    corrected = holm([each.p for each in found])
    return [
        not each.low <= 1 <= each.high if is_blind or each.n < FEWEST_FOR_INTERVAL else p < ALPHA
        for each, p in zip(found, corrected, strict=True)
    ]


def _table(run: RunSummary, setting: Setting, base: str | None, found: dict[_Key, _Found]) -> Table:
    cells = [each for each in run.of(setting) if each.is_right]
    counts = sorted({each.cell.rows for each in cells})
    rows = []
    for backend in dict.fromkeys(each.cell.backend for each in cells):
        met = {count: found[key] for count in counts if (key := (setting, count, backend)) in found}
        if met:
            texts = [met[count].text if count in met else "-" for count in counts]
            least = max(each.ratio.least_effect for each in met.values())
            mean = _mean(cells, base, backend, list(met)) if len(counts) > 1 else []
            rows.append([Entry(text) for text in (backend, *texts, *mean, effect_text(least))])
    header = ["backend", *(f"{count:,}" for count in counts)]
    header += ["mean"] if len(counts) > 1 else []
    return Table(
        f"Speed of {base} over others: {setting_title(setting)}", (*header, "least effect"), rows, []
    )


def _mean(cells: Sequence[CellSummary], base: str | None, backend: str, counts: Sequence[int]) -> list[str]:
    by_key = {(each.cell.backend, each.cell.rows): each.by_block(speed) for each in cells}
    pooled = pooled_ratio([(by_key[str(base), count], by_key[backend, count]) for count in counts])
    return ["-" if pooled is None else ratio_text(pooled)]
