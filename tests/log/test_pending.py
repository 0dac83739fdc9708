"""What an entry, a jump over entries and the end of patience prove about a send. Wrong here is lost or doubled messages."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from penstock.log.append.in_flight import (
    AppendResult,
    OpeningResult,
    PendingAppend,
    after_fold,
    after_jump,
    at_deadline,
    before_any,
    is_expired,
)
from penstock.log.errors import FencedError, NotWritten, TopicDeleted, UnknownOutcome
from penstock.log.format.fold import fold
from penstock.log.format.header import Batch, CloseJob, Created, Deleted, Epoch, Opening, Part
from penstock.log.format.state import TopicState
from penstock.log.topic.producer_name import is_spent
from tests.log.test_fold import batch, header_on, idle, opened, step, topic


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def sent(loop: asyncio.AbstractEventLoop, one: Batch | None = None, *, exposed_until: int = 99, **parts: Any) -> PendingAppend:
    return PendingAppend(0.0, loop.create_future(), one, exposed_until=exposed_until, **parts)


def test_the_entry_that_brings_a_batch_acknowledges_it_whoever_wrote_it(loop: asyncio.AbstractEventLoop) -> None:
    folded = step(topic(), batches=[batch("other", rows={1: 2}), batch(rows={1: 1})])
    outcome = after_fold(sent(loop, batch(rows={1: 1})), folded)
    assert outcome == AppendResult(folded.number, folded.store_time_ms, {1: 2})


def test_another_entry_says_nothing(loop: asyncio.AbstractEventLoop) -> None:
    assert after_fold(sent(loop, batch(rows={1: 1})), step(topic(), batches=[batch("other")])) is None


def test_a_void_copy_is_no_acknowledgement(loop: asyncio.AbstractEventLoop) -> None:
    folded = step(topic(), batches=[batch(generation=3)])
    assert after_fold(sent(loop, batch()), folded) is None


def test_a_later_opening_fences(loop: asyncio.AbstractEventLoop) -> None:
    first = opened(topic())
    mine = batch("n", named=True, epoch=first.epochs[0])
    assert isinstance(after_fold(sent(loop, mine), opened(first.state, write_id="x")), FencedError)


def test_an_opener_knows_its_own_opening_among_others_of_the_name(loop: asyncio.AbstractEventLoop) -> None:
    mine = Opening("n", "mine", 1, 99)
    folded = step(topic(), openings=[Opening("n", "other", 1, 99), mine, Opening("n", "third", 1, 99)])
    assert after_fold(sent(loop, opening=mine), folded) == OpeningResult(Epoch(folded.number, 1), -1)
    assert after_fold(sent(loop, opening=replace(mine, write_id="absent")), folded) is None


def test_an_opening_that_an_earlier_append_got_into_the_log_is_known_by_the_state(loop: asyncio.AbstractEventLoop) -> None:
    mine = Opening("n", "mine", 1, 99)
    folded = step(step(topic(), openings=[mine]).state)
    expected = OpeningResult(Epoch(folded.number - 1, 0), -1)
    assert before_any(sent(loop, opening=mine, exposed_until=0), folded.state) == expected
    assert after_jump(sent(loop, opening=mine), folded.state) == expected
    assert before_any(sent(loop, opening=replace(mine, write_id="absent")), folded.state) is None


@pytest.mark.parametrize("others", [[Opening("n", "x", 1, 99)], [Opening("other", "x", 1, 99)]])
def test_no_two_openings_take_one_epoch_from_the_state(loop: asyncio.AbstractEventLoop, others: list[Opening]) -> None:
    mine = Opening("n", "mine", 1, 99)
    for openings in ([mine, *others], [*others, mine]):
        state = step(topic(), openings=openings).state
        assert before_any(sent(loop, opening=mine, exposed_until=0), state) is None
        assert is_spent(mine, state)
    assert not is_spent(mine, topic())


def test_an_opening_that_a_later_one_fenced_is_spent(loop: asyncio.AbstractEventLoop) -> None:
    mine = Opening("n", "mine", 1, 99)
    state = step(step(topic(), openings=[mine]).state, openings=[Opening("n", "x", 1, 99)]).state
    assert before_any(sent(loop, opening=mine, exposed_until=0), state) is None
    assert isinstance(after_jump(sent(loop, opening=mine), state), UnknownOutcome)
    assert is_spent(mine, state)


def test_actions_are_written_when_their_entry_is(loop: asyncio.AbstractEventLoop) -> None:
    folded = step(topic(), actions=[CloseJob("j")])
    mine = sent(loop, actions=(CloseJob("j"),), write_ids={folded.header.write_id})
    assert isinstance(after_fold(mine, folded), AppendResult)
    assert after_fold(sent(loop, actions=(CloseJob("j"),)), folded) is None


@pytest.mark.parametrize("again", [False, True])
def test_a_deleted_topic_ends_what_is_pending_even_when_its_successor_lives(loop: asyncio.AbstractEventLoop, again: bool) -> None:
    gone = step(topic(), actions=[Deleted("life-1"), *([Created("life-2", 2, "life-1")] if again else [])])
    assert isinstance(after_fold(sent(loop, batch()), gone), TopicDeleted)
    assert isinstance(after_fold(sent(loop, opening=Opening("n", "w", 1, 99)), gone), TopicDeleted)


def test_a_job_that_was_given_up_is_not_linked_any_more(loop: asyncio.AbstractEventLoop) -> None:
    link = batch(parts=(Part("staged/k", 0, {0: 1}, 1, "d"),), job="j")
    assert isinstance(after_fold(sent(loop, link), step(topic(), actions=[CloseJob("j")])), NotWritten)


@pytest.mark.parametrize("exposed_until", [0, 99])
def test_a_job_that_was_given_up_ends_its_batch_after_a_jump_too(loop: asyncio.AbstractEventLoop, exposed_until: int) -> None:
    """Whether the batch never left this process, or a row proves that it is not written yet."""
    before = step(topic(), batches=[batch(rows={0: 3})]).state
    link = batch(previous=2, parts=(Part("staged/k", 0, {0: 1}, 1, "d"),), job="j")
    assert after_jump(sent(loop, link, exposed_until=exposed_until), before) is None
    closed = step(before, actions=[CloseJob("j")]).state
    assert isinstance(after_jump(sent(loop, link, exposed_until=exposed_until), closed), NotWritten)


def test_a_name_that_leaves_the_state_ends_what_is_pending(loop: asyncio.AbstractEventLoop) -> None:
    """It does not poll until its deadline: whoever opens the name again has another epoch."""
    mine = batch("n", named=True, epoch=opened(topic()).epochs[0])
    outcome = after_fold(sent(loop, mine), step(topic(), batches=[batch("other")]))
    assert isinstance(outcome, NotWritten)
    assert "left the state" in outcome.message


def test_another_generation_is_not_said_to_be_a_deletion_only(loop: asyncio.AbstractEventLoop) -> None:
    """A repair that had to guess raises it too."""
    outcome = after_jump(sent(loop, batch(generation=0), exposed_until=0), topic())
    assert isinstance(outcome, TopicDeleted)
    assert "or a repair of its log" in outcome.message


# ----------------------------------------------------------------------------------------------- after a jump over entries


def jumped(state: TopicState) -> TopicState:
    return idle(state, 5)


def test_a_row_of_the_same_epoch_proves_that_a_batch_is_written(loop: asyncio.AbstractEventLoop) -> None:
    state = step(topic(), batches=[batch(rows={0: 3})]).state
    assert after_jump(sent(loop, batch(rows={0: 3})), jumped(state)) == AppendResult(state.entry, state.store_time_ms, None)


def test_a_row_that_stands_before_the_batch_proves_that_it_is_not_written_yet(loop: asyncio.AbstractEventLoop) -> None:
    state = step(topic(), batches=[batch(rows={0: 3})]).state
    assert after_jump(sent(loop, batch(previous=2)), jumped(state)) is None


def test_without_a_row_nothing_is_proved(loop: asyncio.AbstractEventLoop) -> None:
    """Not written concluded here would let the application send again what the entries passed over may have brought."""
    assert isinstance(after_jump(sent(loop, batch()), jumped(topic())), UnknownOutcome)


@pytest.mark.parametrize("last", [0, 5])
def test_a_row_of_another_epoch_proves_nothing(loop: asyncio.AbstractEventLoop, last: int) -> None:
    """The new epoch's row may stand at or behind the old one's sequences, for messages of its own."""
    first = opened(topic())
    second = opened(first.state, write_id="x")
    newer = batch("n", named=True, epoch=second.epochs[0], last=last)
    state = step(second.state, batches=[newer]).state
    mine = batch("n", named=True, epoch=first.epochs[0])
    assert isinstance(after_jump(sent(loop, mine), state), UnknownOutcome)


def test_openings_and_actions_are_unknown_after_a_jump(loop: asyncio.AbstractEventLoop) -> None:
    assert isinstance(after_jump(sent(loop, opening=Opening("n", "w", 1, 99)), topic()), UnknownOutcome)
    assert isinstance(after_jump(sent(loop, actions=(CloseJob("j"),)), topic()), UnknownOutcome)


def test_what_has_not_left_this_process_is_not_touched_by_a_jump(loop: asyncio.AbstractEventLoop) -> None:
    """A producer that idled while the log was trimmed loses nothing."""
    assert after_jump(sent(loop, batch(), exposed_until=0), topic()) is None
    assert isinstance(after_jump(sent(loop, batch(generation=0), exposed_until=0), topic()), TopicDeleted)


def test_what_was_fenced_meanwhile_ends_with_the_jump_and_does_not_wait_for_its_deadline(loop: asyncio.AbstractEventLoop) -> None:
    first = opened(topic())
    mine = batch("n", named=True, epoch=first.epochs[0])
    assert isinstance(after_jump(sent(loop, mine, exposed_until=0), opened(first.state, write_id="x").state), FencedError)


# ------------------------------------------------------------------------------------------------------------ deadlines


def test_not_written_needs_every_entry_that_could_bring_it(loop: asyncio.AbstractEventLoop) -> None:
    state = topic()
    assert isinstance(at_deadline(sent(loop, batch(), exposed_until=state.entry), state), NotWritten)
    assert isinstance(at_deadline(sent(loop, batch(), exposed_until=state.entry + 1), state), UnknownOutcome)


def test_validity_is_renewed_only_when_no_entry_can_bring_it(loop: asyncio.AbstractEventLoop) -> None:
    state = topic()
    one = sent(loop, batch())
    one.valid_from(state.entry)
    assert not is_expired(one, idle(state, 63))
    assert is_expired(one, idle(state, 64))
    one.handed_tail, one.passed_over = 3, 2
    one.valid_from(100)
    assert one.valid_until == 164
    assert one.handed_tail is None
    assert one.passed_over == 0


def test_the_first_outcome_stays(loop: asyncio.AbstractEventLoop) -> None:
    one = sent(loop, batch())
    one.settle(NotWritten("first"))
    one.settle(AppendResult(1, 1, {}))
    assert isinstance(one.future.result(), NotWritten)
    assert fold(topic(), header_on(topic())).verdicts == ()
