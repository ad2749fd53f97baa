"""Compares two runs, or two backends of one run, cell by cell: the changes and their significance.

Samples of one run are pairs, block by block. Samples of two runs are not paired: changes of the machine in
between are part of the difference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from math import exp, inf, log
from statistics import mean
from typing import TYPE_CHECKING, Any, Literal

from spillway._wording import and_joined, counted
from spillway.backends import library
from spillway.bench.plan import Cell
from spillway.bench.summary import (
    Setting,
    allocated_bytes,
    cpu_seconds,
    file_bytes,
    growth,
    outcome_words,
    seconds,
    speed,
)
from spillway.bench.tables import file_megabytes, megabytes
from spillway.errors import OptionError
from spillway.harness.report import Entry, Table, bullets, document, table_section
from spillway.harness.statistics import (
    ALPHA,
    Change,
    change_of_pairs,
    change_of_runs,
    holm,
    least_p,
    p_of_more,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from spillway.bench.summary import CellSummary, Metric, RunSummary


@dataclass(frozen=True)
class Measure:
    """Something that is compared.

    Attributes:
        name: Its name on the command line.
        title: Its name and unit in a table.
        of: Its value of a sample.
        better: 1 if more is better, -1 if less is better.
        is_exact: It varies neither by chance nor by machine, so one sample suffices.
    """

    name: str
    title: str
    of: Metric
    better: int
    is_exact: bool = False


METRICS = {
    each.name: each
    for each in (
        Measure("speed", "rows/s", speed, 1),
        Measure("memory", "peak MB", growth, -1),
        Measure("size", "file MB", file_bytes, -1, is_exact=True),
        Measure("cpu", "CPU s", cpu_seconds, -1),
        Measure("time", "seconds", seconds, -1),
        Measure("allocated", "allocated MB", allocated_bytes, -1, is_exact=True),
    )
}
"""The measures by the names that ``--metric`` takes."""


def usual_metrics(*, of_pythons: bool) -> list[Measure]:
    """The default measures.

    For two Python environments, time replaces speed, and processor time is added, which a busy host affects
    less.
    """
    names = ("time", "cpu", "memory", "size") if of_pythons else ("speed", "memory", "size")
    return [METRICS[name] for name in names]


@dataclass(frozen=True)
class Row:
    """One cell in both lots, by one measure.

    Attributes:
        measure: The measure.
        old: The cell of the first lot.
        new: The cell of the second.
        change: The change; None if a side has no good sample, wrote wrong output or is not a positive number.
        p: Its p, corrected for all rows; 0 or 1 for an exact measure.
    """

    measure: Measure
    old: CellSummary
    new: CellSummary
    change: Change | None
    p: float = 1.0

    @property
    def is_told(self) -> bool:
        """True if the change is significant."""
        return self.change is not None and self.p < ALPHA

    @property
    def loss(self) -> float:
        """The share by which it got worse, as estimated: 0.05 for 5 % fewer rows a second or more bytes."""
        return 0.0 if self.change is None else _loss(self.change.ratio, self.measure)

    @property
    def possible_loss(self) -> float:
        """The share by which it may have got worse, at the worse end of the interval."""
        if self.change is None:
            return 0.0
        return _loss(self.change.low if self.measure.better > 0 else self.change.high, self.measure)

    @property
    def has_failed(self) -> bool:
        """True if the new cell failed or wrote wrong output, and the old one significantly less or never."""
        if self.old.is_right:
            return not self.new.is_right
        counts = [(each.wrong_samples, len(each.samples)) for each in (self.old, self.new)]
        return p_of_more(*counts) < ALPHA

    @property
    def loss_without_size(self) -> str | None:
        """The way in which it got worse where no ratio can say by how much; None if it did not."""
        before, after = (_values(self.measure, each) for each in (self.old, self.new))
        if before and not after:
            return f"{self.measure.title} has no value any more: {self.new.outcome}"
        if self.measure.better < 0 and before and max(before.values()) == 0 < min(after.values()):
            return f"{self.measure.title} was zero"
        return None


@dataclass(frozen=True)
class Comparison:
    """All that was compared.

    Attributes:
        old: The name of the first lot.
        new: The name of the second.
        rows: The rows, measure by measure in the order of the cells.
        alone: Cells, in words, that only one lot has.
        differences: Libraries and machines in which runs differ, in words.
        is_paired: The samples are pairs.
        lost: Cells, in words, that only the old run has: nothing says that they are as good as before.
    """

    old: str
    new: str
    rows: Sequence[Row]
    alone: Sequence[str]
    differences: Sequence[str]
    is_paired: bool
    lost: Sequence[str] = ()

    def beyond(self, gate: float) -> list[Row]:
        """The rows that got worse by more than `gate`, those that fail now, and those without a ratio."""
        return [
            each
            for each in self.rows
            if each.has_failed or each.loss_without_size is not None or (each.is_told and each.loss > gate)
        ]

    def unclear(self, gate: float) -> list[Row]:
        """The rows of which the samples cannot exclude that they got worse by more than `gate`."""
        beyond = self.beyond(gate)
        return [each for each in self.rows if each.possible_loss > gate and each not in beyond]

    @property
    def is_blind(self) -> bool:
        """True if the samples are too few to show a change of any size in any of the rows."""
        tested = [each.change for each in self.rows if each.change is not None and not each.measure.is_exact]
        least = (least_p(each.n, is_paired=each.is_paired) for each in tested)
        return bool(tested) and min(least) * len(tested) >= ALPHA


def compare_runs(
    old: RunSummary, new: RunSummary, measures: Iterable[Measure], backends: Sequence[str] = ()
) -> Comparison:
    """Compare the cells that two runs share. For a run in two environments, those of the second are used.

    Args:
        old: The first run.
        new: The second run.
        measures: By what.
        backends: Only these backends; all by default.

    Raises:
        OptionError: They cannot be compared; the message says why.
    """
    measures = list(measures)
    known = sorted({each.cell.backend for run in (old, new) for each in run.cells})
    _refuse_unknown(backends, known, "neither run has")
    _refuse_other_measurement(old, new, of_machines=not all(each.is_exact for each in measures))
    before, after = (
        {
            replace(each.cell, python=""): each
            for each in run.cells
            if (not backends or each.cell.backend in backends) and each.cell.python == _newest_python(run)
        }
        for run in (old, new)
    )
    shared = [cell for cell in before if cell in after]
    if not shared:
        raise OptionError(_nothing_shared(before, after))
    _refuse_other_backends(old, new, {cell.backend for cell in shared})
    pairs = [(before[cell], after[cell]) for cell in shared]
    apart = _alone(before, after)
    alone = [f"{_words(cell)}: only in the {which} run" for which, cell in apart]
    lost = [_words(cell) for _, cell in apart if cell in before]
    differences = _differences(old, new, {cell.backend for cell in shared})
    rows = _rows(pairs, measures, is_paired=False)
    names = (f"run {old.run_id}", f"run {new.run_id}")
    return Comparison(*names, rows, alone, differences, is_paired=False, lost=lost)


def compare_backends(run: RunSummary, old: str, new: str, measures: Iterable[Measure]) -> Comparison:
    """Compare two backends of one run, block by block.

    Raises:
        OptionError: The run has no samples of one, or they share no setting.
    """
    known = sorted({each.cell.backend for each in run.cells})
    for name in (old, new):
        if name not in known:
            raise OptionError(f"run {run.run_id} has no backend {name!r}: it has {and_joined(known)}")
    return _compare_within(run, "backend", (old, new), measures)


def compare_pythons(run: RunSummary, measures: Iterable[Measure], backends: Sequence[str] = ()) -> Comparison:
    """Compare the two Python environments of a run, block by block.

    Args:
        run: The run.
        measures: By what.
        backends: Only these backends; all by default.

    Raises:
        OptionError: The run was not measured in two, or has no samples of one.
    """
    names = pythons_of(run)
    if not names:
        raise OptionError(f"run {run.run_id} was measured in one Python environment: name two with --python")
    absent = {each["backend"] for each in run.environment["absent_backends"]}
    known = sorted({each.cell.backend for each in run.cells} | absent)
    _refuse_unknown(backends, known, f"run {run.run_id} does not have")
    lost = [
        f"{each['backend']}: {each['reason']}"
        for each in run.environment["absent_backends"]
        if names[0] not in each.get("missing_in", names) and (not backends or each["backend"] in backends)
    ]
    return replace(_compare_within(run, "python", names, measures, backends), lost=lost)


def _refuse_unknown(backends: Sequence[str], known: Sequence[str], lacks: str) -> None:
    """Refuse a name that stands for no samples: a gate on it would always be kept."""
    unknown = [name for name in backends if name not in known]
    if unknown:
        raise OptionError(f"--backend {','.join(unknown)}: {lacks} it: choose from {and_joined(known)}")


def pythons_of(run: RunSummary) -> tuple[str, ...]:
    """The names of a run's Python environments, the old one first; empty without `--python`."""
    return tuple(run.environment["options"].get("pythons", ()))


def _newest_python(run: RunSummary) -> str:
    """The environment that stands for a run beside others: the second of two."""
    return next(reversed(pythons_of(run)), "")


def _compare_within(
    run: RunSummary,
    field: Literal["backend", "python"],
    names: Sequence[str],
    measures: Iterable[Measure],
    backends: Sequence[str] = (),
) -> Comparison:
    """Compare the cells of a run that differ in one field alone."""
    old, new = names
    by_name = {
        name: {
            _without(each.cell, field): each
            for each in run.cells
            if getattr(each.cell, field) == name and (not backends or each.cell.backend in backends)
        }
        for name in names
    }
    shared = [cell for cell in by_name[old] if cell in by_name[new]]
    if not shared:
        raise OptionError(f"{old} and {new} have no setting in common: choose others")
    alone = [
        f"{_words(cell)}: only {which}" for which, cell in _alone(by_name[old], by_name[new], (old, new))
    ]
    rows = _rows([(by_name[old][cell], by_name[new][cell]) for cell in shared], measures, is_paired=True)
    return Comparison(old, new, rows, alone, [], is_paired=True)


def _rows(
    pairs: Sequence[tuple[CellSummary, CellSummary]], measures: Iterable[Measure], *, is_paired: bool
) -> list[Row]:
    """The rows, with p values corrected for all that vary by chance."""
    rows = [
        Row(measure, old, new, _change(measure, old, new, is_paired=is_paired))
        for measure in measures
        for old, new in pairs
    ]
    tested = [place for place, row in enumerate(rows) if row.change is not None and not row.measure.is_exact]
    corrected = dict(zip(tested, holm([_p(rows[place]) for place in tested]), strict=True))
    return [replace(row, p=corrected.get(place, _p(row))) for place, row in enumerate(rows)]


def _p(row: Row) -> float:
    return 1.0 if row.change is None else row.change.p


def _change(measure: Measure, old: CellSummary, new: CellSummary, *, is_paired: bool) -> Change | None:
    before, after = (_positive(_values(measure, each)) for each in (old, new))
    if not before or not after:
        return None
    n = (len(before), len(after))
    if measure.is_exact:
        ratio = max(after.values()) / max(before.values())
        return Change(ratio, ratio, ratio, float(ratio == 1), n, is_paired)
    if is_paired:
        return change_of_pairs(before, after)
    return change_of_runs([*before.values()], [*after.values()])


def _values(measure: Measure, cell: CellSummary) -> dict[int, float]:
    """A measure of the good samples by block; none of a cell with wrong output, which may lack rows."""
    return {} if cell.is_wrong else cell.by_block(measure.of)


def _positive(values: dict[int, float]) -> dict[int, float]:
    return {block: value for block, value in values.items() if value > 0}


def _loss(ratio: float, measure: Measure) -> float:
    """The share lost by a ratio: of speed 1 - ratio, of memory ratio - 1."""
    return measure.better * (1 - ratio)


def _alone(
    old: dict[Cell, CellSummary], new: dict[Cell, CellSummary], names: tuple[str, str] = ("first", "second")
) -> list[tuple[str, Cell]]:
    return [
        *((names[0], cell) for cell in old if cell not in new),
        *((names[1], cell) for cell in new if cell not in old),
    ]


def _words(cell: Cell) -> str:
    return ", ".join(
        [*([cell.backend] if cell.backend else []), cell.mode, cell.dataset, counted(cell.rows, "row")]
    )


_Found = Callable[[dict[str, Any]], object]
# Where figures of two runs mean two things, by what a message calls it.
_MACHINE: dict[str, _Found] = {
    "processor": lambda each: each["cpu_model"],
    "architecture": lambda each: each["architecture"],
    "usable cores": lambda each: each["usable_cores"],
    "hosts of a cluster": lambda each: sorted(host["cpu_model"] for host in each.get("hosts", [])),
}
# What may explain a difference, and is said.
_NOTED: dict[str, _Found] = {
    "kernel": lambda each: each["kernel"],
    "memory": lambda each: f"{each['memory_bytes'] / 2**30:.0f} GiB",
    "transparent huge pages": lambda each: each["transparent_huge_pages"],
    "allocator": lambda each: each["malloc"],
    "Python": lambda each: each["python"]["version"],
    "commit of Spillway": lambda each: each["git"] and each["git"]["commit"][:12],
    "build of spillway": lambda each: each["native_build"] and each["native_build"].get("profile"),
}


def _without(cell: Cell, field: Literal["backend", "python"]) -> Cell:
    return replace(cell, backend="") if field == "backend" else replace(cell, python="")


def _refuse_other_measurement(old: RunSummary, new: RunSummary, *, of_machines: bool) -> None:
    """Refuse runs of other code that measures, rows or kinds of limit, and of other machines if asked."""
    before, after = old.environment, new.environment
    if old.run_id == new.run_id:
        raise OptionError(f"both are run {old.run_id}: name two runs, or --backend OLD,NEW for one")
    for what, found in _MACHINE.items() if of_machines else ():
        if found(before) != found(after):
            raise OptionError(
                f"not the same machine: {what} {found(before)} and {found(after)}. Figures compare on one "
                f"machine alone, but for sizes and allocated bytes: measure both there"
            )
    if before["benchmark"]["worker"] != after["benchmark"]["worker"]:
        raise OptionError(
            "the code that measures has changed between the runs, and may cause the difference: "
            "measure both with one version of the bench"
        )
    kinds = [{each.cell.limit_kind for each in run.cells} for run in (old, new)]
    if not kinds[0] & kinds[1]:
        raise OptionError(
            f"the memory limits are of other kinds, which count other things: {and_joined(sorted(kinds[0]))} "
            f"and {and_joined(sorted(kinds[1]))}. Choose one with --limit-kind for both"
        )
    rows = [
        {(each["dataset"], each.get("chunk_rows")): each for each in run["inputs"]} for run in (before, after)
    ]
    other = list(
        dict.fromkeys(
            key[0] for key in rows[0].keys() & rows[1].keys() if not _of_same_rows(rows[0][key], rows[1][key])
        )
    )
    if other:
        raise OptionError(f"the rows of {and_joined(other)} are not the same in both runs: measure the same")


def _of_same_rows(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """True if inputs have the same rows; of those with other numbers of rows, the first batch."""
    is_whole = old["rows"] == new["rows"] and "all_rows" in old and "all_rows" in new
    key = "all_rows" if is_whole else "first_batch"
    return bool(old[key] == new[key])


def _refuse_other_backends(old: RunSummary, new: RunSummary, shared: set[str]) -> None:
    codes = [
        {each["backend"]: each["code"] for each in run.environment["benchmark"]["backends"]}
        for run in (old, new)
    ]
    other = sorted(name for name in shared if codes[0].get(name) != codes[1].get(name))
    if other:
        raise OptionError(
            f"the code that calls the library has changed between the runs for {and_joined(other)}: measure "
            f"both with one version of the bench, or name others with --backend"
        )


def _nothing_shared(old: dict[Cell, CellSummary], new: dict[Cell, CellSummary]) -> str:
    """The reason why two runs have no cell in common: the fields in which all differ."""
    if not old or not new:
        return "a run has no samples of what is to be compared: name other backends by --backend"
    names = [field.name for field in fields(Setting)] + ["backend", "rows"]
    held = {name: [{getattr(cell, name) for cell in cells} for cells in (old, new)] for name in names}
    apart = [
        f"{name} {and_joined(sorted(map(str, before)))} and {and_joined(sorted(map(str, after)))}"
        for name, (before, after) in held.items()
        if not before & after
    ]
    why = "; ".join(apart) or "every one differs in something"
    return f"the runs have no cell in common: {why}. Measure the same"


def _software(run: RunSummary) -> dict[str, Any]:
    """The environment of a run; of one in two Python environments with the software of the second."""
    measured = run.environment.get("pythons", [])[-1:]
    return {**run.environment, **(measured[0] if measured else {})}


def _differences(old: RunSummary, new: RunSummary, compared: set[str]) -> list[str]:
    """What differs in machine and software, without the libraries of backends that are not compared."""
    before, after = _software(old), _software(new)
    noted = [(what, found(before), found(after)) for what, found in _NOTED.items()]
    libraries = [{each["name"]: each["version"] for each in run["libraries"]} for run in (before, after)]
    # What no backend is named after, and pyarrow, from which all have their rows, may matter to any.
    others = {library(each.cell.backend) for run in (old, new) for each in run.cells}
    others -= {"pyarrow", *map(library, compared)}
    names = [name for name in dict.fromkeys([*libraries[0], *libraries[1]]) if name not in others]
    noted += [(name, libraries[0].get(name), libraries[1].get(name)) for name in names]
    return [f"{what}: {before} and {after}" for what, before, after in noted if before != after]


def comparison_tables(found: Comparison) -> list[Table]:
    """A table for each measure: old, new, the change with its interval, p; below them the geometric mean."""
    names = list(dict.fromkeys(row.measure.name for row in found.rows))
    return [_table(found, [row for row in found.rows if row.measure.name == name]) for name in names]


def legend(found: Comparison) -> list[str]:
    """The meaning of the columns, and the samples that it rests on."""
    how = "pairs of one block" if found.is_paired else "all samples of both, which are not paired"
    reading = (
        f"Medians; the change is estimated from {how}, in brackets with its interval of 95 %. p is corrected "
        f"for all rows (Holm); ~ where it is {ALPHA} or more: no change can be told."
    )
    lines = [reading]
    if not found.is_paired:
        lines.append(
            "A machine that was busier or slower during one of the runs looks like a change: to tell it from "
            "one of the writer, measure both in one run, with two --python or as two backends."
        )
    if found.is_blind:
        lines.append(
            f"So few samples cannot tell any change in {counted(len(found.rows), 'row')}, however large: "
            f"take more --samples, or compare less by --backend and --metric."
        )
    return lines


def gate_lines(found: Comparison, gate: float) -> list[str]:
    """Sentences about rows that exceed the gate, missing cells, and rows that may exceed the gate."""
    beyond = [f"{_named(row, found)}: {_worse(row, row.loss)}" for row in found.beyond(gate)]
    beyond += [f"{each}: not measured any more" for each in found.lost]
    unclear = found.unclear(gate)
    if unclear:
        most = max(unclear, key=lambda row: row.possible_loss)
        reach = "without bound" if most.possible_loss == inf else f"up to {most.possible_loss:.1%}"
        may = f"{counted(len(unclear), 'comparison')} may hide a loss beyond {gate:.1%}"
        beyond.append(f"{may} ({reach}, {_named(most, found)}): more samples would tell")
    return beyond


def _named(row: Row, found: Comparison) -> str:
    """A row's cell where no table is beside it: with its backend, unless that is what is compared."""
    is_same = row.old.cell.backend == row.new.cell.backend
    return label_of(row, found, ("backend", "rows") if is_same else ())


def markdown_of(
    tables: Sequence[Table], verdict: Sequence[str], reading: Sequence[str], notes: Sequence[str]
) -> str:
    """A comparison as Markdown, for a comment on a change.

    Args:
        tables: Its tables.
        verdict: What became of the gate; empty text is left out.
        reading: The meaning of their columns, which is folded.
        notes: What else to know before believing it.
    """
    parts = [table_section(table) for table in tables]
    parts += [f"**{line}**" for line in verdict[:1] if line]
    parts += [bullets([*verdict[1:], *notes])] if verdict[1:] or notes else []
    meaning = "\n\n".join(reading)
    return document([*parts, f"<details><summary>How to read it</summary>\n\n{meaning}\n\n</details>"])


def _worse(row: Row, loss: float) -> str:
    if row.has_failed:
        before = "" if row.old.is_right else f", before {row.old.outcome}"
        return f"fails now: {row.new.outcome}{before}"
    if row.loss_without_size is not None:
        return row.loss_without_size
    return f"{row.measure.title} worse by {loss:.1%}"


def _table(found: Comparison, rows: list[Row]) -> Table:
    measure = rows[0].measure
    lines = [[Entry(label_of(row, found)), *_entries(row)] for row in rows]
    told = [row.change.ratio for row in rows if row.change is not None]
    if len(told) > 1:
        geometric = Entry(_percent(exp(mean(map(log, told)))))
        lines.append([Entry("geometric mean"), Entry(""), Entry(""), geometric, Entry("")])
    direction = "more is better" if measure.better > 0 else "less is better"
    return Table(
        f"{measure.title}, {direction}: {found.old} -> {found.new}",
        ("cell", "old", "new", "change", "p"),
        lines,
        [],
    )


def _entries(row: Row) -> list[Entry]:
    sides = [Entry(text) for text in sides_of(row)]
    change = row.change
    if change is None:
        return [*sides, Entry("-"), Entry("")]
    if row.measure.is_exact:
        return [*sides, Entry("=" if change.ratio == 1 else _percent(change.ratio)), Entry("")]
    n = f"n={change.n[0]}" if change.n[0] == change.n[1] else f"n={change.n[0]}+{change.n[1]}"
    text = f"{_percent(change.ratio) if row.is_told else '~'} [{_end(change.low)}, {_end(change.high)}]"
    return [*sides, Entry(text), Entry(f"{row.p:.3f} {n}")]


def sides_of(row: Row) -> list[str]:
    """The medians of both cells; the outcome of one without a good sample, or with wrong output."""
    written = WRITTEN[row.measure.name]
    found = [(side, side.estimate(row.measure.of)) for side in (row.old, row.new)]
    return [
        outcome_words(side.outcome) if value is None or side.is_wrong else written(value.median)
        for side, value in found
    ]


def label_of(row: Row, found: Comparison, always: Collection[str] = ()) -> str:
    """A row's cell, by the fields that differ among all compared cells, or by its rows if none do.

    Args:
        row: The row.
        found: All that is compared.
        always: Fields to name in any case.
    """
    cell = row.old.cell
    names = [field.name for field in fields(Cell)]
    held = [each.old.cell for each in found.rows]
    named = [name for name in names if name in always or len({getattr(each, name) for each in held}) > 1]
    return " ".join(_field(name, getattr(cell, name)) for name in named or ["rows"])


def _field(name: str, value: object) -> str:
    if name == "rows":
        return f"{value:,}"
    if name == "memory_bytes":
        return "no limit" if value is None else f"{int(str(value)) / 1e6:,.0f}MB"
    return f"{name.replace('_', ' ')} {value}" if isinstance(value, int) else str(value)


def _percent(ratio: float) -> str:
    return f"{ratio - 1:+.1%}"


def _end(ratio: float) -> str:
    return "-inf" if ratio == 0 else "inf" if ratio == inf else _percent(ratio)


WRITTEN: dict[str, Callable[[float], str]] = {
    "speed": lambda value: f"{value:,.0f}",
    "memory": megabytes,
    "size": file_megabytes,
    "cpu": lambda value: f"{value:.3g}",
    "time": lambda value: f"{value:.3g}",
    "allocated": file_megabytes,
}
"""How a value of each measure is written, by its name."""
