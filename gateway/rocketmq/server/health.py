"""gRPC's health protocol, for load balancers and Kubernetes.

The service ``liveness`` is served as long as the process answers. Every other name, and none, means readiness, which ends when the gateway begins to
stop.
"""

from __future__ import annotations

import asyncio
from typing import Final

from ..http2.calls import GrpcCall, Handler

_SERVING: Final = b"\x08\x01"
"""The protocol's answer: field 1, a number, is 1 for SERVING and 2 for NOT_SERVING."""
_NOT_SERVING: Final = b"\x08\x02"
_LIVENESS: Final = b"\x0a\x08liveness"
"""A request that names the service ``liveness``: field 1, a text of 8 bytes."""
_READING_MAX: Final = 16
_READING_S: Final = 2.0


class HealthService:
    """This process's readiness and liveness."""

    def __init__(self) -> None:
        self._is_ready = False
        self._changed = asyncio.Event()
        self._reading = 0

    @property
    def is_ready(self) -> bool:
        return self._is_ready

    @is_ready.setter
    def is_ready(self, ready: bool) -> None:
        self._is_ready = ready
        self._changed.set()
        self._changed = asyncio.Event()

    def handlers(self) -> dict[str, Handler]:
        """The handlers by their paths."""
        return {"/grpc.health.v1.Health/Check": self._check, "/grpc.health.v1.Health/Watch": self._watch}

    def _answer(self, request: bytes) -> bytes:
        return _SERVING if self._is_ready or request == _LIVENESS else _NOT_SERVING

    async def _asked(self, call: GrpcCall) -> bytes:
        """The request. As it is unsigned, few are read at once, and briefly; the rest count as nameless."""
        if self._reading >= _READING_MAX:
            return b""
        self._reading += 1
        try:
            async with asyncio.timeout(_READING_S):
                return await call.read() or b""
        except TimeoutError:
            return b""
        finally:
            self._reading -= 1

    async def _check(self, call: GrpcCall) -> bytes:
        return self._answer(await self._asked(call))

    async def _watch(self, call: GrpcCall) -> None:
        request = await self._asked(call)
        told = b""
        while True:
            changed, answer = self._changed, self._answer(request)
            if answer != told:
                await call.write(answer)
                told = answer
            if not self._is_ready and told == _NOT_SERVING:
                return
            await changed.wait()
