"""One lake, one table: the first writer records it, and whoever comes with another is told, with both."""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from penstock.coordinator import CoordinationMismatch
from penstock.coordinator.cells.agreement import PROOF_S, TableAgreement, table_record
from penstock.coordinator.cells.cells import Cells, StoredCell
from penstock.coordinator.cells.table_record import Move, OwnTable, TableIdentity, TableRecord, mismatch
from penstock.coordinator.tables import CellTable, MemoryTable, ObjectStoreTable
from penstock.log.errors import DataDamaged, NewerFormatError, PermissionDenied
from penstock.log.runtime.runtime import Runtime
from penstock.log.stores import CountingStore, MemoryStore, ObjectStore
from penstock.log.stores.wrapper import StoreCall, StoreWrapper
from tests.coordinator.test_cells import FaultyTable
from tests.log.topics import HandClock

T = TypeVar("T")

LAKE = "s3://bucket/lake"
RECORD = "coordination/table"


class Bucket(StoreWrapper):
    """Counts the requests for the record, and may refuse them."""

    def __init__(self, inner: ObjectStore | None = None) -> None:
        super().__init__(inner or MemoryStore())
        self.asked: Counter[str] = Counter()
        self.refused: set[str] = set()

    async def _around(self, call: StoreCall, run: Callable[[], Awaitable[T]]) -> T:
        if call.key == RECORD:
            self.asked[call.verb] += 1
            if call.verb in self.refused:
                raise PermissionDenied("the store refused", operation=call.verb, object=call.key)
        return await run()


def cells(
    store: ObjectStore,
    table: CellTable,
    *,
    runtime: Runtime | None = None,
    read_only: bool = False,
    **own: Any,
) -> Cells:
    """As of one process that uses the table for the lake in ``store``."""
    runtime = runtime or Runtime()
    named = OwnTable(url=own.pop("url", table.url), in_lake=isinstance(table, ObjectStoreTable), **own)
    record = table_record(store, runtime, table)
    agreement = TableAgreement(table, runtime, lake=LAKE, own=named, record=record, read_only=read_only)
    return Cells(table, runtime, agreement=agreement)


async def write(process: Cells, key: str = "groups/billing", on: StoredCell | None = None) -> StoredCell:
    return await process.write(key, b"{}", on=on, deadline_s=9e9)


async def recorded(store: ObjectStore) -> TableRecord | None:
    return await table_record(store, Runtime()).read()


def tables(store: ObjectStore) -> dict[str, CellTable]:
    return {"store": ObjectStoreTable(store, runtime=Runtime()), "one": MemoryTable(name="one"), "two": MemoryTable(name="two")}


@pytest.mark.parametrize("first", ["one", "two"])
async def test_whoever_comes_with_another_table_than_the_first_writer_is_told_both(first: str) -> None:
    store = Bucket()
    found = tables(store)
    await write(cells(store, found[first]))
    other = "two" if first == "one" else "one"
    process = cells(store, found[other])
    for call in (
        lambda: process.read("groups/billing"),
        lambda: process.read_all(["groups/"]),
        lambda: process.keys("workers/"),
        lambda: write(process),
    ):
        with pytest.raises(CoordinationMismatch, match="in another coordination table") as told:
            await call()
        assert told.value.operation == "coordinate"
        assert told.value.object == LAKE
        assert (str(told.value.expected).partition(" (table ")[0], told.value.observed) == (
            found[first].url,
            f"{found[other].url} (nothing written yet)",
        )
        assert "PENSTOCK_COORDINATION" in str(told.value.hint)
    assert await found[other].keys("") == [], "nothing is written into another table"
    assert await cells(store, found[first]).read("groups/billing") is not None
    with pytest.raises(CoordinationMismatch, match=r"\(table store\)"):
        await write(cells(store, found["store"]))


async def test_a_table_is_known_by_its_id_whatever_its_url() -> None:
    store, table = MemoryStore(), MemoryTable()
    await write(cells(store, table, url="sqlite:///mnt/one.db"))
    assert await cells(store, table, url="sqlite:///mnt/other/one.db").read("groups/billing") is not None


async def test_a_table_that_was_made_again_is_none_of_the_lake_s() -> None:
    store = MemoryStore()
    await write(cells(store, MemoryTable(name="cells")))
    again = MemoryTable(name="cells")
    with pytest.raises(CoordinationMismatch, match=r"lost, or made again.*backup.*adopt"):
        await cells(store, again).read("groups/billing")
    await write(cells(MemoryStore(), again))  # as by a process that the former release ran
    with pytest.raises(CoordinationMismatch, match="lost, or made again"):
        await write(cells(store, again))


async def test_a_process_that_outlives_its_lake_does_not_record_the_former_table_for_the_next_one() -> None:
    """As when a folder is deleted, lake and table, and made again by the same path."""
    clock, store, table = HandClock(), MemoryStore(), MemoryTable()
    process = cells(store, table, runtime=Runtime(clock=clock))
    await write(process)
    await store.delete(RECORD)
    table._cells.clear()
    clock.advance(seconds=PROOF_S + 1)
    await write(process)
    await write(process, "groups/orders")
    assert await cells(store, table).read("groups/billing") is not None
    await write(cells(store, table), "groups/third")
    assert await recorded(store) is not None


async def test_a_backup_that_is_put_back_is_the_lake_s_and_a_copy_beside_it_is_not() -> None:
    store, table = MemoryStore(), MemoryTable()
    await write(cells(store, table, name="dynamodb:cells/"))
    copy = MemoryTable()
    copy._cells = dict(table._cells)
    assert await cells(store, copy, name="dynamodb:cells/").read("groups/billing") is not None
    with pytest.raises(CoordinationMismatch, match=r"a copy of the lake's.*adopt"):
        await write(cells(store, copy, name="dynamodb:restored/"))


def test_of_two_first_writers_with_different_tables_one_writes() -> None:
    async def main(seed: int) -> tuple[bool, bool]:
        chance = random.Random(seed)
        store = MemoryStore()
        both = [FaultyTable(chance, 0.0), FaultyTable(chance, 0.0)]
        ends = await asyncio.gather(*(write(cells(store, one)) for one in both), return_exceptions=True)
        refused = tuple(isinstance(end, CoordinationMismatch) for end in ends)
        assert sorted(refused) == [False, True], ends
        assert [bool(await one.keys("groups/")) for one in both] == [not one for one in refused]
        return refused[0], refused[1]

    assert {asyncio.run(main(seed)) for seed in range(20)} == {(True, False), (False, True)}


async def test_who_only_reads_writes_nothing_and_learns_of_the_record_later() -> None:
    clock = HandClock()
    store, table = Bucket(), MemoryTable()
    await table.put("groups/billing", bytes(16) + b"{}", expected=None)  # a lake of before the record
    reader = cells(store, table, runtime=Runtime(clock=clock), read_only=True)
    for _ in range(5):
        assert await reader.read("groups/billing") is not None
    assert store.asked == {"get": 1}, "its absence is remembered for a minute"
    assert await table.keys("") == ["groups/billing"]
    await write(cells(store, MemoryTable()))
    clock.advance(seconds=61)
    with pytest.raises(CoordinationMismatch):
        await reader.read("groups/billing")


async def test_the_next_writer_records_the_table_of_a_lake_of_before() -> None:
    store, table = MemoryStore(), MemoryTable()
    old = cells(MemoryStore(), table)  # it knows of no record here
    stored = await write(old)
    assert await recorded(store) is None
    await write(cells(store, table), on=stored)
    found = await recorded(store)
    assert found is not None
    assert found.table.id == (await table.get("lake")).data[:16].hex()  # type: ignore[union-attr]
    await write(old, "groups/more")


async def test_a_table_in_memory_is_compared_and_never_recorded() -> None:
    store = MemoryStore()
    await write(cells(store, MemoryTable(), lasting=False))
    assert await recorded(store) is None
    await write(cells(store, MemoryTable()))
    with pytest.raises(CoordinationMismatch):
        await cells(store, MemoryTable(), lasting=False).read("groups/billing")


async def test_it_costs_one_request_of_a_process() -> None:
    store = Bucket()
    for table in tables(store).values():
        store.asked.clear()
        await write(cells(store, table), "workers/first")
        store.asked.clear()
        process = cells(store, table)
        for number in range(20):
            await process.read(f"groups/{number}")
            stored = await write(process, f"groups/{number}")
            await write(process, f"groups/{number}", stored)
        assert store.asked == {"get": 1}
        for key in (RECORD, *(f"coordination/{key}" for key in await table.keys(""))):
            await store.delete(key)


async def test_cells_made_long_after_the_last_look_are_confirmed_together() -> None:
    clock, store, table = HandClock(), Bucket(), MemoryTable()
    process = cells(store, table, runtime=Runtime(clock=clock))
    stored = await write(process)
    clock.advance(seconds=PROOF_S + 1)
    store.asked.clear()
    for _ in range(5):
        stored = await write(process, on=stored)
    assert not store.asked, "a cell that is changed needs no look"
    await asyncio.gather(*(write(process, f"groups/{number}") for number in range(5)))
    assert store.asked == {"get": 1}


async def test_a_process_without_the_right_to_the_record_goes_on_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    for refused in ({"get"}, {"put"}):
        store, table = Bucket(), MemoryTable()
        store.refused = refused
        process = cells(store, table)
        await write(process)
        with caplog.at_level(logging.WARNING):
            for _ in range(3):
                await process.read("groups/billing")
        (record,) = caplog.records
        assert "cannot tell whether memory:// is the coordination table" in record.getMessage()
        assert "penstock infra policy" in record.getMessage()
        caplog.clear()


@pytest.mark.parametrize(("data", "error"), [({"format": 2, "tables": 3}, NewerFormatError), ({"format": 1}, DataDamaged)])
async def test_a_record_that_cannot_be_read_is_no_leave(data: dict[str, int], error: type[Exception]) -> None:
    store, table = MemoryStore(), MemoryTable()
    lake = ObjectStoreTable(store, runtime=Runtime())
    await lake.put("table", bytes(16) + json.dumps(data).encode(), expected=None)
    with pytest.raises(error, match="table"):
        await cells(store, table).read("groups/billing")
    with pytest.raises(error, match="table"):
        await write(cells(store, table))
    assert await table.keys("") == []


def test_what_the_error_says_hangs_on_what_was_found() -> None:
    table = TableIdentity(id="a" * 32, url="sqlite:///a.db")
    record = TableRecord(table=table, since_ms=0, former=TableIdentity(id="b" * 32, url="sqlite:///b.db"))
    own = OwnTable(url="sqlite:///b.db")
    assert mismatch(record, own, table.id, lake=LAKE) is None
    moved = mismatch(record, own, "b" * 32, lake=LAKE)
    assert moved is not None
    assert moved.message == "the lake's consumer groups were moved into another coordination table"
    assert moved.expected == "sqlite:///a.db (table aaaaaaaa, recorded 1970-01-01 00:00 UTC)"
    assert moved.observed == "sqlite:///b.db (table bbbbbbbb)"
    assert "coordination move" not in (moved.hint or ""), "it was moved on purpose"
    other = mismatch(record, OwnTable(url="store", in_lake=True), "store", lake=LAKE)
    assert other is not None
    assert "penstock coordination move --from sqlite:///a.db --to store" in (other.hint or "")


async def test_the_record_with_a_move_is_read_again_as_it_was_written() -> None:
    store = MemoryStore()
    to = TableIdentity(id="c", url="dynamodb://cells", name="dynamodb:cells/")
    record = TableRecord(table=TableIdentity(id="a", url="store"), since_ms=7, former=None, move=Move(id="m", to=to))
    await table_record(store, Runtime()).change(lambda _: record)
    assert await recorded(store) == record


async def test_the_requests_of_a_store_that_is_counted_show_the_look_only_once() -> None:
    store = CountingStore(MemoryStore())
    table = ObjectStoreTable(store, runtime=Runtime())
    await write(cells(store, table))
    before = store.statistics()
    process = cells(store, ObjectStoreTable(store, runtime=Runtime()))
    for _ in range(10):
        await process.read("groups/billing")
    assert (store.statistics() - before).get.requests == 11
