"""Clients that take more than their share, or speak another protocol: what they are told, and what the gateway goes on with."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import grpc
import pytest

from penstock.gateway.bounds.receive_budget import BudgetLimits
from penstock.gateway.rocketmq.consumers import receive_parameters
from penstock.gateway.rocketmq.gateway import Gateway
from penstock.gateway.rocketmq.protocol import rocketmq_pb2 as pb
from penstock.gateway.rocketmq.server.rpcs import SERVICE
from penstock.log import Message
from tests.gateway.raw import receive_request
from tests.gateway.stage import CLIENT, Pairs, ask, gateway, route
from tests.waiting import wait_until

OTHER: Pairs = (("x-mq-client-id", "other"),)
MIB = 1 << 20


def receiving(channel: grpc.aio.Channel, metadata: Pairs = CLIENT, **stated: Any) -> Any:
    """A receive whose answers nobody reads yet."""
    method: Any = channel.unary_stream(f"/{SERVICE}/ReceiveMessage")
    return method(receive_request("billing", "orders", **stated).SerializeToString(), metadata=metadata, timeout=60)


async def read(answers: Any) -> tuple[int, list[Any]]:
    """The code and the messages of a receive, read to its end."""
    code, messages = 0, []
    async for data in answers:
        frame = pb.ReceiveMessageResponse.FromString(data)
        if frame.HasField("status"):
            code = frame.status.code
        elif frame.HasField("message"):
            messages.append(frame.message)
    return code, messages


async def filled(served: Gateway, count: int, body_bytes: int = MIB) -> None:
    producer = await served.lake.producer("orders")
    await asyncio.gather(*(producer.send(Message(bytes(body_bytes))) for _ in range(count)))
    await producer.close()


def channel_to(served: Gateway) -> grpc.aio.Channel:
    options = [
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.max_receive_message_length", 8 * MIB),
        ("grpc.http2.bdp_probe", 0),  # else the client takes 16 MiB that nobody reads
        ("grpc.http2.lookahead_bytes", 65_535),
    ]
    return grpc.aio.insecure_channel(f"127.0.0.1:{served.port}", options)


async def until(condition: Callable[[], object], what: str) -> None:
    """Let the loop run until that is so."""
    await asyncio.to_thread(wait_until, condition, what)


async def test_a_client_that_does_not_read_gets_no_more_and_others_do(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "penstock.gateway")
    async with gateway() as served, channel_to(served) as slow, channel_to(served) as quick:
        budget = served.consumers.budget
        budget.bounds = BudgetLimits(client_bytes=8 * MIB)
        await filled(served, 40)
        unread = receiving(slow, invisible_s=3600)
        await until(lambda: budget.held_bytes, "an answer is under way")
        assert budget.held_bytes > 8 * MIB
        assert await read(receiving(slow)) == (pb.TOO_MANY_REQUESTS, [])
        said = "is answered with 42900 TOO_MANY_REQUESTS: there are too many bytes of messages that this client has not read"
        assert said in caplog.text
        assert (await read(receiving(quick, OTHER, poll_s=0.1)))[0] in (pb.OK, pb.MESSAGE_NOT_FOUND)
        assert (await read(unread))[0] == pb.OK
        await until(lambda: not budget.held_bytes, "all is read")
        assert (await read(receiving(slow, poll_s=0.1)))[0] in (pb.OK, pb.MESSAGE_NOT_FOUND)


async def test_a_client_has_few_polls_open_and_those_that_end_make_room() -> None:
    async with gateway() as served, channel_to(served) as channel:
        budget = served.consumers.budget
        budget.bounds = BudgetLimits(client_polls=2)
        polls = [receiving(channel, poll_s=20) for _ in range(2)]
        begun = [asyncio.ensure_future(read(poll)) for poll in polls]
        await until(lambda: budget.polls == 2, "both wait")
        assert (await read(receiving(channel)))[0] == pb.TOO_MANY_REQUESTS
        assert (await read(receiving(channel, OTHER, poll_s=0.1)))[0] == pb.MESSAGE_NOT_FOUND
        polls[0].cancel()
        await asyncio.wait(begun[:1])
        await until(lambda: budget.polls == 1, "one is over")
        await filled(served, 1, 10)
        code, messages = await begun[1]
        assert (code, len(messages)) == (pb.OK, 1)


async def test_what_was_cut_off_in_mid_answer_comes_again_though_its_attempt_id_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is renewed no longer, and visible when its time is over: in a minute, but for this test."""
    monkeypatch.setattr(receive_parameters, "INVISIBLE_DURATION", timedelta(seconds=10))
    async with gateway() as served, channel_to(served) as channel, channel_to(served) as other:
        await filled(served, 8)
        answers = receiving(channel, attempt_id="first")
        assert pb.ReceiveMessageResponse.FromString(await answers.read()).status.code == pb.OK
        answers.cancel()
        await until(lambda: not served.consumers.budget.held_bytes, "the answer has ended")
        attempts: list[int] = []
        for number in range(10):
            _, messages = await read(receiving(other, attempt_id=f"next-{number}", poll_s=3))
            attempts += [message.system_properties.delivery_attempt for message in messages]
            if attempts:
                break
        assert set(attempts) == {2}


def test_a_request_that_is_none_is_told_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "penstock.gateway")

    async def run() -> None:
        async with gateway() as served, channel_to(served) as channel:
            method: Any = channel.unary_unary(f"/{SERVICE}/SendMessage")
            answer = pb.SendMessageResponse.FromString(await method(b"\xff\xff", metadata=CLIENT))
            assert answer.status.code == pb.BAD_REQUEST

    asyncio.run(run())
    assert "SendMessage of client test@1@0@a at ipv4:127.0.0.1" in caplog.text
    assert "is answered with 40000 BAD_REQUEST: the request is no SendMessageRequest" in caplog.text


async def test_http_1_is_ended_and_harms_nobody() -> None:
    async with gateway() as served, channel_to(served) as channel:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        async with asyncio.timeout(30):
            said = await reader.read()
        writer.close()
        assert b"200" not in said
        assert (await ask(channel, "QueryRoute", route())).status.code == pb.OK
