"""How long a queue stands still when its worker dies, leaves or makes room for a new one; S3 profile, virtual time.

Three workers share 12 queues, each of which gets 10 messages a second. Handlers take 20 to 80 ms. A queue's pause is from the last sign of its
old owner (its death, or the end of its last handler) to its new owner's first handler.

The same with a backlog, where every worker has more than its threads can do: then a queue that is taken over also waits for its turn.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from penstock import ConsumeResult, MessageView
from penstock.consumers import PushOptions
from penstock.coordinator.workers.lease import MARGIN
from penstock.log import LogLake, Message
from tests.benchmarks.consumers.worlds import DYNAMODB, PLACES, Place, Worker, WorkersWorld
from tests.benchmarks.figures import Figure, Options
from tests.benchmarks.rows import BODY, arrow_rows
from tests.benchmarks.topics import TOPIC

QUEUES = 12
WORKERS = 3
_GROUPS = 600
_PERIOD_S = 0.1
_BACKLOG = 60_000
_THREADS = 8
_BUSY_S = 10.0


class Event(Enum):
    """What happens to a worker."""

    KILL = "failover after a kill"
    LEAVE = "hand-over as a worker leaves"
    JOIN = "hand-over as a worker joins"


@dataclass(frozen=True, slots=True)
class Handled:
    """A handler's run."""

    worker: str
    from_s: float
    until_s: float


def measure(options: Options) -> Iterator[Figure]:
    seeds = range(1, 2 if options.small else 2 * options.repeats + 1)
    for place in PLACES if not options.small else (DYNAMODB,):
        for backlog in (False, True) if place is DYNAMODB and not options.small else (False,):
            where = f"cells in {place.name}" + (", with a backlog" if backlog else "")
            for event in Event:
                pauses = [pauses_s(seed, place, event, backlog=backlog) for seed in seeds]
                target = None if backlog else allowed_s(place, event)
                note = f"lease {place.lease_s:g} s" if event is Event.KILL else "no message ran twice"
                yield from _figures(f"{event.value}, {where}", pauses, target, note)


def allowed_s(place: Place, event: Event) -> float:
    """How long a queue may stand still."""
    return place.lease_s * (1 + MARGIN) + 1 if event is Event.KILL else 1.0


def pauses_s(seed: int, place: Place, event: Event, *, backlog: bool = False) -> list[float]:
    """How long each queue that changed hands stood still."""
    return _Run(seed, place, backlog=backlog).pauses_s(event)


def _figures(name: str, runs: list[list[float]], target: float | None, note: str) -> Iterator[Figure]:
    worst = max(max(run) for run in runs)
    everything = [pause for run in runs for pause in run]
    yield Figure(name=f"{name}, a queue's pause", unit="s", values=everything, note=f"{len(everything)} queues in {len(runs)} runs")
    yield Figure(name=f"{name}, the worst queue's", unit="s", values=[worst], target=target, note=note)


class _Run:
    def __init__(self, seed: int, place: Place, *, backlog: bool = False) -> None:
        self.world = WorkersWorld(seed, place, queues=QUEUES)
        self.backlog = backlog
        self.handled: dict[int, list[Handled]] = defaultdict(list)
        """By queue, in the order in which handlers began."""
        self.times: dict[tuple[int, int], int] = defaultdict(int)
        """How often each message was handled to its end."""
        self.workers: list[Worker] = []

    def pauses_s(self, event: Event) -> list[float]:
        happens = {Event.KILL: self.kill, Event.LEAVE: self.leave, Event.JOIN: self.join}[event]

        async def main() -> list[float]:
            client = await self.world.create_topic()
            producing = client.process.spawn(self._produce(client.lake))
            self.workers = [self._worker(number) for number in range(WORKERS)]
            await asyncio.gather(*(worker.start() for worker in self.workers))
            await self.world.until_shared(self.workers)
            await asyncio.sleep(self.world.kernel.rng("when").uniform(_BUSY_S, 2 * _BUSY_S))
            pauses = await happens()
            producing.cancel()
            for worker in self.workers:
                await worker.close()
            return pauses

        return self.world.run(main())

    async def _produce(self, lake: LogLake) -> None:
        producer = await lake.producer(TOPIC)
        if self.backlog:
            await producer.send_batch(arrow_rows(_BACKLOG, groups=_GROUPS))
            return
        chance = self.world.kernel.rng("groups")
        while True:
            await asyncio.sleep(_PERIOD_S)
            for _ in range(QUEUES):
                producer.send(Message(BODY, f"group-{chance.randrange(_GROUPS)}"))

    def _worker(self, number: int) -> Worker:
        name = f"worker-{number}"
        chance = self.world.kernel.rng(f"handlers/{name}")

        async def handle(message: MessageView) -> ConsumeResult:
            began_s = self.world.now_s
            await asyncio.sleep(chance.uniform(0.02, 0.08))
            self.handled[message.queue].append(Handled(name, began_s, self.world.now_s))
            self.times[message.queue, message.offset] += 1
            return ConsumeResult.SUCCESS

        return self.world.worker(name, handle, options=PushOptions(threads=_THREADS))

    async def kill(self) -> list[float]:
        victim, died_s = self.workers.pop(0), self.world.now_s
        queues = [one.queue for one in victim.consumer.statistics().queues]
        victim.kill()
        firsts = await asyncio.gather(*(self._first(queue, victim.name, died_s) for queue in queues))
        return [first.from_s - died_s for first in firsts]

    async def leave(self) -> list[float]:
        leaver, began_s = self.workers.pop(0), self.world.now_s
        queues = [one.queue for one in leaver.consumer.statistics().queues]
        await leaver.close()
        return await self._handed_over(queues, leaver.name, began_s)

    async def join(self) -> list[float]:
        before = {one.queue: worker.name for worker in self.workers for one in worker.consumer.statistics().queues}
        joiner, began_s = self._worker(WORKERS), self.world.now_s
        await joiner.start()
        await self.world.until_shared([*self.workers, joiner])
        self.workers.append(joiner)
        moved = [one.queue for one in joiner.consumer.statistics().queues]
        return [pause for queue in moved for pause in await self._handed_over([queue], before[queue], began_s)]

    async def _handed_over(self, queues: list[int], owner: str, began_s: float) -> list[float]:
        pauses = []
        for queue in queues:
            first = await self._first(queue, owner, began_s)
            last_s = max(run.until_s for run in self.handled[queue] if run.worker == owner)
            pauses.append(max(0.0, first.from_s - last_s))
        twice = [message for message, times in self.times.items() if times > 1]
        assert not twice, f"handled twice: {twice[:5]}"
        return pauses

    async def _first(self, queue: int, owner: str, from_s: float) -> Handled:
        """The first handler of a queue that another than ``owner`` ran since ``from_s``."""
        async with asyncio.timeout(120):
            while True:
                found = [run for run in self.handled[queue] if run.worker != owner and run.from_s >= from_s]
                if found:
                    return min(found, key=lambda run: run.from_s)
                await asyncio.sleep(0.05)
