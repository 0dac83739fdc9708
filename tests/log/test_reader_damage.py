"""Reading where something is lost: what is whole is handed out, the rest is named, and nothing waits for ever."""

from __future__ import annotations

import asyncio

import pytest

from penstock.log import Lake, MessageView
from penstock.log.errors import DataDamaged
from penstock.log.settings import encode_record
from penstock.log.stores.protocol import Put
from penstock.log.table.publisher import Publisher
from tests.log.topics import LogWriter


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
    async with Lake(log.store, runtime=log.runtime, read_only=True) as lake:
        reader = await lake.reader("orders")
        try:
            async for message in reader.messages(queue=queue, damaged=damaged):  # type: ignore[arg-type]
                found.append(message)  # noqa: PERF401 - what came before the error counts
        except DataDamaged as error:
            return found, error
    return found, None


@pytest.mark.parametrize("published", [False, True])
def test_a_lost_staged_object_costs_its_own_rows_and_is_named(published: bool) -> None:
    async def main() -> None:
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

    asyncio.run(main())


def test_rows_that_the_table_lacks_without_saying_so_are_noticed() -> None:
    async def main() -> None:
        log = await topic()
        await Publisher(log.store, log.paths, log.record, log.runtime).publish_once()
        (first, *_) = [info.key for info in await log.store.list(log.paths.table("table")) if "queue=0/" in info.key]
        await log.store.put(first, (await log.store.get(first)).data[:-100], mode=Put.REPLACE)
        found, error = await read(log, 0)
        assert found == []
        assert first in str(error)
        assert [message.offset for message in (await read(log, 1))[0]] == list(range(6)), "the other queue is not touched"

    asyncio.run(main())


def test_a_reader_that_stands_before_a_missing_entry_says_so_instead_of_waiting() -> None:
    async def main() -> None:
        log = await topic()
        async with Lake(log.store, runtime=log.runtime, read_only=True) as lake:
            await lake.topic("orders")  # this process has folded past the entry before somebody deletes it
            reader = await lake.reader("orders")
            (await lake.topic("orders")).tail.cache.clear()
            await log.store.delete(log.paths.entry(4))
            with pytest.raises(DataDamaged, match="missing") as caught:
                _ = [message async for message in reader.messages(queue=0)]
            assert log.paths.entry(4) in str(caught.value)

    asyncio.run(asyncio.wait_for(main(), 20))
