"""Producers and consumers that speak plain gRPC, and turn to another gateway when a call fails. They note what they see."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import grpc

from penstock.gateway.rocketmq.protocol import rocketmq_pb2 as pb
from penstock.gateway.rocketmq.server.rpcs import SERVICE
from tests.gateway.chaos.facts import ASKED, TOPIC, Facts, Load, Run, failures
from tests.gateway.raw import receive_request

_METHODS: Final = pb.DESCRIPTOR.services_by_name["MessagingService"].methods_by_name
_SEND_S, _POLL_S, _RECEIVE_S = 5.0, 3.0, 8.0
_INVISIBLE_S: Final = 20.0
_BATCH: Final = 32
_AGAIN_TRIES: Final = 20
"""A receive without an answer is repeated so often, here and there."""
_OPTIONS: Final = (
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
)


class Caller:
    """Calls one gateway, and the next one when that fails."""

    def __init__(self, name: str, endpoints: Sequence[str], seed: int) -> None:
        self.name = name
        self._chance = random.Random(f"{name} {seed}")
        self._channels = [grpc.aio.insecure_channel(one, _OPTIONS) for one in endpoints]
        self._at = self._chance.randrange(len(self._channels))

    def turn(self) -> None:
        self._at = (self._at + 1) % len(self._channels)

    async def call(self, name: str, request: Any, timeout_s: float) -> Any:
        """Raises `grpc.aio.AioRpcError`."""
        method: Any = self._channels[self._at].unary_unary(f"/{SERVICE}/{name}")
        data = await method(request.SerializeToString(), timeout=timeout_s, metadata=self._metadata())
        return getattr(pb, _METHODS[name].output_type.name).FromString(data)

    async def received(self, request: Any) -> tuple[int, list[Any]]:
        """The code and the messages of a receive whose answer came whole. Raises `grpc.aio.AioRpcError`."""
        method: Any = self._channels[self._at].unary_stream(f"/{SERVICE}/ReceiveMessage")
        code, messages = 0, []
        async for data in method(request.SerializeToString(), timeout=_RECEIVE_S, metadata=self._metadata()):
            frame = pb.ReceiveMessageResponse.FromString(data)
            if frame.HasField("status"):
                code = frame.status.code
            elif frame.HasField("message"):
                messages.append(frame.message)
        return code, messages

    def _metadata(self) -> tuple[tuple[str, str], ...]:
        return (("x-mq-client-id", self.name), ("x-mq-language", "PYTHON"))

    async def close(self) -> None:
        await asyncio.gather(*(channel.close() for channel in self._channels))


async def produce(caller: Caller, load: Load, refused: Counter[str], *, first: int, limit: int) -> None:
    """Send a part of a load, each message until it is answered OK, and the next of its message group then."""

    async def work(begin: int) -> None:
        for number in range(begin, limit, load.threads):
            body = f"{load.name}:{number}"
            properties = pb.SystemProperties(message_id=f"{load.name}-{number}", message_group=load.group_of(body))
            message = pb.Message(topic={"name": TOPIC}, body=body.encode(), system_properties=properties)
            while not await _is_sent(caller, message, refused):
                caller.turn()

    await asyncio.gather(*(work(first + thread) for thread in range(load.threads)))


async def _is_sent(caller: Caller, message: Any, refused: Counter[str]) -> bool:
    try:
        answer = await caller.call("SendMessage", pb.SendMessageRequest(messages=[message]), _SEND_S)
    except grpc.aio.AioRpcError as error:
        refused[f"send {error.code().name}"] += 1
        return False
    if answer.status.code != pb.OK:
        refused[f"send {pb.Code.Name(answer.status.code)}"] += 1
    return bool(answer.status.code == pb.OK)


class Asking:
    """A consumer that asks for messages with attempt ids, and repeats a receive whose answer was lost at another gateway."""

    def __init__(self, caller: Caller, facts: Facts, refused: Counter[str]) -> None:
        self._caller = caller
        self._facts = facts
        self._refused = refused
        self._numbers = itertools.count()
        self.lost = 0
        """Receives without an answer. Where the messages were visible again before it was repeated, nobody saw that attempt."""

    async def run(self, ending: asyncio.Event) -> None:
        while not ending.is_set():
            attempt_id = f"{self._caller.name}-{next(self._numbers)}"
            messages = await self._received(attempt_id)
            if not messages:  # this gateway may own no queue
                self._caller.turn()
            lanes: dict[str, list[Any]] = {}
            for message in messages:
                properties = message.system_properties
                self._facts.gave((properties.queue_id, properties.queue_offset), properties.delivery_attempt, attempt_id)
                lanes.setdefault(properties.message_group, []).append(message)
            await asyncio.gather(*(self._handled(lane) for lane in lanes.values()))

    async def _received(self, attempt_id: str) -> list[Any]:
        request = receive_request(ASKED, TOPIC, most=_BATCH, poll_s=_POLL_S)
        request.invisible_duration.FromSeconds(round(_INVISIBLE_S))
        request.attempt_id = attempt_id
        for _ in range(_AGAIN_TRIES):
            try:
                code, messages = await self._caller.received(request)
            except grpc.aio.AioRpcError as error:
                self._refused[f"receive {error.code().name}"] += 1
                self.lost += 1
                self._caller.turn()
                continue
            if code not in (pb.OK, pb.MESSAGE_NOT_FOUND):
                self._refused[f"receive {pb.Code.Name(code)}"] += 1
                self._caller.turn()
                continue
            return messages
        return []

    async def _handled(self, messages: list[Any]) -> None:
        """Handle messages of one message group in order, as far as they succeed."""
        for message in messages:
            body, properties = message.body.decode(), message.system_properties
            failed = properties.delivery_attempt <= failures(body)
            place = (properties.queue_id, properties.queue_offset)
            self._facts.runs[ASKED].append(Run(time.time(), self._caller.name, body, properties.delivery_attempt, failed, place))
            if not await self._settled(properties, failed=failed):
                return

    async def _settled(self, properties: Any, *, failed: bool) -> bool:
        """Whether the message was acknowledged, so that the next of its message group is handled."""
        named: dict[str, Any] = {"group": {"name": ASKED}, "topic": {"name": TOPIC}}
        request: Any
        if failed:
            rpc, request = "ChangeInvisibleDuration", pb.ChangeInvisibleDurationRequest(**named)
            request.receipt_handle = properties.receipt_handle
            request.invisible_duration.FromSeconds(0)
        else:
            entry = pb.AckMessageEntry(message_id=properties.message_id, receipt_handle=properties.receipt_handle)
            rpc, request = "AckMessage", pb.AckMessageRequest(**named, entries=[entry])
        until_s = time.monotonic() + _INVISIBLE_S
        while time.monotonic() < until_s:
            try:
                answer = await self._caller.call(rpc, request, _SEND_S)
            except grpc.aio.AioRpcError as error:
                self._refused[f"{rpc} {error.code().name}"] += 1
                self._caller.turn()
                continue
            if answer.status.code == pb.OK:
                return not failed
            self._refused[f"{rpc} {pb.Code.Name(answer.status.code)}"] += 1
            if answer.status.code == pb.INVALID_RECEIPT_HANDLE:
                return False
            self._caller.turn()
        return False
