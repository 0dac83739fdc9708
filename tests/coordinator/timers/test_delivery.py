"""Delayed messages in virtual time: each comes once, in order, not before its time and soon after it; whatever becomes of who lets them go."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

from penstock.coordinator.cells.cells import Cells
from penstock.coordinator.timers.cell.cell import timer_cells
from penstock.coordinator.timers.delivery import play
from penstock.coordinator.timers.options import TimerOptions
from penstock.coordinator.timers.waiting_messages import waiting
from penstock.log import Message, MessageView, TopicSettings
from penstock.log.lake import LogLake
from penstock.log.message.message_type import MessageType
from penstock.log.stores import MemoryStore
from tests.simulation.kernel import Kernel

SMALL = TimerOptions(claim_rows=3, flush_rows=6, flush_bytes=10**9, merge_runs=2, group_bytes=700)


class Played:
    """A lake in memory with a topic of type DELAY, in virtual time."""

    def __init__(self, name: str, *, queues: int = 2) -> None:
        self.kernel = Kernel(name, shuffle=False)
        self.process = self.kernel.process("player")
        self.store = MemoryStore(clock=self.process.clock)
        self.queues = queues
        self.stop = asyncio.Event()

    def run(self, script: Callable[[Played, LogLake], Awaitable[None]]) -> None:
        async def work() -> None:
            async with LogLake(self.store, runtime=self.process.runtime) as lake:
                await lake.create_topic("orders", TopicSettings(message_type=MessageType.DELAY, queues=self.queues))
                await script(self, lake)

        self.kernel.run(work())

    async def send(self, lake: LogLake, *delays_s: float, group: str | None = None) -> None:
        """One message each, whose body is its delay and its place."""
        producer = await lake.producer("orders")
        for place, delay_s in enumerate(delays_s):
            producer.send(Message(b"%g/%d" % (delay_s, place), message_group=group, delay=timedelta(seconds=delay_s)))
        await producer.close()

    async def read(self, lake: LogLake) -> list[MessageView]:
        """What has come, by store time and then by offset."""
        reader = await lake.reader("orders")
        found = [one async for one in reader.messages()]
        return sorted(found, key=lambda one: (one.store_timestamp, one.offset))

    async def play_for(self, lake: LogLake, seconds: float, options: TimerOptions = SMALL, *, cells: Cells | None = None) -> None:
        stop = asyncio.Event()
        asyncio.get_running_loop().call_later(seconds, stop.set)
        await play(lake, cells or timer_cells(lake), "orders", stop, options)


def check_times(messages: list[MessageView], *, late_s: float = 1.0) -> None:
    for one in messages:
        assert one.delivery_timestamp is not None
        assert timedelta(0) <= one.store_timestamp - one.delivery_timestamp <= timedelta(seconds=late_s), one


def test_each_comes_once_in_order_and_not_early() -> None:
    async def script(played: Played, lake: LogLake) -> None:
        await played.send(lake, 5, 1, 3, 3, 1)
        await played.play_for(lake, 10, TimerOptions())
        messages = await played.read(lake)
        check_times(messages)
        assert [one.body for one in messages] == [b"1/1", b"1/4", b"3/2", b"3/3", b"5/0"]

    Played("once", queues=1).run(script)


def test_runs_hold_what_waits_long() -> None:
    async def script(played: Played, lake: LogLake) -> None:
        delays = [float(10 + 7 * n % 90) for n in range(60)]
        for start in range(0, 60, 10):
            await played.send(lake, *delays[start : start + 10])
            await played.play_for(lake, 1)
        cells = timer_cells(lake)
        assert any(info.key.endswith(".parquet") for info in await played.store.list("timers/"))
        rows = await waiting(lake, cells, "orders")
        assert rows.column("delivery_timestamp").to_pylist() == sorted(rows.column("delivery_timestamp").to_pylist())
        assert rows.num_rows > 50
        for one in rows.to_pylist()[::25]:
            (found,) = (await waiting(lake, cells, "orders", message_id=one["message_id"])).to_pylist()
            assert found == one
        await played.play_for(lake, 120)
        messages = await played.read(lake)
        check_times(messages)
        assert len({one.message_id for one in messages}) == len(messages) == 60
        assert (await waiting(lake, cells, "orders")).num_rows == 0

    Played("runs").run(script)
