"""A check of a gateway by what clients do, with ``send`` also by a message."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import grpc
from google.protobuf.message import Message

from ...log.runtime.runtime import Runtime
from ..server.check_finding import CheckFailed, CheckFinding
from ..server.options import Endpoint
from .access.signature import digest_of
from .protocol import rocketmq_pb2 as pb
from .server.rpcs import SERVICE

_PATIENCE_S: Final = 10.0
_RECEIVE_S: Final = 10.0
_RECEIVES_MAX: Final = 30
_HEALTH: Final = "/grpc.health.v1.Health/Check"
_SERVING: Final = b"\x08\x01"
_INVISIBLE: Final = timedelta(seconds=30)
_TIME: Final = "%Y%m%dT%H%M%SZ"


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckTarget:
    """The gateway, and the client's credentials."""

    place: Endpoint
    topic: str | None = None
    group: str | None = None
    namespace: str = ""
    tls: bool = False
    root: bytes | None = None
    """Trusted certificates (PEM); None: the machine's."""
    access_key: str = ""
    secret: str = ""


class GatewayChecker:
    """The checks in turn."""

    def __init__(self, target: CheckTarget, runtime: Runtime) -> None:
        self._target = target
        self._runtime = runtime
        self._client_id = f"penstock-check@{runtime.new_id()}"

    async def run(self, *, send: bool = False) -> AsyncIterator[CheckFinding]:
        """The findings, up to a problem that hides the rest. Without ``send`` nothing is written."""
        async with self._channel(self._target.place) as channel:
            connected = await self._step(
                "connection", lambda: self._connect(channel), "Is it running, and is TLS used by both or none?"
            )
            yield connected
            if not connected.is_ok:
                return
            yield await self._step("health", lambda: self._health(channel))
            if self._target.topic is not None:
                queues: list[pb.MessageQueue] = []
                yield await self._step("route", lambda: self._route(channel, queues))
                yield await self._step("places", lambda: self._places(queues))
            yield await self._step("announcement", lambda: self._announce(channel))
            yield await self._step("heartbeat", lambda: self._heartbeat(channel))
            if send:
                body = self._runtime.new_id().encode()
                sent = await self._step("send", lambda: self._send(channel, body))
                yield sent
                if sent.is_ok:
                    yield await self._step("receive", lambda: self._receive(channel, body))
            yield await self._step("termination", lambda: self._leave(channel))

    async def _step(self, name: str, work: Callable[[], Awaitable[str]], fix: str = "") -> CheckFinding:
        try:
            return CheckFinding(name, True, await work())
        except CheckFailed as failed:
            return CheckFinding(name, False, failed.observed, failed.fix or fix)
        except grpc.aio.AioRpcError as error:
            return CheckFinding(name, False, f"{error.code().name}: {error.details()}", fix)
        except TimeoutError:
            return CheckFinding(name, False, f"no answer within {_PATIENCE_S:.0f} s", fix)

    # --- Steps ------------------------------------------------------------------------------------------------------------------

    async def _connect(self, channel: grpc.aio.Channel) -> str:
        await asyncio.wait_for(channel.channel_ready(), _PATIENCE_S)
        return f"{self._target.place}, {'TLS' if self._target.tls else 'plaintext'}"

    async def _health(self, channel: grpc.aio.Channel) -> str:
        call: Any = channel.unary_unary(_HEALTH)
        if await call(b"", timeout=_PATIENCE_S) != _SERVING:
            raise CheckFailed("it is not ready", "It is about to end: clients go on at another gateway")
        return "ready"

    async def _route(self, channel: grpc.aio.Channel, queues: list[pb.MessageQueue]) -> str:
        place = pb.Endpoints(
            scheme=pb.DOMAIN_NAME, addresses=[pb.Address(host=self._target.place.host, port=self._target.place.port)]
        )
        answer = await self._ask(channel, "QueryRoute", pb.QueryRouteRequest(topic=self._topic(), endpoints=place))
        queues += answer.message_queues
        types = {pb.MessageType.Name(one) for queue in queues for one in queue.accept_message_types}
        return f"{self._target.topic}: {len(queues)} queues of type {', '.join(sorted(types)) or 'unknown'}"

    async def _places(self, queues: list[pb.MessageQueue]) -> str:
        named = {Endpoint(one.host, one.port) for queue in queues for one in queue.broker.endpoints.addresses}
        if not named:
            raise CheckFailed("the route names no place")
        for place in sorted(named, key=str):
            try:
                async with self._channel(place) as channel:
                    await asyncio.wait_for(channel.channel_ready(), _PATIENCE_S)
            except TimeoutError:
                raise CheckFailed(
                    f"{place} is not reached from here", "Give the gateways --address, or --advertise for one address of all"
                ) from None
        return ", ".join(sorted(map(str, named)))

    async def _announce(self, channel: grpc.aio.Channel) -> str:
        settings = pb.Settings(user_agent=pb.UA(language=pb.PYTHON, version="check"))
        if self._target.group is not None:
            settings.client_type = pb.SIMPLE_CONSUMER
            topics = [self._topic()] if self._target.topic is not None else []
            entries = [
                pb.SubscriptionEntry(topic=one, expression=pb.FilterExpression(type=pb.TAG, expression="*")) for one in topics
            ]
            settings.subscription.CopyFrom(pb.Subscription(group=self._group(), subscriptions=entries))
        else:
            settings.client_type = pb.PRODUCER
            settings.publishing.topics.extend([self._topic()] if self._target.topic is not None else [])
            settings.publishing.SetInParent()
        stream: Any = channel.stream_stream(f"/{SERVICE}/Telemetry")(metadata=self._metadata(), timeout=_PATIENCE_S)
        await stream.write(pb.TelemetryCommand(settings=settings).SerializeToString())
        data = await stream.read()
        stream.cancel()
        if data is grpc.aio.EOF:
            raise CheckFailed("the stream ended without an answer")
        found = pb.TelemetryCommand.FromString(data)
        _check(found.status)
        if self._target.group is None:
            return f"as a producer; bodies up to {found.settings.publishing.max_body_size:,} bytes"
        order = "ORDERLY" if found.settings.subscription.fifo else "CONCURRENT"
        return f"as a consumer of {self._target.group}, which is {order}; {found.settings.backoff_policy.max_attempts} attempts"

    async def _heartbeat(self, channel: grpc.aio.Channel) -> str:
        kind = pb.PRODUCER if self._target.group is None else pb.SIMPLE_CONSUMER
        request = pb.HeartbeatRequest(client_type=kind, group=self._group())
        started_s = self._runtime.clock.monotonic_s()
        await self._ask(channel, "Heartbeat", request)
        return f"answered in {(self._runtime.clock.monotonic_s() - started_s) * 1000:.1f} ms"

    async def _leave(self, channel: grpc.aio.Channel) -> str:
        await self._ask(channel, "NotifyClientTermination", pb.NotifyClientTerminationRequest(group=self._group()))
        return "taken note of"

    async def _send(self, channel: grpc.aio.Channel, body: bytes) -> str:
        system = pb.SystemProperties(
            message_id=f"check-{body.decode()}",
            message_type=pb.NORMAL,
            body_encoding=pb.IDENTITY,
            born_host="penstock gateway rocketmq check",
        )
        system.born_timestamp.FromMilliseconds(self._runtime.clock.wall_ms())
        started_s = self._runtime.clock.monotonic_s()
        message = pb.Message(topic=self._topic(), system_properties=system, body=body)
        answer = await self._ask(channel, "SendMessage", pb.SendMessageRequest(messages=[message]))
        _check(answer.entries[0].status)
        return f"durable in {(self._runtime.clock.monotonic_s() - started_s) * 1000:.1f} ms"

    async def _receive(self, channel: grpc.aio.Channel, body: bytes) -> str:
        """Receive until the sent message comes. Others become visible again by themselves."""
        receive = pb.ReceiveMessageRequest(
            group=self._group(),
            message_queue=pb.MessageQueue(topic=self._topic(), id=-1),
            filter_expression=pb.FilterExpression(type=pb.TAG, expression="*"),
            batch_size=32,
            invisible_duration=_INVISIBLE,
            long_polling_timeout=timedelta(seconds=1),
        )
        deadline_s = self._runtime.clock.monotonic_s() + _RECEIVE_S
        for _ in range(_RECEIVES_MAX):
            for message in await self._received(channel, receive):
                if message.body == body:
                    system = message.system_properties
                    entry = pb.AckMessageEntry(message_id=system.message_id, receipt_handle=system.receipt_handle)
                    request = pb.AckMessageRequest(group=self._group(), topic=self._topic(), entries=[entry])
                    _check((await self._ask(channel, "AckMessage", request)).entries[0].status)
                    return "the message came, and is acknowledged"
            if self._runtime.clock.monotonic_s() > deadline_s:
                break
        raise CheckFailed(
            "the message did not come", "Use a topic and a group for checks alone: this one has others' messages, or members"
        )

    async def _received(self, channel: grpc.aio.Channel, request: pb.ReceiveMessageRequest) -> list[pb.Message]:
        call: Any = channel.unary_stream(f"/{SERVICE}/ReceiveMessage")
        found = []
        async for data in call(request.SerializeToString(), metadata=self._metadata(), timeout=_PATIENCE_S):
            answer = pb.ReceiveMessageResponse.FromString(data)
            if answer.HasField("status") and answer.status.code != pb.MESSAGE_NOT_FOUND:
                _check(answer.status)
            if answer.HasField("message"):
                found.append(answer.message)
        return found

    # --- Calls ------------------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _channel(self, place: Endpoint) -> AsyncIterator[grpc.aio.Channel]:
        if self._target.tls:
            channel = grpc.aio.secure_channel(str(place), grpc.ssl_channel_credentials(self._target.root))
        else:
            channel = grpc.aio.insecure_channel(str(place))
        async with channel:
            yield channel

    async def _ask(self, channel: grpc.aio.Channel, rpc: str, request: Message) -> Any:  # noqa: ANN401 - the protocol's answer
        answer = getattr(pb, pb.DESCRIPTOR.services_by_name["MessagingService"].methods_by_name[rpc].output_type.name)
        call: Any = channel.unary_unary(f"/{SERVICE}/{rpc}")
        found = answer.FromString(await call(request.SerializeToString(), metadata=self._metadata(), timeout=_PATIENCE_S))
        _check(found.status)
        return found

    def _metadata(self) -> tuple[tuple[str, str], ...]:
        said = (("x-mq-client-id", self._client_id), ("x-mq-language", "PYTHON"), ("x-mq-protocol", "GRPC_V2"))
        if not self._target.access_key:
            return said
        date_time = datetime.fromtimestamp(self._runtime.clock.wall_ms() / 1000, UTC).strftime(_TIME)
        digest = digest_of(self._target.secret, date_time).hex()
        signed = f"MQv2-HMAC-SHA1 Credential={self._target.access_key}, SignedHeaders=x-mq-date-time, Signature={digest}"
        return (*said, ("x-mq-date-time", date_time), ("authorization", signed))

    def _topic(self) -> pb.Resource:
        return pb.Resource(resource_namespace=self._target.namespace, name=self._target.topic or "")

    def _group(self) -> pb.Resource | None:
        group = self._target.group
        return None if group is None else pb.Resource(resource_namespace=self._target.namespace, name=group)


def _check(status: pb.Status) -> None:
    if status.code not in (pb.OK, pb.MULTIPLE_RESULTS):
        raise CheckFailed(f"{status.code} {pb.Code.Name(status.code)}: {status.message}")
