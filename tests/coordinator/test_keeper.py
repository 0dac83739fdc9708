"""The hold on a queue's cell: what owners, zombies and acknowledgements by handle do to one another."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce

import pytest
from msgspec.structs import replace

from penstock.coordinator.cells.cells import Cells
from penstock.coordinator.queues.cell import MessageState, QueueCell, Tries
from penstock.coordinator.queues.codec import decode_cell, encode_cell
from penstock.coordinator.queues.keeper import CellFull, Change, OwnershipLost, QueueKeeper, take
from penstock.coordinator.queues.offsets import OffsetSet, SettledOffsets
from penstock.coordinator.tables import CellVersion, MemoryTable
from penstock.log.errors import InternalError, PenstockError, StoreUnavailable
from penstock.log.runtime.runtime import Runtime
from penstock.log.stores.protocol import Conflict

KEY = "queues/billing/orders/3"
BEGIN = QueueCell(settled=SettledOffsets(10))


@dataclass
class Forever:
    id: str
    until_s: float = float("inf")


def offsets(*ranges: tuple[int, int]) -> OffsetSet:
    return OffsetSet.of(ranges)


def cells(table: MemoryTable) -> Cells:
    return Cells(table, Runtime())


def granting(offset: int) -> Change:
    return lambda cell: cell.with_granted(offsets((offset, offset + 1)))


async def taken(table: MemoryTable, owner: str) -> QueueKeeper:
    found = await cells(table).read(KEY)
    keeper = await take(cells(table), Forever(owner), KEY, begin=BEGIN, found=found)
    assert keeper is not None
    return keeper


async def stored(table: MemoryTable) -> QueueCell:
    found = await cells(table).read(KEY)
    assert found is not None
    return decode_cell(found.data, where=KEY)


async def test_the_second_of_two_takers_is_told_that_another_was_quicker() -> None:
    table = MemoryTable()
    first = await take(cells(table), Forever("a"), KEY, begin=BEGIN, found=None)
    assert first is not None
    assert await take(cells(table), Forever("b"), KEY, begin=BEGIN, found=None) is None
    assert (await stored(table)).owner == "a"


async def test_changes_gather_while_a_write_is_under_way() -> None:
    table = MemoryTable()
    keeper = await taken(table, "a")
    before = keeper.writes
    await asyncio.gather(*(keeper.change(granting(at)) for at in range(10, 60)))
    assert keeper.writes - before == 1
    assert (await stored(table)).granted == offsets((10, 60))


@dataclass
class Part:
    """A change that is carried out, and what it heard."""

    change: Change
    heard: asyncio.Future[QueueCell]
    is_over: bool = False

    def settle(self, result: QueueCell, /) -> None:
        self.heard.set_result(result)

    def fail(self, error: PenstockError, /) -> None:
        self.heard.set_exception(error)


def part(change: Change) -> Part:
    return Part(change, asyncio.get_running_loop().create_future())


async def test_what_is_carried_out_begins_at_once_and_each_part_hears_of_its_own_end() -> None:
    table = MemoryTable()
    keeper = await taken(table, "a")
    before, parts = keeper.writes, [part(granting(10)), part(granting(11)), part(granting(11)), part(granting(12))]
    parts[3].is_over = True
    keeper.carry_out(*parts[:2])
    assert keeper.writes - before == 1
    keeper.carry_out(*parts[2:])
    assert keeper.writes - before == 1, "it waits for the end of that write"
    assert await parts[1].heard == await parts[0].heard
    with pytest.raises(InternalError, match="granted twice"):
        await parts[2].heard
    assert (await stored(table)).granted == offsets((10, 12))
    await keeper.change(granting(13))
    assert (await stored(table)).granted == offsets((10, 12), (13, 14))
    assert keeper.writes - before == 2
    keeper.lose()
    late = part(granting(14))
    keeper.carry_out(late)
    with pytest.raises(OwnershipLost):
        await late.heard


async def test_a_zombie_changes_nothing_and_hears_that_its_hold_is_over() -> None:
    table = MemoryTable()
    zombie = await taken(table, "a")
    await zombie.change(lambda cell: cell.with_granted(offsets((10, 14))))
    owner = await taken(table, "b")
    with pytest.raises(OwnershipLost, match="taken by b in epoch 2"):
        await zombie.change(lambda cell: cell.with_settled(offsets((10, 14))))
    assert zombie.ended.is_set()
    with pytest.raises(OwnershipLost):
        await zombie.change(lambda cell: cell)
    cell = await stored(table)
    assert cell == owner.cell
    assert set(cell.tries) == {10, 11, 12, 13}


async def test_an_acknowledgement_by_handle_is_merged_not_overwritten() -> None:
    table = MemoryTable()
    keeper = await taken(table, "a")
    await keeper.change(
        lambda cell: cell.with_tries(10, Tries(MessageState.OUT, due_ms=99)).with_tries(11, Tries(MessageState.OUT, due_ms=99))
    )
    found = await cells(table).read(KEY)
    assert found is not None
    acknowledged = decode_cell(found.data, where=KEY).with_settled(offsets((10, 11)))
    await cells(table).write(KEY, encode_cell(acknowledged), on=found, deadline_s=float("inf"))
    cell = await keeper.change(lambda cell: cell.with_granted(offsets((12, 14))))
    assert set(cell.tries) == {11}
    assert cell == await stored(table)


async def test_a_write_that_was_carried_out_below_an_acknowledgement_is_not_made_again() -> None:
    """The answer is lost, and before the cell is read back another acknowledges: what stands there has both."""

    class Losing(MemoryTable):
        async def put(self, key, data, *, expected):  # type: ignore[no-untyped-def]
            version = await super().put(key, data, expected=expected)
            if not self.armed:
                return version
            self.armed = False
            found = await cells(self).read(KEY)
            assert found is not None
            acknowledged = decode_cell(found.data, where=KEY).with_settled(offsets((10, 11)))
            await cells(self).write(KEY, encode_cell(acknowledged), on=found, deadline_s=float("inf"))
            raise StoreUnavailable("no answer", operation="put")

        armed = False

    table = Losing()
    keeper = await taken(table, "a")
    await keeper.change(lambda cell: cell.with_tries(10, Tries(MessageState.OUT, due_ms=99)).with_granted(offsets((12, 14))))
    table.armed = True
    cell = await keeper.change(lambda cell: cell.with_dead_letters((12,)))
    assert cell.dead_letters.assigned == (12,)
    assert cell.tries == {}
    assert cell == await stored(table)


class Overtaking(MemoryTable):
    """Carries out a write that it had not answered when the next one is about to be carried out."""

    late: tuple[bytes, CellVersion | None] | None = None

    async def put(self, key: str, data: bytes, *, expected: CellVersion | None) -> CellVersion:
        if self.late is not None:
            (earlier, version), self.late = self.late, None
            with suppress(Conflict):
                await super().put(key, earlier, expected=version)
        return await super().put(key, data, expected=expected)


async def test_a_holder_takes_its_queue_though_an_earlier_write_of_its_own_arrives_as_it_does() -> None:
    table = Overtaking()
    first = await taken(table, "a")
    found = await cells(table).read(KEY)
    assert found is not None
    grant = replace(first.cell.with_granted(offsets((10, 12))), step=1)
    table.late = b"w" * 16 + encode_cell(grant), found.version
    again = await take(cells(table), Forever("a"), KEY, begin=BEGIN, found=found)
    assert again is not None, "it was its own write, not another's"
    assert (again.cell.owner, again.epoch, again.taken_from) == ("a", 2, "a")
    assert set(again.cell.tries) == {10, 11}, "what it granted may have begun, so it is suspect"
    assert again.cell == await stored(table)


async def test_who_was_overtaken_by_its_own_release_does_not_take_the_queue() -> None:
    table = Overtaking()
    first = await taken(table, "a")
    found = await cells(table).read(KEY)
    assert found is not None
    table.late = b"w" * 16 + encode_cell(replace(first.cell.released(), step=1)), found.version
    assert await take(cells(table), Forever("a"), KEY, begin=BEGIN, found=found) is None
    assert (await stored(table)).owner == "", "others may take it, and it too when it looks again"


async def test_a_change_that_fails_leaves_the_others_alone() -> None:
    table = MemoryTable()
    keeper = await taken(table, "a")
    results = await asyncio.gather(
        keeper.change(lambda cell: cell.with_granted(offsets((10, 12)))),
        keeper.change(lambda cell: cell.with_granted(offsets((11, 13)))),
        keeper.change(lambda cell: cell.with_settled(offsets((10, 11)))),
        return_exceptions=True,
    )
    assert isinstance(results[1], InternalError)
    assert (await stored(table)).settled.floor == 11


async def test_what_finds_no_room_is_left_out_and_what_settles_always_finds_some() -> None:
    table = MemoryTable()
    keeper = await taken(table, "a")
    rng = random.Random(3)

    def failing(at: int) -> Change:
        tries = {offset: Tries(MessageState.WAITING, 1, 1, rng.getrandbits(40)) for offset in range(at, at + 2000)}
        return lambda cell: reduce(lambda grown, offset: grown.with_tries(offset, tries[offset]), tries, cell)

    await keeper.change(failing(10))
    with pytest.raises(CellFull, match="no room"):
        await asyncio.gather(*(keeper.change(failing(at)) for at in range(2010, 20_000, 2000)))
    assert len((await stored(table)).tries) >= 2000
    await keeper.change(lambda cell: cell.with_settled(offsets((10, 20_000))))
    assert (await stored(table)).tries == {}


async def test_a_released_queue_has_no_owner_and_its_former_one_is_done() -> None:
    table = MemoryTable()
    keeper = await taken(table, "a")
    await keeper.change(lambda cell: cell.with_granted(offsets((10, 12))))
    with pytest.raises(InternalError):
        await keeper.release()
    await keeper.change(lambda cell: cell.with_ungranted(offsets((11, 12))).with_settled(offsets((10, 11))))
    await keeper.release()
    assert keeper.ended.is_set()
    cell = await stored(table)
    assert (cell.owner, cell.settled.floor, cell.epoch) == ("", 11, 1)
    assert cell == keeper.cell


async def test_a_hold_whose_lease_ran_out_cannot_write() -> None:
    class Silent(MemoryTable):
        silent = False

        async def put(self, key, data, *, expected):  # type: ignore[no-untyped-def]
            if self.silent:
                raise StoreUnavailable("no answer", operation="put")
            return await super().put(key, data, expected=expected)

    table = Silent()
    runtime = Runtime()
    holder = Forever("a", runtime.clock.monotonic_s() + 0.2)
    keeper = await take(Cells(table, runtime), holder, KEY, begin=BEGIN, found=None)
    assert keeper is not None
    table.silent = True
    with pytest.raises(OwnershipLost, match="could not be written"):
        await keeper.change(lambda cell: cell.with_granted(offsets((10, 12))))
    assert keeper.ended.is_set()


async def test_an_owner_whose_cell_was_put_back_has_lost_it() -> None:
    table = MemoryTable()
    owner = await taken(table, "a")
    old = dict(table._cells)
    await owner.change(granting(10))
    table._cells = old
    with pytest.raises(OwnershipLost, match="put back"):
        await owner.change(granting(11))
    assert (await stored(table)).granted == OffsetSet()
