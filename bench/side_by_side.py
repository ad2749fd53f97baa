"""Ways to do one thing, measured side by side within one test."""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING, Any

from pytest_spillway import PROPERTY, clock
from pytest_spillway.figures import comparison_line, ratio_of_blocks
from spillway.bench.conclusion import FEWEST_TO_QUOTE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pytest
    from pytest_benchmark.fixture import BenchmarkFixture

_SEED = 1


class SideBySide:
    """Measures in blocks: each has a sample of every way, in an order that is drawn.

    The first block warms up and is dropped. At least twelve follow, as many as a figure needs to be quoted.
    With ``--benchmark-disable`` there is one block.

    Args:
        request: The request of the fixture.
        benchmark: The fixture of pytest-benchmark, which keeps the seconds of the first way.
    """

    def __init__(self, request: pytest.FixtureRequest, benchmark: BenchmarkFixture) -> None:
        self._request, self._benchmark = request, benchmark

    @property
    def is_checked(self) -> bool:
        """Whether results are checked and nothing is measured."""
        return bool(self._benchmark.disabled)

    def __call__(
        self,
        take: Callable[[str], dict[str, Any]],
        names: Sequence[str],
        *,
        against: str,
        seconds: Sequence[str] = ("seconds",),
        **options: int | str,
    ) -> list[dict[str, Any]]:
        """Take the samples of a test.

        Args:
            take: Takes a sample of one way. It raises AssertionError where the result is wrong.
            names: The ways; pytest-benchmark counts the seconds of the first.
            against: The way that the others are compared with.
            seconds: Keys of a sample that hold seconds; pytest-benchmark counts those of the first.
            options: What was measured, for ``extra_info``: rows, threads.

        Returns:
            The samples, each with its block. ``extra_info`` has them as ``samples``, and ``ratios``: for each
            key of `seconds` and each way the seconds over those of `against`, with their interval of 95 %.
        """
        enabled = self._benchmark.enabled
        rounds = max(FEWEST_TO_QUOTE, self._request.config.getoption("benchmark_min_rounds"))
        draw = random.Random(_SEED)  # noqa: S311 - an order, not a secret
        numbers = itertools.count(0 if enabled else 1)
        samples: dict[str, dict[int, dict[str, Any]]] = {name: {} for name in names}

        def take_block() -> None:
            number = next(numbers)
            if number == 0:
                # Within the call, so that pytest-benchmark knows of an error.
                self._request.getfixturevalue("machine")
            for name in draw.sample(names, len(names)):
                samples[name][number] = take(name) | {"block": number}
            clock.advance(samples[names[0]][number][seconds[0]])

        pedantic: Any = self._benchmark.pedantic
        pedantic(take_block, rounds=rounds, warmup_rounds=1)
        for of_name in samples.values():
            of_name.pop(0, None)
        ratios = {
            key: {
                name: ratio_of_blocks(_by_block(of_name, key), _by_block(samples[against], key))
                for name, of_name in samples.items()
                if name != against
            }
            for key in seconds
        }
        taken = [sample for of_name in samples.values() for sample in of_name.values()]
        self._benchmark.extra_info.update(
            options={**options, "blocks": rounds, "seed": _SEED},
            against=against,
            ratios=ratios,
            samples=taken,
        )
        if enabled:
            self._request.node.user_properties.append((PROPERTY, "\n".join(_lines(ratios, against))))
        return taken


def _by_block(samples: dict[int, dict[str, Any]], key: str) -> dict[int, float]:
    return {block: sample[key] for block, sample in samples.items()}


def _lines(ratios: dict[str, dict[str, dict[str, Any]]], against: str) -> list[str]:
    return [
        comparison_line(name if len(ratios) == 1 else f"{name}, {key}", {**ratio, "writer": against})
        for key, of_names in ratios.items()
        for name, ratio in of_names.items()
    ]
