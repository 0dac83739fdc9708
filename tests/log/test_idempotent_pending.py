"""What becomes of an idempotent producer's append: after entries, jumps and lost races, and what an entry is composed of."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from penstock.log.append.compose import compose, still_waits
from penstock.log.append.in_flight import (
    AppendResult,
    Duplicate,
    InFlightAppends,
    PendingAppend,
    after_fold,
    after_jump,
    before_any,
)
from penstock.log.errors import FencedError, NotWritten, SequenceError, TopicDeleted, UnknownOutcome
from penstock.log.format.handover import HandOver
from penstock.log.format.header import Batch, Created, Deleted, identity_of
from penstock.log.format.idempotence import SEQUENCES
from penstock.log.format.state import TopicState
from penstock.log.limits import VALIDITY_ENTRIES
from tests.log.strategies import rows_of
from tests.log.test_fold import START_MS, batch, idle, step, topic
from tests.log.test_idempotence import after, sent


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def pending(loop: asyncio.AbstractEventLoop, one: Batch, **parts: Any) -> PendingAppend:
    return PendingAppend(0.0, loop.create_future(), one, rows=rows_of(dict(one.rows)), **parts)


def kind(outcome: object) -> object:
    return None if outcome is None else type(outcome)


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (sent(5), None),
        (sent(2, 3), Duplicate),
        (sent(0, 2), SequenceError),
        (sent(4, 2), SequenceError),
        (sent(6), None),
        (sent(0, epoch=1), None),
        (sent(1, epoch=1), None),
        (sent(0, generation=2), TopicDeleted),
    ],
)
def test_an_append_that_nothing_can_have_brought_is_judged_at_once(
    loop: asyncio.AbstractEventLoop, one: Batch, expected: object
) -> None:
    assert kind(before_any(pending(loop, one), after(sent(2, 3)))) is expected


def test_a_later_epoch_fences_it(loop: asyncio.AbstractEventLoop) -> None:
    state = after(sent(0, epoch=1))
    assert kind(before_any(pending(loop, sent(0)), state)) is FencedError
    folded = step(topic(), batches=[sent(0, epoch=1)])
    assert kind(after_fold(pending(loop, sent(0), exposed_until=99), folded)) is FencedError


def test_a_copy_that_another_process_brought_acknowledges_it(loop: asyncio.AbstractEventLoop) -> None:
    """The client had no answer here, and sent it again there: it counts once, and both are told where."""
    folded = step(topic(), batches=[sent(0, 3, begins=False), sent(0, 3)])
    assert after_fold(pending(loop, sent(0, 3)), folded) == AppendResult(folded.number, folded.store_time_ms, {0: 0})


@pytest.mark.parametrize(
    "other", [sent(0, 3, queue=1), sent(0, 3, producer="8"), sent(0, 3, epoch=1), batch("7", 0, {0: 3}, last=3)]
)
def test_it_takes_no_other_batch_for_its_own(loop: asyncio.AbstractEventLoop, other: Batch) -> None:
    assert identity_of(sent(0, 3)) == identity_of(sent(0, 3, begins=False)) != identity_of(other)


def test_in_another_life_of_the_topic_its_numbers_are_another_s(loop: asyncio.AbstractEventLoop) -> None:
    """The client has begun anew there, with the same producer id."""
    parts: dict[str, Any] = {"actions": [Deleted("life-1"), Created("life-2", 1, "life-1")], "batches": [sent(0, 3, generation=2)]}
    folded = step(after(sent(0, 3)), **parts)
    mine = pending(loop, sent(0, 3), exposed_until=99)
    assert kind(after_fold(mine, folded)) is TopicDeleted
    assert kind(after_jump(mine, folded.state)) is UnknownOutcome


def test_after_a_lost_race_it_is_judged_by_the_new_state(loop: asyncio.AbstractEventLoop) -> None:
    """What stands there is not this batch, but has all of its records; or some; or others."""
    folded = step(topic(), batches=[sent(0, 3), sent(3, 3)])
    mine = [pending(loop, one, exposed_until=99) for one in (sent(1, 2), sent(5, 2), sent(6), sent(8))]
    found = [kind(after_fold(one, folded)) for one in mine]
    assert found == [Duplicate, SequenceError, None, None], "what is missing before the last one may still come"


def test_only_a_look_tells_what_is_missing(loop: asyncio.AbstractEventLoop) -> None:
    """Entries that this process has not read may have it. What is on its way may still be brought behind that."""
    state, appends = after(sent(0, 3)), InFlightAppends()
    gap, behind, late, next_ = (pending(loop, one) for one in (sent(5, 2), sent(7), sent(5, 2), sent(3, queue=1)))
    out = pending(loop, sent(8, producer="8", begins=False), exposed_until=99)
    for one in (gap, behind, out, next_, late):
        appends.add(one)
    assert appends.gaps(state) == [gap, late]
    appends.looked([gap, behind, out, next_], state)
    assert [one.done for one in (gap, behind, late, out, next_)] == [True, False, False, False, False]
    assert kind(gap.future.result()) is SequenceError
    assert appends.gaps(state) == [late], "it came during the look, and may be what is missing before the one behind"
    appends.looked([behind, out, next_, late], state)
    assert [one.done for one in (behind, late, out, next_)] == [True, True, False, False]
    assert not appends.gaps(state)
    out.exposed_until = state.entry
    assert appends.gaps(state) == [out]


def test_a_batch_that_was_numbered_before_its_round_was_known_is_numbered_anew(loop: asyncio.AbstractEventLoop) -> None:
    """Else the next batch would be taken for one of 2^31 records before."""
    folded = step(topic(), batches=[sent(SEQUENCES - 2, 7)])
    next_, again, out = (pending(loop, one) for one in (sent(5), sent(3, 2), sent(5)))
    out.exposed_until = folded.number + 1
    appends = InFlightAppends()
    for one in (next_, again, out):
        appends.add(one)
    appends.folded(folded)
    assert next_.batch is not None
    assert (next_.done, next_.batch.previous, next_.batch.last) == (False, SEQUENCES + 5, SEQUENCES + 6)
    assert kind(again.future.result()) is Duplicate
    assert out.batch is not None
    assert (out.done, out.batch.previous) == (False, 5)
    appends.folded(step(folded.state))
    assert out.batch.previous == SEQUENCES + 5


def test_one_behind_another_waits_for_it(loop: asyncio.AbstractEventLoop) -> None:
    state = topic()
    first = pending(loop, sent(0, 2))
    second = pending(loop, sent(2, begins=False))
    assert before_any(second, state) is None
    appends = InFlightAppends()
    appends.add(first)
    appends.add(second)
    appends.folded(step(state))
    assert not first.done
    appends.folded(step(state, batches=[sent(0, 2)]))
    assert first.done
    assert not second.done
    copy, first, second = (pending(loop, one) for one in (sent(0, 2), sent(0, 2), sent(2, begins=False)))
    appends = InFlightAppends()
    for one in (copy, first, second):
        appends.add(one)
    first.settle(NotWritten("in time"))
    assert not appends.gaps(state), "a copy of the first one may still bring it"
    copy.settle(NotWritten("in time"))
    assert appends.gaps(state) == [second]


@pytest.mark.parametrize(
    ("row", "once_out", "never_out"),
    [
        (None, UnknownOutcome, None),
        (sent(0, 5), None, None),
        (sent(0, 8), AppendResult, Duplicate),
        (sent(6, 2), UnknownOutcome, SequenceError),
        (sent(0, 6), UnknownOutcome, SequenceError),
        (sent(0, 4), UnknownOutcome, None),
        (sent(0, epoch=1), UnknownOutcome, FencedError),
    ],
)
def test_after_a_jump_only_a_row_that_has_all_or_stands_right_before_it_proves_anything(
    loop: asyncio.AbstractEventLoop, row: Batch | None, once_out: object, never_out: object
) -> None:
    state = topic() if row is None else after(row)
    assert kind(after_jump(pending(loop, sent(5, 3), exposed_until=99), state)) is once_out
    assert kind(after_jump(pending(loop, sent(5, 3)), state)) is never_out


# ----------------------------------------------------------------------------------------------------------- composition


def composed(state: TopicState, own: list[PendingAppend], *handed: HandOver) -> list[Batch]:
    waiting = {one.key: one for one in handed}
    return list(compose(state, own, waiting, write_id="w", now_ms=START_MS + 1000 * state.entry).header.batches)


def handed(tail: int, *batches: Batch) -> HandOver:
    return HandOver(tail, "k", (), tuple(replace(one, valid_until=tail + VALIDITY_ENTRIES) for one in batches))


def test_a_chain_goes_into_one_entry(loop: asyncio.AbstractEventLoop) -> None:
    chain = [pending(loop, sent(0, 2)), pending(loop, sent(2, begins=False)), pending(loop, sent(0, producer="8"))]
    assert composed(topic(), chain) == [one.batch for one in chain]


def test_nothing_of_a_chain_overtakes_what_is_too_large_for_the_entry(loop: asyncio.AbstractEventLoop) -> None:
    """The state knows nobody yet: only that it was formed behind another keeps the last one back."""
    full = pending(loop, sent(0, producer="8"), size_bytes=1000)
    chain = [pending(loop, sent(0, 2), size_bytes=2**20), pending(loop, sent(2, begins=False), size_bytes=1)]
    assert composed(topic(), [full, *chain]) == [full.batch]


def test_a_hand_over_waits_for_what_is_missing_before_it() -> None:
    state = topic()
    waits = handed(state.entry, sent(2, begins=False))
    assert composed(state, [], waits) == []
    assert still_waits(waits, state)
    assert still_waits(handed(state.entry, sent(9)), after(sent(0, 2)))
    assert not still_waits(waits, idle(state, VALIDITY_ENTRIES))
    assert not still_waits(waits, after(sent(0, 4)))
    assert not still_waits(waits, after(sent(0, epoch=1)))
    assert not still_waits(handed(state.entry, sent(0, 2, last=9)), state)
