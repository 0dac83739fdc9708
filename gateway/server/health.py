"""gRPC's health protocol, for load balancers and Kubernetes.

The service ``liveness`` is served as long as the process answers. Every other name, and none, means readiness, which ends when the gateway begins to
stop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

import grpc

_SERVING: Final = b"\x08\x01"
"""The protocol's answer: field 1, a number, is 1 for SERVING and 2 for NOT_SERVING."""
_NOT_SERVING: Final = b"\x08\x02"
_LIVENESS: Final = b"\x0a\x08liveness"
"""A request that names the service ``liveness``: field 1, a text of 8 bytes."""
_READING_MAX: Final = 16
_READING_S: Final = 2.0


class HealthService(grpc.GenericRpcHandler):
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

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes] | None:
        match handler_call_details.method:
            case "/grpc.health.v1.Health/Check":
                return grpc.stream_unary_rpc_method_handler(self._check)
            case "/grpc.health.v1.Health/Watch":
                return grpc.stream_stream_rpc_method_handler(self._watch)
        return None

    def _answer(self, request: bytes) -> bytes:
        return _SERVING if self._is_ready or request == _LIVENESS else _NOT_SERVING

    async def _asked(self, requests: AsyncIterator[bytes]) -> bytes:
        """The request. As it is unsigned, few are read at once, and briefly; the rest count as nameless."""
        if self._reading >= _READING_MAX:
            return b""
        self._reading += 1
        try:
            async with asyncio.timeout(_READING_S):
                return await anext(aiter(requests), b"")
        except TimeoutError:
            return b""
        finally:
            self._reading -= 1

    async def _check(self, requests: AsyncIterator[bytes], context: Any) -> bytes:  # noqa: ANN401 - gRPC's
        return self._answer(await self._asked(requests))

    async def _watch(self, requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:  # noqa: ANN401 - gRPC's
        request = await self._asked(requests)
        told = b""
        while True:
            changed, answer = self._changed, self._answer(request)
            if answer != told:
                yield answer
                told = answer
            if not self._is_ready and told == _NOT_SERVING:
                return
            await changed.wait()
