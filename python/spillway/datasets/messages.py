"""The messages: texts of logging statements with their placeholders filled in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spillway.datasets.arrow import concatenated, numbers_as_text, taken, texts
from spillway.datasets.random import below
from spillway.datasets.vocabulary import EVENTS, TOPICS

if TYPE_CHECKING:
    from spillway.datasets.arrow import AnyArray
    from spillway.datasets.traffic import Traffic

__all__ = ["messages"]

_SLOTS = max(len(event.slots) for event in EVENTS)

# Texts by position and event; a statement with fewer placeholders has empty texts at its end.
_TEXTS = [
    texts([event.texts[position] if position < len(event.texts) else "" for event in EVENTS])
    for position in range(_SLOTS + 1)
]
# Bounds of the numbers by placeholder and event: 0 for a word, and for a placeholder that is not there.
_BOUNDS = np.array(
    [
        [event.slots[slot].bound if slot < len(event.slots) else 0 for event in EVENTS]
        for slot in range(_SLOTS)
    ],
    dtype=np.uint64,
)
# Which vocabulary a placeholder without a number takes its text from.
_ABSENT = len(TOPICS)
_WORDS = pa.concat_arrays([TOPICS, texts([""])])
_IS_WORD = np.array([[slot < len(event.slots) for event in EVENTS] for slot in range(_SLOTS)])


def messages(traffic: Traffic, name: str) -> AnyArray:
    """One message a row: the text of its event, with numbers and words drawn for it."""
    event = traffic.event
    pieces = [taken(_TEXTS[0], event)]
    for slot in range(_SLOTS):
        draws = traffic.draw(f"{name}/{slot}")
        bound = _BOUNDS[slot, event]
        numbers = numbers_as_text(below(draws, bound))
        word = np.where(_IS_WORD[slot, event], below(draws, len(TOPICS)), _ABSENT)
        pieces += [
            pc.if_else(pa.array(bound > 0), numbers, taken(_WORDS, word)),
            taken(_TEXTS[slot + 1], event),
        ]
    return concatenated(*pieces)
