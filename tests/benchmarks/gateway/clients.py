"""The cheapest client there is: requests that were made before, and answers of which only the status and the receipt handles are read."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import grpc

from penstock.gateway.rocketmq.protocol import rocketmq_pb2 as pb
from penstock.gateway.rocketmq.server.rpcs import SERVICE
from tests.benchmarks.rows import BODY, GROUPS

METADATA = (
    ("x-mq-client-id", "bench@1@0@client"),
    ("x-mq-language", "JAVA"),
    ("x-mq-protocol", "v2"),
    ("x-mq-client-version", "5.2.0"),
    ("x-mq-request-id", "0c8f6a7e-6f3a-4f0b-9d0e-2b7a4f6b8c1d"),
    ("x-mq-date-time", "20261126T120000Z"),
)
"""What SDKs send with every call."""
_ids = itertools.count()


class Client:
    """One connection to a gateway, as one client of an SDK has it."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._send: Any = channel.unary_unary(f"/{SERVICE}/SendMessage")
        self._receive: Any = channel.unary_stream(f"/{SERVICE}/ReceiveMessage")
        self._ack: Any = channel.unary_unary(f"/{SERVICE}/AckMessage")

    async def call(self, data: bytes) -> bytes:
        """A SendMessage, whose answer is not looked at."""
        answer: bytes = await self._send(data, metadata=METADATA)
        return answer

    async def send(self, data: bytes) -> None:
        _check(pb.SendMessageResponse.FromString(await self.call(data)).status)

    async def frames(self, data: bytes) -> list[bytes]:
        """The frames of a ReceiveMessage."""
        return [frame async for frame in self._receive(data, metadata=METADATA)]

    async def receive(self, data: bytes) -> list[str]:
        """The receipt handles of a receive; none if nothing came."""
        frames = [pb.ReceiveMessageResponse.FromString(frame) for frame in await self.frames(data)]
        if frames[0].status.code == pb.MESSAGE_NOT_FOUND:
            return []
        _check(frames[0].status)
        return [frame.message.system_properties.receipt_handle for frame in frames if frame.HasField("message")]

    async def ack(self, topic: str, group: str, handles: list[str]) -> None:
        entries = [pb.AckMessageEntry(message_id="", receipt_handle=handle) for handle in handles]
        request = pb.AckMessageRequest(topic=pb.Resource(name=topic), group=pb.Resource(name=group), entries=entries)
        _check(pb.AckMessageResponse.FromString(await self._ack(request.SerializeToString(), metadata=METADATA)).status)


def _check(status: pb.Status) -> None:
    if status.code != pb.OK:
        raise RuntimeError(f"{pb.Code.Name(status.code)}: {status.message}")


@asynccontextmanager
async def client(endpoints: str) -> AsyncIterator[Client]:
    # A subchannel pool of its own: else channels to one place share a connection.
    async with grpc.aio.insecure_channel(endpoints, [("grpc.use_local_subchannel_pool", 1)]) as channel:
        yield Client(channel)


def send_requests(topic: str, count: int, *, together: int, fifo: bool) -> list[bytes]:
    """Requests that send so many messages of 100 B, ``together`` in each."""
    return [
        pb.SendMessageRequest(messages=[_message(topic, number, fifo=fifo) for number in numbers]).SerializeToString()
        for numbers in _chunks(count, together)
    ]


def _message(topic: str, number: int, *, fifo: bool) -> pb.Message:
    system = pb.SystemProperties(
        message_id=f"01{next(_ids):032X}",
        message_type=pb.FIFO if fifo else pb.NORMAL,
        message_group=GROUPS[number % len(GROUPS)] if fifo else None,
        born_host="bench",
        body_encoding=pb.IDENTITY,
    )
    system.born_timestamp.FromMilliseconds(1_790_000_000_000)
    return pb.Message(topic=pb.Resource(name=topic), system_properties=system, body=BODY)


def _chunks(count: int, together: int) -> Iterator[range]:
    for start in range(0, count, together):
        yield range(start, min(count, start + together))


def receive_request(topic: str, group: str, *, most: int, poll_s: float = 5) -> bytes:
    """A receive as simple consumers ask."""
    request = pb.ReceiveMessageRequest(
        group=pb.Resource(name=group),
        message_queue=pb.MessageQueue(topic=pb.Resource(name=topic), id=-1),
        filter_expression=pb.FilterExpression(type=pb.TAG, expression="*"),
        batch_size=most,
    )
    request.invisible_duration.FromTimedelta(timedelta(seconds=60))
    request.long_polling_timeout.FromTimedelta(timedelta(seconds=poll_s))
    return request.SerializeToString()


async def side_by_side(count: int, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run so many tasks of a kind, until all have ended or one has failed."""
    async with asyncio.TaskGroup() as tasks:
        for _ in range(count):
            tasks.create_task(work())
