"""A world whose table loses its last commits while everybody goes on: a standby without them has taken over from the server.

The rules are those of a bucket that is put back (B1 to B3), and of these: N1 a message of an ORDERLY group starts when each before it in its
message group was done or given up, once at least; N2 an owner does not go back in a message group; N3 what the table has as settled is not
started; N4 who starts a message owns its queue by the table. Who has not heard of the failover may go on for a while by what it knows, but
for N1. N5 nobody ends, nor needs an operator.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Coroutine, Iterable, Iterator
from contextlib import suppress
from datetime import timedelta
from itertools import takewhile
from typing import Any, NamedTuple

from penstock.consumers.handlers.results import ConsumeResult
from penstock.consumers.membership import Subscription
from penstock.consumers.simple import SimpleConsumer, SimpleOptions
from penstock.coordinator.cells.cells import WRITE_ID_BYTES
from penstock.coordinator.cells.keys import QUEUES, WORKERS
from penstock.coordinator.groups.record import DeliveryOrder
from penstock.coordinator.queues.cell import MessageState, QueueCell
from penstock.coordinator.queues.codec import decode_cell
from penstock.coordinator.tables import Cell, CellVersion
from penstock.log.errors import PenstockError
from penstock.log.message.message import MessageView
from tests.simulation.consumers.outages import Failing, Outage
from tests.simulation.consumers.plot import TOPIC
from tests.simulation.consumers.records import Line
from tests.simulation.consumers.rewinds import GROUP, Rewinds
from tests.simulation.consumers.standing import Where
from tests.simulation.consumers.witness import Witness
from tests.simulation.faults import Fault
from tests.simulation.process import SimProcess
from tests.simulation.simulated import log_uniform

_UNAWARE_S = 20.0
"""So long, and for a lease, who has not heard of the failover may start what it had granted before: until its first handler ends."""
_COMMITS_MAX = 400


class _Started(NamedTuple):
    """A message that was given to a handler or a receiver."""

    place: tuple[int, int]
    body: bytes
    lane: str | None
    owner: tuple[str, int] | None
    """The process and the epoch, of a handler's that must have heard of the last failover."""
    failovers: int


class _Replicated(Witness):
    """Keeps how it was before each of its last commits."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.commits: deque[tuple[float, str, dict[str, Cell]]] = deque(maxlen=_COMMITS_MAX)
        self._ever_over: set[str] = set()
        """Owners that were over by what was lost: others may still know it."""
        self.struck: set[tuple[int, int]] = set()
        """Queue and offset of what was alone in an owner that died, or was given to a receiver: a strike, whether anybody had it or not."""

    async def put(self, key: str, data: bytes, *, expected: CellVersion | None) -> CellVersion:
        before = self.backup()
        version = await super().put(key, data, expected=expected)
        self.commits.append((self._loop.now, key, before))
        return version

    async def delete(self, key: str, *, expected: CellVersion) -> None:
        before = self.backup()
        await super().delete(key, expected=expected)
        self.commits.append((self._loop.now, key, before))

    def count_of(self, seconds: float) -> int:
        """How many commits there were in the last so many seconds."""
        return sum(at_s > self._loop.now - seconds for at_s, _, _ in self.commits)

    def count_alone(self) -> int:
        """How many there were since the last heartbeat, if one is of a queue's cell: their owners lose no lease with them."""
        keys = [*takewhile(lambda key: not key.startswith(WORKERS), (key for _, key, _ in reversed(self.commits)))]
        return len(keys) if any(key.startswith(QUEUES) for key in keys) else 0

    def lose(self, count: int) -> None:
        """The last commits, so many."""
        *_, before = [self.commits.pop() for _ in range(count)][-1]
        owners = {
            decode_cell(cell.data[WRITE_ID_BYTES:], where=key).owner for key, cell in before.items() if key.startswith(QUEUES)
        }
        self._ever_over |= {owner for owner in owners if owner and self.is_over(owner)}
        self.put_back(before)

    def _saw_cell(self, key: str, body: bytes) -> None:
        line = self._lines[key]
        before = self.cells.get(line, QueueCell())
        super()._saw_cell(key, body)
        after = self.cells[line]
        out = {offset for offset, tries in after.tries.items() if tries.state is MessageState.OUT}
        out |= {marker.head for marker in after.markers.values() if marker.tries.state is MessageState.OUT}
        self.struck |= {(line[2], offset) for offset in out}
        if after.epoch > before.epoch:
            alone = {offset for offset, tries in before.tries.items() if tries.company == 1}
            alone |= {marker.head for marker in before.markers.values() if marker.tries.company == 1}
            self.struck |= {(line[2], offset) for offset in alone}

    def is_over(self, member: str) -> bool:
        return member in self._ever_over or super().is_over(member)


class Failovers(Rewinds):
    """One run of it."""

    def __init__(self, seed: int | str, *args: Any, **more: Any) -> None:
        super().__init__(seed, *args, **more)
        lines: list[Line] = [(GROUP, TOPIC, queue) for queue in range(self.plot.queues)]
        self.witness = self._replicated = _Replicated(self.history, self.kernel.loop, lines, self.store.memory)
        self.table.memory = self.witness
        self._calmed = asyncio.Event()
        """Set once there is no more trouble, but for the last failover."""
        self._failovers = 0
        self._aware_s = 0.0
        """From when on nobody may be unaware of the last failover."""
        self._events: list[_Started | bytes] = []
        """Bytes: a message that was done, or given up."""

    def _actors(self) -> Iterator[Coroutine[Any, Any, None]]:
        self._replicated.commits.clear()  # the group stays
        table = Failing("table", self._down, lambda: self.now_s, self._plans[1])
        table.stand_before(self.table)
        self.table.plan = table
        self._plans = (self._plans[0], table)
        yield self._lives("receiver", self._receive)
        yield self._fail_over_last()

    async def _go_back(self) -> None:
        """Let the server fail, and a standby take over without the last commits, again and again."""
        rng = self.kernel.rng("failovers")
        while self.plot.restores_every_s:
            await asyncio.sleep(rng.expovariate(1 / self.plot.restores_every_s))
            await self._fail_over(self._replicated.count_of(log_uniform(rng, 0.02, 20.0)), away_s=log_uniform(rng, 0.05, 15.0))

    async def _fail_over_last(self) -> None:
        """Once more when nobody sends any more, so that owners have nothing to do."""
        rng = self.kernel.rng("last failover")
        await self._calmed.wait()
        await asyncio.sleep(rng.uniform(0.0, 4.0))
        for _ in range(40 if self.plot.restores_every_s else 0):
            lost = self._replicated.count_alone()
            if lost:
                await self._fail_over(lost, away_s=log_uniform(rng, 0.02, 0.3))
                break
            await asyncio.sleep(0.1)

    async def _fail_over(self, lost: int, *, away_s: float) -> None:
        """Lose so many commits. Nobody is there meanwhile."""
        gone = Outage("table", "table", "", only_writes=False, fault=Fault.UNAVAILABLE, refuses=False)
        self._down.append(gone)
        try:
            if lost:
                self._replicated.lose(lost)
                self.counts["commits lost"] += lost
                self.counts["the server failed over"] += 1
                self._failovers += 1
                self._aware_s = math.inf
            await asyncio.sleep(away_s)
        finally:
            self._down.remove(gone)
            if self._failovers:
                self._aware_s = self.now_s + 1.2 * self.plot.lease_s + _UNAWARE_S

    def _calm(self, troubles: Iterable[asyncio.Future[Any]]) -> None:
        super()._calm(troubles)
        self._calmed.set()

    # --- Who is given what

    async def _behave(self, process: SimProcess, message: MessageView) -> object:
        self._note_start(process, message)
        result = await super()._behave(process, message)
        if result in {ConsumeResult.SUCCESS, ConsumeResult.DEAD_LETTER}:
            self._events.append(message.body)
        return result

    def _note_start(self, process: SimProcess | None, message: MessageView) -> None:
        owner = None
        if self.now_s >= self._aware_s and process is not None:
            owner = (process.name, message.epoch)
            where = f"{self.now_s:.3f} s: {process.name} starts {message.queue}/{message.offset} in epoch {message.epoch}"
            stands, cell = self._stands(message), self.witness.cells[GROUP, TOPIC, message.queue]
            if not cell.owner or cell.epoch != message.epoch:
                self.history.wrong.append(f"N4 {where}, and the cell is {cell.owner!r}'s in epoch {cell.epoch}")
            elif stands.where is Where.DONE:
                self.history.wrong.append(f"N3 {where}, which is settled")
            self.counts["start: by who is aware"] += 1
        elif process is not None and self._failovers:
            now = self.witness.cells.get((GROUP, TOPIC, message.queue))
            self.counts["start: by who is not aware"] += now is None or now.epoch != message.epoch
        place = (message.queue, message.offset)
        self._events.append(_Started(place, message.body, message.message_group, owner, self._failovers))

    async def _receive(self, process: SimProcess) -> None:
        """A member that takes messages now and then, and lets some expire."""
        rng = self.kernel.rng(f"receiving/{process.name}")
        lake, coordination = self.lake(process), self.coordination(process)
        while self.plot.receives and not self.quiet:
            await asyncio.sleep(rng.expovariate(0.3))
            stated = {"delivery_order": self.plot.groups[GROUP].order}
            consumer = SimpleConsumer(
                lake, coordination, group=GROUP, subscriptions={TOPIC: Subscription()}, stated=stated, options=SimpleOptions()
            )
            try:
                await consumer.start()
                for _ in range(rng.randint(1, 6)):
                    for message in await consumer.receive(4, timedelta(seconds=10), timedelta(seconds=2)):
                        self._note_start(None, message)
                        self._given_up.add(message.body)  # it may expire as often as it may be tried
                        if message.body.startswith(b"bad") or rng.random() < 0.2:
                            self._events.append(message.body)
                            continue
                        self._done.add(message.body)
                        self._events.append(message.body)
                        with suppress(PenstockError):
                            await consumer.ack(message)
            except PenstockError as error:
                self.check_expected("receiver", error)
            with suppress(PenstockError):
                await consumer.close()
        for work in (coordination.close(), lake.close()):
            with suppress(PenstockError):
                await work

    def check_expected(self, who: str, error: PenstockError, *, allowed: bool = False, begun: bool = False) -> None:
        super().check_expected(who, error, allowed=allowed, begun=begun)
        if error.kind == "inconsistent_restore":
            self.history.wrong.append(f"N5 {self.now_s:.3f} s: {who} ends: {error}")

    # --- The judge

    def _judge(self) -> Iterator[str]:
        self._lost.update(self._bodies[place] for place in self._replicated.struck & self._bodies.keys())
        yield from super()._judge()
        if self.plot.groups[GROUP].order is not DeliveryOrder.ORDERLY:
            return
        over = set(self._letters)
        lanes: dict[tuple[int, str | None], list[tuple[int, bytes]]] = {}
        for (queue, offset), body in sorted(self._bodies.items()):
            lanes.setdefault((queue, self._groups_of[queue, offset]), []).append((offset, body))
        last: dict[tuple[Any, ...], int] = {}
        for event in self._events:
            if isinstance(event, bytes):
                over.add(event)
                continue
            queue, offset = event.place
            before = [body for other, body in lanes[queue, event.lane] if other < offset and body not in over]
            if before:
                yield f"N1 {event.body!r} at {queue}/{offset} starts before {before[:3]}"
            if event.owner is not None:
                key = (event.owner, queue, event.lane, event.failovers)
                if offset < last.get(key, -1):
                    yield f"N2 {event.body!r} at {queue}/{offset} starts after {last[key]} in {event.owner}"
                last[key] = max(offset, last.get(key, -1))
