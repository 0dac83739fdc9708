"""A feed that starts far behind: from the table, through the log, to the tail; an entry is decoded once for all queues."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection, Sequence
from typing import Any

import pyarrow as pa
import pytest

from penstock.consumers.feed import window
from penstock.log.errors import DataDamaged, OffsetOutOfRange, StoreUnavailable
from penstock.log.format.fold import FoldedEntry
from penstock.log.paths import TopicPaths
from penstock.log.repair import repair
from penstock.log.stores.protocol import Put, StoredObject
from penstock.log.stores.wrapper import StoreWrapper
from penstock.log.tail import entry_rows
from tests.consumers.feeds import Opened, opened, topic_log
from tests.log.table.upkeep import publish, trimmed
from tests.log.test_reader_races import retain
from tests.thorough import thoroughly

QUEUES = 4


async def take_by_turns(it: Opened, seed: int = 1, **limits: int) -> list[int]:
    """Every queue from its beginning, in random turns, until none has anything more."""
    rng = random.Random(seed)
    reached, left = [0] * QUEUES, set(range(QUEUES))
    while left:
        queue = rng.choice(sorted(left))
        bodies = await it.take(queue, reached[queue], **{"rows_max": rng.choice([1, 7, 50]), **limits})
        reached[queue] += len(bodies)
        if not bodies:
            left.discard(queue)
    return reached


class NothingStaged(StoreWrapper):
    """A store that gives no staged objects until it is healed."""

    healed = False

    async def get(self, key: str) -> StoredObject:
        if "/staged/" in key and not self.healed:
            raise StoreUnavailable("the store does not answer", operation="GET", object=key)
        return await super().get(key)


@pytest.fixture
def decodes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the entries that windows decode, as they do."""
    each, together, seen = entry_rows.decode_entry, entry_rows.decode_together, []

    def counted(*args: Any, **named: Any) -> entry_rows.EntryRows:
        seen.append(args[1].number)
        return each(*args, **named)

    def all_counted(paths: TopicPaths, entries: Sequence[tuple[FoldedEntry, bytes, Collection[int]]]) -> pa.Table | None:
        if (found := together(paths, entries)) is not None:
            seen.extend(folded.number for folded, _, _ in entries)
        return found

    monkeypatch.setattr(window, "decode_entry", counted)
    monkeypatch.setattr(window, "decode_together", all_counted)
    return seen


async def test_an_entry_of_the_log_is_decoded_once_for_all_queues(decodes: list[int]) -> None:
    log = await topic_log(queues=QUEUES)
    for _ in range(20):
        await log.send(dict.fromkeys(range(QUEUES), 5))
    async with opened(log, *range(QUEUES)) as it:
        assert await take_by_turns(it) == [100] * QUEUES
        assert len(decodes) == len(set(decodes)) == 20
        assert it.feed.cached_bytes == 0


@pytest.mark.parametrize("behind", [True, False], ids=["behind", "live"])
async def test_small_entries_come_together(decodes: list[int], behind: bool) -> None:
    """A fetch costs more than a few rows do, and so do threads that decode side by side."""
    log = await topic_log(queues=QUEUES)
    queues = () if behind else (0,)
    async with opened(log, *queues) as it:
        for _ in range(40):
            await log.send({0: 2})
        await it.topic.tail.catch_up()
        if behind:
            it.feed.attach(0)
        assert len(await it.take(0, 0, rows_max=1)) == 1
        assert len(await it.take(0, 1)) >= 30
        assert await it.take_all(0, 1) == 80
        assert len(decodes) == len(set(decodes)) == 40


async def test_a_long_backlog_is_fetched_side_by_side() -> None:
    """Not one request after the other, each of which takes its time."""
    log = await topic_log(queues=QUEUES)
    for _ in range(40):
        await log.send({0: 1})
    async with opened(log) as it:
        it.topic.tail.cache.clear()
        it.feed.attach(0)
        before = it.store.statistics()
        assert len(await it.take(0, 0)) >= 16
        assert it.topic.tail.cache.get(40) is not None
        assert await it.take_all(0, 16) == 40
        assert it.store.statistics().requests - before.requests <= 40 + 12, "each entry once, and what opens the log"


async def test_what_cannot_be_fetched_does_not_hold_up_what_is_before_it() -> None:
    """Small entries are decoded together, but one that the store does not give now fails by itself."""
    log = await topic_log(queues=QUEUES)
    store = NothingStaged(log.store)
    async with opened(log, 0, store=store) as it:
        for number in range(6):
            await log.send({0: 2}, staged=number == 3)
        await it.topic.tail.catch_up()
        assert len(await it.take(0, 0)) == 6
        with pytest.raises(StoreUnavailable):
            await it.take(0, 6)
        store.healed = True
        assert await it.take_all(0, 6) == 12


async def test_from_the_table_to_the_tail(decodes: list[int]) -> None:
    log = await topic_log(queues=QUEUES)
    for number in range(70):
        await log.send({queue: 1 + (number + queue) % 3 for queue in range(QUEUES)}, staged=number % 9 == 0)
    await trimmed(log)
    for number in range(12):
        await log.send({number % QUEUES: 4})
    async with opened(log, *range(QUEUES), cache_bytes=200_000) as it:
        for _ in range(6):
            await log.send(dict.fromkeys(range(QUEUES), 2))
            await it.topic.tail.catch_up()
        reached = await take_by_turns(it)
        assert reached == list(log.state.next_offsets)
        assert len(decodes) == len(set(decodes)) == 18, "the log behind the table, and the live entries"
        before = it.requests
        await log.send({0: 1})
        await it.topic.tail.catch_up()
        assert len(await it.take(0, reached[0])) == 1
        assert it.requests <= before + 2, "the tail's"


@pytest.mark.parametrize("seed", range(thoroughly(4, 2)))
async def test_a_log_that_is_published_and_trimmed_under_those_who_are_behind(seed: int) -> None:
    rng = random.Random(seed)
    log = await topic_log(queues=QUEUES)
    for _ in range(64):
        await log.send({rng.randrange(QUEUES): rng.randint(1, 4)})
    async with opened(log, *range(QUEUES), cache_bytes=rng.choice([60_000, 1 << 20])) as it:
        reached = [0] * QUEUES
        for step in range(120):
            queue = rng.randrange(QUEUES)
            reached[queue] += len(await it.take(queue, reached[queue], rows_max=rng.choice([1, 3])))
            if step % 3 == 0:
                await log.send({rng.randrange(QUEUES): rng.randint(1, 4)})
            if step % 7 == 0:
                await publish(log)
            if step % 40 == 0:
                await trimmed(log)
                it.topic.tail.cache.clear()
        for queue in range(QUEUES):
            await it.topic.tail.catch_up()
            assert await it.take_all(queue, reached[queue]) == log.state.next_offsets[queue]


async def test_a_queue_with_few_messages_does_not_push_the_others_out(decodes: list[int]) -> None:
    """What it wants next lies far ahead; it reads there by itself, while the others go on in their window."""
    log = await topic_log(queues=QUEUES)
    for _ in range(30):
        await log.send({0: 5, 1: 5, 2: 5})
    await log.send({3: 1})
    async with opened(log, *range(QUEUES), cache_bytes=80_000) as it:
        at = [len(await it.take(queue, 0, rows_max=5)) for queue in range(3)]
        assert len(await it.take(3, 0)) == 1
        while at[0] < 150:
            for queue in range(3):
                at[queue] += len(await it.take(queue, at[queue], rows_max=5))
        assert at == [150] * 3
        assert len(decodes) == len(set(decodes)) == 30


async def test_offsets_that_expired_are_refused() -> None:
    log = await topic_log(queues=QUEUES)
    await log.send({0: 2})
    await publish(log)
    log.clock.advance(hours=30)
    await log.send({0: 2})
    await publish(log)
    async with opened(log, 0) as it:
        assert await retain(log) == 2
        for _ in range(2):
            with pytest.raises(OffsetOutOfRange, match=r"the earliest kept is 2"):
                await it.take(0, 0)
        assert await it.take_all(0, 2) == 4


async def test_a_repair_under_a_feed() -> None:
    """An entry is lost before anybody folded it: those who wait hear of it, and what the repair does not name is read on."""
    log = await topic_log(queues=QUEUES)
    async with opened(log, 0) as it:
        await log.send({0: 2})
        await it.topic.tail.catch_up()
        for _ in range(3):
            await log.send({0: 2})
        await log.store.put(log.paths.entry(3), b"nonsense", mode=Put.REPLACE)
        assert len(await it.take(0, 0)) == 2
        assert await it.take(0, 2) == [], "the log cannot be read further yet"
        with pytest.raises(DataDamaged, match=r"0003\.parquet"):
            await it.feed.arrived(0, 2)
        await repair(log.store, log.paths, log.runtime)
        await it.feed.arrived(0, 2)
        with pytest.raises(DataDamaged, match="offsets 2 to 3 of queue 0"):
            await it.take(0, 2)
        assert await it.take_all(0, 4) == 8


async def test_one_who_leaves_in_the_middle_leaves_nothing_running() -> None:
    """Else reading ahead goes on, and the event loop complains of generators that were not closed when the process ends."""
    log = await topic_log(queues=QUEUES)
    for _ in range(6):
        await log.send({0: 4})
        await publish(log)
    async with opened(log, 0) as it:
        before = asyncio.all_tasks()
        assert len(await it.take(0, 0, rows_max=1)) == 1
        await it.feed.detach(0)
        for _ in range(10):
            assert asyncio.all_tasks() <= before
            await asyncio.sleep(0)
