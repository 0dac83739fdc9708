"""Idempotent producers before the judge: what counts, what is void, how long they are known, and who can read it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from penstock.log.errors import NewerFormatError
from penstock.log.format import idempotence
from penstock.log.format.checkpoint import decode_checkpoint, encode_checkpoint
from penstock.log.format.fold import VoidReason, fold
from penstock.log.format.handover import HandOver, prepare, read_handed
from penstock.log.format.header import Batch, Created, Deleted, Header, Repair, decode_header, encode_header
from penstock.log.format.idempotence import COUNTER_MAX, SEQUENCES, IdempotentRow, Standing, number_of, standing
from penstock.log.format.state import TopicState, row_sum, state_form
from penstock.log.format.stored_json import parse_stored
from penstock.log.limits import (
    FORMAT_BASIC,
    FORMAT_EXTENDED,
    FORMAT_IDEMPOTENT,
    FORMATS_OF_LOGS,
    IDEMPOTENT_APPEND_MAX_S,
    IDEMPOTENT_ROW_ENTRIES,
    IDEMPOTENT_ROW_MS,
    IDEMPOTENT_STEP_MAX_MS,
    VALIDITY_ENTRIES,
)
from penstock.log.paths import TopicPaths
from penstock.log.repair import repaired_state
from penstock.log.stores.memory import MemoryStore
from penstock.log.stores.protocol import Put
from penstock.log.tail.salvage import SalvagedEntry
from tests.log.strategies import rows_of
from tests.log.test_fold import DAY_MS, START_MS, batch, header_on, step, topic

PATHS = TopicPaths.of("orders")
EPOCH = 1 << 40


def sent(
    first: int = 0, count: int = 1, *, epoch: int = 0, producer: str = "7", queue: int = 0, begins: bool = True, **more: Any
) -> Batch:
    return batch(producer, epoch * EPOCH + first, {queue: count}, begins=begins, **more)


def known(state: TopicState, producer: str = "7", queue: int = 0) -> tuple[int, int] | None:
    row = state.idempotent.get((producer, queue))
    return None if row is None else (row.first, row.last)


def after(*batches: Batch) -> TopicState:
    return step(topic(), batches=batches).state


# ------------------------------------------------------------------------------------------------------------------ verdicts


def test_a_batch_counts_once_and_behind_the_one_before() -> None:
    folded = step(topic(), batches=[sent(0, 3), sent(0, 3), sent(5, 2), sent(3, 2), sent(3, 2)])
    assert folded.verdicts == ({0: 0}, VoidReason.PREVIOUS, VoidReason.PREVIOUS, {0: 3}, VoidReason.PREVIOUS)
    assert known(folded.state) == (0, 5)


def test_each_queue_is_counted_by_itself_and_each_producer() -> None:
    folded = step(topic(), batches=[sent(0, 3), sent(9, 1, queue=1), sent(4, 1, producer="8")])
    assert folded.verdicts == ({0: 0}, {1: 0}, {0: 3})


def test_an_unknown_producer_begins_anywhere_but_not_behind_a_batch_that_is_on_its_way() -> None:
    assert step(topic(), batches=[sent(41)]).verdicts == ({0: 0},)
    assert step(topic(), batches=[sent(41, begins=False)]).verdicts == (VoidReason.PREVIOUS,)
    assert step(topic(), batches=[sent(41), sent(42, begins=False)]).verdicts == ({0: 0}, {0: 1})


def test_a_later_epoch_begins_at_0_and_fences_the_earlier_one() -> None:
    state = after(sent(0, 3))
    folded = step(state, batches=[sent(1, epoch=1), sent(0, epoch=1), sent(3), sent(0, epoch=0), sent(1, epoch=1)])
    assert folded.verdicts == (VoidReason.PREVIOUS, {0: 3}, VoidReason.FENCED, VoidReason.FENCED, {0: 4})
    assert known(folded.state) == (EPOCH, EPOCH + 2)


@pytest.mark.parametrize(
    "bad",
    [
        sent(0, 2, last=3),
        sent(0, 2, last=1),
        batch("7", 0, {0: 1, 1: 1}, begins=True),
        sent(-1),
        sent(COUNTER_MAX, 1),
        sent(0, named=True),
    ],
)
def test_what_is_not_numbered_densely_in_one_queue_and_epoch_is_malformed(bad: Batch) -> None:
    folded = step(topic(), batches=[bad])
    assert folded.verdicts == (VoidReason.MALFORMED,)
    assert not folded.state.idempotent


def test_it_leaves_other_producers_of_its_id_alone() -> None:
    state = step(topic(), batches=[batch("7", rows={0: 4}), sent(0, 2)]).state
    assert (state.unnamed["7"].last, known(state)) == (3, (0, 2))


@pytest.mark.parametrize(
    ("row", "one", "expected"),
    [
        (None, sent(5), Standing.FOLLOWS),
        (None, sent(5, begins=False), Standing.GAP),
        ((2, 8), sent(8), Standing.FOLLOWS),
        ((2, 8), sent(9), Standing.GAP),
        ((2, 8), sent(2, 6), Standing.DUPLICATE),
        ((2, 8), sent(3, 2), Standing.DUPLICATE),
        ((2, 8), sent(1, 2), Standing.PASSED),
        ((2, 8), sent(7, 2), Standing.PASSED),
        ((EPOCH, EPOCH + 2), sent(0, 1), Standing.FENCED),
        ((2, 8), sent(0, epoch=1), Standing.FOLLOWS),
        ((2, 8), sent(1, epoch=1), Standing.GAP),
        ((0, SEQUENCES + 5), sent(5), Standing.PASSED),
        ((0, SEQUENCES // 2 + 5), sent(5), Standing.DUPLICATE),
        ((0, SEQUENCES // 2 + 5), sent(4), Standing.PASSED),
    ],
)
def test_where_a_batch_stands(row: tuple[int, int] | None, one: Batch, expected: Standing) -> None:
    assert standing(None if row is None else IdempotentRow(*row, 1, 1), one) is expected


def test_only_what_was_counted_without_a_gap_is_known_to_be_there() -> None:
    """A producer that was forgotten goes on at 10: what it says to have sent before may never have come."""
    state = after(sent(10, 5))
    assert standing(state.idempotent["7", 0], sent(0, 10)) is Standing.PASSED
    state = step(state, batches=[sent(0, 4, epoch=2)]).state
    assert known(state) == (2 * EPOCH, 2 * EPOCH + 4)


@pytest.mark.parametrize(
    ("sequence", "near", "expected"),
    [
        (7, None, 7),
        (7, EPOCH + 99, 7),
        (7, 3, 7),
        (3, 7, 3),
        (1, SEQUENCES - 1, SEQUENCES + 1),
        (SEQUENCES - 1, SEQUENCES + 1, SEQUENCES - 1),
        (5, 3 * SEQUENCES + 5, 3 * SEQUENCES + 5),
        (SEQUENCES - 1, 2, SEQUENCES - 1),
    ],
)
def test_a_sequence_is_of_the_round_that_is_nearest(sequence: int, near: int | None, expected: int) -> None:
    assert number_of(0, sequence, near) == expected
    assert number_of(3, sequence, None if near is None else 3 * EPOCH + near) == 3 * EPOCH + (
        expected if near is None or near < EPOCH else 7
    )


def test_sequences_that_begin_again_follow_one_another() -> None:
    last = SEQUENCES - 2
    folded = step(topic(), batches=[sent(last, 4), sent(number_of(0, 2, last + 4), 1)])
    assert folded.verdicts == ({0: 0}, {0: 4})
    assert folded.state.idempotent["7", 0].last % SEQUENCES == 3


# ------------------------------------------------------------------------------------------------------------- rows' life


def aged(state: TopicState, entries: int, ms: int) -> TopicState:
    for _ in range(entries):
        state = step(state, time_ms=state.store_time_ms + ms).state
    return state


STEPS = IDEMPOTENT_ROW_MS // IDEMPOTENT_STEP_MAX_MS


def test_a_row_stays_for_15_minutes_of_store_time_however_many_entries_come() -> None:
    assert IDEMPOTENT_ROW_ENTRIES >= VALIDITY_ENTRIES
    assert STEPS > VALIDITY_ENTRIES
    state = aged(after(sent()), 900, 1000)
    assert known(state) == (0, 1)
    assert known(step(state, time_ms=state.store_time_ms + 1).state) is None


def test_an_entry_ages_rows_by_10_seconds_at_most() -> None:
    """So a retry on the day after a silence of days, or behind a clock that is off, meets its row."""
    state = aged(after(sent()), STEPS, DAY_MS)
    assert known(state) == (0, 1)
    assert known(aged(state, 1, 1)) is None
    assert 10 * DAY_MS // DAY_MS * IDEMPOTENT_STEP_MAX_MS + 2_000 * IDEMPOTENT_APPEND_MAX_S < IDEMPOTENT_ROW_MS


def test_use_keeps_a_row() -> None:
    state = aged(after(sent(), sent(producer="8")), STEPS - 1, DAY_MS)
    state = aged(step(state, batches=[sent(1)], time_ms=state.store_time_ms).state, 2, DAY_MS)
    assert (known(state), known(state, "8")) == ((0, 2), None)


def test_the_clock_of_rows_stands_at_0_where_there_are_none() -> None:
    """So what has no rows is stored as it ever was."""
    state = aged(topic(), 3, 5000)
    assert state.idempotent_ms == 0
    state = aged(step(state, batches=[sent()], time_ms=state.store_time_ms + 5000).state, 2, 5000)
    assert (state.idempotent["7", 0].time_ms, state.idempotent_ms) == (0, 10_000)
    assert state.digest != replace(state, idempotent_ms=9_000).digest
    state = aged(state, STEPS + 1, DAY_MS)
    assert (state.idempotent_ms, state.format, len(state.idempotent)) == (0, FORMAT_BASIC, 0)


def test_of_too_many_rows_the_longest_unused_leaves_but_none_whose_batches_may_still_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idempotence, "IDEMPOTENT_ROWS_MAX", 2)
    state = after(*(sent(producer=str(n)) for n in range(4)))
    state = step(state, batches=[sent(1, producer="0")], time_ms=state.store_time_ms).state
    state = aged(state, IDEMPOTENT_ROW_ENTRIES - 1, 1)
    assert [producer for producer, _ in state.idempotent] == ["1", "2", "3", "0"]
    assert step(state, batches=[sent(producer="1")]).verdicts == ({0: 5},)
    assert step(state, batches=[sent(producer="3")]).verdicts == (VoidReason.PREVIOUS,)
    state = aged(state, 1, 1)
    assert [producer for producer, _ in state.idempotent] == ["3", "0"]


def test_another_life_of_the_topic_knows_nobody() -> None:
    state = aged(after(sent(0, 3)), 2, 5000)
    again = step(state, actions=[Deleted("life-1"), Created("life-2", 1, "life-1")]).state
    assert (len(again.idempotent), again.idempotent_ms, again.sum) == (0, 0, row_sum(again))
    assert step(again, batches=[sent(8, generation=2)]).verdicts == ({0: 0},)


# -------------------------------------------------------------------------------------------------------------- as stored


def test_a_state_comes_back_with_its_rows_in_their_order() -> None:
    state = aged(after(sent(0, 3), sent(producer="8"), sent(2, queue=1)), 2, 5000)
    state = step(state, batches=[sent(3)]).state
    again = decode_checkpoint(encode_checkpoint(state), where="here")
    assert again == state
    assert [*again.idempotent.items()] == [*state.idempotent.items()]
    assert (again.digest, again.sum) == (state.digest, row_sum(state))


def test_what_has_idempotent_producers_is_not_read_by_who_does_not_know_them() -> None:
    state = after(sent())
    repair = Header(9, "w", 1, "d", {}, (Repair(state_form(state), 1, 1),))
    for stated in (state.format, header_on(topic(), batches=[sent()]).format, repair.format):
        assert stated == FORMAT_IDEMPOTENT
    assert header_on(state).format == header_on(topic(), batches=[batch(extended=True)]).format - 1 == FORMAT_BASIC
    earlier = (FORMAT_BASIC, FORMAT_EXTENDED)
    assert set(FORMATS_OF_LOGS) > set(earlier)
    with pytest.raises(NewerFormatError, match=r"observed: format 4.*upgrade this process"):
        parse_stored(encode_header(repair), _Old, what="x", where="here", formats=earlier)


class _Old:
    """What an earlier version reads has none of the new fields."""

    format: int


def test_a_header_without_them_is_written_as_before() -> None:
    text = encode_header(header_on(topic(), batches=[batch()]))
    assert '"i":' not in text
    assert "idempotent" not in encode_checkpoint(topic()).decode()
    told = encode_header(header_on(topic(), batches=[sent(begins=False), sent(begins=True)]))
    assert [one.begins for one in decode_header(told, where="here").batches] == [False, True]


@pytest.mark.parametrize("long", [False, True])
def test_they_are_handed_over_with_all_that_the_fold_asks(long: bool) -> None:
    mine = [sent(0, 2, valid_until=5 + VALIDITY_ENTRIES), sent(2, 1, begins=False, valid_until=5 + VALIDITY_ENTRIES)]
    mine += [batch(f"p{n}", valid_until=5 + VALIDITY_ENTRIES) for n in range(40 if long else 1)]
    over = prepare(PATHS, tail=5, write_id=f"{1:032x}", openings=(), batches=[(one, rows_of(dict(one.rows))) for one in mine])

    async def listed() -> HandOver | None:
        store = MemoryStore()
        await store.put(over.handed.key, over.data, mode=Put.CREATE)
        (info,) = await store.list(PATHS.handed)
        return await read_handed(store, PATHS, info)

    found = asyncio.run(listed())
    assert found is not None
    assert [replace(one, parts=()) for one in found.batches] == mine


# ---------------------------------------------------------------------------------------------------------------- repairs


def repaired(before: TopicState, *found: Header | None) -> TopicState:
    numbered = {
        before.entry + 1 + n: None if one is None else SalvagedEntry(one, b"", rows_readable=True) for n, one in enumerate(found)
    }
    return repaired_state(before, numbered, now_ms=START_MS)[0]


def test_behind_a_lost_entry_only_what_later_entries_say_is_a_duplicate() -> None:
    before = after(sent(0, 3))
    told = replace(header_on(before, batches=[sent(5, 2), sent(6, 9), batch("7", 0, {0: 1, 1: 1}, begins=True)]), entry=4)
    state = repaired(before, None, told)
    assert known(state) == (6, 15)
    assert known(repaired(before, None, replace(told, batches=(sent(3, 2),)))) == (0, 5)
    assert known(repaired(before, None, replace(told, batches=(sent(0, 2),)))) == (0, 3)
    assert fold(state, replace(header_on(state), state_digest=state.digest)).state.sum == state.sum


def test_behind_a_lost_entry_that_began_another_life_nobody_is_known() -> None:
    before = after(sent(0, 3))
    begun = replace(header_on(before), entry=4, actions=(Deleted("life-1"), Created("life-2", 2, "life-1")))
    assert known(repaired(before, None, begun)) is None
    assert known(repaired(before, None, replace(begun, actions=(), batches=(sent(0, 9, producer="8", generation=2),)))) is None
