"""Connections over sockets: gRPC's own client, strangers, clients that stop reading, and the end."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import grpc
import pytest

from penstock.gateway.rocketmq.http2 import frames
from penstock.gateway.rocketmq.http2.calls import GrpcCall, Handler
from penstock.gateway.rocketmq.http2.connection import GrpcConnection
from penstock.gateway.rocketmq.http2.frames import ConnectionFault, StreamCode, frame
from penstock.gateway.rocketmq.http2.heads import CallFailed, CallGone, GrpcStatus
from penstock.gateway.rocketmq.http2.limits import Http2Limits
from tests.gateway.rocketmq.http2.peer import BEGIN, HEAD, block, call, sent, window
from tests.waiting import wait_until

MIB = 1 << 20


async def echo(call: GrpcCall) -> bytes | None:
    return await call.read()


class Served:
    """A server of handlers by their paths."""

    def __init__(self, handlers: dict[str, Handler], limits: Http2Limits) -> None:
        self.calls = 0
        self.connections: set[GrpcConnection] = set()
        self.faults: list[StreamCode] = []
        self.limits = limits
        self.port = 0
        self._handlers = handlers

    def add(self, connection: GrpcConnection) -> None:
        self.connections.add(connection)

    def remove(self, connection: GrpcConnection) -> None:
        self.connections.discard(connection)

    def on_fault(self, peer: str, fault: ConnectionFault) -> None:
        self.faults.append(fault.code)

    def new(self) -> GrpcConnection:
        return GrpcConnection(self._handlers.get, self.limits, self)

    async def quiet(self) -> None:
        """Return when nothing is left of any client."""
        await until(lambda: not self.connections and not self.calls, "nothing is left")


async def until(condition: Any, what: str) -> None:
    await asyncio.to_thread(wait_until, condition, what)


@asynccontextmanager
async def serving(limits: Http2Limits | None = None, **handlers: Handler) -> AsyncIterator[Served]:
    served = Served(
        {f"/a.Service/{name}": handler for name, handler in {"Call": echo, **handlers}.items()}, limits or Http2Limits()
    )
    listener = await asyncio.get_running_loop().create_server(served.new, "127.0.0.1", 0)
    served.port = listener.sockets[0].getsockname()[1]
    async with listener:
        yield served
        for connection in tuple(served.connections):
            connection.abort()
        await served.quiet()


def channel_to(served: Served) -> grpc.aio.Channel:
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", 200 * MIB)]
    return grpc.aio.insecure_channel(f"127.0.0.1:{served.port}", options)


@asynccontextmanager
async def stranger(served: Served, *said: bytes) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    writer.write(b"".join(said))
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def failure(call: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await call
    return error.value.code(), error.value.details() or ""


@pytest.mark.parametrize("size", [0, 1, 16_379, 16_380, 70_000, 3 * MIB])
async def test_messages_of_any_size_come_and_go(size: int) -> None:
    async with serving() as served, channel_to(served) as channel:
        message = random.Random(size).randbytes(size)
        method: Any = channel.unary_unary("/a.Service/Call")
        assert await asyncio.gather(*(method(message, timeout=60) for _ in range(5))) == [message] * 5


async def test_a_stream_goes_both_ways() -> None:
    async def each(call: GrpcCall) -> None:
        async for message in call.messages():
            await call.write(message[::-1])

    async with serving(Each=each) as served, channel_to(served) as channel:
        stream: Any = channel.stream_stream("/a.Service/Each")(timeout=60)
        for size in (1, 100_000, 2 * MIB, 3):
            await stream.write(b"a" + bytes(size))
            assert await stream.read() == bytes(size) + b"a"
        await stream.done_writing()
        assert await stream.read() is grpc.aio.EOF


async def test_failures_are_told_in_grpc_s_own_codes(caplog: pytest.LogCaptureFixture) -> None:
    async def refused(call: GrpcCall) -> None:
        raise CallFailed(GrpcStatus.INVALID_ARGUMENT, "größer als 100 %\n")

    async def broken(call: GrpcCall) -> None:
        raise ZeroDivisionError

    async def large(call: GrpcCall) -> bytes:
        return bytes(2_000)

    limits = Http2Limits(answer_bytes=1_000, request_bytes=1_000)
    async with serving(limits, Refused=refused, Broken=broken, Large=large) as served, channel_to(served) as channel:

        def ask(name: str, message: bytes = b"") -> Any:
            method: Any = channel.unary_unary(f"/a.Service/{name}")
            return method(message, timeout=60)

        assert await failure(ask("Refused")) == (grpc.StatusCode.INVALID_ARGUMENT, "größer als 100 %\n")
        code, said = await failure(ask("Broken"))
        assert (code, "ZeroDivisionError" in said) == (grpc.StatusCode.UNKNOWN, True)
        assert "failed in an unforeseen way" in caplog.text
        assert (await failure(ask("Large")))[0] is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert (await failure(ask("Call", bytes(2_000))))[0] is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert (await failure(ask("Other")))[0] is grpc.StatusCode.UNIMPLEMENTED
        assert await ask("Call", b"still") == b"still"


async def test_a_handler_ends_with_its_client_s_wait_and_with_its_call() -> None:
    begun, ended = asyncio.Event(), asyncio.Queue[str]()

    async def slow(call: GrpcCall) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.put_nowait("cancelled")
            with pytest.raises(CallGone):
                await call.write(b"late")
            raise

    async with serving(Slow=slow) as served, channel_to(served) as channel:
        method: Any = channel.unary_unary("/a.Service/Slow")
        assert (await failure(method(b"", timeout=0.2)))[0] is grpc.StatusCode.DEADLINE_EXCEEDED
        assert await asyncio.wait_for(ended.get(), 60) == "cancelled"
        begun.clear()
        waiting = method(b"", timeout=60)
        await begun.wait()
        waiting.cancel()
        assert await asyncio.wait_for(ended.get(), 60) == "cancelled"
        await until(lambda: not served.calls, "both are over")


async def test_a_deadline_is_told_to_a_client_that_does_not_count_itself() -> None:
    async def slow(call: GrpcCall) -> None:
        await asyncio.Event().wait()

    async with serving(Call=slow) as served, stranger(served, BEGIN, call(1, ("grpc-timeout", "10m"))) as (reader, _):
        data = await reader.readuntil(b"grpc-status\x014")
        assert data


async def test_a_call_that_was_reset_before_it_began_leaves_no_timer() -> None:
    async with serving() as served:
        loop: Any = asyncio.get_running_loop()
        flood = b"".join(call(n, ("grpc-timeout", "99999999H")) + frames.reset(n, StreamCode.CANCEL) for n in range(1, 401, 2))
        async with stranger(served, BEGIN, flood, frame(frames.PING, 0, 0, b"answered")) as (reader, _):
            await reader.readuntil(b"answered")
            await until(lambda: not served.calls, "they are over")
            late = loop.time() + 1e6
            assert not [one for one in loop._scheduled if one.when() > late and not one.cancelled()]


async def test_a_client_that_does_not_read_holds_little_and_is_not_read() -> None:
    async def much(call: GrpcCall) -> bytes:
        return bytes(64 * MIB)

    limits = Http2Limits(unsent_bytes=MIB, credit=10**9)
    async with serving(limits, Much=much) as served:
        wide = frames.settings({frames.INITIAL_WINDOW: 2**30})
        begin = BEGIN, wide, window(0, 2**30)
        head = frame(
            frames.HEADERS,
            frames.END_HEADERS | frames.END_STREAM,
            1,
            block([(name, "/a.Service/Much" if name == ":path" else value) for name, value in HEAD]),
        )
        async with stranger(served, *begin, head) as (_, writer):
            await until(lambda: served.calls, "it is answered")
            (connection,) = served.connections
            transport: Any = connection._transport
            await until(lambda: connection._session.output.is_paused, "the client's side is full")
            writer.write(frame(frames.PING, 0, 0, bytes(8)) * 1_000_000)
            await until(lambda: not transport.is_reading(), "it is not read either")
            assert transport.get_write_buffer_size() < 8 * MIB
        await served.quiet()


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", BEGIN[:24] + bytes(40)])
async def test_another_protocol_ends_at_once(said: bytes) -> None:
    async with serving() as served, stranger(served, said) as (reader, _):
        async with asyncio.timeout(60):
            await reader.read()
        await served.quiet()


async def test_a_flood_ends_its_connection_with_a_reason_and_no_other() -> None:
    async with serving(Http2Limits(credit=100)) as served, channel_to(served) as channel:
        method: Any = channel.unary_unary("/a.Service/Call")
        assert await method(b"before", timeout=60) == b"before"
        async with stranger(served, BEGIN, frame(frames.PING, 0, 0, bytes(8)) * 200) as (reader, _):
            async with asyncio.timeout(60):
                data = await reader.read()
            assert data.endswith(b"too many frames came that bring nothing")
            assert served.faults == [StreamCode.ENHANCE_YOUR_CALM]
        assert await method(b"after", timeout=60) == b"after"


async def test_connections_that_never_begin_ask_nothing_or_are_gone_are_closed() -> None:
    waits = asyncio.Event()

    async def slow(call: GrpcCall) -> None:
        await waits.wait()

    limits = Http2Limits(opening_s=0.2, idle_s=0.2, silence_s=0.2)
    async with serving(limits, Call=slow) as served:
        for said in (b"", BEGIN[:10], BEGIN, BEGIN + call(1)):  # the last one's client says nothing more
            async with stranger(served, said) as (reader, _), asyncio.timeout(60):
                assert isinstance(await reader.read(), bytes)
            await served.quiet()


async def test_a_client_that_answers_is_there() -> None:
    answered = asyncio.Event()

    async def slow(call: GrpcCall) -> bytes:
        await answered.wait()
        return b"late"

    async with serving(Http2Limits(opening_s=0.1, silence_s=0.1), Slow=slow) as served, channel_to(served) as channel:
        method: Any = channel.unary_unary("/a.Service/Slow")
        waiting = asyncio.ensure_future(method(b"", timeout=60))
        await until(lambda: served.calls, "it is under way")
        (connection,) = served.connections
        for _ in range(5):
            since = connection._heard_s
            await until(lambda since=since: connection._heard_s > since, "the client answers the ping")
        answered.set()
        assert await waiting == b"late"


async def test_the_end_is_told_and_calls_under_way_are_answered() -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(call: GrpcCall) -> bytes | None:
        begun.set()
        await go_on.wait()
        return await call.read()

    async with serving(Call=slow) as served, channel_to(served) as channel:
        method: Any = channel.unary_unary("/a.Service/Call")
        waiting = asyncio.ensure_future(method(b"asked", timeout=60))
        await begun.wait()
        (connection,) = served.connections
        connection.end()
        go_on.set()
        assert await waiting == b"asked"
        await until(lambda: connection not in served.connections, "the client closed")


async def test_whatever_clients_break_off_nothing_is_left(caplog: pytest.LogCaptureFixture) -> None:
    """Clients that speak by the rules up to any byte, and are gone; beside them one that stays."""

    async def streamed(call: GrpcCall) -> None:
        async for message in call.messages():
            await call.write(message * 20)

    async with serving(Call=streamed) as served, channel_to(served) as channel:
        rng = random.Random(7)

        async def breaks_off() -> None:
            many = [call(n) + sent(n, rng.randbytes(rng.randrange(3_000)), ends=rng.random() < 0.5) for n in range(1, 31, 2)]
            resets = [frames.reset(n, StreamCode.CANCEL) for n in range(1, 31, 2) if rng.random() < 0.3]
            data = BEGIN + b"".join(many) + window(0, 10**6) + b"".join(resets)
            async with stranger(served, data[: rng.randrange(len(data))]) as (reader, writer):
                if rng.random() < 0.3:
                    writer.write_eof()
                with suppress(TimeoutError, ConnectionError):
                    async with asyncio.timeout(rng.random() * 0.05):
                        await reader.read()

        method: Any = channel.stream_stream("/a.Service/Call")
        stays = method(timeout=120)
        for _ in range(20):
            await asyncio.gather(*(breaks_off() for _ in range(10)))
            await stays.write(b"x")
            assert len(await stays.read()) == 20
        stays.cancel()
        await until(lambda: not served.calls, "no call is left")
        await until(lambda: len(served.connections) <= 1, "no connection is left but the one that stays")
    assert not [one for one in caplog.records if one.levelno >= logging.ERROR]
