"""Waiting messages that leave a cell for an object, and come back."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from penstock import aio
from penstock.coordinator import GroupSettings
from penstock.coordinator.cells.keys import queue_key
from penstock.coordinator.queues.cell import MessageState, QueueCell, Spill, Tries
from penstock.coordinator.queues.codec import decode_cell, encode_cell
from penstock.coordinator.queues.spills import SpillReturn, WaitingRows, with_merged, with_returned, with_spilled
from penstock.coordinator.registry.retention import first_needed
from penstock.coordinator.registry.spill_objects import ORPHAN_AGE_MS, SpillObjects, collect_spills
from penstock.log import TopicSettings
from penstock.log.errors import DataDamaged, InternalError
from penstock.log.runtime.runtime import Runtime, SystemClock
from penstock.log.stores.memory import MemoryStore
from penstock.log.stores.protocol import Put

ID = "0123456789abcdef" * 2
OTHER = "fedcba9876543210" * 2
waiting_messages = st.dictionaries(
    st.integers(0, 2**40),
    st.builds(Tries, st.just(MessageState.WAITING), st.integers(1, 99), st.integers(0, 99), st.integers(0, 2**45)),
    min_size=1,
    max_size=50,
)


def waiting(*numbers: int, due_ms: int = 1_000) -> dict[int, Tries]:
    return {number: Tries(MessageState.WAITING, 1, 1, due_ms + number) for number in numbers}


def cell_with(tries: dict[int, Tries]) -> QueueCell:
    return QueueCell(generation=3).taken_by("w/1").with_all_tries(tries)


@given(waiting_messages)
def test_rows_are_by_due_time_and_tell_all_that_the_cell_told(messages: dict[int, Tries]) -> None:
    rows = WaitingRows.of(messages)
    assert rows.tries() == messages
    assert list(rows.tries()) == sorted(messages, key=lambda offset: (messages[offset].due_ms, offset))
    assert WaitingRows.merged([rows.part(1), rows.part(0, 1)]).tries() == messages
    assert rows.spill(ID) == Spill(ID, 0, len(messages), min(one.due_ms for one in messages.values()), min(messages))


NUMBERS = st.integers(0, 2**45)


@given(st.lists(st.builds(Spill, st.just(ID), NUMBERS, st.integers(1, 2**45), NUMBERS, NUMBERS), max_size=5))
def test_a_cell_is_stored_with_them(spills: list[Spill]) -> None:
    cell = structs.replace(QueueCell(transactions=frozenset({OTHER})), spills=tuple(spills))
    assert decode_cell(encode_cell(cell), where="cell") == cell


def test_they_leave_and_come_back_in_parts_and_each_is_in_one_place() -> None:
    everything = waiting(*range(10))
    cell = cell_with(everything)
    rows = WaitingRows.of(waiting(*range(4, 10)))
    spilled = with_spilled(cell, rows.spill(ID), rows.tries(), 3)
    assert (set(spilled.tries), spilled.count_spilled, spilled.spills[0].first_offset) == (set(range(4)), 6, 4)
    assert spilled.settled == cell.settled, "what waits elsewhere is listed as before"
    first = SpillReturn(spilled.spills[0], rows.spill(ID, 2), rows.part(0, 2).tries())
    partly = with_returned(spilled, [first], 3)
    assert (set(partly.tries), partly.count_spilled, partly.spills[0].taken) == (set(range(6)), 4, 2)
    rest = SpillReturn(partly.spills[0], None, rows.part(2).tries())
    assert with_returned(partly, [rest], 3) == cell


def test_rows_come_back_once() -> None:
    rows = WaitingRows.of(waiting(1, 2))
    spilled = with_spilled(cell_with(waiting(1, 2)), rows.spill(ID), rows.tries(), 3)
    returning = SpillReturn(spilled.spills[0], rows.spill(ID, 1), rows.part(0, 1).tries())
    with pytest.raises(InternalError):
        with_returned(with_returned(spilled, [returning], 3), [returning], 3)


def test_what_is_not_as_it_was_does_not_leave() -> None:
    rows = WaitingRows.of(waiting(1, 2))
    running = cell_with(waiting(1, 2)).with_tries(1, Tries(MessageState.RUNNING, 2, 1))
    with pytest.raises(InternalError):
        with_spilled(running, rows.spill(ID), rows.tries(), 3)


def test_a_reset_forgets_them_and_nothing_follows_it() -> None:
    rows = WaitingRows.of(waiting(1, 2))
    spilled = with_spilled(cell_with(waiting(1, 2)), rows.spill(ID), rows.tries(), 3)
    reset = spilled.reset_to(0, 4)
    assert reset.spills == ()
    assert with_spilled(reset, rows.spill(OTHER), rows.tries(), 3) is reset
    assert with_returned(reset, [SpillReturn(spilled.spills[0], None, rows.tries())], 3) is reset
    assert with_merged(reset, spilled.spills, rows.spill(OTHER), 3) is reset


def test_one_takes_the_place_of_several() -> None:
    one, other = WaitingRows.of(waiting(1, 2)), WaitingRows.of(waiting(3))
    cell = with_spilled(cell_with(waiting(1, 2, 3)), one.spill(ID), one.tries(), 3)
    cell = with_spilled(cell, other.spill(OTHER), other.tries(), 3)
    merged = WaitingRows.merged([one, other])
    assert with_merged(cell, cell.spills, merged.spill("ab" * 16), 3).spills == (Spill("ab" * 16, 0, 3, 1_001, 1),)


def test_the_next_owner_has_them_and_retention_spares_them() -> None:
    rows = WaitingRows.of(waiting(5, 6))
    cell = with_spilled(cell_with(waiting(5, 6, 7)), rows.spill(ID), rows.tries(), 3)
    assert first_needed(cell) == 5
    assert cell.taken_by("w/2").spills == cell.spills


def objects(store: MemoryStore) -> SpillObjects:
    return SpillObjects(store, Runtime(), "billing", "orders", 2)


async def test_an_object_holds_what_was_written() -> None:
    store = MemoryStore()
    rows = WaitingRows.of(waiting(*range(1_000)))
    name = await objects(store).write(rows)
    found = await objects(store).read(rows.spill(name, 10))
    assert found.tries() == rows.tries()
    cell = cell_with(waiting(*range(2_000)))
    spilled = with_spilled(cell, rows.spill(name), rows.tries(), 3)
    assert await objects(store).whole(spilled) == cell
    await objects(store).delete([name])
    assert await store.list("") == []


@pytest.mark.parametrize("harm", ["missing", "cut off", "a bit", "another's", "other rows", "foreign"])
async def test_a_damaged_object_is_told_with_what_to_do(harm: str) -> None:
    store = MemoryStore()
    own = objects(store)
    rows = WaitingRows.of(waiting(*range(7, 57)))
    name = await own.write(rows)
    key, spill = own.key(name), rows.spill(name)
    data = bytearray((await store.get(key)).data)
    if harm == "missing":
        await store.delete(key)
    elif harm == "cut off":
        await store.put(key, bytes(data[:-20]), mode=Put.REPLACE)
    elif harm == "a bit":
        data[200] ^= 1
        await store.put(key, bytes(data), mode=Put.REPLACE)
    elif harm == "another's":
        strange = replace(own, group="mailing")
        await store.put(key, (await store.get(strange.key(await strange.write(rows)))).data, mode=Put.REPLACE)
    elif harm == "other rows":
        spill = structs.replace(spill, count=spill.count + 1)
    else:
        await store.put(key, b"something else", mode=Put.REPLACE)
    with pytest.raises(DataDamaged, match=r"5[01] messages") as caught:
        await own.read(spill)
    text = str(caught.value)
    assert key in text
    assert "from offset 7 on" in text
    assert "restore the object" in text
    assert "reset" in text


class LaterClock(SystemClock):
    """Of a store whose objects are as old as a test wants."""

    later_ms = 0

    def wall_ms(self) -> int:
        return super().wall_ms() + self.later_ms


@pytest.mark.parametrize("group", ["billing", "team/billing *"])
def test_the_collector_deletes_what_is_old_and_named_by_no_cell(group: str) -> None:
    async def run() -> None:
        clock = LaterClock()
        store = MemoryStore(clock=clock)
        async with aio.connect(store=store) as lake:
            await lake.create_topic("orders", TopicSettings(queues=3))
            cells, groups = lake.coordination.cells, lake.coordination.groups
            await groups.create(group, GroupSettings())
            await groups.begin(group, "earlier", 1, origin)
            await groups.begin(group, "orders", 1, origin)
            generation = (await groups.get(group)).positions["orders"].generations[2]
            own, rows = replace(objects(store), group=group), WaitingRows.of(waiting(*range(9)))
            named, orphan, elsewhere = [await one.write(rows) for one in (own, own, replace(own, group="nobody"))]
            cell = QueueCell(generation=generation, spills=(rows.spill(named, 4),))
            await cells.write(queue_key(group, "orders", 2), encode_cell(cell), on=None, deadline_s=float("inf"))

            async def left() -> set[str]:
                await collect_spills(store, cells, groups, "orders")
                return {info.key.rpartition("/")[2].removesuffix(".parquet") for info in await store.list("waiting/")}

            clock.later_ms = ORPHAN_AGE_MS - 60_000
            assert await left() == {named, orphan, elsewhere}, "what is young may be named yet"
            clock.later_ms = ORPHAN_AGE_MS + 60_000
            assert await left() == {named}
            found = await cells.read(queue_key(group, "orders", 2))
            again = structs.replace(cell, generation=generation - 1)
            await cells.write(queue_key(group, "orders", 2), encode_cell(again), on=found, deadline_s=float("inf"))
            assert await left() == set(), "a cell of an earlier generation is reset before anything is done with it"

    async def origin() -> tuple[int, ...]:
        return (0, 0, 0)

    asyncio.run(run())
