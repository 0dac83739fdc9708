"""HTTP that closes connections without a request."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_S = 10.0
"""The time for the head of a request, from the connection or its first byte."""
OF_ADDRESS_MAX = 500


class HeadTimeoutProtocol(H11Protocol):
    """uvicorn's HTTP/1.1 with a limit for heads; uvicorn itself waits for ever."""

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
        return sum(address == self.client[0] for address, _ in callers) > OF_ADDRESS_MAX

    def _wait(self) -> None:
        self._waiting = self.loop.call_later(HEAD_S, self.timeout_keep_alive_handler)

    def _stop(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
