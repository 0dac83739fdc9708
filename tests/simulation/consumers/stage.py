"""A calm world with consumers, moved by hand: one interleaving at a time, and the sweep's judge at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from datetime import timedelta
from typing import Any

from penstock.consumers.handlers.results import ConsumeResult
from penstock.coordinator.operators.operators import Operators
from penstock.coordinator.queues.cell import QueueCell
from penstock.log.lake import LogLake
from penstock.log.message.message import Message, MessageView
from penstock.log.produce.accumulator import ProducerOptions
from tests.simulation.consumers.machine import Machine
from tests.simulation.consumers.plot import CALM, TOPIC, GroupPlan, Plot
from tests.simulation.consumers.records import Ended, Send, Started
from tests.simulation.consumers.world import Consuming
from tests.simulation.network import Network
from tests.simulation.process import SimProcess
from tests.simulation.requests import Gate
from tests.simulation.small import small_log

GROUP = "billing"
STEADY_STORE = Network(
    latency_ms=dict.fromkeys(("put", "put_large", "get", "get_range", "list", "list_folders", "delete", "clock"), (10.0, 10.0)),
    very_slow=0.0,
)
STEADY_TABLE = Network(latency_ms=dict.fromkeys(("put", "get", "delete", "keys"), (5.0, 5.0)), very_slow=0.0, time_out_s=2.0)
FAR_TABLE = replace(STEADY_TABLE, latency_ms=dict.fromkeys(STEADY_TABLE.latency_ms, (50.0, 50.0)))
"""So that more goes with each write: a large cell takes this interpreter a while."""

Behaviour = Callable[[SimProcess, MessageView], Awaitable[object]]


class Stage:
    """One world. `play` a script on it."""

    def __init__(
        self, plan: GroupPlan | None = None, *, queues: int = 1, machines: int = 1, table: Network | None = None, **plot: Any
    ) -> None:
        self.world = Consuming(
            1,
            Plot(
                groups={GROUP: plan or GroupPlan()}, queues=queues, machines=machines, tempers=CALM, offset_ms=0, drift=0.0, **plot
            ),
            store_network=STEADY_STORE,
            table_network=table or STEADY_TABLE,
        )
        self.machines = self.world.machines
        self._lake: LogLake | None = None
        self._producer: Any = None
        self._process: SimProcess | None = None

    def play(self, script: Callable[[], Coroutine[Any, Any, None]], *, behave: Behaviour | None = None) -> Consuming:
        """Play, let everything come to rest, and fail for whatever the judge finds wrong."""
        self.world.behave = behave
        with small_log():
            wrong = self.world.play(script)
        assert not wrong, "\n".join(wrong)
        return self.world

    @property
    def now_s(self) -> float:
        return self.world.now_s

    def process(self, number: int = 0) -> SimProcess:
        """The one that runs on a machine now."""
        process = self.machines[number].process
        assert process is not None, "the machine was started"
        return process

    def start(self, *numbers: int) -> None:
        for number in numbers or range(len(self.machines)):
            self.machines[number].start()

    async def send(self, *texts: str, group: str = "g", queue: int | None = None) -> None:
        """Have messages stored, in this order."""
        await self._open()
        for text in texts:
            await self._sent(text.encode(), self._sending(text, group, queue))

    async def _open(self) -> None:
        if self._producer is None:
            self._process = self.world.kernel.process("sender")
            self._lake = self.world.lake(self._process)
            options = ProducerOptions(linger=timedelta(0), delivery_timeout=timedelta(seconds=60))
            self._producer = await self._process.run(self._lake.producer(TOPIC, options=options))

    async def send_together(self, *texts: str, group: str | None = "g", queue: int | None = None) -> None:
        """The same in few requests; None: each text is a message group of its own."""
        await self.send_of_groups(*((text, group or text) for text in texts), queue=queue)

    async def send_of_groups(self, *pairs: tuple[str, str], queue: int | None = None) -> None:
        """The same, with the message group of each."""
        await self._open()
        receipts = [(text.encode(), self._sending(text, group, queue)) for text, group in pairs]
        for body, receipt in receipts:
            await self._sent(body, receipt)

    def _sending(self, text: str, group: str, queue: int | None) -> Any:
        assert self._process is not None, "the producer is open"
        return self._process.call(lambda: self._producer.send(Message(text.encode(), message_group=group), queue=queue))

    async def _sent(self, body: bytes, receipt: Any) -> None:
        result = await receipt
        self.world.history.sends.append(Send(body, (TOPIC, result.queue, result.offset)))

    async def operate(self, order: Callable[[Operators], Awaitable[Any]]) -> Any:
        """Let an operator order something."""
        process = self.world.kernel.process("operator")
        lake, coordination = self.world.lake(process), self.world.coordination(process)

        async def work() -> Any:
            return await order(Operators(lake, coordination))

        return await process.run(work())

    def cell(self, queue: int = 0) -> QueueCell:
        """As it stands, with all that waits outside of it."""
        return self.world.witness.cells.get((GROUP, TOPIC, queue), QueueCell())

    def bare(self, queue: int = 0) -> QueueCell:
        """As it stands."""
        return self.world.witness.bare.get((GROUP, TOPIC, queue), QueueCell())

    def started(self, offset: int, queue: int = 0) -> int:
        """How many handlers were given this message."""
        return sum(
            (token.queue, token.offset) == (queue, offset)
            for record in self.world.history.records
            if isinstance(record, Started)
            for token in record.tokens
        )

    def ended(self) -> int:
        """How many handlers have ended."""
        return sum(isinstance(record, Ended) for record in self.world.history.records)

    async def until(self, what: str, condition: Callable[[], bool], *, within_s: float = 60.0) -> float:
        """Wait for it; returns how long it took."""
        began_s = self.now_s
        while not condition():
            assert self.now_s - began_s <= within_s, (
                f"not {what} within {within_s:g} s: {[self.cell(q) for q in range(self.world.plot.queues)]}"
            )
            await asyncio.sleep(0.01)
        return self.now_s - began_s

    def is_settled(self, count: int, queue: int = 0) -> bool:
        """Whether the first messages of a queue are done, and nothing waits."""
        cell = self.cell(queue)
        return cell.settled.floor >= count and not cell.tries and not cell.markers and not cell.dead_letters.assigned

    def hold(self, number: int, verb: str, part: str, side: Any = "before", *, occurrence: int = 1) -> Gate:
        """Hold back a request of a machine's process for a cell whose key contains ``part``."""
        name = self.process(number).name
        return self.world.table.hold(side, process=name, verb=verb, key=lambda key: part in key, occurrence=occurrence)

    def machine(self, number: int = 0) -> Machine:
        return self.machines[number]


SUCCESS = ConsumeResult.SUCCESS
FAILURE = ConsumeResult.FAILURE
