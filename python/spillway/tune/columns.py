"""Every column written alone, with each of its encodings and codecs: of them the settings of files are made.

Processor time and bytes of columns add up to those of a file, but for its footer. So the settings of a file
that take the least time for what they save are those of its columns, each by itself.
"""

from __future__ import annotations

import io
import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spillway.errors import SpillwayError
from spillway.tune.choice import Choice, ColumnChoice

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from types import CodeType

    import pyarrow as pa

    from spillway.tune.choice import Codec
    from spillway.tune.writers import Writer

__all__ = ["Cost", "Costs", "choices_of", "measure_columns"]

_ROUNDS = 3
# Weights of a byte against a second, over those at which the library's defaults count alike.
_WEIGHTS = (0.1, 0.3, 0.6, 1.0, 2.0, 4.0, 10.0)


@dataclass(frozen=True)
class Cost:
    """Processor seconds and bytes of a column, or of all together."""

    seconds: float
    size: float

    def __add__(self, other: Cost) -> Cost:
        """Both together."""
        return Cost(self.seconds + other.seconds, self.size + other.size)


Costs = dict[str, dict[ColumnChoice, Cost]]


def measure_columns(
    writer: Writer, table: pa.Table, *, until: float, progress: Callable[[int, int, str], None]
) -> Costs:
    """The cost of each column with each of its settings; the first is with those that the library prefers.

    Args:
        writer: The library.
        table: The rows to write.
        until: Monotonic time from which on only the first round is taken.
        progress: Called with the columns done, the columns in all, and the name of the next.

    Raises:
        SpillwayError: The library refuses a column with every setting.
    """
    found: Costs = {}
    for place, name in enumerate(table.column_names):
        progress(place, table.num_columns, name)
        column = table.select([name])
        refused: list[Exception] = []
        found[name] = dict(_measure_column(writer, column, name, until, refused))
        if not found[name]:
            raise SpillwayError(f"no setting writes the column {name!r}: {refused[-1]}") from refused[-1]
    progress(table.num_columns, table.num_columns, "")
    return found


def _measure_column(
    writer: Writer, column: pa.Table, name: str, until: float, refused: list[Exception]
) -> Iterator[tuple[ColumnChoice, Cost]]:
    for encoding in writer.encodings(column.schema.field(0).type):
        for codec in writer.of_columns:
            choice = ColumnChoice(codec, encoding)
            code = writer.code(column.schema, Choice(codec, {name: choice}))
            try:
                cost = _cost(compile(code, "<column>", "exec"), column, until)
            except Exception as error:  # noqa: BLE001 - each library has its own class for a refusal
                refused.append(error)
                continue
            yield choice, cost


def _cost(code: CodeType, table: pa.Table, until: float) -> Cost:
    """The least processor time of some writes to memory, and their size."""
    seconds, size = math.inf, 0
    for turn in range(_ROUNDS):
        out = io.BytesIO()
        begin = time.process_time()
        exec(code, {"table": table, "path": out})  # noqa: S102 - the code that is handed to the user
        seconds = min(seconds, time.process_time() - begin)
        size = out.tell()
        if turn == 0 and time.monotonic() > until:
            break
    return Cost(seconds, float(size))


def choices_of(costs: Costs, usual: Codec) -> list[Choice]:
    """Settings of files, from the cost of their columns: the best few for any weight of size against time.

    Args:
        costs: The result of `measure_columns`.
        usual: The codec of the library's defaults, from which weights are reckoned.
    """
    default = _total(
        each[next((choice for choice in each if choice.codec == usual), next(iter(each)))]
        for each in costs.values()
    )
    rate = default.seconds / default.size
    codecs = sorted({choice.codec for each in costs.values() for choice in each})
    found: dict[tuple[tuple[str, ColumnChoice], ...], Cost] = {}
    for allowed in ([each] for each in codecs), [codecs]:
        for names in allowed:
            for weight in _WEIGHTS:
                chosen = {name: _best(each, names, weight * rate) for name, each in costs.items()}
                found[tuple(chosen.items())] = _total(costs[name][each] for name, each in chosen.items())
    front = _front(found)
    ranked = sorted(front, key=lambda each: found[each].seconds * found[each].size)
    return [Choice(usual, dict(each)) for each in ranked]


def _best(costs: Mapping[ColumnChoice, Cost], codecs: list[Codec], weight: float) -> ColumnChoice:
    allowed = {choice: cost for choice, cost in costs.items() if choice.codec in codecs} or costs
    return min(allowed, key=lambda choice: allowed[choice].seconds + weight * allowed[choice].size)


def _front(
    found: Mapping[tuple[tuple[str, ColumnChoice], ...], Cost],
) -> list[tuple[tuple[str, ColumnChoice], ...]]:
    """Those of which no other is both faster and smaller."""
    front = []
    smallest = math.inf
    for choice, cost in sorted(found.items(), key=lambda each: (each[1].seconds, each[1].size)):
        if cost.size < smallest:
            front.append(choice)
            smallest = cost.size
    return front


def _total(costs: Iterable[Cost]) -> Cost:
    return sum(costs, start=Cost(0.0, 0.0))
