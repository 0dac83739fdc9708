"""Clients of gateways that number what they send, and send again, elsewhere, what they have no answer for."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import numpy as np
import pyarrow as pa

from penstock.log.append.in_flight import AppendResult
from penstock.log.errors import NotWritten
from penstock.log.format.idempotence import SEQUENCES
from penstock.log.lake import LogLake
from penstock.log.message.batch_rows import BatchQueues, MessageIds
from penstock.log.produce.idempotent_appender import IdempotentAppender
from penstock.log.produce.idempotent_batches import AppendedBatches, BatchAnswer, BatchStatus, IdempotentBatch
from penstock.log.produce.receipts import BatchFuture, Receipt, SettledBatch
from tests.simulation.log.actors import Follower, Maintainer, Role, Sender
from tests.simulation.log.careless import Careless
from tests.simulation.log.history import Send, Session
from tests.simulation.log.world import TOPIC, World
from tests.simulation.network import Network
from tests.simulation.plans import DAY_S, HOUR_S, rng_of, swarm
from tests.simulation.process import SimProcess
from tests.simulation.simulated import Nemesis, log_uniform

IN_FLIGHT = 5
DELIVERY_TIMEOUT_S = 120.0
"""How long a client tries, as Kafka's do."""
STALE_S = 60.0
"""Older requests are answered by nobody: who wrote them has given them up, or sent them elsewhere."""
_IN_THE_LOG = {BatchStatus.WRITTEN, BatchStatus.DUPLICATE}


@dataclass(eq=False, slots=True)
class Request:
    """One batch on its way to a gateway."""

    batch: IdempotentBatch
    queue: int
    bodies: Sequence[bytes]
    sent_s: float
    answer: asyncio.Future[BatchAnswer]
    given_up: bool = False


class Gateway(Role):
    """Appends what clients sent: all that has gathered at once."""

    endless = True

    def __init__(
        self, name: str, *, gather_s: tuple[float, float] = (0.001, 0.05), timeout_s: tuple[float, float] = (0.5, 100.0)
    ) -> None:
        super().__init__(name)
        self._gather_s, self._timeout_s = gather_s, timeout_s
        self._requests: list[Request] = []
        self._came, self._life = asyncio.Event(), object()

    def goal(self, world: World) -> bool:
        return False

    def connect(self) -> object:
        """What a client sends by: it breaks with the process, and when a request is not served."""
        return self._life

    def take(self, request: Request, connection: object) -> None:
        if connection is self._life:
            self._requests.append(request)
            self._came.set()

    async def attempt(self, world: World, lake: LogLake, process: SimProcess) -> None:
        self._requests, self._came, self._life = [], asyncio.Event(), object()
        appender = IdempotentAppender(await lake.topic(TOPIC, writable=True))
        rng = process.runtime.random
        assert isinstance(rng, random.Random)
        try:
            while not self.stopping:
                await self._came.wait()
                await asyncio.sleep(log_uniform(rng, *self._gather_s))
                self._came.clear()
                requests, self._requests = self._requests, []
                now_s = process.runtime.clock.wall_ms() / 1000 - process.clock.offset_ms / 1000
                if any(now_s - one.sent_s >= STALE_S for one in requests):
                    self._life = object()
                    continue
                if alive := [one for one in requests if not one.given_up]:
                    process.spawn(self._answer(world, alive, self._append(appender, alive, rng)))
        finally:
            appender.close()

    def _append(self, appender: IdempotentAppender, requests: list[Request], rng: random.Random) -> Awaitable[AppendedBatches]:
        batches, bodies, queues = [], list[bytes](), list[int]()
        for one in requests:
            batches.append(IdempotentBatch(one.batch.producer, one.batch.epoch, one.batch.sequence, len(bodies), one.batch.count))
            bodies += one.bodies
            queues += [one.queue] * len(one.bodies)
        table = pa.table({"body": bodies, "queue": pa.array(queues, pa.int32()), "message_group": ["g"] * len(bodies)})
        timeout = timedelta(seconds=log_uniform(rng, *self._timeout_s))
        return appender.append(table, batches, timeout=timeout)

    async def _answer(self, world: World, requests: list[Request], append: Awaitable[AppendedBatches]) -> None:
        found = await append
        world.counts["idempotent append"] += 1
        world.counts["idempotent append of several"] += len(requests) > 1
        for one, answer in zip(requests, found.batches, strict=True):
            world.counts[f"idempotent: {answer.status}"] += 1
            if not one.answer.done():
                one.answer.set_result(answer)


@dataclass(eq=False, slots=True)
class Told:
    """What the sends of one batch share."""

    future: BatchFuture = field(default_factory=BatchFuture)
    ids: MessageIds = field(default_factory=lambda: MessageIds(0, 0))


@dataclass(eq=False, slots=True)
class Unacknowledged:
    """A batch that its client has no good answer for yet."""

    sequence: int
    bodies: Sequence[bytes]
    told: Told
    since_s: float | None = None
    """When it was first sent."""
    is_unsure: bool = False
    """Whether some try may have written it."""


class Client(Role):
    """Sends to one queue, up to five batches at once. Each life of its process is a producer of its own. What is given up ends the epoch."""

    def __init__(
        self,
        name: str,
        gateways: Sequence[Gateway],
        *,
        queue: int,
        batches: int,
        think_s: tuple[float, float] = (0.001, 0.5),
        request_s: tuple[float, float] = (0.2, 30.0),
    ) -> None:
        super().__init__(name)
        self._gateways, self._queue, self._left = gateways, queue, batches
        self._think_s, self._request_s = think_s, request_s
        self._lives = 0

    def goal(self, world: World) -> bool:
        return self._left <= 0

    async def attempt(self, world: World, lake: LogLake, process: SimProcess) -> None:
        self._lives += 1
        rng = process.runtime.random
        assert isinstance(rng, random.Random)
        await _Producer(world, process, self, f"{self.name}.{self._lives}", rng).send_all()

    def next_batch(self) -> bool:
        self._left -= 1
        return self._left >= 0


class _Producer:
    """One producer, epoch after epoch."""

    def __init__(self, world: World, process: SimProcess, client: Client, producer: str, rng: random.Random) -> None:
        self._world, self._process, self._client, self._producer, self._rng = world, process, client, producer, rng
        self._gateway = rng.choice(client._gateways)
        self._epoch = -1
        self._unacknowledged: list[Unacknowledged] = []
        self._records = 0
        self._begin_epoch(rng.choice([0, 0, SEQUENCES - 4]))

    async def send_all(self) -> None:
        while not self._client.stopping:
            while len(self._unacknowledged) < self._rng.randint(1, IN_FLIGHT) and self._client.next_batch():
                self._form()
            if not self._unacknowledged:
                return
            await self._round()
            await asyncio.sleep(log_uniform(self._rng, *self._client._think_s))

    def _begin_epoch(self, sequence: int) -> None:
        self._epoch += 1
        self._sequence = sequence
        self._session = Session(self._process.name, f"{self._producer}/{self._epoch}", named=False, generation=1)
        self._world.history.sessions.append(self._session)

    def _form(self) -> None:
        bodies = [f"{self._producer}/{self._client._queue}/{self._records + n}".encode() for n in range(self._rng.randint(1, 4))]
        if self._rng.random() < 0.03:  # too large for an entry that others share
            bodies[0] += b"." + self._rng.randbytes(20_000)
        told = Told()
        for index, body in enumerate(bodies):
            receipt = Receipt.__new__(Receipt)
            receipt.batch, receipt.index = told, index
            self._session.sends.append(Send(body, receipt, is_placed=True))
        self._unacknowledged.append(Unacknowledged(self._sequence, bodies, told))
        self._records += len(bodies)
        self._sequence = (self._sequence + len(bodies)) % SEQUENCES

    async def _round(self) -> None:
        """Send all that has no answer, in order, and hear the answers until one is not good."""
        if self._gave_up():
            return
        sent: list[tuple[Unacknowledged, Request]] = []
        slow, connection = self._rng.random() < 0.3, self._gateway.connect()
        for one in self._unacknowledged:
            if slow and sent:
                await asyncio.sleep(log_uniform(self._rng, 0.001, 3.0))
            if self._is_late(one):
                break
            sent.append((one, self._send(one, connection)))
        good = True
        for one, request in sent:
            answer = await self._heard(request) if good else None
            if answer is None or answer.status not in _IN_THE_LOG:
                one.is_unsure |= answer is None or answer.status is BatchStatus.UNKNOWN
                self._judge(one, answer)
                good = False
                continue
            self._acknowledge(one, answer)
        if not good:
            self._world.counts["idempotent: sent again"] += 1
            for _, request in sent:
                request.given_up = True
            if self._rng.random() < 0.7:
                self._gateway = self._rng.choice(self._client._gateways)

    def _send(self, one: Unacknowledged, connection: object) -> Request:
        batch = IdempotentBatch(self._producer, self._epoch, one.sequence, 0, len(one.bodies))
        now_s = self._now_s()
        one.since_s = now_s if one.since_s is None else one.since_s
        request = Request(batch, self._client._queue, one.bodies, now_s, asyncio.get_running_loop().create_future())
        self._gateway.take(request, connection)
        return request

    async def _heard(self, request: Request) -> BatchAnswer | None:
        done, _ = await asyncio.wait([request.answer], timeout=log_uniform(self._rng, *self._client._request_s))
        return request.answer.result() if done else None

    def _acknowledge(self, one: Unacknowledged, answer: BatchAnswer) -> None:
        self._unacknowledged.remove(one)
        offsets = None if answer.base_offset is None else {self._client._queue: answer.base_offset}
        queues = BatchQueues(np.full(len(one.bodies), self._client._queue, np.int32))
        one.told.future.set_result(SettledBatch(AppendResult(0, 0, offsets), queues))

    def _judge(self, one: Unacknowledged, answer: BatchAnswer | None) -> None:
        """Nobody else has this producer's epochs, and what comes first of what it has no answer for follows all that it has one for."""
        if answer is None:
            return
        is_first = self._unacknowledged[0] is one
        if answer.status is BatchStatus.FENCED or (answer.status is BatchStatus.OUT_OF_ORDER and is_first):
            self._world.history.wrong.append(f"P4 {one.bodies[0]!r} of epoch {self._epoch}: {answer.status}: {answer.error}")

    def _gave_up(self) -> bool:
        if not self._is_late(self._unacknowledged[0]):
            return False
        self._world.counts["idempotent: gave up"] += 1
        for one in self._unacknowledged:
            if not one.is_unsure:
                one.told.future.set_exception(NotWritten("given up"))
        self._unacknowledged.clear()
        self._begin_epoch(0)
        return True

    def _is_late(self, one: Unacknowledged) -> bool:
        return one.since_s is not None and self._now_s() - one.since_s >= DELIVERY_TIMEOUT_S

    def _now_s(self) -> float:
        """By a clock that is right, and goes on while the machine sleeps."""
        return (self._process.runtime.clock.wall_ms() - self._process.clock.offset_ms) / 1000


def idempotent(seed: int | str, *, rate: float = 0.05) -> World:
    """Gateways that die, stall and race, and clients that go from one to another; in a third of the worlds for days, while the log is trimmed."""
    rng = rng_of(seed)
    long = rng.random() < 0.35
    world = World(
        seed,
        plan=swarm(seed, rate),
        network=Network(pause_s=(0.5, 8 * HOUR_S if long else 300.0), late_s=(0.5, 600.0)),
        queues=2,
        drift=0.02,
        offset_ms=120_000,
        faults_end_s=2 * DAY_S if long else 300.0,
        nemesis=Nemesis(
            every_s=(HOUR_S if long else rng.choice([3.0, 10.0])) if rate else 0.0,
            pause_s=(0.1, 3 * HOUR_S if long else 300.0),
            wild_step=None,
            crashes=2,
        ),
    )
    gateways = [Gateway(f"g{number}") for number in range(rng.randint(2, 4))]
    for gateway in gateways:
        world.process(gateway.name, gateway)
    think_s = (0.001, log_uniform(rng, 60.0, 4 * HOUR_S) if long else log_uniform(rng, 0.05, 3.0))
    for number in range(rng.randint(2, 5)):
        client = Client(f"c{number}", gateways, queue=rng.randrange(2), batches=rng.randint(10, 40), think_s=think_s)
        world.process(client.name, client)
    world.process("p", Sender("s", bursts=30, think_s=think_s))
    if long:
        world.process("m", Maintainer("m", every_s=(60.0, 2 * HOUR_S)))
    if rate and rng.random() < 0.5:
        world.process("careless", Careless("careless", every_s=(0.1, 3.0)))
    world.process("reader", Follower("reader", idle_s=(1.0, 60.0) if long else (0.05, 2.0)))
    return world
