"""Messages that a transaction settles: all at once or none, and what their queue's cell says of it afterwards."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from msgspec import structs

from penstock.consumers.schedule.receive_request import ReceiveRequest
from penstock.coordinator.groups.record import GroupSettings
from penstock.coordinator.queues.cell import MessageState, QueueCell
from penstock.coordinator.queues.codec import decode_cell, encode_cell
from penstock.coordinator.queues.invisibility import acknowledged, changed_invisible_duration, expired, returned, without_caught_up
from penstock.coordinator.queues.receipt_handle import ReceiptAhead, ReceiptExpired, ReceiptHandle, ReceiptOutdated, ReceiptRefused
from penstock.coordinator.transactions.members.acks import (
    ACKED_MAX,
    UNNOTED_MAX,
    AckedDelivery,
    SettledElsewhere,
    TooManyUnnoted,
    Verdict,
    acks_of,
    ended,
    settled_by,
    verdict,
)
from penstock.log.errors import InvalidArgument, LimitExceeded
from tests.consumers.test_receipts import HANDLE, handed_out, handle
from tests.thorough import thoroughly

TX, OTHER = "a" * 32, "b" * 32


def out(*groups: str | None, orderly: bool = True) -> tuple[QueueCell, list[ReceiptHandle]]:
    cell, _, messages = handed_out(*groups, orderly=orderly)
    return cell, [handle(one) for one in messages]


both = pytest.mark.parametrize("orderly", [True, False])


@both
def test_one_write_settles_all_of_them_and_says_by_whom(orderly: bool) -> None:
    cell, handles = out("a", "b", "a", orderly=orderly)
    assert verdict(cell, TX, acks_of(handles)) is Verdict.OPEN
    after = settled_by(cell, TX, handles[::-1], now_ms=5)  # in any order of calls
    assert after.transactions == {TX}
    assert not any(
        one.state is MessageState.OUT for one in (*after.tries.values(), *(marker.tries for marker in after.markers.values()))
    )
    assert verdict(after, TX, acks_of(handles)) is Verdict.COMMITTED
    assert settled_by(after, TX, handles, now_ms=10**15) is after  # the answer was lost, and it is tried again
    assert verdict(after, OTHER, acks_of(handles)) is Verdict.LOST


@both
def test_one_that_cannot_be_settled_lets_none_be(orderly: bool) -> None:
    cell, handles = out("a", "b", orderly=orderly)
    acked = acknowledged(cell, handles[1], now_ms=5)
    with pytest.raises(SettledElsewhere, match="was settled before, or given up") as refused:
        settled_by(acked, TX, handles, now_ms=5)
    assert refused.value.object == "orders, queue 0, offset 1, attempt 1"
    assert verdict(acked, TX, acks_of(handles)) is Verdict.LOST
    with pytest.raises(ReceiptExpired):
        settled_by(cell, TX, handles, now_ms=10**15)
    assert verdict(cell, TX, acks_of(handles)) is Verdict.OPEN  # a write with an earlier clock may still come


def test_what_comes_behind_a_message_that_others_may_settle_may_be_settled_yet() -> None:
    cell, (first, second) = out("a", "a")
    with pytest.raises(ReceiptAhead):
        settled_by(cell, TX, [second], now_ms=5)
    assert verdict(cell, TX, acks_of([second])) is Verdict.OPEN
    cell = settled_by(acknowledged(cell, first, now_ms=5), TX, [second], now_ms=5)
    assert verdict(cell, TX, acks_of([second])) is Verdict.COMMITTED


@both
def test_a_delivery_that_ended_can_never_be_settled(orderly: bool) -> None:
    cell, handles = out("a", orderly=orderly)
    acks = acks_of(handles)
    ways: list[Callable[[QueueCell], QueueCell]] = [
        lambda cell: expired(cell, 11_000, GroupSettings()).cell,
        lambda cell: expired(cell, 11_000, replace(GroupSettings(), max_attempts=1)).cell,
        lambda cell: returned(cell, handles[0]),
        lambda cell: cell.reset_to(0, 1),
        lambda cell: acknowledged(cell, handles[0], now_ms=5),
        lambda cell: without_caught_up(acknowledged(cell, handles[0], now_ms=5), [handles[0].lane or 0]),
        lambda cell: ended(cell, acks, now_ms=10_000),
        lambda cell: ended(cell, acks, now_ms=None),
    ]
    for way in ways:
        after = way(cell)
        assert verdict(after, TX, acks) is Verdict.LOST
        with pytest.raises(ReceiptRefused):
            settled_by(after, TX, handles, now_ms=0)
    assert verdict(None, TX, acks) is Verdict.OPEN


@both
def test_ending_spares_what_is_not_due_and_what_others_were_given_since(orderly: bool) -> None:
    cell, handles = out("a", "a", orderly=orderly)
    acks = acks_of(handles)
    assert ended(cell, acks, now_ms=9_999) is cell
    longer = changed_invisible_duration(cell, handles[0], due_ms=50_000, now_ms=5)
    if orderly:
        assert ended(longer, acks, now_ms=49_999) is longer
    after = ended(longer, acks, now_ms=50_000)
    assert all(one.strikes == 0 for one in (*after.tries.values(), *(marker.tries for marker in after.markers.values())))
    assert ended(cell.reset_to(0, 1), acks, now_ms=None) == cell.reset_to(0, 1)
    _, ready, _ = handed_out("a", "a", orderly=orderly)
    ready.adopt(after)
    step, ((again, *_),) = ready.plan(60_000, [ReceiveRequest(2, 70_000)])
    given = step.apply(after)
    assert again.delivery_attempt == 2
    assert ended(given, acks, now_ms=None) is given
    assert verdict(settled_by(given, OTHER, [handle(again)], now_ms=60_001), TX, acks) is Verdict.LOST


def test_only_messages_of_one_queue_and_not_too_many_go_together() -> None:
    with pytest.raises(InvalidArgument, match="one transaction settles messages of one queue") as refused:
        acks_of([HANDLE, structs.replace(HANDLE, queue=4)])
    assert (refused.value.expected, refused.value.observed) == (
        "messages of %DLQ%billing, queue 3, received by group audit",
        "one of %DLQ%billing, queue 4, received by group audit",
    )
    for other in (structs.replace(HANDLE, group="else"), structs.replace(HANDLE, topic="else")):
        with pytest.raises(InvalidArgument):
            acks_of([HANDLE, other])
    with pytest.raises(ReceiptOutdated, match="reset between two"):
        acks_of([HANDLE, structs.replace(HANDLE, generation=3)])
    with pytest.raises(LimitExceeded, match="too many messages for one transaction to settle"):
        acks_of([structs.replace(HANDLE, offset=offset, following=None) for offset in range(ACKED_MAX + 1)])
    assert acks_of([HANDLE, HANDLE]).acked == (AckedDelivery(HANDLE.offset, HANDLE.attempt, HANDLE.lane),)


def test_the_cell_takes_no_more_transactions_than_it_has_room_for() -> None:
    cell, handles = out("a")
    for number in range(UNNOTED_MAX):
        cell = cell.with_transaction(f"{number:032x}")
    with pytest.raises(TooManyUnnoted, match="penstock maintain"):
        settled_by(cell, TX, handles, now_ms=5)
    assert settled_by(cell, f"{7:032x}", handles, now_ms=5) is cell


@pytest.mark.parametrize("seed", range(thoroughly(60, 15)))
def test_a_verdict_is_final_whatever_else_becomes_of_the_queue(seed: int) -> None:
    """Acknowledgements of others, ends, new deliveries, takes and resets in any order: what was lost is never settled, and what is
    committed stays so, and takes all the messages with it.
    """
    rng = random.Random(seed)
    orderly = rng.random() < 0.5
    cell, ready, messages = handed_out(*rng.choices("ab", k=4), orderly=orderly)
    handles = [handle(one) for one in messages]
    mine = rng.sample(handles, rng.randint(1, 3))
    acks, now_ms, said = acks_of(mine), 1, Verdict.OPEN
    for _ in range(30):
        now_ms += rng.choice((1, 1, 4_000))
        one = rng.choice(handles)
        try:
            match rng.randrange(8):
                case 0:
                    cell = acknowledged(cell, one, now_ms=now_ms)
                case 1:
                    cell = expired(cell, now_ms, GroupSettings()).cell
                case 2:
                    cell = changed_invisible_duration(cell, one, due_ms=now_ms + rng.choice((0, 9_000)), now_ms=now_ms)
                case 3:
                    cell = cell.taken_by(f"w{now_ms}")
                case 4:
                    ready.adopt(cell)
                    ready.reread(list(messages), 0, 0)
                    step, given = ready.plan(now_ms, [ReceiveRequest(2, now_ms + 9_000)])
                    cell = step.apply(cell)
                    handles += [handle(view) for view in given[0]]
                case 5:
                    cell = ended(cell, acks, now_ms=now_ms)
                case 6 if rng.random() < 0.1:
                    cell = cell.reset_to(0, cell.generation + 1)
                case _:
                    cell = settled_by(cell, TX, mine, now_ms=now_ms)
        except ReceiptRefused:
            pass
        cell = decode_cell(encode_cell(cell), where="here")
        now = verdict(cell, TX, acks)
        assert now is said or said is Verdict.OPEN
        said = now
        if said is Verdict.LOST:
            with pytest.raises(ReceiptRefused):
                settled_by(cell, TX, mine, now_ms=0)
