"""What becomes of a transaction's row, by any order of sends, decisions and ends."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.coordinator.transactions.errors import (
    AcksDecide,
    TransactionCommitted,
    TransactionExpired,
    TransactionNotFound,
    TransactionRolledBack,
)
from penstock.coordinator.transactions.members.state import (
    AGE_MAX_MS,
    KEPT_MS,
    Decider,
    Decision,
    HalfPart,
    LinkResult,
    MemberCell,
)
from penstock.log.errors import CallError, InternalError, TopicDeleted

ID, OTHER = "ab" * 16, "cd" * 16
PART = HalfPart(1000, "12" * 16, 2)
NOW_MS = 1_700_000_000_000


def sent(
    cell: MemberCell | None = None, *, number: int = 0, topic: str = "orders", first: bool = True, life: str = "one"
) -> MemberCell:
    cell = cell or MemberCell(group="shop")
    return cell.with_half(ID, topic, life, number, PART, now_ms=NOW_MS, first_check_ms=60_000, first=first)


def committed(by: Decider = Decider.OWNER) -> MemberCell:
    return sent().decided(ID, Decision.COMMITTED, by, now_ms=NOW_MS)


def test_the_first_send_makes_the_row_and_later_ones_add_to_it() -> None:
    cell = sent(sent(sent(), number=1, first=False), topic="bookings", first=False)
    row = cell.row(ID)
    assert [(one.topic, len(one.parts), one.messages) for one in row.destinations] == [("orders", 2, 4), ("bookings", 1, 2)]
    assert (row.created_ms, row.next_check_ms, row.messages, cell.used_ms) == (NOW_MS, NOW_MS + 60_000, 6, NOW_MS)


def test_a_send_that_stands_already_changes_nothing_and_another_in_its_place_is_a_bug() -> None:
    cell = sent()
    assert sent(cell) is cell
    with pytest.raises(InternalError, match="two parts"):
        cell.with_half(ID, "orders", "one", 0, replace(PART, size_bytes=1), now_ms=NOW_MS, first_check_ms=None, first=False)
    with pytest.raises(InternalError, match=r"a part of a transaction is missing.*expected: 1; observed: 2"):
        sent(cell, number=2)


def test_a_row_that_has_left_is_never_made_again_but_by_the_first_send() -> None:
    with pytest.raises(TransactionNotFound, match="no transaction of this id is known"):
        sent(number=1, first=False)
    with pytest.raises(TransactionNotFound, match="idle for long"):
        sent(MemberCell(group="shop", left=True))


def test_a_topic_that_was_made_again_is_another() -> None:
    with pytest.raises(TopicDeleted, match="deleted and created again since the transaction's first message"):
        sent(sent(), number=1, first=False, life="two")


@pytest.mark.parametrize(
    ("decision", "by", "error", "said"),
    [
        (Decision.COMMITTED, Decider.CHECKER, TransactionCommitted, "the transaction is committed.*by a check-back"),
        (Decision.ROLLED_BACK, Decider.OPERATOR, TransactionRolledBack, "was rolled back.*by an operator.*undo the local work"),
        (Decision.ROLLED_BACK, Decider.CHECKS, TransactionExpired, "has expired.*did not know, as often as it was asked"),
        (Decision.ROLLED_BACK, Decider.AGE, TransactionExpired, "has expired.*more than 4 hours"),
    ],
)
def test_who_comes_too_late_is_told_what_became_of_it(decision: Decision, by: Decider, error: type[CallError], said: str) -> None:
    cell = sent().decided(ID, decision, by, now_ms=NOW_MS)
    assert cell.decided(ID, decision, Decider.OWNER, now_ms=NOW_MS) is cell
    other = Decision.ROLLED_BACK if decision is Decision.COMMITTED else Decision.COMMITTED
    with pytest.raises(error, match=said) as refused:
        cell.decided(ID, other, Decider.OWNER, now_ms=NOW_MS)
    assert refused.value.operation == ("commit" if other is Decision.COMMITTED else "roll back")
    with pytest.raises(error, match=said):
        sent(cell, number=1, first=False)
    with pytest.raises(error, match=said):
        cell.with_check(ID, checks=1, now_ms=NOW_MS, every_ms=1)


@pytest.mark.parametrize("by", [Decider.CHECKER, Decider.OPERATOR])
def test_nobody_else_commits_one_without_a_checker(by: Decider) -> None:
    """It is to settle messages, and which is not known before its sender commits."""
    cell = MemberCell(group="shop").with_half(ID, "orders", "one", 0, PART, now_ms=NOW_MS, first_check_ms=None, first=True)
    with pytest.raises(AcksDecide, match="the write that settles them decides it"):
        cell.decided(ID, Decision.COMMITTED, by, now_ms=NOW_MS)
    assert cell.decided(ID, Decision.ROLLED_BACK, by, now_ms=NOW_MS).row(ID).decision is Decision.ROLLED_BACK
    assert cell.decided(ID, Decision.COMMITTED, Decider.OWNER, now_ms=NOW_MS).row(ID).decision is Decision.COMMITTED


def test_a_commit_after_four_hours_rolls_back() -> None:
    late_ms = NOW_MS + AGE_MAX_MS
    assert sent().decided(ID, Decision.COMMITTED, Decider.OWNER, now_ms=late_ms - 1).row(ID).decision is Decision.COMMITTED
    row = sent().decided(ID, Decision.COMMITTED, Decider.OWNER, now_ms=late_ms).row(ID)
    assert (row.decision, row.by) == (Decision.ROLLED_BACK, Decider.AGE)
    assert committed().decided(ID, Decision.COMMITTED, Decider.OWNER, now_ms=late_ms) == committed(), "it was in time"
    assert [row.id for row in sent().aged(late_ms)] == [ID]
    assert sent().aged(late_ms - 1) == committed().aged(late_ms) == []


def test_checks_are_counted_once_each() -> None:
    cell = sent().with_check(ID, checks=1, now_ms=NOW_MS, every_ms=60_000)
    assert cell.with_check(ID, checks=1, now_ms=NOW_MS, every_ms=60_000) is cell, "the same write, tried again"
    with pytest.raises(TransactionNotFound, match="another has asked"):
        cell.with_check(ID, checks=1, now_ms=NOW_MS + 5, every_ms=60_000)
    assert [row.checks for row in cell.to_check(NOW_MS + 60_000)] == [1]
    assert cell.to_check(NOW_MS + 59_999) == []


def test_what_its_owner_decided_and_finished_alone_is_forgotten_at_once() -> None:
    assert committed().with_finished(ID, {}, now_ms=NOW_MS).rows == {}
    assert committed().to_finish() == [committed().row(ID)]


@pytest.mark.parametrize(
    "cell", [committed(Decider.CHECKER), committed().with_claim(ID)], ids=["another decided", "another may link"]
)
def test_what_another_had_a_hand_in_is_kept_for_a_day(cell: MemberCell) -> None:
    linked = {"orders": LinkResult(7, {0: (5, 7)})}
    done = cell.with_finished(ID, linked, now_ms=NOW_MS)
    assert done.row(ID).destinations[0].linked == LinkResult(7, {0: (5, 7)})
    assert done.row(ID).messages == 2
    assert done.with_finished(ID, {}, now_ms=NOW_MS + 1) is done
    assert done.with_claim(ID) is done
    assert done.to_finish() == []
    assert done.holds(ID), "until it is forgotten a late link must find the upload closed"
    assert done.without_old(NOW_MS + KEPT_MS - 1) is done
    assert done.without_old(NOW_MS + KEPT_MS).rows == {}


def test_open_and_committed_ones_hold_what_they_staged_and_no_others() -> None:
    assert sent().holds(ID)
    assert committed().holds(ID)
    assert not sent().decided(ID, Decision.ROLLED_BACK, Decider.OWNER, now_ms=NOW_MS).holds(ID)
    assert not sent().holds(OTHER)


def test_an_open_one_is_never_finished() -> None:
    with pytest.raises(InternalError, match="before it is decided"):
        sent().with_finished(ID, {}, now_ms=NOW_MS)
    assert sent().with_finished(OTHER, {}, now_ms=NOW_MS) == sent()


def test_a_first_send_in_doubt_is_withdrawn_by_a_write() -> None:
    empty = MemberCell(group="shop", used_ms=NOW_MS + 5)
    assert empty.withdrawn(ID, now_ms=NOW_MS).used_ms == NOW_MS + 6, "so that no earlier write can land"
    assert sent().withdrawn(ID, now_ms=NOW_MS).row(ID).decision is Decision.ROLLED_BACK
    with pytest.raises(TransactionCommitted):
        committed().withdrawn(ID, now_ms=NOW_MS)


def test_only_a_member_that_was_idle_for_a_day_may_be_taken_off() -> None:
    empty = MemberCell(group="shop")
    assert not empty.is_idle(NOW_MS), "not before somebody has seen it"
    seen = empty.as_seen(NOW_MS)
    assert seen.as_seen(NOW_MS + 1) is seen
    assert not seen.is_idle(NOW_MS + KEPT_MS - 1)
    assert seen.is_idle(NOW_MS + KEPT_MS)
    assert not sent().is_idle(NOW_MS + KEPT_MS)
    with pytest.raises(InternalError, match="that has transactions"):
        sent().as_left()
