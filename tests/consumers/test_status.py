"""What a cell tells of each message, in every state that it can be in."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.consumers.trace.status import Fate, StoredStatus, standing_of
from penstock.coordinator.queues.cell import DeadLetters, Marker, QueueCell, State, Tries
from penstock.coordinator.queues.offsets import OffsetSet, Settled

LANE, OTHER = 7, 8


def at(cell: QueueCell, offset: int, *, lane: int = LANE, begun_at: int = 0, passes: bool = True) -> StoredStatus:
    return standing_of(cell, offset, lane=lane, begun_at=begun_at, passes=passes)


def test_what_goes_straight_through() -> None:
    cell = QueueCell(settled=Settled(4)).with_granted(OffsetSet(5, 0b11))
    assert at(cell, 3) == StoredStatus(fate=Fate.SETTLED)
    assert at(cell, 3, begun_at=4) == StoredStatus(fate=Fate.PASSED_OVER)
    assert at(cell, 4) == at(cell, 7) == StoredStatus(fate=Fate.FRESH, attempts=0, strikes=0)
    assert at(cell, 5) == at(cell, 6) == StoredStatus(fate=Fate.IN_FLIGHT, attempts=1, strikes=0)
    assert at(cell.with_settled(OffsetSet(6, 1)), 6).fate is Fate.SETTLED


@pytest.mark.parametrize(
    ("state", "fate", "due"),
    [
        (State.WAITING, Fate.WAITING, 99),
        (State.RUNNING, Fate.IN_FLIGHT, None),
        (State.OUT, Fate.RECEIVED, 99),
        (State.SUSPECT, Fate.SUSPECT, None),
    ],
)
def test_what_is_tracked_by_itself(state: State, fate: Fate, due: int | None) -> None:
    cell = QueueCell(settled=Settled(4)).with_tries(2, Tries(state, 3, 2, 99, 1))
    assert at(cell, 2) == StoredStatus(fate=fate, attempts=3, strikes=2, due_ms=due)


def test_a_worker_that_died_leaves_suspects() -> None:
    cell = QueueCell(owner="a").with_granted(OffsetSet(0, 0b11)).taken_by("b")
    assert at(cell, 1) == StoredStatus(fate=Fate.SUSPECT, attempts=1, strikes=0)


@pytest.mark.parametrize(
    ("state", "fate"), [(State.WAITING, Fate.WAITING), (State.PARKED, Fate.PARKED), (State.SUSPECT, Fate.SUSPECT)]
)
def test_a_blocked_message_group(state: State, fate: Fate) -> None:
    tries = Tries(state, 3, 2, 99)
    cell = QueueCell(settled=Settled(9)).with_markers({LANE: Marker(4, 6, tries)}, OffsetSet())
    assert at(cell, 3) == StoredStatus(fate=Fate.SETTLED)
    assert at(cell, 4) == StoredStatus(fate=fate, attempts=3, strikes=2, due_ms=99 if state is State.WAITING else None)
    assert at(cell, 5) == StoredStatus(fate=Fate.BEHIND, attempts=3, behind=4)
    assert at(cell, 8) == at(cell, 12) == StoredStatus(fate=Fate.BEHIND, attempts=0, behind=4)
    assert at(cell, 5, lane=OTHER) == StoredStatus(fate=Fate.SETTLED)
    assert at(cell, 12, lane=OTHER).fate is Fate.FRESH


@pytest.mark.parametrize(("state", "fate", "due"), [(State.RUNNING, Fate.IN_FLIGHT, None), (State.OUT, Fate.RECEIVED, 99)])
def test_a_blocked_message_group_of_which_some_are_out(state: State, fate: Fate, due: int | None) -> None:
    cell = QueueCell(settled=Settled(9)).with_markers({LANE: Marker(4, 6, Tries(state, 3, 2, 99))}, OffsetSet())
    assert at(cell, 4) == StoredStatus(fate=fate, attempts=3, strikes=2, due_ms=due)
    assert at(cell, 5) == StoredStatus(fate=fate, attempts=3, due_ms=due)
    assert at(cell, 6) == StoredStatus(fate=Fate.BEHIND, attempts=0, behind=4)


def test_what_was_given_up() -> None:
    cell = QueueCell(settled=Settled(4)).with_dead_letters([2])
    assert at(cell, 2) == StoredStatus(fate=Fate.GIVEN_UP)
    assert at(replace(cell, dead_letters=DeadLetters(1)), 2) == StoredStatus(fate=Fate.SETTLED)


def test_what_the_filter_leaves_out_waits_for_nothing() -> None:
    blocked = QueueCell(settled=Settled(4)).with_markers({LANE: Marker(1, 1, Tries(State.WAITING))}, OffsetSet())
    for offset in (0, 2, 5):
        assert at(blocked, offset, passes=False) == StoredStatus(fate=Fate.LEFT_OUT)
    tried = blocked.with_tries(2, Tries(State.WAITING, 2, 1, 5))
    assert at(tried, 2, passes=False).fate is Fate.WAITING, "it was taken when the filter was another"
