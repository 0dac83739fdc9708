"""What is taken of a damaged log: the state that a repair makes up, and what of the entries around it is known for certain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from penstock.log.errors import ViewLost
from penstock.log.format.checkpoint import decode_checkpoint, encode_checkpoint
from penstock.log.format.fold import bases_of, fold
from penstock.log.format.header import Action, Batch, CloseJob, Created, Deleted, Epoch, Grown, Header, Opening
from penstock.log.format.state import TopicState, row_sum
from penstock.log.limits import CHECKPOINT_ENTRIES, ENTRY_ROWS_MAX, NUMBER_MAX, QUEUES_MAX
from penstock.log.repair import repaired_state
from penstock.log.stores.protocol import Put
from penstock.log.tail.salvage import SalvagedEntry, all_accepted, fold_known, lost_between, read_remains
from penstock.log.tail.view import View
from tests.log.test_view import a_log, trim

START_MS = 1_750_000_000_000


def header(entry: int, *, on: TopicState | None = None, bases: Mapping[int, int] | None = None, **parts: Any) -> Header:
    """One that folds, on a state, or one behind lost entries, which says itself where its queues are."""
    batches = tuple(parts.get("batches", ()))
    return Header(
        entry=entry,
        write_id=f"w{entry}",
        append_time_ms=START_MS + entry,
        state_digest=on.digest if on else "?",
        bases=bases_of(on, batches) if on else bases or {},
        actions=tuple(parts.get("actions", ())),
        openings=tuple(parts.get("openings", ())),
        batches=batches,
    )


def batch(producer: str = "p", rows: Mapping[int, int] | None = None, **changes: Any) -> Batch:
    return replace(Batch(producer, False, None, -1, 0, 1, rows or {0: 1}, 10**6), **changes)


def remains(of: Header) -> SalvagedEntry:
    return SalvagedEntry(of, b"", rows_readable=True)


def created(queues: int = 2) -> Header:
    return header(1, on=TopicState(), actions=[Created("life-1", queues)])


def repaired(before: TopicState, *found: Header | None) -> tuple[TopicState, bool]:
    entries = {before.entry + place: remains(one) if one else None for place, one in enumerate(found, 1)}
    state, exact = repaired_state(before, entries, now_ms=START_MS + 50)
    assert (state.entry, state.sum) == (before.entry + len(found) + 1, row_sum(state))
    return state, exact


def test_footers_that_are_whole_tell_the_state_exactly() -> None:
    first = created()
    begun = fold(TopicState(), first).state
    second = header(2, on=begun, batches=[batch(rows={0: 2, 1: 3}, last=4)])
    state, exact = repaired(TopicState(), first, second)
    assert exact
    after = fold(begun, second).state
    assert state == replace(after, entry=3, store_time_ms=START_MS + 50, sum=state.sum)


def test_what_was_folded_exactly_is_not_taken_again_at_its_word() -> None:
    """Else the topic's creation would empty its queues once more, and a batch that was void would count."""
    first = created()
    begun = fold(TopicState(), first).state
    second = header(2, on=begun, batches=[batch(), batch("late", generation=7)])
    state, exact = repaired(TopicState(), first, second, None)
    assert not exact
    assert state.generation == 2
    assert set(state.unnamed) == {"p"}
    assert state.next_offsets == (ENTRY_ROWS_MAX + 1, ENTRY_ROWS_MAX)


@pytest.mark.parametrize(("queues", "there"), [(0, 0), (1, 1), (QUEUES_MAX, QUEUES_MAX), (QUEUES_MAX + 1, 0)])
def test_behind_a_lost_entry_a_creation_counts_if_it_can_be(queues: int, there: int) -> None:
    state, _ = repaired(TopicState(), None, header(2, actions=[Created("life-1", queues)]))
    assert (state.alive, state.queues, state.created_entry) == (there > 0, there, 2 if there else 0)
    assert state.next_offsets == (0,) * there


def test_behind_a_lost_entry_a_deletion_ends_the_topic() -> None:
    begun = fold(TopicState(), created()).state
    assert not repaired(begun, None, header(3, actions=[Deleted("life-1")]))[0].alive


def test_behind_a_lost_entry_queues_are_where_a_base_says_but_no_further_than_they_can() -> None:
    begun = fold(TopicState(), created(3)).state
    told = header(3, bases={0: 4, 1: 10**12}, batches=[batch(rows={0: 5, 1: 1}, last=5)])
    state, exact = repaired(begun, None, told)
    assert not exact
    assert state.next_offsets == (9, 2 * ENTRY_ROWS_MAX, ENTRY_ROWS_MAX)


@pytest.mark.parametrize(("queue", "queues"), [(QUEUES_MAX - 1, QUEUES_MAX), (QUEUES_MAX, 0), (NUMBER_MAX, 0)])
def test_a_base_of_a_queue_that_cannot_be_is_passed_over(queue: int, queues: int) -> None:
    state, _ = repaired(TopicState(), None, header(2, bases={queue: 1}))
    assert state.queues == queues


def test_behind_a_lost_entry_all_that_producers_sent_counts() -> None:
    begun = fold(TopicState(), created()).state
    known = header(2, on=begun, openings=[Opening("n", "w", 1, 99, 40)], batches=[batch("p", last=7)])
    before = fold(begun, known).state
    parts: dict[str, Any] = {
        "openings": [Opening("n", "again", 1, 99, 3), Opening("new", "first", 1, 99, 12)],
        "batches": [
            batch("p", previous=3, last=5),
            batch("q", last=9, job="linked", generation=4),
            batch("m", named=True, epoch=Epoch(1, 0), last=2, job="again"),
        ],
    }
    actions: tuple[Action, ...] = (CloseJob("closed"),)
    told = header(4, bases={0: 1}, actions=actions, **parts)
    state, _ = repaired(before, None, told)
    assert {name: row.last for name, row in state.unnamed.items()} == {"p": 7, "q": 9}
    assert {name: row.last for name, row in state.named.items()} == {"n": 40, "new": 12, "m": 2}
    assert [row.epoch for row in state.named.values()] == [Epoch(5, n) for n in range(3)]
    assert state.closed_jobs == {"linked": 4, "again": 4, "closed": 4}
    assert set(state.openings) == {"w", "again", "first"}
    assert state.generation == 5


@pytest.mark.parametrize("stands_at", [10, CHECKPOINT_ENTRIES - 1])
async def test_a_log_that_was_trimmed_is_not_taken_for_a_damaged_one(stands_at: int) -> None:
    log = await a_log(CHECKPOINT_ENTRIES)
    view = View(log.store, log.paths, log.runtime)
    await view.open(at_most=stands_at)
    for number in range(1, stands_at + 1):
        await view.take(number, (await log.store.get(log.paths.entry(number))).data)
    await trim(log, CHECKPOINT_ENTRIES)
    with pytest.raises(ViewLost, match="trimmed past"):
        await fold_known(view, log.store, log.paths, CHECKPOINT_ENTRIES)
    assert view.state.entry == stands_at


def test_what_was_given_out_and_is_in_no_entry_is_lost() -> None:
    before = fold(TopicState(), created()).state
    first = fold(before, header(2, on=before, batches=[batch(rows={0: 2}, last=1)]))
    gap = replace(first.state, next_offsets=(7, 0), entry=4)
    second = fold(gap, header(5, on=gap, batches=[batch("q", rows={0: 1})]))
    after = replace(second.state, next_offsets=(10, 4))
    assert lost_between(before, after, [first, second]) == ((0, 2, 7), (0, 8, 10), (1, 0, 4))
    assert lost_between(before, first.state, [first]) == ()
    assert lost_between(first.state, after, [second]) == ((0, 2, 7), (0, 8, 10), (1, 0, 4))
    assert lost_between(first.state, replace(after, incarnation="life-2", next_offsets=(1,)), []) == ((0, 0, 1),)
    assert lost_between(TopicState(incarnation="life-1"), replace(after, next_offsets=(0, 1)), []) == ((1, 0, 1),)


@pytest.mark.parametrize(
    ("told", "following", "ends", "certain"),
    [
        (header(5, bases={0: 4}, batches=[batch(rows={0: 2}, last=1)]), [], (6,), True),
        (header(5, bases={0: 4}, batches=[batch(rows={0: 2}, last=1)]), [], (7,), False),
        (header(5, bases={0: 4}, batches=[batch(rows={0: 2}, last=1)]), [header(6, bases={0: 6})], (9,), True),
        (header(5, bases={0: 4}, batches=[batch(rows={0: 2}, last=1)]), [header(6, bases={1: 6})], (9,), False),
        (header(5, bases={1: 4}, batches=[batch(rows={1: 1})]), [], (9,), False),
        (header(5, bases={0: 4}, batches=[batch(rows={0: 1, 1: 1}, last=1)]), [], (5, 1), False),
        (header(5, bases={0: 4}, batches=[batch(rows={0: 1}, previous=-2)]), [], (5,), False),
    ],
)
def test_batches_certainly_counted_when_every_queue_moved_by_all_their_rows(
    told: Header, following: list[Header], ends: tuple[int, ...], certain: bool
) -> None:
    assert all_accepted(told, following, ends) is certain


@pytest.mark.parametrize("break_rows", [False, True])
async def test_an_entry_under_the_name_of_another_is_not_that_one(break_rows: bool) -> None:
    log = await a_log(3)
    data = bytearray((await log.store.get(log.paths.entry(3))).data)
    data[40] ^= break_rows
    for number in (3, 9):
        await log.store.put(log.paths.entry(number), bytes(data), mode=Put.REPLACE)
    found = await read_remains(log.store, log.paths, 3)
    assert found is not None
    assert (found.header.entry, found.rows_readable) == (3, not break_rows)
    assert await read_remains(log.store, log.paths, 9) is None


def test_a_growth_before_damage_and_one_that_is_lost_leave_marks_that_can_be_reached() -> None:
    begun = fold(TopicState(), created()).state
    grown = header(3, actions=[Grown(1, 4)])
    behind = header(5, bases={0: 9, 6: 0}, batches=[batch(rows={0: 1, 6: 2}, generation=3, last=2)])
    state, exact = repaired(begun, None, grown, None, behind)
    assert not exact
    assert state.queues == 8  # one of the lost entries made them, as a later one touches queue 6
    assert [len(growth.marks) for growth in state.growths] == [2, 4]
    assert state.growths[0].marks == (10, ENTRY_ROWS_MAX)
    assert state.next_offsets[0] == 10
    assert decode_checkpoint(encode_checkpoint(state), where="checkpoint") == state
