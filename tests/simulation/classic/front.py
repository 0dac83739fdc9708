"""A gateway of a run, life after life: its handlers of groups over a simulated store and table."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock import aio
from penstock.coordinator.cells.keys import KAFKA_GATEWAYS
from penstock.coordinator.coordination import Coordination
from penstock.gateway.kafka.groups.coordinator import GroupCoordinator
from penstock.gateway.kafka.groups.handlers import group_handlers
from penstock.gateway.kafka.wire.apis import ApiKey
from penstock.gateway.peers.entries import GatewayEntry
from penstock.gateway.peers.registry import PeerRegistry
from penstock.gateway.peers.rendezvous import Peer
from penstock.log.errors import PenstockError
from tests.gateway.kafka.groups.stage import ask
from tests.simulation.process import Crashed, SimProcess

if TYPE_CHECKING:
    from tests.simulation.classic.world import ClassicGroups


class Unreachable(Exception):
    """The gateway did not answer."""


class Lake(aio.Lake):
    """A lake over a simulated store and a simulated table."""

    def __init__(self, world: ClassicGroups, process: SimProcess) -> None:
        super().__init__(world.scene.store.client(process), runtime=process.runtime)
        self._coordination = Coordination(world.scene.table.client(process), self.runtime)


class Listed:
    """The gateways that a registry lists, reachable or not."""

    def __init__(self, registry: PeerRegistry) -> None:
        self._registry = registry

    @property
    def own_name(self) -> str:
        return self._registry.name

    async def live(self, *, tls: bool) -> Sequence[Peer]:
        return self._registry.live(tls=tls)


@dataclass(eq=False)
class Life:
    """One process of a gateway, from its start to its end."""

    name: str
    process: SimProcess
    is_open: bool = False

    async def serve(self, world: ClassicGroups, number: int) -> None:
        """Until it is to leave."""
        runtime = self.process.runtime
        lake = Lake(world, self.process)
        peers = PeerRegistry(KAFKA_GATEWAYS, f"{self.name}-{number}", runtime.clock)
        self.leaving = asyncio.Event()
        self.coordinator = GroupCoordinator(lake.coordination, runtime.clock, Listed(peers), is_counted=peers.is_counted)
        self.handlers = group_handlers(self.coordinator, lake.coordination, runtime, topic=lake.topic)
        await peers.join(lake.coordination, GatewayEntry(self.name, 9092))
        self.coordinator.start()
        self.is_open = True
        await self.leaving.wait()
        self.is_open = False
        await peers.leave()
        await self.coordinator.close()
        with suppress(PenstockError):
            await lake.close()


class ServedGateway:
    """One gateway. It is started again whenever it ended."""

    def __init__(self, world: ClassicGroups, name: str) -> None:
        self.world = world
        self.name = name
        self.life: Life | None = None

    async def live(self) -> None:
        for number in itertools.count():
            life = self.life = Life(self.name, self.world.kernel.process(self.name))
            try:
                await life.process.run(life.serve(self.world, number))
            except Crashed:
                self.world.counts["killed"] += 1
            except PenstockError:
                life.process.crash()
            await self.world.pass_s(self.world.rng.uniform(0.5, 20.0))

    async def ask(self, key: ApiKey, timeout_s: float, client: str, **fields: object) -> Any:
        """The answer. Raises `Unreachable`; then what was asked may be done, or be done later."""
        life = self.life
        await self.world.pass_s(self.world.rng.uniform(0.0005, 0.01))
        if life is None or life.process.crashed or not life.is_open:
            raise Unreachable
        try:
            async with asyncio.timeout(timeout_s):
                return await life.process.run(ask(life.handlers, key, None, client, fields))
        except (TimeoutError, Crashed):
            self.world.counts["unanswered"] += 1
            raise Unreachable from None
