"""Pages that stay open look less often where a look costs more, and all who watch the same share one look."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from datetime import timedelta

import pytest

from penstock.aio import Lake
from penstock.infra.web.lakes.lakes import LakeOptions
from penstock.infra.web.lakes.source import WATCHED_S_MAX, WATCHING_USD, LakeSource
from penstock.log.runtime.runtime import Runtime
from penstock.log.stores import MemoryStore
from penstock.log.stores.counting import CountingStore

MINUTE = timedelta(minutes=1)
MONTH_S = 730 * 3600


def source_of(*, thrifty: bool) -> LakeSource:
    """A lake in memory whose requests are counted."""
    store = CountingStore(MemoryStore())
    return LakeSource("lake", lambda: Lake(store), Runtime(), MINUTE, is_thrifty=thrifty)


async def lists_of(source: LakeSource, count: int) -> int:
    """Something that asks the store so often."""

    async def ask(lake: Lake) -> int:
        for _ in range(count):
            await lake.store.list_folders("topics")
        return count

    return await source.using(ask)


async def watch(source: LakeSource, work: Awaitable[int]) -> int:
    async def make() -> int:
        return await work

    found = await source.polled("page", make)
    source.memo.clear()
    return found


@pytest.mark.parametrize("lists", [3, 30])
def test_a_page_that_stays_open_costs_no_more_than_it_may(lists: int) -> None:
    async def run() -> timedelta:
        source = source_of(thrifty=True)
        for _ in range(3):
            assert await watch(source, lists_of(source, lists)) == lists
        found = source.poll_interval("page")
        await source.close()
        return found

    every_s = asyncio.run(run()).total_seconds()
    spent_usd = lists * 0.005e-3 * MONTH_S / every_s
    assert spent_usd == pytest.approx(WATCHING_USD, rel=0.01)
    assert every_s > 60


def test_the_first_look_says_nothing_and_no_look_is_put_off_for_ever() -> None:
    async def run() -> tuple[timedelta, timedelta]:
        source = source_of(thrifty=True)
        await watch(source, lists_of(source, 1000))
        first = source.poll_interval("page")
        await watch(source, lists_of(source, 100_000 // 10))
        later = source.poll_interval("page")
        await source.close()
        return first, later

    assert asyncio.run(run()) == (MINUTE, timedelta(seconds=WATCHED_S_MAX))


def test_who_names_a_pace_gets_it() -> None:
    async def run() -> timedelta:
        source = source_of(thrifty=False)
        for _ in range(2):
            await watch(source, lists_of(source, 1000))
        found = source.poll_interval("page")
        await source.close()
        return found

    assert asyncio.run(run()) == MINUTE
    assert LakeOptions(name="lake", url="s3://bucket").is_thrifty
    assert not LakeOptions(name="lake", url="s3://bucket", refresh=MINUTE).is_thrifty
    assert not LakeOptions(name="lake", url="/srv/lake").is_thrifty


def test_all_who_watch_the_same_share_one_look() -> None:
    async def run() -> int:
        source, made = source_of(thrifty=True), 0

        async def make() -> int:
            nonlocal made
            made += 1
            await asyncio.sleep(0)
            return made

        found = await asyncio.gather(*(source.polled("page", make) for _ in range(100)))
        assert set(found) == {1}
        await source.close()
        return made

    assert asyncio.run(run()) == 1
