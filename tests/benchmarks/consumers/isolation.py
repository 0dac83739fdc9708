"""What one poison message group does to the others: from send to handler, with and without it; S3 profile, virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum

from penstock import ConsumeResult, MessageView
from penstock.consumers import PushOptions
from penstock.log import Message
from tests.benchmarks.consumers.worlds import DYNAMODB, WorkersWorld
from tests.benchmarks.contention import percentile
from tests.benchmarks.figures import Figure, Options
from tests.benchmarks.topics import TOPIC
from tests.benchmarks.virtual import Client

_GROUPS = 100
_POISON = "group-0"
_RATE = 20
"""Messages a second, of which the poison group gets one in ten."""
_WARM_UP_S = 10.0


class Poison(Enum):
    """How the poison group's handlers behave."""

    NONE = "none"
    FAILS = "fails at once, and is run again each second"
    HANGS = "hangs until its time-out of 5 s"
    SLOW = "takes 3 s for each message"


@dataclass(frozen=True)
class Latencies:
    """Of the other groups, from send to handler."""

    all_ms: list[float]
    same_queue_ms: list[float]
    """Of those that share the poison group's queue."""


def measure(options: Options) -> Iterator[Figure]:
    seconds = options.scaled(60, 5)
    seeds = range(1, options.repeats + 1)
    without = [latencies(seed, Poison.NONE, seconds) for seed in seeds]
    yield Figure(
        name="send to handler without a poison group, p99", unit="ms", values=[percentile(run.all_ms, 0.99) for run in without]
    )
    for poison in (Poison.FAILS, Poison.HANGS, Poison.SLOW) if not options.small else (Poison.FAILS,):
        runs = [latencies(seed, poison, seconds) for seed in seeds]
        ratios = [percentile(run.all_ms, 0.99) / percentile(base.all_ms, 0.99) for run, base in zip(runs, without, strict=True)]
        yield Figure(
            name=f"p99 of the others while one group {poison.value}: beside without",
            unit="ratio",
            values=ratios,
            target=None if options.small else 2.0,
            note=f"{_RATE} messages/s in {_GROUPS} groups, one in ten of the poison group; cells in DynamoDB",
        )
        near = [percentile(run.same_queue_ms, 0.99) for run in runs]
        far = [percentile(base.same_queue_ms, 0.99) for base in without]
        yield Figure(
            name=f"the same for the groups in its queue, while one group {poison.value}",
            unit="ratio",
            values=[one / other for one, other in zip(near, far, strict=True)],
            target=None if options.small else 2.0,
        )


def latencies(seed: int, poison: Poison, seconds: int) -> Latencies:
    """Of one run."""
    return _Run(seed, poison, seconds).latencies()


class _Run:
    def __init__(self, seed: int, poison: Poison, seconds: int) -> None:
        self._world = WorkersWorld(seed, DYNAMODB, queues=4)
        self._poison = poison
        self._seconds = seconds
        self._sent_s: dict[bytes, float] = {}
        self._took_ms: dict[bytes, tuple[int, float]] = {}
        """(queue, from send to handler) of the messages of all other groups."""
        self._poison_queue = 0

    def latencies(self) -> Latencies:
        return self._world.run(self._main())

    async def _main(self) -> Latencies:
        world = self._world
        client = await world.create_topic()
        options = PushOptions(consume_timeout=timedelta(seconds=5))
        worker = world.worker("worker", self._handle, options=options)
        await worker.start()
        await world.until_shared([worker])
        start_s = world.now_s
        await client.process.run(self._send(client, start_s + _WARM_UP_S + self._seconds))
        await self._until_all_handled()
        await worker.close()
        measured = [took for body, took in self._took_ms.items() if self._sent_s[body] >= start_s + _WARM_UP_S]
        return Latencies(
            all_ms=[took_ms for _, took_ms in measured],
            same_queue_ms=[took_ms for queue, took_ms in measured if queue == self._poison_queue],
        )

    async def _send(self, client: Client, until_s: float) -> None:
        producer, chance = await client.lake.producer(TOPIC), client.process.runtime.random
        number = 0
        while self._world.now_s < until_s:
            await asyncio.sleep(chance.expovariate(_RATE))
            group = _POISON if chance.random() < 0.1 else f"group-{chance.randrange(1, _GROUPS)}"
            body = b"%d" % number
            number += 1
            if group != _POISON:
                self._sent_s[body] = self._world.now_s
            producer.send(Message(body.rjust(100), group))
        await producer.close()

    async def _until_all_handled(self) -> None:
        while True:
            if len(self._took_ms) == len(self._sent_s):
                return
            await asyncio.sleep(0.1)

    async def _handle(self, message: MessageView) -> ConsumeResult:
        if message.message_group == _POISON:
            return await self._handle_poison(message)
        body = message.body.strip()
        self._took_ms[body] = message.queue, 1000 * (self._world.now_s - self._sent_s[body])
        await asyncio.sleep(0.01)
        return ConsumeResult.SUCCESS

    async def _handle_poison(self, message: MessageView) -> ConsumeResult:
        self._poison_queue = message.queue
        match self._poison:
            case Poison.FAILS:
                return ConsumeResult.FAILURE
            case Poison.HANGS:
                await asyncio.sleep(3600)
            case Poison.SLOW:
                await asyncio.sleep(3)
            case Poison.NONE:
                await asyncio.sleep(0.01)
        return ConsumeResult.SUCCESS
