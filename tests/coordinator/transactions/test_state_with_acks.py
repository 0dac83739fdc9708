"""A transaction's row whose decision is the write of a queue's cell: nothing else decides it, however old it is."""

from __future__ import annotations

import pytest

from penstock.coordinator.transactions.errors import AcksDecide, TransactionCommitted, TransactionExpired, TransactionRolledBack
from penstock.coordinator.transactions.members.acks import AckedDelivery, Acks
from penstock.coordinator.transactions.members.codec import decode_member, encode_member
from penstock.coordinator.transactions.members.state import AGE_MAX_MS, Decider, Decision, HalfPart, MemberCell
from penstock.log.errors import InternalError

ID = "0123456789abcdef" * 2
ACKS = Acks(
    group="audit",
    topic="orders",
    queue=3,
    generation=1,
    acked=(AckedDelivery(7, 1), AckedDelivery(9, 2, 2**64 - 1), AckedDelivery(12, 1, 0)),
)
PART = HalfPart(100, "0" * 32, 2)


def begun() -> MemberCell:
    return MemberCell(group="pricing").with_half(ID, "priced", "1", 0, PART, now_ms=1, first_check_ms=60_000, first=True)


def test_its_commit_begins_once_and_is_stored() -> None:
    cell = begun().with_acks(ID, ACKS, now_ms=5)
    assert cell.with_acks(ID, ACKS, now_ms=AGE_MAX_MS * 2) is cell
    assert decode_member(encode_member(cell), where="here") == cell
    assert [row.id for row in cell.to_judge()] == [ID]
    assert cell.to_check(10**15) == []  # its checker could not know either
    with pytest.raises(InternalError):
        cell.with_acks(ID, Acks(group="audit", topic="orders", queue=3, generation=1, acked=()), now_ms=5)


def test_nothing_more_is_sent_once_its_commit_has_begun() -> None:
    cell = begun().with_acks(ID, ACKS, now_ms=5)
    with pytest.raises(AcksDecide):
        cell.with_half(ID, "priced", "1", 1, PART, now_ms=6, first_check_ms=None, first=False)


@pytest.mark.parametrize("by", [Decider.OWNER, Decider.CHECKER, Decider.OPERATOR, Decider.CHECKS, Decider.AGE])
@pytest.mark.parametrize("decision", [Decision.COMMITTED, Decision.ROLLED_BACK])
def test_nobody_decides_it_but_the_queues_cell(by: Decider, decision: Decision) -> None:
    cell = begun().with_acks(ID, ACKS, now_ms=5)
    with pytest.raises(AcksDecide, match="the write that settles them decides it"):
        cell.decided(ID, decision, by, now_ms=6)
    after = cell.decided(ID, decision, Decider.ACKS, now_ms=6)
    assert after.row(ID).decision is decision
    assert after.decided(ID, decision, by, now_ms=7) is after


def test_age_rolls_back_none_that_a_queues_cell_may_have_committed() -> None:
    cell = begun().with_acks(ID, ACKS, now_ms=5)
    assert cell.aged(AGE_MAX_MS * 9) == []
    after = cell.decided(ID, Decision.COMMITTED, Decider.ACKS, now_ms=AGE_MAX_MS * 9)
    assert after.row(ID).decision is Decision.COMMITTED


def test_a_commit_that_begins_too_late_is_refused_and_rolls_it_back() -> None:
    cell = begun().with_acks(ID, ACKS, now_ms=1 + AGE_MAX_MS)
    assert (cell.row(ID).decision, cell.row(ID).acks) == (Decision.ROLLED_BACK, None)
    with pytest.raises(TransactionExpired):
        cell.with_acks(ID, ACKS, now_ms=1 + AGE_MAX_MS)
    rolled_back = begun().decided(ID, Decision.ROLLED_BACK, Decider.OWNER, now_ms=5)
    with pytest.raises(TransactionRolledBack):
        rolled_back.with_acks(ID, ACKS, now_ms=6)


def test_finished_by_its_sender_it_leaves_at_once_and_else_it_stays() -> None:
    committed = begun().with_acks(ID, ACKS, now_ms=5).decided(ID, Decision.COMMITTED, Decider.ACKS, now_ms=6)
    assert committed.with_finished(ID, {}, now_ms=7).rows == {}
    claimed = committed.with_claim(ID).with_finished(ID, {}, now_ms=7)
    assert claimed.row(ID).is_finished
    assert decode_member(encode_member(claimed), where="here") == claimed


def test_whoever_comes_too_late_is_told_what_became_of_its_messages() -> None:
    committed = begun().with_acks(ID, ACKS, now_ms=5).decided(ID, Decision.COMMITTED, Decider.ACKS, now_ms=6)
    with pytest.raises(TransactionCommitted, match="observed: by the messages that it settles"):
        committed.decided(ID, Decision.ROLLED_BACK, Decider.OWNER, now_ms=7)
    lost = begun().with_acks(ID, ACKS, now_ms=5).decided(ID, Decision.ROLLED_BACK, Decider.ACKS, now_ms=6)
    with pytest.raises(TransactionRolledBack, match="observed: its messages were settled elsewhere, or handed out again"):
        lost.decided(ID, Decision.COMMITTED, Decider.OWNER, now_ms=7)
