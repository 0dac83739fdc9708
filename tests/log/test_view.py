"""Views: how long they are believed, where they start, and that entries come one by one, in order."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from penstock.log.errors import DataDamaged, PermissionDenied, ViewLost
from penstock.log.format.floor import decode_floor, encode_floor
from penstock.log.format.fold import FoldedEntry
from penstock.log.limits import CHECKPOINT_ENTRIES, VIEW_AGE_MAX_S
from penstock.log.stores.faults import Fault, FaultStore
from penstock.log.stores.protocol import ObjectMissing, ObjectStore, Put
from penstock.log.stores.wrapper import StoreCall, StoreWrapper
from penstock.log.tail.tail import Tail
from penstock.log.tail.view import EntryCache, View
from tests.log.topics import LogWriter

T = TypeVar("T")


async def a_log(entries: int) -> LogWriter:
    log = await LogWriter().create()
    for _ in range(entries - 1):
        await log.send({0: 1})
    return log


async def trim(log: LogWriter, floor: int) -> None:
    await log.store.put(log.paths.floor, encode_floor(floor, write_id="w"), mode=Put.REPLACE)
    for number in range(1, floor + 1):
        await log.store.delete(log.paths.entry(number))
    for info in await log.store.list(log.paths.checkpoints):
        if (log.paths.checkpoint_entry(info.key) or 0) < floor:
            await log.store.delete(info.key)


def view_of(log: LogWriter) -> View:
    return View(log.store, log.paths, log.runtime)


@pytest.mark.parametrize("many", [False, True])
async def test_entries_come_one_by_one_in_order(many: bool) -> None:
    log, seen = await a_log(40), list[int]()
    view = view_of(log)
    view.on_fold = lambda folded, _: seen.append(folded.number)
    await view.open()
    await view.catch_up(expect_many=many)
    assert seen == list(range(1, 41))
    assert view.state == log.state


class Busy(StoreWrapper):
    """A log to which another appends between any two requests of the one who looks, for a while."""

    def __init__(self, log: LogWriter, entries: int) -> None:
        super().__init__(log.store)
        self._log = log
        self._left = entries

    async def _around(self, call: StoreCall, run: Callable[[], Awaitable[T]]) -> T:
        if self._left:
            self._left -= 1
            await self._log.send({0: 1})
        return await run()


class RefusesOnce(StoreWrapper):
    """Refuses the first GET of one object, and no other."""

    def __init__(self, inner: ObjectStore, key: str) -> None:
        super().__init__(inner)
        self._keys = {key}

    async def _around(self, call: StoreCall, run: Callable[[], Awaitable[T]]) -> T:
        if call.verb == "get" and call.key in self._keys:
            self._keys.clear()
            raise PermissionDenied("refused", object=call.key)
        return await run()


async def test_a_refusal_is_told_though_it_met_an_entry_that_was_fetched_ahead() -> None:
    log = await a_log(40)
    view = View(RefusesOnce(log.store, log.paths.entry(20)), log.paths, log.runtime)
    await view.open()
    with pytest.raises(PermissionDenied):
        await view.catch_up(expect_many=True)


@pytest.mark.parametrize("many", [False, True])
async def test_a_log_that_grows_faster_than_one_can_look_is_caught_up_with_as_it_was(many: bool) -> None:
    """Else a topic is not opened as long as others send to it."""
    log = await a_log(40)
    view = View(Busy(log, 1_000), log.paths, log.runtime)
    await view.open()
    await view.catch_up(expect_many=many)
    assert 40 <= view.state.entry < 500


async def test_it_starts_at_the_newest_checkpoint_or_the_newest_asked_for() -> None:
    log = await a_log(2 * CHECKPOINT_ENTRIES + 5)
    view = view_of(log)
    await view.open()
    assert view.state.entry == 2 * CHECKPOINT_ENTRIES
    view = view_of(log)
    await view.open(at_most=2 * CHECKPOINT_ENTRIES)
    assert view.state.entry == 2 * CHECKPOINT_ENTRIES
    view = view_of(log)
    await view.open(at_most=2 * CHECKPOINT_ENTRIES - 1)
    assert view.state.entry == CHECKPOINT_ENTRIES
    await view.catch_up()
    assert view.state == log.state


async def test_a_damaged_checkpoint_is_passed_for_an_older_one() -> None:
    log = await a_log(2 * CHECKPOINT_ENTRIES + 5)
    await log.store.put(log.paths.checkpoint(2 * CHECKPOINT_ENTRIES), b"{}\nbad\n", mode=Put.REPLACE)
    view = view_of(log)
    await view.open()
    await view.catch_up()
    assert view.state == log.state


async def test_an_absent_key_is_believed_for_five_minutes_and_then_only_with_the_floor() -> None:
    log = await a_log(CHECKPOINT_ENTRIES + 6)
    view = view_of(log)
    await view.open()
    await view.catch_up()
    await log.send({0: 1})
    log.clock.advance(seconds=VIEW_AGE_MAX_S - 2)  # a send takes a second
    await log.store.delete(log.paths.entry(log.state.entry))
    assert not view.is_aged
    assert not await view.step()
    log.clock.advance(seconds=VIEW_AGE_MAX_S + 1)
    assert view.is_aged
    log.clock.advance(seconds=-1)
    assert not view.is_aged
    log.clock.advance(seconds=1)
    await trim(log, CHECKPOINT_ENTRIES)
    assert not await view.step(), "the floor is not above it"
    log.clock.advance(seconds=VIEW_AGE_MAX_S + 1)
    await log.store.put(log.paths.floor, encode_floor(log.state.entry, write_id="w"), mode=Put.REPLACE)
    with pytest.raises(ViewLost, match="trimmed past"):
        await view.step()


async def test_the_read_of_an_entry_is_no_proof() -> None:
    """The floor may have passed it, and the deletions behind the floor may be near."""
    log = await a_log(5)
    view = view_of(log)
    await view.open()
    await view.catch_up()
    await log.send({0: 1})
    log.clock.advance(seconds=VIEW_AGE_MAX_S - 10)
    assert await view.step()
    assert view.state.entry == 6
    log.clock.advance(seconds=11)
    assert view.is_aged


async def test_an_answer_about_a_place_that_the_view_has_left_proves_nothing() -> None:
    log = await a_log(5)
    view = view_of(log)
    await view.open()
    await view.catch_up()
    log.clock.advance(seconds=VIEW_AGE_MAX_S + 1)
    view.prove(4, log.clock.monotonic_s())
    assert view.is_aged
    view.prove(5, log.clock.monotonic_s())
    assert not view.is_aged


async def test_a_view_that_is_opened_again_does_not_go_back() -> None:
    log = await a_log(CHECKPOINT_ENTRIES + 5)
    view = view_of(log)
    await view.open()
    await view.catch_up()
    await view.open()
    assert view.state == log.state


async def test_an_entry_below_the_floor_is_not_believed_by_an_old_view() -> None:
    """What stands there may have been put by one that slept as long."""
    log = await a_log(5)
    view = view_of(log)
    await view.open()
    await view.catch_up()
    for _ in range(CHECKPOINT_ENTRIES):
        await log.send({0: 1})
    await trim(log, CHECKPOINT_ENTRIES)
    await log.store.put(log.paths.entry(6), b"by a sleeper", mode=Put.CREATE)
    log.clock.advance(seconds=VIEW_AGE_MAX_S + 1)
    with pytest.raises(ViewLost):
        await view.step()
    assert view.state.entry == 5


async def test_opening_survives_a_trim_between_its_reads() -> None:
    """Listed, then trimmed, then read: whatever was listed is gone, and that is no damage."""
    log = await a_log(3 * CHECKPOINT_ENTRIES + 3)
    await trim(log, CHECKPOINT_ENTRIES)
    listing, trimmed = log.store.list, [False]

    async def list_then_trim(prefix: str, **more: Any) -> Any:
        found = [info for info in await listing(prefix, **more) if log.paths.checkpoint_entry(info.key) in {None, 64, 128}]
        if prefix == log.paths.checkpoints and not trimmed[0]:
            trimmed[0] = True
            await trim(log, 3 * CHECKPOINT_ENTRIES)
            return found
        return await listing(prefix, **more)

    log.store.list = list_then_trim  # type: ignore[method-assign]
    view = view_of(log)
    await view.open()
    assert view.state.entry == 3 * CHECKPOINT_ENTRIES


async def test_a_floor_without_a_checkpoint_is_damage() -> None:
    log = await a_log(CHECKPOINT_ENTRIES + 3)
    await trim(log, CHECKPOINT_ENTRIES)
    await log.store.delete(log.paths.checkpoint(CHECKPOINT_ENTRIES))
    with pytest.raises(DataDamaged, match=r"no checkpoint above the floor.*entry 64 or later.*observed: none.*up to entry 64"):
        await view_of(log).open()
    await log.store.put(log.paths.checkpoint(CHECKPOINT_ENTRIES), b"{}\nbad\n", mode=Put.REPLACE)
    with pytest.raises(DataDamaged, match="no checkpoint above the floor") as caught:
        await view_of(log).open()
    assert caught.value.object == log.paths.checkpoint(CHECKPOINT_ENTRIES)
    assert "not what was written" in str(caught.value.observed)
    assert "run `penstock repair`" not in str(caught.value)


async def test_a_tail_that_was_trimmed_past_reopens_and_says_so() -> None:
    log = await a_log(5)
    tail = Tail(log.store, log.paths, log.runtime)
    await tail.open()
    seen: list[Any] = []
    tail.fold_listeners.append(lambda folded, _: seen.append(folded.number))
    tail.jump_listeners.append(lambda state: seen.append(f"jump to {state.entry}"))
    for _ in range(2 * CHECKPOINT_ENTRIES - 5 + 2):
        await log.send({0: 1})
    await trim(log, CHECKPOINT_ENTRIES)
    log.clock.advance(seconds=VIEW_AGE_MAX_S + 1)
    await tail.catch_up()
    assert seen == ["jump to 128", 129, 130]
    assert tail.state == log.state
    await tail.close()


def test_a_cache_forgets_the_oldest() -> None:
    cache = EntryCache(size_bytes_max=8)
    for number in range(4):
        cache.put(number, b"1234")
    assert [number for number in range(4) if cache.get(number) is not None] == [2, 3]


def test_an_entry_is_held_once() -> None:
    cache = EntryCache(size_bytes_max=8)
    for number in (1, 2, 2, 2):
        cache.put(number, b"1234")
    assert [number for number in range(3) if cache.get(number) is not None] == [1, 2]


async def test_it_starts_at_the_floor_but_not_below_it() -> None:
    log = await a_log(CHECKPOINT_ENTRIES + 5)
    await trim(log, CHECKPOINT_ENTRIES)
    view = view_of(log)
    await view.open(at_most=CHECKPOINT_ENTRIES)
    assert view.state.entry == CHECKPOINT_ENTRIES
    log.clock.advance(seconds=VIEW_AGE_MAX_S + 1)
    await view.confirm(CHECKPOINT_ENTRIES)
    assert not view.is_aged, "the floor is where it stands, and not above"
    with pytest.raises(ViewLost, match="trimmed past this entry"):
        await view.open(at_most=CHECKPOINT_ENTRIES - 1)


@pytest.mark.parametrize(("suits_to", "starts_at"), [(0, 64), (64, 64), (127, 64), (128, 128), (192, 192), (999, 256)])
async def test_it_starts_at_the_last_checkpoint_that_suits(suits_to: int, starts_at: int) -> None:
    log = await a_log(4 * CHECKPOINT_ENTRIES)
    view = view_of(log)
    await view.open(at_most=CHECKPOINT_ENTRIES + 1, suits=lambda state: state.entry <= suits_to)
    assert view.state.entry == starts_at


async def test_a_checkpoint_under_the_name_of_another_is_passed_over() -> None:
    log = await a_log(2 * CHECKPOINT_ENTRIES + 1)
    later = (await log.store.get(log.paths.checkpoint(2 * CHECKPOINT_ENTRIES))).data
    await log.store.put(log.paths.checkpoint(CHECKPOINT_ENTRIES), later, mode=Put.REPLACE)
    view = view_of(log)
    await view.open(at_most=CHECKPOINT_ENTRIES)
    assert view.state.entry == 0


async def test_a_long_log_is_read_to_its_end_page_by_page_and_up_to_where_it_is_asked() -> None:
    log = await a_log(200)
    view = view_of(log)
    await view.open(at_most=0)
    await view.catch_up(until=7, expect_many=True)
    assert view.state.entry == 7
    view = view_of(log)
    await view.open(at_most=0)
    await view.catch_up(expect_many=True)
    assert view.state == log.state


class Counted(StoreWrapper):
    """Notes what is asked for, and does something else once, before the answer to one of these requests comes."""

    def __init__(self, inner: ObjectStore) -> None:
        super().__init__(inner)
        self.asked: list[str] = []
        self.between: tuple[str, Callable[[], Awaitable[object]]] | None = None

    async def _around(self, call: StoreCall, run: Callable[[], Awaitable[T]]) -> T:
        self.asked.append(call.key)
        try:
            return await run()
        finally:
            if self.between is not None and call.key == self.between[0]:
                (_, between), self.between = self.between, None
                await between()


async def test_entries_that_should_be_there_are_fetched_side_by_side_and_the_next_one_alone() -> None:
    log = await a_log(20)
    store = Counted(log.store)
    view = View(store, log.paths, log.runtime)
    await view.open()
    await view.catch_up()
    for _ in range(5):
        await log.send({0: 1})
    log.clock.advance(seconds=1)
    store.asked.clear()
    for _ in range(5):
        assert await view.step()
    assert len(store.asked) == len(set(store.asked)), "each is asked for once"
    assert set(store.asked[:5]) == {log.paths.entry(number) for number in range(21, 26)}
    log.clock.now_ms = view.rhythm._last_ms + int(1.5 * view.rhythm._interval_ms) + 30
    assert view.rhythm.expected(log.clock.wall_ms()) == 1
    store.asked.clear()
    assert not await view.step()
    assert len(store.asked) == 1
    store.asked.clear()
    await view.catch_up()
    assert len(store.asked) == 1


async def test_an_absent_entry_that_another_task_has_folded_meanwhile_is_no_end() -> None:
    log = await a_log(5)
    store = Counted(log.store)
    view = View(store, log.paths, log.runtime)
    await view.open()
    await view.catch_up()

    async def another_task() -> None:
        await log.send({0: 1})
        await view.take(6, (await log.store.get(log.paths.entry(6))).data)

    store.between = log.paths.entry(6), another_task
    assert await view.step()
    assert view.state == log.state


async def test_a_way_around_damage_that_another_task_has_passed_meanwhile_does_not_lead_back() -> None:
    log = await a_log(8)
    store, jumps = Counted(log.store), list[int]()
    view = View(store, log.paths, log.runtime)
    view.on_jump = lambda state: jumps.append(state.entry)
    entries = [(await log.store.get(log.paths.entry(number))).data for number in range(1, 9)]

    async def another_task() -> None:
        for number, data in enumerate(entries, 1):
            await view.take(number, data)

    await view.open()
    store.between = log.paths.checkpoints, another_task
    await view.take(1, b"damaged on its way")
    assert view.state == log.state
    assert jumps == []


def test_a_floor_that_somebody_changed_is_damage() -> None:
    sealed = encode_floor(64, write_id="w")
    assert decode_floor(sealed, where="it") == 64
    with pytest.raises(DataDamaged, match="another digest"):
        decode_floor(sealed.replace(b"64", b"65"), where="it")


async def test_folding_the_same_bytes_twice_does_nothing() -> None:
    log, seen = await a_log(3), list[FoldedEntry]()
    view = view_of(log)
    view.on_fold = lambda folded, _: seen.append(folded)
    await view.open()
    data = (await log.store.get(log.paths.entry(1))).data
    await view.take(1, data)
    await view.take(1, data)
    assert len(seen) == 1
    with pytest.raises(ObjectMissing):
        await log.store.get(log.paths.floor)


@pytest.mark.parametrize("number", [1, 3])
async def test_what_is_not_the_next_entry_is_not_folded(number: int) -> None:
    log, asked = await a_log(3), list[str]()

    def plan(_: int, __: str, key: str) -> Fault | None:
        asked.append(key)
        return None

    view = View(FaultStore(log.store, plan), log.paths, log.runtime)
    await view.step()
    before, seen = view.state, list[FoldedEntry]()
    view.on_fold = lambda folded, _: seen.append(folded)
    asked.clear()
    await view.take(number, (await log.store.get(log.paths.entry(number))).data)
    assert view.state is before
    assert (seen, asked) == ([], []), "nor is it taken for damage"
