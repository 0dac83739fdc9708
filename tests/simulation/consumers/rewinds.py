"""A world whose bucket is put back to an older state while the cells of its consumer group stay as they are; everybody is stopped for it.

Each body is one message's for ever, so a message that was written at an offset of before is seen to be another one. The rules: B1 what the log
holds in the end was done, or given up; B2 what was given up since the bucket was put back has a dead letter, or was done after all; B3
a dead letter is a message that was given up, by its handler or because its last attempt came to no good end.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections import Counter
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from typing import Any

from penstock.consumers.feed.rows import group_hash
from penstock.consumers.handlers.results import ConsumeResult
from penstock.coordinator.operators.operators import Operators
from penstock.log.errors import PenstockError, TopicNotFound
from penstock.log.lake import LogLake
from penstock.log.message.message import Message, MessageView
from penstock.log.stores.memory import MemoryStore
from tests.simulation.consumers.judge import TIMED
from tests.simulation.consumers.plot import TOPIC
from tests.simulation.consumers.restores import stop
from tests.simulation.consumers.standing import Standing, standing
from tests.simulation.consumers.world import _PROMPT, Consuming
from tests.simulation.process import SimProcess
from tests.simulation.simulated import log_uniform

GROUP = "billing"
_KINDS = ("good", "good", "good", "good", "slow", "fails", "bad")


class Rewinds(Consuming):
    """One run of it."""

    def __init__(self, seed: int | str, *args: Any, **more: Any) -> None:
        super().__init__(seed, *args, **more)
        self.behave = self._behave
        self._sending = asyncio.Event()
        self._sending.set()
        self._producer: SimProcess | None = None
        self._refused = asyncio.Event()
        """A consumer ended, as what was put back does not fit together."""
        self._sent = 0
        self._done: set[bytes] = set()
        self._given_up: set[bytes] = set()
        self._given_up_before: set[bytes] = set()
        """Before the bucket was put back: their dead letters may have gone with it."""
        self._unwell: Counter[bytes] = Counter()
        """Handlers that have not succeeded in time, or not yet."""
        self._lost: Counter[bytes] = Counter()
        """Of these, the last attempts that count although no handler said so."""
        self._lost_before: set[bytes] = set()
        """Before the bucket was put back, and not begun since."""
        self._bodies: dict[tuple[int, int], bytes] = {}
        self._letters: set[bytes] = set()
        self._epochs: dict[int, int] = {}
        """By queue, when the bucket was put back last: who has not taken it since has not looked at the log."""

    def _judged(self) -> list[str]:
        return [*self.history.wrong, *self._judge()]

    async def _main(self) -> None:
        await self._as("founder", self._found)
        self.store.plan, self.table.plan = self._plans
        for machine in self.machines:
            machine.start()
        producing = asyncio.ensure_future(self._lives("producer", self._produce))
        mending = asyncio.ensure_future(self._mend())
        acting = [asyncio.ensure_future(work) for work in self._actors()]
        others = [asyncio.ensure_future(work) for work in (self._struck(), self._go_back())]
        lives = [life for machine in self.machines if (life := machine.life) is not None]
        done, _ = await asyncio.wait([*lives, mending], timeout=self.plot.faults_end_s, return_when=asyncio.FIRST_EXCEPTION)
        for life in done:
            life.result()
        self._calm(others)
        for actor in (producing, *acting):
            await self._within(self.plot.quiet_s, actor, "the producer, or another actor")
        await self.store.settled()
        await self._as("looker", self._look)
        await self._all_settled(self.now_s)
        await self._stop_machines()
        mending.cancel()
        self.store.plan = self.table.plan = None
        await self._as("auditor", self._audit)
        self.counts["simulated seconds"] += round(self.now_s)

    def unsettled(self) -> list[str]:
        cells = {line[2]: cell for line, cell in self.witness.cells.items()}
        since = [queue for queue, epoch in self._epochs.items() if cells[queue].epoch <= epoch]
        beyond = [queue for queue, count in self._known.items() if queue in cells and cells[queue].settled.floor > count]
        return [
            *super().unsettled(),
            *(f"queue {queue} was not taken since the bucket was put back" for queue in since),
            *(f"queue {queue} is settled beyond the end of the log" for queue in beyond),
        ]

    # --- Who does what ----------------------------------------------------------------------------------------------------------

    def _actors(self) -> Iterator[Coroutine[Any, Any, None]]:
        """What others do until all is quiet, beside machines and the producer."""
        return iter(())

    async def _go_back(self) -> None:
        """Put the bucket back to how it was a while before; who begins first then is drawn."""
        rng = self.kernel.rng("rewinds")
        while self.plot.restores_every_s:
            await asyncio.sleep(rng.expovariate(1 / self.plot.restores_every_s))
            backup = dict(self.store.memory._objects)
            await asyncio.sleep(log_uniform(rng, 0.2, 20.0))
            self._sending.clear()
            self.open.clear()
            try:
                if self._producer is not None:
                    self._producer.crash()
                await stop(self, in_order=rng.random() < 0.5)
                await self.store.settled()
                put_back(self.store.memory, backup)
                self._given_up_before |= self._given_up
                self._lost_before |= (+self._lost).keys()
                self._epochs = {line[2]: cell.epoch for line, cell in self.witness.cells.items()}
                self.counts["the bucket was put back"] += 1
                first = rng.choice([self._sending, self.open])
                first.set()
                await asyncio.sleep(log_uniform(rng, 0.1, 30.0))
            finally:
                self._sending.set()
                self.open.set()

    async def _mend(self) -> None:
        """Do what the error of a consumer says."""
        while True:
            await self._refused.wait()
            await self._as("mender", self._reset)
            self._refused.clear()
            self.counts["the group was reset"] += 1

    async def _reset(self, process: SimProcess) -> None:
        lake, coordination = self.lake(process), self.coordination(process)
        await Operators(lake, coordination).reset(GROUP, TOPIC, "earliest")
        await coordination.close()
        await lake.close()

    async def _behave(self, _: SimProcess, message: MessageView) -> object:
        rng, body, began_s = self.kernel.rng(f"message/{message.body!r}"), message.body, self.now_s
        self._unwell[body] += 1
        self._lost_before.discard(body)
        stands = self._stands(message)
        is_last = min(stands.strikes + 1, self._unwell[body]) >= (self.plot.groups[GROUP].max_attempts or math.inf)
        counts_alone = is_last and stands.alone
        self._lost[body] += counts_alone  # until it ends: a process that dies says no more
        kind = body.split()[0]
        try:
            await asyncio.sleep(log_uniform(rng, 1.0, 12.0) if kind == b"slow" else log_uniform(rng, *self.plot.work_s))
        except asyncio.CancelledError:
            self._lost[body] += is_last - counts_alone
            raise
        overdue = self.now_s - began_s > TIMED * self.plot.timeout_s
        self._lost[body] += (is_last and overdue) - counts_alone
        if kind == b"bad":
            self._given_up.add(body)
            self._given_up_before.discard(body)
            return ConsumeResult.DEAD_LETTER
        if kind == b"fails" and message.delivery_attempt == 1:
            return ConsumeResult.FAILURE
        self._unwell[body] -= not overdue
        self._done.add(body)
        return ConsumeResult.SUCCESS

    def _stands(self, message: MessageView) -> Standing:
        cell = self.witness.cells[GROUP, TOPIC, message.queue]
        return standing(cell, message.offset, group_hash(message.message_group, self.witness.secret(GROUP)))

    async def _produce(self, process: SimProcess) -> None:
        self._producer = process
        rng = self.kernel.rng(f"producing/{process.name}")
        await self._sending.wait()
        lake = self.lake(process)
        while not self.quiet:
            with suppress(PenstockError):
                await self._send_some(lake, rng)
            await asyncio.sleep(rng.expovariate(0.5))
        with suppress(PenstockError):
            await lake.close()

    async def _send_some(self, lake: LogLake, rng: random.Random) -> None:
        producer = await lake.producer(TOPIC, options=_PROMPT)
        try:
            for _ in range(rng.randint(1, 6)):
                body = f"{rng.choice(_KINDS)} {self._sent}".encode()
                self._sent += 1
                producer.send(Message(body, message_group=f"g{rng.randrange(self.plot.message_groups)}"))
        finally:
            with suppress(PenstockError):
                await producer.close()

    # --- The end ----------------------------------------------------------------------------------------------------------------

    async def _look(self, process: SimProcess) -> None:
        await super()._look(process)
        lake = self.lake(process)
        async for message in (await lake.reader(TOPIC)).messages():
            self._bodies[message.queue, message.offset] = message.body
        await lake.close()

    async def _audit(self, process: SimProcess) -> None:
        lake = self.lake(process)
        with suppress(TopicNotFound):
            async for message in (await lake.reader(f"%DLQ%{GROUP}")).messages():
                self._letters.add(message.body)
        await lake.close()

    def check_expected(self, who: str, error: PenstockError, *, allowed: bool = False, begun: bool = False) -> None:
        super().check_expected(who, error, allowed=allowed)
        if error.kind == "inconsistent_restore":
            self._refused.set()

    def _judge(self) -> Iterator[str]:
        self.counts["dead letters"] += len(self._letters)
        lost = (+self._lost).keys()
        for (queue, offset), body in self._bodies.items():
            if body not in self._done | self._given_up | lost & self._letters | self._lost_before:
                yield f"B1 {body!r} at {queue}/{offset} was neither done nor given up"
            elif body not in self._done | self._letters | self._given_up_before | self._lost_before:
                yield f"B2 {body!r} at {queue}/{offset} was given up, and has no dead letter"
        for body in sorted(self._letters - self._given_up - lost):
            yield f"B3 {body!r} is a dead letter, and nobody gave it up"


def put_back(memory: MemoryStore, objects: dict[str, Any]) -> None:
    """Let these be all that there is. No version comes twice, whatever was written meanwhile."""
    memory._objects, memory._keys = dict(objects), sorted(objects)
