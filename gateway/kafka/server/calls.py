"""The frame of every call: caller, admission, handler, and an error code for whatever went wrong.

A room serves an API by a `Handler` in the table that `KafkaCallRunner` takes:

- ``request``: for Produce a `ProduceRequest` of ``wire/produce.py``; for every other API the protocol's fields as attributes (``wire/messages.py``).
- It returns the answer's fields as a mapping (``{"throttle_time_ms": 0, "topics": [{"name": …}]}``), which is encoded for the call's version; or the
  answer's body as a list of buffers, as of `encode_produce_answer` and `encode_fetch_answer`; or None for no answer, as of Produce without acks.
- It raises `KafkaRefusal` or a `PenstockError` where the request failed as a whole, and the answer says so; where the answer has no place for it, or
  the client reads none, the connection is closed. Errors of single topics and partitions belong into the answer, by `refusal_of`.
- It asks ``call.rights`` for each name that it acts on, as it acts: `CallerRights.check` raises what `refusal_of` takes. A handler that waits long
  calls ``call.check_again`` before it goes on, which may raise to end the connection.
- It sets ``call.code`` to the first of these, for metrics and logs, unless the answer is a mapping in which `code_of` finds it.

The handlers of one connection run one after the other, as in Kafka, and each begins when the answer before it is written. Only Produce begins while
earlier Produces are under way: in order, so what its handler does before it first waits is done in order too. When the client is gone, handlers are
cancelled, but never that of Produce.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias

from ....log.errors import PenstockError
from ....log.runtime.runtime import Clock, run_in_pool
from ...access.refusals import Unauthorized
from ...access.rights import CallerRights
from ...bounds.log_throttle import LogThrottle
from ..wire.apis import APIS, Api, ApiKey
from ..wire.errors import ErrorCode, KafkaRefusal, NotKafka, refusal_of
from ..wire.fetch import Buffer
from ..wire.frames import RequestHeader, answer_head, parse_header
from ..wire.messages import Request, decode_request, encode_answer, has_answer_field
from ..wire.produce import parse_produce
from ..wire.reading import malformed
from ..wire.refusals import Answer, refused
from .limits import OTHERS_BYTES_MAX
from .session import DecodedRequest, KafkaSession

log = logging.getLogger("penstock.gateway")

_CHECK_AGAIN_S: Final = 1.0
"""The session of a call that took longer is looked at again before the answer."""
_THROTTLE: Final = "throttle_time_ms"
_ROWS: Final = ("topics", "responses", "results")
"""The fields of answers by topic or resource."""
_REPEATED: Final = frozenset({ApiKey.FETCH, ApiKey.HEARTBEAT})
"""What clients that wait ask again and again in the same words. Their handlers leave a request as it is."""
_REPEATED_BYTES_MAX: Final = 1_024
_ENCODED_AT_ONCE: Final = 2_000
"""An answer of so many topics and partitions is encoded in some 20 ms."""
_OURS: Final = frozenset({ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.KAFKA_STORAGE_ERROR})
"""Failures of the gateway or the store."""


@dataclass(slots=True)
class KafkaCall:
    """One call."""

    api: Api
    version: int
    correlation_id: int
    client_id: str
    """What the client calls itself, or empty: not unique."""
    session: KafkaSession
    size_bytes: int
    """The request's size."""
    access: KafkaAuthorizer = field(repr=False)
    code: ErrorCode = ErrorCode.NONE
    """The first error in the answer."""
    throttle_ms: int = 0
    """The time for which the client is told to send nothing, and is not read."""
    rights: CallerRights = field(default_factory=CallerRights)
    """What the client may do."""
    named: set[str] = field(default_factory=set)
    """The topics that the request names by their ids only, for the audit."""

    async def check_again(self) -> None:
        """Renew the rights during a long call. Raises `Unauthorized` when the session has ended, which ends the connection."""
        await self.access.check_again(self)

    @property
    def peer(self) -> str:
        return self.session.peer

    @property
    def principal(self) -> str:
        return self.session.principal

    @property
    def owner(self) -> str:
        """The owner of shares: the principal; without proof of identity, the address."""
        return self.session.principal or self.session.address


Handler: TypeAlias = Callable[[Request, KafkaCall], Awaitable[Answer | None]]
"""Serves an API, as this module says at its top."""


class KafkaAuthorizer(Protocol):
    """The check of calls. `admit` and `check_again` raise `KafkaRefusal`, `Unauthorized` or `BackPressureError`."""

    asks_proof: bool
    """Whether a connection proves its principal before all else. Until then it is held to narrower limits."""

    async def admit(self, call: KafkaCall) -> None:
        """Return if the connection may make such a call, with its rights in the call, before the request is decoded. Else it is closed."""
        ...

    async def check_again(self, call: KafkaCall) -> None:
        """The same later in a long call, which is not counted again."""
        ...

    def leave(self, session: KafkaSession) -> None:
        """The connection is closed."""
        ...


class AdmitAll:
    """Admits all calls."""

    asks_proof = False

    async def admit(self, call: KafkaCall) -> None:
        return

    async def check_again(self, call: KafkaCall) -> None:
        return

    def leave(self, session: KafkaSession) -> None:
        return


@dataclass(frozen=True, slots=True)
class BegunCall:
    """An admitted call with its request."""

    call: KafkaCall
    request: Request


class Hangup(Exception):
    """The connection is to be closed instead of an answer. It was logged."""


_OF_A_GROUP: Final = frozenset({ApiKey.JOIN_GROUP, ApiKey.HEARTBEAT, ApiKey.OFFSET_COMMIT})
"""The calls of members, by which the group of a connection is known."""


@dataclass(slots=True, kw_only=True)
class KafkaCallRunner:
    """Runs the handlers of APIs. ApiVersions is its own: it tells of those that have a handler."""

    clock: Clock
    handlers: Mapping[ApiKey, Handler]
    """Every API is in the table of ``wire/apis.py``."""
    access: KafkaAuthorizer = field(default_factory=AdmitAll)
    on_answer: Callable[[KafkaCall, Request | None, ErrorCode, float, int], None] = lambda *_: None
    """Called for each answer and each refused call, with its code, the seconds that it took, and the request's size. A request that was not decoded
    is None. For a cancelled call it is not called.
    """
    _told: LogThrottle = field(default_factory=LogThrottle)

    def __post_init__(self) -> None:
        assert self.handlers.keys() <= APIS.keys(), "each API is in the table"

    async def begin(self, frame: memoryview, session: KafkaSession) -> BegunCall:
        """The call of a frame. Raises `Hangup` for a frame without a call, and for a call that is not admitted."""
        started_s = self.clock.monotonic_s()
        call: KafkaCall | None = None
        try:
            header = parse_header(frame)
            call = _call(header, session, len(frame), self.access)
            if not self._serves(header):
                raise KafkaRefusal(ErrorCode.UNSUPPORTED_VERSION, f"{call.api.name} of version {call.version} is not served")
            await self.access.admit(call)
            request = _decoded(call, header, frame)
        except Exception as error:  # noqa: BLE001 - whatever a stranger sends, it ends with the connection
            refusal = self.log_refusal(call, session, error)
            if call is not None:
                self.on_answer(call, None, refusal.code, self.clock.monotonic_s() - started_s, call.size_bytes)
            raise Hangup(refusal.message) from None
        return BegunCall(call, request)

    async def answer(self, begun: BegunCall) -> list[Buffer] | None:
        """The answer with its length and header; None: the client reads none. Raises `Hangup`."""
        started_s, call, request = self.clock.monotonic_s(), begun.call, begun.request
        try:
            answer = await self._handled(call, request)
            if self.clock.monotonic_s() - started_s > _CHECK_AGAIN_S and not call.api.carries_records:
                await call.check_again()
            buffers = None if answer is None else await _encoded_beside(call, answer)
        except Exception as error:  # noqa: BLE001 - whatever happened, the caller gets a code
            refusal = self.log_refusal(call, call.session, error)
            call.code = refusal.code
            has_ended = isinstance(error, Unauthorized)
            told = None if has_ended else refused(call.api, call.version, request, refusal)
            self.on_answer(call, request, call.code, self.clock.monotonic_s() - started_s, call.size_bytes)
            if told is None:
                raise Hangup(refusal.message) from None
            return _encoded(call, told)
        self.on_answer(call, request, call.code, self.clock.monotonic_s() - started_s, call.size_bytes)
        return buffers

    def _serves(self, header: RequestHeader) -> bool:
        """Whether the request has an answer. ApiVersions has one in any version, for clients that are newer than this."""
        key = header.api.key
        return key == ApiKey.API_VERSIONS or (header.is_served and key in self.handlers)

    async def _handled(self, call: KafkaCall, request: Request) -> Answer | None:
        if call.api.key == ApiKey.API_VERSIONS:
            if request is not None:
                call.session.software = getattr(request, "client_software_name", "")
                call.session.version = getattr(request, "client_software_version", "")
            return self._versions(call)
        if call.api.key in _OF_A_GROUP:
            call.session.group = request.group_id
        return await self.handlers[call.api.key](request, call)

    def _versions(self, call: KafkaCall) -> Answer:
        if not call.api.serves(call.version):
            call.version, call.code = 0, ErrorCode.UNSUPPORTED_VERSION
        served = [api for key, api in APIS.items() if key in self.handlers or key == ApiKey.API_VERSIONS]
        told = [
            {
                "api_key": api.key,
                "min_version": api.lowest if api.told_lowest is None else api.told_lowest,
                "max_version": api.highest,
            }
            for api in sorted(served, key=lambda api: api.key)
        ]
        return {"error_code": call.code, "api_keys": told}

    def log_refusal(self, call: KafkaCall | None, session: KafkaSession, error: Exception) -> KafkaRefusal:
        """The refusal of an error, which is logged: the caller's as a line, the gateway's own as a failure."""
        refusal = refusal_of(error)
        fields: dict[str, object] = {"peer": session.peer} if call is None else facts_of(call)
        who = (
            f"a request of {session.peer}"
            if call is None
            else f"{call.api.name} of client {call.client_id or '?'} at {session.peer}"
        )
        if not isinstance(error, KafkaRefusal | PenstockError):
            log.error("%s failed in an unforeseen way", who, exc_info=error, extra={"fields": fields})
            return refusal
        is_foreign = isinstance(
            refusal, NotKafka
        )  # each foreign protocol has its line: a health check does not hide a client's TLS
        if self._told.is_due(f"{session.address} {refusal if is_foreign else refusal.code}", self.clock.monotonic_s()):
            level = logging.WARNING if is_foreign or refusal.code in _OURS else logging.INFO
            said = {"fields": {**fields, "code": int(refusal.code)}}
            log.log(level, "%s is refused with %d %s: %s", who, refusal.code, refusal.code.name, refusal.message, extra=said)
        return refusal


def _call(header: RequestHeader, session: KafkaSession, size_bytes: int, access: KafkaAuthorizer) -> KafkaCall:
    return KafkaCall(header.api, header.version, header.correlation_id, header.client_id, session, size_bytes, access)


def _decoded(call: KafkaCall, header: RequestHeader, frame: memoryview) -> Request:
    """Raises `KafkaRefusal`. Of a newer ApiVersions only the header can be read."""
    body = frame[header.body_at :]
    if not header.is_served:
        return None
    if len(body) > OTHERS_BYTES_MAX and not call.api.carries_records:
        raise malformed(f"{call.api.name} has {len(body)} bytes, and may have {OTHERS_BYTES_MAX}")
    if call.api.key == ApiKey.PRODUCE:
        return parse_produce(call.version, body)
    if call.api.key not in _REPEATED or len(body) > _REPEATED_BYTES_MAX:
        return decode_request(call.api, call.version, body)
    last = call.session.last
    if last is None or (last.key, last.version) != (call.api.key, call.version) or last.body != body:
        last = DecodedRequest(call.api.key, call.version, bytes(body), decode_request(call.api, call.version, body))
        call.session.last = last
    return last.request


async def _encoded_beside(call: KafkaCall, answer: Answer) -> list[Buffer]:
    """The same in a thread where it takes long, as for all topics of a large lake: other calls go on."""
    if isinstance(answer, Mapping) and _count(answer) > _ENCODED_AT_ONCE:
        return await run_in_pool(None, lambda: _encoded(call, answer))
    return _encoded(call, answer)


def _count(answer: Mapping[str, Any]) -> int:
    """The topics, partitions and resources of an answer."""
    return sum(1 + len(row.get("partitions") or ()) for rows in _ROWS for row in answer.get(rows) or ())


def _encoded(call: KafkaCall, answer: Answer) -> list[Buffer]:
    body: Sequence[Buffer]
    if isinstance(answer, Mapping):
        if call.throttle_ms and has_answer_field(call.api, call.version, _THROTTLE):
            answer = {**answer, _THROTTLE: call.throttle_ms}
        call.code = code_of(answer) or call.code
        body = [encode_answer(call.api, call.version, answer)]
    else:
        body = answer
    return [answer_head(call.api, call.version, call.correlation_id, sum(map(len, body))), *body]


def code_of(answer: Mapping[str, Any]) -> ErrorCode:
    """The first error of an answer: at its top, or of a topic, partition or resource."""
    if code := answer.get("error_code"):
        return ErrorCode(int(code))
    for rows in _ROWS:
        for row in answer.get(rows) or ():
            parts = (row,) if "error_code" in row else row.get("partitions") or ()
            if code := next((one["error_code"] for one in parts if one.get("error_code")), None):
                return ErrorCode(int(code))
    return ErrorCode.NONE


def facts_of(call: KafkaCall) -> dict[str, object]:
    """The caller's fields for log records, without credentials."""
    return {
        "rpc": call.api.name,
        "version": call.version,
        "principal": call.principal,
        **({"claimed": call.session.claimed} if call.session.claimed and not call.principal else {}),
        "peer": call.peer,
        "client_id": call.client_id,
    }
