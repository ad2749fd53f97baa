"""Values whose type changes, and of which none may change with it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from spillway.errors import SchemaError

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Collection
    from pathlib import Path

# Floats of these widths have all integers up to these bounds.
_WHOLE = {16: 2.0**11, 32: 2.0**24, 64: 2.0**53}
_INTEGER = r"^[ \t]*[+-]?[0-9]+[ \t]*$"
_LONGEST = 40


class ExactFloats:
    """Makes floats of the texts of a CSV file, which Arrow would do as well, but would round integers.

    Args:
        path: The file, for messages.
        schema: Of its rows.
        names: The columns of floats, which come as texts.
        skipped: Numbers of the rows that were left out, which Arrow adds.
    """

    def __init__(self, path: Path, schema: pa.Schema, names: Collection[str], skipped: deque[int]) -> None:
        self._path = path
        self._schema = schema
        self._floats = [place for place, each in enumerate(schema) if each.name in names]
        self._skipped = skipped
        self._before = 1  # the line with the names

    def of_texts(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The next rows.

        Raises:
            SchemaError: A text is an integer that its column's type cannot hold.
            ArrowInvalid: A text is no number.
        """
        columns: list[pa.Array[Any]] = list(batch.columns)
        for place in self._floats:
            columns[place] = self._floats_of(columns[place], place)
        self._before = self._number(batch.num_rows - 1)
        while self._skipped and self._skipped[0] <= self._before:
            self._skipped.popleft()
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _number(self, index: int) -> int:
        """The number of a row of this batch, among all rows of the file."""
        number = self._before + index + 1
        for skipped in tuple(self._skipped):
            if skipped > number:
                break
            number += 1
        return number

    def _floats_of(self, texts: pa.Array[Any], place: int) -> pa.Array[Any]:
        kind = self._schema.field(place).type
        texts = pc.replace_with_mask(texts, pc.equal(texts, ""), pa.scalar(None, pa.string()))
        try:
            floats = texts.cast(kind)
        except pa.ArrowInvalid:
            # Blanks around a number, which the reader of CSV leaves out, or no number.
            floats = self._trimmed(texts, place)
        largest = _WHOLE[kind.bit_width]
        bounds = pc.min_max(floats).as_py()
        if bounds["min"] is not None and (bounds["max"] >= largest or bounds["min"] <= -largest):
            self._refuse_rounded(texts, floats, place)
        return floats

    def _trimmed(self, texts: pa.Array[Any], place: int) -> pa.Array[Any]:
        kind = self._schema.field(place).type
        trimmed = pc.utf8_trim(texts, " \t")
        try:
            return trimmed.cast(kind)
        except pa.ArrowInvalid:
            index = next(index for index, text in enumerate(trimmed) if not _is_number(text, kind))
            # In the words of the reader of CSV, which gives no text of another column.
            raise pa.ArrowInvalid(
                f"In CSV column #{place}: Row #{self._number(index)}: CSV conversion error to {kind}: "
                f"invalid value '{texts[index].as_py()}'"
            ) from None

    def _refuse_rounded(self, texts: pa.Array[Any], floats: pa.Array[Any], place: int) -> None:
        field = self._schema.field(place)
        are_large = pc.greater_equal(pc.abs(floats), pa.scalar(_WHOLE[field.type.bit_width], field.type))
        suspects = pc.and_(are_large, pc.match_substring_regex(texts, _INTEGER))
        for index in pc.indices_nonzero(suspects).to_pylist():
            text, value = texts[index].as_py().strip(), floats[index].as_py()
            if math.isinf(value) or int(text) != int(value):
                shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
                raise SchemaError(
                    f"{self._path}, row {self._number(index):,}: column {field.name} is {field.type}, which "
                    f"cannot hold the integer {shown} exactly: declare the column with --schema FILE as "
                    f"string, or as a decimal that holds all its digits",
                    field.name,
                )


def _is_number(text: pa.Scalar[Any], kind: pa.DataType) -> bool:
    try:
        text.cast(kind)
    except pa.ArrowInvalid:
        return False
    return True
