"""Worlds in which processes consume queues through a feed: each keeps its place through all its lives, and must miss nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pyarrow as pa

from penstock.consumers.feed.feed import Feed
from penstock.log.errors import DataDamaged, OffsetOutOfRange
from penstock.log.lake import LogLake
from tests.simulation.log.actors import Maintainer, Role, Sender, vanishing
from tests.simulation.log.scenarios import lives
from tests.simulation.log.upkeep import damage, expiry
from tests.simulation.log.world import TOPIC, World
from tests.simulation.network import Network
from tests.simulation.plans import DAY_S, HOUR_S, rng_of, swarm
from tests.simulation.process import SimProcess
from tests.simulation.simulated import Nemesis, log_uniform


class Feeder(Role):
    """Takes every queue's messages in order, fast or slowly, whole queues at a time or looking back, until all that was sent is taken."""

    def __init__(
        self, name: str, *, after: Sequence[Role] = (), think_s: tuple[float, float] = (0.001, 10.0), rest_s: float = 0.01
    ) -> None:
        super().__init__(name)
        self._after = after
        self._think_s = think_s
        self._rest_s = rest_s
        """How long at most it looks no more for what does not come."""
        self._next: dict[tuple[int, int], int] = {}
        """By life of the topic and queue: what an application keeps of its progress."""
        self._at_end = False

    def goal(self, world: World) -> bool:
        return self._at_end

    async def attempt(self, world: World, lake: LogLake, process: SimProcess) -> None:
        rng = process.runtime.random
        topic = await lake.topic(TOPIC)
        feed = Feed(topic, cache_bytes=rng.choice([3_000, 30_000, 300_000, 64 << 20]))
        life = topic.tail.state.created_entry
        queues = [queue for queue in range(world.settings.queues) for _ in range(rng.choice([1, 1, 1, 2]))]
        consumers = [
            asyncio.ensure_future(self._consume(world, feed, life, queue, process, first=number == queues.index(queue)))
            for number, queue in enumerate(queues)
        ]
        try:
            await asyncio.gather(*consumers)
            await topic.tail.catch_up()
            ends = [feed.next_offset(queue) for queue in range(world.settings.queues)]
            taken = [self._next.get((life, queue), 0) for queue in range(world.settings.queues)]
            self._at_end = world.quiet and taken == ends and all(role.goal(world) for role in self._after)
        finally:
            for consumer in consumers:
                consumer.cancel()
            await asyncio.gather(*consumers, return_exceptions=True)
            await feed.close()
        if not self._at_end:
            await asyncio.sleep(rng.uniform(0, self._rest_s))

    async def _consume(self, world: World, feed: Feed, life: int, queue: int, process: SimProcess, *, first: bool) -> None:
        """Take one queue for a while; only the ``first`` who does says how far this application has come."""
        rng = process.runtime.random
        feed.attach(queue)
        at = self._next.get((life, queue), 0)
        for _ in range(rng.randint(1, 60)):
            if rng.random() < 0.05:
                at = await self._look_back(world, feed, life, queue, at, rng.randrange(max(1, at)))
            try:
                async with asyncio.timeout(None if world.quiet or rng.random() < 0.9 else log_uniform(rng, 0.01, 1.0)):
                    rows = await feed.fetch(queue, at, rows_max=rng.choice([1, 3, 1000]), bytes_max=rng.choice([1, 1000, 1 << 20]))
            except TimeoutError:
                world.counts["feed: gave up fetching"] += 1
                continue
            except (OffsetOutOfRange, DataDamaged) as error:
                expired = isinstance(error, OffsetOutOfRange)
                if world.settings.retention is None if expired else not world.history.damaged:
                    raise
                world.counts["feed: out of range" if expired else "feed: damage named"] += 1
                behind = await _readable_from(feed, queue, at)
                if behind <= at:
                    world.history.wrong.append(f"{self.name}: offset {at} of queue {queue} is refused and can be read: {error}")
                at = max(at, behind)
                if first:
                    self._next[life, queue] = at
                continue
            if rows is None:
                try:
                    async with asyncio.timeout(log_uniform(rng, 0.01, 1000.0)):
                        await feed.arrived(queue, at)
                except TimeoutError:
                    world.counts["feed: gave up waiting"] += 1
                    if world.quiet:
                        break
                    await asyncio.sleep(rng.uniform(0, self._rest_s))
                continue
            at = self._take(world, life, queue, at, rows)
            if first:
                self._next[life, queue] = at
            if rng.random() < 0.3:
                await asyncio.sleep(log_uniform(rng, *self._think_s))
        await feed.detach(queue)

    async def _look_back(self, world: World, feed: Feed, life: int, queue: int, at: int, since: int) -> int:
        """Read again, or go back for good."""
        try:
            if since % 3 == 0:
                async for rows in feed.scan(queue, since, at):
                    since = self._take(world, life, queue, since, rows)
                return at
            if since % 3 == 1 and at:
                wanted = sorted({since, (since + at) // 2, at - 1})
                picked = await feed.pick(queue, wanted)
                if picked.column("offset").to_pylist() != wanted:
                    world.history.wrong.append(f"{self.name} picked {picked.column('offset')}, not {wanted}")
                self._report(world, life, queue, picked)
                return at
            return since
        except (OffsetOutOfRange, DataDamaged):
            if world.settings.retention is None and not world.history.damaged:
                raise
            return at

    def _take(self, world: World, life: int, queue: int, at: int, rows: pa.RecordBatch) -> int:
        offsets = rows.column("offset").to_pylist()
        if offsets != list(range(at, at + len(offsets))) or not offsets:
            world.history.wrong.append(f"I6 {self.name} got offsets {offsets} of queue {queue}, not those from {at} on")
        self._report(world, life, queue, rows)
        return at + len(offsets)

    def _report(self, world: World, life: int, queue: int, rows: pa.RecordBatch) -> None:
        for offset, body in zip(rows.column("offset").to_pylist(), rows.column("body").to_pylist(), strict=True):
            world.history.read(self.name, (life, queue, offset), body)
        world.counts["feed: rows"] += rows.num_rows


def feeds(seed: int | str, *, rate: float = 0.04) -> World:
    """Producers side by side, publishing and trimming behind them, and two processes that consume."""
    rng = rng_of(seed)
    long = rng.random() < 0.5
    plan = swarm(seed, rate)
    world = World(
        seed,
        plan=plan,
        network=Network(pause_s=(0.05, 5 * HOUR_S if long else 900.0), late_s=(1.0, 600.0), page_keys=rng.choice([3, 1000])),
        drift=0.03,
        offset_ms=60_000,
        faults_end_s=DAY_S if long else 600.0,
        nemesis=Nemesis(every_s=(2 * HOUR_S if long else 30.0) if rate else 0.0, pause_s=(0.05, 5 * HOUR_S if long else 900.0)),
    )
    think_s = (0.01, HOUR_S) if long else (0.003, 2.0)
    senders = [
        Sender(f"s{number}", bursts=rng.randint(10, 40), think_s=think_s, large=rng.choice([0.0, 0.2]), large_bytes=(5_000, 60_000))
        for number in range(rng.randint(2, 5))
    ]
    for sender in senders:
        world.process(f"p-{sender.name}", sender)
    if rng.random() < 0.8:
        steps = ("publish", "publish", "trim") if rng.random() < 0.5 else ()
        world.process("m", Maintainer("m", every_s=(1.0, 3000.0 if long else 100.0), steps=steps))
    for number in range(rng.randint(1, 2)):
        world.process(f"f{number}", Feeder(f"f{number}", after=senders, think_s=(0.001, 600.0 if long else 10.0)))
    return world


def feeds_of_expiring(seed: int | str, *, rate: float = 0.04) -> World:
    """The same of a topic that keeps its messages for some hours only."""
    world = expiry(seed, rate=rate)
    world.process("f", Feeder("f", think_s=(0.01, 2 * HOUR_S), rest_s=6 * HOUR_S))
    return world


def feeds_of_damaged(seed: int | str, *, rate: float = 0.03) -> World:
    """The same of a log that is damaged in the middle, and repaired."""
    world = damage(seed, rate=rate)
    world.process("f", *vanishing([Feeder("f", think_s=(0.01, 100.0))]))
    return world


def feeds_of_deleted(seed: int | str, *, rate: float = 0.03) -> World:
    """The same of a topic that is deleted and made again."""
    world = lives(seed, rate=rate)
    world.process("f", *vanishing([Feeder("f", think_s=(0.01, 100.0))]))
    return world


async def _readable_from(feed: Feed, queue: int, start: int) -> int:
    """The first offset from ``start`` on whose row can be read: this application goes on behind damage too."""
    start = await feed.kept_from(queue, start)
    async for rows in feed._reader.read(queue=queue, start=start, columns=["offset"], damaged="skip"):
        return int(rows.column("offset")[0].as_py())
    return feed.next_offset(queue)


SCENARIOS = {"feeds": feeds, "expiring": feeds_of_expiring, "damaged": feeds_of_damaged, "deleted": feeds_of_deleted}
