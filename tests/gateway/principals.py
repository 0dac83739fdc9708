"""A gateway that asks for signatures, and principals with rights: each is a client of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import grpc
from google.protobuf.message import Message

from penstock.coordinator.access.grants import Grant, Verb
from penstock.coordinator.access.sealing import KEY_BYTES, SealingKeys, new_key
from penstock.gateway.rocketmq.access.signature import digest_of
from penstock.gateway.rocketmq.gateway import Gateway
from penstock.gateway.rocketmq.options import RocketMQOptions
from penstock.gateway.rocketmq.protocol import rocketmq_pb2 as pb
from penstock.gateway.rocketmq.server.rpcs import SERVICE
from penstock.gateway.server.options import AccessOptions
from tests.gateway.stage import Pairs, ask, gateway

KEYS = SealingKeys.parse(new_key(bytes(KEY_BYTES)), where="the file")
SIGNED = RocketMQOptions(port=0, access=AccessOptions(keys=KEYS))
ID = "one@client@id"
"""The id that every client here chooses, unless it says otherwise."""


def secret_of(principal: str) -> str:
    return f"the-secret-of-{principal}-and-no-other"


@dataclass(frozen=True)
class Caller:
    """A client of a principal, by a connection of its own."""

    principal: str
    channel: grpc.aio.Channel
    client_id: str = ID

    def metadata(self) -> Pairs:
        date_time = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        digest = digest_of(secret_of(self.principal), date_time).hex()
        signature = f"MQv2-HMAC-SHA1 Credential={self.principal}, SignedHeaders=x-mq-date-time, Signature={digest}"
        return (("x-mq-client-id", self.client_id), ("x-mq-date-time", date_time), ("authorization", signature))

    async def ask(self, rpc: str, request: Message) -> Any:
        """The answer to a single call."""
        return await ask(self.channel, rpc, request, self.metadata())

    async def frames(self, rpc: str, request: Message) -> list[bytes]:
        """The answers to a streamed call."""
        call: Any = self.channel.unary_stream(f"/{SERVICE}/{rpc}")
        return [frame async for frame in call(request.SerializeToString(), metadata=self.metadata(), timeout=30)]

    async def announced(self, settings: pb.Settings) -> Any:
        """The telemetry stream by which it announced itself."""
        stream: Any = self.channel.stream_stream(f"/{SERVICE}/Telemetry")(metadata=self.metadata(), timeout=60)
        await stream.write(pb.TelemetryCommand(settings=settings).SerializeToString())
        assert pb.TelemetryCommand.FromString(await stream.read()).status.code == pb.OK
        return stream


@asynccontextmanager
async def caller(served: Gateway, principal: str, *grants: Grant, client_id: str = ID) -> AsyncIterator[Caller]:
    """A client of a principal, who is made with these rights unless it is there."""
    access = served.lake.coordination.access
    if principal not in (await access.read()).principals:
        await access.add(principal, secret_of(principal), KEYS)
        if grants:
            await access.grant(principal, grants)
    options = [("grpc.use_local_subchannel_pool", 1)]
    async with grpc.aio.insecure_channel(f"127.0.0.1:{served.port}", options) as channel:
        yield Caller(principal, channel, client_id)


@asynccontextmanager
async def signed_gateway(options: RocketMQOptions = SIGNED) -> AsyncIterator[Gateway]:
    async with gateway(options) as served:
        yield served


def send(*topics: str) -> list[Grant]:
    return [Grant(Verb.SEND, topic) for topic in topics]


def consume(group: str, *topics: str) -> list[Grant]:
    return [Grant(Verb.JOIN, group), *(Grant(Verb.RECEIVE, topic) for topic in topics)]


def named(name: str) -> pb.Resource:
    return pb.Resource(name=name)


def producing(*topics: str) -> pb.Settings:
    return pb.Settings(client_type=pb.PRODUCER, publishing=pb.Publishing(topics=map(named, topics)))


def message(topic: str, message_id: str, **system: Any) -> pb.SendMessageRequest:
    properties = pb.SystemProperties(message_id=message_id, **system)
    return pb.SendMessageRequest(messages=[pb.Message(topic=named(topic), body=b"a secret", system_properties=properties)])
