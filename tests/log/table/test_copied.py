"""Before trimming, what this process published is compared by the hashes it kept, and everything else by reading the log again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeVar

import pyarrow as pa
import pytest

from penstock.log.errors import DataDamaged
from penstock.log.format.state import TopicState
from penstock.log.stores.protocol import Put
from penstock.log.stores.wrapper import StoreCall, StoreWrapper
from penstock.log.table.compactor import Compactor
from penstock.log.table.comparison.copies import Copies
from penstock.log.table.comparison.full import Comparer
from penstock.log.table.delta.actions import CommitContent
from penstock.log.table.delta.delta_log import DeltaLog
from penstock.log.table.publisher import Publisher
from penstock.log.table.retention import RetentionPolicy, retain_once
from penstock.log.tail import view
from tests.log.table.readers import queue_rows, snapshot_of
from tests.log.table.segment_files import write_segment
from tests.log.topics import LogWriter

T = TypeVar("T")


class Watching(StoreWrapper):
    """Notes which entries and table files are read."""

    def __init__(self, log: LogWriter) -> None:
        super().__init__(log.store)
        self._log = log
        self.entries: list[int] = []
        self.files: set[str] = set()

    async def _around(self, call: StoreCall, run: Callable[[], Awaitable[T]]) -> T:
        if call.verb in {"get", "get_range"}:
            number = self._log.paths.entry_number(call.key)
            self.entries += [] if number is None else [number]
            self.files |= {call.key} if "/table/queue=" in call.key else set()
        return await run()


class Topic:
    """A topic in memory with a publisher and a comparer that share what was copied."""

    def __init__(self, log: LogWriter) -> None:
        self.log = log
        self.copies = Copies()
        self.publisher = Publisher(log.store, log.paths, log.record, log.runtime, copies=self.copies)
        self.store = Watching(log)
        self.comparer = Comparer(self.store, log.paths, log.runtime, copies=self.copies)
        self.delta = DeltaLog(log.store, log.paths, log.record.table, log.runtime)

    @classmethod
    async def create(cls) -> Topic:
        return cls(await LogWriter().create())

    async def send(self, entries: int, publisher: Publisher | None = None) -> None:
        """Append so many entries, and publish after each tenth."""
        for n in range(entries):
            await self.log.send({n % 4: 2, 0: 1}, staged=n % 7 == 3)
            if n % 10 == 9:
                await (publisher or self.publisher).publish_once()

    async def compare(self, floor: int = 0) -> None:
        """All there is; afterwards everything published is known to be equal."""
        snapshot = await self.delta.refresh()
        while await self.comparer.compare_once(snapshot, floor):
            pass
        assert self.comparer.compared == snapshot.published

    async def forge(self, queue: int) -> None:
        """Put another file into the table in the place of one, as well-formed, whose bodies are not the log's."""
        snapshot = await self.delta.refresh()
        file = snapshot.files[queue][1]
        rows = await queue_rows(self.log, queue, file.first_offset, file.limit_offset)
        bodies = pa.array([b"forged"] * rows.num_rows, pa.binary())
        forged, data = write_segment(rows.set_column(rows.column_names.index("body"), "body", bodies), "forged")
        await self.log.store.put(self.delta.root + forged.path, data, mode=Put.CREATE)
        await self.delta.commit(
            CommitContent("OPTIMIZE", adds=(forged,), removes=(file,), data_change=False), on=snapshot, started_s=self.delta.now_s
        )


@pytest.mark.parametrize("merged", [False, True])
async def test_what_this_process_published_is_compared_without_reading_the_log(merged: bool) -> None:
    topic = await Topic.create()
    await topic.send(150)
    if merged:
        assert (await Compactor(topic.log.store, topic.delta, topic.log.runtime, fan_in=3).compact_once()).files > 0
    await topic.compare()
    assert topic.store.entries == []
    assert topic.store.files == {topic.delta.root + path for path in topic.delta.snapshot.paths}
    assert topic.comparer.whole
    reading = Comparer(topic.log.store, topic.log.paths, topic.log.runtime)
    while await reading.compare_once(topic.delta.snapshot, 0):
        pass
    assert topic.comparer.checkpoint_states == reading.checkpoint_states
    assert list(reading.checkpoint_states) == [64, 128]


async def test_what_others_published_is_read_and_the_rest_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "_PREFETCH_ENTRIES", 1)
    topic = await Topic.create()
    log = topic.log
    await topic.send(70, Publisher(log.store, log.paths, log.record, log.runtime))  # before this process began
    await topic.send(100)
    await topic.send(10, Publisher(log.store, log.paths, log.record, log.runtime))  # while it was paused
    await topic.send(40)
    await topic.compare()
    # From 71 on it takes over what it copied up to 171, and goes on from the checkpoint before that.
    assert set(range(2, 222)) - set(topic.store.entries) == {*range(72, 129), *range(182, 222)}
    await topic.send(10)
    topic.store.entries.clear()
    await topic.compare()
    assert topic.store.entries == []


@pytest.mark.parametrize("merged", [False, True])
async def test_a_table_that_differs_is_found_out_and_judged_by_the_log_the_next_time(merged: bool) -> None:
    topic = await Topic.create()
    await topic.send(50)
    await topic.forge(2)
    if merged:
        await Compactor(topic.log.store, topic.delta, topic.log.runtime, fan_in=3).compact_once()
    for _ in range(2):
        with pytest.raises(DataDamaged, match="log and table differ"):
            await topic.compare()
    assert topic.store.entries != []
    assert topic.comparer.compared <= 0


async def test_a_file_that_a_stranger_took_out_is_missed() -> None:
    topic = await Topic.create()
    await topic.send(50)
    snapshot = await topic.delta.refresh()
    await topic.delta.commit(CommitContent("DELETE", removes=(snapshot.files[2][-1],)), on=snapshot, started_s=topic.delta.now_s)
    with pytest.raises(DataDamaged, match="log and table differ"):
        await topic.compare()


async def test_what_retention_took_is_excepted() -> None:
    topic = await Topic.create()
    await topic.send(50)
    topic.log.clock.advance(hours=80)
    await topic.send(20)
    await retain_once(topic.log.store, topic.delta, topic.log.runtime, RetentionPolicy(timedelta(days=3), None))
    assert (await snapshot_of(topic.log)).start(0) > 0
    await topic.compare()
    assert topic.store.entries == []


async def test_copies_are_bounded_and_go_below_the_floor() -> None:
    topic = await Topic.create()
    await topic.send(150)
    before = topic.copies.behind(0, TopicState().digest, 151)
    assert [(copied.start, copied.end) for copied in before][:2] == [(0, 11), (11, 21)]
    await topic.compare(floor=64)
    assert topic.copies.next_start(0, 151) == 61
    small = Copies(files_max=10)
    for copied in before:
        small.note(TopicState(entry=copied.start), [TopicState(entry=copied.end)], copied.files)
    assert small.next_start(0, 151) == 131
