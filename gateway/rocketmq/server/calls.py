"""The frame of every call: caller, admission, and status."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, ExitStack, aclosing, suppress
from dataclasses import dataclass, field
from typing import Final, Protocol

from google.protobuf.message import DecodeError, Message

from ....log.errors import PenstockError
from ....log.limits import MIB
from ....log.runtime.runtime import Clock
from ...bounds.log_throttle import LogThrottle
from ...bounds.quotas import Quota, QuotaCounter
from ..http2.calls import GrpcCall, Handler
from ..http2.heads import CallFailed, CallGone, GrpcStatus
from ..protocol import rocketmq_pb2 as pb
from ..protocol.decode_limits import check_bounds
from ..protocol.metadata import CallMetadata, metadata_of
from ..protocol.status import ClientGone, StatusError, status, status_of
from .rpcs import Rpc

log = logging.getLogger("penstock.gateway")

_OURS = frozenset({pb.INTERNAL_SERVER_ERROR, pb.INTERNAL_ERROR})
"""Failures of the gateway or the store."""
_CHECK_AGAIN_S = 3.0
"""A streamed answer that begins later than this is checked again."""
CALLS_OF_A_CONNECTION: Final = 2_048
"""The most calls under way by one connection: fewer than gRPC's streams, so that the next is refused with a status."""
_PACKED: Final = b"\x1f\x8b"
"""The beginning of gzip, and of no request."""
_CLIENT_ID_CHARS_MAX: Final = 512
REQUESTS: Final = Quota("bytes of requests that are worked on", each=128 * MIB, all=256 * MIB)
_LARGE: Final = frozenset({"SendMessage"})
_OTHERS_BYTES_MAX: Final = 2 * MIB
"""The largest request without messages."""


@dataclass(slots=True)
class RpcCall:
    """One call, before its request is decoded."""

    rpc: str
    metadata: CallMetadata
    peer: str
    remaining_s: float | None = None
    """The rest of the client's wait, of a call with a streamed answer; None: without end."""
    principal: str = ""
    """The credentials' name; empty without signatures."""
    proof: str = ""
    """The credential."""
    is_tls: bool = False
    """Whether the connection has TLS."""

    @property
    def client(self) -> str:
        """The client's chosen id, unique among those of its principal."""
        stated = self.metadata.client_id
        return f"{self.principal}/{stated}" if self.principal else stated

    @property
    def owner(self) -> str:
        """The owner of the share: the principal; without signatures, the address."""
        return self.principal or self.peer.rpartition(":")[0]


class CallAuthorizer(Protocol):
    """The check of calls. All methods raise `StatusError`, `Unauthorized`, `Forbidden` or `BackPressureError`."""

    async def admit(self, call: RpcCall) -> None:
        """Name the principal by the headers, before the request is decoded."""
        ...

    async def allow(self, call: RpcCall, request: Message) -> None:
        """Return if the principal has the request's rights."""
        ...

    async def check_again(self, call: RpcCall, request: Message) -> None:
        """Return if a long call still has its rights."""
        ...


class AllowAny:
    """Admits all calls."""

    async def admit(self, call: RpcCall) -> None:
        return

    async def allow(self, call: RpcCall, request: Message) -> None:
        return

    async def check_again(self, call: RpcCall, request: Message) -> None:
        return


class TooManyCalls(StatusError):
    """A connection has too many calls under way."""

    def __init__(self, message: str) -> None:
        super().__init__(pb.TOO_MANY_REQUESTS, message)


@dataclass(slots=True, kw_only=True)
class CallRunner:
    """Runs the handlers of RPCs. Every answer has a status."""

    clock: Clock
    request_bytes_max: int
    on_call: Callable[[RpcCall], None] = lambda call: None
    """Called for each admitted call."""
    access: CallAuthorizer = field(default_factory=AllowAny)
    on_answer: Callable[[RpcCall, Message | None, int, float, int], None] = lambda *_: None
    """Called for each answer with its code, the seconds that it took, and the request's size. A request that was not decoded is None. A two-way call
    has an answer for each request, and a cancelled one none.
    """
    shares: QuotaCounter = field(default_factory=QuotaCounter)
    calls_of_a_connection: int = CALLS_OF_A_CONNECTION
    _calls: dict[str, int] = field(default_factory=dict)
    """The number of calls under way, by connection."""
    _told: LogThrottle = field(default_factory=LogThrottle)

    def handler(self, rpc: Rpc) -> Handler:
        """The handler for gRPC, bytes in and out. A request is read only once its call is admitted."""
        if rpc.is_two_way:
            return self._two_way(rpc)
        return self._streamed(rpc) if rpc.is_streamed else self._single(rpc)

    def _single(self, rpc: Rpc) -> Handler:
        async def run(context: GrpcCall) -> bytes:
            started_s, request, size_bytes = self.clock.monotonic_s(), None, 0
            call = _call(rpc, context)
            try:
                with self._under_way(call):
                    await self._admit(call)
                    data = await _read(context)
                    size_bytes = len(data)
                    with self.shares.hold(REQUESTS, call.owner, size_bytes):
                        request = await self._decode(rpc, call, data)
                        answer = await rpc.handle(request, call)
                code: int = answer.status.code
            except (CallGone, CallFailed):
                raise
            except Exception as error:  # noqa: BLE001 - whatever happened, the caller gets a status
                refusal = self._refusal(call, error)
                answer, code = rpc.answer(status=refusal), refusal.code
            self._tell(call, request, code, started_s, size_bytes)
            return answer.SerializeToString()

        return run

    def _streamed(self, rpc: Rpc) -> Handler:
        async def run(context: GrpcCall) -> None:
            started_s, code, request, size_bytes = self.clock.monotonic_s(), int(pb.OK), None, 0
            call = _call(rpc, context)
            try:
                with self._under_way(call):
                    await self._admit(call)
                    data = await _read(context)
                    size_bytes = len(data)
                    # The request is kept as long as it is answered, and a poll may wait for a minute.
                    with self.shares.hold(REQUESTS, call.owner, size_bytes):
                        request = await self._decode(rpc, call, data)
                        checked_s = self.clock.monotonic_s()
                        async with aclosing(rpc.handle(request, call)) as answers:
                            async for answer in answers:
                                if (now_s := self.clock.monotonic_s()) - checked_s > _CHECK_AGAIN_S:
                                    await self.access.check_again(call, request)
                                    checked_s = now_s
                                if answer.HasField("status"):
                                    code = answer.status.code
                                await _write(context, answer)
            except ClientGone:
                return
            except (CallGone, CallFailed):
                raise
            except Exception as error:  # noqa: BLE001 - the same
                refusal = self._refusal(call, error)
                code = refusal.code
                with suppress(ClientGone):
                    await _write(context, rpc.answer(status=refusal))
            self._tell(call, request, code, started_s, size_bytes)

        return run

    def _two_way(self, rpc: Rpc) -> Handler:
        async def run(context: GrpcCall) -> None:
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
                    await _write(context, answer)

            async def decoded() -> AsyncIterator[Message]:
                nonlocal last
                nonlocal started_s
                async for data in context.messages():
                    started_s = self.clock.monotonic_s()
                    # The last request is kept until the next one comes.
                    kept.close()
                    kept.enter_context(self.shares.hold(REQUESTS, call.owner, len(data)))
                    request = await self._decode(rpc, call, data)
                    if last is not None:
                        await self.access.check_again(call, request)
                    last = request
                    yield request
                    self._tell(call, request, pb.OK, started_s, len(data))

            try:
                with self._under_way(call), ExitStack() as kept:
                    await self._admit(call)  # once: a stream has the signature of its beginning, which grows old
                    await rpc.handle(decoded(), call, send)
            except ClientGone:
                return
            except (CallGone, CallFailed):
                raise
            except Exception as error:  # noqa: BLE001 - the same
                refusal = self._refusal(call, error)
                self._tell(call, last, refusal.code, started_s, 0)
                if refusal.code == pb.UNRECOGNIZED_CLIENT_TYPE:
                    raise CallFailed(GrpcStatus.INVALID_ARGUMENT, refusal.message) from None
                with suppress(ClientGone):
                    await write(rpc.answer(status=refusal))

        return run

    def _under_way(self, call: RpcCall) -> AbstractContextManager[None]:
        """A block with one more call of a connection. Raises `StatusError` at too many."""
        count = self._calls.get(call.peer, 0)
        if count >= self.calls_of_a_connection:
            raise TooManyCalls(
                f"the connection {call.peer} has {count} calls under way, and may have {self.calls_of_a_connection}: wait for their answers"
            )
        return _UnderWay(self._calls, call.peer)

    def _tell(self, call: RpcCall, request: Message | None, code: int, started_s: float, size_bytes: int) -> None:
        self.on_answer(call, request, code, self.clock.monotonic_s() - started_s, size_bytes)

    def _refusal(self, call: RpcCall, error: Exception) -> pb.Status:
        """The status of an error, which is logged: the caller's as a line, the gateway's own as a failure."""
        refusal = status_of(error)
        who = f"{call.rpc} of client {call.metadata.client_id or '?'} at {call.peer} (request {call.metadata.request_id or '?'})"
        if isinstance(error, TooManyCalls):
            if self._told.is_due(call.peer, self.clock.monotonic_s()):
                log.warning("%s; what it asks beyond is answered with %s", refusal.message, pb.Code.Name(refusal.code))
        elif isinstance(error, StatusError | PenstockError):
            level = logging.WARNING if refusal.code in _OURS else logging.INFO
            fields = {**facts_of(call), "code": refusal.code}
            name = pb.Code.Name(refusal.code)
            log.log(level, "%s is answered with %d %s: %s", who, refusal.code, name, refusal.message, extra={"fields": fields})
        else:
            log.error("%s failed in an unforeseen way", who, exc_info=error, extra={"fields": facts_of(call)})
        return refusal

    async def _admit(self, call: RpcCall) -> None:
        if not call.metadata.client_id:
            raise StatusError(pb.CLIENT_ID_REQUIRED, "client id cannot be empty: the metadata x-mq-client-id is missing")
        if len(call.metadata.client_id) > _CLIENT_ID_CHARS_MAX:
            raise StatusError(pb.REQUEST_HEADER_FIELDS_TOO_LARGE, f"the client id has more than {_CLIENT_ID_CHARS_MAX} characters")
        await self.access.admit(call)

    async def _decode(self, rpc: Rpc, call: RpcCall, data: bytes) -> Message:
        """Raises `StatusError`."""
        most = self.request_bytes_max if rpc.name in _LARGE else min(self.request_bytes_max, _OTHERS_BYTES_MAX)
        if len(data) > most:
            raise StatusError(pb.PAYLOAD_TOO_LARGE, f"the request of {len(data)} bytes exceeds the max {most} of this gateway")
        if data.startswith(_PACKED):
            raise StatusError(
                pb.UNSUPPORTED, "the request is packed by gRPC: send it as it is. A message's body may be packed, as GZIP"
            )
        check_bounds(rpc.request.DESCRIPTOR.name, data)
        try:
            request = rpc.request.FromString(data)
        except DecodeError:
            raise StatusError(pb.BAD_REQUEST, f"the request is no {rpc.request.DESCRIPTOR.name}") from None
        await self.access.allow(call, request)
        self.on_call(call)
        return request


class _UnderWay(AbstractContextManager[None]):
    """A class, as a generator takes three times as long."""

    __slots__ = ("_calls", "_peer")

    def __init__(self, calls: dict[str, int], peer: str) -> None:
        self._calls, self._peer = calls, peer

    def __enter__(self) -> None:
        self._calls[self._peer] = self._calls.get(self._peer, 0) + 1

    def __exit__(self, *_: object) -> None:
        if (left := self._calls[self._peer] - 1) > 0:
            self._calls[self._peer] = left
        else:
            del self._calls[self._peer]


def _call(rpc: Rpc, context: GrpcCall) -> RpcCall:
    return RpcCall(
        rpc.name,
        metadata_of(context.metadata),
        context.peer,
        context.time_remaining_s() if rpc.is_streamed else None,
        is_tls=context.is_tls,
    )


async def _write(context: GrpcCall, answer: Message) -> None:
    """Raises `ClientGone`."""
    try:
        await context.write(answer.SerializeToString())
    except CallGone as error:
        raise ClientGone(str(error)) from None


async def _read(context: GrpcCall) -> bytes:
    """The first request. Raises `StatusError`."""
    data = await context.read()
    if data is None:
        raise StatusError(pb.BAD_REQUEST, "the call has no request")
    return data


def facts_of(call: RpcCall) -> dict[str, object]:
    """The caller's fields for log records, without credentials."""
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


def unknown(name: str) -> bytes:
    """The answer to an unserved RPC: all of the protocol's answers have the status in the first field."""
    refusal = status(pb.NOT_IMPLEMENTED, f"this gateway has no {name}")
    return pb.HeartbeatResponse(status=refusal).SerializeToString()
