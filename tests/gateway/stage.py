"""A gateway over a lake in memory, and clients that speak the protocol by themselves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
from google.protobuf.message import Message

from penstock import aio
from penstock.aio import TopicSettings
from penstock.gateway.rocketmq.gateway import Gateway
from penstock.gateway.rocketmq.options import RocketMQOptions
from penstock.gateway.rocketmq.protocol import rocketmq_pb2 as pb
from penstock.gateway.rocketmq.server.rpcs import SERVICE

Pairs = tuple[tuple[str, str], ...]
CLIENT: Pairs = (("x-mq-client-id", "test@1@0@a"), ("x-mq-language", "PYTHON"))


@asynccontextmanager
async def gateway(options: RocketMQOptions | None = None) -> AsyncIterator[Gateway]:
    """A gateway at a free port."""
    async with aio.connect("memory://") as lake:
        await lake.create_topic("orders", TopicSettings(queues=1))
        await lake.create_group("billing")
        async with Gateway(lake, options or RocketMQOptions(port=0)) as served:
            yield served


async def ask(channel: grpc.aio.Channel, rpc: str, request: Message, metadata: Pairs = CLIENT) -> Any:
    """The answer to a single call."""
    method = pb.DESCRIPTOR.services_by_name["MessagingService"].methods_by_name[rpc]
    answer = getattr(pb, method.output_type.name)
    call: Any = channel.unary_unary(f"/{SERVICE}/{rpc}")
    return answer.FromString(await call(request.SerializeToString(), metadata=metadata, timeout=30))


def route(topic: str = "orders") -> pb.QueryRouteRequest:
    return pb.QueryRouteRequest(topic=pb.Resource(name=topic), endpoints=pb.Endpoints())
