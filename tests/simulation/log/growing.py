"""A topic that gets more queues, twice and more, under all that send to it."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from penstock.log.errors import ClockSkewError, InvalidArgument, PenstockError, TopicDeleted, TopicNotFound
from penstock.log.lake import LogLake
from tests.simulation.log.actors import Copier, Follower, Maintainer, Recreator, Replayer, Role, Sender, Source, vanishing
from tests.simulation.log.careless import Careless
from tests.simulation.log.idempotent import Client, Gateway
from tests.simulation.log.linking import Batches, Driver
from tests.simulation.log.world import TOPIC, World
from tests.simulation.network import Network
from tests.simulation.plans import HOUR_S, rng_of, swarm
from tests.simulation.process import SimProcess
from tests.simulation.simulated import Nemesis, log_uniform

QUEUES_MAX = 24


class Grower(Role):
    """Gives the topic more queues; two may want other numbers at once."""

    def __init__(self, name: str, *, times: int, every_s: tuple[float, float]) -> None:
        super().__init__(name)
        self._left = times
        self._every_s = every_s

    def goal(self, world: World) -> bool:
        return self._left <= 0

    def explained(self, error: PenstockError) -> bool:
        """A rival's growth makes a number one that the topic cannot grow to."""
        return isinstance(error, ClockSkewError | InvalidArgument | TopicNotFound | TopicDeleted)

    async def attempt(self, world: World, lake: LogLake, process: SimProcess) -> None:
        rng = process.runtime.random
        await asyncio.sleep(log_uniform(rng, *self._every_s))
        topic = await lake.topic(TOPIC, writable=True)
        queues = topic.settings.queues * rng.choice([2, 2, 3])
        self._left -= 1
        if queues <= QUEUES_MAX:
            await lake.alter_topic(TOPIC, queues=queues)
            world.counts["growth"] += 1


def growing(seed: int | str, *, rate: float = 0.05) -> World:
    """Producers with and without a name, gateways' clients, and drivers that link, over a topic that grows; in some worlds it is made again."""
    rng = rng_of(seed)
    world = World(
        seed,
        plan=swarm(seed, rate),
        network=Network(pause_s=(0.05, HOUR_S), late_s=(0.5, 600.0), page_keys=rng.choice([3, 1000])),
        queues=rng.choice([1, 2]),
        drift=0.05,
        faults_end_s=400.0,
        nemesis=Nemesis(every_s=rng.choice([5.0, 15.0]) if rate else 0.0, pause_s=(0.1, 300.0)),
    )
    vanishes = rng.random() < 0.25
    think_s = (0.005, log_uniform(rng, 0.2, 3.0))
    roles: list[tuple[str, Role]] = [
        (f"p{number}", Sender(f"s{number}", bursts=rng.randint(10, 30), think_s=think_s, large=0.05))
        for number in range(rng.randint(1, 3))
    ]
    source = Source("copy", rng.randint(10, 40))
    world.sources.append(source)
    roles += [
        (f"c{rival}", Copier(f"c{rival}", source, think_s=think_s, takeover_s=(0.05, 20.0))) for rival in range(rng.randint(1, 2))
    ]
    if not vanishes and rng.random() < 0.5:
        linked = Batches("linked", [rng.randint(1, 9) for _ in range(rng.randint(5, 15))])
        world.sources.append(linked)
        timeout = timedelta(seconds=log_uniform(rng, 1.0, 120.0))
        roles += [
            (f"d{rival}", Driver(f"d{rival}", linked, think_s=think_s, takeover_s=(0.05, 20.0), timeout=timeout))
            for rival in range(2)
        ]
    if not vanishes and rng.random() < 0.5:
        gateways = [Gateway(f"g{number}") for number in range(2)]
        roles += [(gateway.name, gateway) for gateway in gateways]
        roles += [
            (f"i{n}", Client(f"i{n}", gateways, queue=0, batches=rng.randint(5, 20), think_s=think_s))
            for n in range(rng.randint(1, 2))
        ]
    roles += [
        (f"a{n}", Grower(f"a{n}", times=rng.randint(1, 3), every_s=(0.05, rng.choice([2.0, 60.0]))))
        for n in range(rng.randint(1, 2))
    ]
    if vanishes:
        roles.append(("r", Recreator("r", times=1, every_s=(1.0, 60.0))))
    if rng.random() < 0.5:
        roles.append(("m", Maintainer("m")))
    if rate and rng.random() < 0.3:
        roles.append(("careless", Careless("careless", every_s=(0.1, 3.0))))
    roles += [("reader", Follower("reader")), ("replayer", Replayer("replayer", every_s=(1.0, 300.0)))]
    for name, role in roles:
        world.process(name, *(vanishing([role]) if vanishes and not isinstance(role, Recreator | Grower) else [role]))
    return world
