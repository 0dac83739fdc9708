"""Answered calls of Kafka's protocol, for observers that know none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from ...observers.calls import ActedOn, AnsweredCall, AnswerObserver
from ..server.calls import KafkaCall, facts_of
from ..wire.apis import ApiKey
from ..wire.errors import ErrorCode
from ..wire.messages import Request
from ..wire.produce import ProduceRequest

_REFUSED: Final = frozenset(
    {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.ILLEGAL_SASL_STATE,
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_SASL_MECHANISM,
    }
)
_ACTS: Final = frozenset(
    {
        ApiKey.ALTER_CONFIGS,
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_GROUPS,
        ApiKey.DELETE_TOPICS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.OFFSET_DELETE,
    }
)
"""Always audited, as they are rare and change the lake."""
_NAMING: Final = ("name", "topic", "group_id")


class KafkaAnswerDispatcher:
    """Tells observers of answers."""

    def __init__(self, observers: Sequence[AnswerObserver]) -> None:
        self._observers = observers

    def on_answer(self, call: KafkaCall, request: Request | None, code: ErrorCode, took_s: float, size_bytes: int) -> None:
        answered = AnsweredCall(
            rpc=call.api.name,
            code=code,
            code_name=code.name,
            is_failure=code is not ErrorCode.NONE,
            is_audited=call.api.key in _ACTS or code in _REFUSED or call.rights.was_refused,
            took_s=took_s,
            size_bytes=size_bytes,
            client_id=call.client_id,
            principal=call.principal,
            peer=call.peer,
            facts=partial(facts_of, call),
            acted_on=partial(_acted_on, call, request),
        )
        for observer in self._observers:
            observer.on_answer(answered)


def _acted_on(call: KafkaCall, request: Request | None) -> ActedOn:
    if call.api.key == ApiKey.SASL_AUTHENTICATE:
        return ActedOn([call.session.claimed] if call.session.claimed else [], [])
    return ActedOn(sorted({*_names(request), *call.named}), sorted(set(_ids(request))))


def _names(request: Request | None) -> Iterator[str]:
    """The topics and groups of a request, by whatever field its API names them."""
    if isinstance(request, ProduceRequest):
        yield from (part.topic for part in request.parts)
        return
    for one in (*(getattr(request, "topics", None) or ()), *(getattr(request, "groups", None) or ())):
        if name := next((name for field in _NAMING if (name := getattr(one, field, None))), one if isinstance(one, str) else None):
            yield str(name)
    yield from getattr(request, "topic_names", None) or ()
    yield from getattr(request, "coordinator_keys", None) or ()
    if key := getattr(request, "key", None):
        yield str(key)
    yield from getattr(request, "groups_names", None) or ()
    yield from (str(one.resource_name) for one in getattr(request, "resources", None) or ())
    if group := getattr(request, "group_id", None):
        yield str(group)


def _ids(request: Request | None) -> Iterator[str]:
    """The members of a request, and its topics that have no name."""
    for one in (request, *(getattr(request, "members", None) or ())):
        if member_id := getattr(one, "member_id", None):
            yield str(member_id)
    for one in getattr(request, "topics", None) or ():
        if getattr(one, "name", "") is None:
            yield str(one.topic_id)
