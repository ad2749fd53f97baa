"""Writers for asyncio: the loop goes on, calls keep their order, and what is cancelled leaves nothing."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import spillway
import spillway.delta
from spillway.delta.append import Append

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

SCHEMA = pa.schema({"id": pa.int64()})
PATIENCE = 30


def batch(*ids: int) -> pa.Table:
    return pa.table({"id": ids}, schema=SCHEMA)


class Held:
    """Rows that do not come before they are released: the call that writes them stands still."""

    def __init__(self, *ids: int) -> None:
        self.begun, self.released = threading.Event(), threading.Event()
        self._ids = ids

    def __iter__(self) -> Iterator[dict[str, Any]]:
        self.begun.set()
        assert self.released.wait(PATIENCE)
        yield from ({"id": number} for number in self._ids)


async def until(event: threading.Event) -> None:
    """Let the loop turn until an event has come."""
    async with asyncio.timeout(PATIENCE):
        while not event.is_set():
            await asyncio.sleep(0.001)


class Place:
    """A file or a table, which rows are written to and read from."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder, self.kind = folder, kind
        if kind == "table":
            self.table = spillway.delta.create(folder / "rows", SCHEMA)

    def open(self) -> AbstractAsyncContextManager[Any]:
        if self.kind == "table":
            return self.table.append_async()
        return spillway.AsyncParquetWriter(self.folder / "rows.parquet", SCHEMA)

    def ids(self) -> list[int]:
        if self.kind == "table":
            return pa.table(self.table.scan())["id"].to_pylist()  # type: ignore[no-any-return]
        if not list(self.folder.iterdir()):
            return []
        return pq.read_table(self.folder / "rows.parquet")["id"].to_pylist()  # type: ignore[no-any-return]

    def is_clean(self) -> bool:
        """Return true if nothing is left of what was given up."""
        if self.kind == "table":
            named = {file.path for file in self.table.files()}
            return {path.name for path in (self.folder / "rows").glob("*.parquet")} == named
        return not list(self.folder.iterdir())


@pytest.fixture(params=["file", "table"])
def place(tmp_path: Path, request: pytest.FixtureRequest) -> Place:
    return Place(tmp_path, request.param)


def test_every_form_of_rows_is_written_and_appears_with_the_end_of_the_block(place: Place) -> None:
    async def run() -> None:
        async with place.open() as writer:
            await writer.write(batch(1, 2))
            assert await writer.write_rows([{"id": 3}, {"id": "x"}], on_error="skip") == 1
            assert await writer.write_ndjson(b'{"id": 4}\n{"id": 5, "more": 1}\n', extra="ignore") == 2
            assert not writer.closed
        assert writer.closed

    asyncio.run(run())
    assert place.ids() == [1, 2, 3, 4, 5]


def test_the_loop_turns_while_a_call_stands_still(place: Place) -> None:
    async def run() -> None:
        async with place.open() as writer:
            rows = Held(1)
            task = asyncio.create_task(writer.write_rows(rows))
            await until(rows.begun)
            for _ in range(100):
                await asyncio.sleep(0)
            assert not task.done()
            # Where the loop waited for the call, nobody would have come here.
            rows.released.set()
            assert await task == 1

    asyncio.run(run())
    assert place.ids() == [1]


def test_the_calls_of_many_tasks_keep_their_order(place: Place) -> None:
    async def run() -> None:
        async with place.open() as writer:
            first = Held(0)
            tasks = [asyncio.create_task(writer.write_rows(first))]
            await until(first.begun)
            tasks += [asyncio.create_task(writer.write(batch(number))) for number in range(1, 100)]
            await asyncio.sleep(0.01)
            assert not any(task.done() for task in tasks), "each waits until its rows are taken"
            first.released.set()
            await asyncio.gather(*tasks)

    asyncio.run(run())
    assert place.ids() == list(range(100))


def test_an_error_is_raised_where_it_was_made_and_the_writer_goes_on(place: Place) -> None:
    async def run() -> None:
        async with place.open() as writer:
            good, bad, later = await asyncio.gather(
                writer.write(batch(1)),
                writer.write_rows([{"id": "no number"}]),
                writer.write(batch(2)),
                return_exceptions=True,
            )
            assert (good, later) == (None, None)
            assert isinstance(bad, spillway.RowError)

    asyncio.run(run())
    assert place.ids() == [1, 2]


def test_a_block_that_raises_leaves_nothing(place: Place) -> None:
    async def run() -> None:
        with pytest.raises(LookupError):  # noqa: PT012 - the block raises
            async with place.open() as writer:
                await writer.write(batch(1))
                raise LookupError

    asyncio.run(run())
    assert place.is_clean()
    assert place.ids() == []


def test_a_cancelled_task_leaves_nothing_and_waits_for_its_call(place: Place) -> None:
    async def run() -> None:
        rows = Held(1)

        async def write() -> None:
            async with place.open() as writer:
                await writer.write(batch(0))
                await writer.write_rows(rows)

        task = asyncio.create_task(write())
        await until(rows.begun)
        task.cancel()
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.sleep(0.01)
        assert not task.done()
        rows.released.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert place.is_clean()
    assert place.ids() == []


def test_a_call_that_is_cancelled_before_its_turn_is_left_out(place: Place) -> None:
    async def run() -> None:
        async with place.open() as writer:
            first = Held(1)
            held = asyncio.create_task(writer.write_rows(first))
            await until(first.begun)
            waiting, other = (asyncio.create_task(writer.write(batch(number))) for number in (2, 3))
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            first.released.set()
            await asyncio.gather(held, other)

    asyncio.run(run())
    assert place.ids() == [1, 3]


def test_a_writer_is_aborted_in_its_block(place: Place) -> None:
    async def run() -> None:
        async with place.open() as writer:
            await writer.write(batch(1))
            await writer.abort()
            with pytest.raises(spillway.ClosedError):
                await writer.write(batch(2))

    asyncio.run(run())
    assert place.is_clean()


def test_a_writer_is_entered_first(place: Place) -> None:
    with pytest.raises(ValueError, match="async with"):
        asyncio.run(place.open().write(batch(1)))  # type: ignore[attr-defined]
    assert place.is_clean()


def test_a_writer_is_entered_once(place: Place) -> None:
    async def run() -> None:
        writer = place.open()
        async with writer:
            await writer.write(batch(1))  # type: ignore[attr-defined]
        with pytest.raises(spillway.ClosedError, match="create another"):
            async with writer:
                pass

    asyncio.run(run())
    assert place.ids() == [1]


def test_of_two_tasks_that_enter_at_once_one_opens_the_writer(place: Place) -> None:
    async def run() -> None:
        writer = place.open()

        async def write(number: int) -> None:
            async with writer:
                await writer.write(batch(number))  # type: ignore[attr-defined]

        outcomes = await asyncio.gather(write(1), write(2), return_exceptions=True)
        assert [type(each) for each in outcomes] == [type(None), spillway.ClosedError]

    asyncio.run(run())
    assert place.ids() == [1]
    assert place.is_clean() or place.kind == "file"


def test_a_writer_that_could_not_be_opened_is_entered_again(tmp_path: Path) -> None:
    writer = spillway.AsyncParquetWriter(tmp_path / "later" / "rows.parquet", SCHEMA)

    async def enter() -> None:
        async with writer:
            await writer.write(batch(1))

    with pytest.raises(FileNotFoundError):
        asyncio.run(enter())
    (tmp_path / "later").mkdir()
    asyncio.run(enter())
    assert pq.read_table(tmp_path / "later" / "rows.parquet")["id"].to_pylist() == [1]


def test_a_writer_takes_calls_in_the_loop_that_entered_it(place: Place) -> None:
    def elsewhere(writer: Any) -> None:
        with pytest.raises(RuntimeError, match="event loop"):
            asyncio.run(writer.write(batch(2)))

    async def run() -> None:
        async with place.open() as writer:
            await writer.write(batch(1))
            await asyncio.to_thread(elsewhere, writer)
            await writer.write(batch(3))

    asyncio.run(run())
    assert place.ids() == [1, 3]


def test_the_loop_never_waits_for_an_append_that_is_asked_whether_it_repeats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = spillway.delta.create(tmp_path / "rows", SCHEMA)
    asked = set()

    class Watched(Append):
        @property
        def repeated(self) -> bool:
            asked.add(threading.current_thread())  # which waits for a call that writes
            return super().repeated

    monkeypatch.setattr("spillway.delta.table.Append", Watched)

    async def run() -> None:
        append = table.append_async(app_id="job", app_version=1)
        with pytest.raises(ValueError, match="async with"):
            _ = append.repeated
        async with append:
            await append.write(batch(1))
            assert not append.repeated
        assert not append.repeated

    asyncio.run(run())
    assert asked
    assert threading.current_thread() not in asked


def test_what_cannot_be_opened_is_raised_where_the_block_is_entered(tmp_path: Path) -> None:
    with pytest.raises(spillway.OptionError):
        spillway.AsyncParquetWriter(tmp_path / "rows.parquet", page_bytes=0)
    writer = spillway.AsyncParquetWriter(tmp_path / "nowhere" / "rows.parquet")

    async def enter() -> None:
        async with writer:
            raise AssertionError

    with pytest.raises(FileNotFoundError):
        asyncio.run(enter())


class Opening:
    """A destination that is not opened before it is released."""

    def __init__(self, path: Path) -> None:
        self.path, self.rows = path, Held()

    def __fspath__(self) -> str:
        list(self.rows)
        return str(self.path)


def test_a_task_that_is_cancelled_while_it_opens_leaves_nothing(tmp_path: Path) -> None:
    destination = Opening(tmp_path / "rows.parquet")

    async def run() -> None:
        async def write() -> None:
            async with spillway.AsyncParquetWriter(destination, SCHEMA):
                raise AssertionError

        task = asyncio.create_task(write())
        await until(destination.rows.begun)
        task.cancel()
        destination.rows.released.set()
        with pytest.raises(asyncio.CancelledError) as raised:
            await task
        assert raised.value is not None
        assert list(tmp_path.iterdir()) == []

    asyncio.run(run())


class Completed:
    """A file object whose last bytes wait: the task is cancelled while its file is completed."""

    def __init__(self) -> None:
        self.written, self.rows = b"", Held()

    def write(self, data: bytes) -> int:
        if data.endswith(b"PAR1") and self.written:
            list(self.rows)
        self.written += data
        return len(data)


def test_a_task_that_is_cancelled_too_late_says_that_the_file_is_there() -> None:
    file = Completed()

    async def run() -> asyncio.CancelledError:
        async def write() -> None:
            async with spillway.AsyncParquetWriter(file, SCHEMA) as writer:
                await writer.write(batch(1, 2))

        task = asyncio.create_task(write())
        await until(file.rows.begun)
        task.cancel()
        file.rows.released.set()
        with pytest.raises(asyncio.CancelledError) as raised:
            await task
        return raised.value

    assert "already complete, with 2 rows" in asyncio.run(run()).__notes__[0]
    assert pq.read_table(pa.BufferReader(file.written)).num_rows == 2


def test_metadata_flushes_and_results_are_those_of_the_writer(tmp_path: Path) -> None:
    async def run() -> spillway.WriteResult:
        async with spillway.AsyncParquetWriter(tmp_path / "rows.parquet", compression="snappy") as writer:
            await writer.write(batch(1))
            await writer.flush()
            assert writer.bytes_written > 0
            await writer.add_metadata({"origin": "here"})
            await writer.write(batch(2))
            with pytest.raises(ValueError, match="still open"):
                _ = writer.result
            await writer.close()
            await writer.close()
            assert writer.options.compression == "snappy"
        return writer.result

    result = asyncio.run(run())
    assert (result.rows, result.row_groups, result.columns[0].compression) == (2, 2, "SNAPPY")
    assert pq.read_metadata(tmp_path / "rows.parquet").metadata[b"origin"] == b"here"


def test_calls_see_the_context_of_their_task(tmp_path: Path) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="none")
    seen: list[tuple[str, bool]] = []

    async def run() -> None:
        variable.set("mine")
        main = threading.get_ident()
        async with spillway.AsyncParquetWriter(tmp_path / "rows.parquet", SCHEMA) as writer:
            note = lambda _: seen.append((variable.get(), threading.get_ident() == main))  # noqa: E731
            await writer.write_rows([{"id": "x"}], on_error=note)

    asyncio.run(run())
    assert seen == [("mine", False)]


def test_the_rows_of_a_file_are_the_same_as_without_asyncio(tmp_path: Path) -> None:
    async def parts() -> AsyncIterator[pa.Table]:
        for start in range(0, 1000, 100):
            yield batch(*range(start, start + 100))

    async def run() -> None:
        async with spillway.AsyncParquetWriter(tmp_path / "async.parquet", SCHEMA) as writer:
            async for part in parts():
                await writer.write(part)

    asyncio.run(run())
    spillway.write_parquet(batch(*range(1000)), tmp_path / "sync.parquet")
    assert (tmp_path / "async.parquet").read_bytes() == (tmp_path / "sync.parquet").read_bytes()


def test_an_append_commits_once_and_tells_its_version(tmp_path: Path) -> None:
    table = spillway.delta.create(tmp_path / "rows", SCHEMA)

    async def run() -> None:
        async with table.append_async(app_id="job", app_version=1) as append:
            await append.write(batch(1))
            assert (append.version, append.token, append.repeated) == (None, None, False)
            assert await append.commit() == 1
        assert append.version == 1
        async with table.append_async(app_id="job", app_version=1) as again:
            await again.write(batch(1))
            assert again.repeated
        assert again.version == 1
        with pytest.raises(spillway.UnknownOptionError):
            async with table.append_async(colour=1):  # type: ignore[call-arg]
                pass

    asyncio.run(run())
    assert table.version == 1


def test_an_iterator_that_ends_in_a_callback_is_an_error_and_no_end(tmp_path: Path) -> None:
    """A future takes no StopIteration: the writer would wait for ever, and not be cancelled."""

    class Chunks:
        def read(self, _: int = -1) -> bytes:
            return next(iter(()))

    async def write() -> None:
        async with spillway.AsyncParquetWriter(tmp_path / "f.parquet", SCHEMA) as writer:
            await writer.write_ndjson(Chunks())

    async def within_patience() -> None:
        async with asyncio.timeout(PATIENCE):
            await write()

    with pytest.raises(RuntimeError, match="a callback raised StopIteration"):
        asyncio.run(within_patience())
    assert list(tmp_path.iterdir()) == []
