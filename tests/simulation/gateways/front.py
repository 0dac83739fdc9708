"""A gateway of a run, life after life: the real answers to RPCs, over a simulated store, and a network of its own instead of gRPC."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from google.protobuf.message import Message

from penstock import aio
from penstock.coordinator.cells.keys import GATEWAYS
from penstock.coordinator.coordination import Coordination
from penstock.gateway.peers.entries import GatewayEntry
from penstock.gateway.peers.registry import PeerRegistry
from penstock.gateway.rocketmq.clients.registry import ClientRegistry
from penstock.gateway.rocketmq.clients.service import ClientService
from penstock.gateway.rocketmq.consumers.pool import PooledConsumer
from penstock.gateway.rocketmq.consumers.service import ConsumerService
from penstock.gateway.rocketmq.options import RocketMQOptions
from penstock.gateway.rocketmq.protocol import rocketmq_pb2 as pb
from penstock.gateway.rocketmq.protocol.metadata import CallMetadata
from penstock.gateway.rocketmq.protocol.status import StatusError, status_of
from penstock.gateway.rocketmq.server.calls import RpcCall
from penstock.gateway.rocketmq.server.rpcs import by_name
from penstock.gateway.topics.directory import TopicDirectory
from penstock.log.errors import PenstockError
from penstock.log.runtime.runtime import Runtime
from tests.simulation.process import Crashed, SimProcess

if TYPE_CHECKING:
    from tests.simulation.gateways.world import Gateways

SWEEP_S = 5.0
WAY_S = (0.0005, 0.01)
"""How long a request is on its way, and its answer."""


class Unreachable(Exception):
    """No gateway answered, or the connection was cut."""


class TimedOut(Unreachable):
    """The time that the client waits was over, though its connection may be good. The answer may be on its way."""


class Lake(aio.Lake):
    """A lake over a simulated store and a simulated table."""

    def __init__(self, world: Gateways, process: SimProcess) -> None:
        super().__init__(world.scene.store.client(process), runtime=process.runtime)
        self._coordination = Coordination(world.scene.table.client(process), self.runtime)


@dataclass(eq=False)
class Connection:
    """One connection of a client to one life of a gateway."""

    life: Life
    peer: str
    named_at: int | None = None
    """The number of answers when the first receive came by it that was to be known in the cells."""
    asked_at: int = -1
    """`named_at`, once such a receive was answered: by then the gateway had read what is out to the client."""


@dataclass(eq=False)
class Life:
    """One process of a gateway, from its start to its end."""

    name: str
    number: int
    process: SimProcess
    runtime: Runtime
    disturbed_s: float = float("-inf")
    """When it was last stopped for longer than its clients' messages can bear, or began to end."""
    ports: itertools.count[int] = field(default_factory=itertools.count)

    def start(self, world: Gateways) -> None:
        self.lake = Lake(world, self.process)
        options = RocketMQOptions()
        self.clients = ClientRegistry(self.runtime.clock)
        names = TopicDirectory(self.lake, options)
        self.peers = PeerRegistry(GATEWAYS, f"{self.name}-{self.number}", self.runtime.clock)
        self.announcing = ClientService(self.lake, self.clients, self.peers, names)
        self.consumers = ConsumerService(self.lake, self.clients, names, store_host=self.name, is_balanced=False)
        self.peers.on_gone.append(self.consumers.renewer.adopt_all)
        self.rpcs = by_name([*self.announcing.rpcs(), *self.consumers.rpcs()])
        self.leaving = asyncio.Event()
        self.is_open = True
        self.running = 0
        self.quiet = asyncio.Event()
        self.quiet.set()

    async def serve(self) -> None:
        """Until it is to leave; then let clients go on elsewhere."""
        await self.peers.join(self.lake.coordination, GatewayEntry(self.name, 8081))
        await self.consumers.start()
        sweeping = asyncio.ensure_future(self._sweep())
        await self.leaving.wait()
        self.is_open = False
        await self.peers.leave()
        self.announcing.end()
        self.consumers.end_polls()
        with suppress(TimeoutError):
            async with asyncio.timeout(5):
                await self.quiet.wait()
        sweeping.cancel()
        await self.consumers.close()
        with suppress(PenstockError):
            await self.lake.close()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            self.clients.sweep()

    @property
    def pooled(self) -> PooledConsumer | None:
        """The consumer that serves its clients, while it is open."""
        place = self.consumers.pool._places.get(("audit", "orders"))
        return None if place is None else place.pooled

    def call(self, rpc: str, client: str, connection: Connection, remaining_s: float | None = None) -> RpcCall:
        return RpcCall(rpc, CallMetadata(client_id=client, language="JAVA"), connection.peer, remaining_s)

    async def answer(self, request: Message, call: RpcCall, cut_after: int | None = None) -> list[Any]:
        """What the server does around each call, without gRPC. A streamed answer may be cut off behind some frames."""
        rpc, frames = self.rpcs[call.rpc], []
        self.clients.on_call(call)
        self.running += 1
        self.quiet.clear()
        try:
            if not rpc.is_streamed:
                return [await rpc.handle(request, call)]
            answers = rpc.handle(request, call)
            try:
                async for frame in answers:
                    frames.append(frame)
                    if len(frames) == cut_after:
                        break
            finally:
                await answers.aclose()
        except (StatusError, PenstockError) as error:
            frames.append(rpc.answer(status=status_of(error)))
        finally:
            self.running -= 1
            if not self.running:
                self.quiet.set()
        return frames

    def stream(self, client: str, connection: Connection, settings: pb.TelemetryCommand) -> Callable[[], None]:
        """Open a client's telemetry stream. Returns what ends it."""
        commands: asyncio.Queue[pb.TelemetryCommand | None] = asyncio.Queue()
        commands.put_nowait(settings)

        async def said() -> AsyncIterator[pb.TelemetryCommand]:
            while (command := await commands.get()) is not None:
                yield command

        async def run() -> None:
            call = self.call("Telemetry", client, connection)
            self.clients.on_call(call)
            with suppress(StatusError, PenstockError):
                await self.announcing.telemetry(said(), call, _nobody_hears)

        self.process.spawn(run())
        return lambda: self.process.call(commands.put_nowait, None)


async def _nobody_hears(command: pb.TelemetryCommand) -> None:
    return


class Gateway:
    """Started again when its process ended."""

    def __init__(self, world: Gateways, name: str) -> None:
        self.world = world
        self.name = name
        self.life: Life | None = None

    async def live(self) -> None:
        while True:
            process = self.world.scene.kernel.process(self.name)
            life = Life(self.name, next(self.world.lives), process, process.runtime)

            async def serve(life: Life = life) -> None:
                life.start(self.world)
                self.life = life
                await life.serve()

            try:
                await process.run(serve())
                self.world.counts["left"] += 1
            except Crashed:
                self.world.counts["killed"] += 1
            except PenstockError:
                self.world.counts["not started"] += 1
            self.life = None
            process.crash()
            self.world.judge.absent(life)
            await self.world.pass_s(self.world.rng.uniform(0.5, 6))

    async def connect(self) -> Connection:
        """Connect to its process of the moment. Raises `Unreachable`."""
        await self.world.pass_s(self.world.rng.uniform(*WAY_S))
        life = self.life
        if life is None or life.process.crashed or not life.is_open:
            raise Unreachable(self.name)
        return Connection(life, f"ipv4:10.0.0.{life.number}:{next(life.ports)}")
