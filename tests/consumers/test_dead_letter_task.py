"""Dead letters on their way: what becomes of those whose message cannot be read any more."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from datetime import timedelta

import pyarrow as pa
import pytest

import penstock
from penstock import aio
from penstock.consumers.dead_letters.writer import DeadLetterWriter
from penstock.consumers.feed.feed import Feed
from penstock.coordinator.cells.keys import queue_key
from penstock.coordinator.queues.cell import QueueCell
from penstock.coordinator.queues.codec import encode_cell
from penstock.coordinator.queues.offsets import OffsetSet
from penstock.infra.cli.lake.maintenance import maintain_once
from penstock.log import Runtime
from penstock.log.errors import DataDamaged
from penstock.log.stores import MemoryStore, Put
from penstock.testing import HandClock
from tests.consumers.heard import AT_ONCE, FAILURE, Heard, consuming, fill, letters, send, until_settled
from tests.consumers.letters import letters as letters_of
from tests.waiting import wait_until

DAYS = 20
"""Retention takes messages after 3 days here, and spares those without their dead letters for 14."""


async def leave(lake: aio.Lake, settled: int, given_up: Sequence[int], *, written: int) -> None:
    """What an owner that died left of queue 0: all below ``settled`` done with, and of the dead letters so many written."""
    key = queue_key("billing", "orders", 0)
    record = await lake.coordination.groups.get("billing")
    cell = QueueCell(generation=record.positions["orders"].generations[0])
    cell = cell.with_settled(OffsetSet.of([(0, settled)])).with_dead_letters(given_up)
    await lake.coordination.cells.write(key, encode_cell(cell), on=None, deadline_s=float("inf"))
    if written:
        reader = await lake.reader("orders")
        found = {one.offset: one async for one in reader.messages()}
        writer = DeadLetterWriter(lake, "billing", "orders", 0)
        await writer.write(letters_of([found[offset] for offset in given_up[:written]]))
        await writer.close()


@pytest.mark.parametrize(("written", "kept"), [(0, ["d0"]), (1, ["a1", "d0"]), (3, ["a1", "d0", "b0"])])
def test_a_dead_letter_whose_message_is_gone_is_given_up_once_and_the_others_are_written(
    caplog: pytest.LogCaptureFixture, written: int, kept: list[str]
) -> None:
    clock = HandClock()
    store = MemoryStore(clock=clock)

    async def maintain(*, dying: bool) -> None:
        async with aio.connect(store=store, runtime=Runtime(clock=clock), maintenance=False) as lake:
            if dying:
                await leave(lake, 4 + DAYS, [1, 4 + DAYS - 1, 2], written=written)
            await maintain_once(lake, ["orders"], lambda *_: None)

    with penstock.connect(store=store, runtime=Runtime(clock=clock), maintenance=False) as lake:
        fill(lake, "aabb")
        lake.create_group("billing", retry=AT_ONCE, max_attempts=1)
        lake.reset_offsets("billing", "orders", "earliest")
        asyncio.run(maintain(dying=False))
        for _ in range(DAYS):
            clock.advance(timedelta(hours=24))
            send(lake, "d")
        asyncio.run(maintain(dying=True))
        with consuming(lake, Heard(lambda _: FAILURE), max_attempts=1):
            until_settled(lake)
            send(lake, "e")
            wait_until(lambda: letters(lake) == [*kept, "e0"], "the dead letters that can be written, each once")
            until_settled(lake)
    told = [record.getMessage() for record in caplog.records if "was given up after" in record.getMessage()]
    lost = [text for text in told if "has no dead letter" in text]
    assert [re.findall(r"group billing, orders queue 0: offset (\d+)", text) for text in lost] == [["1"], ["2"]][min(written, 2) :]
    assert len(told) == 4, "each once"


def test_what_cannot_be_read_for_a_while_behind_what_retention_took_is_not_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    clock = HandClock()
    store = MemoryStore(clock=clock)

    async def maintain() -> None:
        async with aio.connect(store=store, runtime=Runtime(clock=clock), maintenance=False) as lake:
            await maintain_once(lake, ["orders"], lambda *_: None)

    with penstock.connect(store=store, runtime=Runtime(clock=clock), maintenance=False) as lake:
        fill(lake, "aabb")
        lake.create_group("billing", retry=AT_ONCE)
        lake.reset_offsets("billing", "orders", "earliest")
        asyncio.run(maintain())
        for _ in range(DAYS):
            clock.advance(timedelta(hours=24))
            send(lake, "d")
        asyncio.run(maintain())
        first, following = lake.reader("orders").offsets()[0]
        assert 4 <= first < following
    files, heard = asyncio.run(_taken_away(store)), Heard()
    with penstock.connect(store=store, runtime=Runtime(clock=clock), maintenance=False) as lake, consuming(lake, heard):
        wait_until(lambda: "cannot read" in caplog.text, "the damage told")
        asyncio.run(_put_back(store, files))
        heard.until_done(following - first)


async def _taken_away(store: MemoryStore) -> dict[str, bytes]:
    keys = [info.key for info in await store.list("topics/orders/") if info.key.endswith(".parquet") and "/log/" not in info.key]
    files = {key: (await store.get(key)).data for key in keys}
    for key in files:
        await store.delete(key)
    assert files
    return files


async def _put_back(store: MemoryStore, files: dict[str, bytes]) -> None:
    for key, data in files.items():
        await store.put(key, data, mode=Put.REPLACE)


def died_with(lake: penstock.Lake, store: MemoryStore, given_up: Sequence[int]) -> None:
    """Fill a topic, and let an owner die that had given these up."""

    async def die() -> None:
        async with aio.connect(store=store, maintenance=False) as opened:
            await leave(opened, 4, given_up, written=0)

    fill(lake, "aabb")
    lake.create_group("billing", retry=AT_ONCE)
    lake.reset_offsets("billing", "orders", "earliest")
    asyncio.run(die())


def test_a_message_that_is_given_up_again_before_its_first_dead_letter_is_written_has_two() -> None:
    """After a reset."""
    store = MemoryStore()
    with penstock.connect(store=store, maintenance=False) as lake:
        died_with(lake, store, [1, 1, 2])
        with consuming(lake, Heard()):
            until_settled(lake)
            send(lake, "e")
            until_settled(lake)
        assert letters(lake) == ["a1", "a1", "b0"]


def test_a_dead_letter_whose_message_is_damaged_ends_no_consumer_and_waits_until_it_can_be_read(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store, pick, damaged = MemoryStore(), Feed.pick, [True]

    async def picked(feed: Feed, queue: int, offsets: Sequence[int]) -> pa.RecordBatch:
        if damaged:
            raise DataDamaged("the row cannot be read any more", object=f"offset {offsets[0]}")
        return await pick(feed, queue, offsets)

    monkeypatch.setattr(Feed, "pick", picked)
    with penstock.connect(store=store, maintenance=False) as lake:
        died_with(lake, store, [1])
        heard = Heard()
        with consuming(lake, heard):
            wait_until(lambda: "dead letters of orders queue 0 wait: the row cannot be read" in caplog.text, "the damage told")
            send(lake, "e")
            heard.until_done(1)
            damaged.clear()
            until_settled(lake)
        assert letters(lake) == ["a1"]
