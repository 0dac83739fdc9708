"""A gateway that asks for signatures, as clients meet it: every call has a status, and what is refused is."""

from __future__ import annotations

import asyncio
import socket
import time
from datetime import datetime
from typing import Any

import grpc
import pytest

from penstock.coordinator.access.grants import Grant, Verb
from penstock.coordinator.access.sealing import KEY_BYTES, SealingKeys, new_key
from penstock.gateway.rocketmq.access.signature import digest_of
from penstock.gateway.rocketmq.gateway import Gateway
from penstock.gateway.rocketmq.options import RocketMQOptions
from penstock.gateway.rocketmq.protocol import rocketmq_pb2 as pb
from penstock.gateway.rocketmq.server.rpcs import SERVICE
from penstock.gateway.server.options import AccessOptions
from tests.gateway.stage import CLIENT, Pairs, ask, gateway, route

KEYS = SealingKeys.parse(new_key(bytes(KEY_BYTES)), where="the file")
SECRET = "correct-horse-battery"
OPTIONS = RocketMQOptions(port=0, access=AccessOptions(keys=KEYS), request_bytes_max=1000)


def signed(secret: str = SECRET, key: str = "shop") -> Pairs:
    """The headers of a client, with local time as SDKs send it."""
    date_time = datetime.now().strftime("%Y%m%dT%H%M%SZ")  # noqa: DTZ005 - as SDKs do
    digest = digest_of(secret, date_time).hex()
    signature = f"MQv2-HMAC-SHA1 Credential={key}, SignedHeaders=x-mq-date-time, Signature={digest}"
    return (*CLIENT, ("x-mq-date-time", date_time), ("authorization", signature))


async def with_shop(served: Gateway, *grants: Grant) -> None:
    access = served.lake.coordination.access
    await access.add("shop", SECRET, KEYS)
    if grants:
        await access.grant("shop", grants)


async def test_calls_are_answered_as_sdks_expect() -> None:
    async with gateway(OPTIONS) as served, grpc.aio.insecure_channel(f"127.0.0.1:{served.port}") as channel:
        await with_shop(served, Grant(Verb.SEND, "orders"))
        assert (await ask(channel, "QueryRoute", route(), signed())).status.code == pb.OK
        unsigned = (await ask(channel, "QueryRoute", route())).status
        assert (unsigned.code, unsigned.message[:22]) == (pb.UNAUTHORIZED, "the call is not signed")
        assert (await ask(channel, "QueryRoute", route(), signed("wrong-horse-battery"))).status.code == pb.UNAUTHORIZED
        assert (await ask(channel, "QueryRoute", route("secrets"), signed())).status.code == pb.FORBIDDEN
        heartbeat = pb.HeartbeatRequest(client_type=pb.PUSH_CONSUMER, group=pb.Resource(name="billing"))
        assert (await ask(channel, "Heartbeat", heartbeat, signed())).status.code == pb.FORBIDDEN
        assert (await ask(channel, "Heartbeat", pb.HeartbeatRequest(client_type=pb.PRODUCER), signed())).status.code == pb.OK


async def test_a_client_without_rights_is_not_remembered() -> None:
    async with gateway(OPTIONS) as served, grpc.aio.insecure_channel(f"127.0.0.1:{served.port}") as channel:
        await ask(channel, "Heartbeat", pb.HeartbeatRequest(client_type=pb.PRODUCER))
        assert len(served.clients) == 0


async def test_a_stream_is_refused_and_ends_when_its_right_does() -> None:
    producer = pb.TelemetryCommand(
        settings=pb.Settings(client_type=pb.PRODUCER, publishing=pb.Publishing(topics=[pb.Resource(name="orders")]))
    )
    async with gateway(OPTIONS) as served, grpc.aio.insecure_channel(f"127.0.0.1:{served.port}") as channel:
        await with_shop(served, Grant(Verb.SEND, "orders"))
        telemetry: Any = channel.stream_stream(f"/{SERVICE}/Telemetry")
        unsigned = telemetry(metadata=CLIENT, timeout=30)
        refusal = pb.TelemetryCommand.FromString(await unsigned.read())
        assert refusal.status.code == pb.UNAUTHORIZED
        stream = telemetry(metadata=signed(), timeout=60)
        await stream.write(producer.SerializeToString())
        assert pb.TelemetryCommand.FromString(await stream.read()).status.code == pb.OK
        await served.lake.coordination.access.remove("shop")
        assert served.authorizer is not None
        served.authorizer.principals.cache._read_s = None  # some seconds later
        await stream.write(producer.SerializeToString())
        assert pb.TelemetryCommand.FromString(await stream.read()).status.code == pb.UNAUTHORIZED
        assert await stream.read() is grpc.aio.EOF


async def test_what_is_too_large_is_not_decoded() -> None:
    async with gateway(OPTIONS) as served, grpc.aio.insecure_channel(f"127.0.0.1:{served.port}") as channel:
        await with_shop(served, Grant(Verb.SEND, "orders"))
        large = pb.SendMessageRequest(messages=[pb.Message(topic=pb.Resource(name="orders"), body=bytes(1001))])
        status = (await ask(channel, "QueryRoute", large, signed())).status
        assert status.code == pb.PAYLOAD_TOO_LARGE
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await ask(channel, "QueryRoute", pb.QueryRouteRequest(topic=pb.Resource(name="x" * 10_000)), signed())
        assert raised.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED, "gRPC's own limit, four times as large"


async def test_http_1_on_the_port_is_turned_away() -> None:
    def speak(port: int) -> bytes:
        with socket.create_connection(("127.0.0.1", port), timeout=30) as plain:
            plain.sendall(b"GET / HTTP/1.1\r\nHost: gateway\r\n\r\n")
            found = b""
            while piece := plain.recv(4096):
                found += piece
            return found

    async with gateway() as served:
        started_s = time.monotonic()
        await asyncio.to_thread(speak, served.port)
        assert time.monotonic() - started_s < 25
        async with grpc.aio.insecure_channel(f"127.0.0.1:{served.port}") as channel:
            assert (await ask(channel, "QueryRoute", route())).status.code == pb.OK
