"""The RPCs of clients' announcements and routes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Final

from ....aio import Lake
from ....log.limits import TopicLimits
from ...peers.registry import PeerRegistry
from ...topics.directory import TopicDirectory
from ..protocol import rocketmq_pb2 as pb
from ..protocol.resources import group_of, topic_of
from ..protocol.status import StatusError, ok, status
from ..server.calls import RpcCall
from ..server.rpcs import Rpc, rpc
from .registry import ClientRegistry, GatewayClient, Send
from .routes import assignment, brokers, route
from .settings import settings_for

_TOLD_TWICE: Final = frozenset({pb.NODE_JS})
"""SDKs that miss an answer to their settings ahead of all topics' routes, and then wait for ever."""
_AGAIN_S: Final = 1.0
_CONSUMERS = frozenset({pb.PUSH_CONSUMER, pb.SIMPLE_CONSUMER, pb.PULL_CONSUMER})


class ClientService:
    """Answers QueryRoute, Heartbeat, Telemetry and NotifyClientTermination."""

    def __init__(self, lake: Lake, clients: ClientRegistry, peers: PeerRegistry, names: TopicDirectory) -> None:
        self._lake = lake
        self._clients = clients
        self._peers = peers
        self._names = names
        self._ending = asyncio.Event()

    def end(self) -> None:
        """End all clients' streams, which they open elsewhere."""
        self._ending.set()

    def rpcs(self) -> Iterable[Rpc]:
        yield rpc("QueryRoute", self.query_route)
        yield rpc("QueryAssignment", self.query_assignment)
        yield rpc("Heartbeat", self.heartbeat)
        yield rpc("Telemetry", self.telemetry)
        yield rpc("NotifyClientTermination", self.notify_client_termination)

    async def query_route(self, request: pb.QueryRouteRequest, call: RpcCall) -> pb.QueryRouteResponse:
        name = topic_of(request.topic)
        topic = await self._names.topic(name)
        home = brokers(name, self._peers, request.endpoints, tls=call.is_tls)[0]
        return pb.QueryRouteResponse(status=ok(), message_queues=route(request.topic, topic.settings, home))

    async def query_assignment(self, request: pb.QueryAssignmentRequest, call: RpcCall) -> pb.QueryAssignmentResponse:
        """One place to poll at each gateway, each with its share of the group's queues."""
        name, group = topic_of(request.topic), group_of(request.group)
        await self._names.topic(name)
        if await self._names.group(group) is None:
            raise StatusError(pb.CONSUMER_GROUP_NOT_FOUND, f"the lake has no consumer group {group}; create it first")
        places = brokers(name, self._peers, request.endpoints, tls=call.is_tls)
        return pb.QueryAssignmentResponse(status=ok(), assignments=[assignment(request.topic, broker) for broker in places])

    async def heartbeat(self, request: pb.HeartbeatRequest, call: RpcCall) -> pb.HeartbeatResponse:
        client = self._clients.of(call)
        if request.client_type in _CONSUMERS and request.HasField("group"):
            client.client_type, client.group = request.client_type, group_of(request.group)
        return pb.HeartbeatResponse(status=ok())

    async def notify_client_termination(
        self, request: pb.NotifyClientTerminationRequest, call: RpcCall
    ) -> pb.NotifyClientTerminationResponse:
        self._clients.remove(call.client)
        return pb.NotifyClientTerminationResponse(status=ok())

    async def telemetry(self, commands: AsyncIterator[pb.TelemetryCommand], call: RpcCall, send: Send) -> None:
        client = self._clients.of(call)
        again: asyncio.Task[None] | None = None
        try:
            async for command in _until(self._ending, commands):
                client = self._clients.of(call)
                if command.HasField("settings"):
                    answer = await self._answer(command.settings, client, send)
                    await send(answer)
                    if again is None and command.settings.user_agent.language in _TOLD_TWICE:
                        again = asyncio.ensure_future(_send_again(send, answer))
                    self._clients.notify_change(client)
        finally:
            if again is not None:
                again.cancel()
                await asyncio.gather(again, return_exceptions=True)
            if client.send is send:
                client.send = None
                self._clients.notify_change(client)

    async def _answer(self, settings: pb.Settings, client: GatewayClient, send: Send) -> pb.TelemetryCommand:
        # All at once, and nothing of an earlier announcement: a stream is asked about what it announced by itself, and has the right to.
        client.client_type, client.send = settings.client_type, send
        client.topics = frozenset(map(topic_of, settings.publishing.topics))
        if settings.HasField("publishing"):
            answer = settings_for(settings, body_bytes_max=await self._body_bytes_max(client.topics), group=None)
            return pb.TelemetryCommand(status=ok(), settings=answer)
        if not settings.HasField("subscription"):
            raise StatusError(pb.UNRECOGNIZED_CLIENT_TYPE, "settings are neither those of a producer nor of a consumer")
        client.group = group_of(settings.subscription.group)
        client.subscribed = frozenset(topic_of(one.topic) for one in settings.subscription.subscriptions)
        group = await self._names.group(client.group)
        answer = settings_for(settings, body_bytes_max=0, group=group)
        if group is None:
            refusal = status(pb.CONSUMER_GROUP_NOT_FOUND, f"the lake has no consumer group {client.group}; create it first")
            return pb.TelemetryCommand(status=refusal, settings=answer)
        return pb.TelemetryCommand(status=ok(), settings=answer)

    async def _body_bytes_max(self, topics: Iterable[str]) -> int:
        """The largest limit of a producer's topics: an SDK has one for all."""
        found = [(await self._names.topic(topic)).settings.limits.max_body_bytes for topic in topics]
        return max(found, default=TopicLimits().max_body_bytes)


async def _send_again(send: Send, answer: pb.TelemetryCommand) -> None:
    await asyncio.sleep(_AGAIN_S)
    await send(answer)


async def _until(ending: asyncio.Event, commands: AsyncIterator[pb.TelemetryCommand]) -> AsyncIterator[pb.TelemetryCommand]:
    ended = asyncio.ensure_future(ending.wait())
    reading: asyncio.Future[pb.TelemetryCommand] | None = None
    try:
        while True:
            reading = asyncio.ensure_future(anext(commands))
            await asyncio.wait((ended, reading), return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                return
            try:
                command = reading.result()
            except StopAsyncIteration:
                return
            yield command
    finally:
        for task in (ended, reading):
            if task is not None:
                task.cancel()
        await asyncio.gather(*(one for one in (ended, reading) if one is not None), return_exceptions=True)
