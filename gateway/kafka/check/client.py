"""A client of one connection, which asks one thing after the other."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from contextlib import suppress
from struct import Struct
from typing import Any, Final, Self

from ....log.limits import MIB
from ...server.options import Endpoint
from ..wire.apis import APIS, Api, ApiKey
from ..wire.messages import decode_answer, encode_request
from ..wire.reading import WireReader

PATIENCE_S: Final = 10.0
_CLIENT_ID: Final = b"penstock-check"
_HEAD: Final = Struct(">ihhih")
_LENGTH: Final = Struct(">i")
_CORRELATION_BYTES: Final = 4
_ANSWER_BYTES_MAX: Final = 64 * MIB


class ConnectionClosed(Exception):
    """The other end closed the connection instead of an answer."""


class CheckClient:
    """One connection. `versions` tells it what the other end speaks."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._asked = 0
        self.highest: dict[int, int] = {}
        """The highest version of each API, once it is told."""

    @classmethod
    async def connect(cls, place: Endpoint, tls: ssl.SSLContext | None) -> Self:
        """Raises `OSError`, of which `ssl.SSLError` is one, and `TimeoutError`."""
        async with asyncio.timeout(PATIENCE_S):
            return cls(*await asyncio.open_connection(place.host, place.port, ssl=tls))

    async def close(self) -> None:
        self._writer.close()
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                await self._writer.wait_closed()

    async def versions(self) -> None:
        """Ask for the versions of all APIs. Raises as `ask`."""
        answer = await self._exchange(APIS[ApiKey.API_VERSIONS], 0, {})
        self.highest = {one.api_key: one.max_version for one in answer.api_keys}

    async def ask(self, key: ApiKey, fields: Mapping[str, object]) -> Any:  # noqa: ANN401 - the protocol's answer
        """The answer by the highest version that both know. Raises `ConnectionClosed`, `OSError` or `TimeoutError`."""
        api = APIS[key]
        return await self._exchange(api, min(api.highest, self.highest.get(key, api.lowest)), fields)

    async def _exchange(self, api: Api, version: int, fields: Mapping[str, object]) -> Any:  # noqa: ANN401 - the same
        self._asked += 1
        body = (b"\0" if api.is_flexible(version) else b"") + encode_request(api, version, fields)
        size = _HEAD.size - _LENGTH.size + len(_CLIENT_ID) + len(body)
        self._writer.write(_HEAD.pack(size, api.key, version, self._asked, len(_CLIENT_ID)) + _CLIENT_ID + body)
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._writer.drain()
                (length,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
                if not _CORRELATION_BYTES <= length <= _ANSWER_BYTES_MAX:
                    raise ConnectionClosed(f"an answer of {length} bytes is none of Kafka's protocol")
                data = await self._reader.readexactly(length)
        except (asyncio.IncompleteReadError, ConnectionError):
            raise ConnectionClosed("it closed the connection instead of answering") from None
        reader = WireReader(memoryview(data), _CORRELATION_BYTES)
        if api.has_flexible_answer_header(version):
            reader.skip_tags()
        return decode_answer(api, version, data[reader.pos :])
