"""Reading where something is lost: what is whole is handed out, the rest is named, and nothing waits for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, TypeVar

import pyarrow as pa
import pytest

from penstock.log import LogLake, MessageView
from penstock.log.errors import DataDamaged
from penstock.log.read.reader import SkippedRange, not_seen
from penstock.log.repair import repair
from penstock.log.stores.protocol import Put
from penstock.log.stores.wrapper import StoreCall, StoreWrapper
from penstock.log.table.delta.actions import CommitContent
from penstock.log.table.delta.delta_log import DeltaLog
from penstock.log.table.publisher import Publisher
from penstock.log.topic.settings import encode_record
from tests.log.table.readers import queue_rows, snapshot_of
from tests.log.table.segment_files import write_segment
from tests.log.topics import LogWriter

T = TypeVar("T")


async def topic(*, staged_at: int | None = None, entries: int = 6) -> LogWriter:
    """Every entry brings two messages to queue 0 and one to queue 1."""
    log = await LogWriter(queues=2).create()
    await log.store.put(log.paths.settings, encode_record(log.record), mode=Put.CREATE)
    for number in range(entries):
        await log.send({0: 2, 1: 1}, staged=number == staged_at)
    return log


async def staged_object(log: LogWriter) -> str:
    (info,) = await log.store.list(log.paths.jobs)
    return info.key


async def read(log: LogWriter, queue: int, *, damaged: str = "raise") -> tuple[list[MessageView], DataDamaged | None]:
    """What reading hands out, and how it ends."""
    found: list[MessageView] = []
    async with LogLake(log.store, runtime=log.runtime, read_only=True) as lake:
        reader = await lake.reader("orders")
        try:
            async for message in reader.messages(queue=queue, damaged=damaged):  # type: ignore[arg-type]
                found.append(message)  # noqa: PERF401 - what came before the error counts
        except DataDamaged as error:
            return found, error
        if damaged == "skip":  # what is not there is told, all of it and nothing else
            earliest, following = (await reader.offsets())[queue]
            spans = [(one.first_offset, one.limit_offset) for one in reader.left_out]
            spans = sorted([*spans, *((message.offset, message.offset + 1) for message in found)])
            edges = [earliest, *(edge for span in spans for edge in span), following]
            assert edges[::2] == edges[1::2]
            assert {one.queue for one in reader.left_out} <= {queue}
    return found, None


@pytest.mark.parametrize("published", [False, True])
async def test_a_lost_staged_object_costs_its_own_rows_and_is_named(published: bool) -> None:
    log = await topic(staged_at=3)
    await log.store.delete(await staged_object(log))
    if published:
        await Publisher(log.store, log.paths, log.record, log.runtime).publish_once()

    before, error = await read(log, 0)
    assert [message.offset for message in before] == [0, 1, 2, 3, 4, 5]
    assert "offsets 6 to 7 of queue 0" in str(error)
    assert "start at 8" in str(error)

    around, error = await read(log, 0, damaged="skip")
    assert error is None
    assert [message.offset for message in around] == [0, 1, 2, 3, 4, 5, 8, 9, 10, 11]
    assert [message.body for message in around] == [log.sent[0, message.offset] for message in around]


async def test_rows_that_the_table_lacks_without_saying_so_are_noticed() -> None:
    log = await topic()
    await Publisher(log.store, log.paths, log.record, log.runtime).publish_once()
    (first, *_) = [info.key for info in await log.store.list(log.paths.table("table")) if "queue=0/" in info.key]
    await log.store.put(first, (await log.store.get(first)).data[:-100], mode=Put.REPLACE)
    found, error = await read(log, 0)
    assert found == []
    assert first in str(error)
    assert [message.offset for message in (await read(log, 1))[0]] == list(range(6)), "the other queue is not touched"


@pytest.mark.parametrize("missing", [2, 4, 7])
async def test_a_reader_that_stands_before_a_missing_entry_says_so_instead_of_waiting(missing: int) -> None:
    """Entry 7 is the last one: only this process's memory tells that it was there."""
    log = await topic()
    async with LogLake(Patience(log.store), runtime=log.runtime, read_only=True) as lake:
        await lake.topic("orders")  # this process has folded past the entry before somebody deletes it
        reader = await lake.reader("orders")
        (await lake.topic("orders")).tail.cache.clear()
        await log.store.delete(log.paths.entry(missing))
        with pytest.raises(DataDamaged, match="missing") as caught:
            _ = [message async for message in reader.messages(queue=0)]
        assert log.paths.entry(missing) in str(caught.value)


class Patience(StoreWrapper):
    """Ends a test that asks for ever without waiting for anything, which no time-out of asyncio's does."""

    calls = 0

    async def _around(self, call: StoreCall, run: Callable[[], Awaitable[T]]) -> T:
        self.calls += 1
        if self.calls > 2000:
            pytest.fail(f"it asks for ever, at last for {call.key}")
        return await run()


async def break_byte(log: LogWriter, entry: int, at: int) -> None:
    data = bytearray((await log.store.get(log.paths.entry(entry))).data)
    data[at] ^= 1
    await log.store.put(log.paths.entry(entry), bytes(data), mode=Put.REPLACE)


@pytest.mark.parametrize("at", [10, -100], ids=["rows", "footer"])
@pytest.mark.parametrize("published", [False, True])
async def test_rows_lost_at_the_end_of_a_queue_are_named(at: int, published: bool) -> None:
    log = await topic()
    await break_byte(log, 7, at)
    report = await repair(log.store, log.paths, log.runtime)
    assert report.exact == (at == 10)
    if published:
        await Publisher(log.store, log.paths, log.record, log.runtime).publish_once()
    found, error = await read(log, 0)
    assert [message.offset for message in found] == list(range(10))
    ends = {queue: limit for queue, _, limit in report.lost}
    assert f"offsets 10 to {ends[0] - 1} of queue 0 cannot be read" in str(error)
    around, error = await read(log, 0, damaged="skip")
    assert error is None
    assert [message.offset for message in around] == list(range(10))


def test_a_follower_is_told_of_rows_lost_at_the_end() -> None:
    async def main() -> None:
        log = await topic()
        await break_byte(log, 7, 10)
        await repair(log.store, log.paths, log.runtime)
        async with LogLake(log.store, runtime=log.runtime, read_only=True) as lake:
            reader = await lake.reader("orders")
            with pytest.raises(DataDamaged, match=rf"offsets 10 to 11 of queue 0 .*{log.paths.entry(7)}"):
                _ = [message async for message in reader.messages(queue=0, follow=True)]

    asyncio.run(asyncio.wait_for(main(), 20))


async def test_offsets_that_a_repair_leaves_out_are_named_by_the_entry_that_was_lost() -> None:
    """Also to whom the lost entry was read before it was lost, and who thus meets nothing unreadable: the repair itself is whole."""
    log = await topic()
    async with LogLake(log.store, runtime=log.runtime, read_only=True) as lake:
        reader = await lake.reader("orders")
        assert len([message async for message in reader.messages(queue=0)]) == 12
        await break_byte(log, 7, -100)
        assert (await repair(log.store, log.paths, log.runtime)).entry == 8
        with pytest.raises(DataDamaged, match=r"offsets 12 to .* of queue 0") as caught:
            _ = [message async for message in reader.messages(queue=0)]
        assert caught.value.object == log.paths.entry(7)


@pytest.mark.parametrize("published", [False, True])
async def test_a_damaged_entry_costs_its_own_rows_and_not_those_up_to_the_next_checkpoint(published: bool) -> None:
    log = await topic(entries=70)
    await break_byte(log, 40, -100)
    if published:
        await Publisher(log.store, log.paths, log.record, log.runtime).publish_once()
    before, error = await read(log, 0)
    assert [message.offset for message in before] == list(range(76))
    assert "offsets 76 to 77 of queue 0 cannot be read" in str(error)
    around, _ = await read(log, 0, damaged="skip")
    assert [message.offset for message in around] == [*range(76), *range(78, 140)]
    assert [message.body for message in around] == [log.sent[0, message.offset] for message in around]


async def test_a_lost_range_behind_the_end_that_was_asked_for_is_none_of_the_readers_business() -> None:
    log = await topic(staged_at=3)
    await log.send({0: 2, 1: 1}, staged=True)
    for info in await log.store.list(log.paths.jobs):
        await log.store.delete(info.key)
    async with LogLake(log.store, runtime=log.runtime, read_only=True) as lake:
        reader = await lake.reader("orders")
        assert [one.offset async for one in reader.messages(queue=0, end=6)] == list(range(6))
        with pytest.raises(DataDamaged, match="offsets 6 to 7 of queue 0"):
            _ = [one async for one in reader.messages(queue=0, end=7)]


@pytest.mark.parametrize(
    ("rows", "said"), [((0, 1), None), ((2, 5), "offsets 2 to 4"), ((0, 4), "offsets 0 to 3"), ((9, 12), "9 to 11")]
)
async def test_rows_that_a_table_file_lacks_are_named_exactly(rows: tuple[int, int], said: str | None) -> None:
    """The file is replaced by one without them, as no compaction of ours would do."""
    log = await topic()
    await Publisher(log.store, log.paths, log.record, log.runtime).publish_once()
    if said is not None:
        await replace_rows(log, 0, lambda table: pa.concat_tables([table.slice(0, rows[0]), table.slice(rows[1])]))
    found, error = await read(log, 0)
    if said is None:
        assert error is None
        assert len(found) == 12
    else:
        assert [message.offset for message in found] == list(range(rows[0])), "what stands before the hole"
        assert said in str(error)
        around, error = await read(log, 0, damaged="skip")
        assert error is None
        assert [message.offset for message in around] == [*range(rows[0]), *range(rows[1], 12)]


async def replace_rows(log: LogWriter, queue: int, change: Callable[[pa.Table], pa.Table]) -> None:
    delta = DeltaLog(log.store, log.paths, "table", log.runtime)
    snapshot = await delta.refresh()
    file, data = write_segment(change(await queue_rows(log, queue)), "changed")
    await log.store.put_large(delta.root + file.path, data)
    commit = CommitContent("OPTIMIZE", adds=(file,), removes=tuple(snapshot.files[queue]), data_change=False)
    assert await delta.commit(commit, on=snapshot, started_s=delta.now_s)


async def test_a_queue_whose_table_files_are_all_gone_is_not_empty() -> None:
    log = await topic()
    await Publisher(log.store, log.paths, log.record, log.runtime).publish_once()
    await remove_files(log, 0)
    found, error = await read(log, 0)
    assert found == []
    assert "offsets 0 to 11 of queue 0 cannot be read any more: the table does not have all its rows" in str(error)
    assert len((await read(log, 1))[0]) == 6
    assert await read(log, 0, damaged="skip") == ([], None)


async def remove_files(log: LogWriter, queue: int) -> None:
    delta = DeltaLog(log.store, log.paths, "table", log.runtime)
    snapshot = await delta.refresh()
    commit = CommitContent("DELETE", removes=tuple(snapshot.files[queue]))
    assert await delta.commit(commit, on=snapshot, started_s=delta.now_s)


@pytest.mark.parametrize("broken", [0, 1, 2])
@pytest.mark.parametrize("how", ["missing", "cut off", "foreign", "rows"])
async def test_a_lost_table_file_costs_its_own_rows(broken: int, how: str) -> None:
    """Also where reading ahead meets it before the rows in front of it are handed out."""
    log = await topic(entries=0)
    for _ in range(3):
        await log.send({0: 2, 1: 1})
        await Publisher(log.store, log.paths, log.record, log.runtime).publish_once()
    snapshot = await snapshot_of(log)
    key = log.paths.table("table") + snapshot.files[0][broken].path
    data = (await log.store.get(key)).data
    if how == "missing":
        await log.store.delete(key)
    else:
        flipped = bytearray(data)
        for at in range(4, len(data) // 2):
            flipped[at] ^= 0x55
        changed = {"cut off": data[:-100], "foreign": b"x" * len(data), "rows": bytes(flipped)}[how]
        await log.store.put(key, changed, mode=Put.REPLACE)
    first, limit = 2 * broken, 2 * broken + 2
    found, error = await read(log, 0)
    assert [message.offset for message in found] == list(range(first))
    assert f"offsets {first} to {limit - 1} of queue 0 cannot be read any more" in str(error)
    assert key in str(error)
    around, error = await read(log, 0, damaged="skip")
    assert error is None
    assert [message.offset for message in around] == [*range(first), *range(limit, 6)]
    if how != "rows":
        async with LogLake(log.store, runtime=log.runtime, read_only=True) as lake:
            with pytest.raises(DataDamaged, match=key):
                await (await lake.reader("orders")).lookup(key="none")


@pytest.mark.parametrize(
    ("left_out", "unseen"),
    [
        ([], None),
        ([SkippedRange(0, 5, 9)], None),
        ([SkippedRange(0, 4, 9)], "offsets 4 to 8 of queue 0"),
        ([SkippedRange(0, 5, 10)], "offsets 9 to 9 of queue 0"),
        ([SkippedRange(0, 2, 3), SkippedRange(1, 5, 9)], "offsets 5 to 8 of queue 1"),
        ([SkippedRange(0, 12, 14), SkippedRange(0, 5, 7)], None),
    ],
)
def test_what_the_table_names_as_lost_is_not_looked_for_any_more(
    monkeypatch: pytest.MonkeyPatch, left_out: list[SkippedRange], unseen: str | None
) -> None:
    lost = {0: [(2, 3), (5, 9), (12, 20)], 1: []}
    found: Any = SimpleNamespace(snapshot=SimpleNamespace(lost=lost.__getitem__))
    monkeypatch.setattr("penstock.log.read.reader.table_of", lambda topic: found)
    asked: Any = SimpleNamespace(paths=SimpleNamespace(topic="orders"))
    error = not_seen(asked, left_out)
    assert (error is None) if unseen is None else unseen in str(error)
