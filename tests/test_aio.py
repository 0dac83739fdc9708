"""The same promises on the caller's own event loop: `penstock.aio`."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Coroutine
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock import aio
from penstock.log import ProducerOptions, TopicSettings
from penstock.log.stores import MemoryStore
from tests.lakes import TIMEOUT_S, Gate, is_entry

Message = penstock.Message
FIFO = TopicSettings(message_type=penstock.MessageType.FIFO, queues=3)
LONG = timedelta(hours=1)


def run(main: Coroutine[Any, Any, None]) -> None:
    """With asyncio's debug mode, so that a coroutine never awaited or a callback from the wrong thread is an error."""
    asyncio.run(asyncio.wait_for(main, TIMEOUT_S), debug=True)


def test_send_await_read_and_close() -> None:
    async def main() -> None:
        async with aio.connect("memory://") as lake:
            await lake.create_topic("orders", FIFO)
            producer = await lake.producer("orders")
            receipts = [producer.send(Message(b"%d" % n, message_group="g")) for n in range(10)]
            results = [await receipt for receipt in receipts]
            assert [result.offset for result in results] == list(range(10))
            batch = await producer.send_batch([Message(b"batch", message_group="g")])
            assert batch.offsets == {results[0].queue: (10, 11)}
            reader = await lake.reader("orders")
            assert [one.body async for one in reader.messages()] == [*(b"%d" % n for n in range(10)), b"batch"]
            assert (await reader.to_arrow()).num_rows == 11
            assert (await reader.to_pandas(columns=["offset"]))["offset"].tolist() == list(range(11))
            assert (await reader.to_polars(columns=["offset"]))["offset"].to_list() == list(range(11))
            assert list(await lake.topics()) == ["orders"]
            assert (await lake.describe_topic("orders")).messages == 11

    run(main())


def test_a_hundred_tasks_share_a_producer_and_a_thousand_awaits() -> None:
    async def main() -> None:
        async with aio.connect("memory://") as lake:
            await lake.create_topic("orders", FIFO)
            producer = await lake.producer("orders", options=ProducerOptions(linger=timedelta(0)))

            async def one(task: int) -> list[int | None]:
                return [(await producer.send(Message(b"%d" % n, message_group=f"g{task}"))).offset for n in range(10)]

            for offsets in await asyncio.gather(*map(one, range(100))):
                assert offsets == sorted(offsets, key=lambda offset: offset or 0)
            reader = await lake.reader("orders")
            assert (await reader.to_arrow()).num_rows == 1000

    run(main())


def test_a_full_producer_raises_on_the_loop_and_room_can_be_awaited() -> None:
    async def main() -> None:
        gate = Gate(MemoryStore(), is_entry)
        async with aio.connect(store=gate) as lake:
            await lake.create_topic("orders", FIFO)
            gate.closed = True
            producer = await lake.producer("orders", options=ProducerOptions(linger=timedelta(0), memory_bytes=5_000))

            def fill() -> None:
                while True:
                    producer.send(Message(b"x" * 1000, message_group="g"))

            with pytest.raises(penstock.BackPressureError):
                fill()
            waiting = asyncio.ensure_future(producer.wait_for_room())
            await asyncio.sleep(0)
            assert not waiting.done()
            gate.open()
            await waiting
            await producer.send(Message(b"fits", message_group="g"))

    run(main())


@pytest.mark.parametrize("give_up", ["receipt", "flush"])
def test_a_task_that_is_cancelled_while_it_waits_disturbs_nobody(give_up: str) -> None:
    async def main() -> None:
        gate = Gate(MemoryStore(), is_entry)
        async with aio.connect(store=gate) as lake:
            await lake.create_topic("orders", FIFO)
            gate.closed = True
            producer = await lake.producer("orders", options=ProducerOptions(linger=timedelta(0)))
            receipts = [producer.send(Message(b"%d" % n, message_group="g")) for n in range(3)]

            async def wait() -> None:
                await (receipts[0] if give_up == "receipt" else producer.flush())

            task = asyncio.ensure_future(wait())
            assert await asyncio.to_thread(gate.held.wait, TIMEOUT_S)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            gate.open()
            assert [(await receipt).offset for receipt in receipts] == [0, 1, 2]
            assert (await producer.send(Message(b"3", message_group="g"))).offset == 3

    run(main())


def test_a_close_that_is_cancelled_tells_every_receipt() -> None:
    async def main() -> None:
        gate = Gate(MemoryStore(), is_entry)
        async with aio.connect(store=gate) as lake:
            await lake.create_topic("orders", FIFO)
            gate.closed = True
            producer = await lake.producer("orders", options=ProducerOptions(linger=timedelta(0)))
            first = producer.send(Message(b"1", message_group="g"))
            assert await asyncio.to_thread(gate.held.wait, TIMEOUT_S)
            second = producer.send(Message(b"2", message_group="g"))
            closing = asyncio.ensure_future(producer.close())
            await asyncio.sleep(0)
            closing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await closing
            with pytest.raises(penstock.UnknownOutcome, match="stopped while the send was on its way"):
                await first
            with pytest.raises(penstock.ClosedError, match="stopped before the send was tried"):
                await second
            gate.open()

    run(main())


@pytest.mark.parametrize("turns", range(4))
def test_who_gives_up_closing_a_lake_waits_for_nothing_more(turns: int) -> None:
    async def work() -> None:
        gate = Gate(MemoryStore(), is_entry)
        lake = aio.connect(store=gate)
        await lake.create_topic("orders", TopicSettings(queues=1))
        producer = await lake.producer("orders")
        gate.closed = True
        receipt = producer.send(penstock.Message(b"x"))
        closing = asyncio.ensure_future(lake.close())
        for _ in range(turns):
            await asyncio.sleep(0)
        closing.cancel()
        ended, _ = await asyncio.wait((closing,), timeout=TIMEOUT_S / 3)
        assert ended
        assert closing.cancelled()
        gate.open()
        await lake.close()
        assert (await receipt).offset == 0

    run(work())


def test_a_listener_cannot_close_its_lake() -> None:
    """It would wait for the consumer, which waits for the listener."""

    async def work() -> None:
        async with aio.connect("memory://") as lake:
            await lake.create_topic("orders", TopicSettings(queues=1))
            told: asyncio.Future[penstock.InvalidArgument] = asyncio.get_running_loop().create_future()

            async def listen(message: penstock.MessageView) -> penstock.ConsumeResult:
                try:
                    await lake.close()
                except penstock.InvalidArgument as error:
                    told.set_result(error)
                return penstock.ConsumeResult.SUCCESS

            await lake.push_consumer("orders", group="billing", listener=listen)
            await (await lake.producer("orders")).send(penstock.Message(b"x"))
            assert "a listener cannot close its own consumer" in str(await asyncio.wait_for(told, TIMEOUT_S))

    run(work())


def test_followers_end_with_the_reader_and_with_the_lake() -> None:
    async def main() -> None:
        async with aio.connect("memory://") as lake:
            await lake.create_topic("orders", FIFO)
            readers = [await lake.reader("orders") for _ in range(2)]

            async def follow(reader: aio.Reader) -> list[bytes]:
                return [one.body async for one in reader.messages(follow=True)]

            tasks = [asyncio.ensure_future(follow(reader)) for reader in readers]
            producer = await lake.producer("orders")
            await producer.send(Message(b"x", message_group="g"))
            await readers[0].close()
            assert await tasks[0] in ([], [b"x"]), "what had not been read yet is not read any more"
            assert not tasks[1].done()
        assert await tasks[1] in ([], [b"x"])

    run(main())


def test_leaving_an_iteration_half_way_leaves_nothing_running() -> None:
    async def main() -> None:
        before = asyncio.all_tasks()
        async with aio.connect("memory://") as lake:
            await lake.create_topic("orders", FIFO)
            producer = await lake.producer("orders")
            await producer.send_batch([Message(b"%d" % n, message_group="g") for n in range(5)])
            messages = (await lake.reader("orders")).messages(follow=True)
            assert (await anext(messages)).body == b"0"
            await messages.aclose()
        assert asyncio.all_tasks() == before

    run(main())


def test_two_lakes_on_two_loops_one_after_another_use_one_store() -> None:
    store = MemoryStore()

    async def main(n: int) -> None:
        async with aio.connect(store=store) as lake:
            await lake.create_topic("orders", FIFO)
            assert (await (await lake.producer("orders")).send(Message(b"x", message_group="g"))).offset == n

    for n in range(3):
        run(main(n))


_IMPORTS = """
import asyncio, sys, threading
on_loop = []
def hear(event, args):
    if event == "import" and args[0] == "pandas":
        on_loop.append(threading.current_thread() is threading.main_thread())
sys.addaudithook(hear)
import penstock, penstock.aio
async def main():
    async with penstock.aio.connect(sys.argv[1]) as lake:
        reader = await lake.reader("orders")
        assert [one.body async for one in reader.messages()] == [b"paid"]
asyncio.run(main())
assert on_loop and not any(on_loop), on_loop
"""


def test_nothing_heavy_is_imported_on_the_event_loop(tmp_path: Path) -> None:
    """Arrow looks for pandas when it first converts anything: for seconds on a busy machine, while heartbeats would wait."""
    with penstock.connect(tmp_path) as lake:
        lake.create_topic("orders", message_type="FIFO")
        lake.producer("orders").send(Message(b"paid", message_group="g"))
    ended = subprocess.run([sys.executable, "-c", _IMPORTS, str(tmp_path)], check=False, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
