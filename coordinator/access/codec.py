"""The record of principals and roles as bytes."""

from __future__ import annotations

import json
from itertools import chain
from typing import Annotated, NamedTuple, TypeAlias

from msgspec import Meta

from ...log.errors import PenstockError
from ...log.format.stored_json import Id, StoredForm, TimeMs, damaged, parse_stored
from ...log.limits import FORMAT_BASIC, FORMAT_EXTENDED
from .grants import Grant, Verb
from .record import (
    BY_CHARS_MAX,
    DETAIL_CHARS_MAX,
    HISTORY_MAX,
    NAME_CHARS_MAX,
    SECRETS_MAX,
    AccessChange,
    AccessRecord,
    Principal,
    SealedSecret,
    check_name,
)

_WHAT = "the record of principals"
_FORMATS = (FORMAT_BASIC, FORMAT_EXTENDED)


def encode_access(record: AccessRecord) -> bytes:
    """Equal records give equal bytes. Readers before `Verb.MANAGE` read what does not name it."""
    granted = chain(*(one.grants for one in record.principals.values()), *record.roles.values())
    document = {
        "format": FORMAT_EXTENDED if any(one.verb is Verb.MANAGE for one in granted) else FORMAT_BASIC,
        "principals": {
            name: {
                "id": one.id,
                "secrets": [[secret.sealed, secret.key, secret.since_ms, secret.until_ms] for secret in one.secrets],
                "roles": sorted(one.roles),
                "grants": _grants_document(one.grants),
            }
            for name, one in sorted(record.principals.items())
        },
        "roles": {name: _grants_document(grants) for name, grants in sorted(record.roles.items())},
        "history": [[one.id, one.at_ms, one.by, one.what, one.who, one.detail] for one in record.history],
    }
    return json.dumps(document, separators=(",", ":")).encode()


_Pattern: TypeAlias = Annotated[str, Meta(max_length=256)]
_Grants: TypeAlias = dict[str, tuple[_Pattern, ...]]


class _SecretForm(NamedTuple):
    sealed: Annotated[str, Meta(max_length=1024, pattern=r"\A[A-Za-z0-9+/]*=*\Z")]
    key: Id
    since_ms: TimeMs
    until_ms: TimeMs | None


class _PrincipalForm(StoredForm, frozen=True):
    id: Id
    secrets: Annotated[tuple[_SecretForm, ...], Meta(min_length=1, max_length=SECRETS_MAX)]
    roles: tuple[Id, ...]
    grants: _Grants


_ONE_LINE = r"\A[^\x00-\x1f\x7f\x85\u2028\u2029]*\Z"
"""Stands in lines of logs."""


class _ChangeForm(NamedTuple):
    id: Id
    at_ms: TimeMs
    by: Annotated[str, Meta(max_length=BY_CHARS_MAX, pattern=_ONE_LINE)]
    what: Id
    who: Annotated[str, Meta(max_length=2 * NAME_CHARS_MAX, pattern=_ONE_LINE)]
    detail: Annotated[str, Meta(max_length=DETAIL_CHARS_MAX, pattern=_ONE_LINE)]


class _AccessForm(StoredForm, frozen=True):
    format: int
    principals: dict[str, _PrincipalForm]
    roles: dict[str, _Grants]
    history: Annotated[tuple[_ChangeForm, ...], Meta(max_length=HISTORY_MAX)] = ()


def decode_access(data: bytes, *, where: str) -> AccessRecord:
    """Raises `DataDamaged` or `NewerFormatError`."""
    form = parse_stored(data, _AccessForm, what=_WHAT, where=where, formats=_FORMATS)
    try:
        for name in form.principals:
            check_name(name, "principal")
        for name in form.roles:
            check_name(name, "role")
        return AccessRecord(
            principals={
                name: Principal(
                    id=one.id,
                    secrets=tuple(SealedSecret(*secret) for secret in one.secrets),
                    roles=frozenset(one.roles),
                    grants=_grants(one.grants),
                )
                for name, one in form.principals.items()
            },
            roles={name: _grants(grants) for name, grants in form.roles.items()},
            history=tuple(AccessChange(**one._asdict()) for one in form.history),
        )
    except (ValueError, PenstockError) as error:
        raise damaged(_WHAT, error, where=where) from error


def _grants_document(grants: frozenset[Grant]) -> dict[str, list[str]]:
    return {verb.value: patterns for verb in Verb if (patterns := sorted(grant.pattern for grant in grants if grant.verb is verb))}


def _grants(form: _Grants) -> frozenset[Grant]:
    return frozenset(Grant(Verb(verb), pattern) for verb, patterns in form.items() for pattern in patterns)
