"""A player that dies at any of its requests, and one that takes over at once: each message goes once, whatever the request became."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from enum import Enum
from typing import TypeVar

import pytest

from penstock.coordinator.timers.cell.cell import timer_cells
from penstock.coordinator.timers.cell.state import DuePosition
from penstock.coordinator.timers.delivery import play
from penstock.coordinator.timers.options import TimerOptions
from penstock.coordinator.timers.waiting_messages import recall, waiting
from penstock.log import Message, PenstockError, TopicSettings
from penstock.log.lake import LogLake
from penstock.log.message.message_type import MessageType
from penstock.log.stores import MemoryStore
from penstock.log.stores.wrapper import StoreCall, StoreWrapper
from tests.coordinator.timers.test_delivery import check_times
from tests.simulation.kernel import Kernel
from tests.thorough import thoroughly

T = TypeVar("T")

OPTIONS = TimerOptions(
    recalled_rows=2, claim_rows=2, flush_rows=4, flush_bytes=10**9, merge_runs=2, group_bytes=700, settle=timedelta(seconds=2)
)
DELAYS_S = (1, 1, 2, 0, 9, 4, 9, 7, 2, 30, 12, 12, 14, 31)
RECALLED = (5, 10, 13)


class End(Enum):
    """What becomes of the last request of a process."""

    LOST = "lost"
    CARRIED_OUT = "carried out"
    LATE = "late"


class Dying(StoreWrapper):
    """The store of a process that dies with its request of a number."""

    def __init__(self, inner: MemoryStore, last: int | None, end: End) -> None:
        super().__init__(inner)
        self._last, self._end = last, end
        self.requests = 0
        self.dead = asyncio.Event()
        self.late: list[asyncio.Task[object]] = []

    async def _around(self, call: StoreCall, run: Callable[[], Awaitable[T]]) -> T:
        if self.dead.is_set():
            await asyncio.Event().wait()
        self.requests += 1
        if self.requests != self._last:
            return await run()
        self.dead.set()
        if self._end is End.CARRIED_OUT:
            await run()
        if self._end is End.LATE and call.is_write:
            self.late.append(asyncio.ensure_future(_late(run)))
        await asyncio.Event().wait()
        raise AssertionError("the dead go on")


async def _late(run: Callable[[], Awaitable[object]]) -> None:
    await asyncio.sleep(6)
    try:
        await run()
    except PenstockError:
        return  # it was refused


def _run(last: int | None, end: End) -> int:
    """A life of a topic in which the first player dies; returns how many requests it made before its end."""
    kernel = Kernel(f"{last} {end}", shuffle=False)

    async def work() -> int:
        process = kernel.process("host")
        store = MemoryStore(clock=process.clock)
        dying = Dying(store, last, end)
        async with LogLake(store, runtime=process.runtime) as lake:
            await lake.create_topic("orders", TopicSettings(message_type=MessageType.DELAY, queues=2))
            producer = await lake.producer("orders")
            for number, delay_s in enumerate(DELAYS_S):
                await producer.send(Message(b"%d" % number, delay=timedelta(seconds=delay_s)))
            _, log = await lake.timer_log("orders")
            rows = (await waiting(lake, timer_cells(lake), "orders")).sort_by("offset")
            times = rows.column("delivery_timestamp").cast("int64").to_pylist()
            for offset in RECALLED:
                due = DuePosition(times[offset], offset)
                await recall(timer_cells(lake), lake.runtime.clock, "orders", log.record.incarnation, due)
            first = LogLake(dying, runtime=process.runtime)
            stop = asyncio.Event()
            playing = asyncio.ensure_future(play(first, timer_cells(first), "orders", stop, OPTIONS))
            ended = asyncio.ensure_future(dying.dead.wait())
            await asyncio.wait((playing, ended), timeout=20, return_when=asyncio.FIRST_COMPLETED)
            requests = dying.requests
            if last is None:
                stop.set()
                await playing
            playing.cancel()
            stop = asyncio.Event()
            asyncio.get_running_loop().call_later(45, stop.set)
            await play(lake, timer_cells(lake), "orders", stop, OPTIONS)
            reader = await lake.reader("orders")
            messages = [one async for one in reader.messages()]
            assert sorted(int(one.body) for one in messages) == [n for n in range(len(DELAYS_S)) if n not in RECALLED]
            check_times(messages, late_s=35)
            for queue in range(2):
                dues = [one.delivery_timestamp for one in messages if one.queue == queue and int(one.body) != 3]
                assert dues == sorted(due for due in dues if due is not None)
            await asyncio.gather(*dying.late)
            ended.cancel()
            await asyncio.gather(playing, ended, return_exceptions=True)
            return requests

    return kernel.run(work())


REQUESTS = 120
"""At least so many the player makes."""
_STEP = thoroughly(20, 60)
"""By hand all of them were tried: they take some minutes."""


@pytest.mark.slow
@pytest.mark.parametrize("end", End)
def test_a_player_dies_at_any_request(end: End) -> None:
    requests = _run(None, end)
    assert requests >= REQUESTS
    for last in range(1 + 4 * list(End).index(end), requests, _STEP):
        _run(last, end)
