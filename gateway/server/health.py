"""gRPC's health protocol, which load balancers and Kubernetes ask.

The service ``liveness`` is served as long as the process answers. Every other name, and none, means readiness: not served from the moment
in which the gateway begins to stop.
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


class Health(grpc.GenericRpcHandler):
    """Answers whether this process is ready, and whether it lives."""

    def __init__(self) -> None:
        self._is_ready = False
        self._changed = asyncio.Event()

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
                return grpc.unary_unary_rpc_method_handler(self._check)
            case "/grpc.health.v1.Health/Watch":
                return grpc.unary_stream_rpc_method_handler(self._watch)
        return None

    def _answer(self, request: bytes) -> bytes:
        return _SERVING if self._is_ready or request == _LIVENESS else _NOT_SERVING

    async def _check(self, request: bytes, context: Any) -> bytes:  # noqa: ANN401 - gRPC's
        return self._answer(request)

    async def _watch(self, request: bytes, context: Any) -> AsyncIterator[bytes]:  # noqa: ANN401 - gRPC's
        told = b""
        while True:
            changed, answer = self._changed, self._answer(request)
            if answer != told:
                yield answer
                told = answer
            if not self._is_ready and told == _NOT_SERVING:
                return
            await changed.wait()
