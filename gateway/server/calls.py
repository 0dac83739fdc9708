"""The one place around every call: who calls, whether it is admitted, and the status of whatever goes wrong."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import grpc
from google.protobuf.message import DecodeError, Message

from ...log.errors import PenstockError
from ...log.runtime.runtime import Clock
from ..protocol import rocketmq_pb2 as pb
from ..protocol.metadata import Metadata, metadata_of
from ..protocol.status import Refused, status, status_of
from .rpcs import Rpc

log = logging.getLogger("penstock.gateway")

_OURS = frozenset({pb.INTERNAL_SERVER_ERROR, pb.INTERNAL_ERROR})
"""The codes that say that the gateway or the store failed, and not the caller."""
_CHECK_AGAIN_S = 3.0
"""A streamed answer that began later than this after its request was allowed is checked again."""


@dataclass(slots=True)
class Call:
    """One call, as far as it is known before its request is."""

    rpc: str
    metadata: Metadata
    peer: str
    remaining_s: float | None = None
    """The time that the client still waits; None: for ever."""
    principal: str = ""
    """The name behind its credentials; empty where nobody asks for any."""
    proof: str = ""
    """The credential that proved it."""
    is_tls: Callable[[], bool] = field(default=lambda: False, repr=False)
    """Whether the client is connected by TLS; few calls ask."""


class Access(Protocol):
    """Decides who may call what. All methods raise `Refused`."""

    async def admit(self, call: Call) -> None:
        """Name the principal of a call, by its headers alone. Asked before its request is decoded."""
        ...

    async def allow(self, call: Call, request: Message) -> None:
        """Return if the principal may do what it asks for."""
        ...

    async def check_again(self, call: Call, request: Message) -> None:
        """Return if it still may: a call that lasts ends when its right does."""
        ...


class AnyAccess:
    """Admits everybody to everything."""

    async def admit(self, call: Call) -> None:
        return

    async def allow(self, call: Call, request: Message) -> None:
        return

    async def check_again(self, call: Call, request: Message) -> None:
        return


class Observer(Protocol):
    """Is told of every answer."""

    def answered(self, call: Call, request: Message | None, code: int, took_s: float, size_bytes: int) -> None:
        """``request`` is None where it was not looked at. Of a two-way call each request is told."""
        ...


@dataclass(slots=True, kw_only=True)
class Calls:
    """Runs the handlers of RPCs. Every answer has a status, whatever happens."""

    clock: Clock
    request_bytes_max: int
    seen: Callable[[Call], None] = lambda call: None
    """Told of every admitted call: its client lives."""
    access: Access = field(default_factory=AnyAccess)
    observers: list[Observer] = field(default_factory=list)

    def handler(self, rpc: Rpc) -> grpc.RpcMethodHandler[bytes, bytes]:
        """The handler that gRPC is given for an RPC: bytes in, bytes out."""
        if rpc.is_two_way:
            return grpc.stream_stream_rpc_method_handler(self._two_way(rpc))
        if rpc.is_streamed:
            return grpc.unary_stream_rpc_method_handler(self._streamed(rpc))
        return grpc.unary_unary_rpc_method_handler(self._single(rpc))

    def _single(self, rpc: Rpc) -> Callable[[bytes, Any], Awaitable[bytes]]:
        async def run(data: bytes, context: Any) -> bytes:  # noqa: ANN401 - gRPC's, whose stubs name another class
            started_s, request = self.clock.monotonic_s(), None
            call = _call(rpc, context)
            try:
                await self._admit(call)
                request = await self._decoded(rpc, call, data)
                answer = await rpc.handle(request, call)
                code: int = answer.status.code
            except Exception as error:  # noqa: BLE001 - whatever happened, the caller gets a status
                refusal = _refusal(call, error)
                answer, code = rpc.answer(status=refusal), refusal.code
            self._tell(call, request, code, started_s, len(data))
            return answer.SerializeToString()

        return run

    def _streamed(self, rpc: Rpc) -> Callable[[bytes, Any], AsyncIterator[bytes]]:
        async def run(data: bytes, context: Any) -> AsyncIterator[bytes]:  # noqa: ANN401 - the same
            started_s, code, request = self.clock.monotonic_s(), int(pb.OK), None
            call = _call(rpc, context)
            try:
                await self._admit(call)
                request = await self._decoded(rpc, call, data)
                checked_s = self.clock.monotonic_s()
                async for answer in rpc.handle(request, call):
                    if (now_s := self.clock.monotonic_s()) - checked_s > _CHECK_AGAIN_S:
                        await self.access.check_again(call, request)
                        checked_s = now_s
                    if answer.HasField("status"):
                        code = answer.status.code
                    yield answer.SerializeToString()
            except Exception as error:  # noqa: BLE001 - the same
                refusal = _refusal(call, error)
                code = refusal.code
                yield rpc.answer(status=refusal).SerializeToString()
            self._tell(call, request, code, started_s, len(data))

        return run

    def _two_way(self, rpc: Rpc) -> Callable[[AsyncIterator[bytes], Any], Awaitable[None]]:
        async def run(requests: AsyncIterator[bytes], context: Any) -> None:  # noqa: ANN401 - the same
            call = _call(rpc, context)
            writing = asyncio.Lock()
            last: Message | None = None
            started_s = self.clock.monotonic_s()

            async def send(answer: Message) -> None:
                if last is not None:
                    await self.access.check_again(call, last)
                await write(answer)

            async def write(answer: Message) -> None:
                async with writing:
                    await context.write(answer.SerializeToString())

            async def decoded() -> AsyncIterator[Message]:
                nonlocal last
                nonlocal started_s
                async for data in requests:
                    started_s = self.clock.monotonic_s()
                    request = await self._decoded(rpc, call, data)
                    if last is not None:
                        await self.access.check_again(call, request)
                    last = request
                    yield request
                    self._tell(call, request, pb.OK, started_s, len(data))

            try:
                await self._admit(call)  # once: a stream has the signature of its beginning, which grows old
                await rpc.handle(decoded(), call, send)
            except Exception as error:  # noqa: BLE001 - the same
                refusal = _refusal(call, error)
                self._tell(call, last, refusal.code, started_s, 0)
                if refusal.code == pb.UNRECOGNIZED_CLIENT_TYPE:
                    await context.abort(grpc.StatusCode.INVALID_ARGUMENT, refusal.message)
                await write(rpc.answer(status=refusal))

        return run

    def _tell(self, call: Call, request: Message | None, code: int, started_s: float, size_bytes: int) -> None:
        took_s = self.clock.monotonic_s() - started_s
        for observer in self.observers:
            observer.answered(call, request, code, took_s, size_bytes)

    async def _admit(self, call: Call) -> None:
        if not call.metadata.client_id:
            raise Refused(pb.CLIENT_ID_REQUIRED, "client id cannot be empty: the metadata x-mq-client-id is missing")
        await self.access.admit(call)

    async def _decoded(self, rpc: Rpc, call: Call, data: bytes) -> Message:
        """A request of an admitted call. Raises `Refused`."""
        if len(data) > self.request_bytes_max:
            raise Refused(
                pb.PAYLOAD_TOO_LARGE, f"the request of {len(data)} bytes exceeds the max {self.request_bytes_max} of this gateway"
            )
        try:
            request = rpc.request.FromString(data)
        except DecodeError:
            raise Refused(pb.BAD_REQUEST, f"the request is no {rpc.request.DESCRIPTOR.name}") from None
        await self.access.allow(call, request)
        self.seen(call)
        return request


def _call(rpc: Rpc, context: Any) -> Call:  # noqa: ANN401 - gRPC's
    return Call(
        rpc.name,
        metadata_of(context.invocation_metadata()),
        context.peer(),
        context.time_remaining(),
        is_tls=lambda: _is_tls(context),
    )


def _is_tls(context: Any) -> bool:  # noqa: ANN401 - gRPC's
    return b"ssl" in context.auth_context().get("transport_security_type", ())


def facts_of(call: Call) -> dict[str, object]:
    """What a call says of its caller, for programs that read logs; without credentials."""
    said = call.metadata
    return {
        "rpc": call.rpc,
        "principal": call.principal,
        "peer": call.peer,
        "client_id": said.client_id,
        "language": said.language,
        "client_version": said.version,
        "request_id": said.request_id,
        "namespace": said.namespace,
    }


def _refusal(call: Call, error: Exception) -> pb.Status:
    """The status of an error, which is logged: a caller's mistakes by a line, the gateway's own failures as such."""
    refusal = status_of(error)
    who = f"{call.rpc} of client {call.metadata.client_id or '?'} at {call.peer} (request {call.metadata.request_id or '?'})"
    if isinstance(error, Refused | PenstockError):
        level = logging.WARNING if refusal.code in _OURS else logging.INFO
        fields = {**facts_of(call), "code": refusal.code}
        name = pb.Code.Name(refusal.code)
        log.log(level, "%s is answered with %d %s: %s", who, refusal.code, name, refusal.message, extra={"fields": fields})
    else:
        log.error("%s failed in an unforeseen way", who, exc_info=error, extra={"fields": facts_of(call)})
    return refusal


def unknown(name: str) -> bytes:
    """The answer to an RPC that is not served here: each of the protocol's answers has its status in the first field."""
    refusal = status(pb.NOT_IMPLEMENTED, f"this gateway has no {name}")
    return pb.HeartbeatResponse(status=refusal).SerializeToString()
