"""What a player asks of a store as slow as S3, in virtual time: little where much is sent, and nothing waits for a tick where little is."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import numpy as np

from penstock.coordinator.timers.cell.cell import timer_cells
from penstock.coordinator.timers.delivery import play
from penstock.log import LogLake, Message, ProducerOptions, TopicSettings
from penstock.log.message.message_type import MessageType
from penstock.log.stores import MemoryStore
from penstock.log.stores.counting import CountingStore, StoreStatistics
from penstock.log.stores.latency import S3_STANDARD, LatencyStore
from tests.simulation.kernel import Kernel
from tests.simulation.process import SimClock, SimProcess

_STEADY_S = 12


class _Apart:
    """A sender and a player, each a process of its own."""

    def __init__(self, name: str) -> None:
        self.kernel = Kernel(name, shuffle=False)
        self._memory = MemoryStore(clock=SimClock(self.kernel.loop))
        self._sender, self.sender, _ = self._client("sender")
        self._player, self.player, self.asked = self._client("player")
        self.late_s: list[float] = []

    def _client(self, name: str) -> tuple[SimProcess, LogLake, CountingStore]:
        process = self.kernel.process(name)
        store = CountingStore(LatencyStore(self._memory, profile=S3_STANDARD, runtime=process.runtime))
        return process, LogLake(store, runtime=process.runtime), store

    def run(self, *, pause_s: float, delays_s: list[list[float]]) -> StoreStatistics:
        """Send so many at a time, wait until all were let go, and say what the player asked meanwhile."""

        async def send() -> None:
            options = ProducerOptions(linger=timedelta(milliseconds=400))
            producer = await self.sender.producer("orders", options=options)
            for together in delays_s:
                for delay_s in together:
                    producer.send(Message(b"", delay=timedelta(seconds=delay_s)))
                await asyncio.sleep(pause_s)
            await producer.close()

        async def work() -> StoreStatistics:
            await self._sender.run(self.sender.create_topic("orders", TopicSettings(message_type=MessageType.DELAY, queues=2)))
            stop = asyncio.Event()
            playing = self._player.spawn(play(self.player, timer_cells(self.player), "orders", stop))
            await asyncio.sleep(5)
            before = self.asked.statistics()
            await self._sender.run(send())
            asked = self.asked.statistics() - before
            await asyncio.sleep(10)
            stop.set()
            await playing
            table = await (await self.sender.reader("orders")).to_arrow(columns=["store_timestamp", "delivery_timestamp"])
            stored, due = (column.cast("int64").to_numpy() for column in table.columns)
            assert len(stored) == sum(map(len, delays_s))
            self.late_s = ((stored - due) / 1e6).tolist()
            return asked

        return self.kernel.run(work())


def test_a_busy_topic_takes_few_requests_and_little_time() -> None:
    apart = _Apart("busy")
    rng = np.random.default_rng(1)
    delays_s = [(1 + 5 * rng.random(20)).tolist() for _ in range(10 * _STEADY_S)]
    asked = apart.run(pause_s=0.1, delays_s=delays_s)
    # Some 2.4 entries a second to read, and two steps of two writes; the first seconds have none.
    assert asked.requests <= 8 * _STEADY_S, asked
    assert np.percentile(apart.late_s, 95) <= 1.0
    assert min(apart.late_s) >= 0.0


def test_what_is_due_at_once_does_not_wait_long_where_much_is_sent() -> None:
    apart = _Apart("at once")
    apart.run(pause_s=0.1, delays_s=[[0.5] * 5] * 60)
    assert np.percentile(apart.late_s, 95) <= 1.0


def test_a_message_of_an_idle_topic_waits_for_no_tick() -> None:
    apart = _Apart("idle")
    apart.run(pause_s=20.0, delays_s=[[3.0 + 0.1 * n] for n in range(8)])
    assert sorted(apart.late_s)[-2] <= 0.3, "the first one waits for the check of the store's conditional writes"
