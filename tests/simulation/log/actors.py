"""What processes do: send, send by name, read, maintain, delete and create. Each role pursues its goal through any number of lives."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import timedelta

from penstock.log.errors import BackPressureError, ClockSkewError, PenstockError, TopicDeleted, TopicNotFound, ViewLost
from penstock.log.format.fold import FoldedEntry
from penstock.log.format.header import Action
from penstock.log.format.state import TopicState
from penstock.log.lake import LogLake
from penstock.log.message.message import Message
from penstock.log.produce.accumulator import ProducerOptions
from penstock.log.produce.producer import Producer
from penstock.log.table.maintenance import MaintenanceOptions, TopicMaintenance
from penstock.log.tail.view import View, read_floor
from penstock.log.topic.records import read_record
from tests.rows import entry_rows
from tests.simulation.log.history import Send, Session
from tests.simulation.log.world import TOPIC, World, check_expected
from tests.simulation.process import SimProcess
from tests.simulation.simulated import log_uniform


class Role:
    """Something a process does until ``goal`` is reached; across crashes it remembers what its application would."""

    endless = False
    """Whether it never reaches a goal of its own and ends with the run."""
    topic_may_vanish = False

    def __init__(self, name: str) -> None:
        self.name = name
        self.stopping = False

    def goal(self, world: World) -> bool:
        raise NotImplementedError

    async def attempt(self, world: World, lake: LogLake, process: SimProcess) -> None:
        """Work towards the goal; may raise any `PenstockError` to start again."""
        raise NotImplementedError

    async def live(self, world: World, lake: LogLake, process: SimProcess) -> None:
        while not self.stopping and not self.goal(world):
            try:
                await self.attempt(world, lake, process)
            except PenstockError as error:
                check_expected(world, self.name, error, allowed=self.explained)
                if isinstance(error, ClockSkewError):
                    world.counts["refused by clock"] += 1
                    if world.quiet:
                        process.step_clock(-process.clock.offset_ms)
                await asyncio.sleep(log_uniform(process.runtime.random, 0.05, 5.0))

    def explained(self, error: PenstockError) -> bool:
        return isinstance(error, ClockSkewError) or (self.topic_may_vanish and isinstance(error, TopicNotFound | TopicDeleted))


class Sender(Role):
    """Sends messages that nobody else sends, through one unnamed producer after another."""

    def __init__(
        self,
        name: str,
        *,
        bursts: int,
        burst: tuple[int, int] = (1, 6),
        think_s: tuple[float, float] = (0.005, 0.5),
        groups: int = 4,
        large: float = 0.0,
        large_bytes: tuple[int, int] = (20_000, 120_000),
        reopen: float = 0.05,
        options: ProducerOptions | None = None,
    ) -> None:
        super().__init__(name)
        self._left = bursts
        self._burst, self._think_s, self._groups, self._large, self._reopen = burst, think_s, groups, large, reopen
        self._large_bytes = large_bytes
        self._options = options or ProducerOptions(linger=timedelta(milliseconds=5))
        self._number = 0
        self._producers = 0

    def goal(self, world: World) -> bool:
        return self._left <= 0

    async def attempt(self, world: World, lake: LogLake, process: SimProcess) -> None:
        rng = process.runtime.random
        assert isinstance(rng, random.Random)
        producer = await lake.producer(TOPIC, options=self._options)
        session = Session(process.name, producer.id, named=False, generation=producer._former.router.generation)
        world.history.sessions.append(session)
        try:
            while self._left > 0:
                self._left -= 1
                for _ in range(rng.randint(*self._burst)):
                    self._send(world, producer, session, rng)
                if rng.random() < 0.5:
                    await session.sends[-1].receipt
                await asyncio.sleep(log_uniform(rng, *self._think_s))
                if rng.random() < self._reopen:
                    break
            await producer.close()
        except PenstockError:
            await _abandon(producer)
            world.history.closed(session)
            raise
        world.history.closed(session)

    def _send(self, world: World, producer: Producer, session: Session, rng: random.Random) -> None:
        self._number += 1
        body = f"{self.name}/{self._number}".encode()
        if rng.random() < self._large:
            body += b"." + rng.randbytes(rng.randint(*self._large_bytes))
        body, message = self._message(world, body, f"{self.name}-{rng.randrange(self._groups)}", rng)
        queue = 0 if rng.random() < 0.1 else None
        with suppress(BackPressureError):
            session.sends.append(Send(body, producer.send(message, queue=queue), is_placed=queue is not None))

    def _message(self, world: World, body: bytes, group: str, rng: random.Random) -> tuple[bytes, Message]:
        """What the message is known by, and the message."""
        return body, Message(body, message_group=group)


class Source:
    """What a named producer copies: messages with positions, which whoever has the name goes through in order."""

    def __init__(self, name: str, count: int, *, groups: int = 3, gap: int = 3) -> None:
        self.name = name
        self.count = count
        self._groups = groups
        self._gap = gap
        self.copied: dict[int, int] = {}
        """How far each routing generation of the topic is known to have it."""

    def position(self, index: int) -> int:
        return index * self._gap + 1

    def index_behind(self, position: int) -> int:
        """The first message above ``position``."""
        return max(0, (position - 1) // self._gap + 1)

    def message(self, index: int, who: str) -> Message:
        """Whoever copies it puts a mark on it: two with one name must not take each other's messages for their own."""
        return Message(f"{self.name}/{index}/{who}".encode(), message_group=f"{self.name}-{index % self._groups}")

    def sent(self, index: int, who: str) -> tuple[bytes, Message]:
        """What that message is known by, and the message."""
        message = self.message(index, who)
        return message.body or b"", message

    def index_of(self, body: bytes) -> int | None:
        """Which message of the source a body is, whoever copied it."""
        name, _, rest = body.partition(b"/")
        return int(rest.partition(b"/")[0]) if name == self.name.encode() else None

    @property
    def last(self) -> int:
        return self.position(self.count - 1)


class Copier(Role):
    """Copies a source under its name. Several processes may try; the application only trusts ``last_sequence``."""

    def __init__(
        self,
        name: str,
        source: Source,
        *,
        burst: tuple[int, int] = (1, 6),
        think_s: tuple[float, float] = (0.005, 0.5),
        overlap: int = 2,
        takeover_s: tuple[float, float] = (0.5, 60.0),
        options: ProducerOptions | None = None,
    ) -> None:
        super().__init__(name)
        self._source = source
        self._burst, self._think_s, self._overlap, self._takeover_s = burst, think_s, overlap, takeover_s
        self._finished = False
        self._options = options or ProducerOptions(linger=timedelta(milliseconds=5))

    def goal(self, world: World) -> bool:
        return self._finished

    async def attempt(self, world: World, lake: LogLake, process: SimProcess) -> None:
        rng, source = process.runtime.random, self._source
        producer = await lake.producer(TOPIC, name=source.name, options=self._options)
        session = Session(
            process.name, producer.id, named=True, generation=producer._former.router.generation, opened_at=producer.last_sequence
        )
        world.history.sessions.append(session)
        # It begins a little before, as an application that is not sure does; those are duplicates.
        index = max(0, source.index_behind(producer.last_sequence) - rng.randint(0, self._overlap))
        try:
            while index < source.count:
                limit = min(source.count, index + rng.randint(*self._burst))
                while index < limit:
                    body, message = source.sent(index, session.process)
                    receipt = producer.send(message, sequence=source.position(index))
                    session.sends.append(Send(body, receipt, source.position(index)))
                    index += 1
                if rng.random() < 0.5:
                    await session.sends[-1].receipt
                await asyncio.sleep(log_uniform(rng, *self._think_s))
            await producer.close()
            self._finished = producer.last_sequence >= source.last
            source.copied[session.generation] = producer.last_sequence
        except PenstockError as error:
            await _abandon(producer)
            world.history.closed(session)
            if error.kind == "fenced":
                world.counts["fenced"] += 1
                await asyncio.sleep(log_uniform(rng, *self._takeover_s))
            raise
        world.history.closed(session)


class Follower(Role):
    """Follows the log with a view of its own and reports all it sees."""

    endless = True

    def __init__(self, name: str, *, idle_s: tuple[float, float] = (0.05, 2.0), restart: float = 0.01) -> None:
        super().__init__(name)
        self._idle_s = idle_s
        self._restart = restart
        self._unread: list[tuple[FoldedEntry, bytes]] = []

    def goal(self, world: World) -> bool:
        return False

    async def attempt(self, world: World, lake: LogLake, process: SimProcess) -> None:
        view = View(lake.store, world.paths, process.runtime)
        self._unread = []
        view.on_fold = lambda folded, data: self._unread.append((folded, data))
        view.on_jump = lambda state: self._jumped(world, state)
        await view.open()
        rng = process.runtime.random
        patience = 1.0
        while not self.stopping:
            try:
                await view.catch_up()
            except ViewLost:
                world.counts["a reader was trimmed past"] += 1
                return
            # One that looked often while everybody is paused for days would be most of the run.
            patience = 1.0 if self._unread else min(2 * patience, 1000.0)
            await self._report(world, lake)
            if rng.random() < self._restart:
                return
            await asyncio.sleep(patience * log_uniform(rng, *self._idle_s))

    def _jumped(self, world: World, state: TopicState) -> None:
        world.counts["a reader was led around damage"] += 1

    async def _report(self, world: World, lake: LogLake) -> None:
        for folded, data in self._unread:
            rows = await entry_rows(lake.store, world.paths, folded, data)
            world.report(self.name, folded.state.created_entry, rows.table, folded.state.schema)
            if rows.lost and await read_floor(lake.store, world.paths) < folded.number:
                world.history.wrong.append(f"I11 {self.name}: rows of entry {folded.number} are lost: {rows.lost[0]}")
        self._unread.clear()


class Replayer(Role):
    """Reads queues as users do, table and log joined, and reports all it sees."""

    endless = True

    def __init__(self, name: str, *, every_s: tuple[float, float] = (10.0, 4000.0)) -> None:
        super().__init__(name)
        self._every_s = every_s

    def goal(self, world: World) -> bool:
        return False

    async def attempt(self, world: World, lake: LogLake, process: SimProcess) -> None:
        rng = process.runtime.random
        await asyncio.sleep(log_uniform(rng, *self._every_s))
        topic = await lake.topic(TOPIC)
        reader = await lake.reader(TOPIC)
        queue = rng.randrange(reader.queues)
        life = topic.tail.state.created_entry
        expected = 0 if world.settings.retention is None else None
        async for batch in reader.read(queue=queue, columns=["offset", world.content]):
            for offset, body in zip(batch["offset"].to_pylist(), world.contents(self.name, batch), strict=True):
                if offset != expected and expected is not None:
                    world.history.wrong.append(f"I6 {self.name} read offset {offset} of queue {queue} behind {expected - 1}")
                expected = offset + 1
                world.history.read(self.name, (life, queue, offset), body)
        world.counts["replay"] += 1


class Maintainer(Role):
    """Publishes, compacts, trims and collects, in no particular order."""

    endless = True

    def __init__(
        self, name: str, *, every_s: tuple[float, float] = (1.0, 2000.0), restart: float = 0.02, steps: Sequence[str] = ()
    ) -> None:
        super().__init__(name)
        self._every_s = every_s
        self._restart = restart
        self._steps = steps

    def goal(self, world: World) -> bool:
        return False

    async def attempt(self, world: World, lake: LogLake, process: SimProcess) -> None:
        rng = process.runtime.random
        found = await read_record(lake.store, world.paths)
        if found is None:
            return
        record, _ = found
        topic = None if record.deleted else await lake.topic(TOPIC, writable=True)

        async def append(actions: Sequence[Action]) -> None:
            if topic is not None:
                await topic.act(*actions)

        options = MaintenanceOptions(compact_fan_in=3, checkpoint_versions=4)
        maintenance = TopicMaintenance(lake.store, world.paths, record, process.runtime, append, options)
        steps = maintenance.steps()
        while not self.stopping and rng.random() > self._restart:
            name = rng.choice(self._steps or list(steps))
            await steps[name]()
            world.counts[f"maintenance: {name}"] += 1
            if topic is not None and not topic.tail.state.alive:
                return
            await asyncio.sleep(log_uniform(rng, *self._every_s))


class Upkeep(Role):
    """Every step of maintenance in order, some rounds an hour apart."""

    def __init__(self, name: str, *, rounds: int, every_s: float = 4000.0) -> None:
        super().__init__(name)
        self._left = rounds
        self._every_s = every_s

    def goal(self, world: World) -> bool:
        return self._left <= 0

    async def attempt(self, world: World, lake: LogLake, process: SimProcess) -> None:
        topic = await lake.topic(TOPIC, writable=True)

        async def append(actions: Sequence[Action]) -> None:
            await topic.act(*actions)

        options = MaintenanceOptions(compact_fan_in=3, checkpoint_versions=4)
        maintenance = TopicMaintenance(lake.store, world.paths, topic.record, process.runtime, append, options)
        while self._left > 0:
            await asyncio.sleep(self._every_s if self._left < 4 else 1.0)
            for step in maintenance.steps().values():
                await step()
            self._left -= 1


class Recreator(Role):
    """Deletes the topic and creates it again."""

    def __init__(
        self, name: str, *, times: int, every_s: tuple[float, float] = (1.0, 100.0), gap_s: tuple[float, float] = (0.01, 10.0)
    ) -> None:
        super().__init__(name)
        self._left = times
        self._every_s = every_s
        self._gap_s = gap_s
        self._deleted = False

    def goal(self, world: World) -> bool:
        return self._left <= 0

    def explained(self, error: PenstockError) -> bool:
        return isinstance(error, ClockSkewError | TopicNotFound | TopicDeleted)

    async def attempt(self, world: World, lake: LogLake, process: SimProcess) -> None:
        rng = process.runtime.random
        if not self._deleted:
            await asyncio.sleep(log_uniform(rng, *self._every_s))
            with suppress(TopicNotFound):
                await lake.delete_topic(TOPIC)
            self._deleted = True
        await asyncio.sleep(log_uniform(rng, *self._gap_s))
        await lake.create_topic(TOPIC, world.settings)
        world.counts["topic created again"] += 1
        self._deleted = False
        self._left -= 1


async def _abandon(producer: Producer) -> None:
    with suppress(PenstockError):
        await producer.close()


def vanishing(roles: Iterable[Role]) -> list[Role]:
    """Roles in a world where the topic comes and goes."""
    found = list(roles)
    for role in found:
        role.topic_may_vanish = True
    return found
