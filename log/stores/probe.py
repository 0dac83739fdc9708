"""Checks whether a store honours conditional writes."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from ..errors import NotSupported, PenstockError, UnsafeStoreError
from ..runtime.runtime import Runtime
from .protocol import Conflict, IfMatch, ObjectMissing, ObjectStore, Put, PutMode, Version

_ATTEMPTS = 5
_RACES = 3


async def probe_conditional_writes(store: ObjectStore, runtime: Runtime) -> None:
    """Try conditional writes on objects under ``.probe/``, by some 15 requests.

    Raises `UnsafeStoreError` when the store accepts a second create, a stale version or two racing creates, or refuses a sound one. Passing faults
    are raised as they are.
    """
    keys = [f".probe/{runtime.new_id()}" for _ in range(1 + _RACES)]
    try:
        await _probe_one(store, keys[0])
        for key in keys[1:]:
            await _probe_race(store, key)
    except NotSupported as error:
        raise _unsafe(store, "does not know conditional writes", "conditional writes", error.message) from error
    finally:
        for key in keys:
            with suppress(PenstockError):
                await store.delete(key)


async def _probe_one(store: ObjectStore, key: str) -> None:
    if not await _written(store, key, b"first", Put.CREATE):
        raise _unsafe(store, "refused to create an absent object", "created", "refused")
    if await _accepted(store, key, b"second", Put.CREATE) is not None:
        raise _unsafe(store, "accepted a second create of the same key", "a refusal", "accepted")
    first = await store.get(key)
    if first.data != b"first":
        raise _unsafe(store, "changed the object though it refused the create", b"first", first.data)
    if not await _written(store, key, b"third", IfMatch(first.version)):
        raise _unsafe(store, "refused a write that names the current version", "replaced", "refused")
    if await _accepted(store, key, b"fourth", IfMatch(first.version)) is not None:
        raise _unsafe(store, "accepted a write that names a stale version (it ignores If-Match)", "a refusal", "accepted")
    last = await store.get(key)
    if last.data != b"third":
        raise _unsafe(store, "changed the object though it refused the stale version", b"third", last.data)


async def _probe_race(store: ObjectStore, key: str) -> None:
    bodies = (b"left", b"right")
    for _ in range(_ATTEMPTS):
        versions = await asyncio.gather(*(_accepted(store, key, body, Put.CREATE) for body in bodies))
        winners = [body for body, version in zip(bodies, versions, strict=True) if version is not None]
        if len(winners) > 1:
            raise _unsafe(store, "accepted both of two racing creates of one key", "one refusal", "both accepted")
        try:
            stored = (await store.get(key)).data
        except ObjectMissing:
            if winners:
                raise _unsafe(store, "lost an object that it had accepted", winners[0], "absent") from None
            continue  # a 409 to both decides nothing
        if winners and stored != winners[0]:
            raise _unsafe(store, "kept the loser of two racing creates", winners[0], stored)
        return


async def _accepted(store: ObjectStore, key: str, body: bytes, mode: PutMode) -> Version | None:
    try:
        return await store.put(key, body, mode=mode)
    except Conflict:
        return None


async def _written(store: ObjectStore, key: str, body: bytes, mode: PutMode) -> bool:
    """Write, and read back an unconfirmed write, as a store may answer 409 without a conflict."""
    for _ in range(_ATTEMPTS):
        if await _accepted(store, key, body, mode) is not None:
            return True
        with suppress(ObjectMissing):
            if (await store.get(key)).data == body:
                return True
    return False


def _unsafe(store: ObjectStore, deed: str, expected: object, observed: object) -> UnsafeStoreError:
    return UnsafeStoreError(
        f"the store {deed}",
        operation="probe",
        object=store.url,
        expected=expected,
        observed=observed,
        hint="Penstock writes only to stores with conditional writes: it would lose messages here",
    )
