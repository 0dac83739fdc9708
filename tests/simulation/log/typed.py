"""Worlds of a typed topic: programs of several versions send rows while others change the schema, and every reader must understand all."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from penstock.consumers.feed.feed import Feed
from penstock.log.errors import InvalidArgument, PenstockError
from penstock.log.lake import LogLake
from penstock.log.message.message import Message
from penstock.log.schema.arrow_types import arrow_fields
from penstock.log.schema.evolution import evolve
from penstock.log.schema.fields import ArrayType, DecimalType, Field, FieldType, PrimitiveType, StructType
from penstock.log.schema.topic_schema import schema_of_source
from tests.simulation.log.actors import Copier, Follower, Maintainer, Replayer, Role, Sender, Source
from tests.simulation.log.typed_rows import WHO, Rows
from tests.simulation.log.world import TOPIC, World
from tests.simulation.network import Network
from tests.simulation.plans import DAY_S, rng_of, swarm
from tests.simulation.process import SimProcess
from tests.simulation.simulated import Nemesis, log_uniform

SCHEMA = (
    f"{WHO} string not null, grp string, n int not null, f float, d decimal(5,2), part struct<a: int, b: string>, "
    "list array<struct<c: int>>, blob binary"
)
_WIDER: Mapping[PrimitiveType, PrimitiveType] = {PrimitiveType.INT: PrimitiveType.BIGINT, PrimitiveType.FLOAT: PrimitiveType.DOUBLE}


class RowSender(Sender):
    """Sends rows instead of bodies."""

    def _message(self, world: World, body: bytes, group: str, rng: random.Random) -> tuple[bytes, Message]:
        who, _, blob = body.partition(b".")
        return who, Message.of(_rows(world).row(who.decode(), group, rng, blob))


class RowSource(Source):
    """What a named producer copies, as rows."""

    def __init__(self, name: str, count: int, world: World) -> None:
        super().__init__(name, count)
        self._world = world

    def sent(self, index: int, who: str) -> tuple[bytes, Message]:
        body, message = super().sent(index, who)
        group = message.message_group or ""
        rng = random.Random(f"{body!r} {len(_rows(self._world).versions)}")
        return body, Message.of(_rows(self._world).row(body.decode(), group, rng))


class Taker(Role):
    """Takes every queue's rows through a feed, in order, until all that was sent is taken."""

    def __init__(self, name: str, *, after: Sequence[Role]) -> None:
        super().__init__(name)
        self._after = after
        self._next: dict[int, int] = {}
        self._done = False

    def goal(self, world: World) -> bool:
        return self._done

    async def attempt(self, world: World, lake: LogLake, process: SimProcess) -> None:
        rng = process.runtime.random
        topic = await lake.topic(TOPIC)
        feed = Feed(topic, cache_bytes=rng.choice([3_000, 64 << 20]))
        life, queues = topic.tail.state.created_entry, range(world.settings.queues)
        try:
            for _ in range(rng.randint(1, 10)):
                over = all(role.goal(world) for role in self._after)
                await topic.tail.catch_up()
                for queue in queues:
                    feed.attach(queue)
                    while rows := await feed.fetch(
                        queue, self._next.get(queue, 0), rows_max=rng.choice([1, 7, 1000]), bytes_max=1 << 20
                    ):
                        self._next[queue] = world.report(self.name, life, rows)[queue]
                    await feed.detach(queue)
                self._done = over
                await asyncio.sleep(log_uniform(rng, 0.01, 10.0))
        finally:
            await feed.close()


class Evolver(Role):
    """Changes the schema again and again, beside others who do so too."""

    def __init__(self, name: str, *, times: int, every_s: tuple[float, float]) -> None:
        super().__init__(name)
        self._left = times
        self._every_s = every_s
        self._names = 0

    def goal(self, world: World) -> bool:
        return self._left <= 0

    def explained(self, error: PenstockError) -> bool:
        # What another changed meanwhile is missing in what this one wanted.
        return super().explained(error) or (isinstance(error, InvalidArgument) and error.operation == "evolve the schema")

    async def attempt(self, world: World, lake: LogLake, process: SimProcess) -> None:
        rng = process.runtime.random
        assert isinstance(rng, random.Random)
        await _sleep(rng, self._every_s)
        before = await lake.topic_schema(TOPIC)
        assert before is not None, "the topic is typed and lives"
        _rows(world).versions[before.version] = before
        rename: dict[str, str] = {}
        retire: list[str] = []
        wanted = self._changed(before.live, "", rng, rename, retire)
        evolve(before, wanted, rename=rename, retire=retire)  # what is wrong with it is wrong with this test
        after = await lake.evolve_topic(TOPIC, pa.schema(arrow_fields(wanted)), rename=rename, retire=retire)
        _rows(world).versions[after.version] = after
        world.counts["evolved"] += 1
        self._left -= 1

    def _changed(
        self, fields: tuple[Field, ...], under: str, rng: random.Random, rename: dict[str, str], retire: list[str]
    ) -> tuple[Field, ...]:
        made = []
        for one in fields:
            path, chance = f"{under}{one.name}", rng.random()
            fixed = one.name == WHO or one.id in (2, 8)  # the group, and what makes rows large
            if chance < 0.05 and not fixed and not under:
                retire.append(path)
                continue
            if chance > 0.85 and one.name != WHO:
                rename[path] = self._name()
            made.append(
                replace(
                    one,
                    name=rename.get(path, one.name),
                    type=self._type(one.type, path, rng, rename, retire),
                    nullable=one.nullable or (rng.random() < 0.3 and one.name != WHO),
                )
            )
        if rng.random() < 0.5:
            types: list[FieldType] = [
                PrimitiveType.INT,
                PrimitiveType.STRING,
                ArrayType(Field("element", PrimitiveType.FLOAT)),
                StructType((Field(self._name(), PrimitiveType.INT),)),
            ]
            made.append(Field(self._name(), rng.choice(types)))
        return tuple(made)

    def _type(self, type_: FieldType, path: str, rng: random.Random, rename: dict[str, str], retire: list[str]) -> FieldType:
        match type_:
            case StructType():
                return StructType(self._changed(type_.live, f"{path}.", rng, rename, retire))
            case ArrayType(element):
                return ArrayType(replace(element, type=self._type(element.type, f"{path}.element", rng, rename, retire)))
            case DecimalType(precision, scale):
                return DecimalType(min(38, precision + rng.randrange(2)), scale)
            case PrimitiveType() if rng.random() < 0.3:
                return _WIDER.get(type_, type_)
            case _:
                return type_

    def _name(self) -> str:
        """A name that no field has had."""
        self._names += 1
        return f"{self.name}_{self._names}"


async def _sleep(rng: random.Random, every_s: tuple[float, float]) -> None:
    await asyncio.sleep(log_uniform(rng, *every_s))


def _rows(world: World) -> Rows:
    assert world.rows is not None, "a world of a typed topic"
    return world.rows


def evolves(seed: int | str, *, rate: float = 0.03) -> World:
    """Programs of several versions, evolutions by several processes, publishing, compacting and trimming, and readers of every kind."""
    rng = rng_of(seed)
    long = rng.random() < 0.3
    world = World(
        seed,
        plan=swarm(seed, rate),
        network=Network(pause_s=(0.05, DAY_S / 4 if long else 900.0), late_s=(1.0, 600.0), page_keys=rng.choice([3, 1000])),
        drift=0.03,
        offset_ms=60_000,
        faults_end_s=DAY_S if long else 600.0,
        nemesis=Nemesis(every_s=(3600.0 if long else 30.0) if rate else 0.0, pause_s=(0.05, 900.0)),
        schema=schema_of_source(SCHEMA),
        message_group="grp",
    )
    think_s = (0.01, 600.0) if long else (0.005, 3.0)
    senders: list[Sender] = []
    for number in range(rng.randint(2, 4)):
        sender = RowSender(f"s{number}", bursts=rng.randint(8, 20), think_s=think_s, large=0.05, large_bytes=(20_000, 60_000))
        senders.append(sender)
        world.process(f"p{number}", sender)
    source = RowSource("copy", rng.randint(10, 30), world)
    world.sources.append(source)
    world.process("copier", Copier("copier", source, think_s=think_s))
    for number in range(rng.randint(1, 3)):
        world.process(f"e{number}", Evolver(f"e{number}", times=rng.randint(1, 4), every_s=(0.05, 1200.0 if long else 8.0)))
    for number in range(rng.randint(1, 2)):
        world.process(f"m{number}", Maintainer(f"m{number}", every_s=(0.5, 1000.0 if long else 20.0)))
    world.process("reader", Follower("reader"))
    world.process("replayer", Replayer("replayer", every_s=(1.0, 1000.0 if long else 30.0)))
    world.process("f", Taker("f", after=senders))
    return world
