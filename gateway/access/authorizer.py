"""The check of callers and their rights, whatever the protocol."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, Self

from ...coordinator.access.grants import Grant
from ...coordinator.access.record import AccessRecord
from ...log.runtime.runtime import Clock
from ..server.options import AccessOptions
from .limits import PrincipalLimiter, PrincipalLimits
from .principals import PrincipalCache
from .refusals import Unauthorized
from .rights import Right, forbidden

_WRONG: Final = "the access key is not known, or the signature is not by its secret"
"""One text for both, so that access keys cannot be tried out."""


class PrincipalAuthorizer:
    """Judges callers by the principals of a lake, their grants and limits."""

    def __init__(self, cache: PrincipalCache, clock: Clock, limits: PrincipalLimits | None = None) -> None:
        self.limiter = PrincipalLimiter(limits or PrincipalLimits(), clock)
        self.cache = cache
        self._clock = clock

    @classmethod
    def of(cls, options: AccessOptions, read: Callable[[], Awaitable[AccessRecord]], clock: Clock) -> Self:
        limits = PrincipalLimits(options.calls_per_s, options.connections)
        return cls(PrincipalCache(read, options.keys, clock), clock, limits)

    async def close(self) -> None:
        await self.cache.close()

    async def authenticate(self, name: str, is_proved_by: Callable[[str], bool]) -> str:
        """The credential that proves a principal. Raises `Unauthorized`."""
        record = await self.cache.record()
        principal = record.principals.get(name)
        if principal is None:
            is_proved_by("of nobody")  # takes as long as one that is known
            raise Unauthorized(_WRONG)
        found = [sealed for sealed, secret in self.cache.secrets(name, principal) if is_proved_by(secret)]
        if not found:
            raise Unauthorized(_WRONG)
        return found[0].sealed

    async def secrets(self, name: str) -> Sequence[tuple[str, str]]:
        """The valid credentials of a principal with their secrets, the newest first. None where there is no such principal."""
        record = await self.cache.record()
        principal = record.principals.get(name)
        return [] if principal is None else [(sealed.sealed, secret) for sealed, secret in self.cache.secrets(name, principal)]

    async def check(self, principal: str, rights: Iterable[Right]) -> None:
        """Return if a principal has these rights now. Raises `Unauthorized` for an unknown one, and `Forbidden`."""
        self._check(await self.cache.record(), principal, rights)

    async def check_again(self, principal: str, proof: str, rights: Iterable[Right]) -> None:
        """The same later in a long call, which ends when its rights or credential were revoked."""
        record = await self.cache.record()
        self._check_proof(record, principal, proof)
        self._check(record, principal, rights)

    async def rights(self, principal: str, proof: str) -> frozenset[Grant]:
        """What a principal may do now. Raises `Unauthorized` when it or its credential was revoked."""
        record = await self.cache.record()
        self._check_proof(record, principal, proof)
        return record.grants_of(principal)

    def _check_proof(self, record: AccessRecord, principal: str, proof: str) -> None:
        known, now_ms = record.principals.get(principal), self._clock.wall_ms()
        if known is None or not any(one.sealed == proof and one.valid_at(now_ms) for one in known.secrets):
            raise Unauthorized("the principal was removed, or has another secret by now")

    def _check(self, record: AccessRecord, principal: str, rights: Iterable[Right]) -> None:
        if principal not in record.principals:
            raise Unauthorized(_WRONG)
        lacks = missing_right(record.grants_of(principal), rights)
        if lacks is not None:
            raise forbidden(principal, *lacks)


def missing_right(grants: frozenset[Grant], rights: Iterable[Right]) -> Right | None:
    """The first right without a grant."""
    for verbs, name in rights:
        if not any(grant.covers(verb, name) for grant in grants for verb in verbs):
            return verbs, name
    return None
