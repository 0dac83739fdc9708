"""What a cell tells of each message, in every state that it can be in."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from penstock.consumers.trace.status import DeliveryState, StoredStatus, status_of
from penstock.coordinator.queues.cell import DeadLetters, Marker, MessageState, QueueCell, Tries
from penstock.coordinator.queues.offsets import OffsetSet, SettledOffsets

LANE, OTHER = 7, 8


def at(cell: QueueCell, offset: int, *, lane: int = LANE, begun_at: int = 0, passes: bool = True) -> StoredStatus:
    return status_of(cell, offset, lane=lane, begun_at=begun_at, passes=passes)


def test_what_goes_straight_through() -> None:
    cell = QueueCell(settled=SettledOffsets(4)).with_granted(OffsetSet(5, 0b11))
    assert at(cell, 3) == StoredStatus(fate=DeliveryState.SETTLED)
    assert at(cell, 3, begun_at=4) == StoredStatus(fate=DeliveryState.PASSED_OVER)
    assert at(cell, 4) == at(cell, 7) == StoredStatus(fate=DeliveryState.FRESH, attempts=0, failed_attempts=0)
    assert at(cell, 5) == at(cell, 6) == StoredStatus(fate=DeliveryState.IN_FLIGHT, attempts=1, failed_attempts=0)
    assert at(cell.with_settled(OffsetSet(6, 1)), 6).fate is DeliveryState.SETTLED


@pytest.mark.parametrize(
    ("state", "fate", "due"),
    [
        (MessageState.WAITING, DeliveryState.WAITING, 99),
        (MessageState.RUNNING, DeliveryState.IN_FLIGHT, None),
        (MessageState.OUT, DeliveryState.RECEIVED, 99),
        (MessageState.SUSPECT, DeliveryState.SUSPECT, None),
    ],
)
def test_what_is_tracked_by_itself(state: MessageState, fate: DeliveryState, due: int | None) -> None:
    cell = QueueCell(settled=SettledOffsets(4)).with_tries(2, Tries(state, 3, 2, 99, 1))
    assert at(cell, 2) == StoredStatus(fate=fate, attempts=3, failed_attempts=2, due_ms=due)


def test_a_worker_that_died_leaves_suspects() -> None:
    cell = QueueCell(owner="a").with_granted(OffsetSet(0, 0b11)).taken_by("b")
    assert at(cell, 1) == StoredStatus(fate=DeliveryState.SUSPECT, attempts=1, failed_attempts=0)


@pytest.mark.parametrize(
    ("state", "fate"),
    [
        (MessageState.WAITING, DeliveryState.WAITING),
        (MessageState.PARKED, DeliveryState.PARKED),
        (MessageState.SUSPECT, DeliveryState.SUSPECT),
    ],
)
def test_a_blocked_message_group(state: MessageState, fate: DeliveryState) -> None:
    tries = Tries(state, 3, 2, 99)
    cell = QueueCell(settled=SettledOffsets(9)).with_markers({LANE: Marker(4, 6, tries)}, OffsetSet())
    assert at(cell, 3) == StoredStatus(fate=DeliveryState.SETTLED)
    assert at(cell, 4) == StoredStatus(
        fate=fate, attempts=3, failed_attempts=2, due_ms=99 if state is MessageState.WAITING else None
    )
    assert at(cell, 5) == StoredStatus(fate=DeliveryState.BEHIND, attempts=3, behind=4)
    assert at(cell, 8) == at(cell, 12) == StoredStatus(fate=DeliveryState.BEHIND, attempts=0, behind=4)
    assert at(cell, 5, lane=OTHER) == StoredStatus(fate=DeliveryState.SETTLED)
    assert at(cell, 12, lane=OTHER).fate is DeliveryState.FRESH


@pytest.mark.parametrize(
    ("state", "fate", "due"),
    [(MessageState.RUNNING, DeliveryState.IN_FLIGHT, None), (MessageState.OUT, DeliveryState.RECEIVED, 99)],
)
def test_a_blocked_message_group_of_which_some_are_out(state: MessageState, fate: DeliveryState, due: int | None) -> None:
    cell = QueueCell(settled=SettledOffsets(9)).with_markers({LANE: Marker(4, 6, Tries(state, 3, 2, 99))}, OffsetSet())
    assert at(cell, 4) == StoredStatus(fate=fate, attempts=3, failed_attempts=2, due_ms=due)
    assert at(cell, 5) == StoredStatus(fate=fate, attempts=3, due_ms=due)
    assert at(cell, 6) == StoredStatus(fate=DeliveryState.BEHIND, attempts=0, behind=4)


def test_what_was_given_up() -> None:
    cell = QueueCell(settled=SettledOffsets(4)).with_dead_letters([2])
    assert at(cell, 2) == StoredStatus(fate=DeliveryState.GIVEN_UP)
    assert at(replace(cell, dead_letters=DeadLetters(1)), 2) == StoredStatus(fate=DeliveryState.SETTLED)


def test_what_the_filter_leaves_out_waits_for_nothing() -> None:
    blocked = QueueCell(settled=SettledOffsets(4)).with_markers({LANE: Marker(1, 1, Tries(MessageState.WAITING))}, OffsetSet())
    for offset in (0, 2, 5):
        assert at(blocked, offset, passes=False) == StoredStatus(fate=DeliveryState.LEFT_OUT)
    tried = blocked.with_tries(2, Tries(MessageState.WAITING, 2, 1, 5))
    assert at(tried, 2, passes=False).fate is DeliveryState.WAITING, "it was taken when the filter was another"
