"""Counts and sizes are bounded before any work is done: for strangers, for each principal whatever ids its clients choose, and for all."""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import Any
from zlib import compress

import grpc
import pytest

from penstock.coordinator.queues import receipt_handle
from penstock.coordinator.queues.receipt_handle import ReceiptHandle
from penstock.gateway.bounds.receive_budget import BudgetLimits
from penstock.gateway.rocketmq.clients import registry
from penstock.gateway.rocketmq.protocol import rocketmq_pb2 as pb
from penstock.gateway.rocketmq.server import calls
from penstock.gateway.rocketmq.server.rpcs import SERVICE
from penstock.log import InvalidArgument, Message
from penstock.log.produce.delays import RecallHandle
from tests.gateway.principals import Caller, caller, consume, message, named, producing, send, signed_gateway
from tests.gateway.raw import receive_request
from tests.gateway.rocketmq.consumers.test_bounds import channel_to, read, until
from tests.gateway.stage import CLIENT, ask, gateway, route

MIB = 1 << 20


async def test_a_stranger_is_answered_before_anything_of_its_request_is_read() -> None:
    async with signed_gateway() as served, channel_to(served) as channel:
        for rpc in ("SendMessage", "ReceiveMessage", "AckMessage"):
            call: Any = channel.stream_stream(f"/{SERVICE}/{rpc}")(metadata=CLIENT, timeout=30)
            answer = pb.HeartbeatResponse.FromString(await call.read())  # nothing was sent yet
            assert answer.status.code == pb.UNAUTHORIZED, rpc


async def test_a_call_without_a_request_has_a_status() -> None:
    async with gateway() as served, channel_to(served) as channel:
        call: Any = channel.stream_unary(f"/{SERVICE}/QueryRoute")(metadata=CLIENT, timeout=30)
        await call.done_writing()
        status = pb.QueryRouteResponse.FromString(await call).status
        assert (status.code, status.message) == (pb.BAD_REQUEST, "the call has no request")


async def test_what_grpc_packed_is_not_unpacked() -> None:
    async with gateway() as served, channel_to(served) as channel:
        request = pb.SendMessageRequest(messages=[pb.Message(topic=named("orders"), body=bytes(8 * MIB))])
        method: Any = channel.unary_unary(f"/{SERVICE}/SendMessage")
        data = await method(request.SerializeToString(), metadata=CLIENT, timeout=30, compression=grpc.Compression.Gzip)
        status = pb.SendMessageResponse.FromString(data).status
        assert (status.code, "is packed by gRPC" in status.message) == (pb.UNSUPPORTED, True)


def packed_body() -> pb.Message:
    """A message of 4 MiB, in some KiB."""
    properties = pb.SystemProperties(message_id="A1", body_encoding=pb.GZIP)
    return pb.Message(topic=named("orders"), body=compress(bytes(4 * MIB)), system_properties=properties)


async def test_packed_bodies_are_unpacked_up_to_what_a_request_may_have() -> None:
    """Each is within the topic's limit, and a thousand times smaller on its way."""
    async with gateway() as served, channel_to(served) as channel:
        status = (await ask(channel, "SendMessage", pb.SendMessageRequest(messages=[packed_body()] * 9))).status
        assert status.code == pb.PAYLOAD_TOO_LARGE
        assert (await ask(channel, "SendMessage", pb.SendMessageRequest(messages=[packed_body()]))).status.code == pb.OK


async def test_requests_that_send_nothing_are_small() -> None:
    async with gateway() as served, channel_to(served) as channel:
        large = route().SerializeToString() + b"\x82\x7d" + b"\x80\x80\x80\x01" + bytes(2 * MIB)  # field 2000
        method: Any = channel.unary_unary(f"/{SERVICE}/QueryRoute")
        answer = pb.QueryRouteResponse.FromString(await method(large, metadata=CLIENT, timeout=30))
        assert answer.status.code == pb.PAYLOAD_TOO_LARGE


async def test_what_a_principal_has_on_its_way_is_bounded() -> None:
    async with (
        signed_gateway() as served,
        caller(served, "shop", *send("orders")) as shop,
        caller(served, "bar", *send("orders")) as other,
    ):
        with served.calls.shares.take(calls.REQUESTS, "shop", calls.REQUESTS.each):
            status = (await shop.ask("SendMessage", message("orders", "A1"))).status
            assert (status.code, "of shop" in status.message) == (pb.TOO_MANY_REQUESTS, True)
            assert (await other.ask("SendMessage", message("orders", "A1"))).status.code == pb.OK
        with served.calls.shares.take(calls.REQUESTS, "shop", calls.REQUESTS.each - 3 * MIB):
            status = (await shop.ask("SendMessage", pb.SendMessageRequest(messages=[packed_body()]))).status
            assert (status.code, "of shop" in status.message) == (pb.TOO_MANY_REQUESTS, True), "it counts as unpacked"
            assert (await shop.ask("SendMessage", message("orders", "A1"))).status.code == pb.OK
        assert served.calls.shares.held(calls.REQUESTS) == 0


async def test_what_a_poll_or_a_stream_asked_counts_as_long_as_it_is_open() -> None:
    """It is kept for as long, and a principal may have thousands of them."""
    unknown = b"\x82\x7d" + b"\x80\x80\x40" + bytes(MIB)  # field 2000
    grants = *consume("billing", "orders"), *send("orders")
    async with signed_gateway() as served, caller(served, "shop", *grants) as shop:
        shares, said = served.calls.shares, shop.metadata()
        poll: Any = shop.channel.unary_stream(f"/{SERVICE}/ReceiveMessage")(
            receive_request("billing", "orders").SerializeToString() + unknown, metadata=said
        )
        reading = asyncio.ensure_future(read(poll))
        await until(lambda: shares.held(calls.REQUESTS, "shop") > MIB, "the poll waits")
        stream: Any = shop.channel.stream_stream(f"/{SERVICE}/Telemetry")(metadata=said)
        settings = pb.TelemetryCommand(settings=producing("orders"))
        for sent in (settings.SerializeToString() + unknown, settings.SerializeToString() + unknown):
            await stream.write(sent)
            await stream.read()
        await until(lambda: 2 * MIB < shares.held(calls.REQUESTS, "shop") < 3 * MIB, "of a stream the last one counts")
        stream.cancel()
        poll.cancel()
        await asyncio.wait((reading,))
        await until(lambda: not shares.held(calls.REQUESTS), "both are over")
        with shares.take(calls.REQUESTS, "shop", calls.REQUESTS.each):
            (frame,) = await shop.frames("ReceiveMessage", receive_request("billing", "orders"))
            assert pb.ReceiveMessageResponse.FromString(frame).status.code == pb.TOO_MANY_REQUESTS


def test_a_connection_has_few_calls_under_way_and_others_do_not_wait(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with gateway() as served, channel_to(served) as crowded, channel_to(served) as other:
            served.calls.calls_of_a_connection = 2
            method: Any = crowded.unary_stream(f"/{SERVICE}/ReceiveMessage")
            polls = [method(receive_request("billing", "orders").SerializeToString(), metadata=CLIENT) for _ in range(2)]
            begun = [asyncio.ensure_future(read(poll)) for poll in polls]
            await until(lambda: served.consumers.budget.polls == 2, "both wait")
            for _ in range(3):
                assert (await ask(crowded, "QueryRoute", route())).status.code == pb.TOO_MANY_REQUESTS
            assert (await ask(other, "QueryRoute", route())).status.code == pb.OK
            for poll in polls:
                poll.cancel()
            await asyncio.wait(begun)
            await until(lambda: not served.calls._calls, "they are over")
            assert (await ask(crowded, "QueryRoute", route())).status.code == pb.OK

    with caplog.at_level(logging.WARNING, logger="penstock.gateway"):
        asyncio.run(main())
    (line,) = [one.message for one in caplog.records if one.name == "penstock.gateway"]
    assert "has 2 calls under way, and may have 2" in line


async def test_a_connection_is_told_how_many_streams_it_may_have() -> None:
    """By the settings with which the server begins (RFC 9113, 6.5)."""

    def settings(port: int) -> dict[int, int]:
        with socket.create_connection(("127.0.0.1", port), timeout=30) as plain:
            plain.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0)))
            data = b""
            while len(data) < 9 or len(data) < 9 + int.from_bytes(data[:3], "big"):
                data += plain.recv(4096)
        size = int.from_bytes(data[:3], "big")
        assert data[3] == 4
        pairs = [data[at : at + 6] for at in range(9, 9 + size, 6)]
        return {int.from_bytes(pair[:2], "big"): int.from_bytes(pair[2:], "big") for pair in pairs}

    async with gateway() as served:
        assert (await asyncio.to_thread(settings, served.port))[3] == served.server.limits.calls
        assert served.calls.calls_of_a_connection < served.server.limits.calls


async def test_who_speaks_another_protocol_is_closed_and_told_in_the_log_once_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "penstock.gateway")
    async with gateway() as served:
        for begun in (b"GET / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00"):
            reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
            writer.write(begun)
            async with asyncio.timeout(60):
                await reader.read()
            writer.close()
        http, tls = [one for one in caplog.records if "is closed" in one.message]
        assert http.levelno == logging.WARNING
        assert "the client does not begin as HTTP/2 does: what came looks like HTTP" in http.message
        assert "what came looks like TLS" in tls.message


# --- Whatever ids a principal's clients choose -------------------------------------------------------------------------------------


async def test_a_principal_s_clients_have_one_share_together() -> None:
    async with signed_gateway() as served:
        served.consumers.budget.bounds = BudgetLimits(owner_polls=2)
        grants = consume("billing", "orders")
        async with caller(served, "shop", *grants) as shop, caller(served, "bar", *consume("billing", "orders")) as other:
            clients = [Caller("shop", shop.channel, f"client-{number}") for number in range(3)]
            polls = [asyncio.ensure_future(one.frames("ReceiveMessage", receive_request("billing", "orders"))) for one in clients]
            (refused,), waiting = await asyncio.wait(polls, return_when=asyncio.FIRST_COMPLETED)
            (frame,) = await refused
            assert pb.ReceiveMessageResponse.FromString(frame).status.code == pb.TOO_MANY_REQUESTS
            frames = await other.frames("ReceiveMessage", receive_request("billing", "orders", poll_s=0.1))
            assert pb.ReceiveMessageResponse.FromString(frames[0]).status.code == pb.MESSAGE_NOT_FOUND
            for poll in waiting:
                poll.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)


async def test_a_principal_s_clients_hold_one_share_of_unread_messages_together() -> None:
    async with signed_gateway() as served:
        budget = served.consumers.budget
        budget.bounds = BudgetLimits(owner_bytes=4 * MIB)
        producer = await served.lake.producer("orders")
        for _ in range(16):
            await producer.send(Message(bytes(MIB)))
        async with caller(served, "shop", *consume("billing", "orders")) as shop, channel_to(served) as slow:
            method: Any = slow.unary_stream(f"/{SERVICE}/ReceiveMessage")
            pull = pb.PullMessageRequest(
                group=named("billing"), message_queue=pb.MessageQueue(topic=named("orders")), batch_size=32
            )
            first = receive_request("billing", "orders", invisible_s=3600).SerializeToString()
            unread = method(first, metadata=Caller("shop", slow, "a").metadata(), timeout=60)
            await until(lambda: budget.held_bytes > 8 * MIB, "an answer is under way")
            for rpc, request in (("PullMessage", pull), ("ReceiveMessage", receive_request("billing", "orders"))):
                (frame,) = await Caller("shop", shop.channel, "b").frames(rpc, request)
                assert pb.PullMessageResponse.FromString(frame).status.code == pb.TOO_MANY_REQUESTS, rpc
            unread.cancel()
            await until(lambda: not budget.held_bytes, "it is over")


async def test_a_principal_has_a_number_of_clients_and_those_that_end_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "CLIENTS_OF_ONE_MAX", 2)
    async with signed_gateway() as served, caller(served, "shop") as shop, caller(served, "bar") as other:
        heartbeat, goodbye = pb.HeartbeatRequest(client_type=pb.PRODUCER), pb.NotifyClientTerminationRequest()
        first, second, third = (Caller("shop", shop.channel, f"client-{number}") for number in range(3))
        for one in (first, second):
            assert (await one.ask("Heartbeat", heartbeat)).status.code == pb.OK
        assert (await third.ask("Heartbeat", heartbeat)).status.code == pb.TOO_MANY_REQUESTS
        assert (await other.ask("Heartbeat", heartbeat)).status.code == pb.OK
        assert (await first.ask("NotifyClientTermination", goodbye)).status.code == pb.OK
        assert (await third.ask("Heartbeat", heartbeat)).status.code == pb.OK


async def test_a_client_s_id_is_short() -> None:
    async with gateway() as served, channel_to(served) as channel:
        status = (await ask(channel, "QueryRoute", route(), (("x-mq-client-id", "x" * 513),))).status
        assert status.code == pb.REQUEST_HEADER_FIELDS_TOO_LARGE


def test_handles_that_are_too_long_are_neither_decoded_nor_kept() -> None:
    kept = receipt_handle._decoded.cache_info().currsize
    for text in ("A" * 1_025, "A" * MIB):
        with pytest.raises(InvalidArgument, match="not a receipt handle"):
            ReceiptHandle.decode(text)
        with pytest.raises(InvalidArgument, match="not a receipt handle"):
            receipt_handle.is_genuine(text, "00")
        with pytest.raises(InvalidArgument, match="no recall handle"):
            RecallHandle.decode(text)
    assert receipt_handle._decoded.cache_info().currsize == kept
    longest = ReceiptHandle(
        group="g" * 255,
        topic="%DLQ%" + "t" * 249,
        queue=4095,
        offset=2**62,
        generation=2**62,
        attempt=2**62,
        lane=2**62,
        following=2**63 - 1,
    )
    assert ReceiptHandle.decode(longest.encode("00")) == longest
    recall = RecallHandle("t" * 249, 2**62, 2**62, "i" * 128)
    assert RecallHandle.decode(recall.encode()) == recall


# --- Odd calls are answered, and leave no traceback ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [2**62, -(2**62), 253_402_300_800])
def test_a_time_that_is_none_is_refused(seconds: int, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with gateway() as served, channel_to(served) as channel:
            request = pb.QueryOffsetRequest(message_queue=pb.MessageQueue(topic=named("orders")), query_offset_policy=pb.TIMESTAMP)
            request.timestamp.seconds = seconds
            assert (await ask(channel, "QueryOffset", request)).status.code == pb.BAD_REQUEST

    asyncio.run(main())
    assert not [one for one in caplog.records if one.exc_info]


def test_a_client_that_leaves_in_the_middle_of_its_settings_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with gateway() as served, channel_to(served) as channel:
            asked, left = asyncio.Event(), asyncio.Event()
            topic = served.topic_directory.topic

            async def late(name: str) -> Any:
                asked.set()
                await asyncio.shield(left.wait())
                return await topic(name)

            served.topic_directory.topic = late  # type: ignore[method-assign]
            stream: Any = channel.stream_stream(f"/{SERVICE}/Telemetry")(metadata=CLIENT, timeout=30)
            await stream.write(pb.TelemetryCommand(settings=producing("orders")).SerializeToString())
            await asked.wait()
            stream.cancel()
            left.set()
            await until(lambda: not served.calls._calls, "the stream is over")
            assert (await ask(channel, "Heartbeat", pb.HeartbeatRequest())).status.code == pb.OK

    asyncio.run(main())
    assert not [one for one in caplog.records if one.exc_info or one.levelno >= logging.ERROR]
