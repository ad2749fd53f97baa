"""The end of text: with the block go Arrow's reader and the bytes that it was given, whatever ends it."""

from __future__ import annotations

import os
import time
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pytest

from spillway.errors import CorruptFileError
from spillway.reading import files as reading
from spillway.reading.files import open_pipe, open_rows
from spillway.reading.sources import FileSource, find_files, open_files
from spillway.reading.text import TextOptions, Utf8Stream, interruptible

from .conftest import compressed, encoded

if TYPE_CHECKING:
    from pathlib import Path

    from spillway.reading.files import RowStream

FORMS = ("csv", "ndjson")
BLOCK = 1_000


class Kept:
    """Weak references to the readers that were opened, and to the bytes that they read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._kept: list[weakref.ref[Any]] = []
        for module, name in ((pa.csv, "open_csv"), (pa.json, "open_json")):
            monkeypatch.setattr(module, name, self._noting(getattr(module, name)))
        monkeypatch.setattr(reading, "Utf8Stream", self._noting(Utf8Stream))

    def _noting(self, make: Any) -> Any:
        def made(*arguments: Any, **options: Any) -> Any:
            found = make(*arguments, **options)
            self._kept.append(weakref.ref(found))
            return found

        return made

    def count(self) -> int:
        """The number of those that are there still, of two or more."""
        assert len(self._kept) >= 2
        return sum(each() is not None for each in self._kept)


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Kept:
    """References to what is opened in a test."""
    return Kept(monkeypatch)


def first_of(stream: RowStream) -> pa.RecordBatch:
    return next(stream.batches)


def all_of(stream: RowStream) -> list[pa.RecordBatch]:
    return list(stream.batches)


def an_error_after_the_first(stream: RowStream) -> None:
    next(stream.batches)
    raise FileNotFoundError("of the consumer")


@pytest.mark.parametrize("use", [first_of, all_of, an_error_after_the_first])
@pytest.mark.parametrize("block", [None, BLOCK])
@pytest.mark.parametrize("form", FORMS)
def test_nothing_is_kept_after_the_block(
    tmp_path: Path, kept: Kept, form: str, block: int | None, use: Any
) -> None:
    (tmp_path / f"rows.{form}.gz").write_bytes(compressed(encoded(form), "gzip"))
    with suppress(FileNotFoundError), open_rows(tmp_path / f"rows.{form}.gz", block_bytes=block) as stream:
        use(stream)
    assert kept.count() == 0


def test_batches_of_a_text_that_is_closed_are_not_taken_for_its_end(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_bytes(encoded("csv"))
    with open_rows(tmp_path / "rows.csv", block_bytes=BLOCK) as rows:
        next(rows.batches)
    with pytest.raises(ValueError, match="closed"):
        next(rows.batches)


@pytest.mark.parametrize("form", FORMS)
def test_nothing_is_kept_while_an_error_of_the_text_is_handled(tmp_path: Path, kept: Kept, form: str) -> None:
    (tmp_path / f"rows.{form}").write_bytes(encoded(form) + b'"a", "b"}, "c"\n')
    with (
        pytest.raises(CorruptFileError) as caught,
        open_rows(tmp_path / f"rows.{form}", block_bytes=BLOCK) as rows,
    ):
        list(rows.batches)
    assert caught.tb is not None
    assert kept.count() == 0


@pytest.mark.parametrize("form", FORMS)
def test_nothing_is_kept_of_several_files_of_which_one_is_being_read(
    tmp_path: Path, kept: Kept, form: str
) -> None:
    for name in "ab":
        (tmp_path / f"{name}.{form}").write_bytes(encoded(form))
    source = FileSource(str(tmp_path))
    with open_files(source, find_files(source), block_bytes=BLOCK) as rows:
        next(rows.batches)
        assert kept.count() == 2
    assert kept.count() == 0


@pytest.mark.parametrize("form", FORMS)
def test_a_pipe_that_stays_open_is_not_waited_for(kept: Kept, form: str) -> None:
    reading_end, writing_end = os.pipe()
    with os.fdopen(reading_end, "rb") as file, os.fdopen(writing_end, "wb", buffering=0) as filling:
        filling.write(encoded(form))
        with interruptible(file) as source:
            pipe = open_pipe(source, "a pipe", TextOptions())
            with pipe.rows(TextOptions(), block_bytes=BLOCK) as rows:
                assert first_of(rows).num_rows > 0
            # A thread of Arrow's may still be in the call that has just ended.
            deadline = time.monotonic() + 10
            while kept.count() and time.monotonic() < deadline:
                time.sleep(0.01)
            assert kept.count() == 0
