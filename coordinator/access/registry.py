"""Reads and writes the record of principals and roles."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from datetime import timedelta

from ...log.errors import LimitExceeded
from ...log.runtime.runtime import Runtime
from ..cells.cells import Cells
from ..cells.document import Codec, Document
from ..cells.keys import ACCESS
from ..limits import ACCESS_BYTES_MAX
from .codec import decode_access, encode_access
from .grants import Grant
from .record import DETAIL_CHARS_MAX, AccessChange, AccessRecord, Principal, check_by
from .sealing import NONCE_BYTES, SealingKeys

_RECORD = Codec(encode_access, decode_access)
_NOBODY = AccessRecord()
KEEP = timedelta(hours=1)
"""The default time for which a former secret is valid."""


class AccessRegistry:
    """The principals and roles of a lake. Every change is one write with a history.

    All methods raise `UnknownOutcome`, and what the table raises.
    """

    def __init__(self, cells: Cells, runtime: Runtime, *, by: str = "unnamed") -> None:
        """``by`` is the author in the record's history, unproven: the table trusts its writers."""
        check_by(by)
        self._cells = cells
        self._runtime = runtime
        self._by = by

    def acting(self, by: str) -> AccessRegistry:
        """The registry for changes by another author. Raises `InvalidArgument`."""
        return AccessRegistry(self._cells, self._runtime, by=by)

    async def read(self) -> AccessRecord:
        """Raises `TableMismatch`, too."""
        return await self._document().read()

    async def add(self, name: str, secret: str, keys: SealingKeys, *, roles: Collection[str] = ()) -> AccessRecord:
        """Raises `PrincipalExists`, `GrantNotFound` for a role without grants, `InvalidArgument`, `LimitExceeded`."""
        made = self._runtime.new_id()
        sealed = keys.seal(secret, name=name, id=made, nonce=self._nonce(), since_ms=self._runtime.clock.wall_ms())
        principal = Principal(id=made, secrets=(sealed,), roles=frozenset(roles))
        return await self._change("add", name, lambda record: record.with_added(name, principal), _listed((), roles))

    async def rotate(self, name: str, secret: str, keys: SealingKeys, *, keep: timedelta = KEEP) -> AccessRecord:
        """Give a principal another secret; former ones stay valid for ``keep`` at most. Raises `PrincipalNotFound`, also when the principal was made
        again meanwhile; `InvalidArgument` and `LimitExceeded`.
        """
        made, now_ms = (await self.read()).principal(name).id, self._runtime.clock.wall_ms()
        sealed = keys.seal(secret, name=name, id=made, nonce=self._nonce(), since_ms=now_ms)
        until_ms = now_ms + round(keep.total_seconds() * 1000)
        return await self._change(
            "rotate", name, lambda record: record.with_rotated(name, sealed, id=made, until_ms=until_ms), f"former ones for {keep}"
        )

    async def reseal(self, keys: SealingKeys) -> int:
        """Seal by the present key what earlier keys sealed. Returns the number of secrets. Raises `SecretNotOpened`."""
        record, count = await self.read(), 0
        for name, principal in record.principals.items():
            for secret in principal.secrets:
                if secret.key != keys.current:
                    text = keys.open(secret, name=name, id=principal.id)
                    fresh = keys.seal(text, name=name, id=principal.id, nonce=self._nonce(), since_ms=secret.since_ms)
                    after = type(secret)(fresh.sealed, fresh.key, secret.since_ms, secret.until_ms)
                    await self._change("reseal", name, lambda found, n=name, b=secret, a=after: found.with_resealed(n, b, a))  # type: ignore[misc]
                    count += 1
        return count

    async def remove(self, name: str) -> AccessRecord:
        """Remove a principal with secrets and grants. Raises `PrincipalNotFound`."""
        removed: list[str] = []

        def without(record: AccessRecord) -> AccessRecord:
            found = record.principals.get(name)
            if removed and (found is None or found.id not in removed):
                return record  # carried out, and then another wrote
            after = record.without(name)
            removed[:] = [record.principals[name].id]
            return after

        return await self._change("remove", name, without)

    async def grant(self, who: str, grants: Iterable[Grant], roles: Iterable[str] = ()) -> AccessRecord:
        """Grant to a principal or to ``role:NAME``. Raises `PrincipalNotFound`, `GrantNotFound`, `InvalidArgument`."""
        grants, roles = frozenset(grants), frozenset(roles)
        return await self._change("grant", who, lambda record: record.with_granted(who, grants, roles), _listed(grants, roles))

    async def revoke(self, who: str, grants: Iterable[Grant], roles: Iterable[str] = ()) -> AccessRecord:
        """Raises `PrincipalNotFound`, and `GrantNotFound` for one never given: then nothing changes."""
        grants, roles, tried = frozenset(grants), frozenset(roles), False

        def revoked(record: AccessRecord) -> AccessRecord:
            nonlocal tried
            if not tried:
                record.check_granted(who, grants, roles)
            tried = True
            return record.without_granted(who, grants, roles)

        return await self._change("revoke", who, revoked, _listed(grants, roles))

    async def _change(self, what: str, who: str, change: Callable[[AccessRecord], AccessRecord], detail: str = "") -> AccessRecord:
        note = AccessChange(
            id=self._runtime.new_id(),
            at_ms=self._runtime.clock.wall_ms(),
            by=self._by,
            what=what,
            who=who,
            detail=detail[:DETAIL_CHARS_MAX],
        )

        def changed(before: AccessRecord) -> AccessRecord:
            if before.has(note):
                return before
            after = change(before)
            size_bytes = _size_bytes(after)
            if size_bytes > max(ACCESS_BYTES_MAX, _size_bytes(before)):
                raise LimitExceeded(
                    "the record of principals has no room for more",
                    object=ACCESS,
                    expected=f"at most {ACCESS_BYTES_MAX} bytes",
                    observed=f"{size_bytes} bytes",
                    hint="give grants to roles that many principals share, and patterns instead of names",
                )
            return before if after == before else after.with_noted(note)

        return await self._document().change(changed)

    def _document(self) -> Document[AccessRecord]:
        return Document(self._cells, self._runtime.clock, ACCESS, _RECORD, absent=_NOBODY)

    def _nonce(self) -> bytes:
        return self._runtime.random.randbytes(NONCE_BYTES)


def _size_bytes(record: AccessRecord) -> int:
    """The size without the history: revoking must always have room."""
    return len(encode_access(replace(record, history=())))


def _listed(grants: Iterable[Grant], roles: Iterable[str]) -> str:
    return ", ".join([*map(str, sorted(grants)), *(f"role {one}" for one in sorted(roles))])
