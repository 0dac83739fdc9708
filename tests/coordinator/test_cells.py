"""Writes of cells through a table that loses requests and answers, repeats requests, and carries them out late."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest

from penstock.coordinator.cells.cells import WRITE_ID_BYTES, CellChanged, Cells, StoredCell
from penstock.coordinator.coordination import Coordination
from penstock.coordinator.tables import Cell, CellVersion, MemoryTable
from penstock.coordinator.tables.objectstore import ObjectStoreTable
from penstock.coordinator.tables.protocol import Told
from penstock.log.errors import (
    AccessLost,
    AccessRefused,
    DataDamaged,
    ForeignObject,
    PenstockError,
    PermissionDenied,
    StorageFull,
    StoreUnavailable,
    UnknownOutcome,
)
from penstock.log.runtime.runtime import Runtime
from penstock.log.stores import CountingStore, MemoryStore, Put
from penstock.log.stores.protocol import Conflict
from tests.simulation.kernel import Kernel

FAULTS = ("lost request", "lost answer", "repeated", "late", "undecided")


class TellingTable(MemoryTable):
    """Tells the ends of its writes to those who ask for that, as the table in a SQLite file does."""

    def __init__(self) -> None:
        super().__init__()
        self.telling: list[asyncio.Task[None]] = []

    def begin_put(self, key: str, data: bytes, expected: CellVersion | None, told: Told) -> None:
        async def put() -> None:
            try:
                answer: CellVersion | PenstockError = await self.put(key, data, expected=expected)
            except PenstockError as error:
                answer = error
            told(answer)

        self.telling.append(asyncio.ensure_future(put()))


async def written(cells: Cells, data: bytes, *, on: StoredCell | None, deadline_s: float, told: bool) -> StoredCell:
    if not told:
        return await cells.write("cell", data, on=on, deadline_s=deadline_s)
    end: asyncio.Future[StoredCell] = asyncio.get_running_loop().create_future()

    def hear(outcome: StoredCell | BaseException) -> None:
        if isinstance(outcome, StoredCell):
            end.set_result(outcome)
        else:
            end.set_exception(outcome)

    cells.begin_write("cell", data, on=on, deadline_s=deadline_s, ended=hear)
    return await end


either_way = pytest.mark.parametrize("told", [False, True])
"""Whether a write's end is awaited or told."""


class FaultyTable(TellingTable):
    """Each write meets a fault now and then, and other tasks run between."""

    def __init__(self, chance: random.Random, rate: float) -> None:
        super().__init__()
        self._chance = chance
        self._rate = rate
        self.met: Counter[str] = Counter()
        self.late: list[asyncio.Task[None]] = []

    async def get(self, key: str) -> Cell | None:
        await self._turns()
        if self._chance.random() < self._rate:
            raise StoreUnavailable("no answer", operation="get")
        return await super().get(key)

    async def put(self, key: str, data: bytes, *, expected: CellVersion | None) -> CellVersion:
        await self._turns()
        fault = self._chance.choice(FAULTS) if self._chance.random() < self._rate else ""
        self.met[fault] += 1
        if fault == "undecided":
            raise Conflict("conflicting requests", operation="put")
        if fault == "lost request":
            raise StoreUnavailable("no answer", operation="put")
        if fault == "late":
            self.late.append(asyncio.ensure_future(self._later(key, data, expected)))
            raise StoreUnavailable("no answer", operation="put")
        version = await super().put(key, data, expected=expected)
        if fault == "lost answer":
            raise StoreUnavailable("no answer", operation="put")
        if fault == "repeated":
            return await super().put(key, data, expected=expected)
        return version

    async def _later(self, key: str, data: bytes, expected: CellVersion | None) -> None:
        await self._turns(most=40)
        try:
            await super().put(key, data, expected=expected)
        except Conflict:
            self.met["late and refused"] += 1

    async def _turns(self, most: int = 5) -> None:
        for _ in range(self._chance.randrange(most)):
            await asyncio.sleep(0)


def quick(seed: int) -> Runtime:
    return Runtime(random=random.Random(seed))


async def _adding(table: FaultyTable, seed: int, number: int, adds: int, patience_s: float, *, told: bool) -> tuple[int, int]:
    """(adds that are certain, adds that are unknown) of one writer, which adds a word to the cell again and again."""
    runtime = quick(1000 * seed + number)
    cells = Cells(table, runtime)
    certain = unknown = 0
    for step in range(adds):
        word = b"%d.%d " % (number, step)
        while True:
            try:
                stored = await cells.read("cell")
            except StoreUnavailable:
                continue
            if stored is not None and word in stored.data:
                certain += 1  # carried out before another's write
                break
            try:
                deadline_s = runtime.clock.monotonic_s() + patience_s
                data = (stored.data if stored else b" ") + word
                await written(cells, data, on=stored, deadline_s=deadline_s, told=told)
            except CellChanged:
                continue
            except UnknownOutcome:
                unknown += 1
                break
            certain += 1
            break
    return certain, unknown


class Refusing(TellingTable):
    """Gives these errors to the next requests, one each."""

    def __init__(self, *errors: PenstockError) -> None:
        super().__init__()
        self.errors = list(errors)

    async def put(self, key: str, data: bytes, *, expected: CellVersion | None) -> CellVersion:
        self._fail()
        return await super().put(key, data, expected=expected)

    async def get(self, key: str) -> Cell | None:
        self._fail()
        return await super().get(key)

    def _fail(self) -> None:
        if self.errors:
            raise self.errors.pop(0)


@either_way
def test_a_refusal_does_not_tell_what_came_of_the_tries_before_it(told: bool) -> None:
    """The first one got no answer, and may arrive yet: who heard of the refusal only would think that nothing was written."""
    silence, refusal = StoreUnavailable("no answer", operation="put"), PermissionDenied("not for now", operation="put")

    async def run(*errors: PenstockError, patience_s: float = 60.0) -> None:
        runtime = quick(1)
        deadline_s = runtime.clock.monotonic_s() + patience_s
        await written(Cells(Refusing(*errors), runtime), b"one", on=None, deadline_s=deadline_s, told=told)

    with pytest.raises(PermissionDenied):
        asyncio.run(run(refusal))
    with pytest.raises(UnknownOutcome, match="not for now"):
        asyncio.run(run(silence, refusal, patience_s=0.0))
    asyncio.run(run(silence, refusal))
    asyncio.run(run(silence, silence, refusal, refusal))
    with pytest.raises(PermissionDenied):
        asyncio.run(run(StorageFull("no room", operation="put"), silence, refusal))


@either_way
def test_what_was_only_refused_was_not_written(told: bool) -> None:
    """It is tried again while it may pass, and told as what it is: nothing of it can arrive later."""
    passing, lost = AccessRefused("not now", operation="put"), AccessLost("not any more", operation="put")

    async def run(*errors: PenstockError, patience_s: float = 60.0) -> None:
        runtime = quick(1)
        deadline_s = runtime.clock.monotonic_s() + patience_s
        await written(Cells(Refusing(*errors), runtime), b"one", on=None, deadline_s=deadline_s, told=told)

    asyncio.run(run(passing, passing))
    silence = StoreUnavailable("no answer", operation="put")
    asyncio.run(run(silence, passing, passing, passing, lost))  # the first try may arrive yet, whatever is said of later ones
    with pytest.raises(AccessLost):
        asyncio.run(run(passing, passing, lost))
    with pytest.raises(AccessRefused):
        asyncio.run(run(passing, patience_s=0.0))
    with pytest.raises(UnknownOutcome):
        asyncio.run(run(silence, passing, patience_s=0.0))


async def test_what_a_table_allowed_before_it_refuses_for_a_while() -> None:
    table = Refusing()
    coordination = Coordination(table, quick(1))
    assert await coordination.cells.read("cell") is None
    table.errors = [PermissionDenied("not now", operation="get")]
    with pytest.raises(AccessRefused):
        await coordination.cells.read("cell")
    assert coordination.refusals.refusing_s > 0
    assert await coordination.cells.read("cell") is None
    assert coordination.refusals.refusing_s == 0


async def test_so_does_one_that_tells() -> None:
    table = Refusing()
    cells = Coordination(table, quick(1)).cells
    first = await written(cells, b"one", on=None, deadline_s=9e9, told=True)
    table.errors = [PermissionDenied("not now", operation="put")]
    second = await written(cells, b"two", on=first, deadline_s=9e9, told=True)
    assert await cells.read("cell") == second
    with pytest.raises(PermissionDenied):
        await written(
            Cells(Refusing(PermissionDenied("never", operation="put")), quick(1)), b"one", on=None, deadline_s=9e9, told=True
        )


def test_a_write_whose_table_tells_nothing_is_explained_by_a_read() -> None:
    """Its timer is one for all writes, and each has its full time; what is told later counts no more."""

    class Silent(TellingTable):
        def begin_put(self, key: str, data: bytes, expected: CellVersion | None, told: Told) -> None:
            super().begin_put(key, data, expected, later.append if len(later) < 2 else told)

    later: list[CellVersion | PenstockError] = []
    kernel = Kernel(1)
    process = kernel.process("one")

    async def script() -> None:
        cells = Cells(Silent(), process.runtime)
        first = await written(cells, b"one", on=None, deadline_s=9e9, told=True)
        assert 3.0 <= kernel.loop.now < 3.5
        second = await written(cells, b"two", on=first, deadline_s=9e9, told=True)
        assert 6.0 <= kernel.loop.now < 7.0
        third = await written(cells, b"three", on=second, deadline_s=9e9, told=True)
        assert kernel.loop.now < 7.0
        assert await cells.read("cell") == third
        assert len(later) == 2

    kernel.run(process.run(script()))


@either_way
@pytest.mark.parametrize("patience_s", [60.0, 0.0])
def test_every_write_is_carried_out_once_and_its_writer_knows(patience_s: float, told: bool) -> None:
    met: Counter[str] = Counter()

    async def run(seed: int) -> None:
        table = FaultyTable(random.Random(seed), 0.3)
        found = await asyncio.gather(*(_adding(table, seed, number, 4, patience_s, told=told) for number in range(3)))
        await asyncio.gather(*table.late)
        cell = await MemoryTable.get(table, "cell")
        words = cell.data[WRITE_ID_BYTES:].split() if cell else []
        assert len(words) == len(set(words))
        certain, unknown = sum(one for one, _ in found), sum(two for _, two in found)
        assert certain <= len(words) <= certain + unknown
        assert patience_s == 0 or not unknown
        met.update(table.met)
        met["unknown"] += unknown

    for seed in range(25):
        asyncio.run(run(seed))
    wanted = {*FAULTS, "late and refused"} if patience_s else {*FAULTS, "unknown"}
    assert not {fault for fault in wanted if not met[fault]}


async def test_another_s_write_is_handed_over() -> None:
    cells = Cells(MemoryTable(), quick(1))
    first = await cells.write("cell", b"first", on=None, deadline_s=9e9)
    second = await cells.write("cell", b"second", on=first, deadline_s=9e9)
    for stale in (None, first):
        with pytest.raises(CellChanged, match=r"changed by another.*cell") as caught:
            await cells.write("cell", b"third", on=stale, deadline_s=9e9)
        assert caught.value.stored == second
    assert await cells.read("cell") == second == StoredCell(b"second", second.version, second.write_id)


async def test_a_cell_without_a_write_id_is_damaged() -> None:
    table = MemoryTable()
    await table.put("cell", b"short", expected=None)
    with pytest.raises(DataDamaged, match=r"cut off, or not Penstock's.*cell.*5 bytes"):
        await Cells(table, quick(1)).read("cell")


def test_a_request_that_hangs_is_given_up_for_another() -> None:
    class Hanging(MemoryTable):
        """The first request of each kind is never answered; the write is carried out."""

        def __init__(self) -> None:
            super().__init__()
            self.first = {"get", "put", "delete"}

        async def get(self, key: str) -> Cell | None:
            await self._hang("get")
            return await super().get(key)

        async def put(self, key: str, data: bytes, *, expected: CellVersion | None) -> CellVersion:
            version = await super().put(key, data, expected=expected)
            await self._hang("put")
            return version

        async def delete(self, key: str, *, expected: CellVersion) -> None:
            await self._hang("delete")

        async def _hang(self, verb: str) -> None:
            if verb in self.first:
                self.first.discard(verb)
                await asyncio.get_running_loop().create_future()

    async def run() -> None:
        cells = Cells(Hanging(), process.runtime)
        with pytest.raises(StoreUnavailable, match=r"no answer.*get.*cell.*within 3 s"):
            await cells.read("cell")
        stored = await cells.write("cell", b"first", on=None, deadline_s=9e9)
        assert await cells.read("cell") == stored
        await cells.drop("cell", on=stored)
        assert kernel.loop.now < 10

    kernel = Kernel(1)
    process = kernel.process("a")
    kernel.run(process.run(run()))


async def test_a_cell_that_nobody_needs_is_dropped_unless_another_wrote_it() -> None:
    cells = Cells(MemoryTable(), quick(1))
    first = await cells.write("cell", b"first", on=None, deadline_s=9e9)
    second = await cells.write("cell", b"second", on=first, deadline_s=9e9)
    await cells.drop("cell", on=first)
    assert await cells.read("cell") == second
    await cells.drop("cell", on=second)
    assert await cells.read("cell") is None


def on_a_store() -> tuple[CountingStore, Cells, Cells]:
    """A store with cells, and two processes that use them."""
    store = CountingStore(MemoryStore())
    first, second = (Cells(ObjectStoreTable(store, runtime=quick(seed)), quick(seed)) for seed in (1, 2))
    return store, first, second


async def test_of_many_cells_only_those_are_read_again_that_changed() -> None:
    store, writing, reading = on_a_store()
    keys = [f"queues/billing/orders/{number}" for number in range(20)]
    stored = [await writing.write(key, b"first", on=None, deadline_s=9e9) for key in keys[:15]]

    async def asked() -> tuple[dict[str, bytes], int, int]:
        before = store.statistics()
        found = await reading.read_these(keys, under="queues/billing/")
        cost = store.statistics() - before
        return {key: one.data for key, one in found.items()}, cost.get.requests, cost.list.requests

    first = dict.fromkeys(keys[:15], b"first")
    assert await asked() == (first, 15, 1)
    assert await asked() == (first, 0, 1)
    await writing.write(keys[3], b"second", on=stored[3], deadline_s=9e9)
    await writing.drop(keys[4], on=stored[4])
    assert await asked() == ({key: b"second" if key == keys[3] else b"first" for key in first if key != keys[4]}, 1, 1)
    # A group that was deleted and made again has cells under the same keys.
    await writing.write(keys[4], b"first", on=None, deadline_s=9e9)
    assert (await asked())[1] == 1


async def test_a_damaged_cell_is_an_error_to_those_who_want_it_alone() -> None:
    store, writing, reading = on_a_store()
    keys = [f"queues/billing/orders/{number}" for number in range(20)]
    for key in keys:
        await writing.write(key, b"x", on=None, deadline_s=9e9)
    await reading.read_these(keys, under="queues/billing/")
    await store.put(f"coordination/{keys[7]}", b"damaged", mode=Put.REPLACE)
    with pytest.raises(ForeignObject, match=keys[7]):
        await reading.read_these(keys, under="queues/billing/")
    assert len(await reading.read_these([key for key in keys if key != keys[7]], under="queues/billing/")) == 19
