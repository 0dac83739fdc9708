"""The table in the lake's own object store: what it writes there, and what it does where the store fails or lies."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Sequence

import pytest

from penstock.coordinator.tables import Conflict, ObjectStoreTable
from penstock.log.errors import ForeignObject, StoreUnavailable, UnsafeStoreError
from penstock.log.runtime.runtime import Runtime
from penstock.log.stores import (
    Buffer,
    CountingStore,
    Fault,
    FaultKind,
    FaultStore,
    MemoryStore,
    ObjectStore,
    Put,
    PutMode,
    Version,
    scripted_faults,
)
from tests.lakes import TIMEOUT_S, Gate, ReadOnlyCredentials


def run(store: ObjectStore, use: Callable[[ObjectStoreTable], Awaitable[None]]) -> None:
    async def main() -> None:
        table = ObjectStoreTable(store, runtime=Runtime())
        try:
            await use(table)
        finally:
            await table.close()

    asyncio.run(main())


def test_a_cell_is_an_object_below_coordination_and_a_deleted_one_an_empty_object() -> None:
    store = MemoryStore()

    async def use(table: ObjectStoreTable) -> None:
        version = await table.put("groups/billing", b"data", expected=None)
        stored = await store.get("coordination/groups/billing")
        assert stored.data.startswith(b"PSC1")
        assert stored.data.endswith(b"data")
        await table.delete("groups/billing", expected=version)
        assert [(info.key, info.size_bytes) for info in await store.list("")] == [("coordination/groups/billing", 0)]

    run(store, use)


def test_equal_cells_are_unequal_objects() -> None:
    """A version is the store's, and stores give equal bytes equal ones."""
    store = MemoryStore()

    async def use(table: ObjectStoreTable) -> None:
        for key in ("a", "b"):
            await table.put(key, b"same", expected=None)
        assert (await store.get("coordination/a")).data != (await store.get("coordination/b")).data

    run(store, use)


@pytest.mark.parametrize("data", [b"x", b"PSC1", b"JSON" * 100])
def test_another_object_is_not_taken_for_a_cell(data: bytes) -> None:
    store = MemoryStore()

    async def use(table: ObjectStoreTable) -> None:
        await store.put("coordination/k", data, mode=Put.CREATE)
        with pytest.raises(ForeignObject, match=r"not a cell that Penstock wrote.*object: coordination/k"):
            await table.get("k")
        with pytest.raises(Conflict):
            await table.put("k", b"mine", expected=None)

    run(store, use)


def test_a_write_costs_one_request_once_the_store_is_checked() -> None:
    def requests(cells: int) -> int:
        store = CountingStore(MemoryStore())

        async def use(table: ObjectStoreTable) -> None:
            await asyncio.gather(*(table.put(f"k/{number}", b"", expected=None) for number in range(cells)))
            before = store.statistics()
            version = await table.put("k/busy", b"0", expected=None)
            for _ in range(9):
                version = await table.put("k/busy", b"1", expected=version)
            assert store.statistics().requests - before.requests == 10

        run(store, use)
        return store.statistics().requests

    assert requests(5) - requests(1) == 4, "all wait for one check"


class Lying(MemoryStore):
    """Ignores every condition, as some stores that speak S3 do."""

    async def put(self, key: str, data: Buffer | Sequence[Buffer], *, mode: PutMode) -> Version:
        return await super().put(key, data, mode=Put.REPLACE)


def test_a_store_that_ignores_conditions_is_refused() -> None:
    async def use(table: ObjectStoreTable) -> None:
        assert await table.get("k") is None
        for _ in range(2):
            with pytest.raises(UnsafeStoreError, match="accepted a second create"):
                await table.put("k", b"one", expected=None)
        assert await table.keys("") == []

    run(Lying(), use)


def test_after_a_fault_the_store_is_checked_again() -> None:
    store = FaultStore(MemoryStore(), scripted_faults({0: Fault(FaultKind.FAIL_BEFORE)}))

    async def use(table: ObjectStoreTable) -> None:
        with pytest.raises(StoreUnavailable):
            await table.put("k", b"one", expected=None)
        await table.put("k", b"one", expected=None)

    run(store, use)


def test_a_check_that_fails_when_nobody_waits_any_more_is_no_error_of_the_loop() -> None:
    gate = Gate(ReadOnlyCredentials(MemoryStore()), lambda call: call.is_write)
    gate.closed = True
    told: list[dict[str, object]] = []

    async def use() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
        table = ObjectStoreTable(gate, runtime=Runtime())
        putting = asyncio.ensure_future(table.put("k", b"one", expected=None))
        await asyncio.to_thread(gate.held.wait, TIMEOUT_S)
        check = table._check
        assert check is not None
        putting.cancel()
        gate.open()
        await asyncio.wait((putting, check))

    asyncio.run(use())
    gc.collect()
    assert not told


@pytest.mark.parametrize(
    ("fault", "kind", "written"),
    [
        (FaultKind.FAIL_BEFORE, StoreUnavailable, False),
        (FaultKind.THROTTLED, StoreUnavailable, False),
        (FaultKind.LOST_ANSWER, StoreUnavailable, True),
        (FaultKind.UNDECIDED, Conflict, False),
        (FaultKind.REFUSED_AFTER_SUCCESS, Conflict, True),
    ],
)
@pytest.mark.parametrize("before", ["absent", "deleted", "there"])
def test_a_write_that_is_not_confirmed_is_tried_once_and_can_be_read_back(
    before: str, fault: FaultKind, kind: type[Exception], written: bool
) -> None:
    inner = MemoryStore()
    faults: dict[int, Fault] = {}
    store = FaultStore(inner, lambda number, _verb, _key: faults.get(number))

    async def use(table: ObjectStoreTable) -> None:
        expected = None
        await table.put("other", b"", expected=None)  # the check of the store is behind us
        if before != "absent":
            expected = await table.put("k", b"old", expected=None)
        if before == "deleted" and expected is not None:
            await table.delete("k", expected=expected)
            expected = None
        # A create that meets a deleted cell is refused, reads it and replaces it: the fault is that of the write that counts.
        faults[store.calls + (2 if before == "deleted" else 0)] = Fault(fault)
        with pytest.raises(kind):
            await table.put("k", b"new", expected=expected)
        assert store.fired[fault] == 1
        found = await table.get("k")
        if written:
            assert found is not None
            assert found.data == b"new"
        else:
            assert (found.data if found else None) == (b"old" if before == "there" else None)
        await table.put("k", b"next", expected=found.version if found else None)

    run(store, use)
