"""A published study of Parquet writers in Go, run again: its table, column by column, and what still holds.

The study wrote logs of 52 columns on one core under 2,276 MB, by a row-oriented writer, by Arrow's streaming
writer and by Arrow's buffered one. `FOUND` has what it found.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from findings import row_groups, speed_ratio
from spillway._wording import and_joined, counted
from spillway.backends import OWN_LIBRARY, library
from spillway.bench.side_tables import program_medians
from spillway.bench.summary import CellSummary, file_bytes, growth, speed
from spillway.bench.tables import (
    file_megabytes,
    indistinct,
    megabytes,
    metric_column,
    ratio_text,
    speed_text,
)
from spillway.harness.report import Entry, Table, markdown_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from spillway.bench.summary import RunSummary
    from spillway.harness.statistics import Ratio

ROW, STREAMING, BUFFERED = "go-row", "go-arrow-streaming", "go-arrow-buffered"
GO = (ROW, STREAMING, BUFFERED)
_ROW_LEADS_BELOW = 25_000
_SAME_SIZE = 1.01
_NO_GROWTH = 1e6

_OF_THE_RUNTIME: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("heap MB", "heap_bytes", megabytes),
    ("GC runs", "gc_runs", lambda value: f"{value:,.0f}"),
    ("GC pause ms", "gc_pause_seconds", lambda value: f"{value * 1e3:.2g}"),
    ("allocated MB", "allocated_bytes", megabytes),
)

Cells = dict[str, CellSummary]


@dataclass(frozen=True)
class Claim:
    """One finding of the study beside what the run says of it.

    Attributes:
        study: The finding.
        here: The run's figures.
        holds: True or false as far as the samples tell; None where they cannot.
    """

    study: str
    here: str
    holds: bool | None

    @property
    def verdict(self) -> str:
        """The answer in a few words."""
        return {True: "it holds", False: "it does not hold", None: "samples cannot tell"}[self.holds]


def table(run: RunSummary) -> str:
    """One row for each writer and number of rows, the fastest first, in Markdown."""
    lines = [line for cells in by_rows(run).values() for line in _lines(cells)]
    header = ("rows", "writer", "rows/s", "peak MB", "file MB", *(name for name, *_ in _OF_THE_RUNTIME))
    return markdown_table(Table("", header, lines, []))


def comparison(run: RunSummary) -> str:
    """The findings of the study beside the run's, and a paragraph that sums them up, in Markdown."""
    found = claims(run)
    lines = "\n".join(f"- *{each.study}.* Here {each.here}: {each.verdict}." for each in found)
    return f"{lines}\n\n{_summary(found)} {_beside(by_rows(run))}"


def has_its_writers(run: RunSummary) -> bool:
    """Return true if a run has all of the study's writers at each number of rows."""
    return all(name in cells for cells in by_rows(run).values() for name in GO)


def by_rows(run: RunSummary) -> dict[int, Cells]:
    """The cells of record batches by number of rows and backend."""
    found: dict[int, Cells] = {}
    for each in sorted(run.cells, key=lambda each: each.cell.rows):
        if each.cell.mode == "batches" and each.is_right:
            found.setdefault(each.cell.rows, {})[each.cell.backend] = each
    return found


def claims(run: RunSummary) -> list[Claim]:
    """The findings of the study, each held against the run, which has all of its writers."""
    of = by_rows(run)
    most = of[max(of)]
    return [_fastest(most), _row_leads(of), _growth(most), _sizes(most)]


def _lines(cells: Cells) -> list[list[Entry]]:
    ordered = sorted(cells.values(), key=lambda each: -_speed(each))
    marks = indistinct(ordered, speed, 1)
    memory = metric_column(ordered, growth, megabytes, -1)
    sizes = metric_column(ordered, file_bytes, file_megabytes, -1)
    return [
        [
            Entry(f"{each.cell.rows:,}"),
            Entry(each.cell.backend),
            Entry(speed_text(each.rows_per_second), best=marks[place]),
            memory[place],
            sizes[place],
            *_of_the_runtime(each),
        ]
        for place, each in enumerate(ordered)
    ]


def _of_the_runtime(cell: CellSummary) -> list[Entry]:
    found = program_medians(cell)
    return [Entry(written(found[name]) if name in found else "-") for _, name, written in _OF_THE_RUNTIME]


def _fastest(cells: Cells) -> Claim:
    over = {name: speed_ratio(cells[STREAMING], cells[name]) for name in (ROW, BUFFERED)}
    here = and_joined([f"{ratio_text(each)} times {name}" for name, each in over.items()])
    return Claim(
        "Arrow streaming is the fastest at 400,000 rows: 93,113 rows/s, 1.66 times the row-oriented writer, "
        "1.50 times the buffered one",
        f"it writes {speed_text(cells[STREAMING].rows_per_second)} rows/s, {here}",
        _all(_is_above(each) for each in over.values()),
    )


def _row_leads(of: dict[int, Cells]) -> Claim:
    leads = {
        rows: _all(_is_above(speed_ratio(cells[ROW], cells[name])) for name in (STREAMING, BUFFERED))
        for rows, cells in of.items()
    }
    where = [f"{rows:,}" for rows, is_ahead in leads.items() if is_ahead]
    expected = [is_ahead if rows < _ROW_LEADS_BELOW else _not(is_ahead) for rows, is_ahead in leads.items()]
    return Claim(
        "The row-oriented writer is the fastest below 25,000 rows alone",
        f"it is at {and_joined(where)} rows" if where else "it is nowhere",
        _all(expected),
    )


def _growth(cells: Cells) -> Claim:
    found = cells[STREAMING].growth
    assert found is not None
    others = and_joined([f"{name} by {_grown(cells[name])} MB" for name in (ROW, BUFFERED)])
    return Claim(
        "Arrow streaming takes no resident memory beyond what was there before",
        f"it grows by {megabytes(found.median)} MB at {cells[STREAMING].cell.rows:,} rows; {others}",
        found.high < _NO_GROWTH,
    )


def _sizes(cells: Cells) -> Claim:
    sizes = {name: _bytes(cells[name]) for name in GO}
    groups = {name: counted(row_groups(cells[name]), "row group") for name in GO}
    return Claim(
        "All files have the same size: 28.3 MB at 400,000 rows",
        and_joined([f"{name} {file_megabytes(size)} MB in {groups[name]}" for name, size in sizes.items()]),
        max(sizes.values()) <= _SAME_SIZE * min(sizes.values()),
    )


def _summary(found: list[Claim]) -> str:
    holding = [each for each in found if each.holds]
    untold = [each for each in found if each.holds is None]
    hold = "holds" if len(holding) == 1 else "hold"
    said = f"Of {counted(len(found), 'finding')}, {len(holding) or 'none'} {hold}"
    return f"{said}, and {len(untold)} cannot be told." if untold else f"{said}."


def _beside(of: dict[int, Cells]) -> str:
    """The writers of other languages beside the fastest of the three, at the least and the most rows."""
    return " ".join(_ahead(of[rows]) for rows in dict.fromkeys((min(of), max(of))))


def _ahead(cells: Cells) -> str:
    best = max((cells[name] for name in GO), key=_speed)
    others = sorted((each for name, each in cells.items() if name not in GO), key=lambda each: -_speed(each))
    own = [each for each in others if library(each.cell.backend) == OWN_LIBRARY][:1]
    peer = [each for each in others if library(each.cell.backend) != OWN_LIBRARY][:1]
    said = [f"{each.cell.backend} {ratio_text(speed_ratio(each, best))} times" for each in (*own, *peer)]
    at, name = f"At {best.cell.rows:,} rows", best.cell.backend
    return f"{at} {and_joined(said)} the rows/s of {name}, the fastest in Go."


def _is_above(found: Ratio) -> bool | None:
    return True if found.low > 1 else False if found.high < 1 else None


def _all(answers: Iterable[bool | None]) -> bool | None:
    """Return true if all are, false if one is false, else None."""
    given = list(answers)
    return False if False in given else None if None in given else True


def _not(answer: bool | None) -> bool | None:  # noqa: FBT001 - of an answer
    return None if answer is None else not answer


def _speed(cell: CellSummary) -> float:
    return cell.rows_per_second.median if cell.rows_per_second else 0.0


def _grown(cell: CellSummary) -> str:
    return "-" if cell.growth is None else megabytes(cell.growth.median)


def _bytes(cell: CellSummary) -> int:
    found = cell.exact("bytes")
    assert found is not None
    return found[0]
