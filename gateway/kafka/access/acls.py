"""DescribeAcls: grants as Kafka's clients know rights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from ....coordinator.access.grants import ANY, Grant, Verb
from ....coordinator.access.record import AccessRecord
from ...access.principals import PrincipalCache
from ..server.calls import KafkaCall
from ..wire.errors import ErrorCode
from ..wire.messages import Fields, Request

_ANY, _MATCH, _LITERAL, _PREFIXED = 1, 2, 3, 4
_TOPIC, _GROUP = 2, 3
_ALLOW: Final = 3
_READ, _WRITE, _CREATE, _DELETE, _ALTER_CONFIGS = 3, 4, 5, 6, 11
_OPERATIONS: Final[Mapping[Verb, tuple[int, ...]]] = {
    Verb.SEND: (_WRITE,),
    Verb.RECEIVE: (_READ,),
    Verb.JOIN: (_READ,),
    Verb.MANAGE: (_CREATE, _DELETE, _ALTER_CONFIGS),
}
_ALL_TOPICS: Final = Grant(Verb.MANAGE, ANY)


class Acl(NamedTuple):
    """A right of a principal, by Kafka's numbers."""

    kind: int
    name: str
    pattern: int
    principal: str
    operation: int


class AclService:
    """Tells principals their own grants, and those of all to who manages all topics. `penstock access` changes them."""

    def __init__(self, principals: PrincipalCache) -> None:
        self._principals = principals

    async def describe_acls(self, request: Request, call: KafkaCall) -> Fields:
        record = await self._principals.record()
        grants = call.rights.grants or frozenset()
        names = sorted(record.principals) if _ALL_TOPICS in grants else [call.principal]
        found: dict[tuple[int, str, int], list[Fields]] = {}
        for acl in acls_of(record, names):
            if is_asked_for(acl, request):
                told = {"principal": acl.principal, "host": ANY, "operation": acl.operation, "permission_type": _ALLOW}
                found.setdefault((acl.kind, acl.name, acl.pattern), []).append(told)
        resources = [
            {"resource_type": kind, "resource_name": name, "pattern_type": pattern, "acls": acls}
            for (kind, name, pattern), acls in found.items()
        ]
        return {"throttle_time_ms": 0, "error_code": ErrorCode.NONE, "error_message": None, "resources": resources}


def acls_of(record: AccessRecord, names: list[str]) -> Iterator[Acl]:
    """What principals are granted, by themselves or by their roles."""
    for name in names:
        for grant in sorted(record.grants_of(name)) if name in record.principals else ():
            is_beginning = grant.pattern != ANY and grant.pattern.endswith(ANY)
            kind = _GROUP if grant.verb is Verb.JOIN else _TOPIC
            of = grant.pattern.removesuffix(ANY) if is_beginning else grant.pattern
            for operation in _OPERATIONS[grant.verb]:
                yield Acl(kind, of, _PREFIXED if is_beginning else _LITERAL, f"User:{name}", operation)


def is_asked_for(acl: Acl, request: Request) -> bool:
    """Whether a request's filter takes it."""
    return (
        request.resource_type_filter in (_ANY, acl.kind)
        and _is_of_name(acl, request.resource_name_filter, request.pattern_type_filter)
        and request.principal_filter in (None, acl.principal)
        and request.host_filter in (None, ANY)
        and request.operation in (_ANY, acl.operation)
        and request.permission_type in (_ANY, _ALLOW)
    )


def _is_of_name(acl: Acl, name: str | None, pattern: int) -> bool:
    if pattern not in (_ANY, _MATCH, acl.pattern):
        return False
    if name is None or name == acl.name:
        return True
    is_covered = acl.name == ANY or (acl.pattern == _PREFIXED and name.startswith(acl.name))
    return pattern == _MATCH and is_covered
