"""A reader beside retention, trimming and collecting: what moves meanwhile is neither called damaged nor left out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import pytest

from penstock.log import LogLake, Reader
from penstock.log.errors import DataDamaged, OffsetOutOfRange
from penstock.log.runtime.runtime import Runtime
from penstock.log.stores.protocol import ObjectStore, Put
from penstock.log.stores.wrapper import StoreCall, StoreWrapper
from penstock.log.table.delta.actions import CommitContent
from penstock.log.table.delta.delta_log import DeltaLog
from penstock.log.table.publisher import Publisher
from penstock.log.table.retention import RetentionPolicy, retain_once
from penstock.log.topic.settings import encode_record
from tests.log.table.readers import queue_rows, snapshot_of
from tests.log.table.segment_files import write_segment
from tests.log.table.upkeep import publish, trim, trimmed
from tests.log.topics import HandClock, LogWriter

T = TypeVar("T")


class Meanwhile(StoreWrapper):
    """Lets something happen, once, before the first call that ``when`` chooses."""

    def __init__(self, inner: ObjectStore, when: Callable[[StoreCall], bool], then: Callable[[], Awaitable[None]]) -> None:
        super().__init__(inner)
        self._when = when
        self._then: Callable[[], Awaitable[None]] | None = then

    async def _around(self, call: StoreCall, run: Callable[[], Awaitable[T]]) -> T:
        if self._then is not None and self._when(call):
            then, self._then = self._then, None
            await then()
        return await run()

    @property
    def happened(self) -> bool:
        return self._then is None


async def topic(*, queues: int = 2) -> LogWriter:
    log = await LogWriter(queues=queues).create()
    await log.store.put(log.paths.settings, encode_record(log.record), mode=Put.CREATE)
    return log


def lake_of(log: LogWriter, store: ObjectStore | None = None) -> LogLake:
    return LogLake(store or log.store, runtime=log.runtime, read_only=True)


async def offsets(reader: Reader, **where: object) -> list[int]:
    return [message.offset async for message in reader.messages(**where)]  # type: ignore[arg-type]


async def aging_topic() -> LogWriter:
    """Three table files in queue 0, ten hours apart."""
    log = await topic()
    for _ in range(3):
        await log.send({0: 2})
        await publish(log)
        log.clock.advance(hours=10)
    return log


async def retain(log: LogWriter) -> int:
    """Let the oldest two messages go."""
    delta = DeltaLog(log.store, log.paths, "table", log.runtime)
    return await retain_once(log.store, delta, log.runtime, RetentionPolicy(timedelta(hours=25), None))


async def test_what_expires_while_the_table_is_read_is_still_read() -> None:
    log = await aging_topic()

    async def expire() -> None:
        assert await retain(log) == 2

    store = Meanwhile(log.store, lambda call: "queue=0/" in call.key, expire)
    async with lake_of(log, store) as lake:
        assert await offsets(await lake.reader("orders"), queue=0) == [0, 1, 2, 3, 4, 5]
    assert store.happened


@pytest.mark.parametrize(("start", "expected"), [("earliest", [2, 3, 4, 5, 6]), (0, None), ("time", [2, 3, 4, 5, 6])])
async def test_what_expires_before_a_trimmed_reader_comes_to_it_is_out_of_range_and_not_damaged(
    start: object, expected: object
) -> None:
    """Everything is in the log when the reader begins, and published, trimmed and expired when it reads the first entry."""
    log = await topic()
    begin = datetime.fromtimestamp(log.clock.wall_ms() / 1000, UTC)
    for _ in range(3):
        await log.send({0: 2})
        log.clock.advance(hours=10)
    for _ in range(62):
        await log.send({1: 1})
    async with lake_of(log) as lake:
        await lake.topic("orders")
        await log.send({0: 1})
        reader = await lake.reader("orders")
        topic_ = await lake.topic("orders")
        topic_.tail.cache.clear()
        real = topic_.tail.catch_up

        async def then_trimmed() -> None:
            await real()
            topic_.tail.catch_up = real  # type: ignore[method-assign]
            # Retention spares what was published a moment ago, so it is published by a clock that stands where the rows began.
            of_old = Runtime(clock=HandClock(), threads=False)
            publisher = Publisher(log.store, log.paths, log.record, of_old, commit_bytes=1)
            for _ in range(4):
                await publisher.publish_once()
            await trimmed(log)
            assert await retain(log) == 2
            topic_.tail.cache.clear()

        topic_.tail.catch_up = then_trimmed  # type: ignore[method-assign]
        where = begin if start == "time" else start
        if expected is None:
            with pytest.raises(OffsetOutOfRange, match=r"the earliest kept is 2.*offset 0"):
                await offsets(reader, queue=0, start=where)
        else:
            assert await offsets(reader, queue=0, start=where) == expected


@pytest.mark.parametrize("what", ["lookup", "time", "read"])
async def test_a_reader_that_the_trimmer_overtakes_begins_again(what: str) -> None:
    log = await topic(queues=4)
    for _ in range(60):
        await log.send({0: 1})
    await publish(log)
    for _ in range(10):
        await log.send({0: 1})
    now = datetime.fromtimestamp(log.clock.wall_ms() / 1000, UTC)

    async def overtake() -> None:
        await publish(log)
        await trim(log)

    # The table was looked at; the floor is what the reader's view asks for next.
    seen: list[str] = []

    def after_the_table(call: StoreCall) -> bool:
        seen.append(call.key)
        return call.key == log.paths.floor and any("_delta_log" in key for key in seen)

    store = Meanwhile(log.store, after_the_table, overtake)
    async with lake_of(log, store) as lake:
        reader = await lake.reader("orders")
        if what == "lookup":
            (found,) = await reader.lookup(message_id=f"{65:032x}")
            assert found.offset == 65
        elif what == "time":
            assert await offsets(reader, queue=0, start=now) == [69]
        else:
            assert await offsets(reader, queue=0) == list(range(70))
    assert store.happened


def test_a_lost_table_behind_a_raised_floor_is_damage_and_no_loop() -> None:
    async def main() -> None:
        log = await topic(queues=4)
        for _ in range(70):
            await log.send({0: 1})
        await trimmed(log)
        for info in await log.store.list(log.paths.table("table")):
            await log.store.delete(info.key)
        async with lake_of(log) as lake:
            reader = await lake.reader("orders")
            for use in (lambda: offsets(reader, queue=0), lambda: reader.lookup(key="none")):
                with pytest.raises(DataDamaged, match=r"the log is trimmed further than the table reaches.*64"):
                    await use()

    asyncio.run(asyncio.wait_for(main(), 20))


@pytest.mark.parametrize("damaged", ["raise", "skip"])
async def test_staged_rows_collected_behind_a_paused_reader_come_from_the_table(damaged: str) -> None:
    """It holds the entry that links them; when it goes on, the log is trimmed and they are gone."""
    log = await topic()
    await log.send({0: 1})
    await log.send({0: 3}, staged=True)
    for _ in range(70):
        await log.send({0: 1})
    async with lake_of(log) as lake:
        messages = (await lake.reader("orders")).messages(queue=0, damaged=damaged)  # type: ignore[arg-type]
        assert (await anext(messages)).offset == 0
        await trimmed(log)
        for info in await log.store.list(log.paths.jobs):
            await log.store.delete(info.key)
        assert [message.offset async for message in messages] == list(range(1, 74))


async def test_staged_objects_of_published_entries_are_not_fetched() -> None:
    log = await topic()
    for _ in range(3):
        await log.send({0: 50}, staged=True)
    await publish(log)
    await log.send({0: 1})
    jobs = {info.key for info in await log.store.list(log.paths.jobs)}
    read: list[str] = []

    def note(call: StoreCall) -> bool:
        read.append(call.key)
        return False

    async with lake_of(log, Meanwhile(log.store, note, asyncio.Event().wait)) as lake:  # type: ignore[arg-type]
        reader = await lake.reader("orders")
        assert await offsets(reader, start=150, queue=0) == [150]
        assert await reader.lookup(message_id="f" * 32) == []
        assert await offsets(reader, queue=0, start=datetime.fromtimestamp(log.clock.wall_ms() / 1000, UTC)) == [150]
    assert jobs
    assert not jobs & set(read)


async def test_files_collected_behind_a_reader_that_paused_for_days_are_read_in_their_new_place() -> None:
    """It holds a snapshot whose files were compacted, and then deleted as the protocol allows."""
    log = await topic()
    for _ in range(12):
        await log.send({0: 2})
        await publish(log)
    async with lake_of(log) as lake:
        messages = (await lake.reader("orders")).messages(queue=0)
        assert (await anext(messages)).offset == 0
        old = (await snapshot_of(log)).files[0]
        await compact_queue(log, 0)
        for file in old:
            await log.store.delete(log.paths.table("table") + file.path)
        assert [message.offset async for message in messages] == list(range(1, 24))


async def compact_queue(log: LogWriter, queue: int) -> None:
    """All files of a queue into one."""
    delta = DeltaLog(log.store, log.paths, "table", log.runtime)
    snapshot = await delta.refresh()
    file, data = write_segment(await queue_rows(log, queue), "compacted")
    await log.store.put_large(delta.root + file.path, data)
    commit = CommitContent("OPTIMIZE", adds=(file,), removes=tuple(snapshot.files[queue]), data_change=False)
    assert await delta.commit(commit, on=snapshot, started_s=delta.now_s)


@pytest.mark.parametrize(("silence_days", "entries"), [(0.9, 1), (2.5, 3), (6.5, 7)])
async def test_store_times_make_up_for_a_silence_by_a_day_with_an_entry_and_reading_by_time_follows_them(
    silence_days: float, entries: int
) -> None:
    log = await topic()
    await log.send({0: 1})
    log.clock.advance(hours=24 * silence_days)
    an_hour_ago = datetime.fromtimestamp(log.clock.wall_ms() / 1000, UTC) - timedelta(hours=1)
    for _ in range(entries):
        await log.send({0: 1})
    async with lake_of(log) as lake:
        assert await offsets(await lake.reader("orders"), queue=0, start=an_hour_ago) == [entries]
