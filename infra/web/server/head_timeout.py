"""HTTP that closes connections without a request."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from uvicorn.protocols.http.h11_impl import H11Protocol

from .forwarded import TrustedProxies, address_block

HEAD_S = 10.0
"""The time for the head of a request, from the connection or its first byte."""
OF_ADDRESS_MAX = 200
"""The open connections of one address: room for the 50 watched pages of several viewers behind it."""


class HeadTimeoutProtocol(H11Protocol):
    """uvicorn's HTTP/1.1 with a limit for heads; uvicorn itself waits for ever."""

    proxies = TrustedProxies()
    """Their connections are those of many callers, and are not counted."""
    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as there
        super().connection_made(transport)
        if self._is_one_too_many():
            transport.abort()
        else:
            self._wait()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop()
        elif self._waiting is None:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def _is_one_too_many(self) -> bool:
        if len(self.connections) <= OF_ADDRESS_MAX or self.client is None:
            return False
        callers = [one.client for one in self.connections if isinstance(one, HeadTimeoutProtocol) and one.client is not None]
        return is_one_too_many(self.client[0], [address for address, _ in callers], self.proxies)

    def _wait(self) -> None:
        self._waiting = self.loop.call_later(HEAD_S, self.timeout_keep_alive_handler)

    def _stop(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None


def is_one_too_many(caller: str, open_of: Sequence[str], proxies: TrustedProxies) -> bool:
    """Whether a caller has too many connections, of those that are open by address."""
    block = address_block(caller)
    return caller not in proxies and sum(address_block(address) == block for address in open_of) > OF_ADDRESS_MAX


def protocol_of(proxies: TrustedProxies) -> type[HeadTimeoutProtocol]:
    """The protocol for a console behind these proxies."""
    return type("ConsoleProtocol", (HeadTimeoutProtocol,), {"proxies": proxies})
