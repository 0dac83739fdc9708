"""The record of principals and roles. Pure. It is one document, and every change one write."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from ...log.errors import CallError, InvalidArgument, LimitExceeded
from .grants import Grant

NAME_CHARS_MAX = 64
SECRETS_MAX = 4
"""A principal's present secret, and former ones that are still valid."""
HISTORY_MAX = 100
BY_CHARS_MAX = 128
DETAIL_CHARS_MAX = 200
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


class PrincipalNotFound(CallError, LookupError):
    """The principal is missing."""

    kind = "principal_not_found"


class PrincipalExists(CallError):
    """The principal exists already."""

    kind = "principal_exists"


class GrantNotFound(CallError, LookupError):
    """A grant to be revoked was never given, or a role to be given has no grants."""

    kind = "grant_not_found"


@dataclass(frozen=True, slots=True)
class SealedSecret:
    """A secret as readers of the table see it."""

    sealed: str = field(repr=False)
    key: str
    """The id of the gateways' key that opens it."""
    since_ms: int
    until_ms: int | None = None
    """The end of a former secret."""

    def valid_at(self, now_ms: int) -> bool:
        return self.until_ms is None or now_ms < self.until_ms


@dataclass(frozen=True, kw_only=True, slots=True)
class Principal:
    """A signer of requests."""

    id: str
    """Drawn anew for each principal of the name: a former one's secrets do not fit."""
    secrets: tuple[SealedSecret, ...]
    roles: frozenset[str] = frozenset()
    grants: frozenset[Grant] = frozenset()


@dataclass(frozen=True, kw_only=True, slots=True)
class AccessChange:
    """A change of the record, without secrets, as its author stated it."""

    id: str
    """Drawn for each change, so that none is made twice after a lost answer."""
    at_ms: int
    by: str
    what: str
    who: str
    """The principal, or ``role:NAME``."""
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.what} {self.who}" + (f": {self.detail}" if self.detail else "")


@dataclass(frozen=True, kw_only=True, slots=True)
class AccessRecord:
    """All principals and roles of a lake. A role exists while it has grants."""

    principals: Mapping[str, Principal] = field(default_factory=dict)
    roles: Mapping[str, frozenset[Grant]] = field(default_factory=dict)
    history: tuple[AccessChange, ...] = ()
    """The newest last."""

    def grants_of(self, name: str) -> frozenset[Grant]:
        principal = self.principal(name)
        return principal.grants.union(*(self.roles.get(role, frozenset()) for role in principal.roles))

    def principal(self, name: str) -> Principal:
        """Raises `PrincipalNotFound`."""
        found = self.principals.get(name)
        if found is None:
            raise PrincipalNotFound(
                "there is no such principal", object=name, hint="`penstock access user list` names those that are there"
            )
        return found

    def has(self, change: AccessChange) -> bool:
        return any(one.id == change.id for one in self.history)

    def with_noted(self, change: AccessChange) -> AccessRecord:
        return replace(self, history=(*self.history, change)[-HISTORY_MAX:])

    # --- Changes: each leaves its own result as it is, since a write whose answer was lost is decided again --------------------

    def with_added(self, name: str, principal: Principal) -> AccessRecord:
        """Raises `PrincipalExists`, and `GrantNotFound` for a role without grants."""
        check_name(name, "principal")
        found = self.principals.get(name)
        if found is not None and found.id == principal.id:
            return self
        if found is not None:
            raise PrincipalExists(
                "the principal exists",
                operation="add a principal",
                object=name,
                hint="`penstock access user rotate` gives it another secret",
            )
        self._check_roles(principal.roles)
        return self._with(name, principal)

    def with_rotated(self, name: str, secret: SealedSecret, *, id: str, until_ms: int) -> AccessRecord:
        """A new secret of the principal with this id; the former one is valid until ``until_ms``. Raises `PrincipalNotFound`, also when the principal
        was made again, and `LimitExceeded` for too many valid secrets.
        """
        found = self.principal(name)
        if found.id != id:
            raise PrincipalNotFound("the principal was removed, and made again", operation="rotate a secret", object=name)
        if any(one.sealed == secret.sealed for one in found.secrets):
            return self
        now_ms = secret.since_ms
        former = [replace(one, until_ms=until_ms if one.until_ms is None else min(one.until_ms, until_ms)) for one in found.secrets]
        valid = [one for one in former if one.valid_at(now_ms)]
        if len(valid) >= SECRETS_MAX:
            raise LimitExceeded(
                "too many former secrets of the principal are still valid",
                operation="rotate a secret",
                object=name,
                expected=f"at most {SECRETS_MAX} with the new one",
                observed=f"{len(valid)} before",
                hint="rotate with --keep 0s to end them now",
            )
        return self._with(name, replace(found, secrets=(secret, *valid)))

    def with_resealed(self, name: str, before: SealedSecret, after: SealedSecret) -> AccessRecord:
        found = self.principals.get(name)
        if found is None:
            return self
        return self._with(name, replace(found, secrets=tuple(after if one == before else one for one in found.secrets)))

    def without(self, name: str) -> AccessRecord:
        """Raises `PrincipalNotFound`."""
        self.principal(name)
        return replace(self, principals={one: there for one, there in self.principals.items() if one != name})

    def with_granted(self, who: str, grants: Iterable[Grant], roles: Iterable[str] = ()) -> AccessRecord:
        """``who`` is a principal, which may get roles too, or ``role:NAME``."""
        grants, roles = frozenset(grants), frozenset(roles)
        if (role := role_of(who)) is not None:
            _check_no_roles(who, roles)
            return replace(self, roles={**self.roles, role: self.roles.get(role, frozenset()) | grants}) if grants else self
        found = self.principal(who)
        self._check_roles(roles)
        return self._with(who, replace(found, grants=found.grants | grants, roles=found.roles | roles))

    def without_granted(self, who: str, grants: Iterable[Grant], roles: Iterable[str] = ()) -> AccessRecord:
        """Grants never given are ignored; `check_granted` finds them."""
        grants, roles = frozenset(grants), frozenset(roles)
        if (role := role_of(who)) is not None:
            _check_no_roles(who, roles)
            left = {**self.roles, role: self.roles.get(role, frozenset()) - grants}
            return replace(self, roles={name: those for name, those in left.items() if those})
        found = self.principal(who)
        return self._with(who, replace(found, grants=found.grants - grants, roles=found.roles - roles))

    def check_granted(self, who: str, grants: Iterable[Grant], roles: Iterable[str] = ()) -> None:
        """Raise `GrantNotFound` unless each was given exactly so: a mistyped pattern must not look revoked."""
        role = role_of(who)
        has = self.roles.get(role, frozenset()) if role is not None else self.principal(who).grants
        given = frozenset() if role is not None else self.principal(who).roles
        missing = [*map(str, sorted(frozenset(grants) - has)), *(f"role {one}" for one in sorted(frozenset(roles) - given))]
        if missing:
            raise GrantNotFound(
                "this was not granted, so nothing was revoked",
                operation="revoke",
                object=who,
                expected=", ".join([*map(str, sorted(has)), *(f"role {one}" for one in sorted(given))])
                or "nothing: it has no grants",
                observed=", ".join(missing),
                hint="patterns are revoked as they were granted; what a role gives is revoked from the role",
            )

    def _check_roles(self, roles: Iterable[str]) -> None:
        if unknown := sorted(frozenset(roles) - self.roles.keys()):
            raise GrantNotFound(
                "no role of this name has any grants",
                object=", ".join(unknown),
                expected=", ".join(sorted(self.roles)) or "no role has any yet",
                hint=f"`penstock access grant role:{unknown[0]} …` first",
            )

    def _with(self, name: str, principal: Principal) -> AccessRecord:
        return replace(self, principals={**self.principals, name: principal})


_ROLE = "role:"


def role_of(who: str) -> str | None:
    """The role in ``role:NAME``; None for a principal. Raises `InvalidArgument` for a bad name."""
    if not who.startswith(_ROLE):
        return None
    role = who.removeprefix(_ROLE)
    check_name(role, "role")
    return role


def check_name(name: str, what: str) -> None:
    """Raise `InvalidArgument` unless this can name a principal or role."""
    if len(name) > NAME_CHARS_MAX or not _NAME.fullmatch(name):
        raise InvalidArgument(
            f"bad name of a {what}",
            expected=f"letters, digits, '_', '.' and '-', at most {NAME_CHARS_MAX}, the first a letter or digit",
            observed=name,
        )


def check_by(by: str) -> None:
    """Raise `InvalidArgument` unless this can name an author."""
    if not by or len(by) > BY_CHARS_MAX or not by.isprintable():
        raise InvalidArgument(
            "bad name of who makes a change",
            expected=f"text in one line, of 1 to {BY_CHARS_MAX} characters",
            observed=repr(by[:BY_CHARS_MAX]),
        )


def _check_no_roles(who: str, roles: frozenset[str]) -> None:
    if roles:
        raise InvalidArgument("a role has grants, and no roles", object=who, observed=", ".join(sorted(roles)))
