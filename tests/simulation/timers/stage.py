"""A calm world with timed messages, moved by hand: one interleaving at a time, and the sweep's judge at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from penstock.coordinator.timers.cell.state import TimerState
from penstock.coordinator.timers.options import TimerOptions
from penstock.log.lake import LogLake
from penstock.log.message.message import Message
from penstock.log.produce.producer import Producer
from tests.simulation.log.stage import STEADY_MS
from tests.simulation.plans import DAY_S
from tests.simulation.process import EPOCH_MS, SimProcess
from tests.simulation.requests import Gate
from tests.simulation.small import small_log
from tests.simulation.timers.actors import PROMPT, Actors
from tests.simulation.timers.plot import SMALL, TOPIC, Plot
from tests.simulation.timers.records import Outcome, Sent
from tests.simulation.timers.upkeep import maintain
from tests.simulation.timers.world import STORE_NETWORK, Timing


class Stage:
    """One world. `play` a script on it."""

    def __init__(self, *, options: TimerOptions = SMALL, max_steps: int = 100_000, **plot: Any) -> None:
        calm = Plot(options=options, offset_ms=0, drift=0.0, **{"queues": 1, "players": 1, **plot})
        network = replace(STORE_NETWORK, latency_ms=STEADY_MS, very_slow=0.0)
        self.world = Timing(1, calm, store_network=network, max_steps=max_steps)
        self.acting = Actors(self.world)
        self._process: SimProcess | None = None
        self._lake: LogLake | None = None
        self._producer: Producer | None = None

    def play(self, script: Callable[[], Coroutine[Any, Any, None]]) -> Timing:
        """Play, let everything come to rest, and fail for whatever the judge finds wrong."""
        with small_log():
            wrong = self.world.play(script)
        assert not wrong, "\n".join(wrong)
        return self.world

    @property
    def now_s(self) -> float:
        return self.world.now_s

    async def start(self, *numbers: int) -> None:
        """Let machines play, and wait until each does."""
        for number in numbers or range(len(self.world.machines)):
            self.world.machines[number].start()
        await asyncio.sleep(2.0)

    def process(self, number: int = 0) -> SimProcess:
        """The one that plays on a machine now."""
        process = self.world.machines[number].process
        assert process is not None, "the machine was started"
        return process

    async def send(self, *texts: str, due_s: float, group: str | None = None, queue: int | None = None) -> list[Sent]:
        """Have messages stored in one batch, due at a time of the run."""
        if self._producer is None:
            self._process = self.world.kernel.process("sender")
            self._lake = self.world.lake(self._process)
            self._producer = await self._process.run(self._lake.producer(TOPIC, options=PROMPT))
        due_us = 1000 * EPOCH_MS + round(1e6 * due_s)
        found = [Sent(text.encode(), due_us, queue, group, {}, self.now_s) for text in texts]
        receipts = [(sent, self._sent(sent)) for sent in found]
        for sent, receipt in receipts:
            assert await self.acting.told(sent, receipt), f"{sent} is not stored"
        return found

    def _sent(self, sent: Sent) -> Any:
        assert self._process is not None, "it is open"
        assert self._producer is not None, "it is open"
        producer = self._producer
        self.world.history.sent[sent.body] = sent
        due = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=sent.due_us)
        message = Message(sent.body, message_group=sent.group, delivery_timestamp=due)
        return self._process.call(lambda: producer.send(message, queue=sent.queue))

    async def recall(self, sent: Sent) -> Outcome:
        """By a process of its own."""
        process = self.world.kernel.process("recaller")
        lake = self.world.lake(process)
        return await process.run(self.acting.recall(lake, self.world.cells(process, lake), sent))

    async def maintain(self) -> None:
        """Every step of both topics once."""
        process = self.world.kernel.process("upkeep")
        lake = self.world.lake(process)
        assert not await process.run(maintain(lake, self.world.cells(process, lake)))

    async def month(self) -> None:
        """Let others write to the topic, a little each day, until a name that nobody used is forgotten."""
        process = self.world.kernel.process("others")
        lake = self.world.lake(process)
        for day in range(32):  # a topic's time goes on by a day at most with an entry
            await asyncio.sleep(DAY_S)
            producer = await process.run(lake.producer(TOPIC, name=f"other-{day}", copies=True))
            await process.run(producer.close())

    def state(self) -> TimerState:
        """What the cell of the newest life says."""
        written = list(self.world.history.cells.values())
        return written[-1][-1].state if written else TimerState()

    async def fired(self) -> list[bytes]:
        """What is in the topic, in the order of its entries."""
        return [row.body for life in await self.world.arrived.read() for row in life.rows]

    async def until(self, what: str, condition: Callable[[], bool], *, within_s: float = 60.0) -> float:
        """Wait for it; returns how long it took."""
        began_s = self.now_s
        while not condition():
            assert self.now_s - began_s <= within_s, f"not {what} within {within_s:g} s: {self.state()}"
            await asyncio.sleep(min(1.0, within_s / 6_000))
        return self.now_s - began_s

    def hold(self, number: int, verb: str, part: str, side: Any = "before", *, occurrence: int = 1) -> Gate:
        """Hold back a request of a machine's process for a key that contains ``part``."""
        name = self.process(number).name
        return self.world.store.hold(side, process=name, verb=verb, key=lambda key: part in key, occurrence=occurrence)
