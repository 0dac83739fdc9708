"""Answered calls of RocketMQ's protocol, for observers that know none."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Final

from google.protobuf.message import Message

from ...observers.calls import ActedOn, AnsweredCall, AnswerObserver
from ..access.rights import rights_of
from ..protocol import rocketmq_pb2 as pb
from ..protocol.handles import ids_of
from ..protocol.status import StatusError
from ..server.calls import RpcCall, facts_of

_FINE: Final = frozenset({pb.OK, pb.MESSAGE_NOT_FOUND, pb.MULTIPLE_RESULTS})
_REFUSED: Final = frozenset({pb.UNAUTHORIZED, pb.FORBIDDEN, pb.TOO_MANY_REQUESTS, pb.INVALID_TRANSACTION_ID})
_ACTS: Final = frozenset(
    {"Telemetry", "NotifyClientTermination", "UpdateOffset", "RecallMessage", "ForwardMessageToDeadLetterQueue"}
)
"""Always audited: clients that came and went, and rare commands."""


class AnswerDispatcher:
    """Tells observers of answers."""

    def __init__(self, observers: Sequence[AnswerObserver]) -> None:
        self._observers = observers

    def on_answer(self, call: RpcCall, request: Message | None, code: int, took_s: float, size_bytes: int) -> None:
        answered = AnsweredCall(
            rpc=call.rpc,
            code=code,
            code_name=code_name(code),
            is_failure=code not in _FINE,
            is_audited=call.rpc in _ACTS or code in _REFUSED,
            took_s=took_s,
            size_bytes=size_bytes,
            client_id=call.metadata.client_id,
            principal=call.principal,
            peer=call.peer,
            traceparent=call.metadata.traceparent,
            tracestate=call.metadata.tracestate,
            facts=partial(facts_of, call),
            acted_on=partial(_acted_on, request),
        )
        for observer in self._observers:
            observer.on_answer(answered)


def _acted_on(request: Message | None) -> ActedOn:
    if request is None:
        return ActedOn([], [])
    try:
        names = sorted({name for _, name in rights_of(request)})
    except StatusError:
        names = []
    return ActedOn(names, ids_of(request))


@lru_cache(maxsize=256)
def code_name(code: int) -> str:
    try:
        return pb.Code.Name(pb.Code.ValueType(code))
    except ValueError:
        return str(code)
