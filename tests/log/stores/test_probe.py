"""The probe refuses a store that lies, and names the lie."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

import pytest

from penstock.log.errors import StoreUnavailable, UnsafeStoreError
from penstock.log.lake import LogLake
from penstock.log.runtime.runtime import Runtime
from penstock.log.stores import (
    Buffer,
    Conflict,
    Fault,
    FaultKind,
    FaultStore,
    IfMatch,
    MemoryStore,
    ObjectStore,
    Put,
    PutMode,
    StoreWrapper,
    Version,
    probe_conditional_writes,
    scripted_faults,
)
from penstock.log.topic.settings import TopicSettings


def probe(store: ObjectStore) -> None:
    asyncio.run(probe_conditional_writes(store, Runtime(random=random.Random(1))))


class SecondCreateAccepted(StoreWrapper):
    """As stores do that do not know ``If-None-Match``."""

    async def put(self, key: str, data: Buffer | Sequence[Buffer], *, mode: PutMode) -> Version:
        return await super().put(key, data, mode=Put.REPLACE if mode is Put.CREATE else mode)


class IfMatchIgnored(StoreWrapper):
    async def put(self, key: str, data: Buffer | Sequence[Buffer], *, mode: PutMode) -> Version:
        return await super().put(key, data, mode=Put.REPLACE if isinstance(mode, IfMatch) else mode)


class IfMatchAlwaysRefused(StoreWrapper):
    async def put(self, key: str, data: Buffer | Sequence[Buffer], *, mode: PutMode) -> Version:
        if isinstance(mode, IfMatch):
            raise Conflict("the object has changed")
        return await super().put(key, data, mode=mode)


class RefusedButWritten(StoreWrapper):
    async def put(self, key: str, data: Buffer | Sequence[Buffer], *, mode: PutMode) -> Version:
        try:
            return await super().put(key, data, mode=mode)
        except Conflict:
            await super().put(key, data, mode=Put.REPLACE)
            raise


class CheckedThenWritten(StoreWrapper):
    """Reads, then writes: right until two come at once."""

    async def put(self, key: str, data: Buffer | Sequence[Buffer], *, mode: PutMode) -> Version:
        if mode is not Put.CREATE:
            return await super().put(key, data, mode=mode)
        taken = any(info.key == key for info in await self.list(key))
        await asyncio.sleep(0)
        if taken:
            raise Conflict("the object exists")
        return await super().put(key, data, mode=Put.REPLACE)


@pytest.mark.parametrize(
    ("liar", "lie"),
    [
        (SecondCreateAccepted, "accepted a second create of the same key"),
        (IfMatchIgnored, r"accepted a write that names a stale version \(it ignores If-Match\)"),
        (IfMatchAlwaysRefused, "refused a write that names the current version"),
        (RefusedButWritten, "changed the object though it refused the create"),
        (CheckedThenWritten, "accepted both of two racing creates of one key"),
    ],
)
def test_a_liar_is_refused_by_name_and_left_clean(liar: type[StoreWrapper], lie: str) -> None:
    inner = MemoryStore(name="lake")
    with pytest.raises(UnsafeStoreError, match=f"the store {lie}.*memory://lake"):
        probe(liar(inner))
    assert asyncio.run(inner.list("")) == []


@pytest.mark.parametrize("kind", [FaultKind.UNDECIDED, FaultKind.REFUSED_AFTER_SUCCESS])
def test_an_honest_store_that_could_not_decide_is_asked_again(kind: FaultKind) -> None:
    """The first call is a create, and so is one of the last: neither a 409 nor a 412 after success is a lie."""
    for number in range(12):
        store = FaultStore(MemoryStore(), scripted_faults({number: Fault(kind)}))
        probe(store)


async def test_one_answer_of_a_busy_store_does_not_keep_a_lake_from_being_written_to() -> None:
    store = FaultStore(MemoryStore(), scripted_faults({0: Fault(FaultKind.THROTTLED), 9: Fault(FaultKind.THROTTLED)}))
    lake = LogLake(store)
    await lake.create_topic("orders", TopicSettings())
    await lake.close()


def test_a_passing_fault_is_no_verdict() -> None:
    store = FaultStore(MemoryStore(), scripted_faults({0: Fault(FaultKind.THROTTLED)}))
    with pytest.raises(StoreUnavailable):
        probe(store)
