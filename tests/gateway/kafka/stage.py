"""A server of Kafka's protocol with the handlers that a test brings, and a client that says exactly what a test wants."""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Any

from penstock.gateway.kafka.server.calls import AdmitAll, Handler, KafkaAuthorizer, KafkaCallRunner
from penstock.gateway.kafka.server.limits import ConnectionLimits
from penstock.gateway.kafka.server.server import KafkaServer
from penstock.gateway.kafka.wire.apis import APIS, ApiKey
from penstock.gateway.kafka.wire.errors import ErrorCode
from penstock.gateway.server.options import GatewayOptions
from penstock.log.runtime.runtime import SystemClock

Answered = tuple[str, int, ErrorCode]


class Stage:
    """A running server."""

    def __init__(self, server: KafkaServer, answered: list[Answered]) -> None:
        self.server = server
        self.answered = answered
        """API, version and code of each answer."""
        self._clients: list[Client] = []

    async def client(self, port: int | None = None, context: ssl.SSLContext | None = None) -> Client:
        """A connection, closed at the end at the latest."""
        host = "127.0.0.1" if context is None else "localhost"
        client = Client(*await asyncio.open_connection(host, self.server.port if port is None else port, ssl=context))
        self._clients.append(client)
        return client

    async def close(self) -> None:
        for client in self._clients:
            await client.close()


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._sent = 0

    def send(self, key: int, version: int, body: bytes = b"", *, client_id: bytes = b"test") -> int:
        """Send a request, and return its correlation id."""
        self._sent += 1
        api = APIS.get(key)
        tags = b"\0" if api is not None and api.is_flexible(version) else b""
        frame = struct.pack(">hhih", key, version, self._sent, len(client_id)) + client_id + tags + body
        self.writer.write(struct.pack(">i", len(frame)) + frame)
        return self._sent

    async def answer(self) -> tuple[int, bytes]:
        """The next answer's correlation id, and the rest. Raises `asyncio.IncompleteReadError` at the end."""
        async with asyncio.timeout(30):
            (length,) = struct.unpack(">i", await self.reader.readexactly(4))
            data = await self.reader.readexactly(length)
        (correlation_id,) = struct.unpack_from(">i", data)
        return correlation_id, data[4:]

    async def is_closed(self) -> bool:
        """Whether nothing more comes. Waits for it."""
        async with asyncio.timeout(30):
            try:
                return not await self.reader.read(1)
            except ConnectionResetError:
                return True

    async def close(self) -> None:
        self.writer.close()
        with suppress(OSError):
            await self.writer.wait_closed()


async def until(is_so: Callable[[], bool]) -> None:
    """Let everybody take steps until it is so, and no more."""
    for _ in range(1_000_000):
        if is_so():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never is")


@asynccontextmanager
async def stage(
    handlers: Mapping[ApiKey, Handler],
    limits: ConnectionLimits | None = None,
    access: KafkaAuthorizer | None = None,
    **options: Any,
) -> AsyncIterator[Stage]:
    answered: list[Answered] = []
    calls = KafkaCallRunner(clock=SystemClock(), handlers=handlers, access=access or AdmitAll())
    calls.on_answer = lambda call, request, code, took_s, size: answered.append((call.api.name, call.version, code))
    settings = GatewayOptions(**{"port": 0, "drain": timedelta(seconds=5), **options})
    server = KafkaServer(settings, calls, SystemClock(), limits)
    await server.start()
    on = Stage(server, answered)
    try:
        yield on
    finally:
        await on.close()
        await server.stop()
        assert server.connections == 0
        assert server.budget.held() == 0, "everything is given back"
