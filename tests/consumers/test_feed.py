"""The feed: every offset once, in order, from memory as long as that lasts and from the store otherwise."""

from __future__ import annotations

import asyncio

import pytest

from penstock.consumers.feed import window
from penstock.consumers.feed.cache import FeedCache
from penstock.log.errors import ClosedError, DataDamaged, InternalError, OffsetOutOfRange, TopicDeleted
from tests.consumers.feeds import opened, topic_log
from tests.lakes import TIMEOUT_S


async def test_what_arrives_is_there_at_once_without_a_request() -> None:
    log = await topic_log()
    async with opened(log, 0, 1) as it:
        waiting = [asyncio.ensure_future(it.feed.arrived(queue, 0)) for queue in (0, 1)]
        await asyncio.sleep(0)
        await log.send({0: 3, 1: 2, 2: 1})
        async with asyncio.timeout(TIMEOUT_S):
            await asyncio.gather(*waiting)
        before = it.requests
        assert len(await it.take(0, 0)) == 3
        assert len(await it.take(1, 0)) == 2
        assert await it.take(1, 2) == []
        assert it.requests == before


async def test_older_rows_and_live_ones_join_without_a_seam() -> None:
    log = await topic_log()
    for count in range(1, 6):
        await log.send({0: count, 1: 1}, staged=count == 3)
    async with opened(log, 0, 1) as it:
        assert await it.take_all(0, rows_max=4) == 15
        for count in range(1, 4):
            await log.send({0: count}, staged=count == 2)
            await it.topic.tail.catch_up()
        before = it.requests
        assert await it.take_all(0, 15, rows_max=2) == 21
        assert it.requests == before + 1, "the staged object, once"
        assert await it.take_all(1) == 5


async def test_a_queue_that_lags_falls_out_of_the_cache_and_goes_on_from_the_store() -> None:
    log = await topic_log()
    async with opened(log, 0, 1, cache_bytes=40_000) as it:
        reached = 0
        for _ in range(30):
            await log.send({0: 5, 1: 5})
            await it.topic.tail.catch_up()
            before = it.requests
            reached = await it.take_all(1, reached)
            assert it.requests == before, "the one that keeps up reads from memory"
            assert it.feed.cached_bytes <= 40_000
        assert reached == 150
        assert await it.take_all(0, rows_max=7) == 150
        assert it.feed.cached_bytes == 0, "nobody wants any of it any more"


async def test_an_entry_too_large_for_the_cache_is_read_in_pieces() -> None:
    log = await topic_log()
    async with opened(log, 0, 1, cache_bytes=20_000) as it:
        await log.send({0: 1, 1: 1})
        await log.send({0: 500})
        await log.send({0: 1, 1: 1})
        await it.topic.tail.catch_up()
        assert await it.take_all(0) == 502
        assert await it.take_all(1) == 2


async def test_limits_of_a_fetch() -> None:
    log = await topic_log()
    async with opened(log, 0) as it:
        for _ in range(3):
            await log.send({0: 10})
        await it.topic.tail.catch_up()
        assert len(await it.take(0, 0, rows_max=25)) == 25, "several entries in one batch"
        assert len(await it.take(0, 25, bytes_max=1)) == 1, "at least one row"
        rows = await it.feed.fetch(0, 0, rows_max=30, bytes_max=700)
        assert rows is None or rows.nbytes <= 700 < 2 * rows.nbytes


async def test_two_who_share_a_queue_do_not_take_rows_from_each_other() -> None:
    log = await topic_log()
    for _ in range(4):
        await log.send({0: 4})
    async with opened(log, 0, 0) as it:
        for _ in range(4):
            await log.send({0: 4})
        await it.topic.tail.catch_up()
        first = second = 0
        while first < 32 or second < 32:
            first += len(await it.take(0, first, rows_max=3))
            second += len(await it.take(0, second, rows_max=5))
        await it.feed.detach(0)
        assert await it.take_all(0, 20) == 32
        await it.feed.detach(0)
        assert it.feed.cached_bytes == 0
        with pytest.raises(ClosedError, match="not attached"):
            await it.take(0, 0)


async def test_rows_of_queues_that_nobody_attached_are_not_kept() -> None:
    log = await topic_log()
    async with opened(log, 0) as it:
        await log.send({1: 50})
        await it.topic.tail.catch_up()
        assert it.feed.cached_bytes == 0
        listeners = len(it.topic.tail.fold_listeners)
        await it.feed.detach(0)
        await log.send({0: 50})
        await it.topic.tail.catch_up()
        assert it.feed.cached_bytes == 0
        assert len(it.topic.tail.fold_listeners) == listeners - 1


async def test_scan_and_pick_read_again_what_was_handed_out() -> None:
    log = await topic_log()
    async with opened(log, 0, 1) as it:
        for _ in range(10):
            await log.send({0: 4, 1: 1})
        await it.topic.tail.catch_up()
        await it.take_all(0)
        scanned = [offset async for rows in it.feed.scan(0, 7, 19) for offset in rows.column("offset").to_pylist()]
        assert scanned == list(range(7, 19))
        picked = await it.feed.pick(0, [39, 3, 4, 21])
        assert picked.column("offset").to_pylist() == [3, 4, 21, 39]
        assert picked.column("body").to_pylist() == [log.sent[0, offset] for offset in (3, 4, 21, 39)]
        assert (await it.feed.pick(0, [])).num_rows == 0
        with pytest.raises(OffsetOutOfRange):
            await it.feed.pick(0, [40])


async def test_damage_is_named_and_never_skipped() -> None:
    log = await topic_log()
    async with opened(log, 0, 1) as it:
        await log.send({0: 2, 1: 1})
        await log.send({0: 2}, staged=True)
        await log.send({0: 2, 1: 1})
        await it.topic.tail.catch_up()
        (info,) = await log.store.list(log.paths.jobs)
        await log.store.delete(info.key)
        assert len(await it.take(0, 0)) == 2
        for _ in range(2):
            with pytest.raises(DataDamaged, match="offsets 2 to 3 of queue 0"):
                await it.take(0, 2)
        with pytest.raises(DataDamaged, match="offsets 2 to 3 of queue 0"):
            await it.feed.pick(0, [1, 3, 4])
        assert (await it.feed.pick(0, [1, 4])).num_rows == 2, "what lies between is not asked for"
        assert [await it.feed.kept_from(0, start) for start in (1, 2, 3, 6, 9)] == [1, 2, 3, 6, 6], "nor what is damaged"
        assert await it.take_all(0, 4) == 6
        assert await it.take_all(1) == 2, "the other queue is not touched"


async def test_a_cache_that_lost_rows_is_a_bug_and_not_a_hole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were the check that entries follow one another not there, the feed would say so instead of leaving offsets out."""
    log = await topic_log()
    async with opened(log, 0) as it:
        await log.send({0: 2})
        await it.topic.tail.catch_up()
        real = FeedCache.covering
        monkeypatch.setattr(FeedCache, "covering", lambda cache, queue, start, limit: real(cache, queue, start + 1, limit + 1))
        monkeypatch.setattr(window, "_taken", lambda arrivals, *_: arrivals[0].pieces[0].rows.slice(1))
        with pytest.raises(InternalError, match=r"not dense.*offsets from 0 on"):
            await it.take(0, 0)


async def test_entries_that_were_passed_over_void_what_is_cached() -> None:
    """As after a repair, or a long sleep: the rows before and behind are read anew, none is taken for another's."""
    log = await topic_log()
    async with opened(log, 0, 1) as it:
        await log.send({0: 2})
        await it.topic.tail.catch_up()
        listener = it.topic.tail.fold_listeners.pop()
        await log.send({0: 2})
        await it.topic.tail.catch_up()
        it.topic.tail.fold_listeners.append(listener)
        await log.send({0: 2, 1: 1})
        await it.topic.tail.catch_up()
        assert it.feed.cached_bytes, "of the other queue, which missed nothing"
        before = it.requests
        assert await it.take_all(1) == 1
        assert it.requests == before
        assert await it.take_all(0) == 6


async def test_a_deleted_topic_reaches_all_who_wait_or_ask() -> None:
    log = await topic_log()
    async with opened(log, 0, 1) as it:
        await log.send({0: 2})
        waiting = [asyncio.ensure_future(it.feed.arrived(queue, 2)) for queue in (0, 1)]
        await asyncio.sleep(0)
        await log.delete()
        async with asyncio.timeout(TIMEOUT_S):
            ends = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(end) for end in ends] == [TopicDeleted, TopicDeleted]
        with pytest.raises(TopicDeleted):
            await it.take(0, 0)
        with pytest.raises(TopicDeleted):
            it.feed.next_offset(0)


async def test_closing_ends_whatever_waits() -> None:
    log = await topic_log()
    async with opened(log, 0) as it:
        waiting = asyncio.ensure_future(it.feed.arrived(0, 0))
        await asyncio.sleep(0)
        await it.feed.close()
        async with asyncio.timeout(TIMEOUT_S):
            with pytest.raises(ClosedError):
                await waiting
        with pytest.raises(ClosedError):
            await it.take(0, 0)


async def test_one_who_gives_up_waiting_leaves_the_others_waiting() -> None:
    log = await topic_log()
    async with opened(log, 0, 1) as it:
        gone = asyncio.ensure_future(it.feed.arrived(0, 0))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        waiting = asyncio.ensure_future(it.feed.arrived(1, 0))
        await asyncio.sleep(0)
        await log.send({1: 1})
        async with asyncio.timeout(TIMEOUT_S):
            await waiting
